"""Where replicas of a model go: filters with a sentence each, then the node that has it ready first.

Guarantees: a choice never takes more of a node than is left of it, several choices of one placement taken together.
Nothing is chosen outside of what was asked for; no candidates is an answer with reasons, never "any". The same fleet
and the same demand give the same answer. Models that share a group are kept apart as long as another node fits.

Limit: it decides on what was read. Whoever acts on it locks the nodes and decides again (`loading/placing.py`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from corral.domain.model import Need
from corral.domain.node import NodeId
from corral.policy.placing.demand import Demand
from corral.policy.placing.filters import Ask, Filter, Refusal, check, check_disk, ram_need, uses_gpu
from corral.policy.placing.fleet import Fleet, Room
from corral.policy.placing.scoring import Terms, terms

SENTENCES_SHOWN = 5
# What the furthest refusal means for whoever asked.
_CODES = {
    Filter.SLOT: "no_free_slot",
    Filter.SPREAD: "no_free_slot",
    Filter.VRAM: "no_room",
    Filter.RAM: "no_room",
    Filter.DISK: "insufficient_disk",
}
_ORDER = {name: place for place, name in enumerate(Filter)}


class Scored(NamedTuple):
    """A node that fits, and what it would cost there."""

    node_id: NodeId
    node: str
    terms: Terms
    # Another model of one of its groups is there: taken only where no other node fits.
    shares_group: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One replica on one node, with everything that has to be written down for it."""

    node_id: NodeId
    node: str
    index: int
    threads: int
    need: Need
    # To be reserved on the disk; None is unknown.
    missing_bytes: int | None
    terms: Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """`code` and `sentence` are empty if everything that was asked for has a place."""

    choices: tuple[Choice, ...]
    # All nodes that fit, best first, as they stood before the first choice.
    scored: tuple[Scored, ...]
    refusals: tuple[Refusal, ...]
    warnings: tuple[str, ...] = ()
    code: str = ""
    sentence: str = ""


def place(fleet: Fleet, demand: Demand) -> Placement:
    """Up to `demand.count` choices; fewer come with a code and a sentence."""
    ask = Ask(fleet, demand)
    refusals: list[Refusal] = []
    ranked: list[_Ranked] = []
    for room in fleet.rooms.values():
        refusal = check(ask, room)
        if refusal is None:
            ranked.append(_rank(ask, room))
        else:
            refusals.append(refusal)
    ranked.sort()
    scored = tuple(one.scored for one in ranked)
    choices, warnings, later = _choose(ask, ranked)
    if len(choices) == demand.count:
        return Placement(choices=choices, scored=scored, refusals=tuple(refusals), warnings=warnings)
    refusals += later
    return Placement(
        choices=choices,
        scored=scored,
        refusals=tuple(refusals),
        warnings=warnings,
        code=code_of(refusals),
        sentence=_sentence(demand, len(choices), refusals),
    )


class _Ranked(NamedTuple):
    """Compared from left to right: apart from its group, soon ready, much room; then by name, so that nothing is left
    to chance. Names may repeat, ids do not, so the rest is never compared."""

    shares_group: bool
    total_s: float
    less_room: int
    name: str
    node_id: NodeId
    room: Room
    scored: Scored


def _rank(ask: Ask, room: Room) -> _Ranked:
    node = room.node
    cost = terms(ask, room)
    shares_group = node.id in ask.shares_group
    free = room.vram if uses_gpu(room, ask.need(room)) else room.ram
    scored = Scored(node.id, node.name, cost, shares_group)
    return _Ranked(shares_group, cost.total_s, -(free or 0), node.name, node.id, room, scored)


def _choose(ask: Ask, ranked: Sequence[_Ranked]) -> tuple[tuple[Choice, ...], tuple[str, ...], list[Refusal]]:
    """The best node, again and again; after each choice that node is looked at anew."""
    heap = list(ranked)  # Sorted, and so a heap already.
    choices: list[Choice] = []
    warnings: list[str] = []
    later: list[Refusal] = []
    while heap and len(choices) < ask.demand.count:
        best = heap[0]
        warning = None if ask.demand.is_disk_enforced else check_disk(ask, best.room)
        if warning is not None and warning not in warnings:
            warnings.append(warning)
        choice, left = take(ask, best.room, best.scored.terms)
        choices.append(choice)
        refusal = check(ask, left)
        if refusal is None:
            heapq.heapreplace(heap, _rank(ask, left))
        else:
            heapq.heappop(heap)
            later.append(refusal)
    return tuple(choices), tuple(warnings), later


def take(ask: Ask, room: Room, cost: Terms) -> tuple[Choice, Room]:
    """One replica, and what it leaves of the node."""
    need, missing, threads = ask.need(room), ask.missing(room), ask.threads(room)
    taken = ask.taken(room.node.id)
    choice = Choice(
        node_id=room.node.id,
        node=room.node.name,
        index=taken.next_index(),
        threads=threads,
        need=need,
        missing_bytes=missing,
        terms=cost,
    )
    taken.indexes.add(choice.index)
    taken.standing += 1
    ask.has_copy_now(room)
    left = room._replace(
        vram=None if room.vram is None else room.vram - (need.vram_bytes or 0),
        ram=None if room.ram is None else room.ram - ram_need(room, need),
        threads=None if room.threads is None else room.threads - threads,
        disk=None if room.disk is None else room.disk - (missing or 0),
        loads=room.loads + 1,
    )
    return choice, left


def code_of(refusals: Iterable[Refusal]) -> str:
    """By the node that came furthest: it is the one that an operator can do something about."""
    furthest = max((refusal.filter for refusal in refusals), key=_ORDER.__getitem__, default=Filter.EXCLUDED)
    return _CODES.get(furthest, "no_eligible_nodes")


def reasons(refusals: Iterable[Refusal], shown: int = SENTENCES_SHOWN) -> str:
    """The sentences of those that came furthest, and how many more there are."""
    ordered = sorted(refusals, key=lambda refusal: (-_ORDER[refusal.filter], refusal.node, refusal.node_id))
    texts = [refusal.sentence for refusal in ordered[:shown]]
    if len(ordered) > shown:
        texts.append(f"And {len(ordered) - shown} more.")
    return " ".join(texts)


def _sentence(demand: Demand, placed: int, refusals: Sequence[Refusal]) -> str:
    if not refusals:
        return f"There is no node for {demand.model}."
    some = f"{placed} of {demand.count} replicas of {demand.model} have a place" if placed else ""
    return f"{some or f'{demand.model} fits on no node'}. {reasons(refusals)}"
