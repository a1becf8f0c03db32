"""Delivers the trace of one run to a frontend, in order, one delivery at a time.

The first delta of text leaves at once, later ones at most every `TEXT_INTERVAL_S`; every other entry leaves at once; an
empty delivery every `SIGN_OF_LIFE_S` says that the run is alive and brings decisions of people back. Guarantees: a
delivery is repeated, with the same entries, until a frontend has stored it or says that the run is not this worker's
any more; while frontends are away, what waits is bounded (`event_queue.py`). Limit: after `GIVE_UP_S` without any
answer the trace is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random  # noqa: TID251 - only the type; the generator is passed in

import structlog

from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, attempt
from corral.wire.run_work import RunEventsIn, RunEventsOut
from corral.worker.control_plane import FailureLog, RunControlPlane
from corral.worker.runs.event_queue import RunEventQueue
from corral.worker.runs.frontend_retries import FrontendRetryBackoff, is_not_ours, is_refusal

log = structlog.get_logger(__name__)

TEXT_INTERVAL_S = 0.1
SIGN_OF_LIFE_S = 5.0


class TraceSendResult(StrEnum):
    """Names how a worker's delivery of a run's trace (text, tool calls) to a frontend ended."""

    STORED = "stored"
    NOT_OURS = "not_ours"  # the run was cancelled, has ended or was given to another worker
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAttempt:
    """Identifies one attempt of a worker to execute a run, such as an LLM agent's turn."""

    node_id: str
    run_id: str
    job_id: str
    boot_id: str


class RunTraceSender:
    """Delivers the trace of one run from its worker to a frontend.

    `run` returns when the last entry is stored, or cannot be any more.
    """

    def __init__(
        self,
        run: RunAttempt,
        queue: RunEventQueue,
        control: RunControlPlane,
        clock: Clock,
        rng: Random,
        on_answer: Callable[[RunEventsOut], None],
    ) -> None:
        self._run = run
        self._queue = queue
        self._control = control
        self._clock = clock
        self._on_answer = on_answer
        self._retries = FrontendRetryBackoff(clock, rng)
        self._failure_log = FailureLog("delivering the trace of a run")
        self._changed = asyncio.Event()
        self._is_woken = False
        self._retry_at_s: float | None = None
        self._answered = asyncio.Event()
        self._is_refused = False
        self._last_text_s: float | None = None
        self._last_delivery_s = clock.monotonic()

    def notify(self) -> None:
        """Look at the queue, because something was added."""
        self._changed.set()

    def wake(self) -> None:
        """Send what waits, or a sign of life, at once."""
        self._is_woken = True
        self._changed.set()

    async def wait_stored(self) -> None:
        """Wait until a frontend has stored what is in the queue now; for ever if none does, or if the run is lost."""
        seq = self._queue.end_seq
        while not self._queue.is_stored(seq) or self._is_refused:
            self._answered.clear()
            await self._answered.wait()

    async def run(self) -> TraceSendResult:
        while True:
            await self._wait_until_due()
            self._is_woken = False
            if self._queue.has_text:
                self._last_text_s = self._clock.monotonic()
            self._last_delivery_s = self._clock.monotonic()
            batch = RunEventsIn(boot_id=self._run.boot_id, job_id=self._run.job_id, events=self._queue.make_batch())
            outcome = await attempt(lambda delivery=batch: self._send(delivery))  # type: ignore[misc]  # bound at once
            if isinstance(outcome, AttemptFailure):
                result = self._handle_failure(outcome.error)
            else:
                result = self._handle_answer(batch, outcome.value)
            if result is not None:
                return result

    async def _send(self, delivery: RunEventsIn) -> RunEventsOut:
        return await self._control.send_run_events(self._run.node_id, self._run.run_id, delivery)

    async def _wait_until_due(self) -> None:
        while True:
            self._changed.clear()
            wait_s = self._compute_due_s() - self._clock.monotonic()
            if wait_s <= 0:
                return
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _compute_due_s(self) -> float:
        """Return the moment of the next delivery."""
        now_s = self._clock.monotonic()
        if self._is_woken:
            return now_s
        if self._retry_at_s is not None:
            return self._retry_at_s
        if self._queue.has_urgent:
            return now_s
        if self._queue.has_text:
            return now_s if self._last_text_s is None else self._last_text_s + TEXT_INTERVAL_S
        return self._last_delivery_s + SIGN_OF_LIFE_S

    def _handle_answer(self, delivery: RunEventsIn, answer: RunEventsOut) -> TraceSendResult | None:
        if answer.must_stop:
            self._is_refused = True
            return TraceSendResult.NOT_OURS
        self._queue.acknowledge(answer.last_seq)
        self._answered.set()
        self._on_answer(answer)
        if self._queue.is_complete:
            return TraceSendResult.STORED
        if delivery.events and answer.last_seq < delivery.events[0].seq:
            # Nothing was stored: without a pause, the same delivery would follow at once.
            self._retry_at_s = self._clock.monotonic() + self._retries.record_failure()
            return TraceSendResult.GIVEN_UP if self._retries.is_hopeless else None
        self._retry_at_s = None
        self._retries.record_success()
        self._failure_log.record_recovery()
        return None

    def _handle_failure(self, error: Exception) -> TraceSendResult | None:
        if is_not_ours(error):
            return TraceSendResult.NOT_OURS
        self._failure_log.record_failure(error)
        if is_refusal(error):
            self._queue.shorten_batch()
        self._retry_at_s = self._clock.monotonic() + self._retries.record_failure()
        if not self._retries.is_hopeless:
            return None
        log.error("the trace of a run could not be delivered and is given up", run=self._run.run_id)
        return TraceSendResult.GIVEN_UP
