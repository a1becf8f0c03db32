"""A small busy scenario whose trace stands for "the order of everything", as a function and as a program.

`python -m tests.simulation.fingerprint 0 1 2` prints one digest per seed; a test compares it across processes.
"""

from __future__ import annotations

import asyncio
import sys

from tests.simulation.chance import chance
from tests.simulation.clock import SimClock, SimIds
from tests.simulation.run import simulate
from tests.simulation.trace import Trace
from tests.simulation.virtual_loop import VirtualLoop

PARTIES = 6
ROUNDS = 8


def fingerprint(seed: int) -> str:
    async def scenario(loop: VirtualLoop) -> str:
        trace = Trace(loop)
        await _busy(loop, trace)
        return trace.digest()

    return simulate(seed, scenario)


async def _busy(loop: VirtualLoop, trace: Trace) -> None:
    """Use locks, a queue, timers that tie, threads and a set of tasks: what usually makes two runs differ."""
    lock, queue = asyncio.Lock(), asyncio.Queue[str]()
    ids = SimIds(chance(loop.seed, "ids"), SimClock(loop))

    async def party(number: int) -> None:
        clock = SimClock(loop, drift=number / 1000)
        for turn in range(ROUNDS):
            await clock.sleep(turn % 3)
            async with lock:
                trace.add(f"{number} holds the lock")
                await asyncio.to_thread(trace.add, f"{number} in a thread")
            await queue.put(f"{number} {ids.new_id()}")

    async def reader() -> None:
        while True:
            trace.add(await queue.get())

    readers = {loop.create_task(reader()) for _ in range(PARTIES)}
    async with asyncio.TaskGroup() as group:
        for number in range(PARTIES):
            group.create_task(party(number))
    for task in readers:
        trace.add(f"ending {task.get_name()}")
        task.cancel()
    await asyncio.wait(readers)


if __name__ == "__main__":
    print("\n".join(fingerprint(int(seed)) for seed in sys.argv[1:]))
