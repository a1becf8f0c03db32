"""Decides how many replicas of one model there are to be: one look at its rule and its load, every tick.

    1  backing off (unsatisfiable)?         nothing
    2  below the minimum?                   add what is missing and there are slots for; no slots: back off
    3  all busy or requests waiting, and below the maximum?      add one
    4  otherwise: remove what is misplaced, above the maximum, or idle for five minutes; the last one after `idle_s`

`spreads` asks for one on every node that matches instead of 2 and 3.

Guarantees: replicas that are being loaded count, so one signal never adds twice; additions never lead above the
maximum, removals never below the minimum, and nothing that is in use is removed. Too little capacity for a minimum
is tried three times and then left alone for five minutes; too little for a burst of requests causes no backoff at
all. Level-triggered: a decision that was not carried out is made again at the next tick.

Limit: a model without requests and without a rule stays unloaded; the first request loads it, not the scaler.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState, Rule
from corral.policy.labels import matches_labels
from corral.policy.placing.fleet import PlacementFleet, SelectorMatch
from corral.policy.placing.windows import compute_effective_rule

# Replicas beyond the floor are removed after so long without a request.
SPARE_IDLE = timedelta(minutes=5)
# A new replica is given time to take its share before the load is judged again.
SETTLING = timedelta(seconds=30)
BACKOFF_TICKS_MAX = 3
COOLDOWN = timedelta(minutes=5)


class ScalingSignal(StrEnum):
    """Names the reason for which the autoscaler added a replica to a model."""

    FLOOR = "floor"
    SPREAD = "spread"
    BUSY = "busy"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSnapshot:
    """One current replica of a model as the autoscaler counts it."""

    id: str
    node_id: NodeId
    index: int
    is_loaded: bool
    # The node is healthy and the selector allows it. A replica on a node that is away for a moment does not serve, and
    # stays.
    is_placed: bool = True
    # The selector does not allow its node (any more).
    is_stray: bool = False
    in_flight: int = 0
    # When the replica was last used; one that was never used counts from its load.
    used_at: datetime | None = None
    # How many requests the replica works on at a time.
    parallel: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingInput:
    """Everything at one moment on which the autoscaler's decision for one model depends."""

    model: str
    # The rule as it counts now, windows included (`windows.compute_effective_rule`). None: there is none.
    rule: Rule | None
    replicas: tuple[ReplicaSnapshot, ...]
    now: datetime
    # Free slots on the nodes that match.
    capacity: int = 0
    # The nodes that match, for a rule that spreads.
    nodes: tuple[NodeId, ...] = ()
    # Requests that wait for the model at any frontend.
    waiting: int = 0
    is_pinned: bool = False
    # The model is scaled to zero after so long without a request; None or 0: never.
    idle_s: float | None = None
    # When a replica was last added.
    added_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingBackoff:
    """Says how often in a row the autoscaler could not meet a model's rule, and until when it pauses."""

    ticks: int = 0
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingDecision:
    """Says how many replicas of a model to add or which to remove, why, and how long to pause after a failure.

    After a successful addition, write `ScalingBackoff()`; after one for the floor or for spreading that found no
    room, `backoff_on_failure`; after any other failure, nothing.
    """

    add: int = 0
    # For a minimum: so many in all are enough, should some come by themselves.
    enough: int | None = None
    # For a rule that spreads: one on each of these.
    node_ids: tuple[NodeId, ...] = ()
    remove: tuple[str, ...] = ()
    signal: ScalingSignal | None = None
    backoff: ScalingBackoff | None = None
    reason: str = ""


def decide(scaling_input: ScalingInput) -> ScalingDecision:
    rule = scaling_input.rule
    if rule is not None and rule.unsatisfiable_until is not None and rule.unsatisfiable_until > scaling_input.now:
        return ScalingDecision(
            reason=f"Left alone until {rule.unsatisfiable_until:%H:%M:%S}: there was no capacity."
        )  # 1
    placed = [row for row in scaling_input.replicas if row.is_placed]
    if rule is not None and rule.spreads:
        return _spread(scaling_input, placed)
    least = rule.min_replicas if rule is not None else 0
    if len(placed) < least:
        return _to_floor(scaling_input, least, len(placed))  # 2
    added = _decide_for_load(scaling_input, placed)
    if added is not None:
        return added  # 3
    removed = _decide_scale_down(scaling_input, placed)  # 4
    is_met = sum(row.is_loaded for row in placed) >= least
    has_backoff = rule is not None and bool(rule.unsatisfiable_ticks or rule.unsatisfiable_until)
    return ScalingDecision(
        remove=removed.remove, reason=removed.reason, backoff=ScalingBackoff() if has_backoff and is_met else None
    )


