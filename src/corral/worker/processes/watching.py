"""Does an engine that is ready still answer, and what does it use? A silent and idle one is told, and left to live.

Guarantee: nobody is called unhealthy for being busy: an engine that uses the processor counts as well, however long it
is silent. Limit: one that waits for a graphics card alone, without a thread that polls, looks idle; it is told as
unhealthy until it answers again, and nothing else happens to it here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from corral.bus.messages import RunningProcess
from corral.ports.runtime import Clock
from corral.worker.processes.engine import Around, Engine, Watched
from corral.worker.processes.machine import Birth, Machine

# So long is looked at the processor time, and so much of it is work.
LOOK_S = 1.0
BUSY_SHARE = 0.1
# Long enough for the kernel's clock ticks of 10 ms, short enough for somebody who waits.
SAMPLE_S = 0.25


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


class UsageMeter:
    """Measures memory and processor use of engines when somebody asks.

    The engine's first process and all that descends from it are counted, and nobody else's. Processor use is that of a
    fraction of a second. Calls at the same moment are measured one after the other, so that a page which many people
    watch does not load the machine more than one look does.
    """

    def __init__(self, machine: Machine, clock: Clock) -> None:
        self._machine = machine
        self._clock = clock
        self._turn = asyncio.Lock()

    async def measure(self, engines: Sequence[Engine]) -> tuple[RunningProcess, ...]:
        """Return what the engines tell of themselves; those that are ready with what they use now."""
        async with self._turn:
            ready = {engine.key: watched for engine in engines if (watched := engine.to_watch()) is not None}
            percents = await self._cpu_percents(ready)
            found = []
            for engine in engines:
                told = engine.told()
                watched = ready.get(engine.key)
                if told is not None and watched is not None and told.pid == watched.birth.pid:
                    used = await self._machine.measure(watched.birth, watched.marker)
                    told = replace(
                        told,
                        ram_bytes=used.ram_bytes,
                        vram_bytes=used.vram_bytes,
                        cpu_percent=percents.get(engine.key),
                    )
                if told is not None:
                    found.append(told)
            return tuple(sorted(found, key=lambda one: one.key))

    async def _cpu_percents(self, ready: dict[str, Watched]) -> dict[str, float]:
        if not ready:
            return {}
        before = await self._cpu_seconds(ready)
        await self._clock.sleep(SAMPLE_S)
        after = await self._cpu_seconds(ready)
        found = {}
        for key, (used_s, at_s) in after.items():
            earlier = before.get(key)
            if earlier is not None and at_s > earlier[1]:
                found[key] = round(max(0.0, 100.0 * (used_s - earlier[0]) / (at_s - earlier[1])), 1)
        return found

    async def _cpu_seconds(self, ready: dict[str, Watched]) -> dict[str, tuple[float, float]]:
        """Return processor seconds used so far by key, each with the time at which that was read."""
        found = {}
        for key, watched in ready.items():
            used_s = await self._machine.cpu_s(watched.birth, watched.marker)
            if used_s is not None:
                found[key] = (used_s, self._clock.monotonic())
        return found
