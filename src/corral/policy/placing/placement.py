"""Places replicas of a model: filters with a sentence each, then the node that has it ready first.

Filters run in a fixed order; the first refusal is a sentence with the numbers.

    excluded, not_schedulable, agent, selector, capability     which nodes are eligible at all
    slot, spread                                               how many replicas of this model a node may have
    vram, ram                                                  what an eviction of other models could mend
    disk                                                       what it could not

Unknown needs exclude no node. Unknown RAM and disk exclude none either, because every machine has them; unknown
VRAM is no VRAM. CPU threads exclude no node: a loaded model uses none of them until it gets a request.

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
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from corral.domain.model import Need, StoredFile
from corral.domain.node import NodeId, NodeType
from corral.domain.replica import ReplicaState
from corral.policy.catalog import find_capability
from corral.policy.placing.fleet import NodeRoom, PlacementDemand, PlacementFleet, compute_disk_need
from corral.policy.status import describe_status, is_schedulable

_GIB = 1024**3
_MIB = 1024**2
_DIGITS_MAX = 6


def format_size(size_bytes: int, digits: int = 1) -> str:
    """Format a size as `5.2 GiB`; below a tenth of one, `37.5 MiB`."""
    if size_bytes and size_bytes < _GIB / 10:
        return f"{size_bytes / _MIB:.{digits}f} MiB"
    return f"{size_bytes / _GIB:.{digits}f} GiB"


def format_size_pair(one: int, other: int) -> tuple[str, str]:
    """Format two sizes so that different ones never read the same."""
    for digits in range(1, _DIGITS_MAX):
        texts = format_size(one, digits), format_size(other, digits)
        if texts[0] != texts[1] or one == other:
            return texts
    return f"{one:,} bytes", f"{other:,} bytes"


class PlacementFilter(StrEnum):
    """Names the filters that decide whether a node may take a model's replica, in their order."""

    EXCLUDED = "excluded"
    NOT_SCHEDULABLE = "not_schedulable"
    AGENT = "agent"
    SELECTOR = "selector"
    CAPABILITY = "capability"
    SLOT = "slot"
    SPREAD = "spread"
    VRAM = "vram"
    RAM = "ram"
    DISK = "disk"


class NodeRefusal(NamedTuple):
    """Says which filter of placement refused a node for a model's replica, with a sentence for people."""

    node_id: NodeId
    node: str
    filter: PlacementFilter
    sentence: str


@dataclass(slots=True)
class UsedIndexes:
    """Holds the numbers of a model's replicas that are in use on one node, and how many of them take a slot.

    An engine that is being stopped keeps its index and takes no slot.
    """

    indexes: set[int]
    slots_taken: int = 0

    def find_next_index(self) -> int:
        index = 0
        while index in self.indexes:
            index += 1
        return index


