"""Which models make room for another one: on one node, the set that is cheapest to bring back.

    evictable   loaded, idle, current, not pinned, of another model, and not needed for its model's minimum
    cost        seconds until it would be back, weighted by how lately somebody used it; next to nothing for a copy
                whose model stays loaded without it
    waits       engines that are being stopped: their room is coming, nobody else has to go for it

Guarantees: nothing that is busy, pinned or needed goes. All victims are on one node that passes every question which
ending a model cannot mend. A node that was told to stop something is waited for before anything else goes there.
Nobody goes in vain: without any of the victims the rest would not do.

Limit: with many evictable models on a node the set is a good one and not always the cheapest (`victims.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.policy.placing.demand import Demand
from corral.policy.placing.filters import MENDABLE, Ask, Refusal, check_disk, ram_need
from corral.policy.placing.fleet import Fleet, Room
from corral.policy.placing.keeping import Keeping
from corral.policy.placing.placement import Choice, Placement, reasons, take
from corral.policy.placing.scoring import LOAD_UNKNOWN_S, Terms, terms
from corral.policy.placing.victims import Gain, Offer, Victim, cheapest_set, is_met, least_cost, less, total

# A model that nobody has used for so long is half as likely to be wanted next as one in use.
HALF_LIFE_S = 600.0
# What ending an engine takes, beside bringing it back: fewer victims are better.
STOP_S = 1.0
# What of that cost is left if another replica keeps the model warm: no request has to wait for a load.
COPY_SHARE = 0.05
# An engine that could not be stopped so often is not waited for: its room may never come.
STOPS_WAITED_FOR = 3
NAMES_SHOWN = 5


class Outcome(StrEnum):
    MAKE_ROOM = "make_room"  # stop the victims, then look again
    WAIT = "wait"  # room is coming by itself
    BUSY = "eviction_busy"  # it could be made if those that are in use were not
    NONE = "no_room"  # nobody can make it


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """`outcome` is the code of a refusal, too. `choice` is what may be placed once the victims have ended."""

    outcome: Outcome
    sentence: str
    choice: Choice | None = None
    victims: tuple[Victim, ...] = ()
    # Being stopped already, on the chosen node.
    waits_for: tuple[Replica, ...] = ()


def make_room(
    fleet: Fleet, demand: Demand, placement: Placement, now: datetime, settling: Iterable[NodeId] = ()
) -> Eviction:
    """For one replica, after `placement` found no place at all.

    `settling`: nodes on which an engine has ended since their last heartbeat. What they report is from before that;
    nothing is evicted there until they report again. One that is too small for it anyway is not waited for.
    """
    ask = Ask(fleet, demand)
    sites = sorted(_sites(ask, placement.refusals), key=lambda site: (site.base.total_s, site.room.node.name))
    is_settling = frozenset(settling)
    for site in sites:
        is_due = site.room.node.id in is_settling and _is_large_enough(ask, site.room)
        if is_due or (site.ending and is_met(site.short)):
            return _waits(ask, site)
    keeping = Keeping(fleet, now)
    best = _cheapest(ask, keeping, sites)
    if best is not None:
        return _makes(ask, best)
    busy = [site.room.node.name for site in sites if _could_be_made(ask, keeping, site)]
    return _refused(demand, placement.refusals, busy)


class _Site(NamedTuple):
    """A node on which ending models would help, and what is missing there once all that is ending has ended."""

    room: Room
    base: Terms
    short: Gain
    ending: tuple[Replica, ...]
    replicas: Sequence[Replica]


def _sites(ask: Ask, refusals: Iterable[Refusal]) -> Iterator[_Site]:
    for refusal in refusals:
        room = ask.fleet.rooms.get(refusal.node_id)
        if refusal.filter not in MENDABLE or room is None:
            continue
        short = _short(ask, room)
        if short is None or (ask.demand.is_disk_enforced and check_disk(ask, room) is not None):
            continue
        replicas = ask.fleet.by_node.get(room.node.id, ())
        ending = tuple(
            row for row in replicas if row.state is ReplicaState.UNLOADING and row.stop_attempts < STOPS_WAITED_FOR
        )
        if ending:
            short = less(short, total(_gain(ask.fleet, room, row) for row in ending))
        yield _Site(room, terms(ask, room), short, ending, replicas)


def _short(ask: Ask, room: Room) -> Gain | None:
    """What is missing for one replica. None: it is not known to be there at all."""
    need = ask.need(room)
    vram = 0
    if need.vram_bytes:
        if room.vram is None:
            return None
        vram = need.vram_bytes - room.vram
    ram = ram_need(room, need) - room.ram if room.ram is not None else 0
    return max(0, vram), max(0, ram)


def _is_large_enough(ask: Ask, room: Room) -> bool:
    """With nothing else on it. What is unknown may be enough."""
    need, hardware = ask.need(room), room.node.hardware
    has_vram = hardware.total_vram is None or (need.vram_bytes or 0) <= hardware.total_vram
    return has_vram and (hardware.total_ram is None or ram_need(room, need) <= hardware.total_ram)


def _gain(fleet: Fleet, room: Room, replica: Replica) -> Gain:
    vram, ram = fleet.takes(replica)
    return vram, ram + vram if room.is_unified else ram


class _Found(NamedTuple):
    site: _Site
    victims: tuple[Victim, ...]
    total_s: float


def _cheapest(ask: Ask, keeping: Keeping, sites: Iterable[_Site]) -> _Found | None:
    """Nodes in the order of what they cost without any eviction, until that alone is more than what was found."""
    best: _Found | None = None
    for site in sites:
        limit_s = float("inf") if best is None else best.total_s - site.base.total_s
        if limit_s <= STOP_S:
            break
        offers = _offers(ask, keeping, site)
        if least_cost(offers, site.short) >= limit_s:
            continue
        chosen = cheapest_set(offers, site.short, keeping, limit_s)
        if chosen is not None:
            total_s = site.base.total_s + sum(offer.victim.cost_s for offer in chosen)
            best = _Found(site, tuple(offer.victim for offer in chosen), total_s)
    return best


def _offers(ask: Ask, keeping: Keeping, site: _Site) -> list[Offer]:
    """List the replicas of this node that may be evicted, each with its cost and what it frees."""
    fleet, model = ask.fleet, ask.demand.model
    rows = [
        row
        for row in site.replicas
        if row.state is ReplicaState.LOADED
        and not row.in_flight
        and row.model != model
        and fleet.is_current(row)
        and keeping.may_go(row)
    ]
    last = _last_copies(fleet, site.room.node.id, rows, keeping.now)
    return [
        Offer(Victim(row, _cost(row, keeping.now, is_last=row.id in last)), _gain(fleet, site.room, row))
        for row in rows
    ]


def _last_copies(fleet: Fleet, node_id: NodeId, rows: Iterable[Replica], now: datetime) -> frozenset[str]:
    """Return the ids of the replicas whose eviction would leave their model cold.

    All victims of one decision are on one node. A model that is loaded elsewhere, or busy here, stays warm whatever
    goes here; of a model that is loaded on this node alone, the copy that is dearest to bring back stands for it.
    """
    offered: defaultdict[str, list[Replica]] = defaultdict(list)
    for row in rows:
        offered[row.model].append(row)
    return frozenset(
        max(copies, key=lambda row: (_regret(row, now), -row.index)).id
        for model, copies in offered.items()
        if not any(
            _keeps_warm(fleet, row) for row in fleet.by_model[model] if row.node_id != node_id or row not in copies
        )
    )


def _keeps_warm(fleet: Fleet, replica: Replica) -> bool:
    """Whether this replica answers requests and goes on doing so: loaded, current, on a node that takes work."""
    room = fleet.rooms.get(replica.node_id)
    is_serving = replica.state is ReplicaState.LOADED and fleet.is_current(replica)
    return is_serving and room is not None and room.is_candidate


def _cost(replica: Replica, now: datetime, *, is_last: bool) -> float:
    """Seconds that evicting this replica is expected to cost."""
    return STOP_S + _regret(replica, now) * (1.0 if is_last else COPY_SHARE)


def _regret(replica: Replica, now: datetime) -> float:
    """Seconds until the replica would be back, weighted by how lately it was used.

    A replica that was never used counts from when it was loaded; how long the load of an adopted one took is unknown.
    """
    back_s = LOAD_UNKNOWN_S if replica.load_s is None else replica.load_s
    used_at = replica.last_used_at or replica.loaded_at
    idle_s = HALF_LIFE_S * 10 if used_at is None else max(0.0, (now - used_at).total_seconds())
    return back_s / (1.0 + idle_s / HALF_LIFE_S)


def _could_be_made(ask: Ask, keeping: Keeping, site: _Site) -> bool:
    """Whether it would do if nobody were busy there."""
    others = (
        row
        for row in site.replicas
        if row.state is not ReplicaState.UNLOADING and row.model != ask.demand.model and keeping.may_go(row)
    )
    return is_met(less(site.short, total(_gain(ask.fleet, site.room, row) for row in others)))


def _choice(ask: Ask, site: _Site, ended: Iterable[Replica], cost: Terms) -> Choice:
    """As it will be placed, if nothing else changes."""
    room = site.room
    ended = tuple(ended)
    vram, ram = total(_gain(ask.fleet, room, row) for row in ended)
    with_room = room._replace(
        vram=None if room.vram is None else room.vram + vram,
        ram=None if room.ram is None else room.ram + ram,
        threads=None if room.threads is None else room.threads + sum(row.threads for row in ended),
    )
    return take(ask, with_room, cost)[0]


def _makes(ask: Ask, found: _Found) -> Eviction:
    site, victims = found.site, found.victims
    names = ", ".join(f"{victim.replica.model} ({victim.cost_s:.0f} s to bring back)" for victim in victims)
    cost = site.base._replace(evict_s=sum(victim.cost_s for victim in victims))
    return Eviction(
        outcome=Outcome.MAKE_ROOM,
        sentence=f"{site.room.node.name} has room for {ask.demand.model} without {names}.",
        choice=_choice(ask, site, (*site.ending, *(victim.replica for victim in victims)), cost),
        victims=victims,
        waits_for=site.ending,
    )


def _waits(ask: Ask, site: _Site) -> Eviction:
    names = ", ".join(sorted({row.model for row in site.ending}))
    return Eviction(
        outcome=Outcome.WAIT,
        sentence=f"{site.room.node.name} may have room for {ask.demand.model} soon: "
        f"it waits for {f'{names} to end' if names else 'its next report'}.",
        choice=_choice(ask, site, site.ending, site.base) if is_met(site.short) else None,
        waits_for=site.ending,
    )


def _refused(demand: Demand, refusals: Iterable[Refusal], busy: Sequence[str]) -> Eviction:
    if not busy:
        sentence = f"{demand.model} fits on no node, and nothing may go for it. {reasons(refusals)}"
        return Eviction(outcome=Outcome.NONE, sentence=sentence)
    more = f" and {len(busy) - NAMES_SHOWN} more" if len(busy) > NAMES_SHOWN else ""
    return Eviction(
        outcome=Outcome.BUSY,
        sentence=f"{demand.model} would fit on {', '.join(busy[:NAMES_SHOWN])}{more}, "
        "but what would have to go there is in use.",
    )
