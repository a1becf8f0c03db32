"""Filters nodes for one more replica, in a fixed order; the first refusal is a sentence with the numbers.

    excluded, not_schedulable, agent, selector, capability     which nodes are eligible at all
    slot, spread                                               how many replicas of this model a node may have
    vram, ram                                                  what an eviction of other models could mend
    disk                                                       what it could not

Unknown needs exclude nobody. Unknown RAM and disk exclude nobody either, because every machine has them; unknown
VRAM is no VRAM. CPU threads exclude nobody: a loaded model uses none of them until it gets a request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
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
    """Names the filters that decide whether a node may take a replica, in their order."""

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
    """Says which filter refused a node, in a sentence."""

    node_id: NodeId
    node: str
    filter: PlacementFilter
    sentence: str


@dataclass(slots=True)
class UsedIndexes:
    """Holds the replica indexes of a model that are in use on one node, and how many of them take a slot.

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
    """Looks up what filters and scores need about a demand on each node, gathered once for one decision."""

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
    """Whether a replica uses the GPU. A need of 0 VRAM is known: it runs on the CPU."""
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
