"""Serves Piper as OpenAI's speech call, for one voice: an ONNX file with its JSON beside it.

MP3 is the default, as in OpenAI's API. MP3 and WAV come at the voice's own rate, PCM at 24 kHz, as OpenAI's callers
expect it. Other formats are refused. An environment that was made before the encoder belonged to it has no MP3, and WAV
is the default there.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import io
import json
import os
import sys
import traceback
import wave
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

BODY_LIMIT_BYTES = 256 << 10
INPUT_MAX = 4096
PCM_RATE = 24_000
FORMATS = ("mp3", "wav", "pcm") if find_spec("lameenc") else ("wav", "pcm")
TYPES = {"mp3": "audio/mpeg", "wav": "audio/wav", "pcm": "audio/pcm"}
MP3_KBIT_PER_S = 64
# LAME's own scale: 2 is slow and good, 7 is fast.
MP3_QUALITY = 5


def main() -> int:
    options = common_options((__doc__ or "").splitlines()[0]).parse_args()
    try:
        import onnxruntime
        import piper
    except ImportError as error:
        print(f"error: the engine cannot be loaded: {error}", file=sys.stderr, flush=True)
        return 1
    if options.check:
        from importlib.metadata import version

        print(version("piper-tts"), flush=True)
        return 0

    def load() -> Any:
        model = voice_file(Path(options.model))
        limits = onnxruntime.SessionOptions()
        limits.intra_op_num_threads = options.threads
        limits.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(model), sess_options=limits, providers=["CPUExecutionProvider"])
        about = json.loads(Path(f"{model}.json").read_text(encoding="utf-8"))
        return piper.PiperVoice(session=session, config=piper.PiperConfig.from_dict(about))

    serve(options, load, {"/v1/audio/speech": speak})
    return 0


def voice_file(path: Path) -> Path:
    """The voice itself, or the only one in a folder."""
    if not path.is_dir():
        return path
    found = sorted(path.glob("*.onnx"))
    if len(found) != 1:
        raise ValueError(f"{path} holds {len(found)} voices, not one")
    return found[0]


async def speak(desk: Desk, request: web.Request) -> web.Response:
    try:
        wish = await request.json()
    except ValueError:
        wish = None
    if not isinstance(wish, dict):
        raise Refused(400, "The body is not a JSON object.")
    text, form, speed = wish.get("input"), wish.get("response_format") or FORMATS[0], wish.get("speed", 1.0)
    if not isinstance(text, str) or not text.strip() or len(text) > INPUT_MAX:
        raise Refused(400, f"input is not a text of 1 to {INPUT_MAX} characters.")
    if form not in FORMATS:
        raise Refused(400, f"response_format {form!r} is not one of {', '.join(FORMATS)}.")
    if not isinstance(speed, (int, float)) or isinstance(speed, bool) or not 0.25 <= speed <= 4:
        raise Refused(400, "speed is not a number from 0.25 to 4.")
    audio = await desk.work(synthesize, text, str(wish.get("voice", "")), speed, form)
    return web.Response(body=audio, content_type=TYPES[form])


def synthesize(voice: Any, text: str, speaker: str, speed: float, form: str) -> bytes:
    import piper

    scale = voice.config.length_scale / speed
    wish = piper.SynthesisConfig(speaker_id=speaker_of(voice.config, speaker), length_scale=scale)
    samples = b"".join(chunk.audio_int16_bytes for chunk in voice.synthesize(text, syn_config=wish))
    rate = voice.config.sample_rate
    write = {"mp3": as_mp3, "wav": as_wav, "pcm": resampled}[form]
    return write(samples, rate)


def speaker_of(config: Any, name: str) -> int | None:
    """A voice of one speaker takes any name; of many, the name is to be one of theirs or none."""
    if config.num_speakers < 2 or not name:
        return None
    if name not in config.speaker_id_map:
        some = ", ".join(sorted(config.speaker_id_map)[:10])
        raise Refused(400, f"voice {name!r} is not one of this model's: {some}, ...")
    return int(config.speaker_id_map[name])


def resampled(samples: bytes, rate: int) -> bytes:
    import numpy as np

    values = np.frombuffer(samples, dtype=np.int16)
    moments = np.arange(int(len(values) * PCM_RATE / rate)) * (rate / PCM_RATE)
    return np.interp(moments, np.arange(len(values)), values).astype("<i2").tobytes()  # type: ignore[no-any-return]


def as_mp3(samples: bytes, rate: int) -> bytes:
    import lameenc

    encoder = lameenc.Encoder()
    encoder.silence()
    encoder.set_channels(1)
    encoder.set_in_sample_rate(rate)
    encoder.set_bit_rate(MP3_KBIT_PER_S)
    encoder.set_quality(MP3_QUALITY)
    return bytes(encoder.encode(samples)) + bytes(encoder.flush())


def as_wav(samples: bytes, rate: int) -> bytes:
    with io.BytesIO() as held:
        with wave.open(held, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(samples)
        return held.getvalue()


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
