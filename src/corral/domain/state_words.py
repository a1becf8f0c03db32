"""Words that people read for states: one table for the command line and the page.

Guarantee: every member of the enumerations that the comments name has one word, and both clients show that word. The
page reads a generated copy, `ui/src/text/stateWords.gen.ts`, which `make docs` writes.
Limit: stored and sent values, filters, query parameters and `--json` output keep the values of the enumerations. The
enumerations are not imported, because a command loads only the types that it shows.
"""

from __future__ import annotations

from collections.abc import Mapping

# A target that has not failed for good shows RETRYING between two attempts, one whose change was undone ROLLED_BACK.
RETRYING = "retrying"
ROLLED_BACK = "rolled back"
# A replica whose circuit breaker is open gets no requests for a while.
EXCLUDED = "excluded"

# OperationState
OPERATION_WORDS: Mapping[str, str] = {
    "queued": "queued",
    "running": "running",
    "waiting_on_nodes": "waiting for nodes",
    "completed": "completed",
    "completed_with_pending": "changes pending",
    "failed": "failed",
    "cancelled": "cancelled",
    "paused": "paused",
    "superseded": "superseded",
}
# TargetState
TARGET_WORDS: Mapping[str, str] = {
    "queued": "queued",
    "working": "running",
    "unconfirmed": "unreachable",
    "success": "completed",
    "error": "failed",
    "cancelled": "cancelled",
    "superseded": "superseded",
    "skipped": "skipped",
}
# JobState
JOB_WORDS: Mapping[str, str] = {
    "queued": "queued",
    "running": "running",
    "done": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "paused": "paused",
}
# JobPhase
PHASE_WORDS: Mapping[str, str] = {
    "queued": "queued",
    "resolving": "resolving",
    "downloading": "downloading",
    "verifying": "verifying",
    "extracting": "extracting",
    "checking": "checking",
    "stopping": "stopping",
    "committing": "installing",
    "removing": "removing",
    "placing": "placing",
    "making_room": "making room",
    "staging": "staging",
    "starting": "starting",
    "loading": "loading",
}
# NodeStatus
NODE_WORDS: Mapping[str, str] = {
    "pending": "pending approval",
    "draining": "draining",
    "offline": "offline",
    "joining": "joining",
    "unhealthy": "unhealthy",
    "healthy": "healthy",
}
# ReplicaState
REPLICA_WORDS: Mapping[str, str] = {
    "staging": "staging",
    "loading": "loading",
    "loaded": "loaded",
    "unloading": "unloading",
}
# AssignmentState
CHANGE_WORDS: Mapping[str, str] = {
    "open": "pending",
    "dead": "failed",
}
# SecretState
SECRET_WORDS: Mapping[str, str] = {
    "active": "active",
    "used_up": "used up",
    "expired": "expired",
    "revoked": "revoked",
    "disabled": "disabled",
}

# The tables under the names by which the page knows them.
STATE_WORDS: Mapping[str, Mapping[str, str]] = {
    "operation": OPERATION_WORDS,
    "target": TARGET_WORDS,
    "job": JOB_WORDS,
    "phase": PHASE_WORDS,
    "node": NODE_WORDS,
    "replica": REPLICA_WORDS,
    "change": CHANGE_WORDS,
    "secret": SECRET_WORDS,
}


def find_word(words: Mapping[str, str], state: str) -> str:
    """Return the word for a state, or its value with blanks if a newer server sends one that has no word here."""
    return words.get(state, state.replace("_", " "))
