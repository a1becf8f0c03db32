"""Makes the parts of a frontend, system by system: peers, catalogs, operations, serving, insight, reconcilers.

A function here makes one part of the options, the process's dependencies and the parts that it needs; `FrontendCore`
calls each once and starts what they do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corral.access.directory import FOLLOWED_PREFIXES, CredentialDirectory, RunTicket
from corral.access.oidc import OidcClient
from corral.access.secret_sealer import SecretSealer
from corral.access.secret_store import SecretStore
from corral.access.sessions import SessionService
from corral.agents.flows import AgentFlows, make_agent_flows
from corral.agents.mcp_calls import McpCallDeps
from corral.agents.service import AgentServiceDeps
from corral.api.deps import ApiDeps, WorkerOptions
from corral.api.metric_families import RequestMetrics
from corral.api.metrics import FrontendMetrics
from corral.api.page.page_store import BUILT_FOLDER, PageStore
from corral.api.turns.turn_calls import TurnCallService
from corral.app.core_options import CoreDeps, CoreOptions
from corral.app.insight import GatewayFleetView
from corral.backends.catalog import BackendCatalog
from corral.backends.refresh import GalleryKind, GalleryRefresher, RefreshOptions
from corral.backends.upgrades import UpgradeChecker
from corral.batches.finalizer import BatchFinalizer
from corral.batches.service import BatchService, BatchServiceDeps
from corral.domain.access import parse_run_ticket_scope
from corral.domain.cluster import OutboxEvent
from corral.domain.operation import OperationId, OperationKind
from corral.domain.run import RunBudgets, RunKind
from corral.domain.task import TASK_WALL_S
from corral.events.feed import Feed, LookAheadFollower
from corral.fine_tuning.exports import ExportService, ExportServiceDeps
from corral.fine_tuning.service import FineTuneService, FineTuneServiceDeps
from corral.gateway.exchange.gateway import Gateway
from corral.gateway.routing.health import Health
from corral.gateway.routing.in_flight_leases import InFlightLeases
from corral.gateway.routing.key_limiter import KeyLimiter
from corral.gateway.routing.load_waiter import LoadWaiter, LoadWaiterDeps
from corral.gateway.routing.replica_pool import ReplicaPools
from corral.gateway.routing.router import Router
from corral.gateway.routing.routing_snapshot import RoutingSnapshot
from corral.gateway.routing.saved_state import StateOwner, StateSaver
from corral.insight.request_monitor import RequestMonitor
from corral.knowledge.flows import KnowledgeFlows, make_knowledge_flows
from corral.knowledge.service import CollectionServiceDeps
from corral.knowledge.vector_tables import VectorTables
from corral.library.library import FrontendLibrary
from corral.loading.admission import ModelOperationSpec
from corral.loading.placer import PlacerOptions
from corral.loading.service import ModelOperationDeps, ModelOperationOptions, ModelOperationService
from corral.metering.usage_shipper import UsageShipper
from corral.models.gallery import ModelGallery, read_models
from corral.nodes.heartbeats import HeartbeatBuffer
from corral.nodes.registration import JoinPolicy
from corral.operations.admission import AdmissionResult
from corral.operations.backend_plan import BackendOperationSpec
from corral.operations.backend_pool import BackendAdmissionController, make_backend_pool
from corral.operations.backend_reports import BackendReportWriter
from corral.operations.command_sender import CommandSender
from corral.operations.deltas import OperationDeltaFeed
from corral.operations.dispatcher import DispatcherDeps, DispatcherOptions, OperationDispatcher
from corral.operations.driver import OperationPool
from corral.ports.credentials import FRONTENDS_AUDIENCE
from corral.ports.requests import LoadRequester
from corral.quantization.service import QuantizationService, QuantizationServiceDeps
from corral.reconcile.leader import LeaderElector
from corral.reconcile.maintenance import (
    FrontendPresence,
    LivenessChecker,
    Pruner,
    ReplicaChecker,
    RetentionOptions,
)
from corral.reconcile.scaling import ScaleRequest, ScalingReconciler
from corral.runs.artifacts import ArtifactService
from corral.runs.service import RunService, RunServiceDeps
from corral.runtime.byte_budget import ByteBudget
from corral.runtime.tasks import TaskSet
from corral.skills.repos import SkillRepoService, SkillRepoServiceDeps
from corral.skills.service import SkillService, SkillServiceDeps
from corral.skills.sync_scheduler import SkillSyncScheduler
from corral.store.replica_use import ServedModel
from corral.tasks.media import MediaFetcher
from corral.tasks.scheduler import TaskScheduler, TaskSchedulerDeps
from corral.tasks.service import TaskService, TaskServiceDeps
from corral.tasks.webhook_sender import WebhookSender, WebhookSenderDeps

if TYPE_CHECKING:
    from corral.app.core import FrontendCore


@dataclass(frozen=True, slots=True, kw_only=True)
class PartContext:
    """Dependencies of every part of a frontend: options, adapters, health, metrics, and the crash callback."""

    options: CoreOptions
    deps: CoreDeps
    health: Health
    metrics: FrontendMetrics
    on_crash: Callable[[BaseException], None] | None


# Peers: which frontends there are, which one leads, and what has changed.


def make_presence(context: PartContext) -> FrontendPresence:
    deps = context.deps
    return FrontendPresence(deps.database, context.options.make_frontend_row(), lambda: deps.bus.is_connected)


def make_leader(context: PartContext, presence: FrontendPresence) -> LeaderElector:
    options, deps = context.options, context.deps
    lease_s, leaves_to_peers = options.leader_lease_s, presence.leaves_to_peers
    return LeaderElector(deps.database, deps.clock, options.frontend_id, lease_s, leaves_to_peers)


def make_directory(context: PartContext) -> CredentialDirectory:
    credentials = context.deps.credentials

    def find_run_ticket(text: str) -> RunTicket | None:
        found = credentials.find_ticket_scope(text, audience=FRONTENDS_AUDIENCE)
        scope = None if found is None else parse_run_ticket_scope(found[0])
        return None if found is None or scope is None else RunTicket(scope=scope, left_s=found[1])

    return CredentialDirectory(context.deps.database, context.deps.clock, find_run_ticket)


def make_secret_store(context: PartContext) -> SecretStore:
    """Make the store of secrets. Without a key file it cannot seal any."""
    deps, keys = context.deps, context.options.sealing_keys
    return SecretStore(deps.database, deps.ids, SecretSealer(keys, deps.ids) if keys else None)


def make_feed(
    context: PartContext,
    directory: CredentialDirectory,
    follow: Callable[[Sequence[OutboxEvent]], Awaitable[None]],
    reload: Callable[[], Awaitable[None]],
) -> Feed:
    """Make the feed of events. The directory sees changes of credentials before their turn."""
    return Feed(context.deps.database, follow, reload, LookAheadFollower(FOLLOWED_PREFIXES, directory.follow))


def make_state_saver(
    context: PartContext, directory: CredentialDirectory, router: Router, catalog: BackendCatalog
) -> StateSaver | None:
    """Make what saves the state for a start without PostgreSQL, or return None if no file is set."""
    deps = context.deps
    if deps.saved_state_file is None:
        return None
    owners: dict[str, StateOwner] = {"directory": directory, "snapshot": router.snapshot, "catalog": catalog}
    saver = StateSaver(deps.saved_state_file, owners, deps.clock, context.options.saved_state_max_age_s)
    context.health.add_source(saver.describe_problem)
    return saver


# Catalogs of backends and models.


def make_catalog(context: PartContext) -> BackendCatalog:
    options = context.options
    return BackendCatalog(context.deps.database, options.galleries, prefers_development=options.prefers_development)


def make_refresher(context: PartContext) -> GalleryRefresher:
    options, deps = context.options, context.deps
    refresh = RefreshOptions(interval_s=options.gallery_interval_s)
    return GalleryRefresher(deps.database, deps.fetcher, deps.clock, options.galleries, options=refresh)


def make_model_gallery(context: PartContext) -> ModelGallery:
    return ModelGallery(context.deps.database, context.options.model_galleries)


def make_model_refresher(context: PartContext) -> GalleryRefresher:
    options, deps = context.options, context.deps
    refresh, kind = RefreshOptions(interval_s=options.gallery_interval_s), GalleryKind(name="models", read=read_models)
    galleries = options.model_galleries
    return GalleryRefresher(deps.database, deps.fetcher, deps.clock, galleries, options=refresh, kind=kind)


def make_upgrade_checker(
    context: PartContext, catalog: BackendCatalog, admission: BackendAdmissionController
) -> UpgradeChecker:
    """Make what looks for upgrades of backends, and requests them if the options say so."""

    async def request_upgrade(backend: str) -> AdmissionResult:
        spec = BackendOperationSpec(kind=OperationKind.BACKEND_UPGRADE, backend=backend)
        return await admission.admit(spec, "automatic upgrades")

    deps, is_automatic = context.deps, context.options.upgrades_automatically
    request = request_upgrade if is_automatic else None
    return UpgradeChecker(deps.database, catalog, deps.fetcher, deps.clock, request_upgrade=request)


# Operations on backends and models.


def make_backend_admission(context: PartContext, catalog: BackendCatalog) -> BackendAdmissionController:
    return BackendAdmissionController(context.deps.database, catalog, context.deps.ids)


def make_model_operations(
    context: PartContext,
    catalog: BackendCatalog,
    library: FrontendLibrary,
    presence: FrontendPresence,
    is_disk_enforced: Callable[[], bool],
) -> ModelOperationService:
    """Make the service of operations on models. `is_disk_enforced` is called at each placement."""
    options, deps = context.options, context.deps
    return ModelOperationService(
        ModelOperationDeps(
            database=deps.database,
            bus=deps.bus,
            clock=deps.clock,
            ids=deps.ids,
            catalog=catalog,
            library=library,
            credentials=deps.credentials,
            metrics=context.metrics,
            leaves_to_peers=presence.leaves_to_peers,
            on_crash=context.on_crash,
        ),
        ModelOperationOptions(
            fan_out=options.fan_out,
            timeouts=options.load_timeouts,
            placer_options=PlacerOptions(
                is_disk_enforced=is_disk_enforced,
                has_shared_models=options.has_shared_models,
                grace_s=options.unload_grace_s,
            ),
        ),
    )


def make_pools(
    context: PartContext,
    catalog: BackendCatalog,
    admission: BackendAdmissionController,
    model_operations: ModelOperationService,
    runs: RunService,
) -> dict[str, OperationPool]:
    """Make the pools of operations, by name."""
    deps = context.deps
    sender = CommandSender(deps.bus, limit=context.options.fan_out, metrics=context.metrics)
    return {
        "backend": make_backend_pool(admission, sender, catalog, deps.ids),
        "model": model_operations.pool,
        "run": runs.pool,
    }


def make_runs(context: PartContext) -> RunService:
    """Make the service of runs; the flows that start runs add their kinds."""
    deps, options = context.deps, context.options
    return RunService(
        RunServiceDeps(
            database=deps.database,
            bus=deps.bus,
            clock=deps.clock,
            ids=deps.ids,
            sender=CommandSender(deps.bus, limit=options.fan_out, metrics=context.metrics),
            frontend_id=options.frontend_id,
            metrics=context.metrics,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchParts:
    """Services of a frontend for users' files and for batches of inference requests, wired together."""

    artifacts: ArtifactService
    service: BatchService
    finalizer: BatchFinalizer


