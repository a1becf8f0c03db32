"""Bodies about operations, their nodes, their logs, and pending changes.

Field names of LocalAI are kept where it has one (`jobID`, `isDeletion`, `currentBytes`); all other fields follow their
spelling. A value that is not known is absent.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from corral.wire.base import LenientModel
from corral.wire.nodes import Bytes


def to_localai_name(name: str) -> str:
    """Return a field name in LocalAI's spelling: `job_id` becomes `jobID`."""
    camel = to_camel(name)
    return f"{camel[:-2]}ID" if camel.endswith("Id") else camel


class CamelCaseModel(LenientModel):
    """Base class of response bodies in LocalAI's spelling: camel case, with `ID` in capitals."""

    model_config = ConfigDict(alias_generator=to_localai_name, populate_by_name=True)


class BuildOut(LenientModel):
    """The build of a backend that an operation installs on one node, chosen for the node's hardware."""

    name: str = Field(description="The concrete backend.", examples=["llama-cpp-cuda12"])
    version: str = ""
    meta: str = Field(default="", description="The name that was requested, from which the build was chosen.")
    gallery: str = ""
    source: str = Field(default="", description="pypi, url, oci, directory or bundled")
    uri: str = ""
    sha256: str = ""
    size_bytes: Bytes | None = None


class TargetOut(LenientModel):
    """One node of an operation, with the progress of the operation on that node."""

    node_id: str
    node_name: str
    status: str = Field(
        description="LocalAI's word: queued, downloading, running_on_worker, success, error; otherwise as `state`."
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
    begun: bool = Field(default=True, description="Whether the command was sent to its worker.")
    wave: int = 0
    attempt: int = 0
    version: str = Field(default="", description="The version that the node gets.")
    previous_version: str = ""
    finished_at: datetime | None = None


class TargetDetailOut(TargetOut):
    """One node of an operation with all details, such as the build it gets and its errors."""

    job_id: str = Field(description="Id of the worker's job.")
    generation: int = 0
    build: BuildOut | None = None
    is_rollback: bool = False
    stop_wanted: bool = Field(default=False, description="The worker has not got the command to stop yet.")
    contacted_at: datetime | None = None
    heard_at: datetime | None = None


class OperationOut(CamelCaseModel):
    """An operation (a long action that Corral drives on nodes), as `GET /api/operations` lists it."""

    id: str
    job_id: str = Field(description="The same as `id`.")
    name: str = Field(description="Name without gallery and node.", examples=["llama-cpp"])
    full_name: str = Field(
        description="Name with gallery and node.", examples=["corral@llama-cpp", "node:<id>:llama-cpp"]
    )
    kind: str = Field(examples=["backend_install"])
    state: str = Field(examples=["running", "waiting_on_nodes", "completed_with_pending", "failed"])
    rev: int = Field(description="Increases with every change; the larger revision is the newer state.")
    progress: float = Field(description="Percentage, 0 to 100.")
    task_type: str = Field(examples=["installation", "upgrade", "reinstallation", "deletion"])
    is_deletion: bool
    is_backend: bool
    is_queued: bool
    cancellable: bool
    message: str
    node_id: str | None = Field(default=None, description="Only set for an operation on exactly one node.")
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
    after_id: str | None = Field(default=None, description="This operation starts when that one has ended.")
    retry_of: str | None = None
    nodes: list[TargetOut] = Field(default_factory=list)


class OperationDetailOut(OperationOut):
    """Response of `GET /api/operations/{operation_id}`: an operation with all details of its nodes."""

    request: dict[str, Any] = Field(description="All parameters of the request; a retry uses the same.")
    owner: str | None = Field(default=None, description="The frontend that drives the operation now.")
    attempt: int = 0
    is_reaped: bool = Field(
        default=False, description="The failure was not observed; a reported outcome may still replace it."
    )
    dismissed_at: datetime | None = None
    dismissed_by: str | None = None
    nodes: list[TargetDetailOut] = Field(default_factory=list)  # type: ignore[assignment]


class OperationsOut(LenientModel):
    """Response of `GET /api/operations`: the operations that are active or have failed lately."""

    operations: list[OperationOut]


class EndedOperationOut(CamelCaseModel):
    """An operation that has ended, as `GET /api/operations/history` lists it."""

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
    nodes: list[str] = Field(default_factory=list, description="Names of its nodes at that time; the first twenty.")
    node_count: int = Field(default=0, description="Number of its nodes; 0 if it ended before any was chosen.")


class OperationHistoryOut(LenientModel):
    """Response of `GET /api/operations/history`: a page of the operations that have ended."""

    operations: list[EndedOperationOut]
    next: str | None = Field(
        default=None, description="Send this as `before` for the next page; absent on the last page."
    )
    stale: str | None = Field(default=None, description="Why the list may be out of date, if it may be.")


class OperationNoteOut(LenientModel):
    """One line in the log of an operation, as `GET /api/operations/{operation_id}/events` lists it."""

    at: datetime
    level: str = Field(examples=["info", "warning", "error"])
    text: str
    node_name: str = ""


class OperationActionOut(LenientModel):
    """Response to cancelling, pausing, resuming or dismissing an operation: its state, and a sentence."""

    success: bool = True
    message: str
    operation: OperationOut


class OperationRetryOut(OperationActionOut):
    """Response to retrying an operation: the new operation that repeats the old one."""

    id: str
    deduplicated: bool = False


class ClearedHistoryOut(LenientModel):
    """Response of `DELETE /api/operations/history`: the number of ended operations that were removed from it."""

    success: bool = True
    removed: int = Field(description="Number of deleted records.")


class AssignmentOut(LenientModel):
    """An item of `GET /api/backend-intents`: a change of a backend that a node has not made yet."""

    node_id: str
    node_name: str
    backend: str
    desired: str = Field(description="present, replaced, absent or rolled_back")
    version: str = ""
    state: str = Field(description="open; dead once it has failed too often and is not tried again")
    generation: int
    operation_id: str
    attempts: int = 0
    next_retry_at: datetime | None = None
    error: str | None = None
    error_code: str | None = None
    created_at: datetime


class OperationProgressOut(CamelCaseModel):
    """Data of the stream event `operation.progress`: how an operation has moved since the event before."""

    id: str
    rev: int
    state: str
    progress: float
    phase: str | None = None
    current_bytes: Bytes | None = None
    total_bytes: Bytes | None = None
    message: str = ""
    nodes: list[TargetOut] = Field(default_factory=list)
