"""Starts tasks at the times of their cron patterns. Runs on the leader.

Guarantees: each time becomes at most one run, with any number of frontends: a time is used under the lock of its task's
row, together with the time that follows it, in a transaction that is fenced by the leader's term. A task that cannot
start now is tried again at growing intervals until its time is missed, with a note that says why; meanwhile it holds up
no other task, however many there are. Attachments are fetched in the background: a slow source delays its own task, and
the tasks of its owner that fetch attachments too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial

import structlog

from corral.domain.errors import CorralError, LeaseLost, StoreUnavailable, Unavailable
from corral.domain.run import RunId, RunTrigger
from corral.domain.task import Task, TaskId, TaskOverlap
from corral.operations import actions
from corral.policy.deferrals import compute_next_look
from corral.policy.tasks import LATE_AFTER, FireDecision, decide_fire
from corral.reconcile.leader import LeaderElector
from corral.runs.service import RunService
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet
from corral.store import tasks as store
from corral.store.database import Database, Transaction
from corral.tasks.service import ExecutionRequest, PreparedExecution, TaskService

log = structlog.get_logger(__name__)
# Patterns name minutes; a run begins within a few seconds of its time.
INTERVAL_S = 2.0
# Tasks that are read at a time.
PAGE = 50
# Limits one pass, so that it stays short; the next one goes on behind it.
PASS_MAX = 500
# Tasks that are written at the same time; the others wait here and not for a connection to the database.
STARTS_MAX = 8
# Tasks whose attachments are being fetched or wait for it, which may take minutes: of all owners, and of one.
FETCHING_MAX = 64
FETCHING_OF_OWNER_MAX = 8
ACTOR = "cron"
_INTERNAL_NOTE = "Not started: an internal error. The log of the frontend has the reason."


class FireOutcome(StrEnum):
    """Names the outcome of a cron time of a user's task: started, skipped, to be tried again, or left to others."""

    STARTED = "started"
    SKIPPED = "skipped"  # nothing was started, and the note says why
    DEFERRED = "deferred"  # tried again soon, and the note says why
    TAKEN = "taken"  # the task was edited, or another frontend was faster


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSchedulerDeps:
    """Dependencies of the scheduler that starts users' tasks by cron."""

    database: Database
    leader: LeaderElector
    runs: RunService
    tasks: TaskService
    on_crash: Callable[[BaseException], None] | None = None


