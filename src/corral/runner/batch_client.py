"""Sends the requests of a batch to the frontends, in the name of the batch's owner.

A refusal that passes (429, 503, no frontend) is waited for, as long as the batch has time: that is how a batch stays
behind other traffic. A failing engine is tried a few times. Every other answer is final, and is what the files hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp
from pydantic_core import from_json

from corral.policy.batches import BatchLineRequest, render_answer, render_failure
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

ANSWER_BYTES_MAX = 8 * 1024 * 1024
_SUCCESS_END = 300
# An engine that has not answered one request for so long never will.
ANSWER_S = 3600.0
# A limit that lasts for hours may be raised meanwhile.
LONGEST_RETRY_AFTER_S = 600.0


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


class BatchClient:
    """Sends the inference requests of one batch from the runner process to a frontend, several at a time."""

    def __init__(self, session: aiohttp.ClientSession, endpoint: BatchEndpoint, clock: Clock) -> None:
        target = PostTarget(base_urls=endpoint.base_urls, path=endpoint.path, ticket=endpoint.ticket)
        limits = PostLimits(answer_bytes=ANSWER_BYTES_MAX, answer_s=ANSWER_S)
        self._poster = FrontendPoster(session, target, limits, clock)
        self._clock = clock

    async def answer(self, request: BatchLineRequest, request_id: str) -> LineAnswer:
        """Return the line for a request. Waits without a limit; the caller has a deadline."""
        tries, pause_s = 0, FIRST_PAUSE_S
        while True:
            answer = await self._poster.post(request.body)
            wait_s = pause_s
            if answer is not None and answer.is_passing:
                wait_s = pause_s if answer.retry_after_s is None else min(answer.retry_after_s, LONGEST_RETRY_AFTER_S)
            elif answer is not None:
                tries += 1
                if not answer.is_failing or tries >= TRIES_MAX:
                    return _render_line(request, request_id, answer)
            await self._clock.sleep(max(wait_s, FIRST_PAUSE_S))
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


def _render_line(request: BatchLineRequest, request_id: str, answer: FrontendAnswer) -> LineAnswer:
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
