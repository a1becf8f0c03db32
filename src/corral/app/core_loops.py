"""The background loops of a frontend as one table, and the set that makes, finds and wakes them.

Loops are started in the order of the table. Those of before the boot serve the first requests, which may come before
PostgreSQL is reachable; they are stopped last. All others are stopped in the opposite order. Loops that no request
waits for make their first pass a little later, so that the passes of a start do not all open a connection at once.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corral.access.directory import USES_INTERVAL_S
from corral.agents import schedule
from corral.api.live_views import NODES_INTERVAL_S
from corral.app.core_options import CoreOptions
from corral.backends import refresh, upgrades
from corral.batches import finalizer
from corral.gateway.exchange.gateway import SWEEP_INTERVAL_S
from corral.gateway.routing import in_flight_leases, key_limiter, saved_state
from corral.insight import history, recent_rates, request_tracer, traffic_aggregator
from corral.knowledge import reader, vector_tables
from corral.loading import copy_remover, replica_stopper
from corral.metering import usage_shipper
from corral.ports.runtime import Clock
from corral.reconcile import maintenance, scaling
from corral.runtime.loop import Loop, LoopOptions
from corral.skills import sync_scheduler
from corral.tasks import scheduler, webhook_sender

if TYPE_CHECKING:
    from corral.app.core import FrontendCore

# Interval at which the feed polls; a wake-up makes it poll at once.
FEED_INTERVAL_S = 1.0
PRESENCE_INTERVAL_S = 5.0
PRUNE_INTERVAL_S = 600.0
LOST_UPLOADS_INTERVAL_S = 30.0
COUNT_INTERVAL_S = 15.0


@dataclass(frozen=True, slots=True)
class LoopSpec:
    """Describes one background loop of a frontend: its name, interval, pass, and where and from when on it runs.

    A late one makes its first pass `CoreOptions.late_loops_after_s` after the boot, unless it is woken before.
    """

    name: str
    interval_s: float
    tick: Callable[[], Awaitable[object]]
    leader_only: bool = False
    before_boot: bool = False
    is_late: bool = False


def list_loops(core: FrontendCore, options: CoreOptions) -> tuple[LoopSpec | Loop, ...]:
    """Return the loops of a frontend in the order in which they are started. Called when the core has all its parts."""
    operations, views = core.model_operations, core.live_views
    return (
        LoopSpec("sweep", SWEEP_INTERVAL_S, core.gateway.tick, before_boot=True),
        LoopSpec("insight", recent_rates.INTERVAL_S, core.request_monitor.tick, before_boot=True),
        LoopSpec("traces", request_tracer.INTERVAL_S, core.request_monitor.send_traces, before_boot=True),
        LoopSpec("usage", usage_shipper.INTERVAL_S, core.usage_shipper.tick, before_boot=True),
        # The registry and this frontend's memory.
        LoopSpec("presence", PRESENCE_INTERVAL_S, core.presence.tick),
        LoopSpec("feed", FEED_INTERVAL_S, core.tick_feed),
        LoopSpec("heartbeats", options.heartbeat_flush_s, core.flush_heartbeats),
        LoopSpec("kept", saved_state.INTERVAL_S, core.save_state),
        LoopSpec("leader", options.leader_lease_s / 3, core.leader.tick),
        LoopSpec("liveness", options.liveness_interval_s, core.find_lost_nodes, leader_only=True),
        LoopSpec("pruner", PRUNE_INTERVAL_S, core.pruner.tick, leader_only=True, is_late=True),
        # Catalogs and files.
        LoopSpec("galleries", refresh.LOOK_INTERVAL_S, core.refresher.tick, leader_only=True),
        LoopSpec("model galleries", refresh.LOOK_INTERVAL_S, core.model_refresher.tick, leader_only=True),
        LoopSpec("upgrades", upgrades.LOOK_INTERVAL_S, core.upgrade_checker.tick, leader_only=True, is_late=True),
        LoopSpec("library", PRUNE_INTERVAL_S, core.library.tick, is_late=True),
        LoopSpec("lost uploads", LOST_UPLOADS_INTERVAL_S, core.library.find_lost, is_late=True),
        # Requests and replicas.
        LoopSpec("numbers", COUNT_INTERVAL_S, core.update_counts, is_late=True),
        LoopSpec("limits", key_limiter.INTERVAL_S, core.key_limiter.tick),
        LoopSpec("use", in_flight_leases.INTERVAL_S, core.router.tick),
        LoopSpec("stops", replica_stopper.INTERVAL_S, operations.replica_stopper.tick),
        LoopSpec("removals", copy_remover.INTERVAL_S, operations.copy_remover.tick, is_late=True),
        LoopSpec(
            "replicas", maintenance.REPLICA_CHECK_INTERVAL_S, core.replica_checker.tick, leader_only=True, is_late=True
        ),
        LoopSpec("scaling", scaling.INTERVAL_S, core.scaling.tick, leader_only=True, is_late=True),
        # Tasks of users.
        LoopSpec("task scheduler", scheduler.INTERVAL_S, core.tasks.scheduler.tick, leader_only=True, is_late=True),
        LoopSpec("webhooks", webhook_sender.INTERVAL_S, core.tasks.webhook_sender.tick),
        LoopSpec("batches", finalizer.INTERVAL_S, core.batches.finalizer.tick, is_late=True),
        LoopSpec("agent schedule", schedule.INTERVAL_S, core.agents.scheduler.tick, leader_only=True, is_late=True),
        LoopSpec("skill syncs", sync_scheduler.INTERVAL_S, core.skills.scheduler.tick, leader_only=True, is_late=True),
        LoopSpec("collections", reader.INTERVAL_S, core.knowledge.reader.tick, leader_only=True, is_late=True),
        LoopSpec("vector tables", vector_tables.INTERVAL_S, core.knowledge.tables.tick, is_late=True),
        LoopSpec("key uses", USES_INTERVAL_S, core.directory.write_uses, is_late=True),
        # "dispatcher", "operation leases", "job events" and "operation deltas", which the dispatcher wakes itself.
        *core.dispatcher.loops,
        # What watchers see.
        LoopSpec("live numbers", traffic_aggregator.INTERVAL_S, views.tick),
        LoopSpec("node numbers", NODES_INTERVAL_S, views.tick_nodes, is_late=True),
        LoopSpec("history", history.STEP_S, views.record_history, is_late=True),
        LoopSpec("history keeper", history.SAVE_INTERVAL_S, views.history_keeper.tick, leader_only=True, is_late=True),
    )


class LoopSet:
    """Holds a frontend's background loops by name. Empty until `add`; a part may keep the set and wake a loop later."""

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        on_crash: Callable[[BaseException], None] | None,
        late_after_s: float,
    ) -> None:
        self._clock = clock
        self._late_after_s = late_after_s
        self._rng = rng
        self._on_crash = on_crash
        self._by_name: dict[str, Loop] = {}
        # In the order of their start.
        self.before_boot: tuple[Loop, ...] = ()
        self.after_boot: tuple[Loop, ...] = ()

    def __getitem__(self, name: str) -> Loop:
        return self._by_name[name]

    def add(self, specs: Iterable[LoopSpec | Loop], is_leader: Callable[[], bool]) -> None:
        """Make a loop of each spec, and take loops as they are. Passes of leader-only loops are skipped while
        `is_leader` returns False."""
        for spec in specs:
            loop = spec if isinstance(spec, Loop) else self._make(spec, is_leader)
            assert loop.name not in self._by_name, f"two loops are called {loop.name}"
            self._by_name[loop.name] = loop
            if isinstance(spec, LoopSpec) and spec.before_boot:
                self.before_boot += (loop,)
            else:
                self.after_boot += (loop,)

    def wake(self, name: str) -> None:
        """Make the loop of this name tick as soon as its current pass is over."""
        self._by_name[name].wake()

    def _make(self, spec: LoopSpec, is_leader: Callable[[], bool]) -> Loop:
        options = LoopOptions(
            name=spec.name, interval_s=spec.interval_s, first_after_s=self._late_after_s if spec.is_late else 0.0
        )
        gate = is_leader if spec.leader_only else lambda: True
        return Loop(options, spec.tick, self._clock, self._rng, gate=gate, on_crash=self._on_crash)
