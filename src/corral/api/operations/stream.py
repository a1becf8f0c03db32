"""`GET /api/operations/events`: everything that happens to operations, as server-sent events.

Two sources in one stream. Changes come from the outbox, have an id and can be resumed on any frontend. Progress has
no id: it may be lost, the row says the same a moment later. A slow reader gets the newest progress, not all of it,
and never misses a change.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse

from corral.api.events import QUIET_S, RETRY_MS, STREAM_HEADERS, render
from corral.api.operations.views import progress_out
from corral.api.parts import AdminIn, Parts, PartsIn
from corral.bus.messages import OperationDelta
from corral.domain.cluster import Event, Position
from corral.events.feed import Quiet, Reset
from corral.runtime.guard import attempt
from corral.runtime.tasks import Tasks
from corral.wire.events import EventOut

router = APIRouter(tags=["operations"])
TOPICS = ("operation.", "operations.", "assignment.")
PROGRESS = "operation.progress"
# A reader that is this far behind makes the sources wait; they hold a place, not a list.
QUEUE_LIMIT = 64
_Item = Event | Reset | Quiet | OperationDelta | None


@router.get("/api/operations/events", response_class=StreamingResponse)
async def operation_events(
    parts: PartsIn, _: AdminIn, last_event_id: Annotated[str | None, Header(max_length=60)] = None
) -> StreamingResponse:
    """Changes of operations with ids to resume from, and between them `operation.progress`, which has none.
    `hello` and `reset` are as in `/api/events`."""
    after = Position.parse(last_event_id) if last_event_id else None
    return StreamingResponse(_stream(parts, after), media_type="text/event-stream", headers=STREAM_HEADERS)


async def _stream(parts: Parts, after: Position | None) -> AsyncIterator[str]:
    start = after or parts.feed.position
    assert start is not None, "the feed has begun before the first request"
    queue: asyncio.Queue[_Item] = asyncio.Queue(maxsize=QUEUE_LIMIT)
    readers = Tasks("operation stream")
    # Both listen before the greeting goes out: what happens from now on is part of its promise.
    readers.start(_changes(parts, start, queue), name="changes")
    readers.start(_progress(parts, queue), name="progress")
    try:
        yield f"retry: {RETRY_MS}\nid: {start}\nevent: hello\ndata: {{}}\n\n"
        while (item := await queue.get()) is not None:
            yield _delta(parts, item) if isinstance(item, OperationDelta) else render(item, TOPICS)
    finally:
        await readers.close()


async def _changes(parts: Parts, start: Position, queue: asyncio.Queue[_Item]) -> None:
    async def pass_on() -> None:
        async with aclosing(parts.feed.watch(start, QUIET_S)) as items:
            async for item in items:
                await queue.put(item)

    # However it ends, the stream ends with it: the client comes back with its last id, to whichever frontend.
    await attempt(pass_on)
    await queue.put(None)


async def _progress(parts: Parts, queue: asyncio.Queue[_Item]) -> None:
    async with aclosing(parts.deltas.watch()) as deltas:
        async for delta in deltas:
            await queue.put(delta)


def _delta(parts: Parts, delta: OperationDelta) -> str:
    event = EventOut(
        id="",
        kind=PROGRESS,
        key=delta.operation_id,
        at=parts.clock.wall(),
        data=progress_out(delta).model_dump(mode="json", by_alias=True, exclude_unset=True),
    )
    return f"event: {PROGRESS}\ndata: {event.model_dump_json()}\n\n"
