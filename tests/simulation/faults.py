"""Carries out a plan: each fault begins, lasts and ends, and the diary says what it did to whom."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from tests.simulation.admin import Admin
from tests.simulation.frontends import SimFrontend
from tests.simulation.gate import StoreFaults
from tests.simulation.network import BusFaults
from tests.simulation.plan import DISTURBS_WATCH, Fault, Kind
from tests.simulation.wire import HttpFaults, Wire
from tests.simulation.workers import SimWorker
from tests.simulation.worlds import SimulationDeps

NOTICE_S = 20.0
# Moments of a job: phases of the work, and the one after the swap, before anybody is told.
AMBUSHES = ("downloading", "extracting", "committing", "removing", "swapped")


class Troublemaker:
    ambushes: Sequence[str] = AMBUSHES

    def __init__(
        self, around: SimulationDeps, frontends: Sequence[SimFrontend], workers: Sequence[SimWorker], admin: Admin
    ) -> None:
        self._around = around
        self._frontends = frontends
        self._workers = workers
        self._admin = admin
        self._how: dict[Kind, Callable[[Fault], AbstractAsyncContextManager[None]]] = {
            Kind.FRONTEND_CRASH: self._frontend_crash,
            Kind.FRONTEND_RESTART: self._frontend_restart,
            Kind.FRONTEND_FREEZE: self._frontend_freeze,
            Kind.FRONTEND_WITHOUT_STORE: self._frontend_without_store,
            Kind.FRONTEND_STALLED_STORE: self._frontend_stalled_store,
            Kind.FRONTEND_WITHOUT_BUS: self._frontend_without_bus,
            Kind.STORE_AWAY: self._store_away,
            Kind.STORE_NOISE: self._store_noise,
            Kind.BUS_AWAY: self._bus_away,
            Kind.BUS_NOISE: self._bus_noise,
            Kind.HTTP_NOISE: self._http_noise,
            Kind.WORKER_CRASH: self._worker_crash,
            Kind.WORKER_STOP: self._worker_stop,
            Kind.WORKER_FREEZE: self._worker_freeze,
            Kind.WORKER_WITHOUT_BUS: self._worker_without_bus,
            Kind.WORKER_WITHOUT_HTTP: self._worker_without_http,
            Kind.WORKER_WITHOUT_ONE: self._worker_without_one,
            Kind.CLOCK_STEP: self._clock_step,
            Kind.WORKER_AMBUSH: self._worker_ambush,
            Kind.BUS_SHUFFLE: self._bus_shuffle,
        }

    async def carry_out(self, faults: Sequence[Fault]) -> None:
        """Carry out the faults, and return when all of them are over."""
        async with asyncio.TaskGroup() as group:
            for number, fault in enumerate(faults):
                group.create_task(self._one(fault), name=f"fault {number}")

    async def _one(self, fault: Fault) -> None:
        clock, diary = self._around.clock, self._around.diary
        await clock.sleep(fault.start_s - self._around.now())
        self._around.trace.add(f"FAULT begins: {fault}")
        disturbs = fault.kind in DISTURBS_WATCH
        diary.disturbances += disturbs
        try:
            async with self._how[fault.kind](fault):
                await clock.sleep(fault.length_s)
        finally:
            diary.disturbances -= disturbs
            if disturbs:
                diary.calm_since_s = self._around.now()
            self._around.trace.add(f"FAULT ends: {fault.kind}")

    def _frontend(self, fault: Fault) -> SimFrontend:
        return self._frontends[fault.target % len(self._frontends)]

    def _worker(self, fault: Fault) -> SimWorker:
        return self._workers[fault.target % len(self._workers)]

    # --- frontends ---

    @asynccontextmanager
    async def _frontend_crash(self, fault: Fault) -> AsyncIterator[None]:
        frontend = self._frontend(fault)
        await frontend.crash()
        yield
        if frontend.core is None:
            frontend.start()

    @asynccontextmanager
    async def _frontend_restart(self, fault: Fault) -> AsyncIterator[None]:
        frontend = self._frontend(fault)
        await frontend.stop()
        yield
        if frontend.core is None:
            frontend.start()

    @asynccontextmanager
    async def _frontend_freeze(self, fault: Fault) -> AsyncIterator[None]:
        frontend = self._frontend(fault)
        with _Outage(frontend, self._around):
            await frontend.machine.freeze()
            yield
            frontend.machine.thaw()

    @asynccontextmanager
    async def _frontend_without_store(self, fault: Fault) -> AsyncIterator[None]:
        frontend = self._frontend(fault)
        with _Outage(frontend, self._around):
            frontend.is_cut_from_store = True
            frontend.feel_conditions()
            yield
            frontend.is_cut_from_store = False
            frontend.feel_conditions()

    @asynccontextmanager
    async def _frontend_stalled_store(self, fault: Fault) -> AsyncIterator[None]:
        frontend = self._frontend(fault)
        with _Outage(frontend, self._around):
            # Often longer than a leader's lease: what was decided before is stale when it arrives.
            frontend.is_store_stalled = True
            frontend.feel_conditions()
            yield
            frontend.is_store_stalled = False
            frontend.feel_conditions()

    @asynccontextmanager
    async def _frontend_without_bus(self, fault: Fault) -> AsyncIterator[None]:
        process = self._frontend(fault).process
        with self._cut(process, fault):
            yield

    # --- what all of them use ---

    @asynccontextmanager
    async def _store_away(self, _: Fault) -> AsyncIterator[None]:
        self._around.conditions.store_is_away = True
        self._tell_frontends()
        yield
        self._around.conditions.store_is_away = False
        self._tell_frontends()

    @asynccontextmanager
    async def _store_noise(self, fault: Fault) -> AsyncIterator[None]:
        often = 0.12 * fault.strength
        self._around.conditions.store_faults = StoreFaults(
            refuse=often, break_off=often, lose_reply=often, slow=often / 4, delay=often, delay_s=4.0
        )
        self._tell_frontends()
        yield
        self._around.conditions.store_faults = StoreFaults()
        self._tell_frontends()

    def _tell_frontends(self) -> None:
        for frontend in self._frontends:
            frontend.feel_conditions()

    @asynccontextmanager
    async def _bus_away(self, _: Fault) -> AsyncIterator[None]:
        self._around.network.stop_server()
        yield
        self._around.network.start_server()

    @asynccontextmanager
    async def _bus_noise(self, fault: Fault) -> AsyncIterator[None]:
        often = 0.3 * fault.strength
        self._around.network.faults = BusFaults(lose=often, repeat=often, reorder=often, late=often, late_s=10.0)
        yield
        self._around.network.faults = BusFaults()

    @asynccontextmanager
    async def _bus_shuffle(self, fault: Fault) -> AsyncIterator[None]:
        """Deliver nearly every message, some twice, and in no order: most of them soon enough to be answered."""
        often = 0.2 + 0.2 * fault.strength
        self._around.network.faults = BusFaults(lose=0.02, repeat=0.2, reorder=1.0, late=often, late_s=4.0, usual_s=0.3)
        yield
        self._around.network.faults = BusFaults()

    @asynccontextmanager
    async def _http_noise(self, fault: Fault) -> AsyncIterator[None]:
        often = 0.15 * fault.strength
        faults = HttpFaults(lose_request=often, lose_answer=often, late=often)
        wires = [self._admin.wire, *(worker.wire for worker in self._workers)]
        for wire in wires:
            wire.faults = faults
        yield
        for wire in [*wires, *(worker.wire for worker in self._workers)]:
            wire.faults = HttpFaults()

    # --- workers ---

    @asynccontextmanager
    async def _worker_crash(self, fault: Fault) -> AsyncIterator[None]:
        worker = self._worker(fault)
        await worker.crash()
        yield
        worker.start()

    @asynccontextmanager
    async def _worker_stop(self, fault: Fault) -> AsyncIterator[None]:
        worker = self._worker(fault)
        await worker.stop()
        yield
        worker.start()

    @asynccontextmanager
    async def _worker_freeze(self, fault: Fault) -> AsyncIterator[None]:
        worker = self._worker(fault)
        await worker.machine.freeze()
        self._silent(worker)
        yield
        worker.machine.thaw()
        self._end_silence(worker)

    @asynccontextmanager
    async def _worker_without_bus(self, fault: Fault) -> AsyncIterator[None]:
        node_id = self._worker(fault).node_id
        if node_id is None:
            yield
            return
        with self._cut(node_id, fault):
            yield

    @asynccontextmanager
    async def _worker_without_http(self, fault: Fault) -> AsyncIterator[None]:
        worker = self._worker(fault)
        urls = {frontend.url for frontend in self._frontends}
        with _Unreachable(worker.wire, urls):
            self._silent(worker)
            yield
        self._end_silence(worker)

    @asynccontextmanager
    async def _worker_without_one(self, fault: Fault) -> AsyncIterator[None]:
        with _Unreachable(self._worker(fault).wire, {self._frontend(fault).url}):
            yield

    @asynccontextmanager
    async def _clock_step(self, fault: Fault) -> AsyncIterator[None]:
        self._worker(fault).clock.step((fault.strength - 0.5) * 600)
        yield

    @asynccontextmanager
    async def _worker_ambush(self, fault: Fault) -> AsyncIterator[None]:
        """Cut the power at a certain moment of the worker's next job, if there is one; then start it again."""
        worker = self._worker(fault)
        moment = self.ambushes[int(fault.strength * len(self.ambushes)) % len(self.ambushes)]
        worker.lie_in_wait(moment)
        yield
        worker.lie_in_wait(None)
        if not worker.is_running:
            worker.start()

    def _silent(self, worker: SimWorker) -> None:
        self._around.diary.silent_since_s.setdefault(worker.name, self._around.now())

    def _end_silence(self, worker: SimWorker) -> None:
        if worker.is_running:
            self._around.diary.silent_since_s.pop(worker.name, None)

    def _cut(self, name: str, fault: Fault) -> _Cut:
        return _Cut(self._around, name, notice_s=fault.strength * NOTICE_S)


