"""How many replicas of one model there are to be: one look at its rule and its load, every tick.

    1  told to wait (unsatisfiable)?        nothing
    2  below the minimum?                   add what is missing and there are slots for; no slots: a setback
    3  all busy or requests waiting, and below the maximum?      add one
    4  otherwise: what is misplaced, above the maximum, or idle for five minutes goes; the last one after `idle_s`

`spreads` asks for one on every node that matches instead of 2 and 3.

Guarantees: what is on its way counts, so one signal never adds twice; additions never lead above the maximum, removals
never below the minimum, and nothing that is in use goes. Too little capacity for a minimum is tried three times and
then left alone for five minutes; too little for a burst of requests is no setback at all. Level-triggered: a decision
that was not carried out is made again at the next tick.

Limit: a model that nobody asked for and no rule wants stays unloaded; the first request loads it, not this.
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
from corral.policy.labels import matches
from corral.policy.placing.fleet import Fleet, Matching
from corral.policy.placing.windows import effective

# Replicas beyond the floor go after so long without a request.
SPARE_IDLE = timedelta(minutes=5)
# A new replica is given time to take its share before the load is judged again.
SETTLING = timedelta(seconds=30)
SETBACKS_MAX = 3
COOLDOWN = timedelta(minutes=5)


class Signal(StrEnum):
    """What made it add. Pressure is used up by an addition that succeeded, and only by that."""

    FLOOR = "floor"
    SPREAD = "spread"
    BUSY = "busy"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One current replica, as the scaler counts it."""

    id: str
    node_id: NodeId
    index: int
    is_loaded: bool
    # Its node is healthy and the selector allows it. One on a node that is away for a moment does not serve, and stays.
    is_placed: bool = True
    # The selector does not allow its node (any more).
    is_stray: bool = False
    in_flight: int = 0
    # When it was last used; one that was never used counts from when it was loaded.
    used_at: datetime | None = None
    # How many requests it works on at a time.
    parallel: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One model at one moment."""

    model: str
    # As it counts now, windows included (`windows.effective`). None: there is none.
    rule: Rule | None
    replicas: tuple[Counted, ...]
    now: datetime
    # Free slots on the nodes that match.
    capacity: int = 0
    # The nodes that match, for a rule that spreads.
    nodes: tuple[NodeId, ...] = ()
    # Requests that wait for it anywhere.
    waiting: int = 0
    is_pinned: bool = False
    # Scaled to zero after so long without a request; None or 0: never.
    idle_s: float | None = None
    # When a replica last came.
    added_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """What to write into the rule: so many ticks in a row, and until when to leave it alone."""

    ticks: int = 0
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`setback` is None if nothing is to be written.

    After an addition that succeeded, `Setback()` is to be written; after one for the floor or for spreading that found
    no place, `after_setback`; after any other failure, nothing.
    """

    add: int = 0
    # For a minimum: so many in all will do, should some come by themselves.
    enough: int | None = None
    # For a rule that spreads: one on each of these.
    on: tuple[NodeId, ...] = ()
    remove: tuple[str, ...] = ()
    signal: Signal | None = None
    setback: Setback | None = None
    reason: str = ""


def decide(seen: Situation) -> Decision:
    rule = seen.rule
    if rule is not None and rule.unsatisfiable_until is not None and rule.unsatisfiable_until > seen.now:
        return Decision(reason=f"Left alone until {rule.unsatisfiable_until:%H:%M:%S}: there was no capacity.")  # 1
    placed = [row for row in seen.replicas if row.is_placed]
    if rule is not None and rule.spreads:
        return _spread(seen, placed)
    least = rule.min_replicas if rule is not None else 0
    if len(placed) < least:
        return _to_floor(seen, least, len(placed))  # 2
    added = _for_load(seen, placed)
    if added is not None:
        return added  # 3
    removed = _down(seen, placed)  # 4
    is_met = sum(row.is_loaded for row in placed) >= least
    has_setback = rule is not None and bool(rule.unsatisfiable_ticks or rule.unsatisfiable_until)
    return Decision(remove=removed.remove, reason=removed.reason, setback=Setback() if has_setback and is_met else None)


def most_of(rule: Rule | None) -> float:
    """Without a rule, or with a selector only, one replica is enough; a maximum of 0 is none."""
    if rule is None or not (rule.min_replicas or rule.max_replicas):
        return 1
    return rule.max_replicas or math.inf


def after_setback(rule: Rule, now: datetime) -> Setback:
    """One more tick without capacity; the third one in a row is the last for a while."""
    ticks = rule.unsatisfiable_ticks + 1
    return Setback(ticks=ticks, until=now + COOLDOWN if ticks >= SETBACKS_MAX else None)


def _to_floor(seen: Situation, least: int, present: int) -> Decision:
    assert seen.rule is not None  # a minimum comes from a rule
    missing = least - present
    if seen.capacity <= 0:
        return Decision(
            setback=after_setback(seen.rule, seen.now),
            reason=f"{present} of at least {least}, and no node that matches has a free slot.",
        )
    add = min(missing, seen.capacity)
    words = f"{present} of at least {least}."
    return Decision(add=add, enough=present + add, signal=Signal.FLOOR, reason=words)


def _for_load(seen: Situation, placed: Sequence[Counted]) -> Decision | None:
    """One more, or None. No capacity is no setback: it is the load that is too large, not the rule."""
    loaded = [row for row in placed if row.is_loaded]
    is_settling = seen.added_at is not None and seen.now - seen.added_at < SETTLING
    if not loaded or len(loaded) < len(placed) or is_settling:
        return None  # The first comes by request; one is on its way; or the last one has only just come.
    if len(placed) >= most_of(seen.rule) or seen.capacity <= 0:
        return None
    if all(row.in_flight >= row.parallel for row in loaded):
        busy = sum(row.in_flight for row in loaded)
        return Decision(add=1, signal=Signal.BUSY, reason=f"All {len(loaded)} are busy with {busy} requests.")
    if seen.waiting > 0:
        return Decision(add=1, signal=Signal.WAITING, reason=f"{seen.waiting} requests are waiting.")
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Removal:
    remove: tuple[str, ...] = ()
    reason: str = ""


