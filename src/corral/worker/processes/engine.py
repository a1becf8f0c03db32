"""The life of one engine: started, watched until it is ready, restarted when it crashes, ended on request.

Guarantee: everything that happens to the process happens in `run`; `stop` signals and waits. The port, the threads and
the record in the journal are released once, after everything of the process has ended. Once a stop was requested, the
engine is no longer reported as ready. A start that fails is reported with the engine's own last output and not
repeated; a crash after it was ready is followed by a restart on the same port, for ever, with growing pauses. The state
is journaled, so that the worker that comes after a kill goes on from there.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import structlog

from corral.bus.messages import RunningProcess, StartBackend
from corral.domain.errors import CorralError
from corral.ports.runtime import Clock, IdGenerator
from corral.runtime.attempt import AttemptFailure, AttemptSuccess, attempt
from corral.runtime.processes import ProcessBirth, RestartCount, SpawnRequest, describe_exit, end_in_steps
from corral.runtime.tasks import TaskSet
from corral.worker.backends.layout import read_folder_identity
from corral.worker.job_ports import RunnableBackend
from corral.worker.processes.journal import ProcessJournal, ProcessRecord
from corral.worker.processes.launch import LOOPBACK, MARKER, EngineAllocation, choose_listen_host, make_launch
from corral.worker.processes.options import EngineSupervisorOptions
from corral.worker.processes.port_pool import PortChoice, PortPool, ThreadBudget
from corral.worker.processes.process_control import (
    EngineStartFailed,
    ProbeTarget,
    ProcessBeingStopped,
    ProcessControl,
    ProcessHandle,
    ProcessStopFailed,
    ProcessUsage,
    ReadinessCheck,
)
from corral.worker.processes.process_key import ProcessKey
from corral.worker.processes.process_log import OutputCopier, ProcessLogStore

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


class EngineState(StrEnum):
    """Says where an engine is in its life: starting, ready, unhealthy, or pausing before a restart."""

    STARTING = "starting"
    READY = "ready"
    UNHEALTHY = "unhealthy"  # only reported: the engine is ready, idle, and does not respond
    BACKING_OFF = "backing_off"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDeps:
    """Holds what all engines of one worker share: options, process control, ports, threads, journal and logs."""

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
    """Specifies the process that an engine is to run; a running one is reused if its spec is the same."""

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


@dataclass(slots=True)
class _EngineProcess:
    """One process of an engine, from its spawn to the end of its last descendant."""

    running: ProcessHandle
    ended: asyncio.Task[int | None]
    marker: str
    ready_at_s: float | None = None
    # The kernel's counter of out-of-memory kills before the start; None for an adopted process.
    oom_kills: int | None = None


class EngineResources:
    """Holds what one engine has taken (port, threads, API key and marker), and records it in the journal."""

    def __init__(self, spec: EngineSpec, deps: EngineDeps) -> None:
        self.port: int | None = None
        self.threads = 1
        self.api_key = ""
        self.marker = ""
        self._spec = spec
        self._deps = deps
        self._key = str(spec.key)

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
            allotted = deps.ports.allot(self._key, deps.clock.monotonic())
            if allotted.choice is PortChoice.STOLEN:
                log.warning(
                    "a port was taken from its last owner",
                    port=allotted.port,
                    key=self._key,
                    was=allotted.previous_owner,
                )
            self.port = allotted.port
            self.threads = deps.threads.allot(self._key, self._spec.command.threads)
        if not self.api_key and self._spec.runnable.manifest.api_key != "none":
            self.api_key = deps.ids.new_secret()
        return EngineAllocation(host=self._choose_host(), port=self.port, threads=self.threads, api_key=self.api_key)

    def restore(self, record: ProcessRecord) -> None:
        """Take the port and threads that an earlier worker had given to the engine."""
        self.port, self.threads, self.api_key = record.port, record.threads, record.api_key
        self.marker = record.marker
        self._deps.ports.hold(self._key, record.port)
        self._deps.threads.hold(self._key, record.threads)

    def is_port_lost(self) -> bool:
        """Whether another program has taken the port."""
        return self.port is not None and not self._deps.ports.is_bindable(self.port)

    def release_port(self) -> None:
        if self.port is not None:
            self._deps.ports.release(self._key, self.port, self._deps.clock.monotonic())
            self.port = None

    def release_all(self) -> None:
        self.release_port()
        self._deps.threads.release(self._key)
        try:
            self._deps.journal.remove(self._key)
        except OSError as error:
            # The next worker will find that this process is dead.
            log.warning("the record of a process could not be removed", key=self._key, error=str(error))

    def write_record(self, birth: ProcessBirth | None, state: EngineState, restarts: RestartCount) -> None:
        spec = self._spec
        assert self.port is not None, "a process has a port before it is written down"
        self._deps.journal.write(
            ProcessRecord(
                key=self._key,
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
            log.warning("the record of a process could not be written", key=self._key, error=str(error))

    def _choose_host(self) -> str:
        return choose_listen_host(self._spec.runnable.manifest, self._deps.options.host)


class _StartOutcome:
    """The outcome of one start, for the callers that wait for it: ready, or the reason why not."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._failure: CorralError | None = None
        self._settled = asyncio.Event()

    def succeed(self) -> None:
        """Record that the engine is ready. No-op if the start was stopped before."""
        self._settled.set()

    def fail(self, error: CorralError | None = None) -> None:
        """Record why the engine is not ready; without a reason, that it was stopped. No-op if it is settled."""
        if not self._settled.is_set():
            self._failure = error or ProcessBeingStopped(f"{self._key} was stopped while it was starting.")
            self._settled.set()

    def begin_again(self) -> None:
        self._failure = None
        self._settled.clear()

    async def wait(self) -> None:
        """Wait until the start is settled; raise the reason if it failed."""
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure


class SupervisedEngine:
    """Runs one engine: starts it, waits until it is ready, restarts it after crashes, and ends it."""

    def __init__(self, spec: EngineSpec, deps: EngineDeps, output: OutputCopier) -> None:
        self.spec = spec
        self.state = EngineState.STARTING
        self.restarts = RestartCount()
        self.finished = asyncio.Event()
        self.output = output
        # How many callers wait for its start, and whether any start has succeeded.
        self.waiters = 0
        self.was_ready = False
        self._deps = deps
        self._resources = EngineResources(spec, deps)
        self._process: _EngineProcess | None = None
        self._usage = ProcessUsage()
        # How many health probes in a row had no answer.
        self._silences = 0
        self._ports_lost = 0
        # The number of the log line after which the lines of this start follow.
        self._log_start = 0
        self._start = _StartOutcome(self.key)
        # Set by `stop`, and when the backend is gone: whatever `run` waits for, it stops waiting and ends.
        self._end_requested = asyncio.Event()
        self._is_stopping = False

    # --- what others see ---

    @property
    def key(self) -> str:
        return str(self.spec.key)

    @property
    def backend(self) -> str:
        return self.spec.runnable.name

    @property
    def api_key(self) -> str:
        return self._resources.api_key

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    @property
    def address(self) -> str:
        return self._resources.address

    def describe(self) -> RunningProcess | None:
        """Return the engine for `models.running`; None if it is dead or being stopped."""
        process = self._process
        if self._is_stopping or self.finished.is_set():
            return None
        if self.state is EngineState.BACKING_OFF:
            pid = 0
        elif process is None or not process.running.is_alive():
            return None
        else:
            pid = process.running.birth.pid
        return RunningProcess(
            key=self.key,
            model=self.spec.key.model,
            replica=self.spec.key.replica,
            backend=self.backend,
            version=self.spec.runnable.version,
            address=self.address,
            pid=pid,
            state=str(EngineState.UNHEALTHY if self._is_unhealthy else self.state),
            restarts=self.restarts.total,
            revision=self.spec.command.revision,
            operation_id=self.spec.command.operation_id,
            job_id=self.spec.command.job_id,
            threads=self._resources.threads,
            vram_bytes=self._usage.vram_bytes,
            ram_bytes=self._usage.ram_bytes,
            engine_key=self._resources.api_key,
            ticket=self.spec.command.ticket,
        )

    def can_satisfy(self, spec: EngineSpec) -> bool:
        """Whether a caller with this spec can use the process that is here, or wait for it."""
        if self._end_requested.is_set() or not spec.is_same_process(self.spec):
            return False
        if self.state is EngineState.STARTING:
            return True
        return self.state is EngineState.READY and self._process is not None and self._process.running.is_alive()

    async def wait_started(self) -> RunningProcess:
        """Wait until the engine is ready; raise the reason if it fails to start."""
        await self._start.wait()
        description = self.describe()
        if description is not None and self.state is EngineState.READY and not self._end_requested.is_set():
            return description
        if self._end_requested.is_set():
            raise ProcessBeingStopped(f"{self.key} became ready and is being stopped.")
        raise EngineStartFailed(f"{self.key} became ready and ended at once.")

    def find_probe_target(self) -> ProbeTarget | None:
        """Return what to probe; None while the engine is not ready or is to end."""
        process, resources = self._process, self._resources
        is_ready = self.state is EngineState.READY and not self._end_requested.is_set()
        if not is_ready or process is None or resources.port is None:
            return None
        return ProbeTarget(url=resources.probe_url, birth=process.running.birth, marker=process.marker)

    def record_probe(self, *, is_healthy: bool) -> None:
        was_unhealthy = self._is_unhealthy
        self._silences = 0 if is_healthy else self._silences + 1
        if self._is_unhealthy != was_unhealthy:
            message = "an engine responds again" if was_unhealthy else "an engine is idle and does not respond"
            log.warning(message, key=self.key)
            self._deps.on_change()

    @property
    def _is_unhealthy(self) -> bool:
        return self.state is EngineState.READY and self._silences >= self._deps.options.watch_misses

    # --- life cycle ---

    async def run(self) -> None:
        """Run the engine to its end. Cancelled only if the worker ends without stopping engines: then they go on."""
        if self.state is EngineState.BACKING_OFF:
            await self._wait_pause()
        while not self._end_requested.is_set():
            outcome = await attempt(self._run_process)
            healthy_s = await self._wait_cleared(outcome)
            if self._end_requested.is_set():
                break
            if isinstance(outcome, AttemptFailure) and self._count_lost_port():
                continue
            if isinstance(outcome, AttemptFailure):
                self._start.fail(self._explain_failure(outcome.error))
                if not self.was_ready:
                    break
            await self._back_off(outcome, healthy_s)
        self._resources.release_all()
        self._start.fail()
        self.finished.set()

    def adopt(self, record: ProcessRecord, running: ProcessHandle) -> None:
        """Go on with a process that an earlier worker has started, ready or not yet; call before `run`."""
        self._restore(record)
        self._track_process(running)
        if record.state != EngineState.STARTING:
            self._mark_ready()

    def resume_pause(self, record: ProcessRecord) -> None:
        """Go on waiting for the restart that an earlier worker did not live to see; call before `run`."""
        self._restore(record)
        self.was_ready = True
        self.state = EngineState.BACKING_OFF

    async def stop(self, *, force: bool = False) -> None:
        """End the engine; return when all of its processes have ended. Raises ProcessStopFailed if any survives."""
        if self._is_stopping:
            raise ProcessBeingStopped(f"{self.key} is being stopped already.")
        self._is_stopping = True
        self._end_requested.set()
        self._start.fail()
        self._deps.on_change()
        try:
            control, options = self._deps.process_control, self._deps.options
            polite = () if force else ((partial(self._signal, control.terminate), options.grace_s),)
            forced = (partial(self._signal, control.kill), options.kill_limit_s)
            await end_in_steps((*polite, forced), self.wait_ended)
        finally:
            self._is_stopping = False
        if not self.finished.is_set():
            log.error("a process survives SIGKILL", key=self.key)
            raise ProcessStopFailed(
                f"{self.key} could not be ended.", hint="Look at the process on the node; it may hang."
            )

    def abandon(self) -> None:
        """End a start that nobody waits for any more, by force and without waiting for the end."""
        self._end_requested.set()
        self._start.fail()

    async def wait_ended(self, limit_s: float) -> bool:
        try:
            async with asyncio.timeout(limit_s):
                await self.finished.wait()
        except TimeoutError:
            return False
        return True

    # --- one process ---

    async def _run_process(self) -> str:
        """Run one process until it has ended; return how, in words. Raises if it did not start or was never ready."""
        if self._process is None:
            await self._spawn()
        process = self._process
        assert process is not None, "there is a process after a spawn"
        if process.ready_at_s is None:
            await self._wait_ready(process)
            self._usage = await self._deps.process_control.measure(process.running.birth, process.marker)
            self._mark_ready()
            self._resources.try_write_record(process.running.birth, self.state, self.restarts)
        else:
            self._usage = await self._deps.process_control.measure(process.running.birth, process.marker)
        self._deps.on_change()
        return describe_exit(await process.ended)

    async def _spawn(self) -> None:
        deps, spec, resources = self._deps, self.spec, self._resources
        allocation = resources.allocate()
        launch = make_launch(spec.runnable, spec.command, allocation, deps.options.environment)
        resources.marker = f"{deps.ids.new_id()}@{deps.options.home}"
        self._log_start = self.output.begin(
            f"starting {self.backend} {spec.runnable.version} on port {allocation.port}"
        )
        resources.write_record(None, self.state, self.restarts)
        oom_kills = deps.process_control.count_oom_kills()
        request = SpawnRequest(
            command=launch.command,
            environment={**launch.environment, MARKER: resources.marker},
            directory=launch.directory,
            stdout=self.output.get_path("stdout"),
            stderr=self.output.get_path("stderr"),
        )
        try:
            running = await deps.process_control.spawn(request)
        except OSError as error:
            what = error.filename or launch.command[0]
            raise EngineStartFailed(f"{self.key} could not be started: {error.strerror}: {what}.") from error
        self._track_process(running, oom_kills)
        resources.write_record(running.birth, self.state, self.restarts)
        deps.on_change()

    def _track_process(self, running: ProcessHandle, oom_kills: int | None = None) -> None:
        ended = self._deps.tasks.start(running.wait_ended(), name=f"wait for {self.key}")
        marker = self._resources.marker
        self._process = _EngineProcess(running=running, ended=ended, marker=marker, oom_kills=oom_kills)
        self._silences = 0

    async def _wait_ready(self, process: _EngineProcess) -> None:
        clock, probe = self._deps.clock, self.spec.runnable.manifest.ready
        url = self._resources.probe_url
        budget_s = probe.timeout_s if self.spec.command.ready_s is None else self.spec.command.ready_s
        deadline_s = clock.monotonic() + budget_s
        while True:
            is_ready = await self._deps.check_ready(url, self._resources.api_key)
            if process.ended.done():
                raise self._make_early_exit_error(process, process.ended.result())
            if self._end_requested.is_set():
                raise ProcessBeingStopped(f"{self.key} was stopped while it was starting.")
            if is_ready and process.running.is_alive() and await self._is_ours(process):
                return
            if clock.monotonic() >= deadline_s:
                raise EngineStartFailed(f"{self.key} was not ready after {budget_s:g} s.", code=LOAD_TIMEOUT)
            await asyncio.wait({process.ended}, timeout=READY_POLL_S)

    async def _is_ours(self, process: _EngineProcess) -> bool:
        """Whether our process listens on the port: another worker of this machine may have given it to its own
        engine."""
        assert self._resources.port is not None, "a process that starts has a port"
        return (
            await self._deps.process_control.check_listening(
                process.running.birth, process.marker, self._resources.port
            )
            is not False
        )

    def _make_early_exit_error(self, process: _EngineProcess, code: int | None) -> EngineStartFailed:
        """Make the error of an early end. A SIGKILL from outside is the kernel's if its counter has moved meanwhile."""
        now = self._deps.process_control.count_oom_kills() if code in _KILLED else None
        is_for_memory = now is not None and process.oom_kills is not None and now > process.oom_kills
        slug = OUT_OF_MEMORY if is_for_memory else EngineStartFailed.code
        return EngineStartFailed(f"{self.key} {describe_exit(code)} before it was ready.", code=slug)

    def _mark_ready(self) -> None:
        assert self._process is not None, "something is ready"
        self._process.ready_at_s = self._deps.clock.monotonic()
        self.state, self.was_ready = EngineState.READY, True
        # After `stop` the outcome was set already, the other way.
        self._start.succeed()

    async def _wait_cleared(self, outcome: AttemptSuccess[str] | AttemptFailure) -> float:
        """Wait until nothing of the process is left; return how long it was ready."""
        process, machine = self._process, self._deps.process_control
        if process is None:
            return 0.0
        birth = process.running.birth
        await machine.kill(birth, process.marker)
        while process.running.is_alive() or await machine.is_any_left(birth, process.marker):
            await self._deps.clock.sleep(LEFTOVER_POLL_S)
            await machine.kill(birth, process.marker)
        remark = outcome.value if isinstance(outcome, AttemptSuccess) else outcome.sentence
        drained = await attempt(lambda: self._drain_output(remark))
        if isinstance(drained, AttemptFailure):
            log.warning("the last output of an engine was not kept", key=self.key, error=drained.sentence)
        self._process = None
        return 0.0 if process.ready_at_s is None else self._deps.clock.monotonic() - process.ready_at_s

    async def _drain_output(self, remark: str) -> None:
        while self.output.copy():
            await self._deps.clock.sleep(0)
        self.output.copy(is_final=True)
        self.output.append_remark(remark)

    async def _back_off(self, outcome: AttemptSuccess[str] | AttemptFailure, healthy_s: float) -> None:
        backoff = self._deps.options.restart_backoff
        self.restarts = self.restarts.with_crash(healthy_s, backoff)
        self.state = EngineState.BACKING_OFF
        self._resources.try_write_record(None, self.state, self.restarts)
        self._deps.on_change()
        pause_s = self.restarts.compute_pause_s(backoff)
        cause = outcome.value if isinstance(outcome, AttemptSuccess) else outcome.sentence
        log.warning("an engine crashed", key=self.key, how=cause, restart_in_s=pause_s, restarts=self.restarts.total)
        await self._wait_pause()

    def _count_lost_port(self) -> bool:
        """Count a start that lost its port to another program; return whether another port is worth a try."""
        if self.was_ready or self._ports_lost >= PORTS_LOST_MAX or not self._resources.is_port_lost():
            return False
        self._ports_lost += 1
        port = self._resources.port
        log.warning("another program has taken the port of an engine that was starting", key=self.key, port=port)
        return True

    async def _wait_pause(self) -> None:
        try:
            async with asyncio.timeout(self.restarts.compute_pause_s(self._deps.options.restart_backoff)):
                await self._end_requested.wait()
        except TimeoutError:
            self._check_installation()
        self.state = EngineState.STARTING
        if not self._end_requested.is_set():
            self._start.begin_again()

    def _check_installation(self) -> None:
        found = self._deps.find_runnable(self.backend)
        if found is None or read_folder_identity(found.directory) != self.spec.identity:
            log.warning("an engine that crashed is not started again: its backend is gone", key=self.key)
            self._end_requested.set()

    # --- bookkeeping ---

    async def _signal(self, send: Callable[[ProcessBirth, str], Awaitable[None]]) -> None:
        if self._process is not None:
            await send(self._process.running.birth, self._process.marker)

    def _restore(self, record: ProcessRecord) -> None:
        self._resources.restore(record)
        self.restarts = RestartCount(total=record.restarts, in_a_row=record.crashes_in_a_row)

    def _explain_failure(self, error: Exception) -> CorralError:
        if not isinstance(error, EngineStartFailed):
            return error if isinstance(error, CorralError) else EngineStartFailed(f"{self.key}: {error!r}.")
        last = self.output.read_last_lines(self._log_start, SEARCHED_LINES)
        return _add_last_lines(error, self.spec, last)


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
