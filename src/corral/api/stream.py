"""Streams of changes, progress and numbers as server-sent events, and the history of the last hour.

`/api/stream` has all that a page needs, `/api/operations/events` the part about operations, `/api/events` the changes
alone; `/api/history` and `/api/nodes/{node}/history` have curves from memory.

One stream from several sources, of which every route is a filter. Changes come from the outbox, have an id and can be
resumed on any frontend. Progress and numbers have none: they may be lost, and the rows, or the next number, say the
same a moment later. A slow reader delays no other, never misses a change, and of the rest gets the newest. However
many watch, each frame is rendered once, and waiting frames are sent together. A watcher whose access has ended,
because a key was revoked or a scope is narrower, is disconnected.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from corral.access.directory import require_scope
from corral.api.deps import ApiDeps, DepsIn, OperatorIn, authenticate_caller
from corral.api.operations import progress_to_wire
from corral.api.views import event_to_wire
from corral.bus.messages import OperationDelta
from corral.domain.access import Principal, Scope
from corral.domain.cluster import OutboxEvent, OutboxPosition
from corral.domain.errors import CorralError, NotFound
from corral.events.feed import QuietNotice, ResetNotice
from corral.insight.history import STEP_S, HistorySeries
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptSuccess, attempt
from corral.runtime.tasks import TaskSet
from corral.wire.live import EventOut, HistorySeriesOut

router = APIRouter()
OPERATION_TOPICS = ("operation.", "operations.", "assignment.")
LastIn = Annotated[str | None, Header(max_length=60)]
# A reader that is this far behind makes its sources wait; they hold a position, not a list.
QUEUE_LIMIT = 64
# After these events the access of the watcher is checked again.
_RIGHTS = ("key.", "user.", "session.")
# Items of type bytes are rendered frames of numbers.
# An event and not a comment, because pages cannot see comments and must tell a quiet connection from a dead one.
_STILL = b"event: still\ndata: {}\n\n"
StreamItem = OutboxEvent | ResetNotice | QuietNotice | OperationDelta | bytes
# Rendered server-sent events, one or several at a time.
FrameStream = AsyncGenerator[bytes, None]
ItemQueue = asyncio.Queue[StreamItem | None]
PROGRESS = "operation.progress"
# How many frames are kept for other readers. Progress of a thousand nodes is a third of a megabyte.
FRAMES_MAX = 512
BIG_FRAMES_MAX = 8
MinutesIn = Annotated[int, Query(ge=1, le=60, description="How many minutes to go back.")]
MINUTES = 30
# A comment this often keeps proxies from closing a quiet stream, and detects clients that have disconnected.
KEEPALIVE_S = 4.0
# How long a browser waits before it reconnects.
RETRY_MS = 1000
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@router.get("/api/stream", response_class=StreamingResponse, tags=["events"])
async def stream_everything(
    request: Request,
    deps: DepsIn,
    _: OperatorIn,
    last_event_id: LastIn = None,
    after: Annotated[
        str | None, Query(max_length=60, description="The same as the header `Last-Event-ID`, which takes precedence.")
    ] = None,
) -> StreamingResponse:
    """Stream every change with an id to resume from; between them, without ids, `operation.progress`, `live` (as
    `/api/live`, at the beginning and when it has changed) and `nodes` (all at the beginning, then those whose numbers
    have changed). `hello` and `reset` are as in `/api/events`; `still` comes when nothing has changed for 4 s."""
    return _respond(
        request,
        deps,
        WatchOptions(
            after=_parse_position(last_event_id or after),
            check_permission=make_permission_check(request, deps),
            has_numbers=True,
        ),
    )


@router.get("/api/operations/events", response_class=StreamingResponse, tags=["operations"])
async def stream_operation_events(
    request: Request, deps: DepsIn, _: OperatorIn, last_event_id: LastIn = None
) -> StreamingResponse:
    """Stream changes of operations with ids to resume from, and between them `operation.progress`, which has none.
    `hello` and `reset` are as in `/api/events`."""
    watch = WatchOptions(
        after=_parse_position(last_event_id),
        check_permission=make_permission_check(request, deps),
        topics=OPERATION_TOPICS,
    )
    return _respond(request, deps, watch)


def _respond(request: Request, deps: ApiDeps, watch: WatchOptions) -> StreamingResponse:
    deps.live_views.check_room()
    return make_stream_response(stream_frames(deps, _ensure_frame_cache(request, deps), watch))


def make_stream_response(frames: FrameStream) -> StreamingResponse:
    """Return a response that streams these frames. A `CorralError` of theirs ends the stream: the client reconnects
    with its last id, and then gets the reason as an error."""
    return StreamingResponse(_end_at_error(frames), media_type="text/event-stream", headers=STREAM_HEADERS)


async def _end_at_error(frames: FrameStream) -> FrameStream:
    with suppress(CorralError):
        async with aclosing(frames):
            async for frame in frames:
                yield frame


def _parse_position(text: str | None) -> OutboxPosition | None:
    return OutboxPosition.parse(text) if text else None


def make_permission_check(request: Request, deps: ApiDeps) -> Callable[[], Awaitable[Principal]]:
    """Return a function that raises `CorralError` if the caller may not watch the cluster any more."""

    async def look() -> Principal:
        return require_scope(await authenticate_caller(request, deps), Scope.OPERATE)

    return look


def _ensure_frame_cache(request: Request, deps: ApiDeps) -> FrameCache:
    state = request.app.state
    if not hasattr(state, "frames"):
        state.frames = FrameCache(deps.clock)
    frames = state.frames
    assert isinstance(frames, FrameCache)
    return frames


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Says what one watcher of `GET /api/stream` gets: from which position, which topics, and whether numbers.

    `topics` are prefixes of kinds; none is all of them.
    """

    after: OutboxPosition | None
    check_permission: Callable[[], Awaitable[object]]
    topics: tuple[str, ...] = ()
    has_numbers: bool = False


