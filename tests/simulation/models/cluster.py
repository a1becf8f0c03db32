"""A simulated cluster whose work is models: frontends, machines with engines, admins, clients, and a plan of faults.

`run_models` runs one seed to its end. The faults end, everybody comes back (one machine may stay away), and then rows,
processes, files and rules have to agree in bounded time. As a program: `python -m tests.simulation.models.cluster
<host:port> 0 1 2` prints the digest of the trace of a brief run for each seed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

from typing_extensions import override

from corral.bus.messages import BlobSource
from corral.domain.backend import InstalledBackend
from corral.loading import copy_remover, replica_stopper
from corral.loading.kinds import teardown
from corral.policy import dispatch, faults
from corral.policy import loads as load_policy
from corral.policy.models import estimate
from corral.policy.placing import scaling
from corral.reconcile import maintenance
from corral.worker.hardware_reader import HardwareReader
from tests.simulation.admin import Admin
from tests.simulation.chance import chance
from tests.simulation.cluster import Outcome, logs_into
from tests.simulation.databases import cluster_database
from tests.simulation.faults import Troublemaker
from tests.simulation.gate import Turnstile
from tests.simulation.models import verdict
from tests.simulation.models.frontend import REQUEST_WAIT_S, ModelsFrontend, Origin, SimEngines
from tests.simulation.models.host import GIB, Host
from tests.simulation.models.inspector import ModelsInspector
from tests.simulation.models.people import Clients, ModelNodesAdmin, ModelsAdmin, draw_models
from tests.simulation.models.plan import brief_plan, plan_of_models
from tests.simulation.models.work import LOADING, STAGING, STARTED, STARTING, ModelsWork, damage
from tests.simulation.network import Network
from tests.simulation.operations.gallery import INDEX
from tests.simulation.operations.work import MachineBehaviour
from tests.simulation.plan import Fault, Kind, Plan
from tests.simulation.run import simulate
from tests.simulation.settle import settle
from tests.simulation.trace import Trace
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.wire import Server
from tests.simulation.workers import SimWorker
from tests.simulation.worlds import Conditions, Diary, OpaqueCredentials, SimulationDeps
from tests.worker.pretend_work import MIB

LOOK_AGAIN_S = 8.0
LOOK_EARLY_S = 3.0
SETTLE_EVERY = 3
# Beyond what a request may wait for its model: calls of engines that are silent, and a store that stalls.
ANSWERED_WITHIN_S = REQUEST_WAIT_S + 90.0


def run_models(address: str, seed: int, plan: Plan | None = None, *, ends_at: Sequence[str] = ()) -> Outcome:
    """Simulate a cluster with models. `ends_at`: stop at the first violation with one of these words."""
    chosen = plan or plan_of_models(seed)

    async def scenario(loop: VirtualLoop) -> Outcome:
        cluster = ModelsCluster(loop, url, chosen, ends_at=ends_at)
        with logs_into(cluster.around), short_pauses():
            await cluster.run()
        around = cluster.around
        return Outcome(
            seed=seed, plan=chosen, violations=around.diary.violations, trace=around.trace, virtual_s=loop.time()
        )

    with cluster_database(address) as url:
        return simulate(seed, scenario)


class HostReadings:
    def __init__(self, host: Host) -> None:
        self._host = host

    async def read(self) -> Mapping[str, object]:
        return {
            "total_vram": 0,
            "available_vram": 0,
            "total_ram": self._host.ram_bytes,
            "available_ram": self._host.available_ram,
            "total_disk": 100 * GIB,
            "available_disk": 90 * GIB,
            "cpu_threads": self._host.threads,
        }


class ModelsWorker(SimWorker):
    def __init__(self, host: Host, around: SimulationDeps, servers: Mapping[str, Server], work: ModelsWork) -> None:
        super().__init__(host.name, around, servers, work=work)
        self.host = host
        self.models_work = work

    @override
    def readings(self) -> HardwareReader:
        return HostReadings(self.host)


class ModelsTrouble(Troublemaker):
    ambushes = (STAGING, STARTING, LOADING, STARTED)

    def __init__(
        self,
        around: SimulationDeps,
        frontends: Sequence[ModelsFrontend],
        workers: Sequence[ModelsWorker],
        admin: Admin,
        inspector: ModelsInspector,
    ) -> None:
        super().__init__(around, frontends, workers, admin)
        self._machines = workers
        self._inspector = inspector
        self._how |= {
            Kind.WORKER_KILL: self._worker_kill,
            Kind.ENGINE_DEATH: self._engine_death,
            Kind.ENGINE_STUBBORN: self._engine_stubborn,
            Kind.MEMORY_SHORT: self._memory_short,
            Kind.FILES_LOST: self._files_lost,
        }

    def _machine(self, fault: Fault) -> ModelsWorker:
        return self._machines[fault.target % len(self._machines)]

    @override
    async def _one(self, fault: Fault) -> None:
        """Carry out one fault, and note for the inspector when the database is away or unreliable."""
        if fault.kind in (Kind.STORE_AWAY, Kind.STORE_NOISE):
            self._inspector.outages.append((fault.start_s, fault.start_s + fault.length_s))
        await super()._one(fault)

    @asynccontextmanager
    async def _worker_kill(self, fault: Fault) -> AsyncIterator[None]:
        worker = self._machine(fault)
        worker.models_work.engines_survive = True
        await worker.crash()
        yield
        worker.start()

    @asynccontextmanager
    async def _engine_death(self, fault: Fault) -> AsyncIterator[None]:
        for number in range(1 + int(fault.strength * 4)):
            self._machines[(fault.target + number) % len(self._machines)].host.crash_one()
            await self._around.clock.sleep(fault.length_s / 8)
        yield

    @asynccontextmanager
    async def _engine_stubborn(self, fault: Fault) -> AsyncIterator[None]:
        host = self._machine(fault).host
        host.is_stubborn = True
        yield
        host.is_stubborn = False

    @asynccontextmanager
    async def _memory_short(self, fault: Fault) -> AsyncIterator[None]:
        chosen = self._machines if fault.strength > 0.7 else [self._machine(fault)]
        for worker in chosen:
            worker.host.is_short_of_memory = True
        yield
        for worker in chosen:
            worker.host.is_short_of_memory = False

    @asynccontextmanager
    async def _files_lost(self, fault: Fault) -> AsyncIterator[None]:
        for number in range(1 + int(fault.strength * 3)):
            damage(self._machine(fault).models_work, fault.target + number)
        yield


class ModelsCluster:
    def __init__(self, loop: VirtualLoop, url: str, plan: Plan, *, ends_at: Sequence[str] = ()) -> None:
        trace = Trace(loop)
        self._ends_at = ends_at
        network = Network(loop, chance(loop.seed, "network"), trace=trace)
        self.around = SimulationDeps(
            loop=loop,
            url=url,
            trace=trace,
            turnstile=Turnstile(loop, chance(loop.seed, "turns"), settle=settle(url)),
            network=network,
            diary=Diary(),
            conditions=Conditions(),
            feed_interval_s=plan.feed_interval_s,
            outbox_retention_s=plan.outbox_retention_s,
        )
        self._plan = plan
        self._rng = chance(loop.seed, "cluster of models")
        self._hosts = {name: self._host(name) for name in (f"worker-{n}" for n in range(plan.workers))}
        self._origin = Origin(rng=self.around.rng("origin"), failing=self._rng.choice((0.0, 0.0, 0.05)))
        engines = SimEngines(self.around, self._hosts)
        credentials = OpaqueCredentials(network)
        self.frontends = [
            ModelsFrontend(f"frontend-{n}", self.around, credentials, engines, self._origin)
            for n in range(plan.frontends)
        ]
        idle_s = self._rng.choice((None, None, 30.0))
        for frontend in self.frontends:
            frontend.idle_s = idle_s
        servers: dict[str, Server] = {frontend.url: frontend for frontend in self.frontends}
        self.works = {name: ModelsWork(host, self.around, self._can_get) for name, host in self._hosts.items()}
        self.workers = [self._worker(name, servers) for name in self._hosts]
        by_name: dict[str, SimWorker] = {worker.name: worker for worker in self.workers}
        models = draw_models(self.around, self._rng.choice((3, 4, 5, 6)))
        self.admin = ModelNodesAdmin(self.around, servers, by_name)
        self.models_admin = ModelsAdmin(self.around, self.admin.wire, servers, by_name, models)
        self.clients = Clients(self.around, self.frontends, models)
        self.inspector = ModelsInspector(self.around, self.works, engines)
        self.trouble = ModelsTrouble(self.around, self.frontends, self.workers, self.admin, self.inspector)

    def _host(self, name: str) -> Host:
        ram_bytes = self._rng.choice((4, 6, 8, 12)) * GIB
        return Host(name, self.around, ram_bytes=ram_bytes, threads=self._rng.choice((3, 4, 8)))

    def _worker(self, name: str, servers: Mapping[str, Server]) -> ModelsWorker:
        worker = ModelsWorker(self._hosts[name], self.around, servers, self.works[name])
        worker.labels = {"zone": self._rng.choice(("a", "a", "b"))}
        worker.slots = self._rng.choice((1, 1, 2))
        if self._rng.random() < 0.6:
            self._install(self.works[name])
        return worker

    def _install(self, work: ModelsWork) -> None:
        """Install the machine's engines, which are there from the beginning."""
        for backend, meta in (("cpu-engine", "engine"), ("tool", "")):
            version = next(entry for entry in INDEX.entries if entry.name == backend).versions[0].version
            work.disk.installed[backend] = InstalledBackend(
                name=backend, version=version, digest=f"sha256:{version}", meta=meta
            )

    def _can_get(self, reader: str, sha256: str, places: tuple[BlobSource, ...]) -> bool:
        ids = {worker.node_id: worker for worker in self.workers}
        for place in places:
            if place.kind == "library" and any(
                sha256 in frontend.shelf.blobs and frontend.is_well for frontend in self.frontends
            ):
                return True
            peer = ids.get(place.node)
            if peer is not None and peer.name != reader and peer.is_running and not peer.machine.is_frozen:
                size, there = self.works[peer.name].disk.blobs.get(sha256, (1, 0))
                if size == there:
                    return True
        return False

    async def run(self) -> None:
        loop = self.around.loop
        for frontend in self.frontends:
            frontend.start()
        await self.admin.hand_out_tokens()
        for worker in self.workers:
            worker.start()
        await self.models_admin.begin()
        inspecting = loop.create_task(self.inspector.run(), name="inspector")
        running = loop.create_task(self._run(), name="the run")
        while not running.done() and not self._has_seen_enough():
            await asyncio.wait([running], timeout=LOOK_EARLY_S if self._ends_at else None)
        if running.done():
            running.result()
        running.cancel()
        inspecting.cancel()
        for worker in self.workers:
            await worker.crash()
        for frontend in self.frontends:
            await frontend.crash()
        await self.inspector.close()

    def _has_seen_enough(self) -> bool:
        return any(words in each for words in self._ends_at for each in self.around.diary.violations)

    async def _run(self) -> None:
        loop, clock = self.around.loop, self.around.clock
        busy = [
            loop.create_task(self.admin.work(), name="admin"),
            loop.create_task(self.models_admin.work(), name="admin of models"),
            loop.create_task(self.clients.work(), name="clients"),
        ]
        await self.trouble.carry_out(self._plan.faults)
        await clock.sleep(self._plan.faults_end_s - self.around.now())
        self.admin.is_done = self.models_admin.is_done = self.clients.is_done = True
        for task in busy:
            await task
        await self._come_back()
        await self._judge()

    async def _come_back(self) -> None:
        """End all faults. On some seeds one machine stays away; all others run."""
        self.around.trace.add("FAULTS are over")
        self._origin.failing = 0.0
        away = self._rng.choice([None, None, *self.workers])
        for worker in self.workers:
            worker.models_work.mood = MachineBehaviour(
                bytes_per_s=8.0 * MIB, passing=0.0, lasting=0.0, journal_full=0.0
            )
            if worker is away:
                await worker.crash()
            elif not worker.is_running:
                worker.start()

    async def _judge(self) -> None:
        """Judge the state again and again until nothing is wrong any more, or it has taken too long."""
        around = self.around
        give_up_s = around.now() + self._plan.quiet_s
        wrong = ["nobody has looked yet"]
        looks = 0
        while wrong and around.now() < give_up_s:
            if looks % SETTLE_EVERY == 0:
                await self.admin.settle()
                await self.admin.resume_all()
                await self.models_admin.settle()
            looks += 1
            await around.clock.sleep(LOOK_AGAIN_S)
            look = await self.inspector.look(in_full=True)
            removed = {will.name for will in self.admin.wills.values() if will.is_removed}
            wrong = verdict.of_models(look, self.workers, self.works, self.frontends, removed)
            wrong += self.clients.hanging(ANSWERED_WITHIN_S)
        for sentence in wrong:
            around.violated(f"at the end: {sentence}")
        outcomes: dict[str, int] = {}
        for request in self.clients.requests:
            outcomes[request.outcome] = outcomes.get(request.outcome, 0) + 1
        around.trace.add(f"requests {sorted(outcomes.items())}")
        around.trace.add(f"counts {sorted(self.inspector.counts.items())}")


