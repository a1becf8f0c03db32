"""Starts and ends programs that are MCP servers, and carries their messages over pipes.

A program runs in a session and a group of its own, under limits (`stdio_launcher.py`), with an environment that holds
PATH, LANG, a temporary HOME, a marker and what its specification adds: nothing of the worker's environment. Where the
worker may switch users, it runs as another one, which owns nothing but that HOME. Its stdout carries one message a
line; a line of more than 8 MiB ends the session, and is never held as a whole. Its stderr goes to the log, bounded.

Guarantee: after the transport is closed, the program and everything that it has started is gone: its group, its
descendants at that time, and what carries its marker, also if it has left the group or its parent has ended. What a
runner that was killed leaves behind, its worker ends (`worker/runs/program_sweeper.py`).
Limit: a descendant that leaves the group, is orphaned and drops the marker is not found.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio
import psutil
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from corral.domain.errors import CorralError
from corral.runner import stdio_launcher
from corral.runner.line_splitter import LineSplitter
from corral.runtime.processes import (
    describe_exit,
    iterate_live_processes,
    kill_group,
    read_marker,
    signal_processes,
)
from corral.runtime.tasks import TaskSet
from corral.wire.run_work import McpServerSpec
from corral.wire.runner_protocol import PROGRAM_MARKER, ProgramLimits

log = structlog.get_logger(__name__)

MESSAGE_BYTES_MAX = 8 * 1024 * 1024
STDERR_LINE_BYTES_MAX = 4096
# So many lines of one session are logged; the rest is read and dropped.
STDERR_LINES_MAX = 200
STDERR_TAIL_LINES = 3
_CHUNK_BYTES = 64 * 1024
_LAST_OUTPUT_S = 0.5

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
TransportStreams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class _Closable(Protocol):
    """An end of a stream."""

    def close(self) -> None: ...


class ServerProgramError(CorralError):
    """The program of an MCP server cannot be started."""

    code = "mcp_program_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioOptions:
    """Tunables of programs that are MCP servers: the environment they get, and how long they have to end."""

    path: str
    lang: str = "C.UTF-8"
    limits: ProgramLimits = field(default_factory=ProgramLimits)
    # The beginning of the paths of temporary HOMEs.
    homes: str = field(default_factory=lambda: f"{tempfile.gettempdir()}/corral-mcp-")
    grace_s: float = 0.5
    kill_s: float = 5.0


@dataclass(slots=True)
class _StderrLog:
    """Logs the lines that a program writes to stderr, up to a bound, and keeps the last ones for error messages."""

    server: str
    logged: int = 0
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=STDERR_TAIL_LINES))

    def add(self, line: bytes) -> None:
        text = line.decode(errors="replace").strip()
        if not text:
            return
        self.tail.append(text[:300])
        self.logged += 1
        if self.logged <= STDERR_LINES_MAX:
            log.info("mcp server wrote to stderr", server=self.server, line=text)
        elif self.logged == STDERR_LINES_MAX + 1:
            log.info("mcp server writes more to stderr than is logged", server=self.server)


@asynccontextmanager
async def open_stdio_transport(
    server: McpServerSpec, options: StdioOptions, on_end: Callable[[str], None]
) -> AsyncGenerator[TransportStreams, None]:
    """Start a server's program and yield the streams that an MCP client needs. Raises `ServerProgramError`.

    `on_end` is called once with a sentence when the program ends or is unusable while the transport is open.
    """
    home = await asyncio.to_thread(_make_home, options)
    program = _StdioProgram(server.name, home, on_end)
    try:
        await program.start(server, options)
        yield program.begin()
    finally:
        # In a task of its own: also a caller that is cancelled again leaves nothing running.
        await asyncio.shield(TaskSet("stdio-server").start(program.stop(options), name="stop"))


def _make_home(options: StdioOptions) -> Path:
    """Make a folder that only the program's user can enter."""
    limits, beginning = options.limits, Path(options.homes)
    home = Path(tempfile.mkdtemp(dir=beginning.parent, prefix=beginning.name))
    if limits.uid is not None and limits.gid is not None:
        os.chown(home, limits.uid, limits.gid)
    return home


