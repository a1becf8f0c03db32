"""Turns what workers report about jobs into values that the registry can hold, and applies them.

Guarantees: whatever a worker sends, the rows can hold it, and one faulty event never keeps others out. A node reports
on its own jobs only. What the jobs of a pool mean for targets and for replicas is decided by the pool's listener, in
the same transaction, and only for a new report.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from corral.bus.messages import JobEvent, OperationDelta, TargetDelta
from corral.domain.node import NodeId
from corral.domain.operation import (
    OPEN,
    Fault,
    JobId,
    JobPhase,
    JobState,
    Operation,
    OperationState,
    Progress,
    Target,
)
from corral.policy.progress import JobReport, Observation, TargetChange, TargetSnapshot
from corral.ports.runtime import IdGenerator
from corral.store import dispatch as store
from corral.store import operations as operation_store
from corral.store.database import Transaction

BIGINT_MAX = 2**63 - 1
TEXT_MAX = 2000
CODE_MAX = 64
FILE_NAME_MAX = 255
STOPPED_MAX = 1000
RESULT_MAX = 32
_STATES = frozenset(JobState)
_PHASES = frozenset(JobPhase)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObservation:
    """An observation about a worker's job, such as its report or its silence, with the node and the job's id."""

    node: NodeId
    job_id: JobId
    observation: Observation
    stopped: tuple[str, ...] = ()
    # The result of the job in the worker's words.
    result: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedReport:
    """A worker's report that changed the state of an operation on one node, with the change and the state before."""

    change: TargetChange
    observation: JobObservation
    previous: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBatch:
    """Reports about workers' jobs that a frontend applies to operations of one pool in one transaction."""

    applied: Sequence[AppliedReport] = ()
    # The last sequence numbers of jobs that were done although their operation had ended before.
    late: Mapping[JobId, int] = field(default_factory=dict)
    # Processes that have ended beside those in the reports.
    ended_processes: Sequence[tuple[NodeId, Iterable[str]]] = ()


class JobReportListener(Protocol):
    """Interface that applies reports about workers' jobs of one pool: engine backends, models or runs.

    The reports change nodes of operations, and whatever else they mean.
    """

    def apply_observation(self, snapshot: TargetSnapshot, observation: Observation) -> TargetChange | None: ...

    async def find_faults(
        self, tx: Transaction, done: Sequence[tuple[JobObservation, Target]]
    ) -> Mapping[JobId, Fault]:
        """Return why jobs that their workers call done count as failed, by job."""
        ...

    async def on_applied(self, tx: Transaction, batch: ReportBatch) -> None:
        """Apply reports whose targets were written; called last, because replicas are locked last."""
        ...


def parse_job_event(event: JobEvent) -> JobReport | None:
    """Return the report in an event, within the limits of the rows; None if its state is unknown here."""
    if event.state not in _STATES or not 0 <= event.seq <= BIGINT_MAX:
        return None
    state = JobState(event.state)
    fault = Fault(code=sanitise_text(event.error_code, CODE_MAX), text=sanitise_text(event.error_text, TEXT_MAX))
    return JobReport(
        seq=event.seq,
        state=state,
        progress=Progress(
            percent=min(max(event.percent, 0.0), 100.0) if math.isfinite(event.percent) else 0.0,
            phase=JobPhase(event.phase) if event.phase in _PHASES else None,
            current_bytes=_check_bytes(event.current_bytes),
            total_bytes=_check_bytes(event.total_bytes),
            file_name=sanitise_text(event.file_name, FILE_NAME_MAX),
        ),
        fault=fault if fault.code else None,
    )


def list_stopped_processes(event: JobEvent) -> tuple[str, ...]:
    return tuple(key for key in event.stopped[:STOPPED_MAX] if key.isprintable())


def parse_result(event: JobEvent) -> dict[str, str]:
    items = list(event.result.items())[:RESULT_MAX]
    return {sanitise_text(str(key), CODE_MAX): sanitise_text(str(value), TEXT_MAX) for key, value in items}


