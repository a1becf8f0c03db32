"""Piper speaks, faster-whisper listens: real processes, a real voice, a real model."""

from __future__ import annotations

import asyncio
import io
import json
import re
import wave
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.engines.engine_processes import Engine, check, running
from tests.support.models import VOICE, WHISPER
from tests.support.speech import SENTENCE, assert_is_sentence

SPOKEN = {"input": SENTENCE, "voice": "joe", "model": "our-model", "response_format": "wav"}


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


@pytest.fixture(scope="module")
def piper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running("piper", tmp_path_factory.mktemp("piper"), model=VOICE.ensure_folder()) as engine:
        asyncio.run(engine.ready())
        yield engine


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("whisper")
    with running("faster-whisper", folder, model=WHISPER.ensure_folder(), compute_type="int8", beam_size=1) as engine:
        asyncio.run(engine.ready())
        yield engine


@pytest.fixture(scope="module")
def speech(piper: Engine) -> bytes:
    answer = asyncio.run(piper.post("/v1/audio/speech", SPOKEN))
    assert answer.status == 200
    return answer.content


def form(audio: bytes, **fields: str) -> aiohttp.FormData:
    made = aiohttp.FormData()
    made.add_field("file", audio, filename="speech.wav", content_type="audio/wav")
    for name, value in ({"model": "our-model", "language": "en"} | fields).items():
        made.add_field(name, value)
    return made


@pytest.mark.behaviour("ENG-9")
async def test_speech_of_piper_is_transcribed_word_for_word(whisper: Engine, speech: bytes):
    answer = await whisper.post("/v1/audio/transcriptions", form(speech))
    assert_is_sentence(answer.json()["text"])
    numbers = await whisper.numbers()
    assert numbers["running"] == numbers["waiting"] == 0


@pytest.mark.behaviour("ENG-9")
async def test_every_format_of_a_transcription_is_there(whisper: Engine, speech: bytes):
    async def transcribe(kind: str, **more: str) -> str:
        answer = await whisper.post("/v1/audio/transcriptions", form(speech, response_format=kind, **more))
        assert answer.status == 200
        return answer.content.decode()

    assert_is_sentence(await transcribe("text"))
    assert re.match(r"1\n00:00:00,\d{3} --> 00:00:0\d,\d{3}\nThe \w+ ", await transcribe("srt"))
    assert re.match(r"WEBVTT\n\n00:00:00\.\d{3} --> 00:00:0\d\.\d{3}\nThe \w+ ", await transcribe("vtt"))
    full = await whisper.post(
        "/v1/audio/transcriptions",
        form(speech, response_format="verbose_json", **{"timestamp_granularities[]": "word"}),
    )
    transcription = full.json()
    assert (transcription["task"], transcription["language"]) == ("transcribe", "en")
    assert 2 < transcription["duration"] < 5
    assert_is_sentence(" ".join(item["word"] for item in transcription["words"]))
    assert words_of(transcription["segments"][0]["text"])[:1] == ["the"]


@pytest.mark.behaviour("ENG-9")
async def test_translation_is_english(whisper: Engine, speech: bytes):
    answer = await whisper.post("/v1/audio/translations", form(speech, response_format="verbose_json"))
    assert answer.json()["task"] == "translate"
    assert_is_sentence(answer.json()["text"])


@pytest.mark.behaviour("ENG-9")
async def test_piper_accepts_a_speed_and_pcm_output(piper: Engine, speech: bytes):
    def seconds(audio: bytes) -> float:
        with wave.open(io.BytesIO(audio)) as file:
            return float(file.getnframes() / file.getframerate())

    fast = await piper.post("/v1/audio/speech", SPOKEN | {"speed": 2.0})
    assert seconds(fast.content) < 0.75 * seconds(speech)
    pcm = await piper.post("/v1/audio/speech", {"input": SENTENCE, "response_format": "pcm"})
    assert pcm.headers["Content-Type"] == "audio/pcm"
    # 24,000 samples of two bytes a second; the voice never says it twice in the same time.
    assert 0.5 < len(pcm.content) / 48_000 / seconds(speech) < 2


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"input": ""}, 400, "input is not a text"),
        ({"input": "x" * 5000}, 400, "input is not a text"),
        ({"input": "x", "response_format": "opus"}, 400, "is not one of mp3, wav, pcm"),
        ({"input": "x", "speed": 9}, 400, "speed is not a number"),
        (["x"], 400, "not a JSON object"),
        (b"x" * (1 << 20), 413, "Too Large"),
    ],
)
async def test_invalid_speech_request_is_refused_with_a_reason(piper: Engine, body: object, status: int, sentence: str):
    answer = await piper.post("/v1/audio/speech", body)
    assert answer.status == status
    error = answer.json()["error"]
    assert sentence in error["message"]
    assert error["type"] == "invalid_request_error"


