"""Sends the requests of a batch to the frontends, in the name of the batch's owner.

A refusal that passes (429, 503, no frontend) is waited for, as long as the batch has time: that is how a batch stays
behind other traffic. A failing engine is tried a few times. Every other answer is final, and is what the files hold.
Answers are bounded. Redirects are not followed: the key belongs to the frontends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import structlog
from pydantic_core import from_json

from corral.policy.batches import BatchLineRequest, render_answer, render_failure
from corral.ports.runtime import Clock
from corral.runner.chat_client import parse_retry_after

log = structlog.get_logger(__name__)

ANSWER_BYTES_MAX = 8 * 1024 * 1024
# How often a request is sent whose answer broke off or was an error of the engine.
TRIES_MAX = 3
_PASSING_STATUSES = frozenset({429, 503})
_FAILING_STATUSES = frozenset({500, 502, 504})
_SUCCESS_END = 300
CONNECT_S = 10.0
# An engine that has not answered one request for so long never will.
ANSWER_S = 3600.0
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
# A limit that lasts for hours may be raised meanwhile.
LONGEST_RETRY_AFTER_S = 600.0
_TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEndpoint:
    """Address to which the runner process sends the inference requests of a batch, and the key for it."""

    base_urls: Sequence[str]
    # Behind `/v1`, such as `/chat/completions`.
    path: str
    ticket: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineAnswer:
    """Answer to one inference request of a batch: the line for the output file, and the tokens used."""

    line: bytes
    is_success: bool
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _HttpAnswer:
    """Holds one response, read to its end; `body` is None if it is too large."""

    status: int
    body: bytes | None
    request_id: str
    retry_after_s: float | None


class BatchClient:
    """Sends the inference requests of one batch from the runner process to a frontend, several at a time."""

    def __init__(self, session: aiohttp.ClientSession, endpoint: BatchEndpoint, clock: Clock) -> None:
        self._session = session
        self._endpoint = endpoint
        self._clock = clock
        # The address that answered last comes first.
        self._preferred = 0

    async def answer(self, request: BatchLineRequest, request_id: str) -> LineAnswer:
        """Return the line for a request. Waits without a limit; the caller has a deadline."""
        tries, pause_s = 0, FIRST_PAUSE_S
        while True:
            answer = await self._send(request.body)
            wait_s = pause_s
            if answer is not None and answer.status in _PASSING_STATUSES:
                wait_s = pause_s if answer.retry_after_s is None else min(answer.retry_after_s, LONGEST_RETRY_AFTER_S)
            elif answer is not None:
                tries += 1
                if answer.status not in _FAILING_STATUSES or tries >= TRIES_MAX:
                    return _render_line(request, request_id, answer)
            await self._clock.sleep(max(wait_s, FIRST_PAUSE_S))
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _send(self, body: Mapping[str, Any]) -> _HttpAnswer | None:
        """Return the response of the first frontend that answers; None if there is none now."""
        urls = self._endpoint.base_urls
        for offset in range(len(urls)):
            index = (self._preferred + offset) % len(urls)
            try:
                answer = await self._post(urls[index], body)
            except _TRANSPORT_ERRORS as error:
                log.info("frontend not reached", address=urls[index], error=type(error).__name__)
                continue
            self._preferred = index
            return answer
        return None

    async def _post(self, base_url: str, body: Mapping[str, Any]) -> _HttpAnswer:
        async with self._session.post(
            f"{base_url.rstrip('/')}{self._endpoint.path}",
            json=body,
            headers={"Authorization": f"Bearer {self._endpoint.ticket}"},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=ANSWER_S, sock_connect=CONNECT_S),
        ) as response:
            return _HttpAnswer(
                status=response.status,
                body=await _read_body(response),
                request_id=response.headers.get("x-request-id", "")[:100],
                retry_after_s=parse_retry_after(response.headers.get("Retry-After", ""), self._clock.wall()),
            )


async def _read_body(response: aiohttp.ClientResponse) -> bytes | None:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > ANSWER_BYTES_MAX:
            response.close()
            return None
    return bytes(body)


def _render_line(request: BatchLineRequest, request_id: str, answer: _HttpAnswer) -> LineAnswer:
    if answer.body is None:
        text = f"The answer has more than {ANSWER_BYTES_MAX} bytes."
        line = render_failure(request_id, request.custom_id, "answer_too_large", text)
        return LineAnswer(line=line, is_success=False)
    try:
        body = from_json(answer.body)
    except ValueError:
        line = render_failure(request_id, request.custom_id, "answer_malformed", "The answer is not JSON.")
        return LineAnswer(line=line, is_success=False)
    line = render_answer(request_id, request.custom_id, answer.status, answer.request_id, body)
    prompt, completion = _read_usage(body)
    return LineAnswer(
        line=line, is_success=answer.status < _SUCCESS_END, prompt_tokens=prompt, completion_tokens=completion
    )


def _read_usage(body: object) -> tuple[int, int]:
    usage = body.get("usage") if isinstance(body, dict) else None
    if not isinstance(usage, dict):
        return 0, 0

    def read(*names: str) -> int:
        return next((max(0, value) for name in names if isinstance(value := usage.get(name), int)), 0)

    return read("prompt_tokens", "input_tokens"), read("completion_tokens", "output_tokens")
