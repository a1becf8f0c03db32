"""Decides which models make room for another one: on one node, the set that is cheapest to bring back.

    evictable   loaded, idle, current, not pinned, of another model, and not needed for its model's minimum
    cost        seconds until it would be back, weighted by how recently it was used; next to nothing for a copy
                whose model stays loaded without it
    waits       engines that are being stopped: their room is coming, so nothing else is evicted for it

Guarantees: no busy, pinned or needed replica is evicted. All victims are on one node that passes every filter which
an eviction cannot mend. A node that is already stopping an engine is waited for before anything else is evicted
there. No eviction is in vain: without any one of the victims the rest would not do.

Limit: with many evictable models on a node the set is a good one and not always the cheapest.

The set is a small knapsack, solved exactly for up to `EXACT_MAX` offers: sets are put together from the cheapest on,
and given up as soon as the rest cannot be had for less than the best set so far. Beyond that, greedy: most room for a
second of regret first, and then those that turned out not to be needed are dropped.

Pins, minimums and spread rules say which replicas have to stay. Only serving replicas count towards a minimum: loaded,
current, on a healthy node that the rule's selector allows. A replica that does not serve may be evicted without being
counted.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState, Rule
from corral.policy.placing.fleet import NodeRoom, PlacementDemand, PlacementFleet
from corral.policy.placing.placement import (
    LOAD_UNKNOWN_S,
    MENDABLE,
    CostTerms,
    NodeRefusal,
    PlacementChoice,
    PlacementContext,
    PlacementResult,
    compute_ram_need,
    compute_terms,
    find_disk_refusal,
    format_reasons,
    take_room,
)
from corral.policy.placing.windows import compute_effective_rule

# A model that was last used so long ago is half as likely to be needed next as one in use.
HALF_LIFE_S = 600.0
# The cost of ending an engine, beside bringing it back: fewer victims are better.
STOP_S = 1.0
# The part of that cost that is left if another replica keeps the model warm: no request has to wait for a load.
COPY_SHARE = 0.05
# An engine whose stop failed so often is not waited for: its room may never come.
STOPS_WAITED_FOR = 3
NAMES_SHOWN = 5

EXACT_MAX = 12

# VRAM and RAM in bytes.
FreedMemory = tuple[int, int]


class EvictionVictim(NamedTuple):
    """A replica that would be unloaded to make room for another model, with the seconds that this costs."""

    replica: Replica
    cost_s: float


class EvictionOffer(NamedTuple):
    """A replica that may be unloaded to make room for another model, with the memory that this frees."""

    victim: EvictionVictim
    gain: FreedMemory


def sum_freed(gains: Iterable[FreedMemory]) -> FreedMemory:
    vram = ram = 0
    for gain in gains:
        vram += gain[0]
        ram += gain[1]
    return vram, ram


def subtract_freed(short: FreedMemory, gain: FreedMemory) -> FreedMemory:
    return short[0] - gain[0], short[1] - gain[1]


def is_enough(short: FreedMemory) -> bool:
    return short[0] <= 0 and short[1] <= 0


def compute_least_cost(offers: Iterable[EvictionOffer], short: FreedMemory) -> float:
    """Return a lower bound of the cost: each kind of room at the best price of any offer. Infinite if there is too
    little."""
    price = [math.inf, math.inf]
    offered = [0, 0]
    for victim, gain in offers:
        for kind in range(2):
            if gain[kind] > 0 and short[kind] > 0:
                offered[kind] += gain[kind]
                # A victim goes as a whole: what it frees beyond what is missing is worth nothing.
                price[kind] = min(price[kind], victim.cost_s / min(gain[kind], short[kind]))
    if any(offered[kind] < short[kind] for kind in range(2)):
        return math.inf
    return max((price[kind] * short[kind] for kind in range(2) if short[kind] > 0), default=0.0)


def find_cheapest_set(
    offers: Sequence[EvictionOffer], short: FreedMemory, retention: RetentionPolicy, limit_s: float
) -> list[EvictionOffer] | None:
    """Return the cheapest set. None: no set frees enough, or none below `limit_s`."""
    ordered = sorted(
        (offer for offer in offers if _compute_share(offer.gain, short) > 0),
        key=lambda offer: (offer.victim.cost_s, offer.victim.replica.model, offer.victim.replica.index),
    )
    found = _find_greedily(ordered, short, retention)
    if len(ordered) <= EXACT_MAX:
        found = _ExactSearch(ordered, retention, found, limit_s).search(short)
    if found is None or sum(offer.victim.cost_s for offer in found) >= limit_s:
        return None
    return found


class _VictimCounter:
    """Counts victims against their models' minimums while a set is put together."""

    def __init__(self, keeping: RetentionPolicy) -> None:
        self._retention = keeping
        self._models: Counter[str] = Counter()

    def add(self, replica: Replica) -> bool:
        spare = self._retention.count_spare(replica.model)
        if spare == math.inf or not self._retention.is_counted(replica):
            return True
        if self._models[replica.model] + 1 > spare:
            return False
        self._models[replica.model] += 1
        return True

    def remove(self, replica: Replica) -> None:
        if self._models[replica.model] and self._retention.is_counted(replica):
            self._models[replica.model] -= 1


