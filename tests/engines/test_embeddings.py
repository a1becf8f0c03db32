"""Embeddings from a real sentence encoder, in a real process."""

from __future__ import annotations

import asyncio
import base64
import math
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.engine_processes import Engine, check, running
from tests.support.models import MINILM

Vector = list[float]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("encoder")
    with running("onnx-embeddings", folder, model=MINILM.ensure_folder(), batch_size=4) as engine:
        asyncio.run(engine.ready())
        yield engine


async def vectors(engine: Engine, *texts: str) -> list[Vector]:
    answer = (await engine.post("/v1/embeddings", {"input": list(texts), "model": "our-model"})).json()
    assert [item["index"] for item in answer["data"]] == list(range(len(texts)))
    return [item["embedding"] for item in answer["data"]]


def likeness(one: Vector, two: Vector) -> float:
    return sum(a * b for a, b in zip(one, two, strict=True))


async def test_kitten_is_nearer_to_a_cat_than_the_stock_market(encoder: Engine):
    cat, kitten, stocks = await vectors(encoder, "a cat", "a kitten", "the stock market fell today")
    assert likeness(cat, kitten) > 0.5
    assert likeness(cat, stocks) < 0.3
    assert all(math.isclose(math.hypot(*vector), 1.0, rel_tol=1e-4) for vector in (cat, kitten, stocks))


async def test_text_means_the_same_alone_and_among_others(encoder: Engine):
    texts = [f"{'word ' * count}{count}" for count in (9, 1, 5, 30, 2, 7, 3)]
    together = await vectors(encoder, *texts)
    for text, vector in zip(texts, together, strict=True):
        (alone,) = await vectors(encoder, text)
        # The weights have 8 bits, and what is rounded depends on the neighbours.
        assert likeness(alone, vector) > 0.97


async def test_base64_holds_the_same_numbers(encoder: Engine):
    (plain,) = await vectors(encoder, "a horse")
    answer = await encoder.post("/v1/embeddings", {"input": "a horse", "encoding_format": "base64"})
    packed = base64.b64decode(answer.json()["data"][0]["embedding"])
    assert list(struct.unpack(f"<{len(packed) // 4}f", packed)) == pytest.approx(plain)
    assert answer.json()["usage"] == {"prompt_tokens": 4, "total_tokens": 4}


async def test_tokens_are_taken_like_the_text_that_they_are(encoder: Engine):
    (text,) = await vectors(encoder, "a horse")
    # [CLS] a horse [SEP]
    answer = await encoder.post("/v1/embeddings", {"input": [101, 1037, 3586, 102]})
    assert answer.json()["data"][0]["embedding"] == pytest.approx(text)


@pytest.mark.parametrize(
    ("body", "status", "sentence", "code"),
    [
        ({}, 400, "input is neither", "invalid_value"),
        ({"input": []}, 400, "input is neither", "invalid_value"),
        ({"input": ["a", 1]}, 400, "neither a text nor a list of tokens", "invalid_value"),
        ({"input": "a", "encoding_format": "int8"}, 400, "encoding_format", "invalid_value"),
        ({"input": "a", "dimensions": 100}, 400, "has 384 dimensions", "invalid_value"),
        ({"input": "word " * 600}, 400, "the model takes 512", "context_length_exceeded"),
        ({"input": ["a"] * 3000}, 400, "1 to 2048", "invalid_value"),
        ({"input": [101, 1 << 40]}, 400, "a token that the model does not know", "invalid_value"),
        (b"{" * (17 << 20), 413, "Too Large", "http"),
    ],
)
async def test_invalid_embeddings_request_is_refused_with_a_reason(
    encoder: Engine, body: object, status: int, sentence: str, code: str
):
    answer = await encoder.post("/v1/embeddings", body)
    assert answer.status == status
    error = answer.json()["error"]
    assert sentence in error["message"]
    assert error["code"] == code
    assert (await vectors(encoder, "still there"))[0]


@pytest.mark.behaviour("ENG-5")
async def test_engine_refuses_requests_without_the_key(encoder: Engine):
    assert (await encoder.post("/v1/embeddings", {"input": "a"}, key="")).status == 401
    assert (await encoder.get("/metrics", key="wrong")).status == 401
    assert (await encoder.get("/health", key="")).status == 200
    assert (await encoder.get("/nowhere")).status == 404


async def test_engine_is_not_ready_while_it_loads_and_stops_cleanly(tmp_path: Path):
    with running("onnx-embeddings", tmp_path / "engine", model=MINILM.ensure_folder()) as engine:
        await engine.ready()
        assert engine.end() == 0
    assert 503 in engine.healths


def test_check_tells_the_version(tmp_path: Path):
    assert check("onnx-embeddings", tmp_path) == "1.31.1"
