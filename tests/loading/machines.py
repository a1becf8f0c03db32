"""Workers that load models as far as the test says, a library without files, a frontend whose loops the test turns."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from corral.adapters.nats.authority import NatsAuthority
from corral.adapters.nats.connection import NatsEndpoint
from corral.adapters.nats.credentials import UserTokenIssuer
from corral.adapters.nats.revocation import CredentialRevoker, RevocationKeys
from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.app.port_providers import NodeCredentialIssuer
from corral.bus.messages import (
    BlobSource,
    DeleteModel,
    DeleteModelReply,
    JobAcceptedReply,
    JobEvent,
    ListRunning,
    ListRunningReply,
    LoadModel,
    RunningProcess,
    StageModel,
    StopModel,
    StopModelReply,
)
from corral.bus.subjects import JOB_EVENT, OPERATION_DELTA
from corral.domain.model import ModelFacts, ModelFile, StoredFile
from corral.domain.node import NodeId
from corral.loading.kinds.commands import LoadTicketIssuer
from corral.loading.service import ModelOperationDeps, ModelOperationOptions, ModelOperationService
from corral.operations.deltas import OperationDeltaFeed
from corral.operations.dispatcher import DispatcherDeps, DispatcherOptions, OperationDispatcher
from corral.ports.library import FetchProgressListener
from corral.reconcile.maintenance import FrontendPresence
from corral.store import models as model_store
from corral.store.database import Database
from tests.operations.fake_bus import BOOT, FakeBus, FakeWorker, Hub
from tests.operations.manual_dispatcher import TURNS_MAX, SteppingClock
from tests.operations.scene import catalog, make_pool, put_nodes, sql

GIB = 1024**3
AUTHORITY = NatsAuthority.create()
MINTER = UserTokenIssuer(AUTHORITY.account_seed)
CREDENTIALS = NodeCredentialIssuer(
    MINTER,
    CredentialRevoker(
        NatsEndpoint(urls=("nats://127.0.0.1:1",), client_name="nobody"),
        RevocationKeys(account_public=MINTER.account_public),
        clock=SystemClock(),
    ),
    ttl_s=600,
    clock=SystemClock(),
)
TICKETS = LoadTicketIssuer(credentials=CREDENTIALS)


@dataclass
class ModelWorker(FakeWorker):
    """Knows models: it accepts loads, and runs a process for each that the test lets it finish."""

    loads: list[LoadModel | StageModel] = field(default_factory=list)
    processes: dict[str, RunningProcess] = field(default_factory=dict)
    stops: list[StopModel] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    # What it says instead of ending a process.
    stop_problem: str = ""
    # What its engines are started with, beyond what they are told.
    engine_values: dict[str, Any] = field(default_factory=dict)
    # Loads are done as soon as they are accepted.
    is_quick: bool = False

    @property
    def job(self) -> str:
        return self.loads[-1].job_id if self.loads else super().job

    def handle(self, name: str, message: Any) -> Any:
        match message:
            case LoadModel() | StageModel():
                return self._load(message)
            case StopModel():
                return self._stop(message)
            case DeleteModel():
                self.deleted.append(message.model)
                return DeleteModelReply(model=message.model, files=1)
            case ListRunning():
                return ListRunningReply(boot_id=BOOT, processes=tuple(self.processes.values()))
        return super().handle(name, message)

    def _load(self, command: LoadModel | StageModel) -> JobAcceptedReply:
        self.loads.append(command)
        if self.refuses is not None:
            raise self.refuses
        if command.job_id not in self.jobs:
            self.jobs[command.job_id] = JobEvent(
                job_id=command.job_id, seq=1, state="running", operation_id=command.operation_id
            )
            if self.is_quick and isinstance(command, LoadModel):
                self.jobs[command.job_id] = self._done(command)
        return JobAcceptedReply(boot_id=BOOT, job=self.jobs[command.job_id])

    def _done(self, command: LoadModel) -> JobEvent:
        process = self.run(
            command.model,
            command.replica,
            command.revision,
            operation_id=command.operation_id,
            ticket=command.ticket,
            **self.engine_values,
        )
        return replace(
            self.jobs[command.job_id],
            seq=self.jobs[command.job_id].seq + 1,
            state="done",
            percent=100.0,
            result={
                "key": process.key,
                "address": process.address,
                "engine_key": process.engine_key,
                "backend": command.backend,
                "version": "2.0",
                "ram_bytes": "1000",
                "threads": str(command.threads or 1),
            },
        )

    def run(self, model: str, index: int, revision: str, **more: Any) -> RunningProcess:
        """A process that the cluster has requested, unless `more` says otherwise."""
        values: dict[str, Any] = {
            "backend": "cpu-engine",
            "version": "2.0",
            "address": f"127.0.0.1:{9000 + len(self.processes)}",
            "pid": 1,
            "engine_key": "secret",
            "ticket": TICKETS.issue(NodeId(self.node), model, index, revision),
        } | more
        process = RunningProcess(key=f"{model}#{index}", model=model, replica=index, revision=revision, **values)
        self.processes[process.key] = process
        return process

    async def load_done(self, job: str = "") -> None:
        """The engine is ready."""
        key = job or self.job
        command = next(one for one in self.loads if one.job_id == key)
        if isinstance(command, LoadModel):
            self.jobs[key] = self._done(command)
            await self.say(self.jobs[key])
        else:
            await self.finish(key)

    def _stop(self, command: StopModel) -> StopModelReply:
        self.stops.append(command)
        if self.stop_problem:
            return StopModelReply(
                process_key=command.process_key, matched=True, terminated=False, problem=self.stop_problem
            )
        process = self.processes.get(command.process_key)
        if process is None:
            return StopModelReply(process_key=command.process_key, matched=False, terminated=True)
        if command.expected_address and command.expected_address != process.address:
            return StopModelReply(
                process_key=command.process_key, matched=False, terminated=True, address=process.address
            )
        del self.processes[command.process_key]
        return StopModelReply(process_key=command.process_key, matched=True, terminated=True, address=process.address)


@dataclass
class FakeLibrary:
    """Enters files when the gate is open; what it has is written as the real one does it."""

    database: Database
    holder: str = "shared"
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    entered: list[str] = field(default_factory=list)
    fails: list[Exception] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    forgotten: int = 0
    # Contents that it finds damaged when it looks at them.
    damaged: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.gate.set()

    async def ensure_files(
        self, model: str, files: tuple[ModelFile, ...], report: FetchProgressListener
    ) -> tuple[StoredFile, ...]:
        self.entered.append(model)
        report.on_progress(10, 100, "model.gguf")
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(model)
            raise
        if self.fails:
            raise self.fails.pop(0)
        stored = tuple(StoredFile(path=file.path, sha256=sha_of(file.path), size_bytes=100) for file in files)
        await put_blobs(self.database, [file.sha256 for file in stored], holder=self.holder)
        async with self.database.transaction() as tx:
            await model_store.put_contents(tx, model, stored, ModelFacts(format="gguf", weights_bytes=100))
        return stored

    async def list_blob_sources(self, sha256s: Collection[str]) -> tuple[BlobSource, ...]:
        return ()

    async def drop_damaged(self, sha256s: Collection[str]) -> None:
        for sha256 in self.damaged & set(sha256s):
            await sql(self.database, "DELETE FROM library_files WHERE sha256 = :s", s=sha256)

    async def forget_unused(self) -> None:
        self.forgotten += 1


def sha_of(path: str) -> str:
    return path.encode().hex().ljust(64, "0")[:64]


async def put_blobs(database: Database, sha256s: Collection[str], *, holder: str = "") -> None:
    for sha256 in sorted(set(sha256s)):
        await sql(
            database,
            "INSERT INTO blobs (sha256, size_bytes, chunks) VALUES (:s, 100, '') ON CONFLICT DO NOTHING",
            s=sha256,
        )
        if holder:
            await sql(
                database,
                "INSERT INTO library_files (sha256, holder, is_shared) VALUES (:s, :h, true) ON CONFLICT DO NOTHING",
                s=sha256,
                h=holder,
            )


class LoadFrontend:
    """One frontend's dispatcher and loops for models, on the hub; nothing happens unless the test turns it."""

    def __init__(self, database: Database, hub: Hub, name: str = "frontend-1", **options: Any) -> None:
        self.database = database
        self.bus = FakeBus(hub)
        self.clock = SteppingClock()
        self.library = FakeLibrary(database)
        self.deltas = OperationDeltaFeed(self.bus, name)
        row = {"id": name, "host": "127.0.0.1", "port": 1, "pid": 1, "version": "0.0.1"}
        self.presence = FrontendPresence(database, row, lambda: self.bus.is_connected)
        self.loading = ModelOperationService(
            ModelOperationDeps(
                database=database,
                bus=self.bus,
                clock=self.clock,
                ids=SystemIdGenerator(),
                catalog=catalog(database),
                library=self.library,
                credentials=CREDENTIALS,
                leaves_to_peers=self.presence.leaves_to_peers,
            ),
            ModelOperationOptions(**options),
        )
        self.dispatcher = OperationDispatcher(
            DispatcherDeps(
                database=database,
                bus=self.bus,
                clock=self.clock,
                ids=SystemIdGenerator(),
                rng=random.Random(1),
                pools={
                    "backend": make_pool(database, self.bus, catalog(database)),
                    "model": self.loading.pool,
                },
                is_leader=lambda: False,
                leaves_to_peers=self.presence.leaves_to_peers,
            ),
            DispatcherOptions(frontend_id=name),
            self.deltas,
        )
        self.loading.fetches.on_fetch_end = self.dispatcher.wake_operation

    @property
    def loads(self) -> Any:
        return self.loading.admission

    async def plug_in(self) -> LoadFrontend:
        await self.bus.subscribe(JOB_EVENT, self.dispatcher.on_job_event)
        await self.bus.subscribe(OPERATION_DELTA, self.deltas.on_delta)
        return self

    async def turn(self) -> int:
        started = await self.dispatcher.tick()
        await self.dispatcher.wait_idle()
        return started

    async def run(self) -> None:
        """Apply reports, look, and stop what is to be stopped, until there is nothing to do now."""
        for _ in range(TURNS_MAX):
            await self.dispatcher.flush()
            done = await self.turn()
            done += await self.loading.replica_stopper.tick()
            await self.loading.replica_stopper.wait_idle()
            done += await self.loading.copy_remover.tick()
            await self.loading.copy_remover.wait_idle()
            if not done:
                return
        raise AssertionError("there is something to do for ever")

    async def run_ahead(self, seconds: float = 2.0, turns: int = 3) -> None:
        """The same, and what is due a little later as well."""
        for _ in range(turns):
            await self.run()
            self.clock.ahead += seconds
        await self.run()

    async def close(self) -> None:
        await self.loading.close()


async def machines(database: Database, hub: Hub, *names: str, **columns: Any) -> list[ModelWorker]:
    """Nodes with workers. `columns` are SQL."""
    values = {"cpu_threads": "8", "total_ram": str(64 * GIB), "available_ram": str(32 * GIB)} | columns
    values.setdefault("address", "'127.0.0.1:50050'")
    values.setdefault("http_address", "'127.0.0.1:50050'")
    nodes = await put_nodes(database, *names, **values)
    found = []
    for node in nodes:
        hub.workers[node] = worker = ModelWorker(node, hub)
        found.append(worker)
    return found


def node_of(worker: ModelWorker) -> NodeId:
    return NodeId(worker.node)