class PlacementContext:
    """Looks up what placing a model needs to know about each node, gathered once for one decision."""

    def __init__(self, fleet: PlacementFleet, demand: PlacementDemand) -> None:
        self.fleet = fleet
        self.demand = demand
        self._needs: dict[NodeId, Need] = {}
        self._used_indexes: dict[NodeId, UsedIndexes] = {}
        for row in fleet.by_model.get(demand.model, ()):
            taken = self.get_used_indexes(row.node_id)
            taken.indexes.add(row.index)
            is_old = bool(demand.run_hash) and row.revision != demand.run_hash
            taken.slots_taken += row.state is not ReplicaState.UNLOADING and not is_old
        self.shares_group = _list_nodes_of_group(fleet, demand)
        self.files = _sum_distinct(demand.files)
        self.payload_bytes = None if self.files is None else sum(self.files.values())
        self._staged_bytes: defaultdict[NodeId, int] = defaultdict(int)
        for sha256, size_bytes in (self.files or {}).items():
            for node_id, present in fleet.copies.get(sha256, {}).items():
                self._staged_bytes[node_id] += min(present, size_bytes)

    def get_need(self, room: NodeRoom) -> Need:
        if isinstance(self.demand.need, Need):
            return self.demand.need
        known = self._needs.get(room.node.id)
        if known is None:
            known = self._needs[room.node.id] = self.demand.need(room.node)
        return known

    def get_used_indexes(self, node_id: NodeId) -> UsedIndexes:
        found = self._used_indexes.get(node_id)
        if found is None:
            found = self._used_indexes[node_id] = UsedIndexes(indexes=set())
        return found

    def has_replica(self, node_id: NodeId) -> bool:
        found = self._used_indexes.get(node_id)
        return found is not None and found.slots_taken > 0

    def get_payload(self, room: NodeRoom) -> int | None:
        return self.get_need(room).payload_bytes if self.payload_bytes is None else self.payload_bytes

    def count_missing_bytes(self, room: NodeRoom) -> int | None:
        """Return the bytes that the node has yet to fetch; None is unknown."""
        if self.demand.has_shared_models:
            return 0
        payload = self.get_payload(room)
        return None if payload is None else max(0, payload - self._staged_bytes.get(room.node.id, 0))

    def mark_copied(self, room: NodeRoom) -> None:
        """Record that a replica was placed on the node: its files will be there for the next one."""
        self._staged_bytes[room.node.id] = self.get_payload(room) or 0

    def compute_threads(self, room: NodeRoom) -> int:
        """Return how many threads a replica gets there: the requested number, or half of the free ones.

        Never more than are free, except that a replica on the CPU always gets one.
        """
        need, free = self.get_need(room), room.threads
        if free is None:
            return self.demand.threads or max(1, need.threads)
        count = self.demand.threads
        if count is None:
            count = max(1, need.threads, free // 2)
        return max(0 if uses_gpu(room, need) else 1, min(count, free))


def uses_gpu(room: NodeRoom, need: Need) -> bool:
    """Return whether a replica uses the GPU. A need of 0 VRAM is known: it runs on the CPU."""
    return room.has_gpu and need.vram_bytes != 0


def compute_ram_need(room: NodeRoom, need: Need) -> int:
    """Return the RAM that a replica needs: none beside a card of its own; both together where memory is unified."""
    if room.is_unified:
        return (need.vram_bytes or 0) + (need.ram_bytes or 0)
    return 0 if uses_gpu(room, need) else need.ram_bytes or 0


def find_refusal(context: PlacementContext, room: NodeRoom) -> NodeRefusal | None:
    """Return the refusal of the first filter. A disk that is not enforced (`is_disk_enforced`) is not checked here."""
    for name, question in _QUESTIONS:
        sentence = question(context, room)
        if sentence is not None:
            return NodeRefusal(room.node.id, room.node.name, name, sentence)
    return None


def find_disk_refusal(context: PlacementContext, room: NodeRoom) -> str | None:
    """Return the refusal of the disk: only missing bytes count, and a margin for what else it has to hold."""
    if room.disk is None or context.demand.has_shared_models:
        return None
    needed = compute_disk_need(context.count_missing_bytes(room))
    if max(0, room.disk) >= needed:
        return None
    free, required = format_size_pair(max(0, room.disk), needed)
    total = format_size(room.node.hardware.total_disk or 0)
    return f"{room.node.name} has {free} of its {total} disk free, {required} are needed."


def _refuse_excluded(context: PlacementContext, room: NodeRoom) -> str | None:
    demand, node = context.demand, room.node
    if demand.only is not None and node.id not in demand.only:
        return f"{node.name} is not among the requested nodes."
    if node.id in demand.excluded:
        return demand.excluded[node.id] or f"{node.name} is left out."
    return None


def _refuse_not_schedulable(_context: PlacementContext, room: NodeRoom) -> str | None:
    if room.is_candidate or is_schedulable(room.node):
        return None
    reason = describe_status(room.node)
    return f"{room.node.name} takes no work: {reason[:1].lower()}{reason[1:]}."


def _refuse_agent(_context: PlacementContext, room: NodeRoom) -> str | None:
    if room.is_candidate or room.node.type is not NodeType.AGENT:
        return None
    return f"{room.node.name} is an agent node and runs no engines."


def _refuse_selector(context: PlacementContext, room: NodeRoom) -> str | None:
    if not context.demand.selector:
        return None
    labels = room.node.label_map
    for key, value in context.demand.selector.items():
        if labels.get(key) != value:
            has = f"{key}={labels[key]}" if key in labels else f"no label {key}"
            return f"{room.node.name} has {has}, {key}={value} is required."
    return None


def _refuse_capability(context: PlacementContext, room: NodeRoom) -> str | None:
    engines = context.demand.engines
    if engines is None or room.node.id in engines:
        return None
    return (
        f"{room.node.name} has no build of {context.demand.backend or 'the backend'}: "
        f"there is none for {find_capability(room.node.hardware)}."
    )


def _refuse_slot(context: PlacementContext, room: NodeRoom) -> str | None:
    slots = room.node.slots
    replica_count = context.get_used_indexes(room.node.id).slots_taken if context.has_replica(room.node.id) else 0
    if replica_count < slots:
        return None
    return f"{room.node.name} has {replica_count} of {slots} replica slots of {context.demand.model} in use."


def _refuse_spread(context: PlacementContext, room: NodeRoom) -> str | None:
    if not context.demand.spreads or not context.has_replica(room.node.id):
        return None
    return f"{room.node.name} has a replica of {context.demand.model} already, and each node gets one."


def _refuse_vram(context: PlacementContext, room: NodeRoom) -> str | None:
    needed = context.get_need(room).vram_bytes
    if not needed or (room.vram is not None and room.vram >= needed):
        return None
    if room.vram is None:
        return f"{room.node.name} reports no VRAM, {format_size(needed)} are needed."
    free, required = format_size_pair(max(0, room.vram), needed)
    return f"{room.node.name} has {free} of VRAM free, {required} are needed."


def _refuse_ram(context: PlacementContext, room: NodeRoom) -> str | None:
    needed = compute_ram_need(room, context.get_need(room))
    if not needed or room.ram is None or room.ram >= needed:
        return None
    free, required = format_size_pair(max(0, room.ram), needed)
    return f"{room.node.name} has {free} of RAM free, {required} are needed."


def _refuse_disk(context: PlacementContext, room: NodeRoom) -> str | None:
    return find_disk_refusal(context, room) if context.demand.is_disk_enforced else None


_Question = Callable[[PlacementContext, NodeRoom], str | None]
_QUESTIONS: tuple[tuple[PlacementFilter, _Question], ...] = (
    (PlacementFilter.EXCLUDED, _refuse_excluded),
    (PlacementFilter.NOT_SCHEDULABLE, _refuse_not_schedulable),
    (PlacementFilter.AGENT, _refuse_agent),
    (PlacementFilter.SELECTOR, _refuse_selector),
    (PlacementFilter.CAPABILITY, _refuse_capability),
    (PlacementFilter.SLOT, _refuse_slot),
    (PlacementFilter.SPREAD, _refuse_spread),
    (PlacementFilter.VRAM, _refuse_vram),
    (PlacementFilter.RAM, _refuse_ram),
    (PlacementFilter.DISK, _refuse_disk),
)
# Refusals that an eviction of other models could mend.
MENDABLE = frozenset({PlacementFilter.VRAM, PlacementFilter.RAM})


def _list_nodes_of_group(fleet: PlacementFleet, demand: PlacementDemand) -> frozenset[NodeId]:
    """Return the nodes that have another model of one of the demand's groups."""
    own = fleet.models.get(demand.model)
    groups = demand.groups or (own.groups if own is not None else frozenset())
    rivals = {name for group in groups for name in fleet.by_group.get(group, ())} - {demand.model}
    return frozenset(
        row.node_id
        for name in rivals
        for row in fleet.by_model.get(name, ())
        if row.state is not ReplicaState.UNLOADING
    )


def _sum_distinct(files: tuple[StoredFile, ...] | None) -> dict[str, int] | None:
    """Sum the sizes by content: files of the same content are fetched once."""
    return None if files is None else {file.sha256: file.size_bytes for file in files}


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
    """Expected seconds that placing a replica on a node costs, by cause. The first four pass before it is ready."""

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


def compute_terms(context: PlacementContext, room: NodeRoom) -> CostTerms:
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
        evict_s=0.0,
        queue_s=room.loads * LOAD_BESIDE_S,
        busy_s=room.in_flight * IN_FLIGHT_S,
        crowd_s=room.loaded * NEIGHBOUR_S + own * SAME_MODEL_S + (NO_THREADS_S if shares_threads else 0.0),
    )


