"""Serves Piper as OpenAI's speech call, for one voice: an ONNX file with its JSON beside it.

MP3 is the default, as in OpenAI's API. MP3 and WAV come at the voice's own rate, PCM at 24 kHz, as OpenAI's callers
expect it. Other formats are refused. An environment that was made before the encoder belonged to it has no MP3, and WAV
is the default there.
"""

from __future__ import annotations

import io
import json
import sys
import wave
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aiohttp import web

from corral.engines.launchers._engine_server import ApiError, EngineServer, make_parser, serve

BODY_LIMIT_BYTES = 256 << 10
INPUT_MAX = 4096
PCM_RATE = 24_000
FORMATS = ("mp3", "wav", "pcm") if find_spec("lameenc") else ("wav", "pcm")
TYPES = {"mp3": "audio/mpeg", "wav": "audio/wav", "pcm": "audio/pcm"}
MP3_KBIT_PER_S = 64
# LAME's own scale: 2 is slow and good, 7 is fast.
MP3_QUALITY = 5


def main() -> int:
    options = make_parser((__doc__ or "").splitlines()[0]).parse_args()
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
        model = find_voice_file(Path(options.model))
        limits = onnxruntime.SessionOptions()
        limits.intra_op_num_threads = options.threads
        limits.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(model), sess_options=limits, providers=["CPUExecutionProvider"])
        about = json.loads(Path(f"{model}.json").read_text(encoding="utf-8"))
        return piper.PiperVoice(session=session, config=piper.PiperConfig.from_dict(about))

    serve(options, load, {"/v1/audio/speech": serve_speech}, body_limit_bytes=BODY_LIMIT_BYTES)
    return 0


def find_voice_file(path: Path) -> Path:
    """Return the voice itself, or the only one in a folder."""
    if not path.is_dir():
        return path
    found = sorted(path.glob("*.onnx"))
    if len(found) != 1:
        raise ValueError(f"{path} holds {len(found)} voices, not one")
    return found[0]


async def serve_speech(server: EngineServer, request: web.Request) -> web.Response:
    try:
        body = await request.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise ApiError(400, "The body is not a JSON object.")
    text, form, speed = body.get("input"), body.get("response_format") or FORMATS[0], body.get("speed", 1.0)
    if not isinstance(text, str) or not text.strip() or len(text) > INPUT_MAX:
        raise ApiError(400, f"input is not a text of 1 to {INPUT_MAX} characters.")
    if form not in FORMATS:
        raise ApiError(400, f"response_format {form!r} is not one of {', '.join(FORMATS)}.")
    if not isinstance(speed, (int, float)) or isinstance(speed, bool) or not 0.25 <= speed <= 4:
        raise ApiError(400, "speed is not a number from 0.25 to 4.")
    audio = await server.run_call(synthesize, text, str(body.get("voice", "")), speed, form)
    return web.Response(body=audio, content_type=TYPES[form])


def synthesize(voice: Any, text: str, speaker: str, speed: float, form: str) -> bytes:
    import piper

    scale = voice.config.length_scale / speed
    config = piper.SynthesisConfig(speaker_id=find_speaker(voice.config, speaker), length_scale=scale)
    samples = b"".join(chunk.audio_int16_bytes for chunk in voice.synthesize(text, syn_config=config))
    rate = voice.config.sample_rate
    write = {"mp3": encode_mp3, "wav": encode_wav, "pcm": resample}[form]
    return write(samples, rate)


def find_speaker(config: Any, name: str) -> int | None:
    """Return the number of a speaker. A voice of one speaker takes any name; of many, the name must be one of theirs or
    none."""
    if config.num_speakers < 2 or not name:
        return None
    if name not in config.speaker_id_map:
        some = ", ".join(sorted(config.speaker_id_map)[:10])
        raise ApiError(400, f"voice {name!r} is not one of this model's: {some}, ...")
    return int(config.speaker_id_map[name])


def resample(samples: bytes, rate: int) -> bytes:
    import numpy as np

    values = np.frombuffer(samples, dtype=np.int16)
    moments = np.arange(int(len(values) * PCM_RATE / rate)) * (rate / PCM_RATE)
    return np.interp(moments, np.arange(len(values)), values).astype("<i2").tobytes()  # type: ignore[no-any-return]


def encode_mp3(samples: bytes, rate: int) -> bytes:
    import lameenc

    encoder = lameenc.Encoder()
    encoder.silence()
    encoder.set_channels(1)
    encoder.set_in_sample_rate(rate)
    encoder.set_bit_rate(MP3_KBIT_PER_S)
    encoder.set_quality(MP3_QUALITY)
    return bytes(encoder.encode(samples)) + bytes(encoder.flush())


def encode_wav(samples: bytes, rate: int) -> bytes:
    with io.BytesIO() as held:
        with wave.open(held, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(samples)
        return held.getvalue()


if __name__ == "__main__":
    sys.exit(main())