def make_batches(context: PartContext, runs: RunService) -> BatchParts:
    """Make what keeps files and answers batches, and let it build the runs of their kind."""
    deps = context.deps
    artifacts = ArtifactService(deps.database, deps.ids, context.options.artifacts)
    service = BatchService(BatchServiceDeps(database=deps.database, ids=deps.ids, runs=runs, artifacts=artifacts))
    runs.add_kind(RunKind.BATCH, service)
    finalizer = BatchFinalizer(deps.database, service, artifacts)
    return BatchParts(artifacts=artifacts, service=service, finalizer=finalizer)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillParts:
    """Services of a frontend for skills of LLM agents and for the git repositories that they come from."""

    service: SkillService
    repos: SkillRepoService
    scheduler: SkillSyncScheduler


def make_skills(context: PartContext, leader: LeaderElector, runs: RunService) -> SkillParts:
    """Make what keeps skills, and let it build the runs of its kind."""
    deps = context.deps
    repos = SkillRepoService(
        SkillRepoServiceDeps(
            database=deps.database, ids=deps.ids, runs=runs, allows_private=context.options.allows_private_sources
        )
    )
    runs.add_kind(RunKind.SKILL_SYNC, repos)
    return SkillParts(
        service=SkillService(SkillServiceDeps(database=deps.database, ids=deps.ids)),
        repos=repos,
        scheduler=SkillSyncScheduler(deps.database, leader, repos),
    )