def compute_max_replicas(rule: Rule | None) -> float:
    """Return the maximum. Without a rule, or with a selector only, one replica is enough; a maximum of 0 is none."""
    if rule is None or not (rule.min_replicas or rule.max_replicas):
        return 1
    return rule.max_replicas or math.inf


def compute_backoff(rule: Rule, now: datetime) -> ScalingBackoff:
    """Return the backoff after one more tick without capacity; the third one in a row is the last for a while."""
    ticks = rule.unsatisfiable_ticks + 1
    return ScalingBackoff(ticks=ticks, until=now + COOLDOWN if ticks >= BACKOFF_TICKS_MAX else None)


def _to_floor(scaling_input: ScalingInput, least: int, present: int) -> ScalingDecision:
    assert scaling_input.rule is not None  # a minimum comes from a rule
    missing = least - present
    if scaling_input.capacity <= 0:
        return ScalingDecision(
            backoff=compute_backoff(scaling_input.rule, scaling_input.now),
            reason=f"{present} of at least {least}, and no node that matches has a free slot.",
        )
    add = min(missing, scaling_input.capacity)
    words = f"{present} of at least {least}."
    return ScalingDecision(add=add, enough=present + add, signal=ScalingSignal.FLOOR, reason=words)


def _decide_for_load(scaling_input: ScalingInput, placed: Sequence[ReplicaSnapshot]) -> ScalingDecision | None:
    """Return a decision to add one replica, or None. Missing capacity causes no backoff: the load is too large, not
    the rule."""
    loaded = [row for row in placed if row.is_loaded]
    is_settling = scaling_input.added_at is not None and scaling_input.now - scaling_input.added_at < SETTLING
    if not loaded or len(loaded) < len(placed) or is_settling:
        return None  # The first replica comes by request; one is being loaded; or the last one has only just come.
    if len(placed) >= compute_max_replicas(scaling_input.rule) or scaling_input.capacity <= 0:
        return None
    if all(row.in_flight >= row.parallel for row in loaded):
        busy = sum(row.in_flight for row in loaded)
        return ScalingDecision(
            add=1, signal=ScalingSignal.BUSY, reason=f"All {len(loaded)} are busy with {busy} requests."
        )
    if scaling_input.waiting > 0:
        return ScalingDecision(
            add=1, signal=ScalingSignal.WAITING, reason=f"{scaling_input.waiting} requests are waiting."
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScaleDown:
    """Names the replicas to remove, and why."""

    remove: tuple[str, ...] = ()
    reason: str = ""


def _decide_scale_down(scaling_input: ScalingInput, placed: Sequence[ReplicaSnapshot]) -> _ScaleDown:
    loaded = [row for row in placed if row.is_loaded]
    strays = [row for row in scaling_input.replicas if row.is_stray and row.is_loaded and not row.in_flight]
    if strays:
        return _ScaleDown(remove=_list_ids(strays), reason="Their nodes do not match the selector.")
    least = scaling_input.rule.min_replicas if scaling_input.rule is not None else 0
    if _can_be_none(scaling_input, loaded, least):
        return _ScaleDown(remove=_list_ids(loaded), reason=f"No requests for {scaling_input.idle_s:.0f} s.")
    floor = max(least, 1)
    above = (
        len(loaded) - scaling_input.rule.max_replicas
        if scaling_input.rule is not None and scaling_input.rule.max_replicas
        else 0
    )
    surplus = [row for row in loaded if not row.in_flight]
    if above > 0 and surplus:
        count = min(above, len(loaded) - floor)
        return _ScaleDown(remove=_pick_last(surplus, count), reason=f"{above} above the maximum.")
    idle = [row for row in surplus if _compute_idle_time(scaling_input, row) > SPARE_IDLE]
    removed = _pick_last(idle, len(loaded) - floor)
    return _ScaleDown(remove=removed, reason=f"{len(removed)} idle beyond the floor of {floor}." if removed else "")


def _can_be_none(scaling_input: ScalingInput, loaded: Sequence[ReplicaSnapshot], least: int) -> bool:
    if not loaded or least or scaling_input.is_pinned or not scaling_input.idle_s or scaling_input.waiting:
        return False
    if len(loaded) < len([row for row in scaling_input.replicas if row.is_placed]):
        return False  # A request waits for the replica that is being loaded.
    limit = timedelta(seconds=scaling_input.idle_s)
    return all(not row.in_flight and _compute_idle_time(scaling_input, row) > limit for row in loaded)


def _compute_idle_time(scaling_input: ScalingInput, row: ReplicaSnapshot) -> timedelta:
    """Return how long a replica has been idle. One that was never used and never seen to be loaded has only just
    come."""
    return timedelta(0) if row.used_at is None else scaling_input.now - row.used_at


def _pick_last(rows: Sequence[ReplicaSnapshot], count: int) -> tuple[str, ...]:
    """Pick the replicas with the highest index first, then those that were used longest ago."""
    ordered = sorted(rows, key=lambda row: row.id)
    ordered.sort(key=lambda row: (-row.index, row.used_at.timestamp() if row.used_at else 0.0))
    return tuple(row.id for row in ordered[: max(0, count)])


def _list_ids(rows: Sequence[ReplicaSnapshot]) -> tuple[str, ...]:
    return tuple(row.id for row in sorted(rows, key=lambda row: (-row.index, row.id)))


def _spread(scaling_input: ScalingInput, placed: Sequence[ReplicaSnapshot]) -> ScalingDecision:
    """Decide for one replica on each node that matches; a node without one is requested by name."""
    if not scaling_input.nodes:
        return ScalingDecision(reason="No node matches.")
    per_node = Counter(row.node_id for row in placed)
    missing = tuple(node_id for node_id in scaling_input.nodes if not per_node[node_id])
    if missing:
        return ScalingDecision(
            add=len(missing),
            node_ids=missing,
            signal=ScalingSignal.SPREAD,
            reason=f"{len(scaling_input.nodes) - len(missing)} of {len(scaling_input.nodes)} nodes have it.",
        )
    first = {row.node_id: row.id for row in sorted(placed, key=lambda row: (-row.is_loaded, row.index), reverse=True)}
    extra = [
        row
        for row in scaling_input.replicas
        if row.is_loaded and not row.in_flight and (row.is_stray or (row.is_placed and first[row.node_id] != row.id))
    ]
    return ScalingDecision(remove=_list_ids(extra), reason="One on each node is enough." if extra else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDemand:
    """Demand for a model that the autoscaler reads: waiting requests, parallelism and idle time."""

    waiting: int = 0
    parallel: int = 1
    idle_s: float | None = None
    added_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ScalingInputBuilder:
    """Builds the autoscaler's input for one model at a time out of a snapshot of nodes and replicas."""

    fleet: PlacementFleet
    now: datetime

    def build_input(self, model: str, demand: ModelDemand | None = None) -> ScalingInput:
        """Build the input for one model. Costs as much as the model has replicas, however many nodes there are."""
        fleet, now = self.fleet, self.now
        demand = demand or ModelDemand()
        model_rule = fleet.rules.get(model)
        rule = compute_effective_rule(model_rule, now) if model_rule is not None else None
        selector = rule.selector if rule is not None else {}
        matching = fleet.match_selector(selector)
        view = fleet.models.get(model)
        rows = fleet.list_standing(model)
        added = [demand.added_at, *(row.loaded_at for row in rows)]
        return ScalingInput(
            model=model,
            rule=rule,
            replicas=tuple(_make_replica_snapshot(fleet, row, matching, selector, demand.parallel) for row in rows),
            now=now,
            capacity=fleet.compute_capacity(model, selector),
            nodes=tuple(room.node.id for room in matching.rooms) if rule is not None and rule.spreads else (),
            waiting=demand.waiting,
            is_pinned=view is not None and view.is_pinned,
            idle_s=demand.idle_s,
            added_at=max((at for at in added if at is not None), default=None),
        )


def _make_replica_snapshot(
    fleet: PlacementFleet, row: Replica, matching: SelectorMatch, selector: Mapping[str, str], parallel: int
) -> ReplicaSnapshot:
    room = fleet.rooms.get(row.node_id)
    is_placed = row.node_id in matching.ids
    return ReplicaSnapshot(
        id=row.id,
        node_id=row.node_id,
        index=row.index,
        is_loaded=row.state is ReplicaState.LOADED,
        is_placed=is_placed,
        is_stray=not is_placed and room is not None and not matches_labels(selector, room.node.label_map),
        in_flight=row.in_flight,
        used_at=max((at for at in (row.last_used_at, row.loaded_at) if at is not None), default=None),
        parallel=parallel,
    )
