"""What runs on this machine, told when what an earlier process of the worker has left is known.

A worker that registers before it has looked would say that nothing runs, and its replicas would get no requests until
its first report. Guarantee: the wait is bounded; an engine that does not answer must not keep the node away for long.
A worker that is still looking says so: its replicas stay, and the first report says which of them run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from corral.bus.messages import RunningProcess

# A little more than an engine has to answer when it is adopted.
WAIT_S = 12.0


class Survivors:
    """A service that is started after the one which adopts."""

    name = "survivors"

    def __init__(self, look: Callable[[], tuple[RunningProcess, ...]]) -> None:
        self._look = look
        self._is_known = asyncio.Event()

    async def start(self) -> None:
        self._is_known.set()

    async def stop(self) -> None:
        return

    async def running(self) -> tuple[RunningProcess, ...] | None:
        """Return the processes of this machine, or None if the worker has not finished looking within the limit."""
        try:
            async with asyncio.timeout(WAIT_S):
                await self._is_known.wait()
        except TimeoutError:
            return None
        return self._look()
