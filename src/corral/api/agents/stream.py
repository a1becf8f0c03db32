"""`GET /api/agents/{name}/sse`: what an agent does for the caller, as server-sent events in the form of LocalAI.

| event | data |
|---|---|
| `json_message` | a message of the caller or of the agent: id, sender, content, timestamp, metadata |
| `json_message_status` | how the turn stands: processing, waiting_approval, retrying, completed, cancelled or error |
| `stream_event` | a piece of the turn: reasoning, content, tool_call, tool_result, done with the usage of the turn |
| `json_error` | why a turn has failed |

Every event has an id. A stream that resumes with it (`Last-Event-ID`), at whichever frontend, neither loses nor repeats
an event: the id says how far the reader has come in each turn, and within an entry that makes several events. Pages
ask for `signs`: they cannot see comments, and must tell a quiet connection from a dead one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from corral.agents.stream import AgentStreamItem, StreamCursor, parse_cursor
from corral.api.agents.lookups import LookupIn
from corral.api.deps import ApiDeps, DepsIn, authenticate_caller
from corral.api.stream import RETRY_MS, FrameStream, make_stream_response
from corral.domain.agent import Agent
from corral.domain.run import Run, RunEvent, RunEventType, is_run_end

router = APIRouter(prefix="/api/agents", tags=["agents"])
_STILL = b": still\n\n"
_HELLO_SIGN = b"event: hello\ndata: {}\n\n"
_STILL_SIGN = b"event: still\ndata: {}\n\n"
_TEXTS = {RunEventType.CONTENT: "content", RunEventType.REASONING: "reasoning"}
_STATUSES = {
    RunEventType.APPROVAL_REQUESTED: "waiting_approval",
    RunEventType.APPROVAL_RESOLVED: "processing",
    RunEventType.RETRIED: "retrying",
}
Frame = tuple[str, dict[str, Any]]


@router.get("/{name}/sse", response_class=StreamingResponse)
async def stream_agent(
    request: Request,
    deps: DepsIn,
    lookup: LookupIn,
    last_event_id: Annotated[str | None, Header(max_length=16_000)] = None,
    after: Annotated[
        str, Query(max_length=16_000, description="The same as `Last-Event-ID`, for clients that cannot send it.")
    ] = "",
    *,
    signs: Annotated[
        bool, Query(description="Send the events `hello` at the beginning and `still` when nothing has happened.")
    ] = False,
) -> StreamingResponse:
    """Stream what an agent does for you: messages, reasoning, tool calls and results, in all your threads with it. A
    new stream begins with the turns that are open; with `Last-Event-ID` it goes on behind that event, at any
    frontend."""
    agent = await deps.agents.service.get(lookup)
    position = StreamPosition.parse(last_event_id or after)
    frames = _render(request, deps, agent, str(lookup.principal.owner), position, has_signs=signs)
    return make_stream_response(frames)


class StreamPosition:
    """Position at which a browser's event stream of an LLM agent's turns resumes.

    A cursor, and how many events of the next entry of one turn were sent before.
    """

    def __init__(self, cursor: StreamCursor | None = None, sent: dict[str, int] | None = None) -> None:
        self.cursor = cursor
        self.sent = sent or {}

    @classmethod
    def parse(cls, text: str) -> StreamPosition:
        """Read the id of an event. A text that is not an id means: from now on."""
        head, _, part = text.partition("!")
        cursor = parse_cursor(head) if head else None
        run_id, _, number = part.partition(".")
        is_part = cursor is not None and number.isdecimal() and len(number) < 4
        return cls(cursor, {run_id: int(number)} if is_part else None)


async def _render(
    request: Request, deps: ApiDeps, agent: Agent, owner: str, position: StreamPosition, *, has_signs: bool
) -> FrameStream:
    cursor = position.cursor or await deps.agents.streams.begin(agent, owner)
    # A client that is cut off before the first event resumes here, too.
    first = "" if position.cursor else f"id: {cursor}\n"
    yield f"{first}retry: {RETRY_MS}\n\n".encode() + (_HELLO_SIGN if has_signs else b"")
    sent = dict(position.sent)
    async for items in deps.agents.streams.watch(agent, owner, cursor):
        await authenticate_caller(request, deps)
        if items:
            yield b"".join(piece for item in items for piece in _render_item(item, sent.pop(item.run.id, 0)))
            continue
        yield _STILL_SIGN if has_signs else _STILL


def _render_item(item: AgentStreamItem, sent: int) -> Iterator[bytes]:
    """Yield the events of one entry, behind those that the reader has already."""
    frames = list(_list_frames(item.run, item.event))
    seq = item.event.seq if item.event is not None else 0
    before = replace(item.cursor, seen={**item.cursor.seen, item.run.id: seq - 1})
    for number, (name, data) in enumerate(frames, start=1):
        if number > sent:
            event_id = str(item.cursor) if number == len(frames) else f"{before}!{item.run.id}.{number}"
            yield f"id: {event_id}\nevent: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _list_frames(run: Run, event: RunEvent | None) -> Iterator[Frame]:
    place = {"run_id": run.id, "thread_id": run.thread_id}
    if event is None:
        messages = run.request.get("messages") or [{}]
        sender = "user" if run.thread_id is not None else "system"
        yield _make_message(run.id, sender, messages[-1].get("content"), run.created_at, place)
        yield "json_message_status", {"status": "processing", "timestamp": _to_ms(run.created_at), **place}
        return
    data = event.data
    if event.type in _TEXTS:
        yield "stream_event", {"type": _TEXTS[event.type], "content": str(data.get("text", "")), **place}
    elif event.type is RunEventType.TOOL_CALL:
        call = {"tool_name": event.tool or data.get("name"), "tool_args": data.get("arguments")}
        yield "stream_event", {"type": "tool_call", "call_id": data.get("call_id"), **call, **place}
    elif event.type is RunEventType.TOOL_RESULT:
        result = {"tool_name": event.tool or data.get("name"), "tool_result": data.get("content")}
        more = {"call_id": data.get("call_id"), "is_error": data.get("is_error") is True}
        yield "stream_event", {"type": "tool_result", **result, **more, **place}
    elif event.type in _STATUSES:
        call = {"call_id": data.get("call_id"), "tool_name": event.tool or data.get("name")}
        status = {"status": _STATUSES[event.type], "timestamp": _to_ms(event.at)}
        yield "json_message_status", {**status, **(call if event.type is not RunEventType.RETRIED else {}), **place}
    elif is_run_end(event.type, data):
        yield from _list_end_frames(run, event, place)


def _list_end_frames(run: Run, event: RunEvent, place: dict[str, Any]) -> Iterator[Frame]:
    data, at = event.data, _to_ms(event.at)
    state = str(data.get("state") or "failed")
    done = {"state": state, "reason": data.get("reason", ""), "usage": _read_usage(run, data.get("usage"))}
    yield "stream_event", {"type": "done", **done, **place}
    if state == "completed":
        yield _make_message(f"{run.id}-agent", "agent", str(data.get("content", "")), event.at, place)
        yield "json_message_status", {"status": "completed", "timestamp": at, **place}
    elif state == "cancelled":
        yield "json_message_status", {"status": "cancelled", "timestamp": at, **place}
    else:
        problem = {"error": str(data.get("error_text") or "The turn failed."), "code": data.get("error_code")}
        yield "json_error", {**problem, "timestamp": at, **place}
        yield "json_message_status", {"status": "error", "timestamp": at, **place}


def _read_usage(run: Run, reported: object) -> dict[str, int]:
    """Return what a turn has used, as its worker reported it with the end; else as its trace counts it."""
    counts = asdict(run.usage)
    found = reported if isinstance(reported, Mapping) else counts
    return {name: value if isinstance(value := found.get(name), int) else 0 for name in counts}


def _make_message(message_id: str, sender: str, content: object, at: datetime, place: dict[str, Any]) -> Frame:
    message = {"id": message_id, "sender": sender, "content": content, "timestamp": _to_ms(at)}
    return "json_message", {**message, "metadata": place}


def _to_ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)
