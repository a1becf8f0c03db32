"""Asks the cluster for embeddings, in the name of the run's owner.

A refusal that passes (429, 503, no frontend) is waited for, as long as the run has time. A failing engine is tried a
few times. Every other answer is an error with the frontend's own sentence.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from pydantic_core import from_json

from corral.domain.errors import CorralError
from corral.ports.runtime import Clock
from corral.runner.frontend_poster import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    TRIES_MAX,
    FrontendAnswer,
    FrontendPoster,
    PostLimits,
    PostTarget,
)

# 64 embeddings of the greatest length, in text.
ANSWER_BYTES_MAX = 32 * 1024 * 1024
ANSWER_S = 900.0
_SUCCESS = 200


class EmbeddingRefused(CorralError):
    """A text could not be embedded: the frontend or the engine has refused it."""

    code = "embedding_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingEndpoint:
    """Address to which the runner process sends texts to be embedded, the model, and the key for it."""

    base_urls: Sequence[str]
    model: str
    ticket: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingResult:
    """Embeddings of texts, each as base64 of 32-bit floats, and the tokens used."""

    vectors: Sequence[str]
    tokens: int = 0


class EmbeddingClient:
    """Embeds texts by a model of the cluster."""

    def __init__(self, session: aiohttp.ClientSession, endpoint: EmbeddingEndpoint, clock: Clock) -> None:
        target = PostTarget(base_urls=endpoint.base_urls, path="/embeddings", ticket=endpoint.ticket)
        limits = PostLimits(answer_bytes=ANSWER_BYTES_MAX, answer_s=ANSWER_S)
        self._poster = FrontendPoster(session, target, limits, clock)
        self._model = endpoint.model
        self._clock = clock

    async def embed(self, texts: Sequence[str], *, waits: bool = True) -> EmbeddingResult:
        """Return the embeddings of texts, in their order. `waits`: a refusal that passes is waited for. Raises
        `EmbeddingRefused`."""
        tries, pause_s = 0, FIRST_PAUSE_S
        body = {"model": self._model, "input": list(texts), "encoding_format": "base64"}
        while True:
            answer = await self._poster.post(body)
            if answer is not None and answer.body is None:
                raise EmbeddingRefused(f"The answer has more than {ANSWER_BYTES_MAX} bytes.")
            if answer is not None and answer.status == _SUCCESS:
                return _read_result(answer.body or b"", len(texts))
            is_passing = answer is None or answer.is_passing
            is_failing = answer is not None and answer.is_failing
            tries += is_failing or not waits
            if not (is_passing or is_failing) or tries >= TRIES_MAX:
                raise _make_refusal(answer)
            wait_s = pause_s if answer is None or answer.retry_after_s is None else answer.retry_after_s
            await self._clock.sleep(min(max(wait_s, FIRST_PAUSE_S), LONGEST_PAUSE_S))
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


def _make_refusal(answer: FrontendAnswer | None) -> EmbeddingRefused:
    if answer is None:
        return EmbeddingRefused("No frontend can be reached.")
    try:
        error: Any = from_json(answer.body or b"")["error"]
        message, code = str(error["message"])[:500], str(error.get("code") or EmbeddingRefused.code)[:64]
    except (ValueError, TypeError, KeyError, AttributeError):
        message, code = f"The embedding model answers with {answer.status}.", EmbeddingRefused.code
    return EmbeddingRefused(message, code=code)


def _read_result(body: bytes, count: int) -> EmbeddingResult:
    """Return the embeddings of an answer. An engine may answer with numbers instead of base64."""
    try:
        answer: Any = from_json(body)
        items = sorted(answer["data"], key=lambda item: int(item.get("index", 0)))
        vectors = [_pack(item["embedding"]) for item in items]
        tokens = int((answer.get("usage") or {}).get("prompt_tokens") or 0)
    except (ValueError, TypeError, KeyError, AttributeError, struct.error) as error:
        raise EmbeddingRefused("The engine's answer holds no embeddings.") from error
    if len(vectors) != count:
        raise EmbeddingRefused(f"The engine's answer holds {len(vectors)} embeddings for {count} texts.")
    return EmbeddingResult(vectors=vectors, tokens=max(0, tokens))


def _pack(embedding: Any) -> str:
    if isinstance(embedding, str):
        return embedding
    return base64.b64encode(struct.pack(f"<{len(embedding)}f", *embedding)).decode()