async def stream_frames(deps: ApiDeps, frames: FrameCache, options: WatchOptions) -> FrameStream:
    start = options.after or deps.feed.position
    assert start is not None, "the feed has begun before the first request"
    queue: ItemQueue = asyncio.Queue(maxsize=QUEUE_LIMIT)
    readers = TaskSet("stream")
    with deps.live_views.count_watcher(has_numbers=options.has_numbers):
        # All sources are subscribed before `hello` is sent, which promises every later change.
        readers.start(_forward_changes(deps, start, queue), name="changes")
        readers.start(_forward(deps.deltas.watch(), queue), name="progress")
        if options.has_numbers:
            readers.start(_forward_for_ever(deps, deps.live_views.live.watch, queue), name="live")
            readers.start(_forward_for_ever(deps, deps.live_views.nodes.watch, queue), name="nodes")
        try:
            yield f"retry: {RETRY_MS}\nid: {start}\nevent: hello\ndata: {{}}\n\n".encode()
            while items := await take_items(queue):
                yield b"".join(render_items(frames, items, options.topics))
                if _concerns_rights(items):
                    await options.check_permission()
        finally:
            await readers.close()


async def take_items(queue: ItemQueue) -> list[StreamItem]:
    """Return the waiting items, or wait for the next one, up to the first that may be large; empty at the end."""
    items: list[StreamItem] = []
    item = await queue.get()
    while item is not None:
        items.append(item)
        if queue.empty() or isinstance(item, OperationDelta | bytes):
            break
        item = queue.get_nowait()
    else:
        # Put back for the next call, after the items before the end.
        if items:
            queue.put_nowait(None)
    return items


def render_items(frames: FrameCache, items: list[StreamItem], topics: tuple[str, ...]) -> Iterator[bytes]:
    """Render items. Of events that are not for this stream only the position of the last matters, for resuming."""
    last_event: OutboxEvent | None = None
    for item in items:
        if isinstance(item, OutboxEvent) and topics and not item.kind.startswith(topics):
            last_event = item
            continue
        if last_event is not None and isinstance(item, OutboxEvent | ResetNotice):
            last_event = None
        if isinstance(item, bytes):
            yield item
        elif isinstance(item, OperationDelta):
            yield frames.render_progress(item)
        elif isinstance(item, OutboxEvent):
            yield frames.render_change(item)
        elif isinstance(item, QuietNotice) and not topics:
            yield _STILL
        else:
            yield render_frame(item, topics).encode()
    if last_event is not None:
        yield render_frame(last_event, topics).encode()


def _concerns_rights(items: Sequence[StreamItem]) -> bool:
    return any(
        isinstance(item, QuietNotice) or (isinstance(item, OutboxEvent) and item.kind.startswith(_RIGHTS))
        for item in items
    )


async def _forward_changes(deps: ApiDeps, start: OutboxPosition, queue: ItemQueue) -> None:
    # However a source ends, the stream ends with it: the client reconnects with its last id, to any frontend.
    await attempt(lambda: _forward(deps.feed.watch(start, KEEPALIVE_S), queue))
    await queue.put(None)


async def _forward(source: AsyncGenerator[StreamItem, None], queue: ItemQueue) -> None:
    async with aclosing(source) as items:
        async for item in items:
            await queue.put(item)


async def _forward_for_ever(deps: ApiDeps, watch: Callable[[], AsyncGenerator[bytes, None]], queue: ItemQueue) -> None:
    """Forward numbers for ever. If they cannot be read now, try again later; the changes go on meanwhile."""
    while not isinstance(await attempt(lambda: _forward(watch(), queue)), AttemptSuccess):
        await deps.clock.sleep(RETRY_MS / 1000)


