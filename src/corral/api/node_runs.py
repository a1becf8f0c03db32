"""`/api/node/{node_id}/runs` and `/mcp`: what workers fetch and deliver about the runs that they hold, and how they
reach MCP servers that they are to call outside of runs.

A run is handed out only to the node that holds it. Secrets are resolved here and nowhere else, and travel on this
connection only.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request

from corral.agents.delegation import AgentQuestion
from corral.api.deps import ApiDeps, DepsIn, get_bearer_secret
from corral.api.large_body_route import LargeBodyRoute
from corral.domain.access import CLUSTER, RunTicketScope, parse_owner
from corral.domain.errors import Conflict, InvalidRequest, LimitReached, NotAllowed, NotFound, Unprocessable
from corral.domain.node import NodeId
from corral.domain.operation import Fault
from corral.domain.run import Run, RunEvent, RunKind
from corral.domain.secret import SecretScope
from corral.policy.artifacts import is_file_name
from corral.policy.secret_references import find_secret_reference
from corral.ports.credentials import FRONTENDS_AUDIENCE, parse_mcp_call_scope
from corral.runs.artifacts import ToolFile
from corral.runs.held_runs import lock_held
from corral.wire.run_work import (
    ApprovalDecision,
    AskAgentIn,
    AskAgentOut,
    McpServerFetchIn,
    McpServerFetchOut,
    McpServerSpec,
    RunEventsIn,
    RunEventsOut,
    RunSpec,
    RunWorkOut,
    ToolFileIn,
    ToolFileOut,
)

router = APIRouter(prefix="/api/node", tags=["node self-service"], route_class=LargeBodyRoute)
# How much longer than its budget a run's ticket for models lasts: a run may wait a day for a person. The ticket of a
# run that has ended works no more (`access/directory.py`).
TICKET_GRACE_S = 25 * 3600.0
# Their requests to models stay behind those of others.
BACKGROUND_KINDS = frozenset({RunKind.BATCH, RunKind.INGEST})
JobIdIn = Annotated[str, Query(max_length=64, description="The job that the worker was given.")]


@router.get("/{node_id}/runs/{run_id}")
async def fetch_run(request: Request, deps: DepsIn, node_id: str, run_id: str, job_id: JobIdIn = "") -> RunWorkOut:
    """Return what a worker needs for a run that it holds. Any other run is refused with 409."""
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request))
    work = await deps.runs.build_work(NodeId(entry.id), run_id, job_id)
    servers = [dict(server) for server in work.spec.get("mcp_servers", ())]
    try:
        await _resolve_secrets(deps, work.run.owner, servers)
        password = str(work.spec.get("repo_password", ""))
        password = await _resolve_value(deps, work.run.owner, password, is_declared=False)
    except (InvalidRequest, NotAllowed, NotFound) as error:
        # The owner has to know, and another worker would not do better.
        await deps.runs.writer.fail(NodeId(entry.id), work.run, Fault(code=error.slug, text=error.message))
        raise Conflict(f"The run cannot start. {error.message}", code="run_failed") from error
    more = {"run_id": work.run.id, "kind": work.run.kind, "ticket": _issue_ticket(deps, work.run)}
    spec = RunSpec.model_validate({**work.spec, **more, "mcp_servers": servers, "repo_password": password})
    return RunWorkOut(job_id=job_id, attempt=work.run.attempt, last_seq=work.run.last_seq, spec=spec)


@router.post("/{node_id}/runs/{run_id}/events")
async def deliver_run_events(
    request: Request, deps: DepsIn, node_id: str, run_id: str, body: Annotated[RunEventsIn | None, Body()] = None
) -> RunEventsOut:
    """Store new entries of a run's trace; without entries this is a sign of life. Repeating a delivery changes
    nothing."""
    body = body or RunEventsIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    too_large = next((event.seq for event in body.events if event.is_too_large()), None)
    if too_large is not None:
        raise InvalidRequest(f"Entry {too_large} of the trace is too large.", code="event_too_large")
    events = [
        RunEvent(seq=event.seq, at=event.at, type=event.type, tool=event.tool, data=event.data) for event in body.events
    ]
    result = await deps.runs.writer.deliver(NodeId(entry.id), run_id, body.job_id, events)
    return RunEventsOut(
        last_seq=result.last_seq,
        must_stop=result.must_stop,
        decisions={key: ApprovalDecision.model_validate(value) for key, value in result.decisions.items()},
    )


@router.post("/{node_id}/runs/{run_id}/files")
async def store_tool_file(
    request: Request, deps: DepsIn, node_id: str, run_id: str, body: Annotated[ToolFileIn | None, Body()] = None
) -> ToolFileOut:
    """Store a file that a tool of a run has made. The same name of a run is stored once."""
    body = body or ToolFileIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    if not is_file_name(body.name):
        raise InvalidRequest(
            "The name of the file is not allowed: it leads outside of the files of the run, or is too long.",
            code="invalid_file_name",
        )
    try:
        content = base64.b64decode(body.content, validate=True)
    except ValueError as error:
        raise InvalidRequest("The content of the file is not valid base64.", code="invalid_file") from error
    file = ToolFile(name=body.name, media_type=body.media_type, content=content)
    try:
        async with deps.database.transaction() as tx:
            # Also equal deliveries of a file wait for each other here.
            run = await lock_held(tx, run_id, NodeId(entry.id), body.job_id)
            artifact = await deps.artifacts.store_tool_file(tx, run.id, parse_owner(run.owner), file)
    except LimitReached as error:
        # Waiting would not help: the run goes on without the file.
        raise Unprocessable(error.message, hint=error.hint, code=error.slug) from error
    return ToolFileOut(id=artifact.id, path=f"{run.id}/{artifact.name}")


@router.post("/{node_id}/runs/{run_id}/agents/{name}")
async def ask_agent(
    request: Request,
    deps: DepsIn,
    node_id: str,
    run_id: str,
    name: str,
    body: Annotated[AskAgentIn | None, Body()] = None,
) -> AskAgentOut:
    """Ask another agent in the name of a run that the worker holds, or learn how the answer stands. The same tool call
    is one run. Whatever keeps the agent from answering is a text for the model, not an error."""
    body = body or AskAgentIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    question = AgentQuestion(name=name, message=body.message, call_id=body.call_id)
    reply = await deps.agents.delegation.ask(NodeId(entry.id), run_id, body.job_id, question)
    return AskAgentOut(run_id=reply.run_id, state=reply.state, content=reply.content, error_text=reply.error_text)


@router.post("/{node_id}/mcp")
async def fetch_mcp_server(
    request: Request, deps: DepsIn, node_id: str, body: Annotated[McpServerFetchIn | None, Body()] = None
) -> McpServerFetchOut:
    """Return how the MCP server is reached that a worker was sent a ticket for. A ticket is for one node and for a
    moment."""
    body = body or McpServerFetchIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request))
    found = deps.credentials.find_ticket_scope(body.ticket, audience=FRONTENDS_AUDIENCE)
    scope = found[0] if found is not None else ""
    target = parse_mcp_call_scope(scope)
    if target is None or not deps.credentials.is_valid_ticket(
        body.ticket, reader=entry.id, scope=scope, audience=FRONTENDS_AUDIENCE
    ):
        raise NotAllowed("This ticket is not for this node, or has expired.", code="ticket_refused")
    owner, server, model = target
    selection = await deps.agents.mcp_calls.select(owner, model, server)
    await _resolve_secrets(deps, owner, selection.servers)
    return McpServerFetchOut(
        session_key=selection.session_key, server=McpServerSpec.model_validate(selection.servers[0])
    )


def _issue_ticket(deps: ApiDeps, run: Run) -> str:
    """Return the key with which the worker asks models in the name of the run's owner."""
    return deps.credentials.issue_ticket(
        run.id,
        str(RunTicketScope(run_id=run.id, key_id=run.key_id, is_background=run.kind in BACKGROUND_KINDS)),
        audience=FRONTENDS_AUDIENCE,
        ttl_s=run.budgets.wall_s + TICKET_GRACE_S,
    )


async def _resolve_secrets(deps: ApiDeps, owner: str, servers: Sequence[dict[str, Any]]) -> None:
    """Put secrets in the place of their references, in headers and environments of MCP servers.

    Secrets of the cluster are for servers that an admin has declared: the owner of a run could name an address of
    their own otherwise.
    """
    for server in servers:
        is_declared = bool(server.pop("is_declared", False))
        for part in ("headers", "env"):
            values = server.get(part) or {}
            server[part] = {
                name: await _resolve_value(deps, owner, value, is_declared=is_declared)
                for name, value in values.items()
            }


async def _resolve_value(deps: ApiDeps, owner: str, value: str, *, is_declared: bool) -> str:
    found = find_secret_reference(value)
    if found is None:
        return value
    before, reference = found
    is_of_cluster = reference.scope is SecretScope.CLUSTER
    if is_of_cluster and not is_declared:
        raise NotAllowed(
            "Only an MCP server that an admin has declared may use a secret of the cluster.",
            hint="Store the secret as your own, or ask an admin to declare the server.",
            code="cluster_secret_refused",
        )
    resolved = await deps.secret_store.resolve(CLUSTER if is_of_cluster else parse_owner(owner), [reference.name])
    return f"{before}{resolved[reference.name].text}"
