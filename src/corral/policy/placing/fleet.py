"""The fleet as decisions see it: nodes, replicas, rules and copies of files, read at one moment and indexed once; what
a placement demands of it, and how much room a node has left.

Building the index takes one look at each row; a query afterwards takes one look at each item that it is about. The
fleet is a value: nothing here changes with time, and what a decision takes of a node is recorded by that decision
alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from corral.domain.model import Need, StoredFile
from corral.domain.node import Node, NodeId, NodeType
from corral.domain.replica import Replica, ReplicaState, Rule
from corral.policy.budget import parse_stored_budget
from corral.policy.labels import GIB, matches_labels
from corral.policy.status import is_schedulable

_COMING = (ReplicaState.STAGING, ReplicaState.LOADING)

# A disk needs room beyond the payload: logs, temporary files, the next download.
DISK_MARGIN_SHARE = 0.05
DISK_MARGIN_MIN_BYTES = GIB
# With an unknown payload, this much free space tells a working disk from a full one.
DISK_UNKNOWN_BYTES = 2 * GIB


class EngineAvailability(NamedTuple):
    """Says whether a node has a model's engine installed, or how many bytes the node would download."""

    is_installed: bool
    fetch_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementDemand:
    """Describes the replicas of one model that are to be placed on nodes together, and which nodes may get them."""

    model: str
    # The model's current run hash; replicas with another take no slot. Empty: all of them count.
    run_hash: str = ""
    # The need of one replica; a function where it depends on the node.
    need: Need | Callable[[Node], Need] = field(default_factory=Need)
    # The contents of the model. None: not known yet, and the need's `payload_bytes` is used.
    files: tuple[StoredFile, ...] | None = None
    # The backend's name, for sentences, and who has a build of it. A node that is missing has none; None: not checked.
    backend: str = ""
    engines: Mapping[NodeId, EngineAvailability] | None = None

    selector: Mapping[str, str] = field(default_factory=dict)
    # These nodes and no others; an empty set is no node. None: any.
    only: frozenset[NodeId] | None = None
    # Nodes that are left out, each with the reason as a sentence.
    excluded: Mapping[NodeId, str] = field(default_factory=dict)
    count: int = 1
    # At most one replica on each node, existing ones included.
    spreads: bool = False
    groups: frozenset[str] = frozenset()
    # How many threads a replica requests. None: half of the free ones.
    threads: int | None = None

    # Nodes whose worker is restarting this very replica, because its process died: it costs nothing there, and
    # anywhere else it would be one more.
    returning: frozenset[NodeId] = frozenset()

    # Read for each decision: an operator's switch counts at once. Off: a full disk is a warning.
    is_disk_enforced: bool = True
    # The files are in a folder that nodes share: nothing is copied.
    has_shared_models: bool = False
    # The last measured download speed of each node, in bytes per second.
    bandwidths: Mapping[NodeId, float] = field(default_factory=dict)
    # How long the model last took to become ready, without fetching files.
    load_s: float | None = None


def compute_vram_left(node: Node, held_bytes: int = 0) -> int | None:
    """Return what the budget leaves of the reported free VRAM, less the reservations of running loads; below zero,
    if more is promised than there is. None is unknown.

    A budget is for all that Corral runs there: `held_bytes`, the memory of present replicas, counts against it.
    """
    free = node.hardware.available_vram
    if free is None:
        return None
    ceiling = parse_stored_budget(node.budget).compute_ceiling(node.hardware.total_vram) if node.budget else None
    if ceiling is not None:
        free = min(free, ceiling - held_bytes)
    return free - node.reserved_vram


