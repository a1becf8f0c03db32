"""The fleet as decisions see it: nodes, replicas, rules and copies of files, read at one moment and indexed once.

Building it takes one look at each row; asking it afterwards takes one look at each thing that is asked about. It is a
value: nothing here changes with time, and what a decision takes of a node is written down by that decision alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from corral.domain.node import Node, NodeId, NodeType
from corral.domain.replica import Replica, ReplicaState, Rule
from corral.policy.catalog import capability_of
from corral.policy.labels import matches
from corral.policy.placing.fit import vram_left
from corral.policy.status import is_schedulable

_COMING = (ReplicaState.STAGING, ReplicaState.LOADING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """What decisions about other models have to know of a model."""

    name: str
    # The present one; empty: every replica of it counts as current.
    run_hash: str = ""
    groups: frozenset[str] = frozenset()
    is_pinned: bool = False


class Copy(NamedTuple):
    """So many bytes of a content lie on a node's disk."""

    node_id: NodeId
    sha256: str
    size_bytes: int


class Room(NamedTuple):
    """What a node has left. None is unknown. Below zero: more is promised than there is, and that much is missing."""

    node: Node
    is_candidate: bool
    # Under the budget, less what running loads have reserved.
    vram: int | None
    ram: int | None
    # Beyond what was handed out.
    threads: int | None
    disk: int | None
    has_gpu: bool
    # One memory for the processor and the card.
    is_unified: bool
    in_flight: int
    # Loads in progress, and models that sit here.
    loads: int
    loaded: int


class Matching(NamedTuple):
    """The candidates of one selector."""

    rooms: tuple[Room, ...]
    ids: frozenset[NodeId]
    # Of any one model, all taken together.
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Build it with `Fleet.of`. `rooms` are in the order of names, so that equal fleets give equal decisions."""

    rooms: Mapping[NodeId, Room]
    by_node: Mapping[NodeId, Sequence[Replica]]
    # The same rows again, and so not shown twice.
    by_model: Mapping[str, Sequence[Replica]] = field(repr=False)
    models: Mapping[str, ModelView]
    by_group: Mapping[str, Sequence[str]]
    rules: Mapping[str, Rule]
    # content -> node -> bytes
    copies: Mapping[str, Mapping[NodeId, int]]
    # Selectors that were asked for: rules share them, and a pass over a thousand models asks for few.
    _matching: dict[tuple[tuple[str, str], ...], Matching] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        nodes: Iterable[Node],
        replicas: Iterable[Replica] = (),
        *,
        models: Iterable[ModelView] = (),
        rules: Iterable[Rule] = (),
        copies: Iterable[Copy] = (),
    ) -> Fleet:
        """`copies` need only be those of the files that are asked about."""
        by_node: defaultdict[NodeId, list[Replica]] = defaultdict(list)
        by_model: defaultdict[str, list[Replica]] = defaultdict(list)
        for replica in replicas:
            by_node[replica.node_id].append(replica)
            by_model[replica.model].append(replica)
        by_content: defaultdict[str, dict[NodeId, int]] = defaultdict(dict)
        for node_id, sha256, size_bytes in copies:
            by_content[sha256][node_id] = size_bytes
        by_name = {model.name: model for model in models}
        by_group: defaultdict[str, list[str]] = defaultdict(list)
        for model in by_name.values():
            for group in model.groups:
                by_group[group].append(model.name)
        ordered = sorted(nodes, key=lambda node: (node.name, node.id))
        return cls(
            rooms={node.id: _room(node, by_node.get(node.id, ())) for node in ordered},
            by_node=dict(by_node),
            by_model=dict(by_model),
            models=by_name,
            by_group=dict(by_group),
            rules={rule.model: rule for rule in rules},
            copies=dict(by_content),
        )

    def candidates(self, selector: Mapping[str, str]) -> tuple[Room, ...]:
        """The nodes that may be given work and match: healthy, able to run engines, with every label."""
        return self.matching(selector).rooms

    def matching(self, selector: Mapping[str, str]) -> Matching:
        key = tuple(sorted(selector.items()))
        found = self._matching.get(key)
        if found is None:
            rooms = tuple(
                room
                for room in self.rooms.values()
                if room.is_candidate and (not selector or matches(selector, room.node.label_map))
            )
            ids = frozenset(room.node.id for room in rooms)
            found = self._matching[key] = Matching(rooms, ids, sum(room.node.slots for room in rooms))
        return found

    def capabilities(self) -> frozenset[str]:
        """What the fleet can run now. A node that may get no work advertises nothing."""
        return frozenset(capability_of(room.node.hardware) for room in self.candidates({}))

    def is_current(self, replica: Replica) -> bool:
        """Whether it was loaded as the model is now; a model that nobody told about has only current ones."""
        model = self.models.get(replica.model)
        return model is None or not model.run_hash or replica.revision == model.run_hash

    def standing(self, model: str) -> list[Replica]:
        """The current replicas that take a slot: loaded, or on the way."""
        rows = self.by_model.get(model, ())
        return [row for row in rows if row.state is not ReplicaState.UNLOADING and self.is_current(row)]

    def capacity(self, model: str, selector: Mapping[str, str]) -> int:
        """How many more replicas of the model the candidates have slots for."""
        found = self.matching(selector)
        taken = Counter(row.node_id for row in self.standing(model) if row.node_id in found.ids)
        # A node that had more slots once may hold more than it has now: that takes none from the others.
        return found.slots - sum(min(count, self.rooms[node_id].node.slots) for node_id, count in taken.items())

    def takes(self, replica: Replica) -> tuple[int, int]:
        """VRAM and RAM that go free when it ends: what was seen, or set aside. Unknown is 0: nobody counts on it."""
        return replica.vram_bytes or 0, replica.ram_bytes or 0


def _room(node: Node, replicas: Sequence[Replica]) -> Room:
    hardware = node.hardware
    in_flight = loads = loaded = 0
    for replica in replicas:
        in_flight += replica.in_flight
        if replica.state in _COMING:
            loads += 1
        elif replica.state is ReplicaState.LOADED:
            loaded += 1
    ram = hardware.available_ram
    is_unified = bool(hardware.unified_memory)
    if ram is not None:
        ram -= node.reserved_ram + (node.reserved_vram if is_unified else 0)
    # A disk of 0 bytes is no reading of a disk: its size is unknown.
    disk = hardware.available_disk if hardware.total_disk else None
    return Room(
        node=node,
        is_candidate=node.type is NodeType.BACKEND and is_schedulable(node),
        vram=_vram(node, replicas),
        ram=ram,
        threads=None if hardware.cpu_threads is None else hardware.cpu_threads - node.held_threads,
        disk=None if disk is None else disk - node.reserved_disk,
        has_gpu=bool(hardware.total_vram),
        is_unified=is_unified,
        in_flight=in_flight,
        loads=loads,
        loaded=loaded,
    )


def _vram(node: Node, replicas: Sequence[Replica]) -> int | None:
    """Loads in progress count by what they have reserved, not by their rows."""
    if not node.budget:
        return vram_left(node)
    return vram_left(node, sum(row.vram_bytes or 0 for row in replicas if row.state not in _COMING))