def _find_greedily(
    offers: Sequence[EvictionOffer], short: FreedMemory, retention: RetentionPolicy
) -> list[EvictionOffer] | None:
    victims = _VictimCounter(retention)
    chosen: list[EvictionOffer] = []
    left = short
    for offer in sorted(offers, key=lambda offer: -_compute_share(offer.gain, short) / offer.victim.cost_s):
        if is_enough(left):
            break
        if _compute_share(offer.gain, left) > 0 and victims.add(offer.victim.replica):
            chosen.append(offer)
            left = subtract_freed(left, offer.gain)
    if not is_enough(left):
        return None
    for offer in sorted(chosen, key=lambda offer: -offer.victim.cost_s):
        without = sum_freed(other.gain for other in chosen if other is not offer)
        if is_enough(subtract_freed(short, without)):
            chosen.remove(offer)
    return chosen


def _compute_share(gain: FreedMemory, short: FreedMemory) -> float:
    """Return how much of what is missing it frees: 1 is all of one kind."""
    share = 0.0
    for given, missing in zip(gain, short, strict=True):
        if missing > 0 and given > 0:
            share += min(given, missing) / missing
    return share


class _ExactSearch:
    """Searches all sets of offers, the cheapest first, for the cheapest one that frees enough."""

    def __init__(
        self,
        offers: Sequence[EvictionOffer],
        keeping: RetentionPolicy,
        found: list[EvictionOffer] | None,
        limit_s: float,
    ) -> None:
        self._offers = offers
        self._victims = _VictimCounter(keeping)
        self._chosen: list[EvictionOffer] = []
        self._best = found
        self._best_s = limit_s if found is None else min(limit_s, sum(offer.victim.cost_s for offer in found))

    def search(self, short: FreedMemory) -> list[EvictionOffer] | None:
        self._search(0, short, 0.0)
        return self._best

    def _search(self, start: int, left: FreedMemory, spent_s: float) -> None:
        if is_enough(left):
            self._best, self._best_s = list(self._chosen), spent_s
            return
        if spent_s + compute_least_cost(self._offers[start:], left) >= self._best_s:
            return
        for number in range(start, len(self._offers)):
            offer = self._offers[number]
            cost_s = spent_s + offer.victim.cost_s
            if cost_s >= self._best_s:
                return  # The following ones cost no less.
            if _compute_share(offer.gain, left) > 0 and self._victims.add(offer.victim.replica):
                self._chosen.append(offer)
                self._search(number + 1, subtract_freed(left, offer.gain), cost_s)
                self._chosen.pop()
                self._victims.remove(offer.victim.replica)