def make_knowledge(
    context: PartContext,
    leader: LeaderElector,
    runs: RunService,
    batches: BatchParts,
    find_default_model: Callable[[], str | None],
) -> KnowledgeFlows:
    """Make the flows about collections, and let them say where PostgreSQL has no room for embeddings."""
    deps, options = context.deps, context.options
    tables = VectorTables(deps.database)
    context.health.add_source(tables.describe_problem)
    return make_knowledge_flows(
        CollectionServiceDeps(
            database=deps.database,
            ids=deps.ids,
            runs=runs,
            artifacts=batches.artifacts,
            tables=tables,
            find_default_model=find_default_model,
        ),
        leader,
        deps.fetcher,
        allows_private=options.allows_private_sources,
    )


def find_embedding_model(configured: str, models: Iterable[ServedModel]) -> str | None:
    """Return the embedding model of collections that name none: that of the setting, else the only one."""
    found = [model.name for model in models if model.is_enabled and "embeddings" in (model.serves or ())]
    return configured or (found[0] if len(found) == 1 else None)


def make_agents(context: PartContext, leader: LeaderElector, runs: RunService, knowledge: KnowledgeFlows) -> AgentFlows:
    """Make the flows about agents, and let them build the runs of their kind."""
    deps, options = context.deps, context.options
    return make_agent_flows(
        AgentServiceDeps(
            database=deps.database,
            ids=deps.ids,
            runs=runs,
            allows_private_addresses=options.allows_private_sources,
            default_wall_s=options.run_timeout_s or RunBudgets().wall_s,
        ),
        leader,
        McpCallDeps(database=deps.database, bus=deps.bus, credentials=deps.credentials),
        knowledge.memory,
    )


