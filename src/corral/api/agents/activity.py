"""What an agent does and did for the caller: its status, the steps of its turns, and files that its tools made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from corral.api.agents.lookups import LookupIn, get_visible_owner
from corral.api.deps import DepsIn
from corral.api.downloads import FILE_RESPONSES, make_download
from corral.api.runs import run_to_wire
from corral.domain.agent import Agent
from corral.domain.errors import NotAllowed, NotFound
from corral.domain.run import Run, RunEvent, RunEventType, RunState
from corral.policy.artifacts import is_inside
from corral.store import agents as store
from corral.store import artifacts as artifact_store
from corral.store import runs as run_store
from corral.store.runs import RunFilter
from corral.wire.agents import AgentStatusOut, ObservableListOut, ObservableOut

router = APIRouter(prefix="/api/agents", tags=["agents"])
# How many steps are shown, newest first.
OBSERVABLES_MAX = 100
HISTORY_SHOWN = 10
# What LocalAI calls a turn among the steps of an agent.
_TURN = "chat"
_OPEN = frozenset(state for state in RunState if not state.is_final)


@router.get("/{name}/status")
async def show_agent_status(deps: DepsIn, lookup: LookupIn) -> AgentStatusOut:
    """Show what an agent does now for you, and its newest runs."""
    agent, owner = await deps.agents.service.get(lookup), get_visible_owner(lookup)
    async with deps.database.transaction() as tx:
        newest = await run_store.list_runs(tx, RunFilter(agent_id=agent.id, owner=owner), HISTORY_SHOWN)
        opened = await run_store.count_runs(tx, RunFilter(agent_id=agent.id, owner=owner, states=_OPEN))
        threads = await store.count_threads(tx, agent.id, str(lookup.principal.owner))
    return AgentStatusOut(
        name=agent.name,
        status=agent.status,
        is_running=any(state is not RunState.QUEUED for state in opened),
        open_runs=sum(opened.values()),
        threads=threads,
        next_run_at=agent.next_run_at,
        last_run_at=agent.last_run_at,
        history=[run_to_wire(run) for run in newest],
        name_of_localai=agent.name,
        history_of_localai=[_describe_turn(run) for run in newest],
    )


@router.get("/{name}/observables")
async def list_observables(deps: DepsIn, lookup: LookupIn) -> ObservableListOut:
    """List the newest steps of an agent's turns for you: each turn, and the tool calls in it."""
    agent, owner = await deps.agents.service.get(lookup), get_visible_owner(lookup)
    async with deps.database.transaction() as tx:
        runs = await run_store.list_runs(tx, RunFilter(agent_id=agent.id, owner=owner), OBSERVABLES_MAX)
        events = await run_store.list_tool_events(tx, [run.id for run in runs], 2 * OBSERVABLES_MAX)
    steps = [_render_turn(agent, run) for run in runs] + _render_calls(agent, events)
    steps.sort(key=lambda step: step.created_at, reverse=True)
    shown = steps[:OBSERVABLES_MAX]
    return ObservableListOut(name=agent.name, history=shown, history_of_localai=shown)


@router.delete("/{name}/observables", status_code=204)
async def clear_observables(deps: DepsIn, lookup: LookupIn) -> None:
    """Delete your runs with an agent that have ended, with their traces. Threads keep their messages."""
    agent = await deps.agents.service.get(lookup)
    deleted = run_store.PRUNED_PER_PASS
    while deleted >= run_store.PRUNED_PER_PASS:
        async with deps.database.transaction() as tx:
            deleted = await run_store.delete_ended(tx, agent.id, str(lookup.principal.owner))


@router.get("/{name}/files", response_class=StreamingResponse, responses=FILE_RESPONSES)
async def fetch_agent_file(
    deps: DepsIn, lookup: LookupIn, path: Annotated[str, Query(min_length=1, max_length=1024)]
) -> StreamingResponse:
    """Return a file that a tool of an agent has made for you, by the path that its result names. Paths outside of these
    files are refused with 403."""
    agent = await deps.agents.service.get(lookup)
    if not is_inside(path):
        raise NotAllowed("The path leads outside of the agent's files.", code="path_outside")
    run_id, _, file_name = path.partition("/")
    async with deps.database.transaction() as tx:
        run = await run_store.find_run(tx, run_id, owner=get_visible_owner(lookup))
        is_of_agent = run is not None and run.agent_id == agent.id
        artifact = await artifact_store.find_by_name(tx, run_id, file_name) if is_of_agent else None
    if artifact is None or not artifact.is_complete:
        raise NotFound(
            "The agent has no file at this path.",
            hint="GET /api/runs/{run_id}/artifacts lists files.",
            code="file_not_found",
        )
    return make_download(deps.artifacts.iter_content(artifact), artifact)


def _read_question(run: Run) -> Any:
    messages = run.request.get("messages") or [{}]
    return messages[-1].get("content")


def _read_answer(run: Run) -> str:
    return str((run.result or {}).get("content", ""))


def _describe_turn(run: Run) -> str:
    """Return a turn as a text in the form of LocalAI's history of actions."""
    outcome = _read_answer(run) or (run.fault.text if run.fault else run.message)
    return f"Reasoning: \nAction taken: {_TURN}\nParameters: {_read_question(run)}\nResult: {outcome}"


def _render_turn(agent: Agent, run: Run) -> ObservableOut:
    question, completion = _read_question(run), None
    if run.state.is_final:
        answer = _read_answer(run)
        completion = {
            "content": answer,
            "error": run.fault.text if run.fault else None,
            "state": str(run.state),
            "conversation": [{"role": "assistant", "content": answer}] if answer else [],
        }
    return ObservableOut(
        id=run.id,
        agent=agent.name,
        name=_TURN,
        state=run.state,
        created_at=run.created_at,
        creation={
            "message": question,
            "trigger": str(run.trigger),
            "thread_id": run.thread_id,
            "chat_completion_message": {"role": "user", "content": question},
        },
        completion=completion,
    )


def _render_calls(agent: Agent, events: Sequence[tuple[str, RunEvent]]) -> list[ObservableOut]:
    results = {
        (run_id, event.data.get("call_id")): event for run_id, event in events if event.type is RunEventType.TOOL_RESULT
    }
    steps = []
    for run_id, event in events:
        if event.type is not RunEventType.TOOL_CALL:
            continue
        result = results.get((run_id, event.data.get("call_id")))
        name, arguments = event.tool or str(event.data.get("name", "")), event.data.get("arguments")
        completion = None if result is None else _render_result(result)
        is_error = completion is not None and completion["is_error"]
        steps.append(
            ObservableOut(
                id=f"{run_id}-{event.seq}",
                parent_id=run_id,
                agent=agent.name,
                name=name,
                state="running" if completion is None else "failed" if is_error else "completed",
                created_at=event.at,
                creation={"tool_args": arguments, "function_definition": {"name": name}, "function_params": arguments},
                completion=completion,
            )
        )
    return steps


def _render_result(event: RunEvent) -> dict[str, Any]:
    content, is_error = event.data.get("content"), event.data.get("is_error") is True
    more = {"error": content} if is_error else {"action_result": content}
    return {"result": content, "is_error": is_error, **more}
