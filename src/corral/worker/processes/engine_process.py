"""One process of an engine: launched with its port and its log, watched until it is ready, and cleared when it ended.

`engine.py` decides when a process is started, restarted and ended; this module does it. Guarantee: a process counts as
ready only while it is alive and listens on its own port, and as cleared only when none of its descendants is left.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import structlog

from corral.bus.messages import StartBackend
from corral.domain.errors import CorralError
from corral.ports.runtime import Clock, IdGenerator
from corral.runtime.processes import ProcessBirth, RestartBackoff, RestartCount, SpawnRequest, describe_exit
from corral.runtime.tasks import TaskSet
from corral.worker.backends.layout import read_folder_identity
from corral.worker.job_ports import RunnableBackend
from corral.worker.processes.journal import ProcessJournal, ProcessKey, ProcessRecord
from corral.worker.processes.launch import LOOPBACK, MARKER, EngineAllocation, choose_listen_host, make_launch
from corral.worker.processes.port_pool import BASE_DEFAULT, PortChoice, PortPool, ThreadBudget
from corral.worker.processes.process_control import (
    EngineStartFailed,
    ProcessBeingStopped,
    ProcessControl,
    ProcessHandle,
    ProcessUsage,
    ReadinessCheck,
)
from corral.worker.processes.process_log import OutputCopier, OutputCopierLimits, ProcessLogLimits, ProcessLogStore

log = structlog.get_logger(__name__)

READY_POLL_S = 0.2
LEFTOVER_POLL_S = 0.1
# How many ports of one start may go to other programs before it is given up.
PORTS_LOST_MAX = 5
SHOWN_LINES = 20
# How many last lines are searched for the reason of the end: engines print much after it.
SEARCHED_LINES = 200
OUT_OF_MEMORY = "out_of_memory"
LOAD_TIMEOUT = "load_timeout"
# SIGKILL as `subprocess` reports it, and as a shell does for its child.
_KILLED = (-9, 137)
_ANY_HOST = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 - compared with, not listened on


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSupervisorOptions:
    """Tunables of a worker's engine supervisor: folders, hosts, ports, threads and time limits."""

    # The folder of the process records and logs.
    root: Path
    # The worker's own environment, of which engines see a little.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    # The host where engines that check a key listen, and the name under which others reach them.
    host: str = LOOPBACK
    advertised_host: str = LOOPBACK
    port_base: int = BASE_DEFAULT
    port_max: int | None = None
    # How many threads the machine has.
    threads: int = 1
    # A stop takes no longer than both together, and fits into the time that a service has to stop.
    grace_s: float = 8.0
    kill_limit_s: float = 4.0
    # How long an engine of an earlier worker may take to answer: it may be busy.
    adoption_s: float = 10.0
    # How often ready engines are probed, and how many silent probes in a row make them unhealthy.
    watch_s: float = 10.0
    watch_misses: int = 3
    restart_backoff: RestartBackoff = field(default_factory=RestartBackoff)
    logs: ProcessLogLimits = field(default_factory=ProcessLogLimits)
    output: OutputCopierLimits = field(default_factory=OutputCopierLimits)

    @property
    def home(self) -> str:
        """Return the mark of this worker's engines: the same for every way to write the path."""
        return str(self.root.resolve())


class EngineState(StrEnum):
    """States of an engine process on a worker: starting, ready, unhealthy, or pausing before a restart."""

    STARTING = "starting"
    READY = "ready"
    UNHEALTHY = "unhealthy"  # only reported: the engine is ready, idle, and does not respond
    BACKING_OFF = "backing_off"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDeps:
    """Dependencies that all engines of one worker share: options, process control, ports, threads, journal and logs."""

    options: EngineSupervisorOptions
    process_control: ProcessControl
    check_ready: ReadinessCheck
    find_runnable: Callable[[str], RunnableBackend | None]
    ports: PortPool
    threads: ThreadBudget
    journal: ProcessJournal
    logs: ProcessLogStore
    clock: Clock
    ids: IdGenerator
    tasks: TaskSet
    # Called when the reported state of an engine has changed.
    on_change: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """Specifies the engine process that a worker is to run; a running one with an equal spec is reused."""

    key: ProcessKey
    runnable: RunnableBackend
    identity: tuple[int, int]
    command_hash: str
    command: StartBackend

    def is_same_process(self, spec: EngineSpec) -> bool:
        return (
            self.runnable.name == spec.runnable.name
            and self.runnable.version == spec.runnable.version
            and self.identity == spec.identity
            and self.command_hash == spec.command_hash
            and self.command.revision == spec.command.revision
        )


