"""Start in order, stop in the reverse order, and let the first fatal error end the process.

A service that fails to start stops those before it. Stopping always goes through the whole list, each within its
limit, whatever one of them does. `before_stop` is for what needs all of them to end well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

import structlog

from corral.runtime.guard import Failed, attempt

log = structlog.get_logger(__name__)

# A service that cannot stop in this time is left behind; the process ends anyway.
STOP_LIMIT_S = 15.0


class Service(Protocol):
    @property
    def name(self) -> str: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Services:
    """The ordered services of one process."""

    def __init__(self, services: Iterable[Service] = ()) -> None:
        self._services = list(services)
        self._started: list[Service] = []
        self._ended = asyncio.Event()
        self._fatal: BaseException | None = None
        self._before_stop: Callable[[], Awaitable[object]] | None = None

    def add(self, *services: Service) -> None:
        """More services, after those that are there; for those that need `end` to be made."""
        self._services += services

    def before_stop(self, act: Callable[[], Awaitable[object]]) -> None:
        """`run` does this when it was asked to end, however far the start has got. It has to keep a limit itself."""
        self._before_stop = act

    async def start(self) -> None:
        for service in self._services:
            self._started.append(service)
            try:
                await service.start()
            except BaseException:
                await self.stop()
                raise

    def end(self, error: BaseException | None = None) -> None:
        """Ask the process to stop; the first reason given wins."""
        if not self._ended.is_set():
            self._fatal = error
            self._ended.set()

    async def run(self) -> None:
        """Start everything, wait for `end`, stop everything; raises the fatal error if there was one.

        `end` during the start (a service may wait long for something) stops what has been started so far.
        """
        starting = asyncio.get_running_loop().create_task(self.start(), name="start")
        ending = asyncio.get_running_loop().create_task(self._ended.wait(), name="end")
        try:
            await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await ending
        finally:
            await asyncio.shield(self._finish(starting, ending))
        if self._fatal is not None:
            raise self._fatal

    async def _finish(self, *tasks: asyncio.Task[Any]) -> None:
        # First of all: a start that is cancelled stops what it has started.
        await self._leave()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self.stop()

    async def _leave(self) -> None:
        if self._before_stop is None or self._fatal is not None or not self._started:
            return
        outcome = await attempt(self._before_stop)
        if isinstance(outcome, Failed):
            log.warning("could not end in peace", error=outcome.sentence)

    async def stop(self) -> None:
        if not self._started:
            return
        service = self._started.pop()
        try:
            outcome = await attempt(lambda: _stop_within_limit(service))
            if isinstance(outcome, Failed):
                log.warning("service did not stop cleanly", service=service.name, error=outcome.sentence)
        finally:
            # Also after a broken assert or a cancellation, which `attempt` lets through.
            await self.stop()


async def _stop_within_limit(service: Service) -> None:
    async with asyncio.timeout(STOP_LIMIT_S):
        await service.stop()