class FrameCache:
    """Renders events for watchers of `GET /api/stream` once for all that follow the same topics, and caches a few."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changes: OrderedDict[int, tuple[OutboxEvent, bytes]] = OrderedDict()
        self._progress: OrderedDict[int, tuple[OperationDelta, bytes]] = OrderedDict()

    def render_change(self, event: OutboxEvent) -> bytes:
        # Keyed by identity: the feed and the deltas hand the same object to all readers, and the entry keeps it alive.
        kept = self._changes.get(id(event))
        if kept is None:
            kept = self._changes[id(event)] = (event, render_frame(event, ()).encode())
            if len(self._changes) > FRAMES_MAX:
                self._changes.popitem(last=False)
        return kept[1]

    def render_progress(self, delta: OperationDelta) -> bytes:
        kept = self._progress.get(id(delta))
        if kept is None:
            kept = self._progress[id(delta)] = (delta, _render_delta(self._clock.wall(), delta).encode())
            if len(self._progress) > BIG_FRAMES_MAX:
                self._progress.popitem(last=False)
        return kept[1]


def _render_delta(at: datetime, delta: OperationDelta) -> str:
    event = EventOut(
        id="",
        kind=PROGRESS,
        key=delta.operation_id,
        at=at,
        data=progress_to_wire(delta).model_dump(mode="json", by_alias=True, exclude_unset=True),
    )
    return f"event: {PROGRESS}\ndata: {event.model_dump_json()}\n\n"


@router.get("/api/history", tags=["cluster"])
async def show_cluster_history(deps: DepsIn, _: OperatorIn, minutes: MinutesIn = MINUTES) -> HistorySeriesOut:
    """Show requests, tokens, times and VRAM over all frontends and nodes: every five seconds since this frontend
    started, and once a minute before."""
    return _to_wire(deps.live_views.history.read_cluster(_compute_since(deps, minutes)))


@router.get("/api/nodes/{node}/history", tags=["nodes"])
async def show_node_history(deps: DepsIn, _: OperatorIn, node: str, minutes: MinutesIn = MINUTES) -> HistorySeriesOut:
    """Show memory, disk and requests of one node, by its id or its name. There are no values for the time while it was
    offline."""
    known = next((one.id for one in deps.directory.list_nodes() if node in (one.id, one.name)), None)
    if known is None:
        raise NotFound(
            f"There is no node {node[:80]!r}.", hint="`corral nodes list` shows the nodes.", code="node_not_found"
        )
    return _to_wire(deps.live_views.history.read_node(known, _compute_since(deps, minutes)))


def _compute_since(deps: ApiDeps, minutes: int) -> float:
    return deps.clock.wall().timestamp() - minutes * 60


def _to_wire(past: HistorySeries) -> HistorySeriesOut:
    return HistorySeriesOut(step_s=STEP_S, at=past.at, series=past.series)


@router.get("/api/events", response_class=StreamingResponse, tags=["events"])
async def stream_events(
    request: Request,
    deps: DepsIn,
    _: OperatorIn,
    last_event_id: Annotated[str | None, Header(max_length=60)] = None,
    topics: Annotated[str, Query(max_length=200, description="Prefixes, such as node,key")] = "",
) -> StreamingResponse:
    """Stream events. The stream begins with `hello`, whose id is its position. Send the last id back as `Last-Event-ID`
    to resume; the event `reset` means that events were missed and the state must be read again."""
    after = OutboxPosition.parse(last_event_id) if last_event_id else None
    kind_prefixes = tuple(f"{topic.strip()}." for topic in topics.split(",") if topic.strip())
    return make_stream_response(_iter_frames(deps, after, kind_prefixes, make_permission_check(request, deps)))


async def _iter_frames(
    deps: ApiDeps,
    after: OutboxPosition | None,
    kind_prefixes: tuple[str, ...],
    check_permission: Callable[[], Awaitable[object]],
) -> FrameStream:
    # `hello` promises every event after its id, including those that are written while it is being sent.
    start = after or deps.feed.position
    yield f"retry: {RETRY_MS}\nid: {start}\nevent: hello\ndata: {{}}\n\n".encode()
    async for item in deps.feed.watch(start, KEEPALIVE_S):
        yield render_frame(item, kind_prefixes).encode()
        if _concerns_rights([item]):
            await check_permission()


def render_frame(item: OutboxEvent | ResetNotice | QuietNotice, kind_prefixes: tuple[str, ...]) -> str:
    """Return one frame of a stream. Only events whose kind begins with one of `kind_prefixes` are sent; no prefix means
    all."""
    if isinstance(item, QuietNotice):
        return ": still here\n\n"
    if isinstance(item, ResetNotice):
        return f"id: {item.position}\nevent: reset\ndata: {{}}\n\n"
    if kind_prefixes and not item.kind.startswith(kind_prefixes):
        # Clients ignore a frame without data, but it moves the position at which they resume.
        return f"id: {item.position}\n\n"
    return f"id: {item.position}\nevent: {item.kind}\ndata: {event_to_wire(item).model_dump_json()}\n\n"