class RetentionPolicy:
    """Decides which replicas must not be unloaded to make room: pins, minimums and spread rules.

    Lives for one decision.
    """

    def __init__(self, fleet: PlacementFleet, now: datetime) -> None:
        self._fleet = fleet
        self.now = now
        self._spare: dict[str, float] = {}

    def can_evict(self, replica: Replica) -> bool:
        """Return whether the replica may be evicted alone. For several at once, `count_spare` says how many of the
        counted ones."""
        spare = self.count_spare(replica.model)
        if spare >= 1:
            rule = self._fleet.rules.get(replica.model)
            return rule is None or not rule.spreads or self._is_doubled(replica, rule)
        model = self._fleet.models.get(replica.model)
        return (model is None or not model.is_pinned) and not self.is_counted(replica)

    def count_spare(self, model: str) -> float:
        """Return how many of the replicas that count may be evicted."""
        found = self._spare.get(model)
        if found is None:
            found = self._spare[model] = self._count(model)
        return found

    def is_counted(self, replica: Replica) -> bool:
        rule = self._fleet.rules.get(replica.model)
        return rule is not None and self._serves(replica, rule)

    def _count(self, model: str) -> float:
        view = self._fleet.models.get(model)
        if view is not None and view.is_pinned:
            return 0
        rule = self._fleet.rules.get(model)
        if rule is None or rule.spreads:
            return math.inf
        least = compute_effective_rule(rule, self.now).min_replicas
        if not least:
            return math.inf
        return sum(self._serves(row, rule) for row in self._fleet.by_model.get(model, ())) - least

    def _is_doubled(self, replica: Replica, rule: Rule) -> bool:
        """Return whether a spread rule can spare the replica: of several on one node the first stays; one outside the
        selector may go."""
        if not self._serves(replica, rule):
            return True
        return any(
            row.model == replica.model and row.index < replica.index and self._serves(row, rule)
            for row in self._fleet.by_node.get(replica.node_id, ())
        )

    def _serves(self, replica: Replica, rule: Rule) -> bool:
        return (
            replica.state is ReplicaState.LOADED
            and self._fleet.is_current(replica)
            and replica.node_id in self._fleet.match_selector(rule.selector).ids
        )


class EvictionOutcome(StrEnum):
    """Names how an attempt to make room for a model ended. The values are also codes of refusals."""

    MAKE_ROOM = "make_room"  # stop the victims, then look again
    WAIT = "wait"  # room is coming by itself
    BUSY = "eviction_busy"  # room could be made if the replicas in use were idle
    NONE = "no_room"  # no eviction can make room


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionDecision:
    """Says which replicas are unloaded to make room for another model, or why none can.

    `choice`: what may be placed afterwards.
    """

    outcome: EvictionOutcome
    sentence: str
    choice: PlacementChoice | None = None
    victims: tuple[EvictionVictim, ...] = ()
    # Replicas on the chosen node that are being stopped already.
    waits_for: tuple[Replica, ...] = ()


def make_room(
    fleet: PlacementFleet,
    demand: PlacementDemand,
    placement: PlacementResult,
    now: datetime,
    settling: Iterable[NodeId] = (),
) -> EvictionDecision:
    """Decide about room for one replica, after `placement` found no place at all.

    `settling`: nodes on which an engine has ended since their last heartbeat. Their readings are from before that;
    nothing is evicted there until they report again. A node that is too small anyway is not waited for.
    """
    ask = PlacementContext(fleet, demand)
    sites = sorted(_list_sites(ask, placement.refusals), key=lambda site: (site.base.total_s, site.room.node.name))
    is_settling = frozenset(settling)
    for site in sites:
        is_due = site.room.node.id in is_settling and _is_large_enough(ask, site.room)
        if is_due or (site.ending and is_enough(site.shortage)):
            return _make_wait(ask, site)
    keeping = RetentionPolicy(fleet, now)
    best = _find_cheapest(ask, keeping, sites)
    if best is not None:
        return _make_eviction(ask, best)
    busy = [site.room.node.name for site in sites if _is_enough_if_idle(ask, keeping, site)]
    return _make_refusal(demand, placement.refusals, busy)


class _EvictionSite(NamedTuple):
    """Describes a node on which ending replicas would help, and what is missing there."""

    room: NodeRoom
    base: CostTerms
    shortage: FreedMemory
    ending: tuple[Replica, ...]
    replicas: Sequence[Replica]


