"""`GET /api/events`: everything that happens, as server-sent events, resumable on any frontend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from corral.api.parts import OperateIn, Parts, PartsIn
from corral.api.views import event_out
from corral.domain.cluster import Event, Position
from corral.domain.errors import StoreUnavailable
from corral.events.feed import Quiet, Reset

router = APIRouter(tags=["events"])
# A comment this often keeps proxies from closing a quiet stream, and finds clients that are gone.
QUIET_S = 4.0
# What a browser waits before it reconnects.
RETRY_MS = 1000
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@router.get("/api/events", response_class=StreamingResponse)
async def events(
    parts: PartsIn,
    _: OperateIn,
    last_event_id: Annotated[str | None, Header(max_length=60)] = None,
    topics: Annotated[str, Query(max_length=200, description="Prefixes, such as node,key")] = "",
) -> StreamingResponse:
    """Begins with `hello`, whose id is where the stream stands. Send the last id back as `Last-Event-ID` to resume;
    the event `reset` says that too much has passed and the state must be read anew."""
    after = Position.parse(last_event_id) if last_event_id else None
    wanted = tuple(f"{topic.strip()}." for topic in topics.split(",") if topic.strip())
    return StreamingResponse(
        _stream(parts, after, wanted),
        media_type="text/event-stream",
        headers=STREAM_HEADERS,
    )


async def _stream(parts: Parts, after: Position | None, wanted: tuple[str, ...]) -> AsyncIterator[str]:
    # The promise of `hello` is everything after its id: what happens while it is being sent is part of that.
    start = after or parts.feed.position
    yield f"retry: {RETRY_MS}\nid: {start}\nevent: hello\ndata: {{}}\n\n"
    try:
        async for item in parts.feed.watch(start, QUIET_S):
            yield render(item, wanted)
    except StoreUnavailable:
        return  # The client comes back with its last id; by then PostgreSQL may be back too.


def render(item: Event | Reset | Quiet, wanted: tuple[str, ...]) -> str:
    """One frame of a stream. `wanted` are prefixes of kinds; none is all of them."""
    if isinstance(item, Quiet):
        return ": still here\n\n"
    if isinstance(item, Reset):
        return f"id: {item.position}\nevent: reset\ndata: {{}}\n\n"
    if wanted and not item.kind.startswith(wanted):
        # A frame without data is no event to anybody, but it moves the place from which the client resumes.
        return f"id: {item.position}\n\n"
    return f"id: {item.position}\nevent: {item.kind}\ndata: {event_out(item).model_dump_json()}\n\n"
