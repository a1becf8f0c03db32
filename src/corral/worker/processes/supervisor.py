"""Supervises all engines of this worker: one process a key, however many callers request it at the same time.

Guarantee: a dead process is never returned as running, nor one whose folder was replaced. A stop reaches exactly what
it names, returns after the end, and within a limit. A worker that comes after a kill adopts the running engines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.bus.messages import ReadLog, ReadLogReply, RunningProcess, StartBackend
from corral.domain.errors import Conflict, NotFound
from corral.domain.operation import JobPhase
from corral.ports.runtime import Clock, IdGenerator
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.loop import Loop, LoopOptions
from corral.runtime.processes import ProcessBirth
from corral.runtime.tasks import TaskSet
from corral.worker.backends.layout import read_folder_identity
from corral.worker.job_ports import JobProgressListener, RunnableBackend
from corral.worker.processes.engine import SupervisedEngine
from corral.worker.processes.engine_health import HttpReadinessProbe, UsageMeter, is_bindable, is_busy, watch_engines
from corral.worker.processes.engine_process import (
    READY_POLL_S,
    EngineDeps,
    EngineSpec,
    EngineState,
    EngineSupervisorOptions,
    make_probe_url,
)
from corral.worker.processes.journal import ProcessJournal, ProcessKey, ProcessRecord, parse_key
from corral.worker.processes.launch import LOOPBACK, hash_command
from corral.worker.processes.port_pool import PortPool, ThreadBudget, parse_range
from corral.worker.processes.process_control import (
    AddressMismatch,
    ProcessBeingStopped,
    ProcessControl,
    ProcessHandle,
    ProcessStopFailed,
    ReadinessCheck,
)
from corral.worker.processes.process_log import OutputCopier, ProcessLogStore
from corral.worker.processes.system_process_control import SystemProcessControl

log = structlog.get_logger(__name__)
COPY_INTERVAL_S = 0.2
_END_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSupervisorDeps:
    """Dependencies of a worker's engine supervisor: installed backends, clock, ids, and stand-ins for tests."""

    find_runnable: Callable[[str], RunnableBackend | None]
    clock: Clock
    ids: IdGenerator
    rng: Random
    # Set only in tests; None uses the real ones.
    process_control: ProcessControl | None = None
    check_ready: ReadinessCheck | None = None
    is_bindable: Callable[[int], bool] | None = None