class EngineResources:
    """What one engine process was given on its machine (port, threads, API key, marker); recorded in the journal."""

    def __init__(self, spec: EngineSpec, deps: EngineDeps) -> None:
        self.port: int | None = None
        self.threads = 1
        self.api_key = ""
        self.marker = ""
        self._ports_lost = 0
        self._spec = spec
        self._deps = deps
        self.key = str(spec.key)

    @property
    def address(self) -> str:
        if self.port is None:
            return ""
        host = LOOPBACK if self._choose_host() == LOOPBACK else self._deps.options.advertised_host
        return _format_host_port(host, self.port)

    @property
    def probe_url(self) -> str:
        assert self.port is not None, "a process that starts has a port"
        return make_probe_url(self._spec.runnable, self._deps.options, self.port)

    def allocate(self) -> EngineAllocation:
        """Take a port, threads, an API key and a new marker for the next process; what is still held is kept."""
        deps = self._deps
        if self.port is not None and not deps.ports.is_bindable(self.port):
            # Another program took the port during the pause after a crash.
            self.release_port()
        if self.port is None:
            allotted = deps.ports.allot(self.key, deps.clock.monotonic())
            if allotted.choice is PortChoice.STOLEN:
                log.warning(
                    "a port was taken from its last owner",
                    port=allotted.port,
                    key=self.key,
                    was=allotted.previous_owner,
                )
            self.port = allotted.port
            self.threads = deps.threads.allot(self.key, self._spec.command.threads)
        if not self.api_key and self._spec.runnable.manifest.api_key != "none":
            self.api_key = deps.ids.new_secret()
        return EngineAllocation(host=self._choose_host(), port=self.port, threads=self.threads, api_key=self.api_key)

    def restore(self, record: ProcessRecord) -> None:
        """Take the port and threads that an earlier worker had given to the engine."""
        self.port, self.threads, self.api_key = record.port, record.threads, record.api_key
        self.marker = record.marker
        self._deps.ports.hold(self.key, record.port)
        self._deps.threads.hold(self.key, record.threads)

    def count_lost_port(self) -> bool:
        """Count a start that lost its port to another program; return whether another port is worth a try."""
        if self._ports_lost >= PORTS_LOST_MAX or self.port is None or self._deps.ports.is_bindable(self.port):
            return False
        self._ports_lost += 1
        log.warning("another program has taken the port of an engine that was starting", key=self.key, port=self.port)
        return True

    def release_port(self) -> None:
        if self.port is not None:
            self._deps.ports.release(self.key, self.port, self._deps.clock.monotonic())
            self.port = None

    def release_all(self) -> None:
        self.release_port()
        self._deps.threads.release(self.key)
        try:
            self._deps.journal.remove(self.key)
        except OSError as error:
            # The next worker will find that this process is dead.
            log.warning("the record of a process could not be removed", key=self.key, error=str(error))

    def write_record(self, birth: ProcessBirth | None, state: EngineState, restarts: RestartCount) -> None:
        spec = self._spec
        assert self.port is not None, "a process has a port before it is written down"
        self._deps.journal.write(
            ProcessRecord(
                key=self.key,
                marker=self.marker,
                birth=birth,
                port=self.port,
                threads=self.threads,
                backend=spec.runnable.name,
                version=spec.runnable.version,
                directory=str(spec.runnable.directory),
                identity=spec.identity,
                command_hash=spec.command_hash,
                wish=spec.command,
                api_key=self.api_key,
                state=str(state),
                restarts=restarts.total,
                crashes_in_a_row=restarts.in_a_row,
            )
        )

    def try_write_record(self, birth: ProcessBirth | None, state: EngineState, restarts: RestartCount) -> None:
        """Write the record if possible: an engine does not end because a disk is full."""
        if self.port is None:
            return
        try:
            self.write_record(birth, state, restarts)
        except OSError as error:
            log.warning("the record of a process could not be written", key=self.key, error=str(error))

    def _choose_host(self) -> str:
        return choose_listen_host(self._spec.runnable.manifest, self._deps.options.host)


