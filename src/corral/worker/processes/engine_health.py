"""Checks whether ready engines still answer, and measures what they use. An idle engine that is silent keeps running.

Guarantee: no engine is called unhealthy for being busy: one that uses the processor counts as healthy, however long it
is silent. Limit: one that waits for a graphics card alone, without a thread that polls, looks idle; it is reported as
unhealthy until it answers again, and nothing else happens to it here.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterable, Sequence
from dataclasses import replace

import aiohttp

from corral.bus.messages import RunningProcess
from corral.ports.runtime import Clock
from corral.runtime.processes import ProcessBirth
from corral.worker.processes.engine import SupervisedEngine
from corral.worker.processes.engine_process import EngineDeps
from corral.worker.processes.process_control import ProbeTarget, ProcessControl

# How long the processor time is observed, and how much of it counts as work.
BUSY_SAMPLE_S = 1.0
BUSY_SHARE = 0.1
# Long enough for the kernel's clock ticks of 10 ms, short enough for a user who waits.
SAMPLE_S = 0.25
LIMIT_S = 2.0


async def watch_engines(engines: Iterable[SupervisedEngine], deps: EngineDeps) -> None:
    """Probe each ready engine once, all at the same time."""
    async with asyncio.TaskGroup() as group:
        for engine in engines:
            group.create_task(_probe_engine(engine, deps))


async def is_busy(deps: EngineDeps, birth: ProcessBirth, marker: str) -> bool:
    before_s = await deps.process_control.read_cpu_s(birth, marker)
    began_s = deps.clock.monotonic()
    await deps.clock.sleep(BUSY_SAMPLE_S)
    after_s = await deps.process_control.read_cpu_s(birth, marker)
    if before_s is None or after_s is None:
        return False
    return after_s - before_s >= BUSY_SHARE * (deps.clock.monotonic() - began_s)


async def _probe_engine(engine: SupervisedEngine, deps: EngineDeps) -> None:
    target = engine.find_probe_target()
    if target is None:
        return
    is_well = await deps.check_ready(target.url, engine.api_key) or await is_busy(deps, target.birth, target.marker)
    # The result must not be applied to the process that came after.
    if engine.find_probe_target() == target:
        engine.record_probe(is_healthy=is_well)


class UsageMeter:
    """Measures memory and processor use of a worker's engine processes on request.

    The engine's first process and all that descends from it are counted, and no others. Processor use is that of a
    fraction of a second. Calls at the same moment are measured one after the other, so that a page which many people
    watch does not load the machine more than one look does.
    """

    def __init__(self, process_control: ProcessControl, clock: Clock) -> None:
        self._process_control = process_control
        self._clock = clock
        self._lock = asyncio.Lock()

    async def measure(self, engines: Sequence[SupervisedEngine]) -> tuple[RunningProcess, ...]:
        """Return the description of each engine, with the present usage of those that are ready."""
        async with self._lock:
            ready = {engine.key: watched for engine in engines if (watched := engine.find_probe_target()) is not None}
            percents = await self._measure_cpu_percents(ready)
            found = []
            for engine in engines:
                description = engine.describe()
                watched = ready.get(engine.key)
                if description is not None and watched is not None and description.pid == watched.birth.pid:
                    used = await self._process_control.measure(watched.birth, watched.marker)
                    description = replace(
                        description,
                        ram_bytes=used.ram_bytes,
                        vram_bytes=used.vram_bytes,
                        cpu_percent=percents.get(engine.key),
                    )
                if description is not None:
                    found.append(description)
            return tuple(sorted(found, key=lambda one: one.key))

    async def _measure_cpu_percents(self, ready: dict[str, ProbeTarget]) -> dict[str, float]:
        if not ready:
            return {}
        previous = await self._read_cpu_seconds(ready)
        await self._clock.sleep(SAMPLE_S)
        after = await self._read_cpu_seconds(ready)
        found = {}
        for key, (used_s, at_s) in after.items():
            earlier = previous.get(key)
            if earlier is not None and at_s > earlier[1]:
                found[key] = round(max(0.0, 100.0 * (used_s - earlier[0]) / (at_s - earlier[1])), 1)
        return found

    async def _read_cpu_seconds(self, ready: dict[str, ProbeTarget]) -> dict[str, tuple[float, float]]:
        """Return processor seconds used so far by key, each with the time of the reading."""
        found = {}
        for key, watched in ready.items():
            used_s = await self._process_control.read_cpu_s(watched.birth, watched.marker)
            if used_s is not None:
                found[key] = (used_s, self._clock.monotonic())
        return found


class HttpReadinessProbe:
    """Checks over HTTP whether an engine process is ready, with one session for all probes.

    Ready is a GET of the engine's own path that answers 200 within two seconds, and nothing else.
    """

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, url: str, api_key: str) -> bool:
        if self._session is None:
            # No connection is kept: the next probe of this port may be for another process.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True), timeout=aiohttp.ClientTimeout(total=LIMIT_S)
            )
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        try:
            async with self._session.get(url, headers=headers, allow_redirects=False) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def is_bindable(host: str, port: int) -> bool:
    """Return whether an engine could listen there now. Ports that rest after a connection count as free, as for
    engines."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            # An engine reports a host that cannot be bound at all with a better message.
            return error.errno not in (errno.EADDRINUSE, errno.EACCES)
    return True
