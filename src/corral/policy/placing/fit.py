"""What of a node is left, and what a payload asks of a disk: the arithmetic that placements and reservations share."""

from __future__ import annotations

from corral.domain.node import Node
from corral.policy.budget import budget_or_no_cap
from corral.policy.labels import GIB

# A disk needs room beyond the payload: logs, temporary files, the next download.
DISK_MARGIN_SHARE = 0.05
DISK_MARGIN_MIN_BYTES = GIB
# With an unknown payload, this much free space tells a working disk from a wedged one.
DISK_UNKNOWN_BYTES = 2 * GIB


def vram_left(node: Node, held_bytes: int = 0) -> int | None:
    """What the budget leaves of the reported free VRAM, less what running loads have reserved; below zero, if more is
    promised than there is. None is unknown.

    A budget is for all that Corral runs there: `held_bytes`, what sits there already, counts against it.
    """
    free = node.hardware.available_vram
    if free is None:
        return None
    ceiling = budget_or_no_cap(node.budget).ceiling(node.hardware.total_vram) if node.budget else None
    if ceiling is not None:
        free = min(free, ceiling - held_bytes)
    return free - node.reserved_vram


def free_vram(node: Node) -> int | None:
    """The same for whoever knows nothing but the node, and never below zero."""
    left = vram_left(node)
    return None if left is None else max(0, left)


def disk_need(payload_bytes: int | None, staged_bytes: int = 0) -> int:
    """Free space that a payload calls for on a node that has `staged_bytes` of it already."""
    if payload_bytes is None:
        return DISK_UNKNOWN_BYTES
    missing = max(0, payload_bytes - staged_bytes)
    if missing == 0:
        return 0
    return missing + max(int(missing * DISK_MARGIN_SHARE), DISK_MARGIN_MIN_BYTES)
