"""Operations as JSON: what an admin sees of one, of its nodes, of its log and of what is owed.

The ancestor's field names are kept where it had one (`jobID`, `isDeletion`, `currentBytes`); everything else follows
their spelling. Whatever is not known is absent.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from corral.wire.base import Lenient
from corral.wire.nodes import Bytes


def ancestor_name(name: str) -> str:
    """`job_id` is `jobID` on the wire."""
    camel = to_camel(name)
    return f"{camel[:-2]}ID" if camel.endswith("Id") else camel


class Camel(Lenient):
    model_config = ConfigDict(alias_generator=ancestor_name, populate_by_name=True)


class BuildOut(Lenient):
    """What one node gets, resolved for its hardware."""

    name: str = Field(description="The concrete backend.", examples=["llama-cpp-cuda12"])
    version: str = ""
    meta: str = Field(default="", description="The name through which it was asked for.")
    gallery: str = ""
    source: str = Field(default="", description="pypi, url, oci, directory or bundled")
    uri: str = ""
    sha256: str = ""
    size_bytes: Bytes | None = None


class TargetOut(Lenient):
    """One node of an operation."""

    node_id: str
    node_name: str
    status: str = Field(
        description="The ancestor's word: queued, downloading, running_on_worker, success, error; else as `state`."
    )
    state: str = Field(
        description="queued, working, unconfirmed, success, error, cancelled, superseded or skipped",
        examples=["working"],
    )
    phase: str | None = None
    file_name: str = ""
    current: Bytes | None = None
    total: Bytes | None = None
    percentage: float = 0.0
    error: str | None = None
    error_code: str | None = None
    begun: bool = Field(default=True, description="Whether its worker was ever told.")
    wave: int = 0
    attempt: int = 0
    version: str = Field(default="", description="The version that it is to have.")
    previous_version: str = ""
    finished_at: datetime | None = None


class TargetInFull(TargetOut):
    job_id: str = Field(description="The worker's own unit of work.")
    generation: int = 0
    build: BuildOut | None = None
    is_rollback: bool = False
    stop_wanted: bool = Field(default=False, description="The worker has still to be told to stop.")
    contacted_at: datetime | None = None
    heard_at: datetime | None = None


class OperationOut(Camel):
    """An operation as the live list has it."""

    id: str
    job_id: str = Field(description="The same as `id`.")
    name: str = Field(description="Without gallery and node.", examples=["llama-cpp"])
    full_name: str = Field(description="With them.", examples=["corral@llama-cpp", "node:<id>:llama-cpp"])
    kind: str = Field(examples=["backend_install"])
    state: str = Field(examples=["running", "waiting_on_nodes", "completed_with_pending", "failed"])
    rev: int = Field(description="Grows with every change; whoever holds a larger one has the newer state.")
    progress: float = Field(description="0 to 100")
    task_type: str = Field(examples=["installation", "upgrade", "reinstallation", "deletion"])
    is_deletion: bool
    is_backend: bool
    is_queued: bool
    cancellable: bool
    message: str
    node_id: str | None = Field(default=None, description="Only of an operation on exactly one node.")
    node_name: str | None = None
    phase: str | None = None
    current_bytes: Bytes | None = None
    total_bytes: Bytes | None = None
    error: str | None = None
    error_code: str | None = None
    created_by: str
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    updated_at: datetime
    deadline_at: datetime | None = None
    after_id: str | None = Field(default=None, description="Runs when that one has ended.")
    retry_of: str | None = None
    nodes: list[TargetOut] = Field(default_factory=list)


class OperationInFull(OperationOut):
    request: dict[str, Any] = Field(description="Everything that was asked for; a retry asks for the same.")
    owner: str | None = Field(default=None, description="The frontend that drives it now.")
    attempt: int = 0
    is_reaped: bool = Field(default=False, description="Nobody saw it fail; a true outcome may still replace this.")
    dismissed_at: datetime | None = None
    dismissed_by: str | None = None
    nodes: list[TargetInFull] = Field(default_factory=list)  # type: ignore[assignment]


class OperationsOut(Lenient):
    operations: list[OperationOut]


class RecordOut(Camel):
    """An operation that has ended."""

    id: str
    job_id: str
    name: str
    full_name: str
    kind: str
    state: str
    is_backend: bool
    is_deletion: bool
    node_id: str | None = None
    node_name: str | None = None
    task_type: str
    outcome: str = Field(description="completed, failed, cancelled or superseded")
    message: str = ""
    error: str | None = None
    error_code: str | None = None
    created_by: str
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    nodes: list[str] = Field(
        default_factory=list, description="Names of the nodes that it was for, as they were then; the first twenty."
    )
    node_count: int = Field(default=0, description="How many nodes it was for; 0 if it ended before any was chosen.")


class HistoryOut(Lenient):
    operations: list[RecordOut]
    next: str | None = Field(default=None, description="Send it as `before` to read on; absent at the end.")
    stale: str | None = Field(default=None, description="Why this is not the newest, when it is not.")


class NoteOut(Lenient):
    """A line of an operation's log."""

    at: datetime
    level: str = Field(examples=["info", "warning", "error"])
    text: str
    node_name: str = ""


class ActionOut(Lenient):
    success: bool = True
    message: str
    operation: OperationOut


class RetryOut(ActionOut):
    """`operation` is the new one."""

    id: str
    deduplicated: bool = False


class ClearedOut(Lenient):
    success: bool = True
    removed: int = Field(description="How many records are gone.")


class IntentOut(Lenient):
    """What a node still owes."""

    node_id: str
    node_name: str
    backend: str
    desired: str = Field(description="present, replaced, absent or rolled_back")
    version: str = ""
    state: str = Field(description="open, or dead after too many real failures")
    generation: int
    operation_id: str
    attempts: int = 0
    next_retry_at: datetime | None = None
    error: str | None = None
    error_code: str | None = None
    created_at: datetime


class ProgressOut(Camel):
    """The data of the event `operation.progress`: only what moved. The row has the same a moment later."""

    id: str
    rev: int
    state: str
    progress: float
    phase: str | None = None
    current_bytes: Bytes | None = None
    total_bytes: Bytes | None = None
    message: str = ""
    nodes: list[TargetOut] = Field(default_factory=list)
