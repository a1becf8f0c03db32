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
# RunState
RUN_WORDS: Mapping[str, str] = {
    "queued": "queued",
    "leased": "starting",
    "running": "running",
    "waiting_approval": "waiting for approval",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "lost": "lost",
}
# RunKind
RUN_KIND_WORDS: Mapping[str, str] = {
    "agent_turn": "agent turn",
    "task": "task",
    "chat": "chat",
    "batch": "batch",
    "skill_sync": "sync of skills",
    "quantize": "quantisation",
    "fine_tune": "fine-tuning",
    "fine_tune_export": "export of a fine-tuning",
    "ingest": "document",
}
# RunTrigger
TRIGGER_WORDS: Mapping[str, str] = {
    "api": "API call",
    "manual": "manually",
    "cron": "schedule",
    "agent": "another agent",
    "schedule": "interval of the agent",
}
# TaskRunStatus: a job that has not begun is a queued run.
TASK_RUN_WORDS: Mapping[str, str] = {
    "pending": "queued",
    "running": "running",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}
# BatchStatus
BATCH_WORDS: Mapping[str, str] = {
    "validating": "validating",
    "in_progress": "in progress",
    "finalizing": "finalizing",
    "completed": "completed",
    "failed": "failed",
    "expired": "expired",
    "cancelling": "cancelling",
    "cancelled": "cancelled",
}
# WebhookState
WEBHOOK_WORDS: Mapping[str, str] = {
    "pending": "pending",
    "delivered": "delivered",
    "failed": "failed",
}
# AgentStatus
AGENT_WORDS: Mapping[str, str] = {
    "active": "active",
    "paused": "paused",
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
    "run": RUN_WORDS,
    "run_kind": RUN_KIND_WORDS,
    "trigger": TRIGGER_WORDS,
    "task_run": TASK_RUN_WORDS,
    "batch": BATCH_WORDS,
    "webhook": WEBHOOK_WORDS,
    "agent": AGENT_WORDS,
    "secret": SECRET_WORDS,
}


def find_word(words: Mapping[str, str], state: str) -> str:
    """Return the word for a state, or its value with blanks if a newer server sends one that has no word here."""
    return words.get(state, state.replace("_", " "))


_END_VERBS: Mapping[str, str] = {
    "completed": "has completed",
    "failed": "failed",
    "expired": "expired",
    "cancelled": "was cancelled",
    "lost": "was lost",
}


def say_run_state(noun: str, state: str) -> str:
    """Return what has become of a run, without a full stop: `The run failed`, `The job is waiting for approval`. `noun`
    is what people call it: the run, the turn, the job, the batch."""
    return f"{noun} {_END_VERBS.get(state) or f'is {find_word(RUN_WORDS, state)}'}"
