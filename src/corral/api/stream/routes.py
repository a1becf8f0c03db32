"""`GET /api/stream`, all that a page needs, and `GET /api/operations/events`, what is about operations of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from corral.access.allowed import allowed
from corral.api.events import STREAM_HEADERS
from corral.api.parts import OperateIn, Parts, PartsIn, who
from corral.api.stream import history
from corral.api.stream.frames import Frames
from corral.api.stream.watching import Watch, stream
from corral.domain.access import Principal, Scope
from corral.domain.cluster import Position

router = APIRouter(routes=history.router.routes)
OPERATION_TOPICS = ("operation.", "operations.", "assignment.")
LastIn = Annotated[str | None, Header(max_length=60)]


@router.get("/api/stream", response_class=StreamingResponse, tags=["events"])
async def everything(
    request: Request,
    parts: PartsIn,
    _: OperateIn,
    last_event_id: LastIn = None,
    after: Annotated[str | None, Query(max_length=60, description="As `Last-Event-ID`, which wins.")] = None,
) -> StreamingResponse:
    """Every change with an id to resume from; between them, without ids, `operation.progress`, `live` (as `/api/live`,
    at the beginning and when it has changed) and `nodes` (all at the beginning, then those whose numbers have changed).
    `hello` and `reset` are as in `/api/events`; `still` comes when nothing has changed for 4 s."""
    return _respond(
        request, parts, Watch(after=_position(last_event_id or after), may=_may(request, parts), has_numbers=True)
    )


@router.get("/api/operations/events", response_class=StreamingResponse, tags=["operations"])
async def operation_events(
    request: Request, parts: PartsIn, _: OperateIn, last_event_id: LastIn = None
) -> StreamingResponse:
    """Changes of operations with ids to resume from, and between them `operation.progress`, which has none.
    `hello` and `reset` are as in `/api/events`."""
    watch = Watch(after=_position(last_event_id), may=_may(request, parts), topics=OPERATION_TOPICS)
    return _respond(request, parts, watch)


def _respond(request: Request, parts: Parts, watch: Watch) -> StreamingResponse:
    parts.board.check_room()
    frames = stream(parts, _frames_of(request, parts), watch)
    return StreamingResponse(frames, media_type="text/event-stream", headers=STREAM_HEADERS)


def _position(text: str | None) -> Position | None:
    return Position.parse(text) if text else None


def _may(request: Request, parts: Parts) -> Callable[[], Awaitable[Principal]]:
    async def look() -> Principal:
        return allowed(await who(request, parts), Scope.OPERATE)

    return look


def _frames_of(request: Request, parts: Parts) -> Frames:
    state = request.app.state
    if not hasattr(state, "frames"):
        state.frames = Frames(parts.clock)
    frames = state.frames
    assert isinstance(frames, Frames)
    return frames