def make_quantizations(context: PartContext, catalog: BackendCatalog, runs: RunService) -> QuantizationService:
    """Make what quantises models, and let it build the runs of its kind."""
    deps = context.deps
    service = QuantizationService(
        QuantizationServiceDeps(database=deps.database, ids=deps.ids, runs=runs, catalog=catalog)
    )
    runs.add_kind(RunKind.QUANTIZE, service)
    return service


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTuneParts:
    """Services of a frontend for fine-tunings: the jobs, and the exports of their checkpoints."""

    jobs: FineTuneService
    exports: ExportService


def make_fine_tuning(
    context: PartContext, catalog: BackendCatalog, runs: RunService, artifacts: ArtifactService
) -> FineTuneParts:
    """Make what trains models, and let it build the runs of its kinds."""
    deps = context.deps
    jobs = FineTuneService(
        FineTuneServiceDeps(
            database=deps.database,
            runs=runs,
            artifacts=artifacts,
            catalog=catalog,
            allows_inline_rewards=context.options.allows_inline_rewards,
        )
    )
    exports = ExportService(
        ExportServiceDeps(database=deps.database, ids=deps.ids, runs=runs, jobs=jobs, catalog=catalog)
    )
    runs.add_kind(RunKind.FINE_TUNE, jobs)
    runs.add_kind(RunKind.FINE_TUNE_EXPORT, exports)
    return FineTuneParts(jobs=jobs, exports=exports)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskParts:
    """Services of a frontend for users' tasks, wired together: the tasks, the scheduler, and the webhook sender."""

    service: TaskService
    scheduler: TaskScheduler
    webhook_sender: WebhookSender
    # Returns the key that webhooks of a task are signed with, by the task's id.
    derive_webhook_key: Callable[[str], bytes]


def make_tasks(context: PartContext, leader: LeaderElector, runs: RunService, secrets: SecretStore) -> TaskParts:
    """Make what executes tasks, and let it build the runs of their kind."""
    deps, options = context.deps, context.options

    def derive_webhook_key(task_id: str) -> bytes:
        return deps.credentials.derive_key(f"webhooks of task {task_id}")

    service = TaskService(
        TaskServiceDeps(
            database=deps.database,
            ids=deps.ids,
            runs=runs,
            media=MediaFetcher(deps.fetcher, secrets, allows_private=options.allows_private_sources),
            default_wall_s=options.run_timeout_s or TASK_WALL_S,
            allows_private_addresses=options.allows_private_sources,
        )
    )
    runs.add_kind(RunKind.TASK, service)
    sender = WebhookSender(
        WebhookSenderDeps(
            database=deps.database,
            fetcher=deps.fetcher,
            clock=deps.clock,
            secrets=secrets,
            derive_key=derive_webhook_key,
            allows_private=options.allows_private_webhooks,
            on_crash=context.on_crash,
        )
    )
    scheduler = TaskScheduler(
        TaskSchedulerDeps(database=deps.database, leader=leader, runs=runs, tasks=service, on_crash=context.on_crash)
    )
    return TaskParts(service=service, scheduler=scheduler, webhook_sender=sender, derive_webhook_key=derive_webhook_key)


