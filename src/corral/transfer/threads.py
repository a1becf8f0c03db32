"""Slow work on files, off the event loop, and ended before anybody goes on.

A thread cannot be cancelled. So whoever is cancelled tells it to stop, waits until it has, and only then passes the
cancellation on: nothing writes into a folder that is being removed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Stopped(Exception):
    """The work was told to stop. It never leaves this package."""


class Stop:
    """Asked between two steps of the work."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def check(self) -> None:
        if self._event.is_set():
            raise Stopped


async def in_thread(work: Callable[[Stop], T]) -> T:
    stop = Stop()
    future = asyncio.get_running_loop().run_in_executor(None, work, stop)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait({future})
        # Looked at, so that nobody complains that it was not.
        future.exception()
        raise
