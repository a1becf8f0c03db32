"""One simulated machine: the tasks that were started on it, which can be frozen or ended as a whole.

Guarantee: `kill` leaves none of them behind. Whoever kills a machine has cut its ways to the outside before, so that
what its tasks do on their way out is seen by nobody, as after a power cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any

from tests.simulation.gate import Turnstile
from tests.simulation.virtual_loop import MACHINE, VirtualLoop

# A task that ends only at the n-th cancellation swallows them: a bug worth seeing.
KILL_ROUNDS = 50


class Machine:
    def __init__(self, name: str, loop: VirtualLoop, turnstile: Turnstile) -> None:
        self.name = name
        self._loop = loop
        self._turnstile = turnstile

    @property
    def is_frozen(self) -> bool:
        return self._loop.is_frozen(self.name)

    def run(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Start a task here; the tasks that it starts are here too."""
        context = copy_context()
        context.run(MACHINE.set, self.name)
        return self._loop.create_task(work, name=f"{self.name} {name}", context=context)

    async def freeze(self) -> None:
        """Stop the machine's tasks as a debugger, a full disk or a closed lid does, outside of transactions:
        `StoreFaults.slow` freezes inside of one."""
        while self._turnstile.holder == self.name:
            await asyncio.sleep(0.001)
        self._loop.freeze(self.name)

    def thaw(self) -> None:
        self._loop.thaw(self.name)
        self._turnstile.look_again()

    async def kill(self) -> None:
        self.thaw()
        for _ in range(KILL_ROUNDS):
            left = self._loop.tasks_of(self.name)
            if not left:
                return
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=60)
        raise AssertionError(f"{self.name} has tasks that do not end: {self._loop.tasks_of(self.name)}")