def sanitise_text(text: str, max_length: int) -> str:
    """Return text that PostgreSQL can hold: characters that cannot be printed become a space, line ends stay."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() or character == "\n" else " " for character in text)
    return text[:max_length]


def _check_bytes(number: int | None) -> int | None:
    return number if number is not None and 0 <= number <= BIGINT_MAX else None


async def apply_observations(
    tx: Transaction,
    observations: Collection[JobObservation],
    ids: IdGenerator,
    *,
    listeners: Mapping[str, JobReportListener],
    as_of: datetime | None = None,
    ended_processes: Sequence[tuple[NodeId, Iterable[str]]] = (),
) -> list[TargetChange]:
    """Apply observations to their targets and return the changes. `listeners`: by pool; jobs of other pools are left
    alone. `as_of`: the observations are answers to queries that were decided on at that time. `ended_processes`:
    further processes that have ended."""
    taken: dict[str, list[AppliedReport]] = {}
    late: dict[str, dict[JobId, int]] = {}
    jobs = await store.lock_jobs(tx, sorted({item.job_id for item in observations}))
    faults = await _find_faults(tx, observations, jobs, listeners)
    changes: list[TargetChange] = []
    for item in observations:
        job = jobs.get(item.job_id)
        listener = None if job is None else listeners.get(job.kind.pool)
        if job is None or listener is None or job.target.node != item.node:
            continue
        if not _is_open(job):
            if isinstance(item.observation, JobReport) and item.observation.state is JobState.DONE:
                late.setdefault(job.kind.pool, {})[item.job_id] = item.observation.seq
            continue
        snapshot = TargetSnapshot(
            target=job.target,
            desired=job.desired,
            attempts=job.attempts,
            as_of=as_of,
            next_job=JobId(ids.new_id()),
        )
        news = _make_failed(item.observation, faults.get(item.job_id))
        change = listener.apply_observation(snapshot, news)
        if change is not None:
            changes.append(change)
            taken.setdefault(job.kind.pool, []).append(
                AppliedReport(change=change, observation=item, previous=job.target)
            )
    await store.write_changes(tx, changes, is_contacted=as_of is not None)
    await add_change_notes(tx, changes)
    for pool, listener in listeners.items():
        batch = ReportBatch(applied=taken.get(pool, ()), late=late.get(pool, {}), ended_processes=ended_processes)
        if batch.applied or batch.late or batch.ended_processes:
            await listener.on_applied(tx, batch)
    return changes


async def _find_faults(
    tx: Transaction,
    observations: Collection[JobObservation],
    jobs: Mapping[JobId, store.JobTarget],
    listeners: Mapping[str, JobReportListener],
) -> dict[JobId, Fault]:
    faults: dict[JobId, Fault] = {}
    for pool, listener in listeners.items():
        done = [
            (item, job.target)
            for item in observations
            if (job := jobs.get(item.job_id)) is not None
            and job.kind.pool == pool
            and job.target.node == item.node
            and isinstance(item.observation, JobReport)
            and item.observation.state is JobState.DONE
        ]
        if done:
            faults |= await listener.find_faults(tx, done)
    return faults


def _make_failed(observation: Observation, fault: Fault | None) -> Observation:
    """Return the observation of a finished job as one that has failed with `fault`."""
    if fault is None or not isinstance(observation, JobReport) or observation.state is not JobState.DONE:
        return observation
    return replace(observation, state=JobState.FAILED, fault=fault)


def _is_open(job: store.JobTarget) -> bool:
    """Return whether a target can still change. A failure that only the reaper wrote can still be corrected by the
    worker."""
    return job.operation_state in OPEN or (job.operation_state is OperationState.FAILED and job.is_reaped)


async def add_change_notes(tx: Transaction, changes: Iterable[TargetChange]) -> None:
    await operation_store.add_notes(
        tx,
        [
            (change.target.operation_id, change.level, change.target.node_name, change.note)
            for change in changes
            if change.note
        ],
    )


def make_delta(operation: Operation, moved_nodes: Collection[NodeId], *, origin: str) -> OperationDelta:
    """Return an operation as a delta for watchers, with the targets that have moved."""
    progress = operation.progress
    return OperationDelta(
        operation_id=operation.id,
        rev=operation.rev,
        state=str(operation.state),
        percent=progress.percent,
        phase=str(progress.phase or ""),
        current_bytes=progress.current_bytes,
        total_bytes=progress.total_bytes,
        message=operation.message,
        targets=tuple(_make_target_delta(target) for target in operation.targets if target.node in moved_nodes),
        origin=origin,
    )


def _make_target_delta(target: Target) -> TargetDelta:
    progress = target.progress
    return TargetDelta(
        node=target.node,
        node_name=target.node_name,
        state=str(target.state),
        percent=progress.percent,
        phase=str(progress.phase or ""),
        current_bytes=progress.current_bytes,
        total_bytes=progress.total_bytes,
        file_name=progress.file_name,
        error_text=target.fault.text if target.fault else "",
    )


def merge_targets(older: Iterable[TargetDelta], newer: Iterable[TargetDelta]) -> tuple[TargetDelta, ...]:
    by_node: Mapping[str, TargetDelta] = {target.node: target for target in (*older, *newer)}
    return tuple(by_node[node] for node in sorted(by_node))
