"""Start in order, stop in the reverse order, and let the first fatal error end the process.

A service that fails to start stops those before it. Stopping always goes through the whole list, each within its
limit, whatever one of them does. `before_stop` is for what needs all of them to end well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

import structlog

from corral.runtime.attempt import AttemptFailure, attempt

log = structlog.get_logger(__name__)

# A service that does not stop in this time is abandoned; the process ends anyway.
STOP_LIMIT_S = 15.0


class Service(Protocol):
    """Interface of a part of a program (frontend or worker) that is started and stopped with it."""

    @property
    def name(self) -> str: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class ServiceGroup:
    """Starts the services of one program in order, waits for the end, and stops them in the reverse order."""

    def __init__(self, services: Iterable[Service] = ()) -> None:
        self._services = list(services)
        self._started: list[Service] = []
        self._stop_requested = asyncio.Event()
        self._fatal: BaseException | None = None
        self._before_stop: Callable[[], Awaitable[object]] | None = None

    def add(self, *services: Service) -> None:
        """Add services after the existing ones; for services whose construction needs `request_stop`."""
        self._services += services

    def set_before_stop(self, callback: Callable[[], Awaitable[object]]) -> None:
        """Set a callback that `run` calls when it has to stop, however far the start has got. The callback must limit
        its own time."""
        self._before_stop = callback

    async def start(self) -> None:
        for service in self._services:
            self._started.append(service)
            try:
                await service.start()
            except BaseException:
                await self.stop()
                raise

    def request_stop(self, error: BaseException | None = None) -> None:
        """Ask the process to stop; the first reason given wins."""
        if not self._stop_requested.is_set():
            self._fatal = error
            self._stop_requested.set()

    async def run(self) -> None:
        """Start everything, wait for `request_stop`, stop everything. Raises the fatal error if there was one.

        `request_stop` during the start (a service may wait long for something) stops the services started so far."""
        starting = asyncio.get_running_loop().create_task(self.start(), name="start")
        ending = asyncio.get_running_loop().create_task(self._stop_requested.wait(), name="end")
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
        # Registered first, so that a cancelled start stops the services that it has started.
        await self._run_before_stop()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self.stop()

    async def _run_before_stop(self) -> None:
        if self._before_stop is None or self._fatal is not None or not self._started:
            return
        outcome = await attempt(self._before_stop)
        if isinstance(outcome, AttemptFailure):
            log.warning("preparation for the stop failed", error=outcome.sentence)

    async def stop(self) -> None:
        if not self._started:
            return
        service = self._started.pop()
        try:
            outcome = await attempt(lambda: _stop_within_limit(service))
            if isinstance(outcome, AttemptFailure):
                log.warning("service did not stop cleanly", service=service.name, error=outcome.sentence)
        finally:
            # This runs also after a broken assert or a cancellation, which `attempt` lets through.
            await self.stop()


async def _stop_within_limit(service: Service) -> None:
    async with asyncio.timeout(STOP_LIMIT_S):
        await service.stop()
