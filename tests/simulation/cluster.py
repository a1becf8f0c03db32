"""A whole cluster in one process: frontends, workers, an admin and watchers, and a plan of what goes wrong.

`run_cluster` runs one seed to its end and returns what was violated, if anything. As a program it prints the digest
of the trace for each seed: `python -m tests.simulation.cluster <host:port> 0 1 2`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from tests.simulation import verdict
from tests.simulation.admin import Admin
from tests.simulation.chance import chance
from tests.simulation.databases import cluster_database
from tests.simulation.faults import Troublemaker
from tests.simulation.frontends import SimFrontend
from tests.simulation.gate import Turnstile
from tests.simulation.invariants import FOUND_LOST_S, Inspector
from tests.simulation.network import Network
from tests.simulation.plan import Plan, plan_of
from tests.simulation.run import simulate
from tests.simulation.settle import settle
from tests.simulation.trace import Trace
from tests.simulation.virtual_loop import MACHINE, VirtualLoop
from tests.simulation.watchers import Watcher
from tests.simulation.wire import Server
from tests.simulation.workers import SimWorker
from tests.simulation.worlds import Conditions, Diary, OpaqueCredentials, SimulationDeps

# After this the views have to agree; they are asked again until then.
AGREE_WITHIN_S = 30.0
# What a loop may fail with in a run full of faults. Anything else is a bug that only the log would tell.
EXPECTED_FAILURES = ("PostgreSQL does not respond", "simulated", "lease", "not the leader", "Another change got in")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    seed: int
    plan: Plan
    violations: list[str]
    trace: Trace
    virtual_s: float

    def report(self) -> str:
        return (
            f"seed {self.seed}\n\n" + "\n".join(self.violations) + f"\n\nThe plan:\n{self.plan}\n\n"
            f"The last of {len(self.trace.events)} lines:\n{self.trace.tail(200)}"
        )


def run_cluster(address: str, seed: int, plan: Plan | None = None) -> Outcome:
    chosen = plan or plan_of(seed)

    async def scenario(loop: VirtualLoop) -> Outcome:
        cluster = Cluster(loop, url, chosen)
        with logs_into(cluster.around):
            await cluster.run()
        diary = cluster.around.diary
        return Outcome(
            seed=seed, plan=chosen, violations=diary.violations, trace=cluster.around.trace, virtual_s=loop.time()
        )

    with cluster_database(address) as url:
        return simulate(seed, scenario)


class Cluster:
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
        self._rng = chance(loop.seed, "cluster")
        credentials = OpaqueCredentials(network)
        self.frontends = [SimFrontend(f"frontend-{n}", self.around, credentials) for n in range(plan.frontends)]
        servers: dict[str, Server] = {frontend.url: frontend for frontend in self.frontends}
        self.workers = [SimWorker(f"worker-{n}", self.around, servers) for n in range(plan.workers)]
        by_name = {worker.name: worker for worker in self.workers}
        self.admin = Admin(self.around, servers, by_name)
        self.inspector = Inspector(self.around, self.admin, by_name)
        self.watchers = [Watcher(f"watcher-{n}", self.around, self.frontends) for n in range(plan.watchers)]
        self.trouble = Troublemaker(self.around, self.frontends, self.workers, self.admin)

    async def run(self) -> None:
        loop = self.around.loop
        for frontend in self.frontends:
            frontend.start()
        await self.admin.hand_out_tokens()
        for worker in self.workers:
            worker.start()
        admin = loop.create_task(self.admin.work(), name="admin")
        others = [loop.create_task(watcher.watch(), name=watcher.name) for watcher in self.watchers]
        others.append(loop.create_task(self.inspector.run(), name="inspector"))
        await self.trouble.carry_out(self._plan.faults)
        await self.around.clock.sleep(self._plan.faults_end_s - self.around.now())
        await self._calm_down(admin)
        await self._judge()
        for task in others:
            task.cancel()
        for worker in self.workers:
            await worker.crash()
        for frontend in self.frontends:
            await frontend.crash()
        await self.inspector.close()

    async def _calm_down(self, admin: Any) -> None:
        """End all faults. One worker may stay down; all others get the time to come back."""
        around = self.around
        around.trace.add("FAULTS are over")
        self.admin.is_done = True
        await admin
        # One that stays down has to be found lost, for which a short quiet leaves no time.
        down = self._rng.choice([None, *self.workers]) if self._plan.quiet_s > FOUND_LOST_S else None
        for worker in self.workers:
            if worker is down:
                await worker.crash()
            elif not worker.is_running:
                worker.start()
        for _ in range(2):
            await around.clock.sleep(self._plan.quiet_s / 4)
            await self.admin.settle()
        await around.clock.sleep(self._plan.faults_end_s + self._plan.quiet_s - around.now())

    async def _judge(self) -> None:
        give_up_s = self.around.now() + AGREE_WITHIN_S
        while True:
            look = await self.inspector.look()
            wrong = [
                *verdict.of_workers(look, self.workers),
                *verdict.of_directories(look, self.frontends),
                *verdict.of_leaders(look, self.frontends),
            ]
            if not wrong or self.around.now() > give_up_s:
                break
            await self.around.clock.sleep(1.0)
        wrong += await verdict.of_answers(self.frontends)
        for watcher in self.watchers:
            wrong += verdict.of_watcher(watcher, self.inspector, look.horizon)
        for sentence in wrong:
            self.around.violated(f"at the end: {sentence}")


@contextmanager
def logs_into(around: SimulationDeps) -> Iterator[None]:
    """Write the product's log into the trace; an entry that only a bug would log is a violation."""

    def take(_logger: Any, level: str, event: MutableMapping[str, Any]) -> str:
        fields = {key: value for key, value in sorted(event.items()) if key not in ("event", "exc_info")}
        line = f"{event.get('event')} {fields}"
        around.trace.add(f"log {MACHINE.get()} {level}: {line}")
        failed = event.get("event") == "loop pass failed"
        if level == "error" or (failed and not any(known in line for known in EXPECTED_FAILURES)):
            around.violated(f"logged by {MACHINE.get()}: {line} {event.get('exc_info', '')!r}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[take], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)


if __name__ == "__main__":
    for given in sys.argv[2:]:
        print(run_cluster(sys.argv[1], int(given)).trace.digest())
