"""Threads of the caller with an agent: messages, and turns that answer them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from corral.agents.turns import StartedTurn
from corral.api.agents.lookups import LookupIn, get_visible_owner
from corral.api.deps import DepsIn
from corral.api.idempotency import run_once
from corral.domain.agent import Thread, ThreadMessage
from corral.store import agents as store
from corral.store.agents import MESSAGES_PER_READ
from corral.store.database import Transaction
from corral.wire.agents import (
    AgentMessageIn,
    AgentMessageOut,
    ThreadIn,
    ThreadListOut,
    ThreadMessageOut,
    ThreadMessagesOut,
    ThreadOut,
)
from corral.wire.base import make_clamp

router = APIRouter(prefix="/api/agents", tags=["agents"])
_ACCEPTED = 202


@router.post("/{name}/chat", status_code=202, response_model=AgentMessageOut)
async def chat_with_agent(request: Request, deps: DepsIn, lookup: LookupIn, body: AgentMessageIn) -> Response:
    """Send a message to an agent, in a thread or in a new one. The answer comes with the stream of the agent
    (`GET /api/agents/{name}/sse`) and with the run. 503 `no_agent_worker`: nothing was stored."""
    started: StartedTurn | None = None

    async def work(tx: Transaction) -> tuple[int, bytes]:
        nonlocal started
        history = [message.model_dump() for message in body.history]
        started = await deps.agents.turns.chat_in(tx, lookup, body.message, body.thread_id, history)
        shown = AgentMessageOut(run_id=started.run_id, message_id=started.run_id, thread_id=started.thread_id)
        return _ACCEPTED, shown.model_dump_json().encode()

    response = await run_once(request, deps.database, lookup.principal, work)
    if started is not None:
        await deps.runs.announce_cancelled(started.cancelled)
    return response


@router.get("/{name}/threads")
async def list_threads(
    deps: DepsIn, lookup: LookupIn, limit: Annotated[int, Query(ge=1), make_clamp(store.LISTED_MAX)] = 100
) -> ThreadListOut:
    """List your threads with an agent, the one used last first."""
    agent = await deps.agents.service.get(lookup)
    async with deps.database.transaction() as tx:
        found = await store.list_threads(tx, agent.id, get_visible_owner(lookup), limit)
    return ThreadListOut(threads=[_thread_to_wire(thread) for thread in found])


@router.post("/{name}/threads", status_code=201)
async def create_thread(deps: DepsIn, lookup: LookupIn, body: ThreadIn) -> ThreadOut:
    """Create an empty thread with an agent. A message without a thread creates one, too."""
    return _thread_to_wire(await deps.agents.service.create_thread(lookup, body.title))


@router.get("/{name}/threads/{thread_id}")
async def show_thread(deps: DepsIn, lookup: LookupIn, thread_id: str) -> ThreadOut:
    """Show one thread."""
    agent = await deps.agents.service.get(lookup)
    async with deps.database.transaction() as tx:
        return _thread_to_wire(await store.get_thread(tx, thread_id, agent.id, get_visible_owner(lookup)))


@router.delete("/{name}/threads/{thread_id}", status_code=204)
async def delete_thread(deps: DepsIn, lookup: LookupIn, thread_id: str) -> None:
    """Delete a thread with its messages, and cancel its turns."""
    agent = await deps.agents.service.get(lookup)
    await deps.agents.service.delete_thread(agent, thread_id, get_visible_owner(lookup))


@router.get("/{name}/threads/{thread_id}/messages")
async def list_messages(
    deps: DepsIn,
    lookup: LookupIn,
    thread_id: str,
    after: Annotated[int, Query(ge=0, le=2**31 - 1, description="Only messages with a larger number.")] = 0,
) -> ThreadMessagesOut:
    """List the messages of a thread in order."""
    agent = await deps.agents.service.get(lookup)
    async with deps.database.transaction() as tx:
        thread = await store.get_thread(tx, thread_id, agent.id, get_visible_owner(lookup))
        found = await store.list_messages(tx, thread.id, after=after)
    return ThreadMessagesOut(
        messages=[_message_to_wire(message) for message in found], has_more=len(found) == MESSAGES_PER_READ
    )


def _thread_to_wire(thread: Thread) -> ThreadOut:
    return ThreadOut(
        id=thread.id,
        title=thread.title,
        messages=thread.last_seq,
        created_at=thread.created_at,
        updated_at=thread.updated_at,
    )


def _message_to_wire(message: ThreadMessage) -> ThreadMessageOut:
    return ThreadMessageOut(
        seq=message.seq,
        role=message.role,
        content=message.message.get("content"),
        tool_calls=message.message.get("tool_calls") or [],
        tool_call_id=message.message.get("tool_call_id"),
        run_id=message.run_id,
        created_at=message.created_at,
    )
