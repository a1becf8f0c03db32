"""Serves faster-whisper as OpenAI's transcriptions and translations, for one model folder in CTranslate2's format.

An upload is held in memory and is limited. What cannot be decoded is the caller's mistake and answered as such. With
`stream` each segment is told as soon as it is understood, as OpenAI's events; a caller that leaves ends the work.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import io
import json
import math
import os
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import BodyPartReader, web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

BODY_LIMIT_BYTES = 64 << 20
FIELD_LIMIT_BYTES = 16 << 10
FIELDS_MAX = 32
FORMATS = ("json", "text", "verbose_json", "srt", "vtt")
STREAMED_FORMATS = ("json", "text")


def main() -> int:
    parser = common_options((__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--compute-type", default="default", help="int8, float16, ...; default: what the model was saved in"
    )
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--vad", type=switch, default=False, help="skip what is not speech")
    options = parser.parse_args()
    try:
        import faster_whisper
    except ImportError as error:
        print(f"error: the engine cannot be loaded: {error}", file=sys.stderr, flush=True)
        return 1
    if options.check:
        print(faster_whisper.__version__, flush=True)
        return 0

    def load() -> Any:
        return faster_whisper.WhisperModel(
            options.model,
            device=options.device,
            compute_type=options.compute_type,
            cpu_threads=options.threads,
            num_workers=options.parallel,
            local_files_only=True,
        )

    routes = {
        "/v1/audio/transcriptions": partial(hear, options, "transcribe"),
        "/v1/audio/translations": partial(hear, options, "translate"),
    }
    serve(options, load, routes)
    return 0


def switch(text: str) -> bool:
    """A model's setting is a text."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


async def hear(options: argparse.Namespace, task: str, desk: Desk, request: web.Request) -> web.StreamResponse:
    fields, audio = await read_upload(request)
    form = fields.get("response_format", "json")
    if form not in FORMATS:
        raise Refused(400, f"response_format {form!r} is not one of {', '.join(FORMATS)}.")
    wish = {
        "task": task,
        "language": fields.get("language") or None,
        "initial_prompt": fields.get("prompt") or None,
        "beam_size": options.beam_size,
        "vad_filter": options.vad,
        "word_timestamps": "word" in fields.get("timestamp_granularities[]", ""),
    }
    temperature = number(fields.get("temperature", "0"), "temperature")
    if temperature:
        wish["temperature"] = temperature
    if fields.get("stream", "").lower() not in ("true", "1"):
        return written(await desk.work(transcribe, audio, wish), form)
    if form not in STREAMED_FORMATS:
        raise Refused(400, f"A stream has no response_format {form!r}: it is {' or '.join(STREAMED_FORMATS)}.")
    return await stream_events(desk, request, audio, wish)


async def stream_events(desk: Desk, request: web.Request, audio: bytes, wish: dict[str, Any]) -> web.StreamResponse:
    """Write OpenAI's events: a delta for each segment, then the whole text.

    Nothing is sent before the first segment, so what cannot be decoded still gets a status of its own.
    """
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[str | None]()
    has_left = threading.Event()

    def tell(text: str) -> None:
        if has_left.is_set():
            raise Refused(499, "The caller has left.", "client_left")
        loop.call_soon_threadsafe(pieces.put_nowait, text)

    working = asyncio.create_task(desk.work(partial(transcribe, tell=tell), audio, wish))
    working.add_done_callback(lambda _: pieces.put_nowait(None))
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    try:
        while (piece := await pieces.get()) is not None:
            await write_event(request, answer, {"type": "transcript.text.delta", "delta": piece})
        fault = working.exception()
        if fault is not None and not answer.prepared:
            raise fault
        if fault is not None:
            await write_event(request, answer, {"error": {"message": str(fault), "type": "server_error"}})
        else:
            await write_event(request, answer, {"type": "transcript.text.done", "text": working.result()["text"]})
            await answer.write(b"data: [DONE]\n\n")
    finally:
        has_left.set()
    return answer


async def write_event(request: web.Request, answer: web.StreamResponse, event: dict[str, Any]) -> None:
    if not answer.prepared:
        await answer.prepare(request)
    await answer.write(f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())