class TaskScheduler:
    """Starts the cron tasks of users when they are due, on the leading frontend.

    Skips what overlaps or was missed, and computes their next times.
    """

    def __init__(self, deps: TaskSchedulerDeps) -> None:
        self._deps = deps
        self._free = asyncio.Semaphore(STARTS_MAX)
        # The owners of the tasks whose attachments are being fetched.
        self._fetching: dict[TaskId, str] = {}
        self._tasks = TaskSet("task scheduler", deps.on_crash)
        # Where the last pass has ended; None: with the last task that was due.
        self._after: tuple[datetime, str] | None = None

    async def tick(self) -> dict[FireOutcome, int]:
        """Handle the tasks whose times have come, and return how many had which outcome. Those that fetch attachments
        go on in the background."""
        counts: Counter[FireOutcome] = Counter()
        for _ in range(PASS_MAX // PAGE):
            async with self._deps.database.transaction() as tx:
                due = await store.list_due(tx, PAGE, self._after)
                now = await store.read_now(tx)
            others = [task for task in due if not self._begin_fetching(task, now)]
            async with asyncio.TaskGroup() as group:
                handled = [group.create_task(self._fire_guarded(task, now)) for task in others]
            counts.update(outcome for one in handled if (outcome := one.result()) is not None)
            self._after = _get_position(due[-1]) if len(due) == PAGE else None
            if self._after is None:
                break
        return counts

    async def join(self) -> None:
        """Wait until no attachments are being fetched."""
        await self._tasks.join()

    async def close(self) -> None:
        await self._tasks.close()

    def _begin_fetching(self, task: Task, now: datetime) -> bool:
        """Start a task that fetches attachments in the background. Return False for one that fetches none, or that has
        to wait, because there are too many."""
        if task.id in self._fetching:
            return True
        owner = str(task.owner)
        of_owner = sum(other == owner for other in self._fetching.values())
        if not task.spec.media_sources or of_owner >= FETCHING_OF_OWNER_MAX or len(self._fetching) >= FETCHING_MAX:
            return False
        self._fetching[task.id] = owner
        self._tasks.start(self._fire_fetching(task, now), name="start")
        return True

    async def _fire_fetching(self, task: Task, now: datetime) -> None:
        try:
            await self._fire_guarded(task, now)
        finally:
            del self._fetching[task.id]

    async def _fire_guarded(self, task: Task, now: datetime) -> FireOutcome | None:
        """Handle one task; an internal error concerns this task only, which is tried again."""
        outcome = await attempt(lambda: self._fire(task, now))
        if not isinstance(outcome, AttemptFailure):
            return outcome.value
        log.warning("a task could not be started", task=task.id, error=outcome.sentence)
        if isinstance(outcome.error, StoreUnavailable | LeaseLost):
            return None
        assert task.next_run_at is not None, "only tasks with a time are due"
        deferred = await attempt(partial(self._defer, task, task.next_run_at, _INTERNAL_NOTE))
        return None if isinstance(deferred, AttemptFailure) else deferred.value

    async def _fire(self, task: Task, now: datetime) -> FireOutcome:
        assert task.next_run_at is not None, "only tasks with a time are due"
        decision = decide_fire(task.spec, task.next_run_at, now)
        if decision.start_at is None:
            # It was missed for the reason that the note has already, or because no frontend looked at it.
            note = task.cron_note if task.is_deferred and task.cron_note else decision.note
            return await self._skip(task, decision, note)
        try:
            return await self._start(task, decision)
        except (StoreUnavailable, LeaseLost):
            raise
        except CorralError as error:
            note = f"Not started: {error.message}"
            # While starts fail, the first time that was due says how late they are: of a pattern for every minute the
            # latest one would never be late.
            due_at = task.next_run_at if task.is_deferred else decision.start_at
            if error.retryable or error.slug == "try_again":
                return await self._defer(task, due_at, note, decision)
            return await self._skip(task, decision, note)

    async def _start(self, task: Task, decision: FireDecision) -> FireOutcome:
        if task.spec.media_sources and task.id not in self._fetching:
            raise Unavailable("The attachments of too many other tasks are being fetched.", code="source_unavailable")
        request = ExecutionRequest(parameters=task.spec.cron_parameters, trigger=RunTrigger.CRON)
        prepared = await self._deps.tasks.prepare_for(task, request, owner_name=task.created_by, key_id=task.key_id)
        if task.spec.overlap is TaskOverlap.QUEUE:
            prepared = replace(prepared, scope=f"task:{task.id}")
        return await self._admit(prepared, decision)

    async def _admit(self, prepared: PreparedExecution, decision: FireDecision) -> FireOutcome:
        cancelled: list[RunId] = []
        async with self._claim(prepared.task) as (tx, task):
            if task is None:
                return FireOutcome.TAKEN
            opened = await store.list_open_cron_runs(tx, task.id)
            if opened and task.spec.overlap is TaskOverlap.SKIP:
                note = f"Skipped: job {opened[0]} has not ended."
                await store.set_next_run(tx, task.id, decision.next_run_at, note=note)
                return FireOutcome.SKIPPED
            if task.spec.overlap is TaskOverlap.REPLACE:
                # With the new run or not at all: what cannot be replaced goes on.
                cancelled = [run_id for run_id in opened if await actions.cancel_run_in(tx, run_id, ACTOR)]
            await self._deps.tasks.admit(tx, prepared)
            await store.set_next_run(tx, task.id, decision.next_run_at, started_at=decision.start_at)
        # A hint: if it is lost, workers and readers learn of it a moment later.
        await attempt(partial(self._deps.runs.announce_cancelled, cancelled))
        return FireOutcome.STARTED

    async def _defer(
        self, task: Task, due_at: datetime, note: str, decision: FireDecision | None = None
    ) -> FireOutcome:
        """Try a time again later. With a decision, skip it if it is late."""
        async with self._claim(task) as (tx, claimed):
            if claimed is None:
                return FireOutcome.TAKEN
            now = await store.read_now(tx)
            is_late = decision is not None and now - due_at > LATE_AFTER
            if decision is not None and is_late:
                await store.set_next_run(tx, task.id, decision.next_run_at, note=note)
            else:
                await store.defer_run(tx, task.id, due_at, compute_next_look(due_at, now), note)
        log.info("a task could not be started", task=task.id, reason=note, is_tried_again=not is_late)
        return FireOutcome.SKIPPED if is_late else FireOutcome.DEFERRED

    async def _skip(self, task: Task, decision: FireDecision, note: str) -> FireOutcome:
        async with self._claim(task) as (tx, claimed):
            if claimed is None:
                return FireOutcome.TAKEN
            await store.set_next_run(tx, task.id, decision.next_run_at, note=note)
        log.info("a time of a task started nothing", task=task.id, reason=note)
        return FireOutcome.SKIPPED

    @asynccontextmanager
    async def _claim(self, task: Task) -> AsyncIterator[tuple[Transaction, Task | None]]:
        """Open a transaction of the leader that holds the lock of a task that is due; None if it is due no more."""
        async with self._free, self._deps.database.transaction() as tx:
            await self._deps.leader.fence(tx)
            yield tx, await store.claim_due(tx, task)


def _get_position(task: Task) -> tuple[datetime, str]:
    assert task.next_run_at is not None, "only tasks with a time are due"
    return task.next_run_at, task.id
