"""A frontend's dispatcher of runs whose loops the test turns, workers that hold runs, and an owner for them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from corral.adapters.system import SystemIdGenerator
from corral.bus.messages import JobAcceptedReply, JobEvent, StartRun
from corral.bus.subjects import JOB_EVENT, OPERATION_DELTA, RUN_DELTA
from corral.domain.access import SESSION_KEY_PREFIX, Owner
from corral.domain.node import NodeId
from corral.domain.run import Run, RunEvent, RunEventType, RunKind, RunTrigger
from corral.operations.command_sender import CommandSender, NullDispatchMetrics
from corral.operations.deltas import OperationDeltaFeed
from corral.operations.dispatcher import DispatcherDeps, DispatcherOptions, OperationDispatcher
from corral.runs.pool import RunEnding
from corral.runs.service import RunService, RunServiceDeps
from corral.runs.trace import DeliveryResult
from corral.store import run_places as place_store
from corral.store import runs as store
from corral.store.database import Database, Transaction
from corral.store.runs import NewRun
from tests.operations.fake_bus import BOOT, FakeBus, FakeWorker, Hub
from tests.operations.manual_dispatcher import TURNS_MAX, SteppingClock
from tests.operations.scene import put_nodes, sql

ids = SystemIdGenerator()


@dataclass
class RunWorker(FakeWorker):
    """Accepts runs, and delivers what the test says to the frontend that it is given."""

    starts: list[StartRun] = field(default_factory=list)
    next_seq: dict[str, int] = field(default_factory=dict)

    def handle(self, name: str, message: Any) -> Any:
        if not isinstance(message, StartRun):
            return super().handle(name, message)
        if self.refuses is not None:
            raise self.refuses
        self.starts.append(message)
        self.jobs.setdefault(message.job_id, JobEvent(job_id=message.job_id, seq=1, state="running"))
        return JobAcceptedReply(boot_id=BOOT, job=self.jobs[message.job_id])

    @property
    def job(self) -> str:
        return self.starts[-1].job_id

    @property
    def run_id(self) -> str:
        return self.starts[-1].run_id

    async def deliver(
        self, frontend: RunFrontend, *events: tuple[RunEventType, dict[str, Any]], job: str = "", first: int = 0
    ) -> DeliveryResult:
        """Deliver entries of the last run's trace; `first` is the number of the first one."""
        number = first or self.next_seq.get(self.run_id, 1)
        entries = [
            RunEvent(seq=number + index, at=datetime.now(UTC), type=kind, tool=data.get("name", ""), data=data)
            for index, (kind, data) in enumerate(events)
        ]
        result = await frontend.runs.writer.deliver(NodeId(self.node), self.run_id, job or self.job, entries)
        self.next_seq[self.run_id] = result.last_seq + 1
        return result

    async def end(self, frontend: RunFrontend, **outcome: Any) -> DeliveryResult:
        values = {"state": "completed", "content": "done"} | outcome
        return await self.deliver(frontend, (RunEventType.END, values))


@dataclass
class RecordingKind:
    """Builds the spec from the request, and records how runs have ended."""

    endings: list[RunEnding] = field(default_factory=list)

    async def build_spec(self, tx: Transaction, run: Run) -> dict[str, Any]:
        del tx
        return {"model": "m", "messages": [{"role": "user", "content": run.request["text"]}]}

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None:
        del tx
        self.endings.append(ending)