async def read_upload(request: web.Request) -> tuple[dict[str, str], bytes]:
    """The fields of the form, and the file among them."""
    if request.content_type != "multipart/form-data":
        raise Refused(400, "The body is not multipart/form-data.")
    if (request.content_length or 0) > BODY_LIMIT_BYTES:
        raise Refused(413, f"The body is larger than {BODY_LIMIT_BYTES >> 20} MiB.")
    fields: dict[str, str] = {}
    audio: bytes | None = None
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader) or not part.name or len(fields) >= FIELDS_MAX:
            raise Refused(400, "The form has a part without a name, a form within the form, or too many fields.")
        is_file = part.name == "file"
        content = await limited(part, BODY_LIMIT_BYTES if is_file else FIELD_LIMIT_BYTES)
        if is_file:
            audio = content
        else:
            text = content.decode(errors="replace")
            fields[part.name] = f"{fields[part.name]},{text}" if part.name in fields else text
    if not audio:
        raise Refused(400, "The form has no file.")
    return fields, audio


async def limited(part: BodyPartReader, limit: int) -> bytes:
    content = bytearray()
    while chunk := await part.read_chunk(1 << 16):
        content += chunk
        if len(content) > limit:
            raise Refused(413, f"{part.name} is larger than {limit} bytes.")
    return bytes(content)


