"""Asks the cluster for embeddings, in the name of the run's owner.

A refusal that passes (429, 503, no frontend) is waited for, as long as the run has time. A failing engine is tried a
few times. Every other answer is an error with the frontend's own sentence. Answers are bounded; redirects are not
followed: the key belongs to the frontends.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import structlog
from pydantic_core import from_json

from corral.domain.errors import CorralError
from corral.ports.runtime import Clock
from corral.runner.chat_client import parse_retry_after

log = structlog.get_logger(__name__)

# 64 embeddings of the greatest length, in text.
ANSWER_BYTES_MAX = 32 * 1024 * 1024
TRIES_MAX = 3
CONNECT_S = 10.0
ANSWER_S = 900.0
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
_PASSING_STATUSES = frozenset({429, 503})
_FAILING_STATUSES = frozenset({500, 502, 504})
_SUCCESS = 200
_TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _EmbeddingAnswer:
    """Holds the response to a request for embeddings."""

    status: int
    body: bytes
    retry_after_s: float | None


class EmbeddingClient:
    """Embeds texts by a model of the cluster."""

    def __init__(self, session: aiohttp.ClientSession, endpoint: EmbeddingEndpoint, clock: Clock) -> None:
        self._session = session
        self._endpoint = endpoint
        self._clock = clock
        self._preferred = 0

    async def embed(self, texts: Sequence[str], *, waits: bool = True) -> EmbeddingResult:
        """Return the embeddings of texts, in their order. `waits`: a refusal that passes is waited for. Raises
        `EmbeddingRefused`."""
        tries, pause_s = 0, FIRST_PAUSE_S
        while True:
            answer = await self._send(texts)
            if answer is not None and answer.status == _SUCCESS:
                return _read_result(answer.body, len(texts))
            is_passing = answer is None or answer.status in _PASSING_STATUSES
            is_failing = answer is not None and answer.status in _FAILING_STATUSES
            tries += is_failing or not waits
            if not (is_passing or is_failing) or tries >= TRIES_MAX:
                raise _make_refusal(answer)
            wait_s = pause_s if answer is None or answer.retry_after_s is None else answer.retry_after_s
            await self._clock.sleep(min(max(wait_s, FIRST_PAUSE_S), LONGEST_PAUSE_S))
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _send(self, texts: Sequence[str]) -> _EmbeddingAnswer | None:
        """Return the response of the first frontend that answers; None if there is none now."""
        urls = self._endpoint.base_urls
        for offset in range(len(urls)):
            index = (self._preferred + offset) % len(urls)
            try:
                answer = await self._post(urls[index], texts)
            except _TRANSPORT_ERRORS as error:
                log.info("frontend not reached", address=urls[index], error=type(error).__name__)
                continue
            self._preferred = index
            return answer
        return None

    async def _post(self, base_url: str, texts: Sequence[str]) -> _EmbeddingAnswer:
        async with self._session.post(
            f"{base_url.rstrip('/')}/embeddings",
            json={"model": self._endpoint.model, "input": list(texts), "encoding_format": "base64"},
            headers={"Authorization": f"Bearer {self._endpoint.ticket}"},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=ANSWER_S, sock_connect=CONNECT_S),
        ) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > ANSWER_BYTES_MAX:
                    response.close()
                    raise EmbeddingRefused(f"The answer has more than {ANSWER_BYTES_MAX} bytes.")
            retry_after_s = parse_retry_after(response.headers.get("Retry-After", ""), self._clock.wall())
            return _EmbeddingAnswer(status=response.status, body=bytes(body), retry_after_s=retry_after_s)


def _make_refusal(answer: _EmbeddingAnswer | None) -> EmbeddingRefused:
    if answer is None:
        return EmbeddingRefused("No frontend can be reached.")
    try:
        error: Any = from_json(answer.body)["error"]
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
