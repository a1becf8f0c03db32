"""A simulated cluster whose work is operations: frontends, workers with jobs, two admins, and a plan of faults.

`run_operations` runs one seed to its end. The faults end, everybody comes back (one machine may stay away), and then
everything that was requested has to come to its end in bounded time. As a program: `python -m
tests.simulation.operations.cluster <host:port> 0 1 2` prints the digest of the trace for each seed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from corral.domain.node import NodeType
from corral.policy import dispatch, faults
from tests.simulation.chance import chance
from tests.simulation.cluster import Outcome, logs_into
from tests.simulation.databases import cluster_database
from tests.simulation.faults import Troublemaker
from tests.simulation.gate import Turnstile
from tests.simulation.network import Network
from tests.simulation.operations import verdict
from tests.simulation.operations.frontend import OperationsFrontend
from tests.simulation.operations.inspector import OperationsInspector
from tests.simulation.operations.operator import AGENT, NodesAdmin, Operator
from tests.simulation.operations.plan import plan_of_operations
from tests.simulation.operations.work import MachineWork
from tests.simulation.plan import Plan
from tests.simulation.run import simulate
from tests.simulation.settle import settle
from tests.simulation.trace import Trace
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.wire import Server
from tests.simulation.workers import SimWorker
from tests.simulation.worlds import Conditions, Diary, OpaqueCredentials, SimulationDeps

# Ten failures have to fit into minutes, and a silent worker is asked before everything is over.
FIRST_PAUSE_S, LONGEST_PAUSE_S, SILENCE_S = 2.0, 8.0, 10.0
LOOK_AGAIN_S = 8.0
# Looks between two times that the admins help what waits for them.
SETTLE_EVERY = 3


def run_operations(address: str, seed: int, plan: Plan | None = None) -> Outcome:
    chosen = plan or plan_of_operations(seed)

    async def scenario(loop: VirtualLoop) -> Outcome:
        cluster = OperationsCluster(loop, url, chosen)
        with logs_into(cluster.around), short_pauses():
            await cluster.run()
        around = cluster.around
        return Outcome(
            seed=seed, plan=chosen, violations=around.diary.violations, trace=around.trace, virtual_s=loop.time()
        )

    with cluster_database(address) as url:
        return simulate(seed, scenario)


class OperationsCluster:
    def __init__(self, loop: VirtualLoop, url: str, plan: Plan) -> None:
        trace = Trace(loop)
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
        self._rng = chance(loop.seed, "cluster of operations")
        credentials = OpaqueCredentials(network)
        self.frontends = [OperationsFrontend(f"frontend-{n}", self.around, credentials) for n in range(plan.frontends)]
        servers: dict[str, Server] = {frontend.url: frontend for frontend in self.frontends}
        self.works: dict[str, MachineWork] = {}
        self.workers = [self._worker(f"worker-{n}", servers) for n in range(plan.workers)]
        by_name = {worker.name: worker for worker in self.workers}
        if self._rng.random() < 0.3:
            by_name[AGENT] = SimWorker(AGENT, self.around, servers, node_type=NodeType.AGENT)
        self._machines = list(by_name.values())
        self.admin = NodesAdmin(self.around, servers, by_name)
        self.operator = Operator(self.around, self.admin.wire, servers, by_name)
        self.inspector = OperationsInspector(self.around, self.works)
        self.trouble = Troublemaker(self.around, self.frontends, self.workers, self.admin)

    def _worker(self, name: str, servers: dict[str, Server]) -> SimWorker:
        work = MachineWork(name, self.around)
        self.works[name] = work
        return SimWorker(name, self.around, servers, work=work)

    async def run(self) -> None:
        loop, clock = self.around.loop, self.around.clock
        for frontend in self.frontends:
            frontend.start()
        await self.admin.hand_out_tokens()
        for machine in self._machines:
            machine.start()
        admins = [
            loop.create_task(self.admin.work(), name="admin"),
            loop.create_task(self.operator.work(), name="operator"),
        ]
        inspecting = loop.create_task(self.inspector.run(), name="inspector")
        await self.trouble.carry_out(self._plan.faults)
        await clock.sleep(self._plan.faults_end_s - self.around.now())
        self.admin.is_done = self.operator.is_done = True
        for admin in admins:
            await admin
        await self._come_back()
        await self._judge()
        inspecting.cancel()
        for machine in self._machines:
            await machine.crash()
        for frontend in self.frontends:
            await frontend.crash()
        await self.inspector.close()

    async def _come_back(self) -> None:
        """End all faults. On some seeds one machine stays away; all others run."""
        self.around.trace.add("FAULTS are over")
        away = self._rng.choice([None, None, *self.workers])
        for machine in self._machines:
            if machine is away:
                await machine.crash()
            elif not machine.is_running:
                machine.start()

    async def _judge(self) -> None:
        """Judge the state again and again until nothing is wrong any more, or it has taken too long."""
        around = self.around
        give_up_s = around.now() + self._plan.quiet_s
        wrong = ["nobody has looked yet"]
        looks = 0
        while wrong and around.now() < give_up_s:
            if looks % SETTLE_EVERY == 0:
                await self.admin.settle()
                await self.operator.settle()
            looks += 1
            await around.clock.sleep(LOOK_AGAIN_S)
            look = await self.inspector.look(in_full=True)
            wrong = verdict.of_operations(look, self.workers, self.works, self.inspector)
        for sentence in wrong:
            around.violated(f"at the end: {sentence}")
        around.trace.add(f"counts {sorted(self.inspector.counts.items())}")


@contextmanager
def short_pauses() -> Iterator[None]:
    """Shorten the product's pauses: virtual time is cheap, but not free."""
    places: list[tuple[Any, str, object]] = [
        (faults, "FIRST_PAUSE_S", FIRST_PAUSE_S),
        (faults, "LONGEST_PAUSE_S", LONGEST_PAUSE_S),
        (dispatch, "SILENCE", timedelta(seconds=SILENCE_S)),
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
        print(run_operations(sys.argv[1], int(given)).trace.digest())