def _list_sites(context: PlacementContext, refusals: Iterable[NodeRefusal]) -> Iterator[_EvictionSite]:
    for refusal in refusals:
        room = context.fleet.rooms.get(refusal.node_id)
        if refusal.filter not in MENDABLE or room is None:
            continue
        short = _compute_shortage(context, room)
        if short is None or (context.demand.is_disk_enforced and find_disk_refusal(context, room) is not None):
            continue
        replicas = context.fleet.by_node.get(room.node.id, ())
        ending = tuple(
            row for row in replicas if row.state is ReplicaState.UNLOADING and row.stop_attempts < STOPS_WAITED_FOR
        )
        if ending:
            short = subtract_freed(short, sum_freed(_compute_freed(context.fleet, room, row) for row in ending))
        yield _EvictionSite(room, compute_terms(context, room), short, ending, replicas)


def _compute_shortage(context: PlacementContext, room: NodeRoom) -> FreedMemory | None:
    """Return the missing memory for one replica. None: the node is not known to have any."""
    need = context.get_need(room)
    vram = 0
    if need.vram_bytes:
        if room.vram is None:
            return None
        vram = need.vram_bytes - room.vram
    ram = compute_ram_need(room, need) - room.ram if room.ram is not None else 0
    return max(0, vram), max(0, ram)


def _is_large_enough(context: PlacementContext, room: NodeRoom) -> bool:
    """Return whether the node is large enough with nothing else on it. An unknown size may be enough."""
    need, hardware = context.get_need(room), room.node.hardware
    has_vram = hardware.total_vram is None or (need.vram_bytes or 0) <= hardware.total_vram
    return has_vram and (hardware.total_ram is None or compute_ram_need(room, need) <= hardware.total_ram)


def _compute_freed(fleet: PlacementFleet, room: NodeRoom, replica: Replica) -> FreedMemory:
    vram, ram = fleet.compute_freed_memory(replica)
    return vram, ram + vram if room.is_unified else ram


class _CheapestEviction(NamedTuple):
    """Holds the cheapest set of victims found so far."""

    site: _EvictionSite
    victims: tuple[EvictionVictim, ...]
    total_s: float


def _find_cheapest(
    context: PlacementContext, retention: RetentionPolicy, sites: Iterable[_EvictionSite]
) -> _CheapestEviction | None:
    """Return the cheapest eviction: nodes in the order of their cost without any eviction, until that alone exceeds
    the best found."""
    best: _CheapestEviction | None = None
    for site in sites:
        limit_s = float("inf") if best is None else best.total_s - site.base.total_s
        if limit_s <= STOP_S:
            break
        offers = _list_offers(context, retention, site)
        if compute_least_cost(offers, site.shortage) >= limit_s:
            continue
        chosen = find_cheapest_set(offers, site.shortage, retention, limit_s)
        if chosen is not None:
            total_s = site.base.total_s + sum(offer.victim.cost_s for offer in chosen)
            best = _CheapestEviction(site, tuple(offer.victim for offer in chosen), total_s)
    return best


def _list_offers(context: PlacementContext, retention: RetentionPolicy, site: _EvictionSite) -> list[EvictionOffer]:
    """List the replicas of this node that may be evicted, each with its cost and what it frees."""
    fleet, model = context.fleet, context.demand.model
    rows = [
        row
        for row in site.replicas
        if row.state is ReplicaState.LOADED
        and not row.in_flight
        and row.model != model
        and fleet.is_current(row)
        and retention.can_evict(row)
    ]
    last = _list_last_copies(fleet, site.room.node.id, rows, retention.now)
    return [
        EvictionOffer(
            EvictionVictim(row, _compute_cost(row, retention.now, is_last=row.id in last)),
            _compute_freed(fleet, site.room, row),
        )
        for row in rows
    ]


def _list_last_copies(fleet: PlacementFleet, node_id: NodeId, rows: Iterable[Replica], now: datetime) -> frozenset[str]:
    """Return the ids of the replicas whose eviction would leave their model cold.

    All victims of one decision are on one node. A model that is loaded elsewhere, or busy here, stays warm whatever
    is evicted here; of a model that is loaded on this node alone, the copy that is dearest to bring back counts as
    the last.
    """
    offered: defaultdict[str, list[Replica]] = defaultdict(list)
    for row in rows:
        offered[row.model].append(row)
    return frozenset(
        max(copies, key=lambda row: (_compute_regret(row, now), -row.index)).id
        for model, copies in offered.items()
        if not any(
            _keeps_warm(fleet, row) for row in fleet.by_model[model] if row.node_id != node_id or row not in copies
        )
    )


