"""Wires one frontend without its sockets: registry, directory, feed, leader and loops.

`app/frontend.py` puts it behind a server and on a real bus; the simulator runs several of these in one process. Boot
order: migrate under the lock, ensure the first key, note the newest outbox position, read the state, bind, subscribe,
read the state a second time, then start the loops. An event can be written between reading and subscribing; the second
read catches it. While PostgreSQL is unreachable, requests are served from the state saved on disk, if any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from corral.access.keys import ensure_first_key
from corral.access.tokens import ensure_local_token
from corral.api.metrics import FrontendMetrics
from corral.app import core_parts as parts
from corral.app.core_bus import FrontendBusHandler
from corral.app.core_loops import LoopSet, list_loops
from corral.app.core_options import CoreDeps, CoreOptions
from corral.app.core_parts import make_api_deps
from corral.app.insight import LiveSettingTarget, list_live_setting_targets, make_live_settings, make_live_views
from corral.app.peer_contents import make_library
from corral.domain.cluster import OutboxEvent
from corral.domain.errors import StoreUnavailable
from corral.gateway.routing.health import Health
from corral.library.library import FrontendLibrary
from corral.models import rules as rule_flow
from corral.ports.requests import LoadRequester
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import assignments as assignment_store
from corral.store import operations as operation_store
from corral.store import runs as run_store
from corral.store.migrate import migrate

__all__ = ["CoreDeps", "CoreOptions", "FrontendCore"]

log = structlog.get_logger(__name__)

# Pause between two attempts to reach PostgreSQL at the start.
STORE_RETRY_S = 0.2


class FrontendCore:
    """Wires one frontend together without its sockets: registry, credentials, event feed, leadership and loops.

    A service: `start` boots, `stop` hands over what this frontend holds.
    """

    name = "frontend"

    def __init__(
        self, options: CoreOptions, deps: CoreDeps, *, on_crash: Callable[[BaseException], None] | None = None
    ) -> None:
        self._options = options
        self._deps = deps
        self._not_ready_reason: str | None = "booting"
        # Secret of the key that was created at the first start of the cluster; the process shows it once.
        self.first_key: str | None = None
        self.checks_disk = options.checks_disk
        self.health = Health(deps.clock)
        self.metrics = FrontendMetrics()
        self.loops = LoopSet(deps.clock, deps.rng, on_crash, options.late_loops_after_s)
        context = parts.PartContext(
            options=options, deps=deps, health=self.health, metrics=self.metrics, on_crash=on_crash
        )

        self.presence = parts.make_presence(context)
        self.leader = parts.make_leader(context, self.presence)
        self.directory = parts.make_directory(context)
        self.secret_store = parts.make_secret_store(context)
        self.feed = parts.make_feed(context, self.directory, self._follow, self._reload)
        self._bus_handler = FrontendBusHandler(deps, self.health, self.loops, self.presence, self.leader)

        self.catalog = parts.make_catalog(context)
        self.refresher = parts.make_refresher(context)
        self.model_gallery = parts.make_model_gallery(context)
        self.model_refresher = parts.make_model_refresher(context)
        self.library = self._make_library()

        self.admission = parts.make_backend_admission(context, self.catalog)
        self.upgrade_checker = parts.make_upgrade_checker(context, self.catalog, self.admission)
        self.model_operations = parts.make_model_operations(
            context, self.catalog, self.library, self.presence, lambda: self.checks_disk
        )
        self.runs = parts.make_runs(context)
        self._make_run_kinds(context)
        self.pools = parts.make_pools(context, self.catalog, self.admission, self.model_operations, self.runs)
        self.deltas = parts.make_deltas(context)
        self.dispatcher = parts.make_dispatcher(
            context, self.pools, self.deltas, self.leader, self._bus_handler.leaves_to_peers
        )

        self.load_requester: LoadRequester = deps.load_requester or self.model_operations.admission
        self.router = parts.make_router(context, self.load_requester)
        self.key_limiter = parts.make_key_limiter(context)
        self.gateway = parts.make_gateway(context, self.router, self.key_limiter)
        self.request_monitor = parts.make_request_monitor(context, self.gateway, self.leader)
        self.usage_shipper = parts.make_usage_shipper(context, self.gateway, self.request_monitor)
        self.live_views = make_live_views(deps, self.request_monitor, options.frontend_id, lambda: self.api_deps)
        self.state_saver = parts.make_state_saver(context, self.directory, self.router, self.catalog)

        self.heartbeats = parts.make_heartbeats(context)
        self.liveness_checker = parts.make_liveness_checker(context, self.leader)
        self.pruner = parts.make_pruner(context, self.leader)
        self.replica_checker = parts.make_replica_checker(context, self.leader, self.model_operations)
        self.scaling = parts.make_scaling(context, self.leader, self.model_operations)
        level = LiveSettingTarget(initial=options.log_level, apply=deps.set_log_level)
        self.live_settings = make_live_settings(
            deps.database,
            options.settings,
            list_live_setting_targets(self, self.gateway, self.scaling, log_level=level),
        )

        self.loops.add(list_loops(self, options), self.leader.is_leader)
        self._connect_parts()
        self.api_deps = make_api_deps(self, options, deps)

    def _make_run_kinds(self, context: parts.PartContext) -> None:
        """Make the flows that start runs; each builds the runs of its own kinds."""
        self.batches = parts.make_batches(context, self.runs)
        self.skills = parts.make_skills(context, self.leader, self.runs)
        self.quantizations = parts.make_quantizations(context, self.catalog, self.runs)
        self.fine_tuning = parts.make_fine_tuning(context, self.catalog, self.runs, self.batches.artifacts)
        self.knowledge = parts.make_knowledge(context, self.leader, self.runs, self.batches, self._find_embedding_model)
        self.agents = parts.make_agents(context, self.leader, self.runs, self.knowledge)
        self.tasks = parts.make_tasks(context, self.leader, self.runs, self.secret_store)

    def _connect_parts(self) -> None:
        """Let parts wake loops and operations that were made after them."""
        self.key_limiter.on_new = self.loops["limits"].wake
        self.model_operations.connect(
            wake_operation=self.dispatcher.wake_operation,
            wake_stops=self.loops["stops"].wake,
            wake_removals=self.loops["removals"].wake,
        )
        self.runs.wake_operation = self.dispatcher.wake_operation
        self.batches.service.wake_finalizer = self.loops["batches"].wake
        self.knowledge.collections.wake_reader = self.loops["collections"].wake
        self._deps.database.after_commit = self._on_commit
        self.runs.admission.claimer = self.dispatcher

    def get_not_ready_reason(self) -> str | None:
        """Return why this frontend accepts no requests, or None if it does, possibly from the state saved on disk."""
        return None if self.health.saved_as_of is not None else self._not_ready_reason

    async def start(self) -> None:
        for loop in self.loops.before_boot:
            await loop.start()
        await self._boot()
        await self.library.start()
        for loop in self.loops.after_boot:
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
        for loop in reversed(self.loops.after_boot):
            await loop.stop()
        for last_act in (
            *(loop.stop for loop in self.loops.before_boot),
            self.gateway.close,
            self.api_deps.turn_calls.close,
            self.api_deps.compute.close,
            self.request_monitor.close,
            self.save_state,
            self.router.stop,
            self.dispatcher.stop,
            self.model_operations.close,
            self.tasks.scheduler.close,
            self.tasks.webhook_sender.close,
            self.library.stop,
            self.heartbeats.flush,
            self.leader.release,
            self.presence.withdraw,
        ):
            outcome = await attempt(last_act)
            if isinstance(outcome, AttemptFailure):
                log.warning("could not hand over", act=last_act.__qualname__, error=outcome.sentence)
        await self._bus_handler.close()

    async def _boot(self) -> None:
        while True:
            self._bus_handler.check_connection()
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
        resealed = await self.secret_store.reseal()
        if resealed:
            log.info("sealed stored secrets with the first key of the key file", count=resealed)
        await self.feed.begin()
        await self._reload()
        await self.presence.tick()
        await self._bus_handler.subscribe_once(self.dispatcher, self.deltas, self.live_views.traffic, self.runs.readers)
        await self.feed.tick()

    def _find_embedding_model(self) -> str | None:
        return parts.find_embedding_model(self._options.embedding_model, self.router.snapshot.list_models())

    def _make_library(self) -> FrontendLibrary:
        library = make_library(self._options, self._deps)
        self.health.add_source(library.describe_lost_uploads)
        return library

    async def _follow(self, events: Sequence[OutboxEvent]) -> None:
        await self.directory.follow(events)
        await self.catalog.follow(events)
        await self.model_gallery.follow(events)
        await self.dispatcher.follow(events)
        await self.model_operations.follow(events)
        await self.router.follow(events)
        await self.live_settings.follow(events)
        self.request_monitor.follow(events)
        self.agents.streams.follow(events)
        self._mark_state_changed()
        if self.scaling.is_called_by(events):
            self.loops.wake("scaling")
        if self.replica_checker.is_called_by(events):
            self.loops.wake("replicas")

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

    def _on_commit(self) -> None:
        """Wake the local feed and notify the peers, after events were written."""
        self.loops.wake("feed")
        if self._not_ready_reason is None:
            self._bus_handler.wake_peers()

    async def save_state(self) -> bool:
        """Save the state for a start without PostgreSQL, if it has changed. Return whether a file was written."""
        return await self.state_saver.tick() if self.state_saver else False

    async def tick_feed(self) -> int:
        """Run one pass of the feed, and note whether PostgreSQL is reachable. Return the number of events."""
        self._bus_handler.check_connection()
        try:
            taken = await self.feed.tick()
        except StoreUnavailable as error:
            self.health.record_store_outage(error)
            raise
        self.health.record_store_read(held_up_s=self.feed.held_up_s)
        return taken

    async def flush_heartbeats(self) -> None:
        """Write the heartbeats that have arrived, and count them."""
        self.metrics.heartbeats_flushed.inc(await self.heartbeats.flush())

    async def find_lost_nodes(self) -> None:
        """Mark the nodes whose lease has run out, and count and log them."""
        lost = await self.liveness_checker.tick()
        if lost:
            self.metrics.nodes_lost.inc(len(lost))
            log.warning("nodes lost", nodes=lost)

    async def update_counts(self) -> None:
        """Refresh the counts of the whole cluster in the background, so that `/metrics` never waits for the
        database."""
        for loop in self.loops.after_boot:
            self.metrics.loop_failures.labels(loop.name).set(loop.counts.failures)
        async with self._deps.database.transaction() as tx:
            operations = await operation_store.count_states(tx)
            assignments = await assignment_store.count_states(tx)
            runs = await run_store.count_states(tx)
        self.metrics.set_counts(operations, assignments)
        self.metrics.set_run_counts(runs)
