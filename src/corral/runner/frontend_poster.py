"""Posts requests to the frontends in the name of a run's owner, and knows which answers pass by themselves.

The frontend that answered last is tried first. Answers are bounded; redirects are not followed: the key belongs to the
frontends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import structlog

from corral.ports.runtime import Clock
from corral.runner.chat_client import parse_retry_after

log = structlog.get_logger(__name__)

CONNECT_S = 10.0
# How often a request is sent whose answer was an error of the engine.
TRIES_MAX = 3
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
_PASSING_STATUSES = frozenset({429, 503})
_FAILING_STATUSES = frozenset({500, 502, 504})
_TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostTarget:
    """Where the runner process posts requests to models: the frontends, a path behind `/v1`, and the key for it."""

    base_urls: Sequence[str]
    path: str
    ticket: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostLimits:
    """Limits the answer to one request that the runner process posts: its bytes, and the seconds until its end."""

    answer_bytes: int
    answer_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontendAnswer:
    """Holds the answer of a frontend to a request of a run, read to its end; `body` is None if it is too large."""

    status: int
    body: bytes | None
    request_id: str
    retry_after_s: float | None

    @property
    def is_passing(self) -> bool:
        """Return whether the frontend is too busy at the moment, or a limit is reached for a while."""
        return self.status in _PASSING_STATUSES

    @property
    def is_failing(self) -> bool:
        """Return whether the engine has failed, which another attempt may not see."""
        return self.status in _FAILING_STATUSES


class FrontendPoster:
    """Posts the requests of one run to the first frontend that answers."""

    def __init__(self, session: aiohttp.ClientSession, target: PostTarget, limits: PostLimits, clock: Clock) -> None:
        self._session = session
        self._target = target
        self._limits = limits
        self._clock = clock
        # The address that answered last comes first.
        self._preferred = 0

    async def post(self, body: Mapping[str, Any]) -> FrontendAnswer | None:
        """Return the answer of the first frontend that gives one; None if none can be reached now."""
        urls = self._target.base_urls
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

    async def _post(self, base_url: str, body: Mapping[str, Any]) -> FrontendAnswer:
        async with self._session.post(
            f"{base_url.rstrip('/')}{self._target.path}",
            json=body,
            headers={"Authorization": f"Bearer {self._target.ticket}"},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=self._limits.answer_s, sock_connect=CONNECT_S),
        ) as response:
            return FrontendAnswer(
                status=response.status,
                body=await self._read_body(response),
                request_id=response.headers.get("x-request-id", "")[:100],
                retry_after_s=parse_retry_after(response.headers.get("Retry-After", ""), self._clock.wall()),
            )

    async def _read_body(self, response: aiohttp.ClientResponse) -> bytes | None:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > self._limits.answer_bytes:
                response.close()
                return None
        return bytes(body)
