"""Accepts runs, executes them beside each other, cancels them, and says what became of them.

Guarantees: a run is accepted or refused within milliseconds, and one job id is one job, however often it is sent; at
most `max_runs` are executed at the same time, and a few batches beside them. A run whose last entry is still on its way
takes no place. Limit: runs are not resumed after a restart of the worker; the frontends notice and begin them again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.bus.messages import JobAcceptedReply, JobEvent, StartRun
from corral.domain.errors import Unavailable
from corral.domain.run import BATCHES_PER_NODE, PROGRAMS_PER_NODE, RunKind, RunPlaceKind
from corral.ports.runtime import Clock
from corral.runtime.loop import ValueSignal
from corral.runtime.tasks import TaskSet
from corral.wire.run_work import RunOutcome
from corral.worker.control_plane import RunControlPlane
from corral.worker.runs.active_run import CANCELLED_OUTCOME, END_TIMEOUTS, ActiveRun, ActiveRunDeps, RunEndTimeouts
from corral.worker.runs.mcp_caller import McpCaller
from corral.worker.runs.run_host import RunHost
from corral.worker.runs.runner_supervisor import RunnerSupervisor
from corral.worker.runs.trace_sender import RunAttempt

log = structlog.get_logger(__name__)

# How many ended jobs are remembered for frontends that missed the end.
ENDED_MAX = 500
_KINDS = frozenset(RunKind)
# Runs beyond `max_runs` whose end could not be delivered yet; then the worker takes no more.
DELIVERING_MAX = 100
STOPPED_OUTCOME = RunOutcome(
    state="failed", reason="error", error_code="worker_stopping", error_text="The worker was stopped."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExecutorDeps:
    """Dependencies of a worker's run executor: frontends, runner process, clock, and how many runs it may execute."""

    control: RunControlPlane
    runner: RunnerSupervisor
    clock: Clock
    rng: Random
    boot_id: str
    max_runs: int
    timeouts: RunEndTimeouts = END_TIMEOUTS
    # Called when an assertion failed: it ends the process.
    on_crash: Callable[[BaseException], None] | None = None


