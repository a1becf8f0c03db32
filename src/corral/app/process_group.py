"""`corral serve --processes N`: several whole frontends on one port, and a small parent that supervises them.

The parent serves no requests. It binds the port without listening, starts `corral serve` N times, each with its own
instance id, restarts processes that die after a growing pause, and forwards SIGTERM, after which every process finishes
its open responses. Each process has its own socket on the port (SO_REUSEPORT), and the kernel distributes new
connections over those that listen: a process that starts while another one serves listens once it is ready, so that no
client of a working frontend reads that it is starting. If the parent is killed, its children notice within a second
and shut down as if they had received SIGTERM.

`/metrics` is one page for all: the process that is scraped collects the pages of the others. Each has a socket in a
folder that the parent made, closed to other users, and sends its own page to every client that connects. Every metric
has the label `process`, so that one page equals a scrape of each process. Limit: a process that does not reply within a
second is missing on that page; if the folder cannot be used, all others are missing, which is logged once.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.app.logs import configure_logging
from corral.app.settings import FrontendSettings
from corral.domain.errors import InvalidRequest
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptSuccess, attempt
from corral.runtime.bind_errors import explain_bind_error
from corral.runtime.tasks import TaskSet

log = structlog.get_logger(__name__)

# If no process has ever been stable and one dies this often in a row, the group gives up.
START_ATTEMPTS = 3
# Time beyond the grace period for interrupting responses, releasing leases and closing.
STOP_LIMIT_S = 60.0

# Environment variable with the pid of the parent of a process group. The child shares its port and ends when the parent
# does.
PARENT_VARIABLE = "CORRAL_PARENT_PID"

# Environment variable with the folder of the sockets.
FOLDER_VARIABLE = "CORRAL_FAMILY_DIR"
ANSWER_LIMIT_S = 1.0
PAGE_BYTES_MAX = 64 * 1024 * 1024
# The beginning of a line with a number: its name, and its labels if it has any.
_WITH_LABELS = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]*)\{", re.MULTILINE)
_WITHOUT = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]*) ", re.MULTILINE)
_BEGINS = b"\n# HELP "


class MetricsPeers:
    """Exchanges metrics pages between frontend processes on the same port, over sockets in a shared folder.

    Implements `MetricsPageCollector`.
    """

    name = "siblings"

    def __init__(self, folder: Path, number: int, render_page: Callable[[], bytes], parent_pid: int) -> None:
        self._folder = folder
        self._parent_pid = parent_pid
        self._number = number
        self._render_page = render_page
        self._server: asyncio.Server | None = None
        self._tasks = TaskSet(self.name)

    async def start(self) -> None:
        path = self._make_socket_path(self._number)
        try:
            path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._on_connection, path)
        except OSError as error:
            log.warning("metrics of the other processes cannot be read", error=str(error))

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._tasks.close()
            self._make_socket_path(self._number).unlink(missing_ok=True)
            if os.getppid() != self._parent_pid:
                # Nothing else removes the folder; the last process to stop succeeds.
                with suppress(OSError):
                    self._folder.rmdir()

    async def collect_pages(self) -> bytes:
        """Return the metrics of all processes as one page, in the order of their ids."""
        numbers = sorted(int(path.stem) for path in self._folder.glob("*.sock") if path.stem.isdecimal())
        peer_tasks: dict[int, asyncio.Task[bytes | None]] = {}
        async with asyncio.TaskGroup() as group:
            for number in numbers:
                if number != self._number:
                    peer_tasks[number] = group.create_task(self._fetch_page(number), name=f"metrics of {number}")
        pages = {number: page for number, task in peer_tasks.items() if (page := task.result()) is not None}
        pages[self._number] = self._render_own_page()
        return merge_pages(pages[number] for number in sorted(pages))

    def _render_own_page(self) -> bytes:
        return label_page(self._render_page(), self._number)

    def _make_socket_path(self, number: int) -> Path:
        return self._folder / f"{number}.sock"

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        self._tasks.start(self._send_page(writer), name="tell")

    async def _send_page(self, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                writer.write(self._render_own_page())
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError):
            # The reader has disconnected, or does not read.
            writer.transport.abort()

    async def _fetch_page(self, number: int) -> bytes | None:
        outcome = await attempt(lambda: self._read_page(number))
        return outcome.value if isinstance(outcome, AttemptSuccess) else None

    async def _read_page(self, number: int) -> bytes:
        async with asyncio.timeout(ANSWER_LIMIT_S):
            reader, writer = await asyncio.open_unix_connection(self._make_socket_path(number), limit=PAGE_BYTES_MAX)
            try:
                return await reader.read()
            finally:
                writer.close()
                await writer.wait_closed()


def label_page(page: bytes, process: int) -> bytes:
    """Add the label of the process to every number of a page."""
    page = _WITH_LABELS.sub(rb'\1{process="%d",' % process, page)
    return _WITHOUT.sub(rb'\1{process="%d"} ' % process, page)


def merge_pages(pages: Iterable[bytes]) -> bytes:
    """Merge pages so that every family occurs once, as the format requires, with the numbers of all."""
    families: dict[bytes, list[bytes]] = {}
    for page in pages:
        for block in (b"\n" + page).split(_BEGINS)[1:]:
            sentence, kind, *rest = block.split(b"\n", 2)
            numbers = rest[0] if rest else b""
            name = sentence.split(b" ", 1)[0]
            # The last line of a block has no line break if another block followed it.
            numbers = numbers if numbers.endswith(b"\n") or not numbers else numbers + b"\n"
            families.setdefault(name, [b"# HELP %b\n%b\n" % (sentence, kind)]).append(numbers)
    return b"".join(part for parts in families.values() for part in parts)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a port of its own."""
    try:
        listener = socket.create_server((host, port), family=_choose_family(host), backlog=1024)
    except OSError as error:
        raise explain_bind_error(error, host, port) from error
    return _send_at_once(listener)