class _Cut:
    """Cuts a cable to the bus and heals it; its owner may be gone by then, or not there yet."""

    def __init__(self, around: SimulationDeps, name: str, *, notice_s: float) -> None:
        self._network = around.network
        self._name = name
        self._notice_s = notice_s

    def __enter__(self) -> None:
        if self._network.has(self._name):
            self._network.cut(self._name, notice_after_s=self._notice_s)

    def __exit__(self, *_: object) -> None:
        if self._network.has(self._name):
            self._network.heal(self._name)


class _Outage:
    """Records in the diary that the process cannot do its work for as long as this lasts."""

    def __init__(self, frontend: SimFrontend, around: SimulationDeps) -> None:
        self._life = frontend.life
        self._around = around
        self._index = len(self._life.away)

    def __enter__(self) -> None:
        self._start_s = self._around.now()
        self._index = len(self._life.away)
        self._life.away.append((self._start_s, math.inf))

    def __exit__(self, *_: object) -> None:
        self._life.away[self._index] = (self._start_s, self._around.now())


class _Unreachable:
    def __init__(self, wire: Wire, urls: set[str]) -> None:
        self._unreachable = wire.unreachable
        self._urls = urls - wire.unreachable

    def __enter__(self) -> None:
        self._unreachable |= self._urls

    def __exit__(self, *_: object) -> None:
        self._unreachable -= self._urls
