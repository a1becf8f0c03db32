"""`/api/agent/tasks` and `/api/agent/jobs`: the caller's tasks, their execution, and their jobs with traces as streams
(LocalAI-compatible).

A task or job of another owner does not exist for the caller. Admins see all of them with `all_users=true`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from corral.api.agents.documents import make_server_name
from corral.api.deps import ApiDeps, DepsIn, OwnerIn, VisibleOwnerIn
from corral.api.idempotency import create_once
from corral.api.large_body_route import LargeBodyRoute
from corral.api.revisions import IfMatch, parse_expected_revision
from corral.api.stream import RETRY_MS, FrameStream, make_stream_response
from corral.api.trace_stream import TraceStream, parse_last_entry, render_frame
from corral.domain.access import Principal
from corral.domain.agent import RemoteMcpServer
from corral.domain.errors import InvalidRequest
from corral.domain.run import RunEvent, RunTrigger
from corral.domain.task import (
    MediaKind,
    MediaSource,
    Task,
    TaskBudgets,
    TaskRun,
    TaskRunStatus,
    TaskSpec,
    TaskWebhook,
    WebhookDelivery,
    WebhookState,
)
from corral.policy import tasks as task_policy
from corral.policy.cron_words import describe_cron
from corral.policy.templates import list_parameters
from corral.policy.webhooks import format_secret
from corral.store import runs as run_store
from corral.store.database import Transaction
from corral.store.runs import EVENTS_PER_READ, LISTED_MAX, RunFilter
from corral.tasks.service import ExecutionRequest
from corral.wire.agents import McpServerIn
from corral.wire.base import make_clamp
from corral.wire.localai import describe_ignored
from corral.wire.tasks import (
    JobCreatedOut,
    JobIn,
    JobMediaOut,
    JobOut,
    JobTraceOut,
    JobWebhookOut,
    MediaSourceBody,
    SchedulePreviewOut,
    TaskBudgetsBody,
    TaskCreatedOut,
    TaskEntry,
    TaskIn,
    TaskOut,
    TaskWebhookBody,
    WebhookSecretOut,
)

router = APIRouter(prefix="/api/agent", tags=["tasks"], route_class=LargeBodyRoute)
# The fields with the MCP servers of a task.
SERVER_LISTS = ("mcp_servers", "mcp_stdio_servers")
_STILL = b": still\n\n"
# The fields of entries that hold a text for people: of the model, a result, the reason of a failure, or a state.
_CONTENT_FIELDS = ("text", "content", "error_text", "message")
# Enough to recognise a pattern by. Times are searched day by day: five 29ths of February that are Sundays take 50 ms.
PREVIEW_MAX = 5


@router.get("/tasks", response_model_exclude_unset=True)
async def list_tasks(deps: DepsIn, owner: VisibleOwnerIn) -> list[TaskOut]:
    """List tasks by name, without the names of their parameters."""
    return [_task_to_wire(task) for task in await deps.tasks.list_tasks(owner)]


@router.get("/schedule")
async def preview_schedule(
    deps: DepsIn,
    _: OwnerIn,
    cron: Annotated[str, Query(max_length=200, description="Five fields, or @hourly, @daily, …")],
    time_zone: Annotated[str, Query(max_length=100, description="IANA name of the zone of the pattern.")] = "UTC",
    count: Annotated[int, Query(ge=1, le=PREVIEW_MAX, description="How many times to return.")] = 3,
) -> SchedulePreviewOut:
    """Show what a cron pattern means and when it would start a task next. Nothing is stored."""
    preview = task_policy.preview_schedule(cron, time_zone, deps.clock.wall(), count)
    return SchedulePreviewOut(
        cron=preview.cron, time_zone=time_zone, words=preview.words, next_runs=list(preview.next_starts)
    )


@router.post("/tasks", status_code=201, response_model=TaskCreatedOut)
async def create_task(request: Request, deps: DepsIn, caller: OwnerIn, body: TaskIn) -> Response:
    """Create a task. With a cron pattern it runs first at the next time of the pattern."""
    spec = parse_task(body)

    async def create(tx: Transaction) -> TaskCreatedOut:
        task = await deps.tasks.create(tx, caller, spec)
        return TaskCreatedOut(id=task.id, warnings=describe_ignored(body.ignored))

    return await create_once(request, deps.database, caller, create)


@router.get("/tasks/{task_id}", response_model_exclude_unset=True)
async def show_task(deps: DepsIn, owner: VisibleOwnerIn, task_id: str) -> TaskOut:
    """Show one task, by its id or its name."""
    return _render_task(await deps.tasks.get(task_id, owner))


@router.put("/tasks/{task_id}", response_model_exclude_unset=True)
async def edit_task(
    deps: DepsIn, caller: OwnerIn, owner: VisibleOwnerIn, task_id: str, body: TaskIn, if_match: IfMatch = None
) -> TaskOut:
    """Replace the definition of a task. Its jobs so far stay as they were; its next cron time is computed again."""
    expects = parse_expected_revision(if_match)
    shown = _render_task(await deps.tasks.edit(task_id, owner, caller, parse_task(body), expects=expects))
    shown.warnings = describe_ignored(body.ignored)
    return shown


@router.delete("/tasks/{task_id}", status_code=204)
async def delete_task(deps: DepsIn, caller: OwnerIn, owner: VisibleOwnerIn, task_id: str) -> None:
    """Delete a task. Its jobs go on, and stay readable."""
    await deps.tasks.delete(task_id, owner, caller)


@router.post("/tasks/{task_id}/enable", response_model_exclude_unset=True)
async def enable_task(deps: DepsIn, caller: OwnerIn, owner: VisibleOwnerIn, task_id: str) -> TaskOut:
    """Enable a task: it can be executed, and its cron pattern fires from its next time on."""
    return _render_task(await deps.tasks.set_enabled(task_id, owner, caller, is_enabled=True))


@router.post("/tasks/{task_id}/disable", response_model_exclude_unset=True)
async def disable_task(deps: DepsIn, caller: OwnerIn, owner: VisibleOwnerIn, task_id: str) -> TaskOut:
    """Disable a task: it runs neither by cron nor on request. Jobs that have begun go on."""
    return _render_task(await deps.tasks.set_enabled(task_id, owner, caller, is_enabled=False))


@router.get("/tasks/{task_id}/webhook-secret")
async def show_webhook_secret(deps: DepsIn, caller: OwnerIn, task_id: str) -> WebhookSecretOut:
    """Show the secret that receivers check the signatures of a task's webhooks with. A task whose `webhook_secret`
    refers to a stored secret is signed with that one, which is not shown."""
    task = await deps.tasks.get(task_id, str(caller.owner))
    if task.spec.webhook_secret:
        raise InvalidRequest(
            f"The webhooks of {task.spec.name} are signed with a stored secret, which is not shown.",
            code="webhook_secret_stored",
        )
    return WebhookSecretOut(secret=format_secret(deps.derive_webhook_key(task.id)))


@router.post("/tasks/{name}/execute", status_code=201, response_model=JobCreatedOut)
async def execute_task(
    request: Request,
    deps: DepsIn,
    caller: OwnerIn,
    name: str,
    parameters: Annotated[dict[str, Any] | None, Body(examples=[{"city": "Rome"}])] = None,
) -> Response:
    """Execute a task by its name. The body is a flat object with the parameters of its prompt."""
    execution = ExecutionRequest(parameters=parameters or {}, trigger=_find_trigger(caller))
    return await _execute(request, deps, caller, name, execution)


@router.post("/jobs/execute", status_code=201, response_model=JobCreatedOut)
async def execute_job(request: Request, deps: DepsIn, caller: OwnerIn, body: JobIn) -> Response:
    """Execute a task with parameters and attachments. Attachments are addresses or data URIs; those of the task's own
    sources are used for the kinds that the request does not bring."""
    media = {
        MediaKind.IMAGE: body.images,
        MediaKind.VIDEO: body.videos,
        MediaKind.AUDIO: body.audios,
        MediaKind.FILE: body.files,
    }
    trigger = RunTrigger(body.triggered_by) if body.triggered_by else _find_trigger(caller)
    execution = ExecutionRequest(parameters=body.parameters, media=media, trigger=trigger)
    return await _execute(request, deps, caller, body.task_id, execution)


def _find_trigger(caller: Principal) -> RunTrigger:
    return RunTrigger.MANUAL if caller.is_session else RunTrigger.API


async def _execute(
    request: Request, deps: ApiDeps, caller: Principal, reference: str, execution: ExecutionRequest
) -> Response:
    prepared = await deps.tasks.prepare(reference, caller, execution)

    async def admit(tx: Transaction) -> JobCreatedOut:
        run_id = await deps.tasks.admit(tx, prepared)
        return JobCreatedOut(job_id=run_id, status=TaskRunStatus.PENDING, url=f"/api/agent/jobs/{run_id}")

    async with deps.tasks.admissions:
        return await create_once(request, deps.database, caller, admit)


@router.get("/jobs")
async def list_jobs(
    deps: DepsIn,
    owner: VisibleOwnerIn,
    task_id: Annotated[str, Query(max_length=200, description="Id or name of a task.")] = "",
    status: TaskRunStatus | None = None,
    limit: Annotated[int, Query(ge=1), make_clamp(LISTED_MAX)] = 50,
) -> list[JobOut]:
    """List jobs, newest first, without their traces. Answers are cut after 4,000 characters, and parameters of more
    than 16 KiB are left out."""
    task = await deps.tasks.get(task_id, owner) if task_id else None
    states = None if status is None else status.list_run_states()
    matching = RunFilter(owner=owner, task_id=task.id if task else None, states=states)
    return [job_to_wire(job) for job in await deps.tasks.list_runs(matching, limit)]


@router.get("/jobs/{job_id}")
async def show_job(deps: DepsIn, owner: VisibleOwnerIn, job_id: str) -> JobOut:
    """Show one job with its trace."""
    job = await deps.tasks.get_run(job_id, owner)
    async with deps.database.transaction() as tx:
        events = await run_store.read_events(tx, job.run.id, 0)
    shown = job_to_wire(job)
    shown.traces = [_trace_to_wire(event) for event in events]
    shown.has_more_traces = len(events) == EVENTS_PER_READ
    return shown


@router.delete("/jobs/{job_id}", status_code=204)
async def delete_job(deps: DepsIn, owner: VisibleOwnerIn, job_id: str) -> None:
    """Delete a job that has ended, with its trace."""
    job = await deps.tasks.get_run(job_id, owner)
    await deps.runs.delete(job.run.id, owner)


@router.post("/jobs/{job_id}/cancel")
async def cancel_job(deps: DepsIn, caller: OwnerIn, owner: VisibleOwnerIn, job_id: str) -> JobOut:
    """Cancel a job. One that is pending does not start; one that runs is stopped within seconds."""
    job = await deps.tasks.get_run(job_id, owner)
    await deps.runs.cancel(job.run.id, owner, caller.name)
    return job_to_wire(await deps.tasks.get_run(job_id, owner))


@router.get("/jobs/{job_id}/progress", response_class=StreamingResponse)
async def stream_job(
    request: Request,
    deps: DepsIn,
    owner: VisibleOwnerIn,
    job_id: str,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
) -> StreamingResponse:
    """Stream a job as server-sent events: `status` with its present state, then one event for each entry of its trace,
    then `done` with its end, and the stream closes. It resumes behind `Last-Event-ID` at any frontend; for a job that
    has ended it closes at once."""
    job = await deps.tasks.get_run(job_id, owner)
    trace = TraceStream(request, deps, owner).iter_frames(
        job.run.id, parse_last_entry(last_event_id), still=_STILL, until_ended=True
    )
    return make_stream_response(_render_progress(deps, job, trace))


async def _render_progress(deps: ApiDeps, job: TaskRun, trace: FrameStream) -> FrameStream:
    yield f"retry: {RETRY_MS}\n\n".encode() + render_frame("status", job_to_wire(job).model_dump_json())
    async with aclosing(trace):
        async for frame in trace:
            yield frame
    ended = await deps.tasks.find_run(job.run.id)
    if ended is not None:
        yield render_frame("done", job_to_wire(ended).model_dump_json())


def parse_task(body: TaskEntry) -> TaskSpec:
    """Return the task that a checked body describes, with a name for each MCP server."""
    return TaskSpec(
        name=body.name,
        description=body.description,
        model=body.model,
        prompt=body.prompt,
        is_enabled=body.enabled,
        cron=body.cron,
        time_zone=body.time_zone,
        cron_parameters=body.cron_parameters,
        overlap=body.overlap,
        catch_up=body.catch_up,
        webhooks=tuple(TaskWebhook(**one.model_dump()) for one in body.webhooks),
        webhook_secret=body.webhook_secret,
        media_sources=tuple(
            MediaSource(kind=one.type, url=one.url, headers=one.headers) for one in body.multimedia_sources
        ),
        labels=body.labels,
        mcp_servers=_parse_servers(body.mcp_servers),
        declared_servers=tuple(body.mcp_stdio_servers),
        # A list that is given and empty is a choice: no other servers.
        uses_model_servers=not any(name in body.model_fields_set and not getattr(body, name) for name in SERVER_LISTS),
        budgets=TaskBudgets(**body.budgets.model_dump()),
        max_attempts=body.max_attempts,
    )


def _parse_servers(servers: Sequence[McpServerIn]) -> tuple[RemoteMcpServer, ...]:
    """Return MCP servers, each with a name."""
    found: dict[str, RemoteMcpServer] = {}
    for server in servers:
        fields = server.model_dump()
        name = server.name or make_server_name(server.url, found)
        if name in found:
            raise InvalidRequest(f"Two MCP servers are called {name}.", code="bad_task")
        found[name] = RemoteMcpServer(**{**fields, "name": name})
    return tuple(found.values())


def render_server_lists(spec: TaskSpec) -> dict[str, list[Any]]:
    """Return the lists of a task's MCP servers as `parse_task` reads them.

    A list without servers is left out, unless it says that the task uses no others.
    """
    lists: tuple[list[Any], list[Any]] = ([asdict(one) for one in spec.mcp_servers], list(spec.declared_servers))
    named = zip(SERVER_LISTS, lists, strict=True)
    return {name: servers for name, servers in named if servers or not spec.uses_model_servers}


def _render_task(task: Task) -> TaskOut:
    """Return a single task. Its prompt is parsed, which takes up to 15 ms."""
    shown = _task_to_wire(task)
    shown.parameters = list_parameters(task.spec.prompt)
    return shown


def _task_to_wire(task: Task) -> TaskOut:
    spec = task.spec
    return TaskOut(
        id=task.id,
        name=spec.name,
        description=spec.description,
        model=spec.model,
        prompt=spec.prompt,
        enabled=spec.is_enabled,
        cron=spec.cron,
        cron_words=describe_cron(spec.cron) if spec.cron else "",
        time_zone=spec.time_zone,
        cron_parameters=dict(spec.cron_parameters),
        cron_note=task.cron_note,
        overlap=spec.overlap,
        catch_up=spec.catch_up,
        webhooks=[TaskWebhookBody(**asdict(webhook)) for webhook in spec.webhooks],
        webhook_secret=spec.webhook_secret,
        multimedia_sources=[
            MediaSourceBody(type=source.kind, url=source.url, headers=dict(source.headers))
            for source in spec.media_sources
        ],
        labels=dict(spec.labels),
        **render_server_lists(spec),
        budgets=TaskBudgetsBody(**asdict(spec.budgets)),
        max_attempts=spec.max_attempts,
        revision=task.revision,
        next_run_at=task.next_run_at,
        last_run_at=task.last_run_at,
        created_at=task.created_at,
        created_by=task.created_by,
        updated_at=task.updated_at,
    )


def job_to_wire(job: TaskRun) -> JobOut:
    """Return a job as its owner sees it, without its trace."""
    run, request, deliveries = job.run, job.run.request, job.deliveries
    errors = [one.last_error for one in deliveries if one.last_error and one.state is not WebhookState.DELIVERED]
    is_sent = bool(deliveries) and all(one.state is WebhookState.DELIVERED for one in deliveries)
    attachments = [JobMediaOut(**one) for one in request.get("media", ())]
    return JobOut(
        id=run.id,
        task_id=run.task_id,
        task=run.subject,
        model=str(request.get("model", "")),
        owner_name=run.owner_name,
        status=job.status,
        message=run.message,
        parameters=request.get("parameters", {}),
        attachments=attachments,
        images=_list_media_texts(attachments, MediaKind.IMAGE),
        videos=_list_media_texts(attachments, MediaKind.VIDEO),
        audios=_list_media_texts(attachments, MediaKind.AUDIO),
        files=_list_media_texts(attachments, MediaKind.FILE),
        result=str((run.result or {}).get("content", "")),
        error=run.fault.text if run.fault else "",
        error_code=run.fault.code if run.fault else None,
        triggered_by=run.trigger,
        node=run.node_name,
        attempt=run.attempt,
        webhooks=[_delivery_to_wire(one) for one in deliveries],
        webhook_sent=is_sent,
        webhook_sent_at=max((one.delivered_at for one in deliveries if one.delivered_at), default=None)
        if is_sent
        else None,
        webhook_error=errors[-1] if errors else "",
        created_at=run.created_at,
        started_at=run.started_at,
        completed_at=run.finished_at,
    )


def _delivery_to_wire(delivery: WebhookDelivery) -> JobWebhookOut:
    return JobWebhookOut(
        url=delivery.url,
        state=delivery.state,
        attempts=delivery.attempts,
        last_status=delivery.last_status,
        last_error=delivery.last_error,
        delivered_at=delivery.delivered_at,
    )


def _list_media_texts(attachments: Sequence[JobMediaOut], kind: MediaKind) -> list[str]:
    """Return attachments as LocalAI lists them, by their addresses. The content of others is not kept: their types
    are no attachments, so that a job is not repeated without them by accident."""
    return [one.address or one.type for one in attachments if one.kind == kind]


def _trace_to_wire(event: RunEvent) -> JobTraceOut:
    return JobTraceOut(
        seq=event.seq,
        time=event.at,
        type=event.type,
        tool=event.tool,
        data=dict(event.data),
        timestamp=event.at,
        tool_name=event.tool,
        content=_read_content(event),
        arguments=event.data.get("arguments"),
    )


def _read_content(event: RunEvent) -> str:
    """Return the text of an entry of a trace, as LocalAI's page shows it."""
    found = next((value for name in _CONTENT_FIELDS if (value := event.data.get(name))), "")
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