class RunFrontend:
    """One frontend's dispatcher and service of runs, on the hub; nothing happens unless the test turns it."""

    def __init__(self, database: Database, hub: Hub, name: str = "frontend-1") -> None:
        self.database = database
        self.hub = hub
        self.bus = FakeBus(hub)
        self.clock = SteppingClock()
        self.deltas = OperationDeltaFeed(self.bus, name)
        self.kind = RecordingKind()
        self.runs = RunService(
            RunServiceDeps(
                database=database,
                bus=self.bus,
                clock=self.clock,
                ids=ids,
                sender=CommandSender(self.bus, limit=128, metrics=NullDispatchMetrics()),
                frontend_id=name,
            )
        )
        self.runs.add_kind(RunKind.AGENT_TURN, self.kind)
        self.dispatcher = OperationDispatcher(
            DispatcherDeps(
                database=database,
                bus=self.bus,
                clock=self.clock,
                ids=ids,
                rng=random.Random(1),
                pools={"run": self.runs.pool},
                is_leader=lambda: False,
            ),
            DispatcherOptions(frontend_id=name),
            self.deltas,
        )
        self.runs.wake_operation = self.dispatcher.wake_operation
        self.runs.admission.claimer = self.dispatcher

    async def plug_in(self) -> RunFrontend:
        await self.bus.subscribe(JOB_EVENT, self.dispatcher.on_job_event)
        await self.bus.subscribe(OPERATION_DELTA, self.deltas.on_delta)
        await self.bus.subscribe(RUN_DELTA, self.runs.readers.on_delta)
        return self

    async def run(self) -> None:
        """Look until there is nothing to do now."""
        for _ in range(TURNS_MAX):
            await self.dispatcher.flush()
            started = await self.dispatcher.tick()
            await self.dispatcher.wait_idle()
            if not started:
                return
        raise AssertionError("the dispatcher finds something to do for ever")

    async def start(self, owner: Owner, text: str = "hello", *, scope: str = "", **more: Any) -> Run:
        """Start a run and return it as it was admitted."""
        request = {"text": text} | more.pop("request", {})
        new = NewRun(
            kind=RunKind.AGENT_TURN,
            owner=owner,
            owner_name="ann",
            key_id=owner.key_id or f"{SESSION_KEY_PREFIX}{owner.user_id}",
            subject="helper",
            trigger=RunTrigger.API,
            request=request,
            **more,
        )
        async with self.database.transaction() as tx:
            run_id = await self.runs.admission.start(tx, new, scope=scope)
        return await self.get(run_id)

    async def start_waiting(self, owner: Owner, text: str = "hello", **more: Any) -> Run:
        """Start a run while another frontend chooses a node, so that this one gets none yet."""
        async with self.database.transaction() as tx:
            await place_store.lock_places(tx)
            return await self.start(owner, text, **more)

    async def get(self, run_id: str) -> Run:
        return await self.runs.get(run_id, None)

    async def trace(self, run_id: str) -> list[RunEvent]:
        async with self.database.transaction() as tx:
            return await store.read_events(tx, run_id, 0)

    async def age(self, run_id: str, seconds: float) -> None:
        """As if so much time had gone by since the worker last reported, was contacted or was found silent."""
        ago = "- make_interval(secs => :s)"
        moments = ("silent_since", "started_at", "attempt_started_at")
        aged = {
            "operation_targets": ("operation_id", f"heard_at = heard_at {ago}, contacted_at = contacted_at {ago}"),
            "runs": ("id", ", ".join(f"{moment} = {moment} {ago}" for moment in moments)),
            "operations": ("id", f"due_at = corral_now(), deadline_at = deadline_at {ago}"),
        }
        for table, (key, values) in aged.items():
            statement = f"UPDATE {table} SET {values} WHERE {key} = CAST(:id AS uuid)"
            await sql(self.database, statement, id=run_id, s=seconds)

    async def wait_out(self, run_id: str, seconds: float) -> None:
        """Let time go by for a run, and look."""
        await self.age(run_id, seconds)
        await self.run()


async def put_owner(database: Database, name: str = "ann") -> Owner:
    """Return a new user as an owner."""
    user_id = ids.new_id()
    await sql(
        database,
        "INSERT INTO users (id, name, scope, created_by) VALUES (CAST(:id AS uuid), :name, 'infer', 'test')",
        id=user_id,
        name=name,
    )
    return Owner(user_id=user_id)


async def put_key(database: Database, name: str) -> str:
    """Return the id of a new key without a user."""
    key_id = ids.new_id()
    statement = (
        "INSERT INTO api_keys (id, name, hash, prefix, created_by) VALUES (CAST(:id AS uuid), :name, :name, 'p', 't')"
    )
    await sql(database, statement, id=key_id, name=name)
    return key_id


async def put_workers(database: Database, hub: Hub, *names: str, max_runs: int = 2, **columns: Any) -> list[RunWorker]:
    """Return workers of new agent nodes. `columns` are SQL."""
    found = []
    for node in await put_nodes(database, *names, node_type="'agent'", max_runs=str(max_runs), **columns):
        worker = RunWorker(node, hub)
        hub.workers[node] = worker
        found.append(worker)
    return found
