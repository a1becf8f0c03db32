"""`GET /api/operations/events`: everything that happens to operations, as server-sent events.

Two sources in one stream. Changes come from the outbox, have an id and can be resumed on any frontend. Progress has
no id: it may be lost, the row says the same a moment later. A slow reader gets the newest progress, not all of it,
and never misses a change. However many watch, each frame is made once, and what waits for a reader goes out together.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse

from corral.api.events import QUIET_S, RETRY_MS, STREAM_HEADERS, render
from corral.api.operations.views import progress_out
from corral.api.parts import OperateIn, Parts, PartsIn
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
# Frames that are kept for the other readers. Progress of a thousand nodes is a third of a megabyte.
FRAMES_MAX = 512
BIG_FRAMES_MAX = 8
_Item = Event | Reset | Quiet | OperationDelta


class Frames:
    """The last few frames, for everybody who reads the same."""

    def __init__(self) -> None:
        self._changes: OrderedDict[int, tuple[Event, bytes]] = OrderedDict()
        self._progress: OrderedDict[int, tuple[OperationDelta, bytes]] = OrderedDict()

    def change(self, event: Event) -> bytes:
        # By identity: the feed and the deltas hand the same value to all, and the entry keeps it alive.
        kept = self._changes.get(id(event))
        if kept is None:
            kept = self._changes[id(event)] = (event, render(event, TOPICS).encode())
            if len(self._changes) > FRAMES_MAX:
                self._changes.popitem(last=False)
        return kept[1]

    def progress(self, parts: Parts, delta: OperationDelta) -> bytes:
        kept = self._progress.get(id(delta))
        if kept is None:
            kept = self._progress[id(delta)] = (delta, _delta(parts, delta).encode())
            if len(self._progress) > BIG_FRAMES_MAX:
                self._progress.popitem(last=False)
        return kept[1]


def _frames_of(request: Request) -> Frames:
    state = request.app.state
    if not hasattr(state, "frames"):
        state.frames = Frames()
    frames = state.frames
    assert isinstance(frames, Frames)
    return frames


@router.get("/api/operations/events", response_class=StreamingResponse)
async def operation_events(
    request: Request, parts: PartsIn, _: OperateIn, last_event_id: Annotated[str | None, Header(max_length=60)] = None
) -> StreamingResponse:
    """Changes of operations with ids to resume from, and between them `operation.progress`, which has none.
    `hello` and `reset` are as in `/api/events`."""
    after = Position.parse(last_event_id) if last_event_id else None
    stream = _stream(parts, _frames_of(request), after)
    return StreamingResponse(stream, media_type="text/event-stream", headers=STREAM_HEADERS)


async def _stream(parts: Parts, frames: Frames, after: Position | None) -> AsyncIterator[bytes]:
    start = after or parts.feed.position
    assert start is not None, "the feed has begun before the first request"
    queue: asyncio.Queue[_Item | None] = asyncio.Queue(maxsize=QUEUE_LIMIT)
    readers = Tasks("operation stream")
    # Both listen before the greeting goes out: what happens from now on is part of its promise.
    readers.start(_changes(parts, start, queue), name="changes")
    readers.start(_progress(parts, queue), name="progress")
    try:
        yield f"retry: {RETRY_MS}\nid: {start}\nevent: hello\ndata: {{}}\n\n".encode()
        while items := await _next(queue):
            yield b"".join(_rendered(parts, frames, items))
    finally:
        await readers.close()


async def _next(queue: asyncio.Queue[_Item | None]) -> list[_Item]:
    """What waits, or what comes next, up to the first progress, which may be large; empty at the end."""
    items: list[_Item] = []
    item = await queue.get()
    while item is not None:
        items.append(item)
        if queue.empty() or isinstance(item, OperationDelta):
            break
        item = queue.get_nowait()
    else:
        # For the next call, after what came before the end.
        if items:
            queue.put_nowait(None)
    return items


def _rendered(parts: Parts, frames: Frames, items: list[_Item]) -> Iterator[bytes]:
    """Of events that are not for this stream only the place of the last matters, for resuming."""
    place: Event | None = None
    for item in items:
        if isinstance(item, Event) and not item.kind.startswith(TOPICS):
            place = item
            continue
        if place is not None and isinstance(item, Event | Reset):
            place = None
        if isinstance(item, OperationDelta):
            yield frames.progress(parts, item)
        elif isinstance(item, Event):
            yield frames.change(item)
        else:
            yield render(item, TOPICS).encode()
    if place is not None:
        yield frames.change(place)


async def _changes(parts: Parts, start: Position, queue: asyncio.Queue[_Item | None]) -> None:
    async def pass_on() -> None:
        async with aclosing(parts.feed.watch(start, QUIET_S)) as items:
            async for item in items:
                await queue.put(item)

    # However it ends, the stream ends with it: the client comes back with its last id, to whichever frontend.
    await attempt(pass_on)
    await queue.put(None)


async def _progress(parts: Parts, queue: asyncio.Queue[_Item | None]) -> None:
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
