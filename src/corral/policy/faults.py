"""Classifies failures: which are worth another attempt, when it comes, and when to stop.

Guarantee: nothing is tried for ever. A failure that another attempt cannot mend ends its target at once; any other
is tried again after a pause that doubles, and given up after the tenth. An unknown code (a newer worker's) counts as
worth another attempt: the limit ends it.
"""

from __future__ import annotations

ATTEMPTS_MAX = 10
FIRST_PAUSE_S = 30.0
LONGEST_PAUSE_S = 900.0

# Codes that the dispatcher itself sets.
NODE_UNREACHABLE = "node_unreachable"
NODE_DRAINED = "node_drained"
NODE_REMOVED = "node_removed"
DEADLINE_PASSED = "deadline_passed"
DEAD_LETTER = "dead_letter"
CANCELLED_ON_NODE = "cancelled_on_node"
OWNER_LOST = "owner_lost"
COMMAND_UNKNOWN = "command_unknown"
INTERNAL = "internal"

TRANSIENT = frozenset(
    {
        "source_unavailable",  # refused, 5xx, a stall, a truncated answer
        "bad_answer",  # an HTML page where an artifact was expected
        "worker_restarted",
        INTERNAL,
        NODE_UNREACHABLE,
        COMMAND_UNKNOWN,  # an older worker: until Corral is upgraded there
    }
)
PERMANENT = frozenset(
    {
        "not_found",
        "digest_mismatch",
        "unsigned",
        "disk_full",
        "check_failed",
        "bad_package",
        "bad_manifest",
        "no_python",
        "stop_failed",
        "system_backend",
        "not_installed",
        "nothing_to_roll_back",
        "stale_generation",
        "unsupported",
        "not_allowed",
        "private_address",
        "is_a_folder",
        "bad_path",
        "duplicate_path",
        "too_many_files",
        "no_source",
        "no_path",
        "invalid_request",
        CANCELLED_ON_NODE,
        NODE_DRAINED,
        NODE_REMOVED,
        DEADLINE_PASSED,
    }
)


def is_transient(code: str) -> bool:
    return code not in PERMANENT


def compute_pause_s(failures: int) -> float:
    """Return how long to wait after the n-th real failure: 30 s, 1, 2, 4, 8 and then 15 minutes."""
    assert failures >= 1, "there is nothing to wait for before the first failure"
    # 2**5 is beyond the longest pause already; a larger exponent would have no effect.
    return min(FIRST_PAUSE_S * float(2 ** min(failures - 1, 5)), LONGEST_PAUSE_S)