def bind_shared_port(host: str, port: int) -> socket.socket:
    """Return a socket on a port that other processes of the same user may bind too. It gets no connections before it
    listens; then the kernel distributes them over all sockets that do."""
    bound = socket.socket(_choose_family(host), socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise explain_bind_error(error, host, port) from error
    return _send_at_once(bound)


async def is_port_served(host: str, port: int) -> bool:
    """Return whether a process accepts connections on the port, by opening one."""
    try:
        async with asyncio.timeout(ANSWER_LIMIT_S):
            _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


def _choose_family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _send_at_once(listener: socket.socket) -> socket.socket:
    # Inherited by every connection. asyncio sets it only on sockets that it made itself, and without it the second
    # of two small writes, such as headers and body, waits 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def run_processes(settings: FrontendSettings) -> int:
    """Run until SIGINT or SIGTERM, or until the processes repeatedly fail to start. Return the exit code."""
    configure_logging(settings.log_format, settings.log_level)
    _check_platform()
    # The folder holds the sockets for metrics and is closed to other users.
    with hold_port(settings.host, settings.port) as reserved, tempfile.TemporaryDirectory(prefix="corral-") as folder:
        options = _make_options(settings, reserved.getsockname()[1], {**os.environ, FOLDER_VARIABLE: folder})
        return asyncio.run(FrontendProcessGroup(options, SystemClock()).run())


def _check_platform() -> None:
    if sys.platform == "win32" or not hasattr(socket, "SO_REUSEPORT"):
        raise InvalidRequest(
            "Several processes cannot share a port on this system.",
            hint="Leave --processes out, and start frontends on ports of their own instead.",
        )


def hold_port(host: str, port: int) -> socket.socket:
    """Bind a port for the children and return its socket. It does not listen, so it receives no connections."""
    # First without SO_REUSEPORT: a port that is in use is reported at once, instead of being shared by mistake.
    with listen(host, port) as probe:
        chosen_port = probe.getsockname()[1]
    return bind_shared_port(host, chosen_port)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGroupOptions:
    """Options of a group of frontend processes on one port: commands, environment, restarts and time limits."""

    # Maps a child's instance id to its command line.
    commands: Mapping[str, tuple[str, ...]]
    environment: Mapping[str, str] = field(repr=False)
    # How long a child may take to stop before it is killed.
    stop_limit_s: float
    # The pause before a restart doubles with each death in a row, from `pause_s` to `pause_max_s`.
    pause_s: float = 0.2
    pause_max_s: float = 10.0
    # A child that has lived this long counts as stable: its deaths are counted from zero again.
    stable_after_s: float = 30.0


def _make_options(settings: FrontendSettings, port: int, environment: Mapping[str, str]) -> ProcessGroupOptions:
    family_id = settings.instance_id or SystemIdGenerator().new_id()
    # If a flag is given twice, the last one counts: the children get all of the parent's flags, except for these.
    serve = (sys.executable, "-m", "corral", *sys.argv[1:], "--processes", "1", "--port", str(port), "--instance-id")
    return ProcessGroupOptions(
        commands={child: (*serve, child) for child in (f"{family_id}-{n + 1}" for n in range(settings.processes))},
        environment={**environment, PARENT_VARIABLE: str(os.getpid())},
        stop_limit_s=settings.stop_grace_s + STOP_LIMIT_S,
    )


class FrontendProcessGroup:
    """Runs several frontend processes on one port: restarts those that die and passes the stop signal on."""

    def __init__(self, options: ProcessGroupOptions, clock: Clock) -> None:
        self.options = options
        self.clock = clock
        self.stop_requested = asyncio.Event()
        self._exit_code = 0
        self._has_been_stable = False
        self._children = [_FrontendProcess(name, command, self) for name, command in options.commands.items()]

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.request_stop)
        log.info("frontend processes start", processes=len(self._children), pid=os.getpid())
        async with asyncio.TaskGroup() as group:
            for child in self._children:
                group.create_task(child.run(), name=child.name)
        return self._exit_code

    def request_stop(self) -> None:
        """Send SIGTERM to all children. A second call makes them stop without waiting for open responses."""
        self.stop_requested.set()
        for child in self._children:
            child.send_signal(signal.SIGTERM)

    def on_child_died(self, child: _FrontendProcess, code: int, lived_s: float) -> None:
        """Record that a child has ended without a stop request, and give up if the processes cannot start."""
        self._has_been_stable |= lived_s >= self.options.stable_after_s
        log.warning("a frontend process has died", child=child.name, exit_code=code, deaths=child.deaths)
        if child.deaths >= START_ATTEMPTS and not self._has_been_stable:
            log.error("the frontend processes cannot start", exit_code=code)
            self._exit_code = code if code > 0 else 1
            self.request_stop()


