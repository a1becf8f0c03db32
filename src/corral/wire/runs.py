"""Bodies about runs: what their owners see of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from corral.wire.base import LenientModel, StrictModel


class RunUsageOut(LenientModel):
    """Tokens, model calls and tool calls that a run has used."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    steps: int = Field(default=0, description="Calls of the model.")
    tool_calls: int = 0


class PendingApprovalOut(LenientModel):
    """A tool call of a run that waits for a person to allow or refuse it, or has been decided."""

    call_id: str
    tool: str
    arguments: Any = None
    requested_at: datetime | None = None
    approved: bool | None = Field(default=None, description="Absent until a person has decided.")
    reason: str = ""


class RunOut(LenientModel):
    """One run in responses: work on behalf of a person, such as a turn of an LLM agent or a job of a task."""

    id: str
    kind: str = Field(description="agent_turn, task, chat, batch or quantize.")
    subject: str = Field(description="The name of the agent, task or model.")
    state: str = Field(description="queued, leased, running, waiting_approval, completed, failed, cancelled or lost.")
    message: str = Field(description="A sentence about the state.")
    trigger: str = Field(description="api, manual, cron, agent or schedule.")
    owner_name: str
    agent_id: str | None = None
    task_id: str | None = None
    thread_id: str | None = None
    parent_id: str | None = Field(default=None, description="The run that started this one as a tool.")
    attempt: int = Field(description="How often a worker has begun it.")
    node: str = Field(default="", description="The node that has or had it.")
    usage: RunUsageOut
    approvals: list[PendingApprovalOut] = Field(default_factory=list)
    content: str = Field(
        default="", description="The answer, once the run has completed. Lists cut it after 4,000 characters."
    )
    reason: str = Field(default="", description="Why the loop ended: answer, steps, tool_calls, tokens, loop, …")
    error_code: str | None = None
    error_text: str | None = None
    last_seq: int = Field(description="The number of entries in the trace.")
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None


class RunListOut(LenientModel):
    """Response of `GET /api/runs`: a page of runs, newest first."""

    runs: list[RunOut]
    next: str | None = Field(default=None, description="Pass as `before` to get the next page; absent at the end.")


class RunEventOut(LenientModel):
    """One entry of a run's trace in responses, such as a piece of text or a tool call."""

    seq: int
    at: datetime
    type: str = Field(
        description="status, step, reasoning, content, tool_call, tool_result, approval_requested, "
        "approval_resolved, usage, compacted, retried or end."
    )
    tool: str = ""
    data: dict[str, Any] = Field(default_factory=dict)


class RunTraceOut(LenientModel):
    """Response of `GET /api/runs/{run_id}/trace`: entries of the run's trace, in order."""

    events: list[RunEventOut]
    has_more: bool = False


class CallDecisionIn(StrictModel):
    """Body of `POST /api/runs/{run_id}/calls/{call_id}`: whether a person allows the run to make that tool call."""

    approved: bool
    reason: Annotated[str, StringConstraints(max_length=1000)] = Field(
        default="", description="Passed on to the model if the call is refused."
    )


class RunArtifactOut(StrictModel):
    """A file that a tool of a run has made, in responses."""

    id: str
    name: str
    path: str = Field(description="For `GET /api/agents/{name}/files?path=`, if an agent's tool made it.")
    kind: str = Field(description="batch or tool.")
    media_type: str
    size_bytes: int
    sha256: str
    created_at: datetime
    expires_at: datetime | None = None


class RunArtifactListOut(StrictModel):
    """Response of `GET /api/runs/{run_id}/artifacts`: the files that tools of the run have made."""

    artifacts: list[RunArtifactOut]
