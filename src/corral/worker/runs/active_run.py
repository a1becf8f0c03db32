"""Drives one attempt of a run: fetches what to do, hands it to the runner, and delivers its trace to the end.

    fetching --> executing (in the runner) --> delivering the end --> ended

Guarantees: exactly one last entry is put into the trace, however the run ends (the runner, a cancellation, the worker's
stop, the runner's death); a run that is to end is out of the runner within seconds, or the runner is killed or leaves
it alone; each decision of a person reaches the runner once. The job counts as ended only after a frontend has
stored the last entry, has answered that the run is not this worker's any more, or could not be reached for a long time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.bus.messages import JobEvent
from corral.domain.errors import CorralError
from corral.domain.operation import JobState
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet
from corral.wire.run_work import RunEventsIn, RunEventsOut, RunOutcome, RunSpec, RunWorkOut
from corral.wire.runner_protocol import CallMessage, EventMessage, ReplyMessage, RunnerErrorBody
from corral.worker.control_plane import RunControlPlane
from corral.worker.runs.agent_call import AgentCaller
from corral.worker.runs.event_queue import RunEventQueue
from corral.worker.runs.frontend_call import FrontendCaller
from corral.worker.runs.frontend_retries import (
    GIVE_UP_S,
    SECRETS_WAIT_S,
    FrontendRetryBackoff,
    is_not_ours,
    is_secret_problem,
)
from corral.worker.runs.run_host import RunHost
from corral.worker.runs.trace_sender import RunAttempt, RunTraceSender, TraceSendResult

log = structlog.get_logger(__name__)

# A runner that waits for so many answers at once is out of control.
CALLS_MAX = 32
RUNNER_LOST = "runner_lost"
CANCELLED_OUTCOME = RunOutcome(state="cancelled", reason="cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEndTimeouts:
    """Time limits of a worker for ending a run, such as for delivering the last entries of its trace."""

    # After a cancellation; then the runner is killed, or the run is left alone in it.
    end_s: float = 5.0
    # A worker that stops waits so long for the ends of its runs and for their delivery; the first part is the runner's.
    stop_s: float = 5.0
    stop_runner_s: float = 2.0
    # While frontends cannot open a secret of the run; then it fails.
    secrets_wait_s: float = SECRETS_WAIT_S


END_TIMEOUTS = RunEndTimeouts()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRunDeps:
    """Dependencies that all runs of one worker share: frontends, runner process, clock and background tasks."""

    control: RunControlPlane
    runner: RunHost
    clock: Clock
    rng: Random
    tasks: TaskSet
    timeouts: RunEndTimeouts


class ActiveRun:
    """Drives one attempt of a run (such as an LLM agent's turn) at its worker. Implements `RunnerListener`."""

    def __init__(self, ids: RunAttempt, deps: ActiveRunDeps, earlier: Sequence[ActiveRun] = ()) -> None:
        """Prepare an attempt. `earlier` are attempts of the same run that must be out of the runner first."""
        self.ids = ids
        self.event = JobEvent(job_id=ids.job_id, seq=1, state=str(JobState.RUNNING), operation_id=ids.run_id)
        self._deps = deps
        self._earlier = tuple(earlier)
        self._queue: RunEventQueue | None = None
        self._sender: RunTraceSender | None = None
        self._agents = AgentCaller(ids, deps.control, deps.clock, deps.rng)
        self._frontends = FrontendCaller(ids, deps.control, deps.clock, deps.rng)
        # How the run is to end; set by the first request to end it.
        self._requested_outcome: RunOutcome | None = None
        self._decided_calls: set[str] = set()
        self._calls: set[asyncio.Task[None]] = set()
        self._handover: asyncio.Task[None] | None = None
        # The run is over here, and nothing of it is in the runner.
        self._over_event = asyncio.Event()
        self._dropped_event = asyncio.Event()

    @property
    def is_executing(self) -> bool:
        """Return whether the run takes one of the places of this worker."""
        return not self._over_event.is_set()

    async def wait_over(self) -> None:
        """Wait until the runner has no part of the run any more."""
        await self._over_event.wait()

    def wake(self) -> None:
        """Ask a frontend for news now, such as decisions of people."""
        if self._sender is not None:
            self._sender.wake()

    def request_end(self, outcome: RunOutcome, limit_s: float) -> None:
        """End the run with this outcome, unless it ends by itself first. Only the first request counts."""
        if self._requested_outcome is not None or self._over_event.is_set():
            return
        self._requested_outcome = outcome
        if self._queue is not None:
            self._deps.tasks.start(self._end_in_runner(outcome, limit_s), name=f"end {self.ids.job_id}")

    def drop(self) -> None:
        """End the run and deliver nothing more of it, because it is not this worker's any more."""
        self._dropped_event.set()

    async def drive(self) -> None:
        """Execute the run to its end; `event` holds the state of the job."""
        try:
            outcome = await attempt(self._fetch)
            if isinstance(outcome, AttemptFailure):
                await self._end_unfetched(outcome.error)
            elif outcome.value is None:
                self._end_job(JobState.DONE)
            else:
                self._end_job(await self._execute(outcome.value))
        finally:
            self._over_event.set()

    # --- what to do ---

    async def _fetch(self) -> RunWorkOut | None:
        """Return the work of the run; None if the run is not this worker's any more. Raises if no frontend answers."""
        ids = self.ids

        async def fetch() -> RunWorkOut | None:
            is_dropped = self._dropped_event.is_set()
            return None if is_dropped else await self._deps.control.fetch_run(ids.node_id, ids.run_id, ids.job_id)

        def get_limit_s(error: CorralError) -> float:
            return self._deps.timeouts.secrets_wait_s if is_secret_problem(error) else GIVE_UP_S

        retries = FrontendRetryBackoff(self._deps.clock, self._deps.rng)
        try:
            return await retries.call(fetch, wait=partial(_wait_for, self._dropped_event), get_limit_s=get_limit_s)
        except CorralError as error:
            if not is_not_ours(error):
                raise
        log.info("a run was given to another worker before it began", run=ids.run_id)
        return None

    async def _end_unfetched(self, error: Exception) -> None:
        """End the job whose work could not be fetched, and the run too if any other worker would not get it either."""
        if is_secret_problem(error):
            reported = await attempt(lambda: self._report_end(error))
            if not isinstance(reported, AttemptFailure):
                self._end_job(JobState.DONE)
                return
        self._end_job(JobState.FAILED, error)

    async def _report_end(self, error: Exception) -> None:
        """Deliver the last entry of a run that did not begin here."""
        ids, control = self.ids, self._deps.control
        sign_of_life = RunEventsIn(boot_id=ids.boot_id, job_id=ids.job_id)
        stored = await control.send_run_events(ids.node_id, ids.run_id, sign_of_life)
        queue = RunEventQueue(stored.last_seq, self._deps.clock)
        queue.put_end(_make_failure(error))
        last = sign_of_life.model_copy(update={"events": queue.make_batch()})
        await control.send_run_events(ids.node_id, ids.run_id, last)

    async def _execute(self, work: RunWorkOut) -> JobState:
        deps = self._deps
        self._queue = RunEventQueue(work.last_seq, deps.clock)
        self._sender = RunTraceSender(self.ids, self._queue, deps.control, deps.clock, deps.rng, self._on_answer)
        self._handover = deps.tasks.start(self._hand_over(work.spec), name=f"hand over {self.ids.job_id}")
        sending = deps.tasks.start(self._sender.run(), name=f"send {self.ids.job_id}")
        dropped = deps.tasks.start(self._dropped_event.wait(), name=f"drop of {self.ids.job_id}")
        try:
            await asyncio.wait({sending, dropped}, return_when=asyncio.FIRST_COMPLETED)
            result = sending.result() if sending.done() else TraceSendResult.NOT_OURS
        finally:
            sending.cancel()
            dropped.cancel()
        await self._end_in_runner(CANCELLED_OUTCOME, deps.timeouts.end_s)
        return JobState.FAILED if result is TraceSendResult.GIVEN_UP else JobState.DONE

    async def _hand_over(self, spec: RunSpec) -> None:
        for run in self._earlier:
            await run.wait_over()
        if self._requested_outcome is not None:
            self._finish(self._requested_outcome)
            return
        urls = [f"{url}/v1" for url in self._deps.control.list_frontend_urls()]
        ready = spec.model_copy(update={"base_urls": urls})
        started = await attempt(lambda: self._deps.runner.start_run(self.ids.run_id, ready, self))
        if isinstance(started, AttemptFailure):
            self._finish(_make_failure(started.error))

    # --- the end ---

    async def _end_in_runner(self, outcome: RunOutcome, limit_s: float) -> None:
        """Get the run out of the runner. Afterwards its last entry is in the queue: the runner's, or this outcome."""
        if self._over_event.is_set():
            return
        if self._handover is not None:
            self._handover.cancel()
        if self._deps.runner.cancel_run(self.ids.run_id):
            await _wait_for(self._over_event, limit_s)
            if not self._over_event.is_set():
                self._deps.runner.abandon_run(self.ids.run_id)
        self._finish(outcome)

    def _finish(self, outcome: RunOutcome) -> None:
        """Put the last entry into the trace. Only the first one counts."""
        if self._over_event.is_set():
            return
        assert self._queue is not None, "a run that was handed over has a queue"
        assert self._sender is not None, "a run that was handed over has a sender"
        self._over_event.set()
        for call in self._calls:
            call.cancel()
        self._queue.put_end(outcome)
        self._sender.wake()

    def _end_job(self, state: JobState, error: Exception | None = None) -> None:
        self.event = replace(self.event, seq=self.event.seq + 1, state=str(state))
        if error is not None:
            code = error.slug if isinstance(error, CorralError) else "internal"
            self.event = replace(self.event, error_code=code, error_text=str(error))
            log.warning("a run could not be executed", run=self.ids.run_id, problem=str(error))
        log.info("run ended", run=self.ids.run_id, job=self.ids.job_id, state=str(state))

    # --- what the runner says ---

    def on_event(self, event: EventMessage) -> None:
        assert self._queue is not None, "a run in the runner has a queue"
        assert self._sender is not None, "a run in the runner has a sender"
        self._queue.put(event.event_type, event.tool, event.data)
        self._sender.notify()

    def on_end(self, outcome: RunOutcome) -> None:
        requested = self._requested_outcome
        # A run that was cancelled for a reason of the worker's own ends with that reason.
        self._finish(requested if requested is not None and outcome.state == "cancelled" else outcome)

    def on_lost(self, problem: str) -> None:
        lost = RunOutcome(state="failed", reason="error", error_code=RUNNER_LOST, error_text=problem)
        self._finish(self._requested_outcome or lost)

    def on_call(self, call: CallMessage) -> None:
        if len(self._calls) >= CALLS_MAX:
            error = RunnerErrorBody(code="too_many_calls", message=f"At most {CALLS_MAX} calls of a run can be open.")
            self._deps.runner.reply(self.ids.run_id, ReplyMessage(id=call.id, error=error))
            return
        task = self._deps.tasks.start(self._answer_call(call), name=f"answer {self.ids.job_id}")
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _answer_call(self, call: CallMessage) -> None:
        if call.method == "flush":
            assert self._sender is not None, "a run in the runner has a sender"
            await self._sender.wait_stored()
            reply = ReplyMessage(id=call.id, result={})
        else:
            caller = self._agents if call.method == "ask_agent" else self._frontends
            reply = await caller.answer_call(call)
        self._deps.runner.reply(self.ids.run_id, reply)

    # --- what a frontend says ---

    def _on_answer(self, answer: RunEventsOut) -> None:
        for call_id, decision in answer.decisions.items():
            if call_id not in self._decided_calls and self._deps.runner.decide_call(self.ids.run_id, call_id, decision):
                self._decided_calls.add(call_id)


def _make_failure(error: Exception) -> RunOutcome:
    code = error.slug if isinstance(error, CorralError) else RUNNER_LOST
    return RunOutcome(state="failed", reason="error", error_code=code, error_text=str(error) or type(error).__name__)


async def _wait_for(event: asyncio.Event, limit_s: float) -> None:
    """Wait for an event, but not longer than this."""
    try:
        async with asyncio.timeout(limit_s):
            await event.wait()
    except TimeoutError:
        return
