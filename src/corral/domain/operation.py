"""An operation: one long action that an admin requested, with a row before its id is returned and exactly one end.

    queued ──claimed──> running ──all targets done──────────────> completed
      ^  │                │ │ └──only intents are left──────────> completed_with_pending ──drained──> completed
      │  │   lease lost   │ └────only silent nodes are left─────> waiting_on_nodes ──confirmed──> completed | failed
      └──┴────────────────┘            any error ──────────────> failed      an admin ──> cancelled, paused

`TRANSITIONS` is the whole truth: a trigger in the database refuses everything else, and the reference page is made
from it. *Active*: something is being done, and a second one of the same scope is a duplicate. *Open*: not at
its end yet, the dispatcher may still work on it. *Settled*: state, error and end never change again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NewType

from corral.domain.node import NodeId

OperationId = NewType("OperationId", str)
JobId = NewType("JobId", str)


class OperationKind(StrEnum):
    """Names what an operation does: change an engine backend, change a model, or execute a run for a person."""

    BACKEND_INSTALL = "backend_install"
    BACKEND_UPGRADE = "backend_upgrade"
    BACKEND_REINSTALL = "backend_reinstall"
    BACKEND_ROLLBACK = "backend_rollback"
    BACKEND_DELETE = "backend_delete"
    MODEL_INSTALL = "model_install"  # fetch the files into the library
    MODEL_LOAD = "model_load"  # load one more replica: engine, files, process
    MODEL_STAGE = "model_stage"  # copy the files to nodes, ahead of a load
    MODEL_UNLOAD = "model_unload"  # end replicas
    MODEL_DELETE = "model_delete"  # end replicas, remove every copy, delete the model
    RUN_AGENT_TURN = "run_agent_turn"  # one answer of an agent
    RUN_TASK = "run_task"  # one execution of a task
    RUN_CHAT = "run_chat"  # a chat request that uses MCP servers
    RUN_BATCH = "run_batch"  # the lines of a batch file
    RUN_SKILL_SYNC = "run_skill_sync"  # the skills of a git repository
    RUN_QUANTIZE = "run_quantize"  # a model made smaller
    RUN_FINE_TUNE = "run_fine_tune"  # a model trained
    RUN_FINE_TUNE_EXPORT = "run_fine_tune_export"  # a trained model made whole
    RUN_INGEST = "run_ingest"  # the text of a document for a collection

    @property
    def pool(self) -> str:
        """Return the pool of the operation. Operations of one pool share a frontend's workers; other pools never
        wait for them."""
        return self.value.partition("_")[0]

    @property
    def is_deletion(self) -> bool:
        return self in (OperationKind.BACKEND_DELETE, OperationKind.MODEL_DELETE, OperationKind.MODEL_UNLOAD)

    @property
    def is_backend(self) -> bool:
        return self.pool == "backend"

    @property
    def is_run(self) -> bool:
        return self.pool == "run"


class OperationState(StrEnum):
    """Names the state of an operation (a long action on nodes), from queued to its end."""

    QUEUED = "queued"  # admitted; no frontend works on it yet
    RUNNING = "running"  # a frontend drives it
    WAITING_ON_NODES = "waiting_on_nodes"  # every command was sent; only nodes that do not respond now are left
    COMPLETED = "completed"  # done on every target
    COMPLETED_WITH_PENDING = "completed_with_pending"  # done where possible; the rest is pending for absent nodes
    FAILED = "failed"  # an error on one target or more; stays listed until dismissed
    CANCELLED = "cancelled"  # an admin cancelled it
    PAUSED = "paused"  # an admin paused it; partial files are kept
    SUPERSEDED = "superseded"  # a newer operation replaced it, or its model was edited, disabled or deleted meanwhile


_S = OperationState
TRANSITIONS: Mapping[OperationState, frozenset[OperationState]] = MappingProxyType(
    {
        _S.QUEUED: frozenset({_S.RUNNING, _S.FAILED, _S.CANCELLED, _S.PAUSED, _S.SUPERSEDED}),
        _S.RUNNING: frozenset(set(_S) - {_S.RUNNING}),
        _S.WAITING_ON_NODES: frozenset(set(_S) - {_S.WAITING_ON_NODES}),
        _S.COMPLETED_WITH_PENDING: frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELLED, _S.SUPERSEDED}),
        _S.PAUSED: frozenset({_S.QUEUED, _S.CANCELLED, _S.SUPERSEDED, _S.FAILED}),
        # Only for a failure that the reaper wrote; the true outcome replaces it.
        _S.FAILED: frozenset({_S.COMPLETED}),
        _S.COMPLETED: frozenset(),
        _S.CANCELLED: frozenset(),
        _S.SUPERSEDED: frozenset(),
    }
)
ACTIVE = frozenset({_S.QUEUED, _S.RUNNING, _S.WAITING_ON_NODES})
OPEN = ACTIVE | {_S.COMPLETED_WITH_PENDING}
SETTLED = frozenset({_S.COMPLETED, _S.CANCELLED, _S.SUPERSEDED})
# The states of the live list. A failed operation leaves it when an admin dismisses it.
LISTED = OPEN | {_S.FAILED, _S.PAUSED}


class TargetState(StrEnum):
    """Names the state of an operation on one of its nodes, from queued to its end."""

    QUEUED = "queued"  # an assignment is stored; the node has not got the command yet
    WORKING = "working"  # the worker has accepted the job
    UNCONFIRMED = "unconfirmed"  # the node got the command and does not respond now: it may be at work
    SUCCESS = "success"
    ERROR = "error"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"  # the node has a newer assignment, or its model was changed meanwhile
    SKIPPED = "skipped"  # not tried: an earlier wave failed, or the node was drained before

    @property
    def is_final(self) -> bool:
        return self not in (TargetState.QUEUED, TargetState.WORKING, TargetState.UNCONFIRMED)


class JobPhase(StrEnum):
    """Names what a worker is doing in a job, such as downloading, in the order in which it happens."""

    QUEUED = "queued"
    RESOLVING = "resolving"
    DOWNLOADING = "downloading"
    VERIFYING = "verifying"
    EXTRACTING = "extracting"
    CHECKING = "checking"
    STOPPING = "stopping"
    COMMITTING = "committing"
    REMOVING = "removing"
    PLACING = "placing"
    MAKING_ROOM = "making_room"
    STAGING = "staging"
    STARTING = "starting"
    LOADING = "loading"


class JobState(StrEnum):
    """Names the state of a worker's job, as the worker reports it."""

    QUEUED = "queued"  # accepted, waits for another job of the same backend
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PAUSED = "paused"

    @property
    def is_final(self) -> bool:
        return self not in (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutStrategy:
    """Says how an operation goes over its nodes: how many at a time, and what happens after a failure."""

    # The size of each wave; the last number repeats. Empty: one wave with all nodes.
    waves: tuple[int, ...] = ()
    stops_on_failure: bool = False
    # After a failure, nodes that this operation has changed return to their previous version.
    rolls_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Holds an error of an operation or job as data: it survives NATS, PostgreSQL and JSON."""

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Holds the progress of a worker's job or of an operation; None is unknown.

    `percent` is 0..100 and never goes back within an attempt.
    """

    percent: float = 0.0
    phase: JobPhase | None = None
    current_bytes: int | None = None
    total_bytes: int | None = None
    file_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Holds the state of an operation on one of its nodes. `node` is the node's id, also after the node is gone."""

    operation_id: OperationId
    node: NodeId
    node_name: str
    wave: int = 0
    state: TargetState = TargetState.QUEUED
    progress: Progress = field(default_factory=Progress)
    attempt: int = 0
    job_id: JobId
    # The number of the worker's last applied event.
    seq: int = 0
    generation: int = 0
    # The build for the node, resolved for its hardware when the operation was planned.
    build: Mapping[str, Any] | None = None
    # The previous version, for nodes that are rolled back.
    previous: Mapping[str, Any] | None = None
    fault: Fault | None = None
    # True while the worker still needs a stop command.
    stop_wanted: bool = False
    keeps_partial: bool = False
    is_rollback: bool = False
    contacted_at: datetime | None = None
    heard_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Describes one long action on nodes that a person requested, with its state, lease and nodes."""

    id: OperationId
    kind: OperationKind
    # The subject: the name of a backend or model as it was requested.
    subject: str
    # Two active operations never have the same scope.
    scope_key: str
    # The id of the node if the operation is about exactly one, and its name at the time.
    scope_node: NodeId | None = None
    scope_node_name: str = ""
    # The whole request, so that a retry repeats it exactly.
    request: Mapping[str, Any]
    state: OperationState
    progress: Progress = field(default_factory=Progress)
    message: str = ""
    fault: Fault | None = None

    owner: str | None = None
    fence: int = 0
    attempt: int = 0
    is_reaped: bool = False
    # The operation that has to end before this one runs.
    after_id: OperationId | None = None
    retry_of: OperationId | None = None

    created_by: str
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    updated_at: datetime
    deadline_at: datetime | None = None
    dismissed_at: datetime | None = None
    dismissed_by: str | None = None
    # Grows with every change; the larger one is the newer state.
    rev: int = 0

    targets: tuple[Target, ...] = ()

    @property
    def is_cancellable(self) -> bool:
        """Return whether the operation can be cancelled. A deletion that has begun cannot: half a removal is of no
        use."""
        if self.state is OperationState.QUEUED or self.state is OperationState.PAUSED:
            return True
        return self.state in OPEN and not self.kind.is_deletion


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationNote:
    """Holds one line of the log of an operation."""

    at: datetime
    level: str
    text: str
    node_name: str = ""