@contextmanager
def short_pauses() -> Iterator[None]:
    """Shorten the product's pauses: virtual time is cheap, but not free."""
    pause_s = load_policy.compute_stop_pause_s
    silence = timedelta(seconds=10)
    places: list[tuple[Any, str, object]] = [
        (faults, "FIRST_PAUSE_S", 2.0),
        (faults, "LONGEST_PAUSE_S", 8.0),
        (dispatch, "SILENCE", silence),
        (load_policy, "SILENCE", silence),
        (load_policy, "LOAD_SLACK_S", 60.0),
        (estimate, "LOAD_BASE_S", 60.0),
        (teardown, "STOP_PATIENCE_S", 30.0),
        (teardown, "LOOK_S", 3.0),
        (replica_stopper, "LEASE_S", 40.0),
        (replica_stopper, "compute_stop_pause_s", lambda attempts: min(pause_s(attempts), 15.0)),
        (copy_remover, "LEASE_S", 40.0),
        (copy_remover, "LONGEST_PAUSE_S", 15.0),
        (scaling, "COOLDOWN", timedelta(seconds=40)),
        (scaling, "SPARE_IDLE", timedelta(seconds=40)),
        (maintenance, "UNCONFIRMED_S", 45.0),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in places]
    for module, name, value in places:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


if __name__ == "__main__":
    for given in sys.argv[2:]:
        print(run_models(sys.argv[1], int(given), brief_plan()).trace.digest())
