"""One frontend without its sockets: registry, directory, feed, leader and loops, wired together.

`app/frontend.py` puts it behind a server and on a real bus; the simulator runs several of these in one process.
Boot order: migrate under the lock, make sure of the first key, stand at the head of the outbox, read the state,
bind, subscribe, read once more, then start the loops. An event can fall between reading and subscribing; the second
reading catches it. While PostgreSQL is away, requests are served from what was kept on disk, if there is something.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import structlog

from corral.access.directory import FOLLOWED, USES_INTERVAL_S, Directory
from corral.access.keys import ensure_first_key
from corral.access.oidc import Oidc
from corral.access.sessions import Sessions
from corral.access.tokens import ensure_local_token
from corral.api.insight.families import RequestMetrics
from corral.api.metrics import Metrics
from corral.api.page.page import BUILT, Page
from corral.api.parts import Parts, Told
from corral.app.insight import SettingOwner, Watched, list_owners, make_board, make_live_settings
from corral.app.options import CoreOptions, World
from corral.app.peer_contents import make_library
from corral.backends import refresh as refreshing
from corral.backends import upgrades as upgrading
from corral.backends.catalog import Catalog
from corral.backends.refresh import Refresher
from corral.backends.upgrades import UpgradeCheck
from corral.bus.messages import Hello, WakeFrontends
from corral.bus.subjects import FRONTEND_NUMBERS, FRONTENDS_WAKE, JOB_EVENT, NODE_HELLO, OPERATION_DELTA
from corral.domain.cluster import Event
from corral.domain.errors import CorralError, StoreUnavailable
from corral.domain.node import NodeId
from corral.domain.operation import OperationId, OperationKind
from corral.events.feed import Feed, LookAhead
from corral.insight import recent as noting
from corral.insight import traces as tracing
from corral.insight.insight import Insight
from corral.library.library import Library
from corral.loading import removing, stopping
from corral.loading.placing import PlaceOptions
from corral.loading.request import Wanted
from corral.loading.service import Loading, LoadingOptions, LoadingWorld
from corral.metering import shipping as metering
from corral.metering.shipping import Metering
from corral.models import rules as rule_flow
from corral.models.gallery import ModelGallery, read_models
from corral.nodes.commands import note_bus
from corral.nodes.heartbeats import HeartbeatBuffer
from corral.nodes.registration import JoinPolicy
from corral.operations.admission import Admission, Admitted
from corral.operations.deltas import Deltas
from corral.operations.dispatcher import Dispatcher, DispatchOptions, DispatchWorld
from corral.operations.reports import Reports
from corral.operations.request import Asked
from corral.ports.bus import Delivery
from corral.ports.loads import Loads
from corral.reconcile import replicas as replica_checks
from corral.reconcile import scaling
from corral.reconcile.leader import Leader
from corral.reconcile.liveness import LivenessCheck
from corral.reconcile.replicas import ReplicaCheck
from corral.reconcile.scaling import Scaling
from corral.reconcile.upkeep import Presence, Pruner
from corral.runtime.byte_budget import ByteBudget
from corral.runtime.guard import Failed, attempt
from corral.runtime.loop import Loop, LoopPlan
from corral.runtime.tasks import Tasks
from corral.serving import kept as keeping
from corral.serving import limits as limiting
from corral.serving import use as using
from corral.serving.gateway import SWEEP_INTERVAL_S, Gateway
from corral.serving.health import Health
from corral.serving.kept import Keepable, Keeper
from corral.serving.limits import Limits
from corral.serving.router import Router
from corral.serving.seats import Seats
from corral.serving.snapshot import Snapshot
from corral.serving.use import Use
from corral.serving.waiting import Waiters, WaitWorld
from corral.store import assignments as assignment_store
from corral.store import operations as operation_store
from corral.store.migrate import migrate

__all__ = ["Core", "CoreOptions", "World"]

log = structlog.get_logger(__name__)

# How long to wait before asking an absent PostgreSQL again.
RETRY_S = 0.2
# The feed polls this often without a wake; a wake makes it immediate.
FEED_INTERVAL_S = 1.0
PRESENCE_INTERVAL_S = 5.0
PRUNE_INTERVAL_S = 600.0
LOST_UPLOADS_INTERVAL_S = 30.0
COUNT_INTERVAL_S = 15.0


class Core:
    """A service: `start` boots, `stop` hands over what this frontend holds."""

    name = "frontend"

    def __init__(
        self, options: CoreOptions, world: World, *, on_crash: Callable[[BaseException], None] | None = None
    ) -> None:
        self._options = options
        self._on_crash = on_crash
        self._world = world
        self._not_ready: str | None = "booting"
        self._tasks = Tasks("frontend")
        self._is_subscribed = False
        self.health = Health(world.clock)
        self.metrics = Metrics()
        # The secret of a key that was made at the very first start; whoever runs the process shows it once.
        self.first_key: str | None = None
        self._presence = Presence(world.database, options.frontend_row(), lambda: world.bus.is_connected)
        leaves = self._presence.leaves_to_peers
        self.leader = Leader(world.database, world.clock, options.frontend_id, options.leader_lease_s, leaves)
        self.directory = Directory(world.database, world.clock)
        self.catalog = Catalog(world.database, options.galleries, prefers_development=options.prefers_development)
        pace = refreshing.Pace(every_s=options.gallery_interval_s)
        self.refresher = Refresher(world.database, world.fetcher, world.clock, options.galleries, pace=pace)
        self.models = ModelGallery(world.database, options.model_galleries)
        self.model_refresher = self._make_model_refresher(pace)
        self.upgrades = UpgradeCheck(
            world.database,
            self.catalog,
            world.fetcher,
            world.clock,
            request_upgrade=self._request_upgrade if options.upgrades_by_itself else None,
        )
        self.checks_disk = options.checks_disk
        self.library = self._make_library()
        self.health.add(self.library.trouble)
        self.loading = self._make_loading()
        self.admission = Admission(world.database, self.catalog, world.ids, others={"model": self.loading.loads.again})
        self.deltas = Deltas(world.bus, options.frontend_id)
        self.dispatcher = self._make_dispatcher()
        self.loads: Loads = world.loads or self.loading.loads
        self.router = self._make_router()
        self.limits = Limits(world.database, world.clock)
        self.gateway = self._make_gateway()
        self.insight = self._make_insight()
        self.board = make_board(world, self.insight, options.frontend_id, lambda: self.parts)
        self.metering = self._make_metering()
        self.keeper = self._make_keeper()
        self.feed = Feed(world.database, self._follow, self._reread, LookAhead(FOLLOWED, self.directory.follow))
        self.heartbeats = HeartbeatBuffer(world.database, options.node_lease_s)
        self.liveness = LivenessCheck(world.database, self.leader, options.node_lease_s)
        self._pruner = Pruner(world.database, self.leader, options.outbox_retention_s, options.usage_retention_s)
        self.replicas = ReplicaCheck(world.database, self.leader, self.loading.ask_running)
        self.scaling = Scaling(world.database, self.leader, self._ask_for, idle_s=options.model_idle_s)
        level = SettingOwner(initial=options.log_level, apply=world.set_log_level)
        owners = list_owners(self, self.gateway, self.scaling, log_level=level)
        self.live = make_live_settings(world.database, options.settings, owners)
        self._loops = self._make_loops()
        self.loading.connect(
            call=self.dispatcher.call, wake_stops=self.stop_loop.wake, wake_removals=self.removal_loop.wake
        )
        world.database.after_commit = self._committed
        self.parts = self._make_parts()

    def not_ready(self) -> str | None:
        """Why no requests are taken; None when they are, be it from what was kept on disk."""
        return None if self.health.kept_as_of is not None else self._not_ready

    async def start(self) -> None:
        for loop in self._first_loops:
            await loop.start()
        await self._boot()
        await self.library.start()
        for loop in self._loops:
            await loop.start()
        # In this order: whoever was served from what was kept is served all the time.
        self._not_ready = None
        self.health.kept_as_of = None

    def begin_stop(self) -> None:
        """Say so to whoever asks, and send the watchers elsewhere. What is under way may go on until `stop`."""
        self.health.is_stopping = True
        self.feed.close()

    async def stop(self) -> None:
        self.begin_stop()
        self._not_ready, self.health.kept_as_of = "stopping", None
        for loop in reversed(self._loops):
            await loop.stop()
        for last_act in (
            *(loop.stop for loop in self._first_loops),
            self.gateway.close,
            self.insight.close,
            self._keep,
            self.router.stop,
            self.dispatcher.stop,
            self.loading.close,
            self.library.stop,
            self.heartbeats.flush,
            self.leader.release,
            self._presence.withdraw,
        ):
            outcome = await attempt(last_act)
            if isinstance(outcome, Failed):
                log.warning("could not hand over", act=last_act.__qualname__, error=outcome.sentence)
        await self._tasks.close()

    async def _boot(self) -> None:
        while True:
            self._look_at_bus()
            try:
                await self._boot_once()
            except StoreUnavailable as error:
                self._serve_from_kept(error)
                await self._world.clock.sleep(RETRY_S)
            else:
                self.health.store_answered()
                return

    def _serve_from_kept(self, error: StoreUnavailable) -> None:
        """PostgreSQL is away at the start: said once, and looked for on disk once."""
        is_first, self._not_ready = self.health.store is None, error.message
        self.health.store_is_away(error)
        if not is_first:
            return
        log.warning("waiting for PostgreSQL", cause=error.details.get("cause"))
        as_of = self.keeper.restore() if self.keeper else None
        if as_of is not None:
            self.health.kept_as_of = as_of
            log.warning("serving from what was kept on disk", as_of=as_of.isoformat())

    async def _boot_once(self) -> None:
        database = self._world.database
        if await migrate(database, self._world.clock):
            log.info("schema is up to date")
        async with database.transaction() as tx:
            made = await ensure_first_key(tx, self._world.ids, self._options.admin_key)
            if self._options.local_join_token:
                await ensure_local_token(tx, self._world.ids, self._options.local_join_token)
            await rule_flow.seed(tx, self._options.rules)
        self.first_key = made or self.first_key
        await self.feed.begin()
        await self._reread()
        await self._presence.tick()
        await self._subscribe_once()
        await self.feed.tick()

    async def _subscribe_once(self) -> None:
        if self._is_subscribed:
            return  # PostgreSQL went away again in the middle of the boot.
        bus = self._world.bus
        await bus.subscribe(FRONTENDS_WAKE, self._on_wake)
        await bus.subscribe(NODE_HELLO, self._on_hello)
        await bus.subscribe(JOB_EVENT, self.dispatcher.on_job_event)
        await bus.subscribe(OPERATION_DELTA, self.deltas.on_delta)
        await bus.subscribe(FRONTEND_NUMBERS, self.board.sharing.on_numbers)
        bus.on_reconnect(self._on_reconnect)
        self._is_subscribed = True

    def _loop(
        self, name: str, interval_s: float, tick: Callable[[], Awaitable[object]], *, leader_only: bool = False
    ) -> Loop:
        gate = self.leader.is_leader if leader_only else lambda: True
        plan = LoopPlan(name=name, interval_s=interval_s)
        return Loop(plan, tick, self._world.clock, self._world.rng, gate=gate, on_crash=self._on_crash)

    def _make_model_refresher(self, pace: refreshing.Pace) -> Refresher:
        kind = refreshing.Kind(name="models", read=read_models)
        world, galleries = self._world, self._options.model_galleries
        return Refresher(world.database, world.fetcher, world.clock, galleries, pace=pace, kind=kind)

    def _make_loops(self) -> tuple[Loop, ...]:
        """In the order in which they are started; they end in the opposite one."""
        self.feed_loop = self._loop("feed", FEED_INTERVAL_S, self._read_on)
        self.keep_loop = self._loop("kept", keeping.INTERVAL_S, self._keep)
        self.flush_loop = self._loop("heartbeats", self._options.heartbeat_flush_s, self._flush)
        self.leader_loop = self._loop("leader", self._options.leader_lease_s / 3, self.leader.tick)
        liveness_s, look_s = self._options.liveness_interval_s, refreshing.LOOK_INTERVAL_S
        self.liveness_loop = self._loop("liveness", liveness_s, self._find_lost, leader_only=True)
        self.presence_loop = self._loop("presence", PRESENCE_INTERVAL_S, self._presence.tick)
        self.prune_loop = self._loop("pruner", PRUNE_INTERVAL_S, self._pruner.tick, leader_only=True)
        self.gallery_loop = self._loop("galleries", look_s, self.refresher.tick, leader_only=True)
        self.model_gallery_loop = self._loop("model galleries", look_s, self.model_refresher.tick, leader_only=True)
        self.upgrade_loop = self._loop("upgrades", upgrading.LOOK_INTERVAL_S, self.upgrades.tick, leader_only=True)
        self.library_loop = self._loop("library", PRUNE_INTERVAL_S, self.library.tick)
        self.upload_loop = self._loop("lost uploads", LOST_UPLOADS_INTERVAL_S, self.library.find_lost)
        self.count_loop = self._loop("numbers", COUNT_INTERVAL_S, self._count)
        self.limit_loop = self._loop("limits", limiting.INTERVAL_S, self.limits.tick)
        self.limits.on_new = self.limit_loop.wake
        self.use_loop = self._loop("use", using.INTERVAL_S, self.router.tick)
        self.insight_loop = self._loop("insight", noting.INTERVAL_S, self.insight.tick)
        self.trace_loop = self._loop("traces", tracing.INTERVAL_S, self.insight.send_traces)
        self.sweep_loop = self._loop("sweep", SWEEP_INTERVAL_S, self.gateway.tick)
        # They run from the first request on, which may be answered before PostgreSQL is there.
        self.usage_loop = self._loop("usage", metering.INTERVAL_S, self.metering.tick)
        self._first_loops = (self.sweep_loop, self.insight_loop, self.trace_loop, self.usage_loop)
        self.stop_loop = self._loop("stops", stopping.INTERVAL_S, self.loading.stopper.tick)
        self.removal_loop = self._loop("removals", removing.INTERVAL_S, self.loading.remover.tick)
        self.replica_loop = self._loop("replicas", replica_checks.INTERVAL_S, self.replicas.tick, leader_only=True)
        self.scaling_loop = self._loop("scaling", scaling.INTERVAL_S, self.scaling.tick, leader_only=True)
        return (
            self.presence_loop,
            self.feed_loop,
            self.flush_loop,
            self.keep_loop,
            self.leader_loop,
            self.liveness_loop,
            self.prune_loop,
            self.gallery_loop,
            self.model_gallery_loop,
            self.upgrade_loop,
            self.library_loop,
            self.upload_loop,
            self.count_loop,
            self.limit_loop,
            self.use_loop,
            self.stop_loop,
            self.removal_loop,
            self.replica_loop,
            self.scaling_loop,
            self._loop("key uses", USES_INTERVAL_S, self.directory.write_uses),
            *self.dispatcher.loops,
            *self.board.loops(self._loop),
        )

    def _make_dispatcher(self) -> Dispatcher:
        options, world = self._options, self._world
        return Dispatcher(
            DispatchWorld(
                database=world.database,
                bus=world.bus,
                clock=world.clock,
                ids=world.ids,
                rng=world.rng,
                catalog=self.catalog,
                is_leader=self.leader.is_leader,
                leaves_to_peers=self._presence.leaves_to_peers,
                others={"model": self.loading.pool},
                numbers=self.metrics,
                on_crash=self._on_crash,
            ),
            DispatchOptions(
                frontend_id=options.frontend_id, lease_s=options.operation_lease_s, fan_out=options.fan_out
            ),
            self.deltas,
        )

    def _make_loading(self) -> Loading:
        options, world = self._options, self._world
        return Loading(
            LoadingWorld(
                database=world.database,
                bus=world.bus,
                clock=world.clock,
                ids=world.ids,
                catalog=self.catalog,
                library=self.library,
                credentials=world.credentials,
                numbers=self.metrics,
                leaves_to_peers=self._presence.leaves_to_peers,
                on_crash=self._on_crash,
            ),
            LoadingOptions(
                frontend_id=options.frontend_id,
                fan_out=options.fan_out,
                hold=options.load_hold,
                place=PlaceOptions(
                    is_disk_enforced=lambda: self.checks_disk,
                    has_shared_models=options.has_shared_models,
                    grace_s=options.unload_grace_s,
                ),
            ),
        )

    def _make_library(self) -> Library:
        return make_library(self._options, self._world)

    def _make_router(self) -> Router:
        world = self._world
        seats = Seats(world.clock, world.rng.random, self._options.seats)
        snapshot = Snapshot(world.database, seats)
        use = Use(world.database, world.clock, self._options.frontend_id, seats)
        waiters = Waiters(
            WaitWorld(
                database=world.database,
                loads=self.loads,
                snapshot=snapshot,
                use=use,
                clock=world.clock,
                on_crash=self._on_crash,
            )
        )
        return Router(world.database, world.clock, snapshot, use, waiters)

    def _make_gateway(self) -> Gateway:
        options, world = self._options, self._world
        return Gateway(
            router=self.router,
            engines=world.engines,
            clock=world.clock,
            ids=world.ids,
            wait_s=options.request_wait_s,
            limiter=self.limits,
            listeners=[self.limits],
            timeouts=options.timeouts,
            intake=world.intake,
            has_response_headers=options.has_response_headers,
            body_budget=ByteBudget(options.body_limits, "of request bodies"),
            upload_budget=ByteBudget(options.upload_limits, "of uploads"),
            tasks=Tasks("gateway", self._on_crash),
        )

    def _make_insight(self) -> Insight:
        world = self._world
        watched = Watched(self.gateway, self.leader.is_leader)
        insight = Insight(self._options.insight, watched, world.clock, world.ids, world.spans)
        self.gateway.listeners += insight.listeners
        self.gateway.tracer = insight.traces
        self.metrics.requests = RequestMetrics(insight, lambda: self.metering.spool.requests)
        return insight

    def _make_metering(self) -> Metering:
        world = self._world
        made = Metering(world.database, world.clock, world.ids, self._options.usage_dir)
        self.gateway.listeners.append(made.spool)
        self.health.add(made.trouble)
        return made

    def _make_keeper(self) -> Keeper | None:
        if self._world.kept is None:
            return None
        parts: dict[str, Keepable] = {"directory": self.directory, "snapshot": self.router.snapshot}
        parts["catalog"] = self.catalog
        keeper = Keeper(self._world.kept, parts, self._world.clock, self._options.kept_max_age_s)
        self.health.add(keeper.trouble)
        return keeper

    def _make_sessions(self) -> Sessions:
        world, provider = self._world, self._options.oidc
        oidc = Oidc(provider, world.fetcher, world.clock, world.ids) if provider else None
        return Sessions(world.database, world.clock, world.ids, oidc)

    def _make_parts(self) -> Parts:
        options, world = self._options, self._world
        return Parts(
            frontend_id=options.frontend_id,
            database=world.database,
            directory=self.directory,
            sessions=self._make_sessions(),
            public_url=options.public_url,
            join=options.join,
            metrics_key=options.metrics_key,
            origins=options.origins,
            settings=options.settings,
            live=self.live,
            feed=self.feed,
            heartbeats=self.heartbeats,
            bus=world.bus,
            credentials=world.credentials,
            leader=self.leader,
            clock=world.clock,
            ids=world.ids,
            join_policy=JoinPolicy(lease_s=options.node_lease_s, approves_all=options.approves_all),
            told=Told(heartbeat_interval_s=options.heartbeat_interval_s, nats_url=options.nats_public_url),
            catalog=self.catalog,
            refresher=self.refresher,
            upgrades=self.upgrades,
            models=self.models,
            model_refresher=self.model_refresher,
            loading=self.loading,
            admission=self.admission,
            deltas=self.deltas,
            reports=Reports(world.database),
            fetcher=world.fetcher,
            library=self.library,
            page=Page(BUILT, world.clock),
            gateway=self.gateway,
            insight=self.insight,
            board=self.board,
            allows_private_sources=options.allows_private_sources,
            held=lambda: len(self.dispatcher.held),
            health=self.health,
            not_ready=self.not_ready,
        )

    async def _follow(self, events: Sequence[Event]) -> None:
        await self.directory.follow(events)
        await self.catalog.follow(events)
        await self.models.follow(events)
        await self.dispatcher.follow(events)
        await self.loading.follow(events)
        await self.router.follow(events)
        await self.live.follow(events)
        self.insight.follow(events)
        self._has_read()
        if self.scaling.is_called_by(events):
            self.scaling_loop.wake()
        if self.replicas.is_called_by(events):
            self.replica_loop.wake()

    async def _reread(self) -> None:
        await self.directory.load()
        await self.catalog.load()
        await self.models.load()
        await self.live.load()
        await self.router.snapshot.load()
        self._has_read()

    def _has_read(self) -> None:
        if self.keeper:
            self.keeper.changed()

    async def _keep(self) -> bool:
        return await self.keeper.tick() if self.keeper else False

    async def _read_on(self) -> int:
        """One pass of the feed, and what it says of PostgreSQL."""
        self._look_at_bus()
        try:
            taken = await self.feed.tick()
        except StoreUnavailable as error:
            self.health.store_is_away(error)
            raise
        self.health.store_answered(held_up_s=self.feed.held_up_s)
        return taken

    def _look_at_bus(self) -> None:
        if self.health.saw_bus(is_connected=self._world.bus.is_connected):
            self.presence_loop.wake()  # The peers are to know it.

    async def _ask_for(self, wish: scaling.Wish) -> OperationId:
        wanted = Wanted(
            kind=OperationKind.MODEL_LOAD,
            model=wish.model,
            count=wish.count,
            nodes=wish.on,
            reason=wish.reason,
            enough=wish.enough,
        )
        return (await self.loading.loads.admit(wanted, "rules")).operation.id

    async def _request_upgrade(self, backend: str) -> Admitted:
        asked = Asked(kind=OperationKind.BACKEND_UPGRADE, backend=backend)
        return await self.admission.admit(asked, "automatic upgrades")

    def _committed(self) -> None:
        """Events were written: look at once here, and let the peers know."""
        self.feed_loop.wake()
        if self._world.bus.is_connected and self._not_ready is None:
            self._tasks.start(self._tell_peers(), name="wake")

    async def _tell_peers(self) -> None:
        try:
            await self._world.bus.publish(FRONTENDS_WAKE, WakeFrontends())
        except CorralError:
            return  # A hint: the peers' interval makes up for it.

    async def _on_wake(self, _: Delivery[WakeFrontends]) -> None:
        self.feed_loop.wake()

    async def _on_hello(self, hello: Delivery[Hello]) -> None:
        """A worker is on the bus. Its heartbeat will say so too; this is sooner."""
        if hello.node is not None and self.leader.is_leader():
            await note_bus(self._world.database, NodeId(hello.node), is_on_bus=True)

    async def _on_reconnect(self) -> None:
        self.feed_loop.wake()
        self.presence_loop.wake()
        await self.dispatcher.on_reconnect()

    async def _flush(self) -> None:
        self.metrics.flushed.inc(await self.heartbeats.flush())

    async def _find_lost(self) -> None:
        lost = await self.liveness.tick()
        if lost:
            self.metrics.lost.inc(len(lost))
            log.warning("nodes lost", nodes=lost)

    async def _count(self) -> None:
        """Numbers of the whole cluster, ahead of whoever asks for them: `/metrics` waits for nothing."""
        for loop in self._loops:
            self.metrics.loop_failures.labels(loop.name).set(loop.counts.failures)
        async with self._world.database.transaction() as tx:
            operations = await operation_store.count_states(tx)
            assignments = await assignment_store.count_states(tx)
        self.metrics.counted(operations, assignments)
