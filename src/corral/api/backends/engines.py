"""Routes about engines: their logs (`/api/nodes/{node}/backend-logs`), and memory and processor use
(`/backend/monitor`).

Lines of a log have numbers; a stream resumes after the last one. Workers measure memory and processor use for each
call; a node that does not respond is named, and the rest is returned.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import StreamingResponse

from corral.api.deps import ApiDeps, DepsIn, OperatorIn
from corral.api.downloads import make_attachment_headers, make_file_name
from corral.api.stream import KEEPALIVE_S, RETRY_MS, FrameStream, make_permission_check, make_stream_response
from corral.bus.messages import LogLine, ReadLog, ReadLogReply
from corral.domain.errors import NotFound
from corral.domain.replica import ReplicaState
from corral.nodes import commands
from corral.nodes.commands import NodeProcessesReport
from corral.store import assignments as assignment_store
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.wire.backends import (
    EngineLogLineOut,
    EngineLogOut,
    EngineMemoryOut,
    EngineMonitorOut,
    InstalledSystemOut,
    LoadedReplicaOut,
    NodeEngineProcessOut,
)
from corral.wire.live import EventOut

router = APIRouter(prefix="/api/nodes/{node}/backend-logs", tags=["backends"])
ProcessKeyPath = Annotated[str, Path(max_length=300, description="model#replica, with # as %23.", examples=["tiny#0"])]
NUMBER = r"^\d{1,18}$"
# How long the worker waits for a line before it replies without one; well below the limit of the subject.
WAIT_S = 5.0
LINES = 200
# Parts of 1,000 lines: more than the rotated files of any engine, and an end for a worker whose log has none.
DOWNLOAD_PARTS_MAX = 1000
_TEXT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The lines of the log.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}
_monitor_router = APIRouter(tags=["backends"])


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogSource:
    """Says which process' log is read, and on which node."""

    node: str
    key: str


