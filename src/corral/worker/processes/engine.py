"""The life of one engine: started, watched until it is ready, restarted when it crashes, ended on request.

Guarantee: everything that happens to the process happens in `run`; `stop` signals and waits. The port, the threads and
the record in the journal are released once, after everything of the process has ended. Once a stop was requested, the
engine is no longer reported as ready. A start that fails is reported with the engine's own last output and not
repeated; a crash after it was ready is followed by a restart on the same port, for ever, with growing pauses. The state
is journaled, so that the worker that comes after a kill goes on from there. `engine_process.py` launches a process and
watches it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from corral.bus.messages import RunningProcess
from corral.domain.errors import CorralError
from corral.runtime.attempt import AttemptFailure, AttemptSuccess, attempt
from corral.runtime.processes import ProcessBirth, RestartCount, describe_exit, end_in_steps
from corral.worker.processes.engine_process import (
    EngineDeps,
    EngineLauncher,
    EngineProcess,
    EngineResources,
    EngineSpec,
    EngineState,
)
from corral.worker.processes.journal import ProcessRecord
from corral.worker.processes.process_control import (
    EngineStartFailed,
    ProbeTarget,
    ProcessBeingStopped,
    ProcessHandle,
    ProcessStopFailed,
    ProcessUsage,
)
from corral.worker.processes.process_log import OutputCopier

log = structlog.get_logger(__name__)


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
    """Runs one engine process on a worker: starts it, waits until it is ready, restarts it after crashes, ends it."""

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
        self._launcher = EngineLauncher(spec, deps, self._resources, output)
        self._process: EngineProcess | None = None
        self._usage = ProcessUsage()
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
        elif process is None or not process.is_alive():
            return None
        else:
            pid = process.birth.pid
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
        """Return whether a caller with this spec can use the process that is here, or wait for it."""
        if self._end_requested.is_set() or not spec.is_same_process(self.spec):
            return False
        if self.state is EngineState.STARTING:
            return True
        return self.state is EngineState.READY and self._process is not None and self._process.is_alive()

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
        return ProbeTarget(url=resources.probe_url, birth=process.birth, marker=process.marker)

    def record_probe(self, *, is_healthy: bool) -> None:
        assert self._process is not None, "something was probed"
        was_unhealthy = self._is_unhealthy
        self._process.count_probe(is_healthy=is_healthy)
        if self._is_unhealthy != was_unhealthy:
            message = "an engine responds again" if was_unhealthy else "an engine is idle and does not respond"
            log.warning(message, key=self.key)
            self._deps.on_change()

    @property
    def _is_unhealthy(self) -> bool:
        return self.state is EngineState.READY and self._process is not None and self._process.is_silent

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
            if isinstance(outcome, AttemptFailure) and not self.was_ready and self._resources.count_lost_port():
                continue
            if isinstance(outcome, AttemptFailure):
                self._start.fail(self._launcher.explain_failure(outcome.error))
                if not self.was_ready:
                    break
            await self._back_off(outcome, healthy_s)
        self._resources.release_all()
        self._start.fail()
        self.finished.set()

    def adopt(self, record: ProcessRecord, running: ProcessHandle) -> None:
        """Go on with a process that an earlier worker has started, ready or not yet; call before `run`."""
        self._restore(record)
        self._process = EngineProcess(self._resources, self._deps, running)
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
        """End a start that no caller waits for any more, by force and without waiting for the end."""
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
            self._process = await self._launcher.launch(self.state, self.restarts)
            self._resources.write_record(self._process.birth, self.state, self.restarts)
            self._deps.on_change()
        process = self._process
        if process.ready_at_s is None:
            await process.wait_ready(self.spec, self._end_requested)
            self._usage = await process.measure()
            self._mark_ready()
            self._resources.try_write_record(process.birth, self.state, self.restarts)
        else:
            self._usage = await process.measure()
        self._deps.on_change()
        return describe_exit(await process.ended)

    def _mark_ready(self) -> None:
        assert self._process is not None, "something is ready"
        self._process.ready_at_s = self._deps.clock.monotonic()
        self.state, self.was_ready = EngineState.READY, True
        # After `stop` the outcome was set already, the other way.
        self._start.succeed()

    async def _wait_cleared(self, outcome: AttemptSuccess[str] | AttemptFailure) -> float:
        """Wait until nothing of the process is left; return how long it was ready."""
        process = self._process
        if process is None:
            return 0.0
        await process.wait_cleared()
        remark = outcome.value if isinstance(outcome, AttemptSuccess) else outcome.sentence
        drained = await attempt(lambda: self._launcher.drain_output(remark))
        if isinstance(drained, AttemptFailure):
            log.warning("the last output of an engine was not kept", key=self.key, error=drained.sentence)
        self._process = None
        return 0.0 if process.ready_at_s is None else self._deps.clock.monotonic() - process.ready_at_s

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

    async def _wait_pause(self) -> None:
        try:
            async with asyncio.timeout(self.restarts.compute_pause_s(self._deps.options.restart_backoff)):
                await self._end_requested.wait()
        except TimeoutError:
            if not self._launcher.is_installed():
                log.warning("an engine that crashed is not started again: its backend is gone", key=self.key)
                self._end_requested.set()
        self.state = EngineState.STARTING
        if not self._end_requested.is_set():
            self._start.begin_again()

    # --- bookkeeping ---

    async def _signal(self, send: Callable[[ProcessBirth, str], Awaitable[None]]) -> None:
        if self._process is not None:
            await send(self._process.birth, self._process.marker)

    def _restore(self, record: ProcessRecord) -> None:
        self._resources.restore(record)
        self.restarts = RestartCount(total=record.restarts, in_a_row=record.crashes_in_a_row)
