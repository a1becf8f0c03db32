"""llama.cpp in real processes: every pinned version on a tiny model, the newest on a real one."""

from __future__ import annotations

import asyncio
import json
import math
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from corral.policy.models.adapters import render_members
from tests.engines.engine_processes import LLAMA, Engine, check, entries, running
from tests.support.models import SMOLLM2
from tests.support.tiny_gguf import write_tiny_gguf
from tests.support.tiny_lora import write_tiny_lora

PINNED = [version.version for version in entries()[LLAMA].versions]
NEW = [version for version in PINNED if version.startswith("2026")]
QUESTION = "What do the people of the valley say about the number that they see?"


def text_of(answer: Any) -> str:
    return str(answer["choices"][0]["message"]["content"])


def cached_in(engine: Engine, answer: Any) -> int:
    """Where the manifest says that an answer tells it."""
    path = engine.manifest.metrics["answer_cached_tokens"].split(".")
    return int(reduce(lambda value, name: value[name], path, answer))


async def test_pinned_versions_of_llama_cpp_give_the_same_answers(tmp_path: Path, tiny: Path):
    assert {"2026.10.11549", "2026.9.11063", "2026.7.9873", "2026.4.8929"} <= set(NEW)
    texts = {}
    for version in PINNED:
        with running(LLAMA, tmp_path / version, model=tiny, version=version) as engine:
            await engine.ready()
            texts[version] = text_of((await engine.chat(QUESTION)).json())
    assert len(texts[NEW[0]]) > 20
    assert set(texts.values()) == {texts[NEW[0]]}


async def test_answers_differ_between_models(tmp_path: Path, tiny: Path):
    other = write_tiny_gguf(tmp_path / "other.gguf", seed=2)
    texts = []
    for model in (tiny, other):
        with running(LLAMA, tmp_path / model.stem, model=model) as engine:
            await engine.ready()
            texts.append(text_of((await engine.chat(QUESTION)).json()))
    assert texts[0] != texts[1]


@pytest.mark.behaviour("ENG-8")
@pytest.mark.parametrize("version", PINNED)
async def test_version_tells_the_numbers_of_its_manifest(version: str, tmp_path: Path, tiny: Path):
    with running(LLAMA, tmp_path / "engine", model=tiny, version=version, parallel=2, context_size=512) as engine:
        await engine.ready()
        first, second = [(await engine.chat(QUESTION)).json() for _ in range(2)]
        numbers = await engine.numbers()
        slots = (await engine.get("/slots")).json()
    assert cached_in(engine, first) == 0
    assert cached_in(engine, second) > 40
    assert numbers["running"] == numbers["waiting"] == 0
    assert numbers["prompt_tokens"] >= first["usage"]["prompt_tokens"]
    assert numbers["generated_tokens"] >= 24
    assert numbers.get("cached_tokens", 1) > 0
    assert [slot["n_ctx"] for slot in slots] == [512, 512]


@pytest.mark.parametrize("version", PINNED)
def test_check_tells_the_version(version: str, tmp_path: Path):
    assert check(LLAMA, tmp_path, version) == version


@pytest.mark.behaviour("ENG-5")
async def test_engine_refuses_requests_without_the_key(tmp_path: Path, tiny: Path):
    with running(LLAMA, tmp_path / "engine", model=tiny) as engine:
        await engine.ready()
        for key in ("", "another-key"):
            assert (await engine.post("/v1/completions", {"prompt": "a", "max_tokens": 1}, key=key)).status == 401
            assert (await engine.get("/metrics", key=key)).status == 401
        assert (await engine.get("/v1/models")).json()["data"][0]["id"] == "our-model"


async def test_sigterm_ends_it_in_order(tmp_path: Path, tiny: Path):
    with running(LLAMA, tmp_path / "engine", model=tiny) as engine:
        await engine.ready()
        assert engine.end() == 0


async def test_broken_model_ends_it_with_a_sentence(tmp_path: Path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    with running(LLAMA, tmp_path / "engine", model=broken) as engine:
        assert await engine.ended() == 1
    assert "error: the model cannot be served" in engine.read_log()


@pytest.mark.behaviour("ENG-8")
async def test_embeddings_have_length_one(tmp_path: Path, tiny: Path):
    with running(LLAMA, tmp_path / "engine", model=tiny, embeddings=True, pooling="mean") as engine:
        await engine.ready()
        answer = (await engine.post("/v1/embeddings", {"input": ["one", "two words"]})).json()
    vectors = [item["embedding"] for item in answer["data"]]
    assert [math.isclose(math.hypot(*vector), 1.0, rel_tol=1e-3) for vector in vectors] == [True, True]
    assert vectors[0] != vectors[1]


@pytest.mark.behaviour("ENG-8")
async def test_real_model_loads_and_knows_the_capital_of_france(tmp_path: Path):
    model = SMOLLM2.ensure_folder() / "model.gguf"
    with running(LLAMA, tmp_path / "engine", model=model, context_size=1024) as engine:
        await engine.ready()
        messages = [
            {"role": "system", "content": "You are a helpful assistant. Answer in one short sentence."},
            {"role": "user", "content": "What is the capital of France?"},
        ]
        body = {"messages": messages, "temperature": 0, "max_tokens": 24}
        answer = (await engine.post("/v1/chat/completions", body)).json()
        assert "Paris" in text_of(answer)
        streamed = body | {"stream": True, "stream_options": {"include_usage": True}}
        events = (await engine.post("/v1/chat/completions", streamed)).content.decode().split("\n\n")
    assert 503 in engine.healths
    assert events[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    streamed_text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    assert streamed_text == text_of(answer)
    assert chunks[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 10


async def test_two_calls_at_a_time_are_both_answered(tmp_path: Path, tiny: Path):
    with running(LLAMA, tmp_path / "engine", model=tiny, parallel=2) as engine:
        await engine.ready()
        alone = text_of((await engine.chat(QUESTION)).json())
        both = await asyncio.gather(engine.chat(QUESTION), engine.chat("Something else entirely."))
    assert text_of(both[0].json()) == alone
    assert text_of(both[1].json()) != alone


@pytest.mark.behaviour("ADAPT-1")
@pytest.mark.parametrize("version", PINNED)
async def test_version_answers_with_the_adapter_that_a_request_names(version: str, tmp_path: Path, tiny: Path):
    paths = [write_tiny_lora(tmp_path / f"{seed}.gguf", seed=seed) for seed in (1, 2)]
    option = json.dumps([{"name": path.stem, "path": str(path)} for path in paths])
    members = [json.loads("{" + render_members(number).rstrip(",") + "}") for number in (None, 0, 1)]
    with running(LLAMA, tmp_path / "engine", model=tiny, version=version, adapters=option, context_size=512) as engine:
        await engine.ready()
        base, first, second = [text_of((await engine.chat(QUESTION, **one)).json()) for one in members]
        assert len({base, first, second}) == 3
        # In the cache of the one place is what the last adapter has left.
        assert text_of((await engine.chat(QUESTION, **members[0])).json()) == base
        assert text_of((await engine.chat(QUESTION, **members[1])).json()) == first
    with running(LLAMA, tmp_path / "plain", model=tiny, version=version, context_size=512) as engine:
        await engine.ready()
        assert text_of((await engine.chat(QUESTION)).json()) == base