class EngineProcess:
    """Watches one engine process on a worker, from its spawn to the end of its last descendant."""

    def __init__(
        self, resources: EngineResources, deps: EngineDeps, running: ProcessHandle, oom_kills: int | None = None
    ) -> None:
        """Watch a running process. `oom_kills` is the kernel's counter of out-of-memory kills before the start; None
        for an adopted process."""
        self.ended: asyncio.Task[int | None] = deps.tasks.start(running.wait_ended(), name=f"wait for {resources.key}")
        self.marker = resources.marker
        self.ready_at_s: float | None = None
        self._resources = resources
        self._deps = deps
        self._running = running
        self._oom_kills = oom_kills
        # How many health probes in a row had no answer.
        self._silences = 0

    @property
    def birth(self) -> ProcessBirth:
        return self._running.birth

    @property
    def is_silent(self) -> bool:
        """Return whether so many health probes in a row had no answer that the engine counts as unhealthy."""
        return self._silences >= self._deps.options.watch_misses

    def is_alive(self) -> bool:
        return self._running.is_alive()

    def count_probe(self, *, is_healthy: bool) -> None:
        self._silences = 0 if is_healthy else self._silences + 1

    async def measure(self) -> ProcessUsage:
        return await self._deps.process_control.measure(self.birth, self.marker)

    async def wait_ready(self, spec: EngineSpec, end_requested: asyncio.Event) -> None:
        """Wait until the process answers on its port. Raises if it ended first, was not ready in time, or is to end."""
        clock, resources = self._deps.clock, self._resources
        url, key = resources.probe_url, resources.key
        budget_s = spec.runnable.manifest.ready.timeout_s if spec.command.ready_s is None else spec.command.ready_s
        deadline_s = clock.monotonic() + budget_s
        while True:
            is_ready = await self._deps.check_ready(url, resources.api_key)
            if self.ended.done():
                raise self._make_early_exit_error(self.ended.result())
            if end_requested.is_set():
                raise ProcessBeingStopped(f"{key} was stopped while it was starting.")
            if is_ready and self.is_alive() and await self._is_listening():
                return
            if clock.monotonic() >= deadline_s:
                raise EngineStartFailed(f"{key} was not ready after {budget_s:g} s.", code=LOAD_TIMEOUT)
            await asyncio.wait({self.ended}, timeout=READY_POLL_S)

    async def wait_cleared(self) -> None:
        """Kill what is left of the process, and wait until nothing is."""
        machine, birth = self._deps.process_control, self.birth
        await machine.kill(birth, self.marker)
        while self.is_alive() or await machine.is_any_left(birth, self.marker):
            await self._deps.clock.sleep(LEFTOVER_POLL_S)
            await machine.kill(birth, self.marker)

    async def _is_listening(self) -> bool:
        """Return whether this process listens on the port: another worker of this machine may have given it to its own
        engine."""
        port = self._resources.port
        assert port is not None, "a process that starts has a port"
        return await self._deps.process_control.check_listening(self.birth, self.marker, port) is not False

    def _make_early_exit_error(self, code: int | None) -> EngineStartFailed:
        """Make the error of an early end. A SIGKILL from outside is the kernel's if its counter has moved meanwhile."""
        now = self._deps.process_control.count_oom_kills() if code in _KILLED else None
        is_for_memory = now is not None and self._oom_kills is not None and now > self._oom_kills
        slug = OUT_OF_MEMORY if is_for_memory else EngineStartFailed.code
        return EngineStartFailed(f"{self._resources.key} {describe_exit(code)} before it was ready.", code=slug)


