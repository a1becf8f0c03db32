"""The children of one `corral up`: all started at once, stopped one after the other in the reverse order.

Starting at once is safe because each of them waits for what it needs; stopping in order is needed because a worker
says goodbye to its frontend, and a frontend to the database. When `stop` returns, no process of this home lives, unless
the home was deleted: then the children have ended, and what they left running is for `corral down`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from corral.domain.errors import CorralError
from corral.embedded.child import Child, ChildPlan, Surroundings
from corral.embedded.leftovers import end_leftovers
from corral.embedded.logs import shorten_log

# A log may pass its limit by what a child writes within this time.
LOG_CHECK_S = 20.0


class Supervisor:
    """`group` owns every task: a crash in one of them ends the others, and each child's process with it."""

    def __init__(self, plans: Sequence[ChildPlan], around: Surroundings, group: asyncio.TaskGroup) -> None:
        self._around = around
        self._group = group
        self.children = {plan.name: Child(plan, around) for plan in plans}
        self._logs: asyncio.Task[None] | None = None

    def start(self) -> None:
        for child in self.children.values():
            self._group.create_task(child.run(), name=f"run {child.name}")
        self._logs = self._group.create_task(self._shorten_logs(), name="shorten logs")

    async def wait_ready(self) -> CorralError | None:
        """Return when every child is ready, or with the reason why one cannot become so."""
        all_ready = asyncio.create_task(self._all_ready())
        failures = [child.failure for child in self.children.values()]
        awaited: list[asyncio.Future[Any]] = [all_ready, *failures]
        try:
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            all_ready.cancel()
        return next((failure.result() for failure in failures if failure.done()), None)

    def is_ready(self) -> bool:
        return all(child.ready.is_set() for child in self.children.values())

    def restart(self, *names: str) -> None:
        """What these children were told at their start no longer holds."""
        for name in names:
            if name in self.children:
                self.children[name].restart()

    async def stop(self) -> None:
        if self._logs is not None:
            self._logs.cancel()
        for child in reversed(self.children.values()):
            await child.stop()
        # What a child started and did not end itself carries our marker too. In a home that is not ours any more, so do
        # the processes of the supervisor that runs there now.
        if self._around.is_home_ours():
            await asyncio.to_thread(end_leftovers, self._around.home)

    async def _all_ready(self) -> None:
        for child in self.children.values():
            await child.ready.wait()

    async def _shorten_logs(self) -> None:
        while True:
            await asyncio.sleep(LOG_CHECK_S)
            for path in self._around.home.logs.glob("*.log"):
                await asyncio.to_thread(shorten_log, path)
