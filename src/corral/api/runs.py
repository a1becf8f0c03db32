"""`/api/runs`: the caller's runs, their traces as lists and as streams, cancellation, and decisions about tool calls.

A run of another owner does not exist for the caller. Admins see all of them with `all_users=true`.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse

from corral.api.deps import DepsIn, OwnerIn, VisibleOwnerIn
from corral.api.downloads import FILE_RESPONSES, make_download
from corral.api.stream import RETRY_MS, FrameStream, make_stream_response
from corral.api.trace_stream import TraceStream, event_to_wire, parse_last_entry
from corral.domain.artifact import Artifact
from corral.domain.errors import InvalidRequest
from corral.domain.run import Run, RunKind, RunState
from corral.runs.artifacts import TOOL_FILES_MAX
from corral.store import artifacts as artifact_store
from corral.store import runs as store
from corral.store.artifacts import ArtifactFilter
from corral.store.database import as_uuid
from corral.store.runs import EVENTS_PER_READ, LISTED_MAX, RunFilter
from corral.wire.base import make_clamp
from corral.wire.runs import (
    CallDecisionIn,
    PendingApprovalOut,
    RunArtifactListOut,
    RunArtifactOut,
    RunListOut,
    RunOut,
    RunTraceOut,
    RunUsageOut,
)

router = APIRouter(prefix="/api/runs", tags=["runs"])
AfterIn = Annotated[int, Query(ge=0, le=2**62, description="Only entries with a larger number.")]
# Events and not comments: pages cannot see comments, and must tell a quiet connection from a dead one.
_HELLO = b"event: hello\ndata: {}\n\n"
_STILL = b"event: still\ndata: {}\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Filters of `GET /api/runs`, which lists runs."""

    kind: RunKind | None
    states: frozenset[RunState] | None
    node: str | None


async def _parse_run_query(
    kind: RunKind | None = None,
    state: Annotated[str, Query(max_length=20, description="A state, or `open` for all that have not ended.")] = "",
    node: Annotated[
        str, Query(max_length=255, description="The name or the id of the node that has or had the run.")
    ] = "",
) -> RunQuery:
    return RunQuery(kind=kind, states=_parse_states(state), node=node or None)


@router.get("")
async def list_runs(
    deps: DepsIn,
    owner: VisibleOwnerIn,
    query: Annotated[RunQuery, Depends(_parse_run_query)],
    limit: Annotated[int, Query(ge=1), make_clamp(LISTED_MAX)] = 50,
    before: Annotated[str, Query(max_length=100, description="`next` of the page before.")] = "",
) -> RunListOut:
    """List runs, newest first. Answers are cut after 4,000 characters."""
    matching = RunFilter(owner=owner, kind=query.kind, states=query.states, node=query.node)
    async with deps.database.transaction() as tx:
        found = await store.list_runs(tx, matching, limit, parse_page(before))
    return RunListOut(
        runs=[run_to_wire(run) for run in found],
        next=f"{found[-1].created_at.isoformat()}~{found[-1].id}" if len(found) == limit else None,
    )


def _parse_states(text: str) -> frozenset[RunState] | None:
    if not text:
        return None
    if text == "open":
        return frozenset(state for state in RunState if not state.is_final)
    if text not in {str(state) for state in RunState}:
        raise InvalidRequest(f"{text!r} is not a state of a run.", hint=f"open, {', '.join(RunState)}")
    return frozenset({RunState(text)})


def parse_page(text: str) -> tuple[datetime, str] | None:
    """Return the position of a page: the time and the id of the last run before it."""
    if not text:
        return None
    moment, _, run_id = text.partition("~")
    known = as_uuid(run_id)
    try:
        # In UTC, which also shows whether PostgreSQL can compare it.
        at = datetime.fromisoformat(moment).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _make_page_error() from error
    if known is None:
        raise _make_page_error()
    return at, known


def _make_page_error() -> InvalidRequest:
    return InvalidRequest("`before` is not the `next` of an earlier page.")


@router.get("/{run_id}")
async def show_run(deps: DepsIn, owner: VisibleOwnerIn, run_id: str) -> RunOut:
    """Show one run."""
    return run_to_wire(await deps.runs.get(run_id, owner))


@router.post("/{run_id}/cancel")
async def cancel_run(deps: DepsIn, caller: OwnerIn, owner: VisibleOwnerIn, run_id: str) -> RunOut:
    """Cancel a run. Its worker stops it, and what its tools do, within seconds."""
    return run_to_wire(await deps.runs.cancel(run_id, owner, caller.name))


@router.delete("/{run_id}", status_code=204)
async def delete_run(deps: DepsIn, owner: VisibleOwnerIn, run_id: str) -> None:
    """Delete a run that has ended, with its trace."""
    await deps.runs.delete(run_id, owner)