class RunExecutor:
    """Executes the runs (such as LLM agents' turns) that frontends give to this worker. A service."""

    name = "runs"

    def __init__(self, deps: RunExecutorDeps) -> None:
        self._deps = deps
        self._tasks = TaskSet(self.name, deps.on_crash)
        self._run_deps = ActiveRunDeps(
            control=deps.control,
            runner=deps.runner,
            clock=deps.clock,
            rng=deps.rng,
            tasks=self._tasks,
            timeouts=deps.timeouts,
        )
        # By job id.
        self._active: dict[str, ActiveRun] = {}
        # Their kinds of places, by job id.
        self._places: dict[str, RunPlaceKind] = {}
        self._ended: OrderedDict[str, JobEvent] = OrderedDict()
        self._drives: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self.mcp_caller = McpCaller(deps.control, deps.runner, deps.boot_id)
        # Makes what executes the program of one attempt; None: this worker runs no programs.
        self.open_program: Callable[[RunAttempt], RunHost] | None = None
        self.run_ended: ValueSignal[JobEvent] = ValueSignal()

    async def start(self) -> None:
        return

    def prepare(self) -> None:
        """Get the runner process ready, because the node was accepted and may get runs."""
        if self._deps.max_runs:
            self._deps.runner.warm_up()

    async def stop(self) -> None:
        """Accept no more runs, end those that run, and deliver as much of their traces as possible in a few seconds.

        The frontends begin them again elsewhere, or lose them."""
        self._is_stopping = True
        for run in self._active.values():
            run.request_end(STOPPED_OUTCOME, self._deps.timeouts.stop_runner_s)
        if self._drives:
            await asyncio.wait(set(self._drives), timeout=self._deps.timeouts.stop_s)
        await self._tasks.close()

    def accept(self, command: StartRun, node_id: str) -> JobAcceptedReply:
        """Accept a run; the same job id gives the same job. Raises `Unavailable` if there is no room for it."""
        event = self.find_job(command.job_id)
        if event is None:
            event = self._accept_new(command, node_id).event
        return JobAcceptedReply(boot_id=self._deps.boot_id, job=event)

    def find_job(self, job_id: str) -> JobEvent | None:
        """Return the state of a job that runs or ended lately."""
        run = self._active.get(job_id)
        return run.event if run is not None else self._ended.get(job_id)

    def list_jobs(self) -> tuple[JobEvent, ...]:
        """Return the states of all jobs that run, and of the last that ended."""
        return (*self._ended.values(), *(run.event for run in self._active.values()))

    def cancel(self, job_id: str) -> JobEvent | None:
        """Ask a run to end and return its state now; None if there is no such job."""
        run = self._active.get(job_id)
        if run is not None:
            run.request_end(CANCELLED_OUTCOME, self._deps.timeouts.end_s)
        return self.find_job(job_id)

    def wake_run(self, run_id: str) -> None:
        """Ask a frontend for news about a run now."""
        for run in self._active.values():
            if run.ids.run_id == run_id:
                run.wake()

    async def abandon_runs(self) -> None:
        """End every run and deliver nothing more, because the node was removed."""
        for run in self._active.values():
            run.drop()
        if self._drives:
            await asyncio.wait(set(self._drives), timeout=self._deps.timeouts.end_s + 1.0)

    def _accept_new(self, command: StartRun, node_id: str) -> ActiveRun:
        if self._is_stopping:
            raise Unavailable(
                "This worker is stopping.", hint="Send the run to another worker.", code="worker_stopping"
            )
        if command.kind not in _KINDS:
            raise Unavailable(
                f"This worker does not know runs of the kind {command.kind[:40]!r}.",
                hint="Upgrade the worker, or send the run to another one.",
                code="run_kind_unknown",
            )
        kind = RunKind(command.kind)
        executing_count = sum(
            run.is_executing and self._places[job_id] is kind.place_kind for job_id, run in self._active.items()
        )
        places = self._count_places(kind.place_kind)
        if executing_count >= places or len(self._active) >= places + DELIVERING_MAX:
            raise Unavailable(
                f"This worker already executes {executing_count} runs.",
                hint="Send the run to another worker, or raise --max-runs.",
                code="worker_busy",
            )
        earlier = [run for run in self._active.values() if run.ids.run_id == command.run_id]
        for run in earlier:
            # A frontend begins a run again only when it has given up the attempt before.
            run.drop()
        ids = RunAttempt(node_id=node_id, run_id=command.run_id, job_id=command.job_id, boot_id=self._deps.boot_id)
        run = self._active[command.job_id] = ActiveRun(ids, self._make_run_deps(ids, kind), earlier)
        self._places[command.job_id] = kind.place_kind
        log.info("run accepted", run=command.run_id, job=command.job_id, kind=command.kind)
        task = self._tasks.start(self._drive(run), name=f"drive {command.job_id}")
        self._drives.add(task)
        task.add_done_callback(self._drives.discard)
        return run

    def _count_places(self, place_kind: RunPlaceKind) -> int:
        match place_kind:
            case RunPlaceKind.BATCHES:
                return BATCHES_PER_NODE if self._deps.max_runs else 0
            case RunPlaceKind.PROGRAMS:
                return PROGRAMS_PER_NODE if self.open_program is not None else 0
            case RunPlaceKind.TURNS:
                return self._deps.max_runs

    def _make_run_deps(self, ids: RunAttempt, kind: RunKind) -> ActiveRunDeps:
        if not kind.is_program:
            return self._run_deps
        assert self.open_program is not None, "without programs there is no place for one"
        return replace(self._run_deps, runner=self.open_program(ids))

    async def _drive(self, run: ActiveRun) -> None:
        try:
            await run.drive()
        finally:
            self._active.pop(run.ids.job_id, None)
            self._places.pop(run.ids.job_id, None)
            self._ended[run.ids.job_id] = run.event
            while len(self._ended) > ENDED_MAX:
                self._ended.popitem(last=False)
        self.run_ended.fire(run.event)
