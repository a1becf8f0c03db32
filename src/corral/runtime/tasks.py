"""Owned background tasks: none is lost, none fails silently, all end when their owner does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

log = structlog.get_logger(__name__)

# Long enough for a task's own cleanup, short compared with the time that a service has to stop.
CANCEL_AGAIN_S = 5.0


class TaskSet:
    """Owns the background tasks of one service: logs those that crash, and `close` cancels and awaits all of them."""

    def __init__(self, owner: str, on_crash: Callable[[BaseException], None] | None = None) -> None:
        self._owner = owner
        self._on_crash = on_crash
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    def start(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        if self._closed:
            work.close()
            raise RuntimeError(f"{self._owner} has been stopped: {name} cannot start")
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}.{name}")
        self._running.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def __len__(self) -> int:
        return len(self._running)

    async def join(self) -> None:
        """Wait until every task has ended by itself."""
        while self._running:
            await asyncio.wait(set(self._running))

    async def close(self) -> None:
        self._closed = True
        # Cancelled repeatedly, because `asyncio.wait_for` of Python 3.11 can lose a cancellation.
        while self._running:
            for task in tuple(self._running):
                task.cancel()
            await asyncio.wait(set(self._running), timeout=CANCEL_AGAIN_S)

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        log.error("task crashed", task=task.get_name(), error=repr(error), exc_info=error)
        if self._on_crash is not None:
            self._on_crash(error)
