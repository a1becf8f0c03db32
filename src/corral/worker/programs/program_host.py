"""Executes the runs whose work is a program, in this worker, in the place of the runner process.

Guarantee: each run that was started ends once for its listener, with an outcome that names the reason; a run that was
cancelled leaves no process. A program has no tool calls, so no person decides about any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from corral.domain.errors import CorralError
from corral.domain.run import RunEventType
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet
from corral.wire.run_work import ApprovalDecision, RunOutcome, RunSpec
from corral.wire.runner_protocol import EventMessage, ReplyMessage
from corral.worker.runs.frontend_call import FRONTEND_UNREACHABLE
from corral.worker.runs.frontend_retries import is_passing
from corral.worker.runs.runner_supervisor import RunnerListener
from corral.worker.runs.trace_sender import RunAttempt

CANCELLED = RunOutcome(state="cancelled", reason="cancelled")
# How far the bar has to move before it is reported again: a trace holds so many entries and no more.
PERCENT_STEP = 0.5


class ProgramProgress:
    """Tells the listener of a run how far its program is. The percentage never goes back."""

    def __init__(self, run_id: str, listener: RunnerListener) -> None:
        self._run_id = run_id
        self._listener = listener
        self._phase = ""
        self._percent = -1.0

    def report(self, phase: str, percent: float, message: str = "") -> None:
        """Tell the phase and the percentage, if they have moved enough."""
        percent = max(percent, self._percent)
        if phase == self._phase and percent < self._percent + PERCENT_STEP:
            return
        self.report_point(phase, percent, {"message": message} if message else {})

    def report_point(self, phase: str, percent: float, values: Mapping[str, Any]) -> None:
        """Tell values that are all to be kept, such as a point of a curve, with the phase and the percentage."""
        self._phase, self._percent = phase, max(percent, self._percent)
        data = {"phase": phase, "percent": round(self._percent, 1), **values}
        self._listener.on_event(EventMessage(run_id=self._run_id, event_type=RunEventType.STATUS, data=data))


class ProgramWork(Protocol):
    """Interface of the work of one kind of program, such as a quantisation."""

    async def execute(self, ids: RunAttempt, spec: RunSpec, progress: ProgramProgress) -> RunOutcome:
        """Do the work and return how it ended. A cancelled call leaves no process and no file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramHostDeps:
    """Dependencies of a worker's host of programs: the work of each kind of run, and who owns its tasks."""

    works: Mapping[str, ProgramWork]
    tasks: TaskSet


class ProgramHost:
    """Executes the program of one attempt of a run. Implements `RunHost`."""

    def __init__(self, ids: RunAttempt, deps: ProgramHostDeps) -> None:
        self._ids = ids
        self._deps = deps
        self._task: asyncio.Task[None] | None = None
        self._on_end: Callable[[RunOutcome], None] = lambda _: None

    async def start_run(self, run_id: str, spec: RunSpec, listener: RunnerListener) -> None:
        self._on_end = listener.on_end
        self._task = self._deps.tasks.start(self._execute(spec, listener), name=f"program of {run_id}")

    def cancel_run(self, run_id: str) -> bool:
        del run_id
        if self._task is None or self._task.done():
            return False
        self._task.cancel()
        return True

    def abandon_run(self, run_id: str) -> None:
        self._on_end = lambda _: None
        self.cancel_run(run_id)

    def decide_call(self, run_id: str, call_id: str, decision: ApprovalDecision) -> bool:
        del run_id, call_id, decision
        return False

    def reply(self, run_id: str, reply: ReplyMessage) -> None:
        del run_id, reply

    async def _execute(self, spec: RunSpec, listener: RunnerListener) -> None:
        progress = ProgramProgress(self._ids.run_id, listener)
        try:
            async with asyncio.timeout(spec.budgets.wall_s):
                outcome = await attempt(lambda: self._deps.works[spec.kind].execute(self._ids, spec, progress))
        except TimeoutError:
            text = f"The run took longer than its {spec.budgets.wall_s:g} s."
            self._on_end(_make_failure("run_timeout", text))
            return
        except asyncio.CancelledError:
            self._on_end(CANCELLED)
            raise
        if isinstance(outcome, AttemptFailure):
            code = outcome.error.slug if isinstance(outcome.error, CorralError) else "internal"
            # Another attempt may do better.
            self._on_end(_make_failure(FRONTEND_UNREACHABLE if is_passing(outcome.error) else code, outcome.sentence))
        else:
            self._on_end(outcome.value)


def _make_failure(code: str, text: str) -> RunOutcome:
    return RunOutcome(state="failed", reason="error", error_code=code, error_text=text)
