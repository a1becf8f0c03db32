"""What engines print: `/api/nodes/{node}/backend-logs`. Lines have numbers; a stream resumes after the last one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from fastapi.responses import StreamingResponse

from corral.api.events import QUIET_S, RETRY_MS, STREAM_HEADERS
from corral.api.parts import OperateIn, Parts, PartsIn
from corral.bus.messages import Log, LogLine, ReadLog
from corral.domain.errors import Unavailable
from corral.nodes import processes
from corral.wire.backends import LogLineOut, LogOut
from corral.wire.events import EventOut

router = APIRouter(prefix="/api/nodes/{node}/backend-logs", tags=["backends"])
KeyIn = Annotated[str, Path(max_length=300, description="model#replica, with # as %23.", examples=["tiny#0"])]
NUMBER = r"^\d{1,18}$"
# How long the worker waits for a line before it says that there is none; well below the limit of the subject.
WAIT_S = 5.0
LINES = 200


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
) -> StreamingResponse:
    """The last lines and then each new one, as server-sent events whose ids are line numbers. Ends when the node is
    off the bus; connecting again with the last id misses nothing that the node still has."""
    # Asked before the answer begins: what is wrong is then an error and no empty stream.
    if last_event_id is None:
        first = await processes.last_lines(parts.database, parts.bus, node, key, LINES)
    else:
        wish = ReadLog(key=key, after=int(last_event_id), limit=processes.LINES_MAX)
        first = await processes.read_log(parts.database, parts.bus, node, wish)
    return StreamingResponse(_stream(parts, node, key, first), media_type="text/event-stream", headers=STREAM_HEADERS)


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


async def _stream(parts: Parts, node: str, key: str, log: Log) -> AsyncIterator[str]:
    after = log.next
    yield f"retry: {RETRY_MS}\nid: {log.lines[0].number - 1 if log.lines else after}\nevent: hello\ndata: {{}}\n\n"
    quiet_s = 0.0
    while True:
        for line in log.lines:
            yield _line(parts, key, line)
        quiet_s = 0.0 if log.lines else quiet_s + WAIT_S
        if quiet_s >= QUIET_S:
            quiet_s = 0.0
            yield ": still here\n\n"
        if parts.health.is_stopping:
            return  # This frontend stops; another one goes on from the last id.
        wish = ReadLog(key=key, after=after, limit=processes.LINES_MAX, wait_s=WAIT_S)
        try:
            log = await processes.read_log(parts.database, parts.bus, node, wish)
        except Unavailable:
            return  # The client comes back with its last id; by then the node may be back too.
        after = max(after, log.next)


def _line(parts: Parts, key: str, line: LogLine) -> str:
    out = EventOut(id=str(line.number), kind="line", key=key, at=parts.clock.wall(), data=asdict(line))
    return f"id: {line.number}\nevent: line\ndata: {out.model_dump_json()}\n\n"