@pytest.mark.behaviour("ENG-9")
@pytest.mark.parametrize("more", [{}, {"response_format": "mp3"}, {"response_format": None}])
async def test_speech_is_mp3_that_whisper_understands_when_no_other_format_is_requested(
    piper: Engine, whisper: Engine, more: dict[str, object]
):
    spoken = await piper.post("/v1/audio/speech", {"input": SENTENCE} | more)
    assert (spoken.status, spoken.headers["Content-Type"]) == (200, "audio/mpeg")
    assert spoken.content[:1] == b"\xff" or spoken.content.startswith(b"ID3")
    assert_is_sentence((await whisper.post("/v1/audio/transcriptions", form(spoken.content))).json()["text"])


@pytest.mark.behaviour("ENG-9")
async def test_transcription_is_events_with_the_whole_text_at_the_end_when_a_stream_is_requested(
    whisper: Engine, speech: bytes
):
    answer = await whisper.post("/v1/audio/transcriptions", form(speech, stream="true"))
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")
    *event_texts, end, rest = answer.content.decode().split("\n\n")
    events = [json.loads(one.removeprefix("data: ")) for one in event_texts]
    assert (end, rest) == ("data: [DONE]", "")
    assert {event["type"] for event in events[:-1]} == {"transcript.text.delta"}
    assert events[-1]["type"] == "transcript.text.done"
    assert "".join(event["delta"] for event in events[:-1]) == events[-1]["text"]
    assert_is_sentence(events[-1]["text"])


async def test_stream_of_a_transcription_is_refused_when_its_format_has_no_events_or_it_is_no_audio(
    whisper: Engine, speech: bytes
):
    for body, sentence in (
        (form(speech, stream="true", response_format="srt"), "A stream has no response_format 'srt'"),
        (form(b"this is no audio", stream="true"), "can be decoded"),
    ):
        answer = await whisper.post("/v1/audio/transcriptions", body)
        assert (answer.status, sentence in answer.json()["error"]["message"]) == (400, True)


async def test_invalid_audio_upload_is_refused_with_a_reason(whisper: Engine, speech: bytes):
    wrong = [
        (form(b"this is no audio"), "can be decoded", 400),
        (form(speech, response_format="mp3"), "response_format", 400),
        (form(speech, language="klingon"), "language 'klingon'", 400),
        (form(speech, temperature="hot"), "temperature", 400),
        (form(speech, prompt="x" * (1 << 15)), "prompt is larger", 413),
        (form(b""), "no file", 400),
        (b"no form", "multipart/form-data", 400),
    ]
    for body, sentence, status in wrong:
        answer = await whisper.post("/v1/audio/transcriptions", body)
        assert (answer.status, sentence in answer.json()["error"]["message"]) == (status, True), answer.content


@pytest.mark.behaviour("ENG-5")
async def test_engine_refuses_requests_without_the_key(piper: Engine, whisper: Engine, speech: bytes):
    for engine, path in ((piper, "/v1/audio/speech"), (whisper, "/v1/audio/transcriptions")):
        assert (await engine.post(path, {"input": "a"}, key="")).status == 401
        assert (await engine.get("/v1/models", key="wrong")).json()["error"]["code"] == "invalid_api_key"
        assert (await engine.get("/v1/models")).json()["data"][0]["id"] == "our-model"
        assert (await engine.get("/health", key="")).status == 200


def test_check_tells_the_version(tmp_path: Path):
    assert check("piper", tmp_path) == "1.8.0"
    assert check("faster-whisper", tmp_path) == "1.2.1"


@pytest.mark.parametrize("name", ["piper", "faster-whisper"])
async def test_model_that_is_not_there_ends_it_with_a_sentence(name: str, tmp_path: Path):
    (tmp_path / "nothing").mkdir()
    with running(name, tmp_path / "engine", model=tmp_path / "nothing") as engine:
        assert await engine.ended() == 1
    assert "error: the model cannot be loaded" in engine.read_log()


async def test_internal_error_of_the_engine_is_answered_with_500_and_logged(tmp_path: Path):
    about = json.loads((VOICE.ensure_folder() / "voice.onnx.json").read_text())
    about["espeak"]["voice"] = "a language that nobody speaks"
    (tmp_path / "voice").mkdir()
    (tmp_path / "voice/voice.onnx.json").write_text(json.dumps(about))
    (tmp_path / "voice/voice.onnx").symlink_to(VOICE.ensure_folder() / "voice.onnx")
    with running("piper", tmp_path / "engine", model=tmp_path / "voice") as engine:
        await engine.ready()
        answer = await engine.post("/v1/audio/speech", {"input": SENTENCE})
        assert (answer.status, answer.json()["error"]["code"]) == (500, "internal")
        assert await engine.health() == 200
    assert "Traceback" in engine.read_log()


async def test_speech_engine_is_not_ready_while_it_loads(piper: Engine, whisper: Engine):
    assert 503 in piper.healths
    assert 503 in whisper.healths