class _ExitAwareProtocol(asyncio.subprocess.SubprocessStreamProtocol):
    """Reports when the program itself has ended, also while its children hold the pipes open."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_CHUNK_BYTES, loop=loop)
        self.exited = asyncio.Event()
        self._pid: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._pid = transport.get_pid()

    def process_exited(self) -> None:
        super().process_exited()
        assert self._pid is not None, "a program ends after it was started"
        # At once: once the group is empty, its number may become that of another process.
        kill_group(self._pid)
        self.exited.set()


def _find_program(command: str, environment: Mapping[str, str], folder: Path) -> str:
    is_path = "/" in command
    found = shutil.which(str(folder / command)) if is_path else shutil.which(command, path=environment["PATH"])
    if found is None:
        raise ServerProgramError(f"There is no program {command}" + ("." if is_path else " on the path."))
    return found


class _StdioProgram:
    """Runs a program, and carries messages between its pipes and the streams of an MCP client."""

    def __init__(self, name: str, home: Path, on_end: Callable[[str], None]) -> None:
        self._name = name
        self._home = home
        self._on_end: Callable[[str], None] | None = on_end
        self._transport: asyncio.SubprocessTransport | None = None
        self._exited = asyncio.Event()
        self._tasks = TaskSet(f"mcp-{name}")
        self._stderr = _StderrLog(name)
        self._streams: Sequence[_Closable] = ()

    async def start(self, server: McpServerSpec, options: StdioOptions) -> None:
        home = str(self._home)
        environment = {"PATH": options.path, "LANG": options.lang, "HOME": home, "TMPDIR": home, **server.env}
        environment[PROGRAM_MARKER] = home
        folder = Path(server.cwd) if server.cwd else self._home
        if not folder.is_dir():
            raise ServerProgramError(f"The folder {server.cwd} does not exist.")
        command = _find_program(server.command, environment, folder)
        loop = asyncio.get_running_loop()
        protocol = _ExitAwareProtocol(loop)
        self._exited = protocol.exited
        limits = json.dumps({**options.limits.model_dump(), "parent_pid": os.getpid()})
        launcher = (sys.executable, "-I", "-S", stdio_launcher.__file__, limits)
        try:
            self._transport, _ = await loop.subprocess_exec(
                lambda: protocol, *launcher, command, *server.args, env=environment, cwd=folder, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise ServerProgramError(f"The program {server.command} cannot be started: {error}.") from None
        self._process = asyncio.subprocess.Process(self._transport, protocol, loop)

    def begin(self) -> TransportStreams:
        incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (incoming, read_stream, write_stream, outgoing)
        self._tasks.start(self._read_stderr(), name="stderr")
        reading = self._tasks.start(self._read_messages(incoming), name="stdout")
        self._tasks.start(self._watch_exit(reading, incoming), name="exit")
        self._tasks.start(self._write_messages(outgoing, incoming), name="stdin")
        return read_stream, write_stream

    async def stop(self, options: StdioOptions) -> None:
        """End the program and all that it has started: politely by the end of its input, then by force."""
        self._on_end = None
        if self._transport is not None:
            descendants = await asyncio.to_thread(self._list_descendants)
            assert self._process.stdin is not None
            self._process.stdin.close()
            await self._wait_exited(options.grace_s)
            await asyncio.to_thread(self._kill_all, descendants)
            if not await self._wait_exited(options.kill_s):
                log.warning("mcp server could not be ended", server=self._name)
            self._transport.close()
        await self._tasks.close()
        for stream in self._streams:
            stream.close()
        await asyncio.to_thread(shutil.rmtree, self._home, ignore_errors=True)

    async def _wait_exited(self, limit_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._exited.wait()
        return self._exited.is_set()

    def _list_descendants(self) -> list[psutil.Process]:
        if self._exited.is_set():
            return []
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.Error:
            return []

    def _kill_all(self, descendants: list[psutil.Process]) -> None:
        if not self._exited.is_set():
            kill_group(self._process.pid)
        signal_processes(descendants, signal.SIGKILL)
        # Also those whose parent has ended: they are no descendants any more, but they still have the marker.
        home = str(self._home)
        marked = [process for process in iterate_live_processes() if read_marker(process, PROGRAM_MARKER) == home]
        signal_processes(marked, signal.SIGKILL)

    async def _read_messages(self, incoming: Incoming) -> None:
        assert self._process.stdout is not None
        splitter = LineSplitter(MESSAGE_BYTES_MAX)
        unreadable = 0
        while chunk := await self._process.stdout.read(_CHUNK_BYTES):
            for line in splitter.feed(chunk):
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    unreadable += 1
                    continue
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await incoming.send(SessionMessage(message))
            if splitter.too_long:
                self._report_end(f"sent a line of more than {MESSAGE_BYTES_MAX >> 20} MiB")
                incoming.close()
                return
        if unreadable:
            log.info("mcp server wrote lines that are no messages", server=self._name, lines=unreadable)
        await self._wait_exited(_LAST_OUTPUT_S)
        self._report_end(self._describe_end())
        incoming.close()

    async def _watch_exit(self, reading: asyncio.Task[None], incoming: Incoming) -> None:
        """End the session when the program has ended, even if a child of it holds its output open."""
        await self._exited.wait()
        # The last messages and the last lines of stderr may still be on their way.
        await asyncio.wait({reading}, timeout=_LAST_OUTPUT_S)
        self._report_end(self._describe_end())
        incoming.close()

    def _describe_end(self) -> str:
        if not self._exited.is_set():
            return "closed its output"
        tail = "; ".join(self._stderr.tail)
        return describe_exit(self._process.returncode) + (f": {tail}" if tail else "")

    def _report_end(self, reason: str) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(reason)

    async def _write_messages(self, outgoing: MemoryObjectReceiveStream[SessionMessage], incoming: Incoming) -> None:
        assert self._process.stdin is not None
        async with outgoing:
            async for item in outgoing:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._process.stdin.write(text.encode() + b"\n")
                try:
                    await self._process.stdin.drain()
                except (ConnectionError, RuntimeError):
                    # The program reads no more: end the session instead of letting a call wait for ever.
                    incoming.close()
                    return

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        splitter = LineSplitter(STDERR_LINE_BYTES_MAX)
        while chunk := await self._process.stderr.read(_CHUNK_BYTES):
            for line in splitter.feed(chunk):
                self._stderr.add(line)
