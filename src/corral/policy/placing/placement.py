"""Places replicas of a model: filters with a sentence each, then the node that has it ready first.

Guarantees: a choice never takes more of a node than is left of it, several choices of one placement taken together.
Nothing is chosen outside of the demand; no candidates is an answer with reasons, never "any". The same fleet and the
same demand give the same answer. Models that share a group are kept apart as long as another node fits.

The cost of a node is in one currency: expected seconds until the model is ready there, and seconds of regret. The terms
are kept, so that a plan can show them. The numbers are orders of magnitude of ordinary machines: they decide only where
nothing was measured, and being wrong by half moves no model that moving 10 GiB would not.

Limit: it decides on what was read. The caller locks the nodes and decides again (`loading/placer.py`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from corral.domain.model import Need
from corral.domain.node import NodeId
from corral.policy.placing.filters import (
    NodeRefusal,
    PlacementContext,
    PlacementFilter,
    compute_ram_need,
    find_disk_refusal,
    find_refusal,
    uses_gpu,
)
from corral.policy.placing.fleet import NodeRoom, PlacementDemand, PlacementFleet

SENTENCES_SHOWN = 5
# The error code for the refusal that came furthest.
_CODES = {
    PlacementFilter.SLOT: "no_free_slot",
    PlacementFilter.SPREAD: "no_free_slot",
    PlacementFilter.VRAM: "no_room",
    PlacementFilter.RAM: "no_room",
    PlacementFilter.DISK: "insufficient_disk",
}
_ORDER = {name: place for place, name in enumerate(PlacementFilter)}

# A gigabit network, less its overhead.
BANDWIDTH_BYTES_S = 100e6
# From a current disk into memory.
LOAD_BYTES_S = 1e9
LOAD_BASE_S = 1.0
LOAD_UNKNOWN_S = 10.0
# An engine that is not installed yet, beside its bytes: unpacking, the first start.
INSTALL_S = 15.0
INSTALL_UNKNOWN_BYTES = 500e6
# Another load on the node shares disk and network with this one.
LOAD_BESIDE_S = 10.0
# Regret: a request that is slowed down, a model that shares the machine, a replica that falls with the same machine.
IN_FLIGHT_S = 1.0
NEIGHBOUR_S = 0.5
SAME_MODEL_S = 5.0
# All CPU threads are allotted: replicas that work at the same time share them.
NO_THREADS_S = 5.0


class CostTerms(NamedTuple):
    """Holds the expected seconds that a placement costs, by cause. The first four pass before the model is ready."""

    fetch_s: float
    install_s: float
    load_s: float
    evict_s: float
    queue_s: float
    busy_s: float
    crowd_s: float

    @property
    def ready_s(self) -> float:
        return self.fetch_s + self.install_s + self.load_s + self.queue_s

    @property
    def total_s(self) -> float:
        return sum(self)


_NOTHING = CostTerms(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def compute_terms(context: PlacementContext, room: NodeRoom, evict_s: float = 0.0) -> CostTerms:
    demand, node_id = context.demand, room.node.id
    if node_id in demand.returning and not context.has_replica(node_id):
        return _NOTHING
    bandwidth = demand.bandwidths.get(node_id) or BANDWIDTH_BYTES_S
    engine = None if demand.engines is None else demand.engines.get(node_id)
    install_s = 0.0
    if engine is not None and not engine.is_installed:
        size = INSTALL_UNKNOWN_BYTES if engine.fetch_bytes is None else engine.fetch_bytes
        install_s = INSTALL_S + size / bandwidth
    shares_threads = room.threads is not None and room.threads < 1 and not uses_gpu(room, context.get_need(room))
    own = context.get_used_indexes(node_id).slots_taken if context.has_replica(node_id) else 0
    return CostTerms(
        fetch_s=(context.count_missing_bytes(room) or 0) / bandwidth,
        install_s=install_s,
        load_s=estimate_load_s(context.get_payload(room)) if demand.load_s is None else demand.load_s,
        evict_s=evict_s,
        queue_s=room.loads * LOAD_BESIDE_S,
        busy_s=room.in_flight * IN_FLIGHT_S,
        crowd_s=room.loaded * NEIGHBOUR_S + own * SAME_MODEL_S + (NO_THREADS_S if shares_threads else 0.0),
    )


def estimate_load_s(payload_bytes: int | None) -> float:
    """Estimate the seconds from files on the disk to an engine that answers."""
    return LOAD_UNKNOWN_S if payload_bytes is None else LOAD_BASE_S + payload_bytes / LOAD_BYTES_S


class ScoredNode(NamedTuple):
    """Holds a node that fits, and what a replica would cost there."""

    node_id: NodeId
    node: str
    terms: CostTerms
    # Another model of one of its groups is there: taken only where no other node fits.
    shares_group: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementChoice:
    """Describes one replica on one node: index, threads, memory, missing bytes and cost."""

    node_id: NodeId
    node: str
    index: int
    threads: int
    need: Need
    # Bytes to be reserved on the disk; None is unknown.
    missing_bytes: int | None
    terms: CostTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementResult:
    """Holds the chosen, scored and refused nodes of one demand; `code` and `sentence` say what has no place."""

    choices: tuple[PlacementChoice, ...]
    # All nodes that fit, best first, as they were before the first choice.
    scored: tuple[ScoredNode, ...]
    refusals: tuple[NodeRefusal, ...]
    warnings: tuple[str, ...] = ()
    code: str = ""
    sentence: str = ""


def place_replicas(fleet: PlacementFleet, demand: PlacementDemand) -> PlacementResult:
    """Return up to `demand.count` choices; fewer come with a code and a sentence."""
    ask = PlacementContext(fleet, demand)
    refusals: list[NodeRefusal] = []
    ranked: list[_RankedNode] = []
    for room in fleet.rooms.values():
        refusal = find_refusal(ask, room)
        if refusal is None:
            ranked.append(_rank_node(ask, room))
        else:
            refusals.append(refusal)
    ranked.sort()
    scored = tuple(one.scored for one in ranked)
    choices, warnings, later = _choose(ask, ranked)
    if len(choices) == demand.count:
        return PlacementResult(choices=choices, scored=scored, refusals=tuple(refusals), warnings=warnings)
    refusals += later
    return PlacementResult(
        choices=choices,
        scored=scored,
        refusals=tuple(refusals),
        warnings=warnings,
        code=pick_code(refusals),
        sentence=_describe_result(demand, len(choices), refusals),
    )


class _RankedNode(NamedTuple):
    """Orders nodes that fit: apart from their group, soon ready, much room, then by name."""

    shares_group: bool
    total_s: float
    less_room: int
    name: str
    node_id: NodeId
    room: NodeRoom
    scored: ScoredNode


def _rank_node(context: PlacementContext, room: NodeRoom) -> _RankedNode:
    node = room.node
    cost = compute_terms(context, room)
    shares_group = node.id in context.shares_group
    free = room.vram if uses_gpu(room, context.get_need(room)) else room.ram
    scored = ScoredNode(node.id, node.name, cost, shares_group)
    return _RankedNode(shares_group, cost.total_s, -(free or 0), node.name, node.id, room, scored)


def _choose(
    context: PlacementContext, ranked: Sequence[_RankedNode]
) -> tuple[tuple[PlacementChoice, ...], tuple[str, ...], list[NodeRefusal]]:
    """Choose the best node repeatedly; after each choice that node is looked at anew."""
    heap = list(ranked)  # The list is sorted, and so a heap already.
    choices: list[PlacementChoice] = []
    warnings: list[str] = []
    later: list[NodeRefusal] = []
    while heap and len(choices) < context.demand.count:
        best = heap[0]
        warning = None if context.demand.is_disk_enforced else find_disk_refusal(context, best.room)
        if warning is not None and warning not in warnings:
            warnings.append(warning)
        choice, left = take_room(context, best.room, best.scored.terms)
        choices.append(choice)
        refusal = find_refusal(context, left)
        if refusal is None:
            heapq.heapreplace(heap, _rank_node(context, left))
        else:
            heapq.heappop(heap)
            later.append(refusal)
    return tuple(choices), tuple(warnings), later


def take_room(context: PlacementContext, room: NodeRoom, cost: CostTerms) -> tuple[PlacementChoice, NodeRoom]:
    """Return one replica on the node, and the room that it leaves."""
    need, missing, threads = context.get_need(room), context.count_missing_bytes(room), context.compute_threads(room)
    taken = context.get_used_indexes(room.node.id)
    choice = PlacementChoice(
        node_id=room.node.id,
        node=room.node.name,
        index=taken.find_next_index(),
        threads=threads,
        need=need,
        missing_bytes=missing,
        terms=cost,
    )
    taken.indexes.add(choice.index)
    taken.slots_taken += 1
    context.mark_copied(room)
    left = room._replace(
        vram=None if room.vram is None else room.vram - (need.vram_bytes or 0),
        ram=None if room.ram is None else room.ram - compute_ram_need(room, need),
        threads=None if room.threads is None else room.threads - threads,
        disk=None if room.disk is None else room.disk - (missing or 0),
        loads=room.loads + 1,
    )
    return choice, left


def pick_code(refusals: Iterable[NodeRefusal]) -> str:
    """Return the code of the node that came furthest: an operator can do something about that one."""
    furthest = max((refusal.filter for refusal in refusals), key=_ORDER.__getitem__, default=PlacementFilter.EXCLUDED)
    return _CODES.get(furthest, "no_eligible_nodes")


def format_reasons(refusals: Iterable[NodeRefusal], shown: int = SENTENCES_SHOWN) -> str:
    """Return the sentences of the nodes that came furthest, and how many more there are."""
    ordered = sorted(refusals, key=lambda refusal: (-_ORDER[refusal.filter], refusal.node, refusal.node_id))
    texts = [refusal.sentence for refusal in ordered[:shown]]
    if len(ordered) > shown:
        texts.append(f"And {len(ordered) - shown} more.")
    return " ".join(texts)


def _describe_result(demand: PlacementDemand, placed: int, refusals: Sequence[NodeRefusal]) -> str:
    if not refusals:
        return f"There is no node for {demand.model}."
    some = f"{placed} of {demand.count} replicas of {demand.model} have a place" if placed else ""
    return f"{some or f'{demand.model} fits on no node'}. {format_reasons(refusals)}"
