"""Serves faster-whisper as OpenAI's transcriptions and translations, for one model folder in CTranslate2's format.

An upload is held in memory and is limited. A file that cannot be decoded is the caller's mistake and answered as such.
With `stream` each segment is sent as soon as it is understood, as OpenAI's events; a client that disconnects ends the
work.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import math
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from aiohttp import BodyPartReader, web

from corral.engines.launchers._engine_server import ApiError, EngineServer, make_parser, serve

BODY_LIMIT_BYTES = 64 << 20
FIELD_LIMIT_BYTES = 16 << 10
FIELDS_MAX = 32
FORMATS = ("json", "text", "verbose_json", "srt", "vtt")
STREAMED_FORMATS = ("json", "text")


def main() -> int:
    parser = make_parser((__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--compute-type", default="default", help="int8, float16, ...; default: what the model was saved in"
    )
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--vad", type=parse_switch, default=False, help="skip what is not speech")
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
        "/v1/audio/transcriptions": partial(serve_audio, options, "transcribe"),
        "/v1/audio/translations": partial(serve_audio, options, "translate"),
    }
    serve(options, load, routes, body_limit_bytes=BODY_LIMIT_BYTES)
    return 0


def parse_switch(text: str) -> bool:
    """Parse a switch: settings of a model are texts."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


async def serve_audio(
    options: argparse.Namespace, task: str, server: EngineServer, request: web.Request
) -> web.StreamResponse:
    fields, audio = await read_upload(request)
    form = fields.get("response_format", "json")
    if form not in FORMATS:
        raise ApiError(400, f"response_format {form!r} is not one of {', '.join(FORMATS)}.")
    parameters = {
        "task": task,
        "language": fields.get("language") or None,
        "initial_prompt": fields.get("prompt") or None,
        "beam_size": options.beam_size,
        "vad_filter": options.vad,
        "word_timestamps": "word" in fields.get("timestamp_granularities[]", ""),
    }
    temperature = parse_number(fields.get("temperature", "0"), "temperature")
    if temperature:
        parameters["temperature"] = temperature
    if fields.get("stream", "").lower() not in ("true", "1"):
        return render_transcript(await server.run_call(transcribe, audio, parameters), form)
    if form not in STREAMED_FORMATS:
        raise ApiError(400, f"A stream has no response_format {form!r}: it is {' or '.join(STREAMED_FORMATS)}.")
    return await stream_events(server, request, audio, parameters)


async def stream_events(
    server: EngineServer, request: web.Request, audio: bytes, parameters: dict[str, Any]
) -> web.StreamResponse:
    """Write OpenAI's events: a delta for each segment, then the whole text.

    Nothing is sent before the first segment, so a file that cannot be decoded still gets a status of its own.
    """
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[str | None]()
    has_left = threading.Event()

    def send_segment(text: str) -> None:
        if has_left.is_set():
            raise ApiError(499, "The client has disconnected.", "client_left")
        loop.call_soon_threadsafe(pieces.put_nowait, text)

    working = asyncio.create_task(server.run_call(partial(transcribe, on_segment=send_segment), audio, parameters))
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
    """Return the fields of the form, and the file among them."""
    if request.content_type != "multipart/form-data":
        raise ApiError(400, "The body is not multipart/form-data.")
    if (request.content_length or 0) > BODY_LIMIT_BYTES:
        raise ApiError(413, f"The body is larger than {BODY_LIMIT_BYTES >> 20} MiB.")
    fields: dict[str, str] = {}
    audio: bytes | None = None
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader) or not part.name or len(fields) >= FIELDS_MAX:
            raise ApiError(400, "The form has a part without a name, a form within the form, or too many fields.")
        is_file = part.name == "file"
        content = await read_limited(part, BODY_LIMIT_BYTES if is_file else FIELD_LIMIT_BYTES)
        if is_file:
            audio = content
        else:
            text = content.decode(errors="replace")
            fields[part.name] = f"{fields[part.name]},{text}" if part.name in fields else text
    if not audio:
        raise ApiError(400, "The form has no file.")
    return fields, audio


async def read_limited(part: BodyPartReader, limit: int) -> bytes:
    content = bytearray()
    while chunk := await part.read_chunk(1 << 16):
        content += chunk
        if len(content) > limit:
            raise ApiError(413, f"{part.name} is larger than {limit} bytes.")
    return bytes(content)


def parse_number(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise ApiError(400, f"{name} is not a number from 0 to 1.")
    return value


def transcribe(
    model: Any, audio: bytes, parameters: dict[str, Any], on_segment: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Return OpenAI's verbose_json. The engine computes while its segments are read; `on_segment` gets the text of
    each."""
    import av

    if parameters["language"] and parameters["language"] not in model.supported_languages:
        raise ApiError(400, f"language {parameters['language']!r} is not known to this model.")
    try:
        segments, about = model.transcribe(io.BytesIO(audio), **parameters)
    except (av.FFmpegError, IndexError) as error:
        raise ApiError(400, "The file is not audio that can be decoded.") from error
    transcribed = []
    for index, segment in enumerate(segments):
        transcribed.append(asdict(segment) | {"id": index})
        if on_segment is not None:
            on_segment(segment.text if index else segment.text.lstrip())
    words = [
        {"word": word["word"].strip(), "start": word["start"], "end": word["end"]}
        for segment in transcribed
        for word in segment.pop("words") or ()
    ]
    return {
        "task": parameters["task"],
        "language": about.language,
        "duration": about.duration,
        "text": "".join(segment["text"] for segment in transcribed).strip(),
        "segments": transcribed,
        **({"words": words} if parameters["word_timestamps"] else {}),
    }


def render_transcript(transcript: dict[str, Any], form: str) -> web.Response:
    if form == "text":
        return web.Response(text=transcript["text"] + "\n")
    if form == "srt":
        return web.Response(text=render_subtitles(transcript["segments"], ","), content_type="application/x-subrip")
    if form == "vtt":
        return web.Response(
            text="WEBVTT\n\n" + render_subtitles(transcript["segments"], ".", numbered=False), content_type="text/vtt"
        )
    usage = {"type": "duration", "seconds": math.ceil(transcript["duration"])}
    return web.json_response(
        (transcript if form == "verbose_json" else {"text": transcript["text"]}) | {"usage": usage}
    )


def render_subtitles(segments: list[dict[str, Any]], mark: str, *, numbered: bool = True) -> str:
    blocks = []
    for index, segment in enumerate(segments, start=1):
        times = f"{format_timestamp(segment['start'], mark)} --> {format_timestamp(segment['end'], mark)}"
        blocks.append((f"{index}\n" if numbered else "") + f"{times}\n{segment['text'].strip()}\n\n")
    return "".join(blocks)


def format_timestamp(seconds: float, mark: str) -> str:
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{mark}{thousandths:03}"


if __name__ == "__main__":
    sys.exit(main())
