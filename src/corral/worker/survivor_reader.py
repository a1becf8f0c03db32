"""Lists the engines that run on this machine, once those of an earlier worker process are adopted.

A worker that registers before adoption would report that nothing runs, and its replicas would get no requests until its
first report. Guarantee: the wait is bounded; an engine that does not respond must not keep the node away for long. A
worker that is still adopting says so: its replicas stay, and the first report says which of them run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from corral.bus.messages import RunningProcess

# A little more than an engine has to answer when it is adopted.
WAIT_S = 12.0


class SurvivorReader:
    """Lists the engines that run here, once those left by an earlier worker are adopted. A service."""

    name = "survivors"

    def __init__(self, list_processes: Callable[[], tuple[RunningProcess, ...]]) -> None:
        self._list_processes = list_processes
        self._adopted_event = asyncio.Event()

    async def start(self) -> None:
        self._adopted_event.set()

    async def stop(self) -> None:
        return

    async def wait_for_processes(self) -> tuple[RunningProcess, ...] | None:
        """Return the processes of this machine, or None if the worker has not finished looking within the limit."""
        try:
            async with asyncio.timeout(WAIT_S):
                await self._adopted_event.wait()
        except TimeoutError:
            return None
        return self._list_processes()
