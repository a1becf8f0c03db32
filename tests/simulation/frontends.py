"""A frontend of the simulated cluster: the product's core and API, on a simulated bus, behind a gate to the database.

It can be stopped as by an operator, crash (nothing is handed over, its connections are gone), freeze, and start again
as a new process with a new id.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from fastapi import FastAPI

from corral.api.application import create_app, wrap_with_edge
from corral.api.metrics import FrontendMetrics
from corral.app.core import CoreDeps, CoreOptions, FrontendCore
from corral.bus.subjects import BusRole
from corral.runtime.loop import LoopOptions
from corral.store.database import Database
from tests.simulation.bus import SimBus
from tests.simulation.clock import SimClock, SimIds
from tests.simulation.gate import SimGate
from tests.simulation.machine import Machine
from tests.simulation.wire import Answer, Request, call_app
from tests.simulation.worlds import ADMIN_KEY, AnsweredHeartbeat, Life, OpaqueCredentials, SimulationDeps

NODE_LEASE_S = 45.0
LEADER_LEASE_S = 15.0
LIVENESS_INTERVAL_S = 5.0
# Longer than in production: a liveness check often comes between a heartbeat and its writing.
HEARTBEAT_FLUSH_S = 4.0
PRUNE_INTERVAL_S = 20.0
PRESENCE_INTERVAL_S = 15.0
_HEARTBEAT = re.compile(r"/api/node/([0-9a-f-]{36})/heartbeat")


class SimFrontend:
    """Runs one process after the other behind one address."""

    dispatch_intervals_s: Mapping[str, float] = {"dispatcher": 10.0, "operation deltas": 5.0, "job events": 2.0}

    def __init__(self, name: str, around: SimulationDeps, credentials: OpaqueCredentials) -> None:
        self.name = name
        self.url = f"http://{name}"
        self._around = around
        self._credentials = credentials
        self._lives = 0
        self._database: Database | None = None
        self._bus: SimBus | None = None
        self._app: Any = None
        self.core: FrontendCore | None = None
        self.gate: SimGate | None = None
        self.machine = Machine(name, around.loop, around.turnstile)
        self.is_cut_from_store = False
        self.is_store_stalled = False

    @property
    def is_listening(self) -> bool:
        return self.core is not None

    @property
    def is_frozen(self) -> bool:
        return self.machine.is_frozen

    @property
    def is_well(self) -> bool:
        return self.core is not None and self.core.get_not_ready_reason() is None and not self.machine.is_frozen

    @property
    def life(self) -> Life:
        return self._around.diary.lives[self.process]

    @property
    def process(self) -> str:
        return f"{self.name}-{self._lives}"

    def start(self) -> None:
        """Start a new process; it boots in the background."""
        assert self.core is None, f"{self.name} runs already"
        self._lives += 1
        around, process = self._around, self.process
        around.trace.add(f"{process} starts")
        around.diary.lives[process] = Life(frontend=self.name, started_s=around.now())
        clock = SimClock(around.loop)
        self.gate = around.gate(process)
        self._database = around.database(self.gate)
        self._bus = SimBus(around.loop, around.network, role=BusRole.FRONTEND, owner_id=process)
        world = CoreDeps(
            database=self._database,
            bus=self._bus,
            credentials=self._credentials,
            clock=clock,
            ids=SimIds(around.rng(f"ids of {process}"), clock),
            rng=around.rng(f"jitter of {process}"),
        )
        core = self.make_core(self.options(process), world)
        self.tune(core)
        self.core = core
        self.feel_conditions()
        self._app = wrap_with_edge(_application(self.name, core), core.api_deps, core.metrics)
        self.machine.run(self._boot(core, self._bus), name="boot")

    def make_core(self, options: CoreOptions, world: CoreDeps) -> FrontendCore:
        return FrontendCore(options, world, on_crash=self._crashed)

    def tune(self, core: FrontendCore) -> None:
        """Set longer pauses than in production: hints have to do their part, and a virtual minute costs less."""
        core.loops["feed"].options = LoopOptions(name="feed", interval_s=self._around.feed_interval_s)
        core.loops["presence"].options = LoopOptions(name="presence", interval_s=PRESENCE_INTERVAL_S)
        core.loops["pruner"].options = LoopOptions(name="pruner", interval_s=PRUNE_INTERVAL_S)
        for loop in core.dispatcher.loops:
            loop.options = replace(
                loop.options, interval_s=self.dispatch_intervals_s.get(loop.options.name, loop.options.interval_s)
            )

    def feel_conditions(self) -> None:
        """Apply the present faults of the database to this frontend's way to it."""
        if self.core is not None and self.gate is not None:
            conditions = self._around.conditions
            self.gate.faults = conditions.store_faults
            self.gate.stall(stalls=self.is_store_stalled)
            self.gate.is_cut_off = self.is_cut_from_store or conditions.store_is_away

    async def _boot(self, core: FrontendCore, bus: SimBus) -> None:
        await bus.start()
        await core.start()
        self._around.trace.add(f"{self.process} is ready")

    def begin(self, request: Request) -> asyncio.Task[Answer]:
        return self.machine.run(self._serve(self._app, request, self.process), name=f"{request.method} {request.path}")

    async def _serve(self, app: Any, request: Request, process: str) -> Answer:
        answer = await call_app(app, self.url, request)
        if answer.status == 500:
            self._around.violated(f"{process} answered 500 to {request.method} {request.path}: {answer.body!r}")
        beat = _HEARTBEAT.fullmatch(request.path)
        if beat is not None and answer.status == 200:
            self._around.diary.beats.append(
                AnsweredHeartbeat(at_s=self._around.now(), node_id=beat[1], frontend=process)
            )
        return answer

    async def stop(self) -> None:
        """Stop the process as SIGTERM does."""
        core, bus = self.core, self._bus
        if core is None or bus is None:
            return
        self._around.trace.add(f"{self.process} stops")
        self.machine.thaw()
        stopping = self.machine.run(self._stop(core, bus), name="stop")
        await asyncio.wait([stopping], timeout=30)
        await self.crash()

    async def _stop(self, core: FrontendCore, bus: SimBus) -> None:
        await core.stop()
        await bus.stop()

    async def crash(self) -> None:
        core, self.core = self.core, None
        if core is None or self._bus is None or self.gate is None or self._database is None:
            return
        self._around.trace.add(f"{self.process} is gone")
        self.life.ended_s = self._around.now()
        self.gate.is_cut_off = True
        self._bus.unplug()
        await self.machine.kill()
        async with self._around.turnstile.turn():
            await self._database.close()

    def _crashed(self, error: BaseException) -> None:
        self._around.violated(f"{self.process} broke: {error!r}")

    def options(self, process: str) -> CoreOptions:
        return CoreOptions(
            frontend_id=process,
            host=self.name,
            port=80,
            nats_public_url="nats://bus:4222",
            node_lease_s=NODE_LEASE_S,
            heartbeat_flush_s=HEARTBEAT_FLUSH_S,
            leader_lease_s=LEADER_LEASE_S,
            liveness_interval_s=LIVENESS_INTERVAL_S,
            outbox_retention_s=self._around.outbox_retention_s,
            admin_key=ADMIN_KEY,
        )


@cache
def _empty_application(name: str) -> FastAPI:
    """Make an application without a core; its name keeps the one of each address in a cache, because resolving routes
    takes longer than all that the simulated cluster does with them."""
    return create_app(None, FrontendMetrics())


def _application(name: str, core: FrontendCore) -> FastAPI:
    """Return the application of an address, for its present process: the earlier one has ended."""
    application = _empty_application(name)
    application.state.deps, application.state.metrics = core.api_deps, core.metrics
    return application
