"""An operation: one long action that an admin asked for, with a row before its id is told and exactly one end.

    queued ──claimed──> running ──all targets done──────────────> completed
      ^  │                │ │ └──only intents are left──────────> completed_with_pending ──drained──> completed
      │  │   lease lost   │ └────only silent nodes are left─────> waiting_on_nodes ──confirmed──> completed | failed
      └──┴────────────────┘            any error ──────────────> failed      an admin ──> cancelled, paused

`TRANSITIONS` is the whole truth: code asks it, a trigger in the database refuses everything else, the reference page
is made from it. *Active*: something is being done, and a second one of the same scope is a duplicate. *Open*: not at
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
    BACKEND_INSTALL = "backend_install"
    BACKEND_UPGRADE = "backend_upgrade"
    BACKEND_REINSTALL = "backend_reinstall"
    BACKEND_ROLLBACK = "backend_rollback"
    BACKEND_DELETE = "backend_delete"
    MODEL_INSTALL = "model_install"  # fetch the files into the library
    MODEL_LOAD = "model_load"  # have one replica more: engine, files, process
    MODEL_STAGE = "model_stage"  # have the files on nodes, ahead of a load
    MODEL_UNLOAD = "model_unload"  # end replicas
    MODEL_DELETE = "model_delete"  # end replicas, remove every copy, forget the model

    @property
    def pool(self) -> str:
        """Operations of one pool share the frontend's hands; those of another never wait for them."""
        return self.value.partition("_")[0]

    @property
    def is_deletion(self) -> bool:
        return self in (OperationKind.BACKEND_DELETE, OperationKind.MODEL_DELETE, OperationKind.MODEL_UNLOAD)

    @property
    def is_backend(self) -> bool:
        return self.pool == "backend"


class OperationState(StrEnum):
    QUEUED = "queued"  # admitted; nobody works on it yet
    RUNNING = "running"  # a frontend drives it
    WAITING_ON_NODES = "waiting_on_nodes"  # every command is out; what is left are nodes that do not answer now
    COMPLETED = "completed"  # done on every target
    COMPLETED_WITH_PENDING = "completed_with_pending"  # done where it could be; the rest is owed to absent nodes
    FAILED = "failed"  # an error on one target or more; stays listed until dismissed
    CANCELLED = "cancelled"  # an admin took it back
    PAUSED = "paused"  # an admin stopped it for now; partial files are kept
    SUPERSEDED = "superseded"  # a newer operation replaced it, or its model was edited, disabled or deleted meanwhile


_S = OperationState
TRANSITIONS: Mapping[OperationState, frozenset[OperationState]] = MappingProxyType(
    {
        _S.QUEUED: frozenset({_S.RUNNING, _S.FAILED, _S.CANCELLED, _S.PAUSED, _S.SUPERSEDED}),
        _S.RUNNING: frozenset(set(_S) - {_S.RUNNING}),
        _S.WAITING_ON_NODES: frozenset(set(_S) - {_S.WAITING_ON_NODES}),
        _S.COMPLETED_WITH_PENDING: frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELLED, _S.SUPERSEDED}),
        _S.PAUSED: frozenset({_S.QUEUED, _S.CANCELLED, _S.SUPERSEDED, _S.FAILED}),
        # Only a failure that nobody saw but the reaper wrote; the true outcome replaces it.
        _S.FAILED: frozenset({_S.COMPLETED}),
        _S.COMPLETED: frozenset(),
        _S.CANCELLED: frozenset(),
        _S.SUPERSEDED: frozenset(),
    }
)
ACTIVE = frozenset({_S.QUEUED, _S.RUNNING, _S.WAITING_ON_NODES})
OPEN = ACTIVE | {_S.COMPLETED_WITH_PENDING}
SETTLED = frozenset({_S.COMPLETED, _S.CANCELLED, _S.SUPERSEDED})
# What the live list shows. A failed one leaves it when an admin dismisses it.
LISTED = OPEN | {_S.FAILED, _S.PAUSED}


def may_become(old: OperationState, new: OperationState, *, was_reaped: bool = False) -> bool:
    """Whether this step is allowed. A failure is final unless only the reaper wrote it."""
    if old is _S.FAILED and not was_reaped:
        return False
    return new in TRANSITIONS[old]


class TargetState(StrEnum):
    QUEUED = "queued"  # an assignment is stored; the node has not been told, or could not be
    WORKING = "working"  # the worker has accepted the job
    UNCONFIRMED = "unconfirmed"  # it was told and does not answer now: it may be at work
    SUCCESS = "success"
    ERROR = "error"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"  # the node is to do something else by now, or its model was changed meanwhile
    SKIPPED = "skipped"  # not tried: an earlier wave failed

    @property
    def is_final(self) -> bool:
        return self not in (TargetState.QUEUED, TargetState.WORKING, TargetState.UNCONFIRMED)


class Phase(StrEnum):
    """What a worker is doing in a job, in the order in which it happens."""

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
    """What a worker says of a job."""

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
class Strategy:
    """How a fan-out goes over its nodes. The default is everybody at once and nobody stops for anybody."""

    # How many nodes each wave has; the last number repeats. Empty: one wave with all of them.
    waves: tuple[int, ...] = ()
    stops_on_failure: bool = False
    # After a failure, nodes that this operation has changed go back to what they had.
    rolls_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An error as data: it survives the bus, the database and JSON."""

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """None is unknown. `percent` is 0..100 and never goes back within an attempt."""

    percent: float = 0.0
    phase: Phase | None = None
    current_bytes: int | None = None
    total_bytes: int | None = None
    file_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One node of an operation. `node` is its id, also after the node is gone; the name is that of the time."""

    operation_id: OperationId
    node: NodeId
    node_name: str
    wave: int = 0
    state: TargetState = TargetState.QUEUED
    progress: Progress = field(default_factory=Progress)
    attempt: int = 0
    job_id: JobId
    # The number of the worker's last event that was taken in.
    seq: int = 0
    generation: int = 0
    # What the node is to get, resolved for its hardware when the operation was planned.
    build: Mapping[str, Any] | None = None
    # What it had before, for those that are rolled back.
    previous: Mapping[str, Any] | None = None
    fault: Fault | None = None
    # The worker has still to be told to stop; True and None: nothing to tell.
    stop_wanted: bool = False
    keeps_partial: bool = False
    is_rollback: bool = False
    contacted_at: datetime | None = None
    heard_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    id: OperationId
    kind: OperationKind
    # What it is about: the name of a backend as it was asked for.
    subject: str
    # Two active operations never have the same one.
    scope_key: str
    # The id of the node if it is about exactly one, and its name at the time.
    scope_node: NodeId | None = None
    scope_node_name: str = ""
    # Everything that was asked for, so that a retry asks for exactly the same.
    request: Mapping[str, Any]
    state: OperationState
    progress: Progress = field(default_factory=Progress)
    message: str = ""
    fault: Fault | None = None

    owner: str | None = None
    fence: int = 0
    attempt: int = 0
    is_reaped: bool = False
    # Runs only when that one has ended.
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
    # Grows with every change; whoever holds a larger one has the newer state.
    rev: int = 0

    targets: tuple[Target, ...] = ()

    @property
    def is_cancellable(self) -> bool:
        """A deletion that has begun is not taken back: half a removal is worth nothing to anybody."""
        if self.state is OperationState.QUEUED or self.state is OperationState.PAUSED:
            return True
        return self.state in OPEN and not self.kind.is_deletion


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationNote:
    """A line of an operation's own log."""

    at: datetime
    level: str
    text: str
    node_name: str = ""