class _FrontendProcess:
    """Runs one frontend process of a group again and again until the group stops."""

    def __init__(self, name: str, command: tuple[str, ...], group: FrontendProcessGroup) -> None:
        self.name = name
        self.deaths = 0
        self._command = command
        self._group = group
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        group, options = self._group, self._group.options
        while not group.stop_requested.is_set():
            began = group.clock.monotonic()
            code = await self._run_once()
            if group.stop_requested.is_set():
                return
            lived_s = group.clock.monotonic() - began
            self.deaths = 1 if lived_s >= options.stable_after_s else self.deaths + 1
            group.on_child_died(self, code, lived_s)
            await _wait_for_event(
                group.stop_requested, min(options.pause_max_s, options.pause_s * 2 ** min(self.deaths - 1, 16))
            )

    def send_signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def _run_once(self) -> int:
        """Run the process until it exits or has to be stopped. Return its exit code."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            env=dict(self._group.options.environment),
            # A Ctrl-C on the terminal must reach the parent alone: children would see two signals and stop without
            # waiting.
            start_new_session=True,
        )
        if self._group.stop_requested.is_set():
            self.send_signal(signal.SIGTERM)
        exited = asyncio.create_task(self._process.wait())
        ended = asyncio.create_task(self._group.stop_requested.wait())
        await asyncio.wait({exited, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not await _wait_until_done(
            exited, self._group.options.stop_limit_s if self._group.stop_requested.is_set() else 0.0
        ):
            log.error("a frontend process did not leave and is killed", child=self.name)
            self.send_signal(signal.SIGKILL)
        return await exited


async def _wait_for_event(event: asyncio.Event, within_s: float) -> None:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return


async def _wait_until_done(task: asyncio.Task[int], within_s: float) -> bool:
    await asyncio.wait({task}, timeout=within_s)
    return task.done()