def make_deltas(context: PartContext) -> OperationDeltaFeed:
    return OperationDeltaFeed(context.deps.bus, context.options.frontend_id)


def make_dispatcher(
    context: PartContext,
    pools: dict[str, OperationPool],
    deltas: OperationDeltaFeed,
    leader: LeaderElector,
    leaves_to_peers: Callable[[], bool],
) -> OperationDispatcher:
    """Make what drives the operations of all pools."""
    options, deps = context.options, context.deps
    return OperationDispatcher(
        DispatcherDeps(
            database=deps.database,
            bus=deps.bus,
            clock=deps.clock,
            ids=deps.ids,
            rng=deps.rng,
            pools=pools,
            is_leader=leader.is_leader,
            leaves_to_peers=leaves_to_peers,
            metrics=context.metrics,
            on_crash=context.on_crash,
        ),
        DispatcherOptions(frontend_id=options.frontend_id, lease_s=options.operation_lease_s, fan_out=options.fan_out),
        deltas,
    )


# Serving.


def make_router(context: PartContext, load_requester: LoadRequester) -> Router:
    """Make the router, with its snapshot of routable replicas, its leases and its waiters for loads."""
    options, deps = context.options, context.deps
    replica_pools = ReplicaPools(deps.clock, deps.rng.random, options.replica_pool)
    snapshot = RoutingSnapshot(deps.database, replica_pools)
    in_flight_leases = InFlightLeases(deps.database, deps.clock, options.frontend_id, replica_pools)
    load_waiter = LoadWaiter(
        LoadWaiterDeps(
            database=deps.database,
            loads=load_requester,
            snapshot=snapshot,
            leases=in_flight_leases,
            clock=deps.clock,
            on_crash=context.on_crash,
        )
    )
    return Router(deps.database, deps.clock, snapshot, in_flight_leases, load_waiter)


def make_key_limiter(context: PartContext) -> KeyLimiter:
    return KeyLimiter(context.deps.database, context.deps.clock)


def make_gateway(context: PartContext, router: Router, key_limiter: KeyLimiter) -> Gateway:
    options, deps = context.options, context.deps
    return Gateway(
        router=router,
        engines=deps.engines,
        clock=deps.clock,
        ids=deps.ids,
        wait_s=options.request_wait_s,
        limiter=key_limiter,
        listeners=[key_limiter],
        timeouts=options.exchange_timeouts,
        read_batcher=deps.read_batcher,
        has_response_headers=options.has_response_headers,
        body_budget=ByteBudget(options.body_limits, "of request bodies"),
        upload_budget=ByteBudget(options.upload_limits, "of uploads"),
        tasks=TaskSet("gateway", context.on_crash),
    )


# Insight: what is counted, traced and recorded of each request.


def make_request_monitor(context: PartContext, gateway: Gateway, leader: LeaderElector) -> RequestMonitor:
    """Make the request monitor, and let it hear of every request of the gateway."""
    deps, fleet_view = context.deps, GatewayFleetView(gateway, leader.is_leader)
    monitor = RequestMonitor(context.options.request_monitor, fleet_view, deps.clock, deps.ids, deps.span_exporter)
    gateway.listeners += monitor.listeners
    gateway.tracer = monitor.traces
    return monitor


def make_usage_shipper(context: PartContext, gateway: Gateway, request_monitor: RequestMonitor) -> UsageShipper:
    """Make what writes usage records to PostgreSQL, let it hear of every request, and show both in the metrics."""
    deps = context.deps
    shipper = UsageShipper(deps.database, deps.clock, deps.ids, context.options.usage_dir)
    gateway.listeners.append(shipper.spool)
    context.health.add_source(shipper.describe_problem)
    context.metrics.request_metrics = RequestMetrics(request_monitor, lambda: shipper.spool.requests)
    return shipper


# Reconcilers: they correct the registry without a request.