class EngineLauncher:
    """Launches the processes of one engine one after the other, and keeps their output in the engine's log."""

    def __init__(self, spec: EngineSpec, deps: EngineDeps, resources: EngineResources, output: OutputCopier) -> None:
        self._spec = spec
        self._deps = deps
        self._resources = resources
        self._output = output
        # The number of the log line after which the lines of this start follow.
        self._log_start = 0

    async def launch(self, state: EngineState, restarts: RestartCount) -> EngineProcess:
        """Start a process and journal it, before and after. Raises EngineStartFailed if that is not possible."""
        deps, spec, resources = self._deps, self._spec, self._resources
        allocation = resources.allocate()
        launch = make_launch(spec.runnable, spec.command, allocation, deps.options.environment)
        resources.marker = f"{deps.ids.new_id()}@{deps.options.home}"
        self._log_start = self._output.begin(
            f"starting {spec.runnable.name} {spec.runnable.version} on port {allocation.port}"
        )
        resources.write_record(None, state, restarts)
        oom_kills = deps.process_control.count_oom_kills()
        request = SpawnRequest(
            command=launch.command,
            environment={**launch.environment, MARKER: resources.marker},
            directory=launch.directory,
            stdout=self._output.get_path("stdout"),
            stderr=self._output.get_path("stderr"),
        )
        try:
            running = await deps.process_control.spawn(request)
        except OSError as error:
            what = error.filename or launch.command[0]
            raise EngineStartFailed(f"{resources.key} could not be started: {error.strerror}: {what}.") from error
        return EngineProcess(resources, deps, running, oom_kills)

    def is_installed(self) -> bool:
        """Return whether the backend is still installed in the folder that the engine was started from."""
        found = self._deps.find_runnable(self._spec.runnable.name)
        return found is not None and read_folder_identity(found.directory) == self._spec.identity

    async def drain_output(self, remark: str) -> None:
        """Copy the last output of a process that has ended to the log, and add a remark on how it ended."""
        while self._output.copy():
            await self._deps.clock.sleep(0)
        self._output.copy(is_final=True)
        self._output.append_remark(remark)

    def explain_failure(self, error: Exception) -> CorralError:
        """Return the error of a failed start, with the engine's last output if the engine itself failed."""
        if not isinstance(error, EngineStartFailed):
            return error if isinstance(error, CorralError) else EngineStartFailed(f"{self._resources.key}: {error!r}.")
        last = self._output.read_last_lines(self._log_start, SEARCHED_LINES)
        return _add_last_lines(error, self._spec, last)


def _add_last_lines(error: EngineStartFailed, spec: EngineSpec, last: tuple[str, ...]) -> EngineStartFailed:
    """Return the error with the engine's last output, and with the code that this output stands for."""
    slug = error.slug if error.slug != EngineStartFailed.code else _classify_output(spec.runnable, last)
    cause = " It ran out of memory." if slug == OUT_OF_MEMORY else ""
    text = "".join(f"\n    {line}" for line in last[-SHOWN_LINES:])
    return EngineStartFailed(
        f"{error.message}{cause}{text}",
        hint="The log of this process has the rest.",
        code=slug,
        details={"key": str(spec.key)},
    )


def _classify_output(runnable: RunnableBackend, lines: tuple[str, ...]) -> str:
    """Return the error code whose signs the manifest finds in the engine's output."""
    for slug, signs in runnable.manifest.errors.items():
        if any(re.search(sign, line, re.IGNORECASE) for sign in signs for line in lines):
            return slug
    return EngineStartFailed.code


def make_probe_url(runnable: RunnableBackend, options: EngineSupervisorOptions, port: int) -> str:
    listens = choose_listen_host(runnable.manifest, options.host)
    return f"http://{_format_host_port(_ANY_HOST.get(listens, listens), port)}{runnable.manifest.ready.path}"


def _format_host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
