"""What engines print: `/api/nodes/{node}/backend-logs`. Lines have numbers; a stream resumes after the last one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from fastapi.responses import StreamingResponse

from corral.api.events import QUIET_S, RETRY_MS, STREAM_HEADERS
from corral.api.parts import OperateIn, Parts, PartsIn
from corral.bus.messages import LogLine, ReadLog
from corral.domain.errors import NotFound, Unavailable
from corral.nodes import processes
from corral.wire.backends import LogLineOut, LogOut
from corral.wire.events import EventOut

router = APIRouter(prefix="/api/nodes/{node}/backend-logs", tags=["backends"])
KeyIn = Annotated[str, Path(max_length=300, description="model#replica, with # as %23.", examples=["tiny#0"])]
NUMBER = r"^\d{1,18}$"
# How long the worker waits for a line before it says that there is none; well below the limit of the subject.
WAIT_S = 5.0
LINES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a log is, and of which process."""

    node: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Lines of a log, and the number after which more follow."""

    lines: tuple[LogLine, ...]
    next: int
    # None of what the reader has seen is of this log.
    is_new: bool = False

    @property
    def before(self) -> int:
        """The number after which these lines follow."""
        return self.lines[0].number - 1 if self.lines else self.next


@router.get("")
async def list_logs(parts: PartsIn, _: OperateIn, node: str) -> list[str]:
    """The processes of the node that have left lines."""
    return sorted(await processes.log_keys(parts.database, parts.bus, node))


@router.get("/{key:path}/stream", response_class=StreamingResponse)
async def follow_log(
    parts: PartsIn,
    _: OperateIn,
    node: str,
    key: KeyIn,
    last_event_id: Annotated[str | None, Header(pattern=NUMBER, description="The number of the last line.")] = None,
    after: Annotated[str | None, Query(pattern=NUMBER, description="As `Last-Event-ID`, which wins.")] = None,
) -> StreamingResponse:
    """The last lines and then each new one, as server-sent events whose ids are line numbers; `still` comes when no
    line has for 5 s. Ends when the node is off the bus; connecting again with the last id misses nothing that the
    node still has. `reset` says that the log has begun anew: what was read before is of another one."""
    seen, log = last_event_id or after, _Place(node=node, key=key)
    # Asked before the answer begins: what is wrong is then an error and no empty stream.
    first = await _newest(parts, log) if seen is None else await _after(parts, log, int(seen))
    return StreamingResponse(_stream(parts, log, first), media_type="text/event-stream", headers=STREAM_HEADERS)


@router.get("/{key:path}")
async def read_log(
    parts: PartsIn,
    _: OperateIn,
    node: str,
    key: KeyIn,
    lines: Annotated[int, Query(ge=1, le=processes.LINES_MAX)] = LINES,
) -> LogOut:
    """The last lines of one process."""
    log = await processes.last_lines(parts.database, parts.bus, node, key, lines)
    return LogOut(key=key, lines=[LogLineOut(**asdict(line)) for line in log.lines], first=log.first, next=log.next)


async def _newest(parts: Parts, log: _Place, *, is_new: bool = False) -> _Piece:
    found = await processes.last_lines(parts.database, parts.bus, log.node, log.key, LINES)
    return _Piece(lines=found.lines, next=found.next, is_new=is_new)


async def _after(parts: Parts, log: _Place, seen: int, wait_s: float = 0.0) -> _Piece:
    """What follows a line. A log that has not come that far is another one: its folder was lost or made room."""
    wish = ReadLog(key=log.key, after=seen, limit=processes.LINES_MAX, wait_s=wait_s)
    found = await processes.read_log(parts.database, parts.bus, log.node, wish)
    if found.next < seen:
        return await _newest(parts, log, is_new=True)
    return _Piece(lines=found.lines, next=found.next)


async def _stream(parts: Parts, log: _Place, piece: _Piece) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MS}\nid: {piece.before}\nevent: hello\ndata: {{}}\n\n"
    quiet_s = 0.0
    while True:
        if piece.is_new:
            yield f"id: {piece.before}\nevent: reset\ndata: {{}}\n\n"
        for line in piece.lines:
            yield _line(parts, log.key, line)
        quiet_s = 0.0 if piece.lines else quiet_s + WAIT_S
        if quiet_s >= QUIET_S:
            quiet_s = 0.0
            yield "event: still\ndata: {}\n\n"
        if parts.health.is_stopping:
            return  # This frontend stops; another one goes on from the last id.
        try:
            piece = await _after(parts, log, piece.next, WAIT_S)
        except (Unavailable, NotFound):
            return  # The client comes back with its last id, and hears then what is wrong, if it still is.


def _line(parts: Parts, key: str, line: LogLine) -> str:
    out = EventOut(id=str(line.number), kind="line", key=key, at=parts.clock.wall(), data=asdict(line))
    return f"id: {line.number}\nevent: line\ndata: {out.model_dump_json()}\n\n"
