"""Does an engine that is ready still answer? One that is silent and idle is told, and left to live.

Guarantee: nobody is called unhealthy for being busy: an engine that uses the processor counts as well, however long it
is silent. Limit: one that waits for a graphics card alone, without a thread that polls, looks idle; it is told as
unhealthy until it answers again, and nothing else happens to it here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from corral.worker.processes.engine import Around, Engine
from corral.worker.processes.machine import Birth

# So long is looked at the processor time, and so much of it is work.
LOOK_S = 1.0
BUSY_SHARE = 0.1


async def watch(engines: Iterable[Engine], around: Around) -> None:
    """One look at each that is ready, beside one another."""
    async with asyncio.TaskGroup() as group:
        for engine in engines:
            group.create_task(_look(engine, around))


async def is_busy(around: Around, birth: Birth, marker: str) -> bool:
    before_s = await around.machine.cpu_s(birth, marker)
    began_s = around.clock.monotonic()
    await around.clock.sleep(LOOK_S)
    after_s = await around.machine.cpu_s(birth, marker)
    if before_s is None or after_s is None:
        return False
    return after_s - before_s >= BUSY_SHARE * (around.clock.monotonic() - began_s)


async def _look(engine: Engine, around: Around) -> None:
    asked = engine.to_watch()
    if asked is None:
        return
    is_well = await around.ready(asked.url, engine.api_key) or await is_busy(around, asked.birth, asked.marker)
    # Not of the process that came after it.
    if engine.to_watch() == asked:
        engine.looked_at(is_well=is_well)