def compute_disk_need(payload_bytes: int | None, staged_bytes: int = 0) -> int:
    """Return the free space that a payload needs on a node that has `staged_bytes` of it already."""
    if payload_bytes is None:
        return DISK_UNKNOWN_BYTES
    missing = max(0, payload_bytes - staged_bytes)
    if missing == 0:
        return 0
    return missing + max(int(missing * DISK_MARGIN_SHARE), DISK_MARGIN_MIN_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTraits:
    """Traits of a model that matter when other models are placed on its nodes: run hash, groups and pin."""

    name: str
    # The current run hash; empty: every replica of the model counts as current.
    run_hash: str = ""
    groups: frozenset[str] = frozenset()
    is_pinned: bool = False


class FileCopy(NamedTuple):
    """Says how many bytes of a model file lie on a node's disk, to prefer nodes that have the file."""

    node_id: NodeId
    sha256: str
    size_bytes: int


class NodeRoom(NamedTuple):
    """Memory, disk and threads that a node has left for replicas.

    None is unknown; below zero, more is promised than there is.
    """

    node: Node
    is_candidate: bool
    # The VRAM under the budget, less the reservations of running loads.
    vram: int | None
    ram: int | None
    # The threads that are not allotted.
    threads: int | None
    disk: int | None
    has_gpu: bool
    # Unified memory of CPU and GPU.
    is_unified: bool
    in_flight: int
    # Loads in progress, and loaded models.
    loads: int
    loaded: int


class SelectorMatch(NamedTuple):
    """The nodes that match one label selector of a model's rule, and how many replicas they may hold together."""

    rooms: tuple[NodeRoom, ...]
    ids: frozenset[NodeId]
    # Slots of any one model, all nodes together.
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementFleet:
    """Indexes nodes, replicas, rules and file copies, to place models on nodes.

    Build it with `PlacementFleet.build`.
    """

    rooms: Mapping[NodeId, NodeRoom]
    by_node: Mapping[NodeId, Sequence[Replica]]
    # The same rows again, and so not part of the repr.
    by_model: Mapping[str, Sequence[Replica]] = field(repr=False)
    models: Mapping[str, ModelTraits]
    by_group: Mapping[str, Sequence[str]]
    rules: Mapping[str, Rule]
    # content -> node -> bytes
    copies: Mapping[str, Mapping[NodeId, int]]
    # Selectors that were queried: rules share them, and a pass over a thousand models has few.
    _matching: dict[tuple[tuple[str, str], ...], SelectorMatch] = field(default_factory=dict, repr=False)

    @classmethod
    def build(
        cls,
        nodes: Iterable[Node],
        replicas: Iterable[Replica] = (),
        *,
        models: Iterable[ModelTraits] = (),
        rules: Iterable[Rule] = (),
        copies: Iterable[FileCopy] = (),
    ) -> PlacementFleet:
        """Build the fleet. `copies` need only be those of the files in question."""
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
            rooms={node.id: _make_room(node, by_node.get(node.id, ())) for node in ordered},
            by_node=dict(by_node),
            by_model=dict(by_model),
            models=by_name,
            by_group=dict(by_group),
            rules={rule.model: rule for rule in rules},
            copies=dict(by_content),
        )

    def list_candidates(self, selector: Mapping[str, str]) -> tuple[NodeRoom, ...]:
        """Return the nodes that may be given work and match: healthy, able to run engines, with every label."""
        return self.match_selector(selector).rooms

    def match_selector(self, selector: Mapping[str, str]) -> SelectorMatch:
        key = tuple(sorted(selector.items()))
        found = self._matching.get(key)
        if found is None:
            rooms = tuple(
                room
                for room in self.rooms.values()
                if room.is_candidate and (not selector or matches_labels(selector, room.node.label_map))
            )
            ids = frozenset(room.node.id for room in rooms)
            found = self._matching[key] = SelectorMatch(rooms, ids, sum(room.node.slots for room in rooms))
        return found

    def is_current(self, replica: Replica) -> bool:
        """Return whether the replica was loaded as its model is now; a model without traits has only current ones."""
        model = self.models.get(replica.model)
        return model is None or not model.run_hash or replica.revision == model.run_hash

    def list_standing(self, model: str) -> list[Replica]:
        """Return the current replicas that take a slot: loaded or loading."""
        rows = self.by_model.get(model, ())
        return [row for row in rows if row.state is not ReplicaState.UNLOADING and self.is_current(row)]

    def compute_capacity(self, model: str, selector: Mapping[str, str]) -> int:
        """Return how many more replicas of the model the candidates have slots for."""
        found = self.match_selector(selector)
        taken = Counter(row.node_id for row in self.list_standing(model) if row.node_id in found.ids)
        # A node that had more slots earlier may hold more than it has now: that takes none from the others.
        return found.slots - sum(min(count, self.rooms[node_id].node.slots) for node_id, count in taken.items())

    def compute_freed_memory(self, replica: Replica) -> tuple[int, int]:
        """Return VRAM and RAM that an end of the replica frees: measured or reserved. Unknown is 0: nothing relies
        on it."""
        return replica.vram_bytes or 0, replica.ram_bytes or 0


def _make_room(node: Node, replicas: Sequence[Replica]) -> NodeRoom:
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
    return NodeRoom(
        node=node,
        is_candidate=node.type is NodeType.BACKEND and is_schedulable(node),
        vram=_compute_vram(node, replicas),
        ram=ram,
        threads=None if hardware.cpu_threads is None else hardware.cpu_threads - node.held_threads,
        disk=None if disk is None else disk - node.reserved_disk,
        has_gpu=bool(hardware.total_vram),
        is_unified=is_unified,
        in_flight=in_flight,
        loads=loads,
        loaded=loaded,
    )


def _compute_vram(node: Node, replicas: Sequence[Replica]) -> int | None:
    """Return the VRAM of replicas. Loads in progress count by their reservations, not by their rows."""
    if not node.budget:
        return compute_vram_left(node)
    return compute_vram_left(node, sum(row.vram_bytes or 0 for row in replicas if row.state not in _COMING))
