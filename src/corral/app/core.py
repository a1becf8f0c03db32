"""One frontend without its sockets: registry, directory, feed, leader and loops, wired together.

`app/frontend.py` puts it behind a server and on a real bus; the simulator runs several of these in one process. Boot
order: migrate under the lock, ensure the first key, note the newest outbox position, read the state, bind, subscribe,
read the state a second time, then start the loops. An event can be written between reading and subscribing; the second
read catches it. While PostgreSQL is unreachable, requests are served from the state saved on disk, if any.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import structlog

from corral.access.directory import FOLLOWED_PREFIXES, USES_INTERVAL_S, CredentialDirectory
from corral.access.keys import ensure_first_key
from corral.access.tokens import ensure_local_token
from corral.api.metric_families import RequestMetrics
from corral.api.metrics import FrontendMetrics
from corral.app.core_api_deps import make_api_deps
from corral.app.core_options import CoreDeps, CoreOptions
from corral.app.insight import (
    GatewayFleetView,
    LiveSettingTarget,
    list_live_setting_targets,
    make_live_settings,
    make_live_views,
)
from corral.app.peer_contents import make_library
from corral.backends import refresh as refreshing
from corral.backends import upgrades as upgrading
from corral.backends.catalog import BackendCatalog
from corral.backends.refresh import GalleryRefresher
from corral.backends.upgrades import UpgradeChecker
from corral.bus.messages import WakeFrontends, WorkerHello
from corral.bus.subjects import FRONTEND_NUMBERS, FRONTENDS_WAKE, JOB_EVENT, NODE_HELLO, OPERATION_DELTA
from corral.domain.cluster import OutboxEvent
from corral.domain.errors import CorralError, StoreUnavailable
from corral.domain.node import NodeId
from corral.domain.operation import OperationId, OperationKind
from corral.events.feed import Feed, LookAheadFollower
from corral.gateway.exchange.gateway import SWEEP_INTERVAL_S, Gateway
from corral.gateway.routing import in_flight_leases as using
from corral.gateway.routing import key_limiter as limiting
from corral.gateway.routing import saved_state as keeping
from corral.gateway.routing.health import Health
from corral.gateway.routing.in_flight_leases import InFlightLeases
from corral.gateway.routing.key_limiter import KeyLimiter
from corral.gateway.routing.load_waiter import LoadWaiter, LoadWaiterDeps
from corral.gateway.routing.replica_pool import ReplicaPools
from corral.gateway.routing.router import Router
from corral.gateway.routing.routing_snapshot import RoutingSnapshot
from corral.gateway.routing.saved_state import StateOwner, StateSaver
from corral.insight import recent_rates as noting
from corral.insight import request_tracer as tracing
from corral.insight.request_monitor import RequestMonitor
from corral.library.library import FrontendLibrary
from corral.loading import copy_remover, replica_stopper
from corral.loading.admission import ModelOperationSpec
from corral.loading.placer import PlacerOptions
from corral.loading.service import ModelOperationDeps, ModelOperationOptions, ModelOperationService
from corral.metering import usage_shipper as metering
from corral.metering.usage_shipper import UsageShipper
from corral.models import rules as rule_flow
from corral.models.gallery import ModelGallery, read_models
from corral.nodes.commands import note_bus
from corral.nodes.heartbeats import HeartbeatBuffer
from corral.operations.admission import AdmissionResult
from corral.operations.backend_plan import BackendOperationSpec
from corral.operations.backend_pool import BackendAdmissionController, make_backend_pool
from corral.operations.command_sender import CommandSender
from corral.operations.deltas import OperationDeltaFeed
from corral.operations.dispatcher import DispatcherDeps, DispatcherOptions, OperationDispatcher
from corral.operations.driver import OperationPool
from corral.ports.bus import Delivery
from corral.ports.requests import LoadRequester
from corral.reconcile import maintenance, scaling
from corral.reconcile.leader import LeaderElector
from corral.reconcile.maintenance import FrontendPresence, LivenessChecker, Pruner, ReplicaChecker
from corral.reconcile.scaling import ScalingReconciler
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.byte_budget import ByteBudget
from corral.runtime.loop import Loop, LoopOptions
from corral.runtime.tasks import TaskSet
from corral.store import assignments as assignment_store
from corral.store import operations as operation_store
from corral.store.migrate import migrate

__all__ = ["CoreDeps", "CoreOptions", "FrontendCore"]

log = structlog.get_logger(__name__)

# Pause between two attempts to reach PostgreSQL at the start.
STORE_RETRY_S = 0.2
# Interval at which the feed polls; a wake-up makes it poll at once.
FEED_INTERVAL_S = 1.0
PRESENCE_INTERVAL_S = 5.0
PRUNE_INTERVAL_S = 600.0
LOST_UPLOADS_INTERVAL_S = 30.0
COUNT_INTERVAL_S = 15.0


class FrontendCore:
    """Runs one frontend without its sockets: wires the registry, directory, feed, leader election and loops together. A
    service: `start` boots, `stop` hands over what this frontend holds."""

    name = "frontend"

    def __init__(
        self, options: CoreOptions, deps: CoreDeps, *, on_crash: Callable[[BaseException], None] | None = None
    ) -> None:
        self._options = options
        self._on_crash = on_crash
        self._deps = deps
        self._not_ready_reason: str | None = "booting"
        self._tasks = TaskSet("frontend")
        self._is_subscribed = False
        self.health = Health(deps.clock)
        self.metrics = FrontendMetrics()
        # Secret of the key that was created at the first start of the cluster; the process shows it once.
        self.first_key: str | None = None
        self._presence = FrontendPresence(deps.database, options.make_frontend_row(), lambda: deps.bus.is_connected)
        leaves_to_peers = self._presence.leaves_to_peers
        lease_s = options.leader_lease_s
        self.leader = LeaderElector(deps.database, deps.clock, options.frontend_id, lease_s, leaves_to_peers)
        self.directory = CredentialDirectory(deps.database, deps.clock)
        self.catalog = BackendCatalog(deps.database, options.galleries, prefers_development=options.prefers_development)
        refresh = refreshing.RefreshOptions(interval_s=options.gallery_interval_s)
        self.refresher = GalleryRefresher(deps.database, deps.fetcher, deps.clock, options.galleries, options=refresh)
        self.model_gallery = ModelGallery(deps.database, options.model_galleries)
        self.model_refresher = self._make_model_refresher(refresh)
        self.upgrade_checker = UpgradeChecker(
            deps.database,
            self.catalog,
            deps.fetcher,
            deps.clock,
            request_upgrade=self._request_upgrade if options.upgrades_automatically else None,
        )
        self.checks_disk = options.checks_disk
        self.library = self._make_library()
        self.health.add_source(self.library.describe_lost_uploads)
        self.model_operations = self._make_model_operations()
        self.admission = BackendAdmissionController(deps.database, self.catalog, deps.ids)
        self.pools = self._make_pools()
        self.deltas = OperationDeltaFeed(deps.bus, options.frontend_id)
        self.dispatcher = self._make_dispatcher()
        self.load_requester: LoadRequester = deps.load_requester or self.model_operations.admission
        self.router = self._make_router()
        self.key_limiter = KeyLimiter(deps.database, deps.clock)
        self.gateway = self._make_gateway()
        self.request_monitor = self._make_request_monitor()
        self.live_views = make_live_views(deps, self.request_monitor, options.frontend_id, lambda: self.api_deps)
        self.usage_shipper = self._make_usage_shipper()
        self.state_saver = self._make_state_saver()
        look_ahead = LookAheadFollower(FOLLOWED_PREFIXES, self.directory.follow)
        self.feed = Feed(deps.database, self._follow, self._reload, look_ahead)
        self.heartbeats = HeartbeatBuffer(deps.database, options.node_lease_s)
        self.liveness_checker = LivenessChecker(deps.database, self.leader, options.node_lease_s)
        self._pruner = Pruner(deps.database, self.leader, options.outbox_retention_s, options.usage_retention_s)
        self.replica_checker = ReplicaChecker(deps.database, self.leader, self.model_operations.query_running)
        self.scaling = ScalingReconciler(
            deps.database, self.leader, self._admit_scale_request, idle_s=options.model_idle_s
        )
        level = LiveSettingTarget(initial=options.log_level, apply=deps.set_log_level)
        owners = list_live_setting_targets(self, self.gateway, self.scaling, log_level=level)
        self.live_settings = make_live_settings(deps.database, options.settings, owners)
        self._loops = self._make_loops()
        self.model_operations.connect(
            wake_operation=self.dispatcher.wake_operation,
            wake_stops=self.stop_loop.wake,
            wake_removals=self.removal_loop.wake,
        )
        deps.database.after_commit = self._on_commit
        self.api_deps = make_api_deps(self, options, deps)

    def get_not_ready_reason(self) -> str | None:
        """Return why this frontend accepts no requests, or None if it does, possibly from the state saved on disk."""
        return None if self.health.saved_as_of is not None else self._not_ready_reason

    async def start(self) -> None:
        for loop in self._early_loops:
            await loop.start()
        await self._boot()
        await self.library.start()
        for loop in self._loops:
            await loop.start()
        # This order leaves no gap: a client that was served from the saved state is served throughout.
        self._not_ready_reason = None
        self.health.saved_as_of = None

    def begin_stop(self) -> None:
        """Report "stopping" to health checks and end the event streams, so that clients reconnect to another frontend.
        Requests in flight may go on until `stop`."""
        self.health.is_stopping = True
        self.feed.close()

    async def stop(self) -> None:
        self.begin_stop()
        self._not_ready_reason, self.health.saved_as_of = "stopping", None
        for loop in reversed(self._loops):
            await loop.stop()
        for last_act in (
            *(loop.stop for loop in self._early_loops),
            self.gateway.close,
            self.api_deps.compute.close,
            self.request_monitor.close,
            self._save_state,
            self.router.stop,
            self.dispatcher.stop,
            self.model_operations.close,
            self.library.stop,
            self.heartbeats.flush,
            self.leader.release,
            self._presence.withdraw,
        ):
            outcome = await attempt(last_act)
            if isinstance(outcome, AttemptFailure):
                log.warning("could not hand over", act=last_act.__qualname__, error=outcome.sentence)
        await self._tasks.close()

    async def _boot(self) -> None:
        while True:
            self._check_bus()
            try:
                await self._boot_once()
            except StoreUnavailable as error:
                self._serve_from_saved_state(error)
                await self._deps.clock.sleep(STORE_RETRY_S)
            else:
                self.health.record_store_read()
                return

    def _serve_from_saved_state(self, error: StoreUnavailable) -> None:
        """Try once to serve from the state saved on disk, because PostgreSQL is unreachable at the start. Logs only
        once."""
        is_first, self._not_ready_reason = self.health.store is None, error.message
        self.health.record_store_outage(error)
        if not is_first:
            return
        log.warning("waiting for PostgreSQL", cause=error.details.get("cause"))
        as_of = self.state_saver.restore() if self.state_saver else None
        if as_of is not None:
            self.health.saved_as_of = as_of
            log.warning("serving from what was kept on disk", as_of=as_of.isoformat())

    async def _boot_once(self) -> None:
        database = self._deps.database
        if await migrate(database, self._deps.clock):
            log.info("schema is up to date")
        async with database.transaction() as tx:
            made = await ensure_first_key(tx, self._deps.ids, self._options.admin_key)
            if self._options.local_join_token:
                await ensure_local_token(tx, self._deps.ids, self._options.local_join_token)
            await rule_flow.seed(tx, self._options.rules)
        self.first_key = made or self.first_key
        await self.feed.begin()
        await self._reload()
        await self._presence.tick()
        await self._subscribe_once()
        await self.feed.tick()

    async def _subscribe_once(self) -> None:
        if self._is_subscribed:
            return  # PostgreSQL became unreachable again during the boot.
        bus = self._deps.bus
        await bus.subscribe(FRONTENDS_WAKE, self._on_wake)
        await bus.subscribe(NODE_HELLO, self._on_hello)
        await bus.subscribe(JOB_EVENT, self.dispatcher.on_job_event)
        await bus.subscribe(OPERATION_DELTA, self.deltas.on_delta)
        await bus.subscribe(FRONTEND_NUMBERS, self.live_views.traffic.on_traffic)
        bus.on_reconnect(self._on_reconnect)
        self._is_subscribed = True

    def _make_loop(
        self, name: str, interval_s: float, tick: Callable[[], Awaitable[object]], *, leader_only: bool = False
    ) -> Loop:
        gate = self.leader.is_leader if leader_only else lambda: True
        loop_options = LoopOptions(name=name, interval_s=interval_s)
        return Loop(loop_options, tick, self._deps.clock, self._deps.rng, gate=gate, on_crash=self._on_crash)

    def _make_model_refresher(self, refresh: refreshing.RefreshOptions) -> GalleryRefresher:
        kind = refreshing.GalleryKind(name="models", read=read_models)
        deps, galleries = self._deps, self._options.model_galleries
        return GalleryRefresher(deps.database, deps.fetcher, deps.clock, galleries, options=refresh, kind=kind)

    def _make_loops(self) -> tuple[Loop, ...]:
        """Return the loops in the order in which they are started; they are stopped in the opposite order."""
        self.feed_loop = self._make_loop("feed", FEED_INTERVAL_S, self._tick_feed)
        self.saved_state_loop = self._make_loop("kept", keeping.INTERVAL_S, self._save_state)
        self.flush_loop = self._make_loop("heartbeats", self._options.heartbeat_flush_s, self._flush_heartbeats)
        self.leader_loop = self._make_loop("leader", self._options.leader_lease_s / 3, self.leader.tick)
        liveness_s, look_s = self._options.liveness_interval_s, refreshing.LOOK_INTERVAL_S
        self.liveness_loop = self._make_loop("liveness", liveness_s, self._find_lost, leader_only=True)
        self.presence_loop = self._make_loop("presence", PRESENCE_INTERVAL_S, self._presence.tick)
        self.prune_loop = self._make_loop("pruner", PRUNE_INTERVAL_S, self._pruner.tick, leader_only=True)
        self.gallery_loop = self._make_loop("galleries", look_s, self.refresher.tick, leader_only=True)
        self.model_gallery_loop = self._make_loop(
            "model galleries", look_s, self.model_refresher.tick, leader_only=True
        )
        self.upgrade_loop = self._make_loop(
            "upgrades", upgrading.LOOK_INTERVAL_S, self.upgrade_checker.tick, leader_only=True
        )
        self.library_loop = self._make_loop("library", PRUNE_INTERVAL_S, self.library.tick)
        self.upload_loop = self._make_loop("lost uploads", LOST_UPLOADS_INTERVAL_S, self.library.find_lost)
        self.metrics_loop = self._make_loop("numbers", COUNT_INTERVAL_S, self._update_counts)
        self.limit_loop = self._make_loop("limits", limiting.INTERVAL_S, self.key_limiter.tick)
        self.key_limiter.on_new = self.limit_loop.wake
        self.in_flight_loop = self._make_loop("use", using.INTERVAL_S, self.router.tick)
        self.monitor_loop = self._make_loop("insight", noting.INTERVAL_S, self.request_monitor.tick)
        self.trace_loop = self._make_loop("traces", tracing.INTERVAL_S, self.request_monitor.send_traces)
        self.sweep_loop = self._make_loop("sweep", SWEEP_INTERVAL_S, self.gateway.tick)
        # These loops run from the first request on, which may be served before PostgreSQL is reachable.
        self.usage_loop = self._make_loop("usage", metering.INTERVAL_S, self.usage_shipper.tick)
        self._early_loops = (self.sweep_loop, self.monitor_loop, self.trace_loop, self.usage_loop)
        self.stop_loop = self._make_loop(
            "stops", replica_stopper.INTERVAL_S, self.model_operations.replica_stopper.tick
        )
        self.removal_loop = self._make_loop(
            "removals", copy_remover.INTERVAL_S, self.model_operations.copy_remover.tick
        )
        self.replica_loop = self._make_loop(
            "replicas", maintenance.REPLICA_CHECK_INTERVAL_S, self.replica_checker.tick, leader_only=True
        )
        self.scaling_loop = self._make_loop("scaling", scaling.INTERVAL_S, self.scaling.tick, leader_only=True)
        return (
            self.presence_loop,
            self.feed_loop,
            self.flush_loop,
            self.saved_state_loop,
            self.leader_loop,
            self.liveness_loop,
            self.prune_loop,
            self.gallery_loop,
            self.model_gallery_loop,
            self.upgrade_loop,
            self.library_loop,
            self.upload_loop,
            self.metrics_loop,
            self.limit_loop,
            self.in_flight_loop,
            self.stop_loop,
            self.removal_loop,
            self.replica_loop,
            self.scaling_loop,
            self._make_loop("key uses", USES_INTERVAL_S, self.directory.write_uses),
            *self.dispatcher.loops,
            *self.live_views.make_loops(self._make_loop),
        )

    def _make_pools(self) -> dict[str, OperationPool]:
        deps = self._deps
        sender = CommandSender(deps.bus, limit=self._options.fan_out, metrics=self.metrics)
        return {
            "backend": make_backend_pool(self.admission, sender, self.catalog, deps.ids),
            "model": self.model_operations.pool,
        }

    def _make_dispatcher(self) -> OperationDispatcher:
        options, deps = self._options, self._deps
        return OperationDispatcher(
            DispatcherDeps(
                database=deps.database,
                bus=deps.bus,
                clock=deps.clock,
                ids=deps.ids,
                rng=deps.rng,
                pools=self.pools,
                is_leader=self.leader.is_leader,
                leaves_to_peers=self._leaves_to_peers,
                metrics=self.metrics,
                on_crash=self._on_crash,
            ),
            DispatcherOptions(
                frontend_id=options.frontend_id, lease_s=options.operation_lease_s, fan_out=options.fan_out
            ),
            self.deltas,
        )

    def _make_model_operations(self) -> ModelOperationService:
        options, deps = self._options, self._deps
        return ModelOperationService(
            ModelOperationDeps(
                database=deps.database,
                bus=deps.bus,
                clock=deps.clock,
                ids=deps.ids,
                catalog=self.catalog,
                library=self.library,
                credentials=deps.credentials,
                metrics=self.metrics,
                leaves_to_peers=self._presence.leaves_to_peers,
                on_crash=self._on_crash,
            ),
            ModelOperationOptions(
                fan_out=options.fan_out,
                timeouts=options.load_timeouts,
                placer_options=PlacerOptions(
                    is_disk_enforced=lambda: self.checks_disk,
                    has_shared_models=options.has_shared_models,
                    grace_s=options.unload_grace_s,
                ),
            ),
        )

    def _make_library(self) -> FrontendLibrary:
        return make_library(self._options, self._deps)

    def _make_router(self) -> Router:
        deps = self._deps
        replica_pools = ReplicaPools(deps.clock, deps.rng.random, self._options.replica_pool)
        snapshot = RoutingSnapshot(deps.database, replica_pools)
        in_flight_leases = InFlightLeases(deps.database, deps.clock, self._options.frontend_id, replica_pools)
        load_waiter = LoadWaiter(
            LoadWaiterDeps(
                database=deps.database,
                loads=self.load_requester,
                snapshot=snapshot,
                leases=in_flight_leases,
                clock=deps.clock,
                on_crash=self._on_crash,
            )
        )
        return Router(deps.database, deps.clock, snapshot, in_flight_leases, load_waiter)

    def _make_gateway(self) -> Gateway:
        options, deps = self._options, self._deps
        return Gateway(
            router=self.router,
            engines=deps.engines,
            clock=deps.clock,
            ids=deps.ids,
            wait_s=options.request_wait_s,
            limiter=self.key_limiter,
            listeners=[self.key_limiter],
            timeouts=options.exchange_timeouts,
            read_batcher=deps.read_batcher,
            has_response_headers=options.has_response_headers,
            body_budget=ByteBudget(options.body_limits, "of request bodies"),
            upload_budget=ByteBudget(options.upload_limits, "of uploads"),
            tasks=TaskSet("gateway", self._on_crash),
        )

    def _make_request_monitor(self) -> RequestMonitor:
        deps = self._deps
        fleet_view = GatewayFleetView(self.gateway, self.leader.is_leader)
        insight = RequestMonitor(self._options.request_monitor, fleet_view, deps.clock, deps.ids, deps.span_exporter)
        self.gateway.listeners += insight.listeners
        self.gateway.tracer = insight.traces
        self.metrics.request_metrics = RequestMetrics(insight, lambda: self.usage_shipper.spool.requests)
        return insight

    def _make_usage_shipper(self) -> UsageShipper:
        deps = self._deps
        made = UsageShipper(deps.database, deps.clock, deps.ids, self._options.usage_dir)
        self.gateway.listeners.append(made.spool)
        self.health.add_source(made.describe_problem)
        return made

    def _make_state_saver(self) -> StateSaver | None:
        if self._deps.saved_state_file is None:
            return None
        parts: dict[str, StateOwner] = {"directory": self.directory, "snapshot": self.router.snapshot}
        parts["catalog"] = self.catalog
        keeper = StateSaver(self._deps.saved_state_file, parts, self._deps.clock, self._options.saved_state_max_age_s)
        self.health.add_source(keeper.describe_problem)
        return keeper

    async def _follow(self, events: Sequence[OutboxEvent]) -> None:
        await self.directory.follow(events)
        await self.catalog.follow(events)
        await self.model_gallery.follow(events)
        await self.dispatcher.follow(events)
        await self.model_operations.follow(events)
        await self.router.follow(events)
        await self.live_settings.follow(events)
        self.request_monitor.follow(events)
        self._mark_state_changed()
        if self.scaling.is_called_by(events):
            self.scaling_loop.wake()
        if self.replica_checker.is_called_by(events):
            self.replica_loop.wake()

    async def _reload(self) -> None:
        await self.directory.load()
        await self.catalog.load()
        await self.model_gallery.load()
        await self.live_settings.load()
        await self.router.snapshot.load()
        self._mark_state_changed()

    def _mark_state_changed(self) -> None:
        if self.state_saver:
            self.state_saver.mark_changed()

    async def _save_state(self) -> bool:
        return await self.state_saver.tick() if self.state_saver else False

    async def _tick_feed(self) -> int:
        """Run one pass of the feed, and note whether PostgreSQL is reachable. Return the number of events."""
        self._check_bus()
        try:
            taken = await self.feed.tick()
        except StoreUnavailable as error:
            self.health.record_store_outage(error)
            raise
        self.health.record_store_read(held_up_s=self.feed.held_up_s)
        return taken

    def _check_bus(self) -> None:
        if self.health.record_bus(is_connected=self._deps.bus.is_connected):
            self.presence_loop.wake()  # Tell the peers at once.

    async def _admit_scale_request(self, request: scaling.ScaleRequest) -> OperationId:
        spec = ModelOperationSpec(
            kind=OperationKind.MODEL_LOAD,
            model=request.model,
            count=request.count,
            nodes=request.node_ids,
            reason=request.reason,
            enough=request.enough,
        )
        return (await self.model_operations.admission.admit(spec, "rules")).operation.id

    async def _request_upgrade(self, backend: str) -> AdmissionResult:
        spec = BackendOperationSpec(kind=OperationKind.BACKEND_UPGRADE, backend=backend)
        return await self.admission.admit(spec, "automatic upgrades")

    def _on_commit(self) -> None:
        """Wake the local feed and notify the peers, after events were written."""
        self.feed_loop.wake()
        if self._deps.bus.is_connected and self._not_ready_reason is None:
            self._tasks.start(self._wake_peers(), name="wake")

    async def _wake_peers(self) -> None:
        try:
            await self._deps.bus.publish(FRONTENDS_WAKE, WakeFrontends())
        except CorralError:
            return  # The message is only a hint: the peers poll at their own interval anyway.

    async def _on_wake(self, _: Delivery[WakeFrontends]) -> None:
        self.feed_loop.wake()

    async def _on_hello(self, hello: Delivery[WorkerHello]) -> None:
        """Note that a worker has connected to the bus, sooner than its next heartbeat would show it."""
        if hello.node is not None and self.leader.is_leader():
            await note_bus(self._deps.database, NodeId(hello.node), is_on_bus=True)

    def _leaves_to_peers(self) -> bool:
        if not self._deps.bus.is_connected:
            # If NATS is unreachable for every frontend, all must know it before the first one hands its operations
            # over.
            self.presence_loop.wake()
            # It gives the lead back after seconds, and its own interval is longer.
            self.leader_loop.wake()
        return self._presence.leaves_to_peers()

    async def _on_reconnect(self) -> None:
        self.feed_loop.wake()
        self.presence_loop.wake()
        # The next time off the bus is to be counted from its own beginning.
        self.leader_loop.wake()
        await self.dispatcher.on_reconnect()

    async def _flush_heartbeats(self) -> None:
        self.metrics.heartbeats_flushed.inc(await self.heartbeats.flush())

    async def _find_lost(self) -> None:
        lost = await self.liveness_checker.tick()
        if lost:
            self.metrics.nodes_lost.inc(len(lost))
            log.warning("nodes lost", nodes=lost)

    async def _update_counts(self) -> None:
        """Refresh the counts of the whole cluster in the background, so that `/metrics` never waits for the
        database."""
        for loop in self._loops:
            self.metrics.loop_failures.labels(loop.name).set(loop.counts.failures)
        async with self._deps.database.transaction() as tx:
            operations = await operation_store.count_states(tx)
            assignments = await assignment_store.count_states(tx)
        self.metrics.set_counts(operations, assignments)