def estimate_load_s(payload_bytes: int | None) -> float:
    """Estimate the seconds from files on the disk to an engine that answers."""
    return LOAD_UNKNOWN_S if payload_bytes is None else LOAD_BASE_S + payload_bytes / LOAD_BYTES_S


class ScoredNode(NamedTuple):
    """A node on which a model's replica fits, with the cost in seconds of placing the replica there."""

    node_id: NodeId
    node: str
    terms: CostTerms
    # Another model of one of its groups is there: taken only where no other node fits.
    shares_group: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementChoice:
    """One replica that placement puts on one node: index, threads, memory, missing bytes and cost."""

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
    """Result of placing replicas of a model: chosen, scored and refused nodes.

    `code` and `sentence` say why some replicas have no node.
    """

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
    """Choose the best node repeatedly; after each choice that node is evaluated again."""
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


def format_reasons(refusals: Iterable[NodeRefusal]) -> str:
    """Return the sentences of the nodes that came furthest, and how many more there are."""
    ordered = sorted(refusals, key=lambda refusal: (-_ORDER[refusal.filter], refusal.node, refusal.node_id))
    texts = [refusal.sentence for refusal in ordered[:SENTENCES_SHOWN]]
    if len(ordered) > SENTENCES_SHOWN:
        texts.append(f"And {len(ordered) - SENTENCES_SHOWN} more.")
    return " ".join(texts)


def _describe_result(demand: PlacementDemand, placed: int, refusals: Sequence[NodeRefusal]) -> str:
    if not refusals:
        return f"There is no node for {demand.model}."
    some = f"{placed} of {demand.count} replicas of {demand.model} have a place" if placed else ""
    return f"{some or f'{demand.model} fits on no node'}. {format_reasons(refusals)}"