async def _parse_source(node: str, key: ProcessKeyPath) -> _LogSource:
    return _LogSource(node=node, key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogPiece:
    """Holds lines of a log, and the number after which more follow."""

    lines: tuple[LogLine, ...]
    next: int
    # Whether this is another log than the one that the reader has read from before.
    is_new: bool = False

    @property
    def start(self) -> int:
        """Return the number of the line before the first of these."""
        return self.lines[0].number - 1 if self.lines else self.next


@router.get("")
async def list_logs(deps: DepsIn, _: OperatorIn, node: str) -> list[str]:
    """List the processes of a node that have a log."""
    return sorted(await commands.list_log_keys(deps.database, deps.bus, node))


@router.get("/{key:path}/stream", response_class=StreamingResponse)
async def follow_log(
    request: Request,
    deps: DepsIn,
    _: OperatorIn,
    log: Annotated[_LogSource, Depends(_parse_source)],
    last_event_id: Annotated[str | None, Header(pattern=NUMBER, description="The number of the last line.")] = None,
    after: Annotated[
        str | None, Query(pattern=NUMBER, description="The same as the header `Last-Event-ID`, which takes precedence.")
    ] = None,
) -> StreamingResponse:
    """Stream the last lines and then each new one, as server-sent events whose ids are line numbers; `still` is sent
    when there was no line for 5 s. Ends when the node is off the bus; reconnecting with the last id misses nothing that
    the node still has. `reset` means that the log has started over: lines that were read before belong to another
    log."""
    seen = last_event_id or after
    # Read before the response begins, so that a failure is an error response and not an empty stream.
    first = await _read_newest(deps, log) if seen is None else await _read_after(deps, log, int(seen))
    return make_stream_response(_iter_frames(deps, log, first, make_permission_check(request, deps)))


@router.get("/{key:path}/download", response_class=StreamingResponse, responses=_TEXT_RESPONSES)
async def download_log(deps: DepsIn, _: OperatorIn, node: str, key: ProcessKeyPath) -> StreamingResponse:
    """Download the log of one process as a text file: all lines that the node still has, the oldest first, each with
    its time and its stream. At most a million lines; the download breaks off if the node leaves the bus."""
    parts = commands.iter_log(deps.database, deps.bus, node, key, DOWNLOAD_PARTS_MAX)
    # Read before the response begins, so that a failure is an error response and not an empty file.
    first = await anext(parts)
    headers = make_attachment_headers(make_file_name(f"{node}-{key}", ".log"))
    return StreamingResponse(_iter_text(first, parts), media_type="text/plain; charset=utf-8", headers=headers)


async def _iter_text(first: ReadLogReply, rest: AsyncGenerator[ReadLogReply, None]) -> AsyncIterator[bytes]:
    async with aclosing(rest):
        yield _render_text(first)
        async for part in rest:
            yield _render_text(part)


def _render_text(part: ReadLogReply) -> bytes:
    return "".join(f"{line.at} {line.stream} {line.text}\n" for line in part.lines).encode()


@router.get("/{key:path}")
async def read_log(
    deps: DepsIn,
    _: OperatorIn,
    node: str,
    key: ProcessKeyPath,
    lines: Annotated[int, Query(ge=1, le=commands.LINES_MAX)] = LINES,
) -> EngineLogOut:
    """Show the last lines of one process."""
    log = await commands.read_last_lines(deps.database, deps.bus, node, key, lines)
    return EngineLogOut(
        key=key, lines=[EngineLogLineOut(**asdict(line)) for line in log.lines], first=log.first, next=log.next
    )


async def _read_newest(deps: ApiDeps, log: _LogSource, *, is_new: bool = False) -> _LogPiece:
    found = await commands.read_last_lines(deps.database, deps.bus, log.node, log.key, LINES)
    return _LogPiece(lines=found.lines, next=found.next, is_new=is_new)


async def _read_after(deps: ApiDeps, log: _LogSource, last_number: int, wait_s: float = 0.0) -> _LogPiece:
    """Return the lines after `last_number`. A log that is shorter than that is another one: its folder was lost or
    deleted to free space."""
    query = ReadLog(key=log.key, after=last_number, limit=commands.LINES_MAX, wait_s=wait_s)
    found = await commands.read_log(deps.database, deps.bus, log.node, query)
    if found.next < last_number:
        return await _read_newest(deps, log, is_new=True)
    return _LogPiece(lines=found.lines, next=found.next)


async def _iter_frames(
    deps: ApiDeps, log: _LogSource, piece: _LogPiece, check_permission: Callable[[], Awaitable[object]]
) -> FrameStream:
    yield f"retry: {RETRY_MS}\nid: {piece.start}\nevent: hello\ndata: {{}}\n\n".encode()
    quiet_s = 0.0
    while True:
        if piece.is_new:
            yield f"id: {piece.start}\nevent: reset\ndata: {{}}\n\n".encode()
        for line in piece.lines:
            yield _render_line(deps, log.key, line).encode()
        quiet_s = 0.0 if piece.lines else quiet_s + WAIT_S
        if quiet_s >= KEEPALIVE_S:
            quiet_s = 0.0
            yield b"event: still\ndata: {}\n\n"
        if deps.health.is_stopping:
            return  # This frontend stops; the client reconnects to another one with the last id.
        piece = await _read_after(deps, log, piece.next, WAIT_S)
        await check_permission()


def _render_line(deps: ApiDeps, key: str, line: LogLine) -> str:
    out = EventOut(id=str(line.number), kind="line", key=key, at=deps.clock.wall(), data=asdict(line))
    return f"id: {line.number}\nevent: line\ndata: {out.model_dump_json()}\n\n"


@_monitor_router.get("/system")
async def show_system(deps: DepsIn, _: OperatorIn) -> InstalledSystemOut:
    """Show the installed backends, and every loaded replica with the memory that it took when it was loaded.
    `/backend/monitor` measures the current use."""
    async with deps.database.transaction() as tx:
        installed = await assignment_store.list_installed(tx)
        nodes = {node.id: node for node in await node_store.list_nodes(tx)}
        replicas = await replica_store.list_replicas(tx)
    return InstalledSystemOut(
        backends=sorted({one.name for found in installed.values() for one in found}),
        loaded_models=[
            LoadedReplicaOut(
                id=replica.model,
                backend=replica.backend,
                node_id=replica.node_id,
                node_name=nodes[replica.node_id].name,
                replica_index=replica.index,
                ram_bytes=replica.ram_bytes,
                vram_bytes=replica.vram_bytes,
            )
            for replica in replicas
            if replica.state is ReplicaState.LOADED and replica.node_id in nodes
        ],
    )


@_monitor_router.get("/backend/monitor")
async def monitor_engines(
    deps: DepsIn,
    _: OperatorIn,
    model: Annotated[
        str, Query(max_length=255, description="Only engines of this model; absent: those of all models.")
    ] = "",
) -> EngineMonitorOut:
    """Show memory and processor use of every engine process of a model, measured by the workers now; 404 if the model
    is not loaded."""
    async with deps.database.transaction() as tx:
        name = (await model_store.get_model(tx, model)).name if model else ""
        replicas = await replica_store.list_replicas(tx, model=name or None)
        holders = sorted({one.node_id for one in replicas})
        nodes = await node_store.list_nodes(tx, only=holders)
    if name and not replicas:
        raise NotFound(f"{name} is not loaded on any node.", code="model_not_loaded")
    reports = await commands.measure_nodes(deps.database, deps.bus, nodes)
    return _monitor_to_wire(name, reports)


def _monitor_to_wire(model: str, reports: list[NodeProcessesReport]) -> EngineMonitorOut:
    found = [
        NodeEngineProcessOut(**asdict(process), node_id=report.node.id, node_name=report.node.name)
        for report in reports
        for process in report.processes
        if model in ("", process.model)
    ]
    rss = sum(process.ram_bytes or 0 for process in found)
    total = sum(report.node.hardware.total_ram or 0 for report in reports if report.processes)
    return EngineMonitorOut(
        model=model,
        memory_info=EngineMemoryOut(rss=rss),
        memory_percent=round(100.0 * rss / total, 2) if total else 0.0,
        cpu_percent=round(sum(process.cpu_percent or 0.0 for process in found), 1),
        processes=sorted(found, key=lambda process: (process.key, process.node_name)),
        unreachable={report.node.name: report.problem for report in reports if report.problem},
    )


router.routes.extend(_monitor_router.routes)
