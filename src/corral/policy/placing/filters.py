"""May this node take one more replica? The questions in order; the first *no* is a sentence with the numbers.

    excluded, not_schedulable, agent, selector, capability     who may be asked at all
    slot, spread                                               how many of this model it may have
    vram, ram                                                  what ending other models could mend
    disk                                                       what it could not

Unknown needs exclude nobody. Unknown RAM and disk exclude nobody either, because every machine has them; unknown VRAM
is no VRAM. Processor threads exclude nobody: a loaded model uses none of them until it is asked something.
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
from corral.policy.catalog import capability_of
from corral.policy.placing.demand import Demand
from corral.policy.placing.fit import disk_need
from corral.policy.placing.fleet import Fleet, Room
from corral.policy.placing.sizes import in_words, side_by_side
from corral.policy.status import is_schedulable, reason_of


class Filter(StrEnum):
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


class Refusal(NamedTuple):
    """Why a node does not get it."""

    node_id: NodeId
    node: str
    filter: Filter
    sentence: str


@dataclass(slots=True)
class Taken:
    """The indexes of the model on one node, and how many of them take a slot.

    An engine that is being stopped keeps its index and takes no slot.
    """

    indexes: set[int]
    standing: int = 0

    def next_index(self) -> int:
        index = 0
        while index in self.indexes:
            index += 1
        return index


class Ask:
    """A demand laid over a fleet: what is looked up for every node, gathered once. Lives for one decision."""

    def __init__(self, fleet: Fleet, demand: Demand) -> None:
        self.fleet = fleet
        self.demand = demand
        self._needs: dict[NodeId, Need] = {}
        self._taken: dict[NodeId, Taken] = {}
        for row in fleet.by_model.get(demand.model, ()):
            taken = self.taken(row.node_id)
            taken.indexes.add(row.index)
            is_old = bool(demand.run_hash) and row.revision != demand.run_hash
            taken.standing += row.state is not ReplicaState.UNLOADING and not is_old
        self.shares_group = _nodes_of_rivals(fleet, demand)
        self.files = _distinct(demand.files)
        self.payload_bytes = None if self.files is None else sum(self.files.values())
        self._staged: defaultdict[NodeId, int] = defaultdict(int)
        for sha256, size_bytes in (self.files or {}).items():
            for node_id, present in fleet.copies.get(sha256, {}).items():
                self._staged[node_id] += min(present, size_bytes)

    def need(self, room: Room) -> Need:
        if isinstance(self.demand.need, Need):
            return self.demand.need
        known = self._needs.get(room.node.id)
        if known is None:
            known = self._needs[room.node.id] = self.demand.need(room.node)
        return known

    def taken(self, node_id: NodeId) -> Taken:
        found = self._taken.get(node_id)
        if found is None:
            found = self._taken[node_id] = Taken(indexes=set())
        return found

    def is_taken(self, node_id: NodeId) -> bool:
        found = self._taken.get(node_id)
        return found is not None and found.standing > 0

    def payload(self, room: Room) -> int | None:
        return self.need(room).payload_bytes if self.payload_bytes is None else self.payload_bytes

    def missing(self, room: Room) -> int | None:
        """Bytes that the node has yet to fetch; None is unknown."""
        if self.demand.has_shared_models:
            return 0
        payload = self.payload(room)
        return None if payload is None else max(0, payload - self._staged.get(room.node.id, 0))

    def has_copy_now(self, room: Room) -> None:
        """A replica was given to the node: its files will be there for the next one."""
        self._staged[room.node.id] = self.payload(room) or 0

    def threads(self, room: Room) -> int:
        """Return how many threads a replica gets there: as many as asked for, or half of the free ones.

        Never more than are free, except that a replica on the processor always gets one.
        """
        need, free = self.need(room), room.threads
        if free is None:
            return self.demand.threads or max(1, need.threads)
        count = self.demand.threads
        if count is None:
            count = max(1, need.threads, free // 2)
        return max(0 if uses_gpu(room, need) else 1, min(count, free))


def uses_gpu(room: Room, need: Need) -> bool:
    """A need of 0 VRAM is known: it runs on the processor."""
    return room.has_gpu and need.vram_bytes != 0


def ram_need(room: Room, need: Need) -> int:
    """What is asked of the RAM: nothing beside a card of its own; both together where there is one memory."""
    if room.is_unified:
        return (need.vram_bytes or 0) + (need.ram_bytes or 0)
    return 0 if uses_gpu(room, need) else need.ram_bytes or 0


def check(ask: Ask, room: Room) -> Refusal | None:
    """The first filter that says no. A disk that does not bind (`is_disk_enforced`) is not asked here."""
    for name, question in _QUESTIONS:
        sentence = question(ask, room)
        if sentence is not None:
            return Refusal(room.node.id, room.node.name, name, sentence)
    return None


def check_disk(ask: Ask, room: Room) -> str | None:
    """Only the bytes that are missing are asked of the disk, and a margin for what else it has to hold."""
    if room.disk is None or ask.demand.has_shared_models:
        return None
    needed = disk_need(ask.missing(room))
    if max(0, room.disk) >= needed:
        return None
    free, asked = side_by_side(max(0, room.disk), needed)
    total = in_words(room.node.hardware.total_disk or 0)
    return f"{room.node.name} has {free} of its {total} disk free, {asked} are needed."


def _excluded(ask: Ask, room: Room) -> str | None:
    demand, node = ask.demand, room.node
    if demand.only is not None and node.id not in demand.only:
        return f"{node.name} was not asked for."
    if node.id in demand.excluded:
        return demand.excluded[node.id] or f"{node.name} is left out."
    return None


def _not_schedulable(_ask: Ask, room: Room) -> str | None:
    if room.is_candidate or is_schedulable(room.node):
        return None
    reason = reason_of(room.node)
    return f"{room.node.name} takes no work: {reason[:1].lower()}{reason[1:]}."


def _agent(_ask: Ask, room: Room) -> str | None:
    if room.is_candidate or room.node.type is not NodeType.AGENT:
        return None
    return f"{room.node.name} is an agent node and runs no engines."


def _selector(ask: Ask, room: Room) -> str | None:
    if not ask.demand.selector:
        return None
    labels = room.node.label_map
    for key, value in ask.demand.selector.items():
        if labels.get(key) != value:
            has = f"{key}={labels[key]}" if key in labels else f"no label {key}"
            return f"{room.node.name} has {has}, {key}={value} is asked for."
    return None


def _capability(ask: Ask, room: Room) -> str | None:
    engines = ask.demand.engines
    if engines is None or room.node.id in engines:
        return None
    return (
        f"{room.node.name} has no build of {ask.demand.backend or 'the backend'}: "
        f"there is none for {capability_of(room.node.hardware)}."
    )


def _slot(ask: Ask, room: Room) -> str | None:
    slots = room.node.slots
    standing = ask.taken(room.node.id).standing if ask.is_taken(room.node.id) else 0
    if standing < slots:
        return None
    return f"{room.node.name} has {standing} of {slots} replica slots of {ask.demand.model} in use."


def _spread(ask: Ask, room: Room) -> str | None:
    if not ask.demand.spreads or not ask.is_taken(room.node.id):
        return None
    return f"{room.node.name} has a replica of {ask.demand.model} already, and each node gets one."


def _vram(ask: Ask, room: Room) -> str | None:
    needed = ask.need(room).vram_bytes
    if not needed or (room.vram is not None and room.vram >= needed):
        return None
    if room.vram is None:
        return f"{room.node.name} reports no VRAM, {in_words(needed)} are needed."
    free, asked = side_by_side(max(0, room.vram), needed)
    return f"{room.node.name} has {free} of VRAM free, {asked} are needed."


def _ram(ask: Ask, room: Room) -> str | None:
    needed = ram_need(room, ask.need(room))
    if not needed or room.ram is None or room.ram >= needed:
        return None
    free, asked = side_by_side(max(0, room.ram), needed)
    return f"{room.node.name} has {free} of RAM free, {asked} are needed."


def _disk(ask: Ask, room: Room) -> str | None:
    return check_disk(ask, room) if ask.demand.is_disk_enforced else None


_Question = Callable[[Ask, Room], str | None]
_QUESTIONS: tuple[tuple[Filter, _Question], ...] = (
    (Filter.EXCLUDED, _excluded),
    (Filter.NOT_SCHEDULABLE, _not_schedulable),
    (Filter.AGENT, _agent),
    (Filter.SELECTOR, _selector),
    (Filter.CAPABILITY, _capability),
    (Filter.SLOT, _slot),
    (Filter.SPREAD, _spread),
    (Filter.VRAM, _vram),
    (Filter.RAM, _ram),
    (Filter.DISK, _disk),
)
# What may come free by ending other models.
MENDABLE = frozenset({Filter.VRAM, Filter.RAM})


def _nodes_of_rivals(fleet: Fleet, demand: Demand) -> frozenset[NodeId]:
    """Nodes that have another model of one of its groups."""
    own = fleet.models.get(demand.model)
    groups = demand.groups or (own.groups if own is not None else frozenset())
    rivals = {name for group in groups for name in fleet.by_group.get(group, ())} - {demand.model}
    return frozenset(
        row.node_id
        for name in rivals
        for row in fleet.by_model.get(name, ())
        if row.state is not ReplicaState.UNLOADING
    )


def _distinct(files: tuple[StoredFile, ...] | None) -> dict[str, int] | None:
    """Files of the same content are fetched once."""
    return None if files is None else {file.sha256: file.size_bytes for file in files}
