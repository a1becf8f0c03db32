"""Requests that never stop while things go away, and what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from corral.adapters.system import SystemClock
from tests.e2e.models.scene import Models
from tests.support.polling import eventually, pause_traffic

# Enough that an outage of seconds meets hundreds of requests, and little enough for a machine with two cores.
CLIENTS_PER_FRONTEND = 2
PAUSE_S = 0.02
# One request in so many is a stream.
STREAM_EVERY = 3
_clock = SystemClock()


@dataclass
class Traffic:
    models: Models
    model: str
    requests: int = 0
    answers: int = 0
    failures: list[str] = field(default_factory=list)

    async def client(self, via: int) -> None:
        for number in range(10**9):
            self.requests += 1
            try:
                await (self._stream(via) if number % STREAM_EVERY == 0 else self._chat(via))
            except (aiohttp.ClientError, OSError) as error:
                self.failures.append(f"via {via}: {error!r}")
            await pause_traffic(PAUSE_S)

    async def _chat(self, via: int) -> None:
        answer = await self.models.chat(self.model, via=via, max_tokens=4)
        self._count(via, None if answer.status == 200 else f"{answer.status}: {answer.body}")

    async def _stream(self, via: int) -> None:
        async with self.models.stream(self.model, via=via, max_tokens=8) as stream:
            events = await stream.rest()
        is_whole = events[-1:] == ["[DONE]"] and not any("error" in event for event in events)
        self._count(via, None if is_whole else f"a stream ended with {events[-1:]}")

    def _count(self, via: int, problem: str | None) -> None:
        if problem is None:
            self.answers += 1
        else:
            self.failures.append(f"via {via}: {problem}")

    async def more(self, count: int, within_s: float = 60.0) -> None:
        """Wait until so many more requests were answered; fail at once if one was not."""
        expected = self.answers + count

        async def are_there() -> bool:
            assert not self.failures, self.failures[:3]
            return self.answers >= expected

        await eventually(are_there, within_s=within_s)

    async def during(self, seconds: float) -> None:
        """Wait for so long, and fail at once if a request was not answered."""
        until = _clock.monotonic() + seconds
        while _clock.monotonic() < until:
            await self.more(1)


@asynccontextmanager
async def traffic(models: Models, model: str, via: Sequence[int] = (0, 1)) -> AsyncIterator[Traffic]:
    """Send requests all the time. Begins when the first are answered; at its end none may have failed."""
    going = Traffic(models, model)
    clients = [asyncio.create_task(going.client(number)) for number in via for _ in range(CLIENTS_PER_FRONTEND)]
    try:
        await going.more(20)
        yield going
    finally:
        for client in clients:
            client.cancel()
        ended = await asyncio.gather(*clients, return_exceptions=True)
    assert not [error for error in ended if not isinstance(error, asyncio.CancelledError)], ended
    assert not going.failures, going.failures[:3]
