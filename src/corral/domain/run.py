"""A run: one unit of work on behalf of a person, such as a turn of an agent or a job of a task.

A run is an operation of the pool `run` with a record of its own: the operation brings admission, lease, fence,
cancellation and history; the record brings the owner, the budgets, the trace and the result.

    queued ──a place is free──> leased ──accepted──> running <──> waiting_approval
      ^                            │                    │
      └── its worker was lost ─────┴────────────────────┤──> completed | failed | cancelled | lost

`lost` means: the worker was lost while a tool call was open that may have had effects, or a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

from corral.domain.node import NodeId
from corral.domain.operation import Fault, JobId, OperationKind

# The id of a run is that of its operation.
RunId = NewType("RunId", str)


class RunPlaceKind(StrEnum):
    """Names the kinds of places that a node has for runs. Runs that need one kind never wait for another kind."""

    TURNS = "turns"  # `max_runs` of them
    BATCHES = "batches"
    PROGRAMS = "programs"  # a program of its own that uses the node's memory and disk


class RunKind(StrEnum):
    """Names the kind of work that a run does for a person, such as one turn of an LLM agent."""

    AGENT_TURN = "agent_turn"  # one answer of an agent, with its tool calls
    TASK = "task"  # one execution of a task
    CHAT = "chat"  # a chat request whose model uses MCP servers
    BATCH = "batch"  # the lines of a batch file
    SKILL_SYNC = "skill_sync"  # the skills of a git repository
    QUANTIZE = "quantize"  # a model made smaller by a program on a backend node
    FINE_TUNE = "fine_tune"  # a model trained by a program on a backend node
    FINE_TUNE_EXPORT = "fine_tune_export"  # a trained model made whole by a program on a backend node
    INGEST = "ingest"  # the text of a document for a collection

    @property
    def operation_kind(self) -> OperationKind:
        return OperationKind(f"run_{self.value}")

    @property
    def place_kind(self) -> RunPlaceKind:
        return _PLACE_KINDS.get(self, RunPlaceKind.TURNS)

    @property
    def is_program(self) -> bool:
        """Return whether runs of this kind are programs on backend nodes, beside the engines."""
        return self.place_kind is RunPlaceKind.PROGRAMS


_PLACE_KINDS = {
    RunKind.BATCH: RunPlaceKind.BATCHES,
    RunKind.QUANTIZE: RunPlaceKind.PROGRAMS,
    RunKind.FINE_TUNE: RunPlaceKind.PROGRAMS,
    RunKind.FINE_TUNE_EXPORT: RunPlaceKind.PROGRAMS,
}


# A call without a decision for so long is refused: its run holds a place of the worker.
APPROVAL_LIMIT_S = 24 * 3600.0
# A batch lasts for hours and mostly waits, so a node has places for batches beside those for other runs.
BATCHES_PER_NODE = 2
# A program uses all processors of its node for minutes, so a node runs one at a time.
PROGRAMS_PER_NODE = 1
# How long the first step of a run waits for its MCP servers. A server nearby answers within a second, and a program
# needs some to start. What takes longer is not worth the wait: its tools come at a later step, or in the next run.
SERVER_GRACE_S = 5.0


class RunState(StrEnum):
    """Names the state of a run (such as an LLM agent's turn), from queued to its end."""

    QUEUED = "queued"  # waits for its turn or for a free place
    LEASED = "leased"  # a node was chosen and gets the command
    RUNNING = "running"
    WAITING_APPROVAL = "waiting_approval"  # a tool call waits for a person
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def is_final(self) -> bool:
        return self in FINAL_RUN_STATES


FINAL_RUN_STATES = frozenset({RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED, RunState.LOST})


class RunTrigger(StrEnum):
    """Names what started a run: a person, an API call, a cron pattern or another LLM agent."""

    API = "api"
    MANUAL = "manual"  # a person on the page or the command line
    CRON = "cron"
    AGENT = "agent"  # another agent, as a tool
    SCHEDULE = "schedule"  # the interval of an autonomous agent


class RunEventType(StrEnum):
    """Names the kinds of entries in the trace of a run, such as text and tool calls."""

    STATUS = "status"
    STEP = "step"  # a call of the model begins
    REASONING = "reasoning"
    CONTENT = "content"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_RESOLVED = "approval_resolved"
    USAGE = "usage"
    COMPACTED = "compacted"  # earlier messages were summarised to fit the model
    RETRIED = "retried"  # the worker was lost; another one begins again
    END = "end"  # the last entry; its data hold the outcome


WORKER_LOST = "worker_lost"
# Ends of attempts that say nothing about the run itself: another worker may do better.
LOSSES = frozenset({WORKER_LOST, "runner_lost", "worker_stopping", "model_stream_broken", "frontend_unreachable"})


def is_run_end(event_type: str, data: Mapping[str, Any]) -> bool:
    """Return whether a run is over with this entry of its trace: an attempt whose worker was lost may be followed by
    another."""
    return event_type == RunEventType.END and str(data.get("error_code") or "") not in LOSSES


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudgets:
    """Limits the seconds, steps, tool calls and tokens of one run. A field that is None has no limit."""

    wall_s: float = 300.0
    steps: int | None = 10
    tool_calls: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNeeds:
    """Says how much disk and memory a run's program takes of its node. None is unknown and excludes no node.

    A node without a GPU has its RAM take what is for the GPU, too.
    """

    disk_bytes: int | None = None
    ram_bytes: int | None = None
    vram_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUsage:
    """Counts what a run has used: tokens, calls of the model and calls of tools."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    steps: int = 0
    tool_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenToolCall:
    """Describes a tool call of a run that has begun and not ended.

    A repeatable one may be made again after the worker was lost.
    """

    call_id: str
    tool: str
    is_repeatable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCalls:
    """Sums up the tool calls that the attempts of a run have made, with their results."""

    size_bytes: int = 0
    may_have_effects: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """Holds one entry of a run's trace, such as a tool call. `seq` grows by one with each entry of a run."""

    seq: int
    at: datetime
    type: RunEventType
    tool: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Describes one run (an LLM agent's turn, a job of a task, a batch): owner, work, node, and how it ended."""

    id: RunId
    kind: RunKind
    # `user:<id>` or `key:<id>`: who may see the run.
    owner: str
    owner_name: str
    # The key or session that started the run; its models, limits and usage count.
    key_id: str
    # The name of the agent or task.
    subject: str
    trigger: RunTrigger
    state: RunState
    # The work of the run, without secrets; of a conversation only the last message once the run has ended. Reads that
    # need no request leave it out.
    request: Mapping[str, Any]
    budgets: RunBudgets
    # Labels that the node must have.
    selector: Mapping[str, str] = field(default_factory=dict)
    # Runs with the same key prefer the node that had the last one.
    session_key: str = ""
    agent_id: str | None = None
    task_id: str | None = None
    thread_id: str | None = None
    # The run that started this one as a tool, and how deep such calls are nested.
    parent_id: RunId | None = None
    depth: int = 0
    attempt: int = 0
    job_id: JobId | None = None
    node_id: NodeId | None = None
    node_name: str = ""
    # Calls without a result yet: those of one step run beside each other.
    open_calls: tuple[OpenToolCall, ...] = ()
    # Tool calls that wait for a person, and the decisions made: by call id.
    approvals: Mapping[str, Any] = field(default_factory=dict)
    usage: RunUsage = field(default_factory=RunUsage)
    result: Mapping[str, Any] | None = None
    fault: Fault | None = None
    # How many entries the trace has.
    last_seq: int = 0
    message: str = ""
    created_at: datetime
    started_at: datetime | None = None
    # When the worker of the present attempt accepted it.
    attempt_started_at: datetime | None = None
    finished_at: datetime | None = None

    def is_held_by(self, node_id: NodeId, job_id: str) -> bool:
        """Return whether the worker of a node holds the run, in the attempt with this job."""
        return not self.state.is_final and self.node_id == node_id and self.job_id == job_id