@router.post("/{run_id}/calls/{call_id}")
async def decide_call(deps: DepsIn, owner: VisibleOwnerIn, run_id: str, call_id: str, body: CallDecisionIn) -> RunOut:
    """Approve or refuse a tool call that waits for a person. The first decision counts."""
    run = await deps.runs.decide(run_id, owner, call_id, approved=body.approved, reason=body.reason)
    return run_to_wire(run)


@router.get("/{run_id}/artifacts")
async def list_run_artifacts(deps: DepsIn, owner: VisibleOwnerIn, run_id: str) -> RunArtifactListOut:
    """List the files that a run has made, oldest first."""
    run = await deps.runs.get(run_id, owner)
    async with deps.database.transaction() as tx:
        matching = ArtifactFilter(run_id=run.id)
        found = await artifact_store.list_artifacts(tx, matching, limit=TOOL_FILES_MAX, oldest_first=True)
    return RunArtifactListOut(artifacts=[artifact_to_wire(artifact) for artifact in found])


@router.get("/{run_id}/artifacts/{artifact_id}", response_class=StreamingResponse, responses=FILE_RESPONSES)
async def read_run_artifact(deps: DepsIn, owner: VisibleOwnerIn, run_id: str, artifact_id: str) -> StreamingResponse:
    """Download a file that a run has made."""
    run = await deps.runs.get(run_id, owner)
    artifact = await deps.artifacts.get(artifact_id, run.owner)
    if artifact.run_id != run.id:
        raise artifact_store.make_not_found_error(artifact_id)
    return make_download(deps.artifacts.iter_content(artifact), artifact)


@router.get("/{run_id}/trace")
async def show_trace(deps: DepsIn, owner: VisibleOwnerIn, run_id: str, after: AfterIn = 0) -> RunTraceOut:
    """List entries of a run's trace."""
    run = await deps.runs.get(run_id, owner)
    async with deps.database.transaction() as tx:
        events = await store.read_events(tx, run.id, after)
    return RunTraceOut(events=[event_to_wire(event) for event in events], has_more=len(events) == EVENTS_PER_READ)


@router.get("/{run_id}/events", response_class=StreamingResponse)
async def stream_trace(
    request: Request,
    deps: DepsIn,
    owner: VisibleOwnerIn,
    run_id: str,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
    after: AfterIn = 0,
) -> StreamingResponse:
    """Stream a run's trace as server-sent events, one for each entry, with its number as id. The stream resumes behind
    `Last-Event-ID` at any frontend, and ends behind the entry `end`. `hello` and `still` have no id: the stream begins
    with `hello`, and sends `still` when nothing has happened for 2 s."""
    run = await deps.runs.get(run_id, owner)
    trace = TraceStream(request, deps, owner).iter_frames(run.id, parse_last_entry(last_event_id, after), still=_STILL)
    return make_stream_response(_begin_stream(trace))


async def _begin_stream(trace: FrameStream) -> FrameStream:
    yield f"retry: {RETRY_MS}\n\n".encode() + _HELLO
    async with aclosing(trace):
        async for frame in trace:
            yield frame


def artifact_to_wire(artifact: Artifact) -> RunArtifactOut:
    return RunArtifactOut(
        id=artifact.id,
        name=artifact.name,
        path=f"{artifact.run_id}/{artifact.name}",
        kind=artifact.kind,
        media_type=artifact.media_type,
        size_bytes=artifact.size_bytes,
        sha256=artifact.sha256,
        created_at=artifact.created_at,
        expires_at=artifact.expires_at,
    )


def run_to_wire(run: Run) -> RunOut:
    result = run.result or {}
    return RunOut(
        id=run.id,
        kind=run.kind,
        subject=run.subject,
        state=run.state,
        message=run.message,
        trigger=run.trigger,
        owner_name=run.owner_name,
        agent_id=run.agent_id,
        task_id=run.task_id,
        thread_id=run.thread_id,
        parent_id=run.parent_id,
        attempt=run.attempt,
        node=run.node_name,
        usage=RunUsageOut(
            prompt_tokens=run.usage.prompt_tokens,
            completion_tokens=run.usage.completion_tokens,
            steps=run.usage.steps,
            tool_calls=run.usage.tool_calls,
        ),
        approvals=[PendingApprovalOut(call_id=call_id, **entry) for call_id, entry in run.approvals.items()],
        content=str(result.get("content", "")),
        reason=str(result.get("reason", "")),
        error_code=run.fault.code if run.fault else None,
        error_text=run.fault.text if run.fault else None,
        last_seq=run.last_seq,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
    )