def _keeps_warm(fleet: PlacementFleet, replica: Replica) -> bool:
    """Return whether this replica answers requests and goes on doing so: loaded, current, on a node that takes work."""
    room = fleet.rooms.get(replica.node_id)
    is_serving = replica.state is ReplicaState.LOADED and fleet.is_current(replica)
    return is_serving and room is not None and room.is_candidate


def _compute_cost(replica: Replica, now: datetime, *, is_last: bool) -> float:
    """Return the seconds that evicting this replica is expected to cost."""
    return STOP_S + _compute_regret(replica, now) * (1.0 if is_last else COPY_SHARE)


def _compute_regret(replica: Replica, now: datetime) -> float:
    """Return the seconds until the replica would be back, weighted by how recently it was used.

    A replica that was never used counts from when it was loaded; how long the load of an adopted one took is unknown.
    """
    back_s = LOAD_UNKNOWN_S if replica.load_s is None else replica.load_s
    used_at = replica.last_used_at or replica.loaded_at
    idle_s = HALF_LIFE_S * 10 if used_at is None else max(0.0, (now - used_at).total_seconds())
    return back_s / (1.0 + idle_s / HALF_LIFE_S)


def _is_enough_if_idle(context: PlacementContext, retention: RetentionPolicy, site: _EvictionSite) -> bool:
    """Return whether there would be enough room if no replica were busy there."""
    others = (
        row
        for row in site.replicas
        if row.state is not ReplicaState.UNLOADING and row.model != context.demand.model and retention.can_evict(row)
    )
    return is_enough(
        subtract_freed(site.shortage, sum_freed(_compute_freed(context.fleet, site.room, row) for row in others))
    )


def _make_choice(
    context: PlacementContext, site: _EvictionSite, ended: Iterable[Replica], cost: CostTerms
) -> PlacementChoice:
    """Return the choice as it will be placed, if nothing else changes."""
    room = site.room
    ended = tuple(ended)
    vram, ram = sum_freed(_compute_freed(context.fleet, room, row) for row in ended)
    with_room = room._replace(
        vram=None if room.vram is None else room.vram + vram,
        ram=None if room.ram is None else room.ram + ram,
        threads=None if room.threads is None else room.threads + sum(row.threads for row in ended),
    )
    return take_room(context, with_room, cost)[0]


def _make_eviction(context: PlacementContext, found: _CheapestEviction) -> EvictionDecision:
    site, victims = found.site, found.victims
    names = ", ".join(f"{victim.replica.model} ({victim.cost_s:.0f} s to bring back)" for victim in victims)
    cost = site.base._replace(evict_s=sum(victim.cost_s for victim in victims))
    return EvictionDecision(
        outcome=EvictionOutcome.MAKE_ROOM,
        sentence=f"{site.room.node.name} has room for {context.demand.model} without {names}.",
        choice=_make_choice(context, site, (*site.ending, *(victim.replica for victim in victims)), cost),
        victims=victims,
        waits_for=site.ending,
    )


def _make_wait(context: PlacementContext, site: _EvictionSite) -> EvictionDecision:
    names = ", ".join(sorted({row.model for row in site.ending}))
    return EvictionDecision(
        outcome=EvictionOutcome.WAIT,
        sentence=f"{site.room.node.name} may have room for {context.demand.model} soon: "
        f"it waits for {f'{names} to end' if names else 'its next report'}.",
        choice=_make_choice(context, site, site.ending, site.base) if is_enough(site.shortage) else None,
        waits_for=site.ending,
    )


def _make_refusal(demand: PlacementDemand, refusals: Iterable[NodeRefusal], busy: Sequence[str]) -> EvictionDecision:
    if not busy:
        sentence = f"{demand.model} fits on no node, and nothing can be evicted for it. {format_reasons(refusals)}"
        return EvictionDecision(outcome=EvictionOutcome.NONE, sentence=sentence)
    more = f" and {len(busy) - NAMES_SHOWN} more" if len(busy) > NAMES_SHOWN else ""
    return EvictionDecision(
        outcome=EvictionOutcome.BUSY,
        sentence=f"{demand.model} would fit on {', '.join(busy[:NAMES_SHOWN])}{more}, "
        "but the replicas that would have to make room are in use.",
    )