class EngineSupervisor:
    """Supervises all engine processes of a worker, one for each key. Implements `ProcessSupervisor`; a service."""

    name = "engines"

    def __init__(self, options: EngineSupervisorOptions, deps: EngineSupervisorDeps) -> None:
        self._engines: dict[str, SupervisedEngine] = {}
        self.on_change: Callable[[], None] = lambda: None
        self._is_closing = False
        self._readiness_probe = HttpReadinessProbe()
        port_range, warning = parse_range(options.port_base, options.port_max)
        if warning:
            log.warning("the range of engine ports", problem=warning, used=str(port_range))
        self._tasks = TaskSet("engines")
        self._deps = EngineDeps(
            options=options,
            process_control=deps.process_control or SystemProcessControl(deps.clock),
            check_ready=deps.check_ready or self._readiness_probe,
            find_runnable=deps.find_runnable,
            ports=PortPool(range=port_range, is_bindable=deps.is_bindable or partial(_is_free, options.host)),
            threads=ThreadBudget(total=options.threads),
            journal=ProcessJournal(options.root / "running"),
            logs=ProcessLogStore(options.root / "logs", options.logs),
            clock=deps.clock,
            ids=deps.ids,
            tasks=self._tasks,
            on_change=self._notify_change,
        )
        self._usage_meter = UsageMeter(self._deps.process_control, deps.clock)
        loop_options = LoopOptions(name="engine-logs", interval_s=COPY_INTERVAL_S)
        self.log_copy_loop = Loop(options=loop_options, tick=self._copy_logs, clock=deps.clock, rng=deps.rng)
        loop_options = LoopOptions(name="engine-health", interval_s=options.watch_s)
        self.health_loop = Loop(options=loop_options, tick=self._probe_engines, clock=deps.clock, rng=deps.rng)

    # --- a service ---

    async def start(self) -> None:
        """Adopt or end the engines of an earlier worker; then engines can be started."""
        await adopt_all(self._deps, self._add_engine)
        for engine in self._engines.values():
            self._tasks.start(self._run(engine), name=engine.key)
        await self.log_copy_loop.start()
        await self.health_loop.start()

    async def stop(self) -> None:
        """Start nothing new, and end all engines; those that do not end within the grace are killed."""
        self._is_closing = True
        await self.health_loop.stop()
        _, survivors = await self._stop_all(tuple(self._engines.values()), force=False)
        if survivors:
            log.error("engines could not be ended", keys=survivors)
        await self.log_copy_loop.stop()
        await self._tasks.close()
        await self._readiness_probe.close()

    # --- ProcessSupervisor ---

    async def start_backend(self, command: StartBackend, progress: JobProgressListener) -> RunningProcess:
        key = ProcessKey(model=command.model or command.backend, replica=command.replica)
        progress.on_phase(JobPhase.STARTING)
        spec = self._make_spec(key, command)
        while (existing := self._engines.get(str(key))) is not None:
            if existing.is_stopping:
                raise ProcessBeingStopped(f"{key} is being stopped; try again when it has ended.")
            if spec is not None and existing.can_satisfy(spec):
                progress.on_phase(JobPhase.LOADING)
                return await self._wait_started(existing)
            await existing.stop(force=True)
        if spec is None:
            raise NotFound(f"{command.backend} is not installed on this node.", code="not_installed")
        if self._is_closing:
            raise Conflict("This worker is stopping.", code="worker_stopping")
        engine = self._add_engine(spec)
        self._tasks.start(self._run(engine), name=engine.key)
        progress.on_phase(JobPhase.LOADING)
        return await self._wait_started(engine)

    async def stop_backend(
        self, backend: str | None, *, force: bool = False
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        chosen = [engine for engine in self._engines.values() if backend is None or engine.backend == backend]
        return await self._stop_all(chosen, force=force)

    async def stop_process(self, key: str, *, expected_address: str = "", force: bool = False) -> tuple[bool, str]:
        engine = self._engines.get(str(parse_key(key)))
        if engine is None:
            return False, ""
        address = engine.address
        if expected_address and expected_address != address:
            raise AddressMismatch(
                f"{key} listens on {address}, not on {expected_address}: it is another process and was left alone.",
                details={"address": address},
            )
        await engine.stop(force=force)
        return True, address

    def list_running(self) -> tuple[RunningProcess, ...]:
        descriptions = (engine.describe() for engine in self._engines.values())
        return tuple(sorted((one for one in descriptions if one is not None), key=lambda one: one.key))

    async def measure_running(self) -> tuple[RunningProcess, ...]:
        return await self._usage_meter.measure(tuple(self._engines.values()))

    async def read_log(self, query: ReadLog) -> ReadLogReply:
        return await self._deps.logs.read_log(query)

    def find_api_key(self, key: str) -> str | None:
        """Return the API key of the engine under this key: empty if it checks none, None if there is no such
        process."""
        engine = self._engines.get(key)
        return None if engine is None else engine.api_key

    # --- internals ---

    def _make_spec(self, key: ProcessKey, command: StartBackend) -> EngineSpec | None:
        runnable = self._deps.find_runnable(command.backend)
        identity = None if runnable is None else read_folder_identity(runnable.directory)
        if runnable is None or identity is None:
            return None
        return EngineSpec(
            key=key, runnable=runnable, identity=identity, command_hash=hash_command(runnable, command), command=command
        )

    def _add_engine(self, spec: EngineSpec) -> SupervisedEngine:
        key = str(spec.key)
        assert key not in self._engines, f"{key} would run twice"
        logs = self._deps.logs
        log_file = logs.open_log(key, in_use=frozenset(self._engines))
        output = OutputCopier(logs.get_folder(key), log_file, self._deps.clock, self._deps.options.output)
        engine = SupervisedEngine(spec, self._deps, output)
        self._engines[key] = engine
        return engine

    async def _run(self, engine: SupervisedEngine) -> None:
        await engine.run()
        # Without an await in between: a caller that waited for the end finds the key free.
        assert self._engines.pop(engine.key) is engine, "only an engine itself leaves the table"
        self.on_change()

    async def _wait_started(self, engine: SupervisedEngine) -> RunningProcess:
        engine.waiters += 1
        try:
            return await engine.wait_started()
        except asyncio.CancelledError:
            if engine.waiters == 1 and not engine.was_ready:
                # No other caller needs this engine. Its own task waits for its end.
                engine.abandon()
            raise
        finally:
            engine.waiters -= 1

    async def _stop_all(
        self, engines: Iterable[SupervisedEngine], *, force: bool
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Stop engines; return the keys that ended and those that did not. An engine already being stopped is waited
        for."""
        chosen = sorted(engines, key=lambda engine: engine.key)
        async with asyncio.TaskGroup() as group:
            tasks = {engine.key: group.create_task(self._stop_one(engine, force=force)) for engine in chosen}
        ended = tuple(key for key, task in tasks.items() if task.result())
        return ended, tuple(key for key, task in tasks.items() if not task.result())

    async def _stop_one(self, engine: SupervisedEngine, *, force: bool) -> bool:
        try:
            await engine.stop(force=force)
        except ProcessBeingStopped:
            return await engine.wait_ended(self._deps.options.grace_s + self._deps.options.kill_limit_s)
        except ProcessStopFailed:
            return False
        return True

    async def _copy_logs(self) -> None:
        failures = [failed for engine in tuple(self._engines.values()) if (failed := await self._copy_one(engine))]
        if failures:
            raise failures[0].error

    def _notify_change(self) -> None:
        self.on_change()

    async def _probe_engines(self) -> None:
        await watch_engines(tuple(self._engines.values()), self._deps)

    async def _copy_one(self, engine: SupervisedEngine) -> AttemptFailure | None:
        async def copy() -> None:
            engine.output.copy()

        outcome = await attempt(copy)
        return outcome if isinstance(outcome, AttemptFailure) else None


def _is_free(host: str, port: int) -> bool:
    """Return whether a port is free on both: some engines listen on the host, others on the loopback."""
    return is_bindable(host, port) and (host == LOOPBACK or is_bindable(LOOPBACK, port))


class AdoptionVerdict(StrEnum):
    """What becomes of an engine left by an earlier worker process: it goes on, restarts later, or is ended."""

    GOES_ON = "goes on"
    RESTARTS = "is started again after its pause"
    DEAD = "has ended"
    GONE = "is of a backend that is gone"
    SILENT = "does not answer"


async def adopt_all(
    deps: EngineDeps, add_engine: Callable[[EngineSpec], SupervisedEngine]
) -> dict[str, AdoptionVerdict]:
    """Adopt or end all engines; return the verdict for each key. `add_engine` is called for each process that goes
    on.

    An engine goes on if it is the same process (pid and birth), of the same installation, and answers on its port
    or is busy; its clients notice nothing. One that was still loading goes on loading. One that was about to be
    restarted after a crash is. Every other process of this home is ended, also one that no record names; no process
    of another owner is touched. Dead ones are forgotten.
    """
    records = deps.journal.load()
    markers = await deps.process_control.list_markers(deps.options.home)
    async with asyncio.TaskGroup() as group:
        for marker in markers - {record.marker for record in records}:
            log.warning("an engine that no record names is ended", marker=marker)
            group.create_task(_end(deps, None, marker))
        tasks = {record.key: group.create_task(_adopt_or_end(record, deps, add_engine)) for record in records}
    return {key: task.result() for key, task in tasks.items()}


async def _adopt_or_end(
    record: ProcessRecord, deps: EngineDeps, add_engine: Callable[[EngineSpec], SupervisedEngine]
) -> AdoptionVerdict:
    running = None if record.birth is None else deps.process_control.find(record.birth)
    runnable = _find_installation(record, deps)
    if running is None and runnable is not None and record.state == EngineState.BACKING_OFF:
        await _end(deps, None, record.marker)
        add_engine(_make_spec(record, runnable)).resume_pause(record)
        verdict = AdoptionVerdict.RESTARTS
    elif running is None:
        verdict = AdoptionVerdict.DEAD
    elif runnable is None:
        verdict = AdoptionVerdict.GONE
    elif not await _is_responding(record, runnable, running, deps):
        verdict = AdoptionVerdict.SILENT
    else:
        engine = add_engine(_make_spec(record, runnable))
        engine.adopt(record, running)
        verdict = AdoptionVerdict.GOES_ON
    log.info("an engine of an earlier worker", key=record.key, port=record.port, verdict=str(verdict))
    # Also for a dead process: its children may live.
    if verdict not in (AdoptionVerdict.GOES_ON, AdoptionVerdict.RESTARTS) and await _end(
        deps, record.birth, record.marker
    ):
        deps.journal.remove(record.key)
    return verdict


def _find_installation(record: ProcessRecord, deps: EngineDeps) -> RunnableBackend | None:
    """Return the installation that the process was started from, if it is still the one in use."""
    found = deps.find_runnable(record.backend)
    if found is None or found.name != record.backend or str(found.directory) != record.directory:
        return None
    return found if read_folder_identity(Path(record.directory)) == record.identity else None


def _make_spec(record: ProcessRecord, runnable: RunnableBackend) -> EngineSpec:
    return EngineSpec(
        key=parse_key(record.key),
        runnable=runnable,
        identity=record.identity,
        command_hash=record.command_hash,
        command=record.wish,
    )


async def _is_responding(
    record: ProcessRecord, runnable: RunnableBackend, running: ProcessHandle, deps: EngineDeps
) -> bool:
    """Return whether the engine answers, or may be silent because it still loads or works."""
    if record.state == EngineState.STARTING:
        return running.is_alive()
    url = make_probe_url(runnable, deps.options, record.port)
    deadline_s = deps.clock.monotonic() + deps.options.adoption_s
    while running.is_alive():
        if await deps.check_ready(url, record.api_key):
            return running.is_alive()
        if deps.clock.monotonic() >= deadline_s:
            return await is_busy(deps, running.birth, record.marker) and running.is_alive()
        await deps.clock.sleep(READY_POLL_S)
    return False


async def _end(deps: EngineDeps, birth: ProcessBirth | None, marker: str) -> bool:
    """Terminate, wait, kill, wait; return whether nothing is left."""
    machine, options = deps.process_control, deps.options
    if birth is not None and machine.find(birth) is not None:
        await machine.terminate(birth, marker)
        if await _wait_gone(deps, birth, marker, options.grace_s):
            return True
    await machine.kill(birth, marker)
    if await _wait_gone(deps, birth, marker, options.kill_limit_s):
        return True
    log.error("an engine of an earlier worker survives SIGKILL", marker=marker)
    return False


async def _wait_gone(deps: EngineDeps, birth: ProcessBirth | None, marker: str, limit_s: float) -> bool:
    deadline_s = deps.clock.monotonic() + limit_s
    while await deps.process_control.is_any_left(birth, marker):
        if deps.clock.monotonic() >= deadline_s:
            return False
        await deps.clock.sleep(_END_POLL_S)
    return True