def number(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise Refused(400, f"{name} is not a number from 0 to 1.")
    return value


def transcribe(
    model: Any, audio: bytes, wish: dict[str, Any], tell: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """What OpenAI calls verbose_json. The engine computes while its segments are read; `tell` gets the text of each."""
    import av

    if wish["language"] and wish["language"] not in model.supported_languages:
        raise Refused(400, f"language {wish['language']!r} is not known to this model.")
    try:
        segments, about = model.transcribe(io.BytesIO(audio), **wish)
    except (av.FFmpegError, IndexError) as error:
        raise Refused(400, "The file is not audio that can be decoded.") from error
    heard = []
    for place, segment in enumerate(segments):
        heard.append(asdict(segment) | {"id": place})
        if tell is not None:
            tell(segment.text if place else segment.text.lstrip())
    words = [
        {"word": word["word"].strip(), "start": word["start"], "end": word["end"]}
        for segment in heard
        for word in segment.pop("words") or ()
    ]
    return {
        "task": wish["task"],
        "language": about.language,
        "duration": about.duration,
        "text": "".join(segment["text"] for segment in heard).strip(),
        "segments": heard,
        **({"words": words} if wish["word_timestamps"] else {}),
    }


def written(heard: dict[str, Any], form: str) -> web.Response:
    if form == "text":
        return web.Response(text=heard["text"] + "\n")
    if form == "srt":
        return web.Response(text=subtitles(heard["segments"], ","), content_type="application/x-subrip")
    if form == "vtt":
        return web.Response(
            text="WEBVTT\n\n" + subtitles(heard["segments"], ".", numbered=False), content_type="text/vtt"
        )
    usage = {"type": "duration", "seconds": math.ceil(heard["duration"])}
    return web.json_response((heard if form == "verbose_json" else {"text": heard["text"]}) | {"usage": usage})


def subtitles(segments: list[dict[str, Any]], mark: str, *, numbered: bool = True) -> str:
    blocks = []
    for place, segment in enumerate(segments, start=1):
        times = f"{clock(segment['start'], mark)} --> {clock(segment['end'], mark)}"
        blocks.append((f"{place}\n" if numbered else "") + f"{times}\n{segment['text'].strip()}\n\n")
    return "".join(blocks)


def clock(seconds: float, mark: str) -> str:
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{mark}{thousandths:03}"


# ---- serving: the same text in every launcher of an engine without a server of its own; a test compares them ----
WAITING_MAX = 64
GRACE_S = 10.0


class Refused(Exception):
    """A call that gets an error in OpenAI's shape."""

    def __init__(self, status: int, message: str, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.status, self.code = status, code

    def answer(self) -> web.Response:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": str(self), "type": kind, "param": None, "code": self.code}
        headers = {"Retry-After": "1"} if self.status == 503 else None
        return web.json_response({"error": error}, status=self.status, headers=headers)


class Desk:
    """Lets in who has the key, `parallel` at a time, the others in a line of limited length; counts them all."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.name = options.name or Path(options.model).name
        self.key = key_from(options.api_key_env)
        self.engine: Any = None
        self.running = self.waiting = self.served = self.failed = 0
        self._turns = asyncio.Semaphore(options.parallel)
        self._pool = ThreadPoolExecutor(options.parallel)

    async def load(self, load: Callable[[], Any]) -> None:
        loading = asyncio.get_running_loop().run_in_executor(self._pool, load)
        await asyncio.wait([loading])
        if fault := loading.exception():
            print(f"error: the model cannot be loaded: {fault}", file=sys.stderr, flush=True)
            os._exit(1)
        self.engine = loading.result()
        print(f"ready: {self.name}", file=sys.stderr, flush=True)

    async def work(self, call: Callable[..., Any], *arguments: object) -> Any:
        """The result of a call that computes; it runs in a thread."""
        if self.engine is None:
            raise Refused(503, "Loading model", "loading")
        if self.waiting >= WAITING_MAX:
            raise Refused(503, f"{WAITING_MAX} calls are waiting already.", "overloaded")
        self.waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            return await self._computed(call, *arguments)
        finally:
            self.running -= 1
            self._turns.release()

    async def _computed(self, call: Callable[..., Any], *arguments: object) -> Any:
        computing = asyncio.get_running_loop().run_in_executor(self._pool, call, self.engine, *arguments)
        await asyncio.wait([computing])
        fault = computing.exception()
        if fault is None or isinstance(fault, Refused):
            return computing.result()
        traceback.print_exception(fault)
        raise Refused(500, "The engine failed at this call; its log says how.", "internal") from fault

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.key and request.path != "/health" and not hmac.compare_digest(shown.encode(), self.key.encode()):
            return Refused(401, "The key is missing or wrong.", "invalid_api_key").answer()
        try:
            answer = await handler(request)
        except Refused as refused:
            self.failed += 1
            return refused.answer()
        except web.HTTPException as error:
            return Refused(error.status, f"{error.reason}: {request.method} {request.path}", "http").answer()
        self.served += request.method == "POST"
        return answer

    async def health(self, _request: web.Request) -> web.Response:
        if self.engine is None:
            return Refused(503, "Loading model", "loading").answer()
        return web.json_response({"status": "ok"})

    async def models(self, _request: web.Request) -> web.Response:
        model = {"id": self.name, "object": "model", "created": 0, "owned_by": "corral"}
        return web.json_response({"object": "list", "data": [model]})

    async def metrics(self, _request: web.Request) -> web.Response:
        numbers = {
            "corral_engine_requests_processing": ("gauge", self.running),
            "corral_engine_requests_waiting": ("gauge", self.waiting),
            "corral_engine_requests_total": ("counter", self.served),
            "corral_engine_requests_failed_total": ("counter", self.failed),
        }
        lines = [f"# TYPE {name} {kind}\n{name} {value}\n" for name, (kind, value) in numbers.items()]
        return web.Response(text="".join(lines), headers={"Content-Type": "text/plain; version=0.0.4"})


def key_from(variable: str) -> str:
    """The key that callers must show; a variable that was named and is empty must not open the door."""
    key = os.environ.pop(variable, "") if variable else ""
    if variable and not key:
        print(f"error: {variable} is empty, so there is no key to check", file=sys.stderr, flush=True)
        raise SystemExit(1)
    return key


def common_options(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="load the engine, print its version and end")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default="")
    parser.add_argument("--name", default="", help="the model's public name")
    parser.add_argument("--threads", type=int, default=1, help="of one call")
    parser.add_argument("--parallel", type=int, default=1, help="calls at a time")
    parser.add_argument("--api-key-env", default="", help="the variable that holds the key which callers must show")
    return parser


def serve(options: argparse.Namespace, load: Callable[[], Any], routes: Mapping[str, Callable[..., Any]]) -> None:
    """Answer until SIGTERM; then what runs may end, and a load that is under way is dropped."""
    desk = Desk(options)
    app = web.Application(middlewares=[desk.guard], client_max_size=BODY_LIMIT_BYTES)
    app.add_routes([web.get("/health", desk.health), web.get("/v1/models", desk.models)])
    app.add_routes([web.get("/metrics", desk.metrics)])
    app.add_routes([web.post(path, partial(handler, desk)) for path, handler in routes.items()])

    async def start(app: web.Application) -> None:
        app["loading"] = asyncio.create_task(desk.load(load))

    app.on_startup.append(start)
    web.run_app(app, host=options.host, port=options.port, print=None, shutdown_timeout=GRACE_S)
    os._exit(0)


# ---- end of serving ----


if __name__ == "__main__":
    sys.exit(main())