def make_heartbeats(context: PartContext) -> HeartbeatBuffer:
    return HeartbeatBuffer(context.deps.database, context.options.node_lease_s)


def make_liveness_checker(context: PartContext, leader: LeaderElector) -> LivenessChecker:
    return LivenessChecker(context.deps.database, leader, context.options.node_lease_s)


def make_pruner(context: PartContext, leader: LeaderElector) -> Pruner:
    options = context.options
    retention = RetentionOptions(
        outbox_s=options.outbox_retention_s,
        usage_s=options.usage_retention_s,
        runs_s=options.run_retention_s,
        threads_s=options.thread_retention_s,
        memories_s=options.memory_retention_s,
    )
    return Pruner(context.deps.database, leader, retention)


def make_replica_checker(
    context: PartContext, leader: LeaderElector, model_operations: ModelOperationService
) -> ReplicaChecker:
    return ReplicaChecker(context.deps.database, leader, model_operations.query_running)


def make_scaling(
    context: PartContext, leader: LeaderElector, model_operations: ModelOperationService
) -> ScalingReconciler:
    """Make what keeps the number of replicas that rules and demand want; it requests loads in the name of rules."""

    async def admit(request: ScaleRequest) -> OperationId:
        spec = ModelOperationSpec(
            kind=OperationKind.MODEL_LOAD,
            model=request.model,
            count=request.count,
            nodes=request.node_ids,
            reason=request.reason,
            enough=request.enough,
        )
        return (await model_operations.admission.admit(spec, "rules")).operation.id

    return ScalingReconciler(context.deps.database, leader, admit, idle_s=context.options.model_idle_s)


def make_api_deps(core: FrontendCore, options: CoreOptions, deps: CoreDeps) -> ApiDeps:
    """Return the dependencies of the routes. Called last, when the core has all its parts."""
    return ApiDeps(
        frontend_id=options.frontend_id,
        database=deps.database,
        directory=core.directory,
        sessions=_make_sessions(options, deps),
        secret_store=core.secret_store,
        public_url=options.public_url,
        join_options=options.join,
        metrics_key=options.metrics_key,
        cors_policy=options.cors_policy,
        mcp_read_only=options.mcp_read_only,
        settings=options.settings,
        live_settings=core.live_settings,
        feed=core.feed,
        heartbeats=core.heartbeats,
        bus=deps.bus,
        credentials=deps.credentials,
        leader=core.leader,
        clock=deps.clock,
        ids=deps.ids,
        join_policy=JoinPolicy(lease_s=options.node_lease_s, approves_all=options.approves_all),
        worker_options=WorkerOptions(
            heartbeat_interval_s=options.heartbeat_interval_s, nats_url=options.nats_public_url
        ),
        catalog=core.catalog,
        refresher=core.refresher,
        upgrade_checker=core.upgrade_checker,
        model_gallery=core.model_gallery,
        model_refresher=core.model_refresher,
        model_operations=core.model_operations,
        admission=core.admission,
        admissions={name: pool.admission for name, pool in core.pools.items()},
        deltas=core.deltas,
        runs=core.runs,
        artifacts=core.batches.artifacts,
        batches=core.batches.service,
        skills=core.skills.service,
        skill_repos=core.skills.repos,
        quantizations=core.quantizations,
        fine_tunes=core.fine_tuning.jobs,
        fine_tune_exports=core.fine_tuning.exports,
        tasks=core.tasks.service,
        derive_webhook_key=core.tasks.derive_webhook_key,
        agents=core.agents,
        knowledge=core.knowledge,
        turn_calls=TurnCallService(core.agents, core.runs, core.gateway),
        backend_reports=BackendReportWriter(deps.database),
        fetcher=deps.fetcher,
        library=core.library,
        page=PageStore(BUILT_FOLDER, deps.clock),
        gateway=core.gateway,
        compute=core.gateway.compute,
        request_monitor=core.request_monitor,
        live_views=core.live_views,
        allows_private_sources=options.allows_private_sources,
        count_held_operations=lambda: len(core.dispatcher.held),
        health=core.health,
        get_not_ready_reason=core.get_not_ready_reason,
    )


def _make_sessions(options: CoreOptions, deps: CoreDeps) -> SessionService:
    oidc = OidcClient(options.oidc, deps.fetcher, deps.clock, deps.ids) if options.oidc else None
    return SessionService(deps.database, deps.clock, deps.ids, oidc)