def _down(seen: Situation, placed: Sequence[Counted]) -> _Removal:
    loaded = [row for row in placed if row.is_loaded]
    strays = [row for row in seen.replicas if row.is_stray and row.is_loaded and not row.in_flight]
    if strays:
        return _Removal(remove=_ids(strays), reason="Their nodes do not match the selector.")
    least = seen.rule.min_replicas if seen.rule is not None else 0
    if _may_be_none(seen, loaded, least):
        return _Removal(remove=_ids(loaded), reason=f"Nobody has asked for it for {seen.idle_s:.0f} s.")
    floor = max(least, 1)
    above = len(loaded) - seen.rule.max_replicas if seen.rule is not None and seen.rule.max_replicas else 0
    surplus = [row for row in loaded if not row.in_flight]
    if above > 0 and surplus:
        count = min(above, len(loaded) - floor)
        return _Removal(remove=_last(surplus, count), reason=f"{above} above the maximum.")
    idle = [row for row in surplus if _idle_since(seen, row) > SPARE_IDLE]
    gone = _last(idle, len(loaded) - floor)
    return _Removal(remove=gone, reason=f"{len(gone)} idle beyond the floor of {floor}." if gone else "")


def _may_be_none(seen: Situation, loaded: Sequence[Counted], least: int) -> bool:
    if not loaded or least or seen.is_pinned or not seen.idle_s or seen.waiting:
        return False
    if len(loaded) < len([row for row in seen.replicas if row.is_placed]):
        return False  # Somebody has asked for the one that is on its way.
    limit = timedelta(seconds=seen.idle_s)
    return all(not row.in_flight and _idle_since(seen, row) > limit for row in loaded)


def _idle_since(seen: Situation, row: Counted) -> timedelta:
    """Never used and never seen to be loaded: it has only just come."""
    return timedelta(0) if row.used_at is None else seen.now - row.used_at


def _last(rows: Sequence[Counted], count: int) -> tuple[str, ...]:
    """The highest index first, then the one that was used longest ago."""
    ordered = sorted(rows, key=lambda row: row.id)
    ordered.sort(key=lambda row: (-row.index, row.used_at.timestamp() if row.used_at else 0.0))
    return tuple(row.id for row in ordered[: max(0, count)])


def _ids(rows: Sequence[Counted]) -> tuple[str, ...]:
    return tuple(row.id for row in sorted(rows, key=lambda row: (-row.index, row.id)))


def _spread(seen: Situation, placed: Sequence[Counted]) -> Decision:
    """One on each node that matches; a node that has none is asked for by name."""
    if not seen.nodes:
        return Decision(reason="No node matches.")
    per_node = Counter(row.node_id for row in placed)
    missing = tuple(node_id for node_id in seen.nodes if not per_node[node_id])
    if missing:
        return Decision(
            add=len(missing),
            on=missing,
            signal=Signal.SPREAD,
            reason=f"{len(seen.nodes) - len(missing)} of {len(seen.nodes)} nodes have it.",
        )
    first = {row.node_id: row.id for row in sorted(placed, key=lambda row: (-row.is_loaded, row.index), reverse=True)}
    extra = [
        row
        for row in seen.replicas
        if row.is_loaded and not row.in_flight and (row.is_stray or (row.is_placed and first[row.node_id] != row.id))
    ]
    return Decision(remove=_ids(extra), reason="One on each node is enough." if extra else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a scaler knows of a model beside the fleet."""

    waiting: int = 0
    parallel: int = 1
    idle_s: float | None = None
    added_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Scaler:
    """Situations out of a fleet, one model at a time."""

    fleet: Fleet
    now: datetime

    def situation(self, model: str, load: Load | None = None) -> Situation:
        """One model out of a fleet. Costs as much as the model has replicas, however many nodes there are."""
        fleet, now = self.fleet, self.now
        load = load or Load()
        said = fleet.rules.get(model)
        rule = effective(said, now) if said is not None else None
        selector = rule.selector if rule is not None else {}
        matching = fleet.matching(selector)
        view = fleet.models.get(model)
        rows = fleet.standing(model)
        added = [load.added_at, *(row.loaded_at for row in rows)]
        return Situation(
            model=model,
            rule=rule,
            replicas=tuple(_counted(fleet, row, matching, selector, load.parallel) for row in rows),
            now=now,
            capacity=fleet.capacity(model, selector),
            nodes=tuple(room.node.id for room in matching.rooms) if rule is not None and rule.spreads else (),
            waiting=load.waiting,
            is_pinned=view is not None and view.is_pinned,
            idle_s=load.idle_s,
            added_at=max((at for at in added if at is not None), default=None),
        )


def _counted(fleet: Fleet, row: Replica, matching: Matching, selector: Mapping[str, str], parallel: int) -> Counted:
    room = fleet.rooms.get(row.node_id)
    is_placed = row.node_id in matching.ids
    return Counted(
        id=row.id,
        node_id=row.node_id,
        index=row.index,
        is_loaded=row.state is ReplicaState.LOADED,
        is_placed=is_placed,
        is_stray=not is_placed and room is not None and not matches(selector, room.node.label_map),
        in_flight=row.in_flight,
        used_at=max((at for at in (row.last_used_at, row.loaded_at) if at is not None), default=None),
        parallel=parallel,
    )
