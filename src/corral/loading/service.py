"""Wires together everything about loads that a frontend runs: the driver of operations about models, and two loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from corral.bus.messages import ListRunning
from corral.bus.subjects import MODELS_RUNNING
from corral.domain.cluster import OutboxEvent
from corral.domain.errors import CorralError
from corral.domain.model import Model
from corral.domain.node import NodeId
from corral.domain.operation import OperationId, OperationKind
from corral.loading import holdings
from corral.loading.admission import ModelAdmissionController, ModelOperationSpec, find_engine_model, list_named_nodes
from corral.loading.copy_remover import ModelCopyRemover
from corral.loading.fetches import FileProvisioner, ModelFetchRegistry, is_available
from corral.loading.file_sources import ModelFileSourceProvider
from corral.loading.holdings import HoldingsReport
from corral.loading.kinds.commands import BlobSourceResolver, LoadTicketIssuer
from corral.loading.kinds.load import BUSY_LOOKS, LoadHandler
from corral.loading.kinds.stage import StageHandler
from corral.loading.kinds.teardown import DeleteHandler, UnloadHandler
from corral.loading.kinds.view import ModelPoolHandler, RetryBudget
from corral.loading.load_reports import LoadReportListener
from corral.loading.placer import EngineChoice, PlacementAttempt, PlacementDecision, Placer, PlacerOptions
from corral.loading.replica_stopper import ReplicaStopper
from corral.operations.backend_plan import BuildCatalog
from corral.operations.command_sender import CommandSender, DispatchMetrics, NullDispatchMetrics
from corral.operations.driver import OperationPool
from corral.policy.loads import LoadTimeouts
from corral.ports.bus import Bus
from corral.ports.credentials import BusCredentialIssuer
from corral.ports.library import ModelLibrary
from corral.ports.runtime import Clock, IdGenerator
from corral.store import models as model_store
from corral.store.database import Database

_K = OperationKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOperationOptions:
    """Tunables of operations about models: parallelism, load timeouts and placement."""

    fan_out: int = 128
    timeouts: LoadTimeouts = field(default_factory=LoadTimeouts)
    placer_options: PlacerOptions = field(default_factory=PlacerOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOperationDeps:
    """Dependencies of a frontend's operations about models: database, bus, clock, catalog, library, credentials."""

    database: Database
    bus: Bus
    clock: Clock
    ids: IdGenerator
    catalog: BuildCatalog
    library: ModelLibrary
    credentials: BusCredentialIssuer | None = None
    metrics: DispatchMetrics = field(default_factory=NullDispatchMetrics)
    # Whether this frontend cannot reach workers and a peer can.
    leaves_to_peers: Callable[[], bool] = lambda: False
    on_crash: Callable[[BaseException], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Shows on which nodes a model would be placed now. Nothing is written or reserved."""

    model: Model
    decision: PlacementDecision
    engines: Mapping[NodeId, EngineChoice]
    # True if the files are unknown or unavailable: they would be fetched first.
    needs_fetch: bool


class ModelOperationService:
    """Wires together the parts of a frontend for operations about models: admission, driver, placer, fetches."""

    def __init__(self, deps: ModelOperationDeps, options: ModelOperationOptions) -> None:
        self._deps = deps
        self.admission = ModelAdmissionController(deps.database, deps.ids)
        self.placer = Placer(deps.catalog, deps.ids, options.placer_options)
        self.fetches = ModelFetchRegistry(deps.library, deps.clock, on_crash=deps.on_crash)
        leaves = deps.leaves_to_peers
        self.replica_stopper = ReplicaStopper(deps.database, deps.bus, leaves_to_peers=leaves, on_crash=deps.on_crash)
        self.copy_remover = ModelCopyRemover(deps.database, deps.bus, leaves_to_peers=leaves, on_crash=deps.on_crash)
        self._tickets = LoadTicketIssuer(credentials=deps.credentials)
        self._blob_sources = BlobSourceResolver(library=deps.library, credentials=deps.credentials)
        self.file_sources = ModelFileSourceProvider(
            database=deps.database, placer=self.placer, admission=self.admission, blob_sources=self._blob_sources
        )
        self.pool = self._make_pool(options)
        self._wake_stops: Callable[[], None] = lambda: None
        self._wake_removals: Callable[[], None] = lambda: None

    def _make_pool(self, options: ModelOperationOptions) -> OperationPool:
        deps = self._deps
        teller = CommandSender(deps.bus, limit=options.fan_out, metrics=deps.metrics)
        blob_sources = self._blob_sources
        files = FileProvisioner(fetches=self.fetches, timeouts=options.timeouts)
        busy = RetryBudget(BUSY_LOOKS)
        bring = StageHandler(placer=self.placer, files=files, sender=teller, blob_sources=blob_sources, ids=deps.ids)
        return OperationPool(
            admission=self.admission,
            handler=ModelPoolHandler(
                teller,
                {
                    _K.MODEL_LOAD: LoadHandler(
                        placer=self.placer,
                        files=files,
                        sender=teller,
                        blob_sources=blob_sources,
                        tickets=self._tickets,
                        busy_budget=busy,
                    ),
                    _K.MODEL_INSTALL: bring,
                    _K.MODEL_STAGE: bring,
                    _K.MODEL_UNLOAD: UnloadHandler(ids=deps.ids, grace_s=options.placer_options.grace_s),
                    _K.MODEL_DELETE: DeleteHandler(ids=deps.ids, library=deps.library),
                },
                self.fetches.release,
            ),
            listener=LoadReportListener(timeouts=options.timeouts),
            is_busy_with=self.fetches.is_fetching_for,
        )

    def connect(
        self,
        *,
        wake_operation: Callable[[OperationId], object],
        wake_stops: Callable[[], None],
        wake_removals: Callable[[], None],
    ) -> None:
        """Connect the dispatcher and the loops, which are created after this service."""
        self.fetches.on_fetch_end = wake_operation
        self._wake_stops, self._wake_removals = wake_stops, wake_removals

    async def follow(self, events: Sequence[OutboxEvent]) -> None:
        if await self.replica_stopper.follow(events):
            self._wake_stops()
        if await self.copy_remover.follow(events):
            self._wake_removals()

    async def plan(self, spec: ModelOperationSpec) -> LoadPlan:
        """Return what a load would do now."""
        spec.check()
        async with self._deps.database.transaction() as tx:
            named = await model_store.get_model(tx, spec.model)
            model = await find_engine_model(tx, named, spec.kind)
            nodes = await list_named_nodes(tx, spec)
            registry = await self.placer.read_snapshot(tx, model)
        exact = replace(spec, model=model.name, nodes=None if nodes is None else tuple(node.id for node in nodes))
        return LoadPlan(
            model=model,
            decision=self.placer.decide(model, PlacementAttempt(spec=exact), registry),
            engines=registry.engines,
            needs_fetch=not is_available(model, registry.in_library, registry.staged),
        )

    async def apply_holdings(self, report: HoldingsReport) -> holdings.HoldingsResult:
        return await holdings.apply_report(self._deps.database, self._deps.ids, self._tickets, report)

    async def query_running(self, node_id: NodeId) -> bool:
        """Ask a worker once what it runs. False: it did not respond, from which nothing follows."""
        try:
            running = await self._deps.bus.request(MODELS_RUNNING, ListRunning(), node=node_id)
            report = HoldingsReport(node_id=node_id, boot_id=running.boot_id, processes=running.processes)
            await self.apply_holdings(report)
        except CorralError:
            return False
        return True

    async def close(self) -> None:
        await self.fetches.close()
        await self.replica_stopper.close()
        await self.copy_remover.close()
