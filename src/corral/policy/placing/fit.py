"""Does it fit: slots, VRAM and disk of the nodes that may be chosen.

A set of candidates that is empty means *none*. Nothing here reads an empty set as *any*.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from corral.domain.errors import Conflict
from corral.domain.node import Node, NodeId, NodeType
from corral.domain.replica import Replica, ReplicaState
from corral.policy.budget import budget_or_no_cap
from corral.policy.labels import GIB, matches
from corral.policy.status import is_schedulable

# A disk needs room beyond the payload: logs, temporary files, the next download.
DISK_MARGIN_SHARE = 0.05
DISK_MARGIN_MIN_BYTES = GIB
# With an unknown payload, this much free space tells a working disk from a wedged one.
DISK_UNKNOWN_BYTES = 2 * GIB


def candidates(nodes: Iterable[Node], selector: dict[str, str]) -> tuple[Node, ...]:
    """The nodes that may be given this work at all: schedulable, able to run engines, and selected."""
    return tuple(
        node
        for node in nodes
        if node.type is NodeType.BACKEND and is_schedulable(node) and matches(selector, node.label_map)
    )


def cluster_capabilities(nodes: Iterable[Node]) -> frozenset[str]:
    """What the fleet can run now. A node that is not schedulable advertises nothing."""
    words: set[str] = set()
    for node in candidates(nodes, {}):
        hardware = node.hardware
        derived = hardware.gpu_vendor if (hardware.total_vram or 0) > 4 * GIB else None
        words.add(hardware.capability or derived or "default")
    return frozenset(words)


def next_free_index(used: Collection[int], slots: int) -> int:
    """The lowest unused replica index of a model on a node."""
    for index in range(slots):
        if index not in used:
            return index
    raise Conflict(f"All {slots} replica slots of this model are in use on the node.", code="no_free_slot")


def occupied(replicas: Iterable[Replica], node_id: NodeId, model: str) -> frozenset[int]:
    """Indexes in use. A load in progress counts; what is being unloaded does not."""
    return frozenset(
        replica.index
        for replica in replicas
        if replica.node_id == node_id and replica.model == model and replica.state is not ReplicaState.UNLOADING
    )


def cluster_capacity(nodes: Iterable[Node], replicas: Sequence[Replica], model: str) -> int:
    """How many more replicas of the model the candidates can take."""
    return sum(max(0, node.slots - len(occupied(replicas, node.id, model))) for node in nodes)


def free_vram(node: Node) -> int | None:
    """What the budget leaves of the reported free VRAM, less what running loads have reserved."""
    hardware = node.hardware
    capped = budget_or_no_cap(node.budget).cap(hardware.available_vram, hardware.total_vram)
    return None if capped is None else max(0, capped - node.reserved_vram)


def with_vram(nodes: Iterable[Node], need_bytes: int) -> tuple[Node, ...]:
    """Those with enough free VRAM; a need of 0 is an unknown need and excludes nobody."""
    return tuple(node for node in nodes if need_bytes == 0 or (free_vram(node) or 0) >= need_bytes)


def disk_need(payload_bytes: int | None, staged_bytes: int = 0) -> int:
    """Free space that a payload calls for on a node that has `staged_bytes` of it already."""
    if payload_bytes is None:
        return DISK_UNKNOWN_BYTES
    missing = max(0, payload_bytes - staged_bytes)
    if missing == 0:
        return 0
    return missing + max(int(missing * DISK_MARGIN_SHARE), DISK_MARGIN_MIN_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskVerdict:
    """Who has room. `refusal` is the sentence to fail with, `warning` the one to log when the check only warns."""

    fitting: tuple[Node, ...]
    refusal: str | None = None
    warning: str | None = None


def judge_disk(
    nodes: Sequence[Node],
    payload_bytes: int | None,
    *,
    staged_bytes: dict[NodeId, int] | None = None,
    is_enforced: bool = True,
    has_shared_models: bool = False,
) -> DiskVerdict:
    """Keep the nodes whose models disk has room. An unknown disk never excludes a node; 0 bytes free is known.

    1. shared models: nothing is copied, everybody fits
    2. no candidates: silent, because another reason is the true one
    3. enforced: drop those without room, and refuse by name if none is left
    4. not enforced: nobody is dropped, the shortfall is a warning
    """
    if has_shared_models or not nodes:
        return DiskVerdict(fitting=tuple(nodes))  # 1, 2
    staged = staged_bytes or {}
    short = [node for node in nodes if not _has_room(node, disk_need(payload_bytes, staged.get(node.id, 0)))]
    if not short:
        return DiskVerdict(fitting=tuple(nodes))
    sentence = _shortfall(short, payload_bytes)
    if not is_enforced:
        return DiskVerdict(fitting=tuple(nodes), warning=sentence)  # 4
    fitting = tuple(node for node in nodes if node not in short)
    return DiskVerdict(fitting=fitting, refusal=None if fitting else sentence)  # 3


def _has_room(node: Node, need_bytes: int) -> bool:
    free = node.hardware.available_disk
    # A disk of 0 bytes is no reading of a disk: its size is unknown.
    return not node.hardware.total_disk or free is None or free >= need_bytes


def _shortfall(short: Sequence[Node], payload_bytes: int | None) -> str:
    need = disk_need(payload_bytes)
    parts = [
        f"{node.name} has {_gib(node.hardware.available_disk)} free of {_gib(node.hardware.total_disk)}"
        for node in short
    ]
    return f"{_gib(need)} of disk are needed: {'; '.join(parts)}."


def _gib(size_bytes: int | None) -> str:
    return "an unknown amount" if size_bytes is None else f"{size_bytes / GIB:.1f} GiB"


def pick_replica(replicas: Iterable[Replica], allowed: Collection[NodeId]) -> Replica | None:
    """The least busy loaded replica on an allowed node: a busy one inside the selector beats an idle one outside."""
    loaded = [r for r in replicas if r.state is ReplicaState.LOADED and r.node_id in allowed]
    return min(loaded, key=lambda replica: (replica.in_flight, replica.index, replica.id), default=None)
