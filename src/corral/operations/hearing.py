"""What workers say of jobs, made fit for the registry, and taken in.

Guarantees: whatever a worker sends, the rows can hold it, and one odd event never keeps others out. A node speaks of
its own jobs only. Replica rows go exactly for those processes that a job says it has ended, and only when that is news.
What the jobs of models mean for replicas is their listener's to say, in the same transaction.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Protocol

from corral.bus.messages import JobEvent, OperationDelta, TargetDelta
from corral.domain.node import NodeId
from corral.domain.operation import (
    OPEN,
    Fault,
    JobId,
    JobState,
    Operation,
    OperationState,
    Phase,
    Progress,
    Target,
)
from corral.policy.progress import Change, Heard, News, Standing, take
from corral.ports.runtime import Ids
from corral.store import dispatch as store
from corral.store import operations as operation_store
from corral.store import replicas as replica_store
from corral.store.database import Transaction

BIGINT_MAX = 2**63 - 1
TEXT_MAX = 2000
CODE_MAX = 64
FILE_NAME_MAX = 255
STOPPED_MAX = 1000
RESULT_MAX = 32
_STATES = frozenset(JobState)
_PHASES = frozenset(Phase)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """News about one job, from the node that has it."""

    node: NodeId
    job_id: JobId
    news: News
    stopped: tuple[str, ...] = ()
    # What came out of it, in the worker's words.
    result: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """News that has changed a target, and what the target was before."""

    change: Change
    said: Said
    before: Target


class Listener(Protocol):
    """What news about the jobs of one pool means, to their targets and beyond."""

    def take(self, standing: Standing, news: News) -> Change | None: ...

    async def find_faults(self, tx: Transaction, done: Sequence[tuple[Said, Target]]) -> Mapping[JobId, Fault]:
        """Return why jobs that their workers call done count as failed, by job."""
        ...

    async def took(self, tx: Transaction, taken: Sequence[Taken]) -> None:
        """After the targets were written; replicas are locked last."""
        ...


def heard(event: JobEvent) -> Heard | None:
    """What an event says, within what the rows can hold; None if it says nothing that is known here."""
    if event.state not in _STATES or not 0 <= event.seq <= BIGINT_MAX:
        return None
    state = JobState(event.state)
    fault = Fault(code=plain(event.error_code, CODE_MAX), text=plain(event.error_text, TEXT_MAX))
    return Heard(
        seq=event.seq,
        state=state,
        progress=Progress(
            percent=min(max(event.percent, 0.0), 100.0) if math.isfinite(event.percent) else 0.0,
            phase=Phase(event.phase) if event.phase in _PHASES else None,
            current_bytes=_bytes(event.current_bytes),
            total_bytes=_bytes(event.total_bytes),
            file_name=plain(event.file_name, FILE_NAME_MAX),
        ),
        fault=fault if fault.code else None,
    )


def stopped_by(event: JobEvent) -> tuple[str, ...]:
    return tuple(key for key in event.stopped[:STOPPED_MAX] if key.isprintable())


def result_of(event: JobEvent) -> dict[str, str]:
    items = list(event.result.items())[:RESULT_MAX]
    return {plain(str(key), CODE_MAX): plain(str(value), TEXT_MAX) for key, value in items}


def plain(text: str, longest: int) -> str:
    """Text that PostgreSQL can hold: what cannot be printed becomes a space, line ends stay."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() or character == "\n" else " " for character in text)
    return text[:longest]


def _bytes(number: int | None) -> int | None:
    return number if number is not None and 0 <= number <= BIGINT_MAX else None


async def take_in(
    tx: Transaction,
    said: Collection[Said],
    ids: Ids,
    *,
    as_of: datetime | None = None,
    ended: Iterable[tuple[NodeId, Iterable[str]]] = (),
    listeners: Mapping[str, Listener] = MappingProxyType({}),
) -> list[Change]:
    """Write down what the news changes. `as_of`: they are answers, to questions that were decided on at that time.
    `ended`: further processes that are known to be gone. `listeners`: by pool, for jobs that are not about backends."""
    gone = list(ended)
    taken: dict[str, list[Taken]] = {}
    jobs = await store.lock_jobs(tx, sorted({item.job_id for item in said}))
    faults = await _find_faults(tx, said, jobs, listeners)
    changes: list[Change] = []
    too_late: dict[JobId, int] = {}
    for item in said:
        job = jobs.get(item.job_id)
        if job is None or job.target.node != item.node:
            continue
        listener = listeners.get(job.kind.pool)
        if not _is_open(job):
            if listener is None and isinstance(item.news, Heard) and item.news.state is JobState.DONE:
                too_late[item.job_id] = item.news.seq
            continue
        standing = Standing(
            target=job.target,
            desired=job.desired,
            attempts=job.attempts,
            as_of=as_of,
            next_job=JobId(ids.new_id()),
        )
        news = _as_failed(item.news, faults.get(item.job_id))
        change = take(standing, news) if listener is None else listener.take(standing, news)
        if change is not None:
            changes.append(change)
            taken.setdefault(job.kind.pool, []).append(Taken(change=change, said=item, before=job.target))
            if listener is None:
                gone.append((item.node, item.stopped))
    await store.write_changes(tx, changes, is_contacted=as_of is not None)
    await note(tx, changes)
    told = await store.mark_too_late(tx, too_late)
    text = "had finished before it could be stopped; what it has is in the list of installed backends"
    await operation_store.add_notes(tx, [(key, "warning", name, text) for key, name in told])
    await _remove_stopped(tx, gone)
    for pool, listener in listeners.items():
        if pool in taken:
            await listener.took(tx, taken[pool])
    return changes


async def _find_faults(
    tx: Transaction, said: Collection[Said], jobs: Mapping[JobId, store.Job], listeners: Mapping[str, Listener]
) -> dict[JobId, Fault]:
    faults: dict[JobId, Fault] = {}
    for pool, listener in listeners.items():
        done = [
            (item, job.target)
            for item in said
            if (job := jobs.get(item.job_id)) is not None
            and job.kind.pool == pool
            and job.target.node == item.node
            and isinstance(item.news, Heard)
            and item.news.state is JobState.DONE
        ]
        if done:
            faults |= await listener.find_faults(tx, done)
    return faults


def _as_failed(news: News, fault: Fault | None) -> News:
    """Return the news of a job that is done, as the news of one that has failed with `fault`."""
    if fault is None or not isinstance(news, Heard) or news.state is not JobState.DONE:
        return news
    return replace(news, state=JobState.FAILED, fault=fault)


def _is_open(job: store.Job) -> bool:
    """A failure that only the reaper wrote is open to the truth."""
    return job.operation_state in OPEN or (job.operation_state is OperationState.FAILED and job.is_reaped)


async def note(tx: Transaction, changes: Iterable[Change]) -> None:
    await operation_store.add_notes(
        tx,
        [
            (change.target.operation_id, change.level, change.target.node_name, change.note)
            for change in changes
            if change.note
        ],
    )


async def _remove_stopped(tx: Transaction, gone: Iterable[tuple[NodeId, Iterable[str]]]) -> None:
    """Drop the rows of processes that are gone; a key is `model#index`, and the model's name may have a `#` too. Last,
    and all at once: whoever holds a replica waits for nothing that comes before."""
    ended = []
    for node, keys in gone:
        for key in keys:
            model, hash_sign, index = key.rpartition("#")
            if hash_sign and model and index.isascii() and index.isdecimal() and len(index) < 10:
                ended.append((node, model, int(index)))
    await replica_store.remove_ended(tx, ended, "a job has ended its process")


def delta_of(operation: Operation, moved: Collection[NodeId], *, origin: str) -> OperationDelta:
    """An operation for those who watch, with the targets that have moved."""
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
        targets=tuple(_target_delta(target) for target in operation.targets if target.node in moved),
        origin=origin,
    )


def _target_delta(target: Target) -> TargetDelta:
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


def merged_targets(older: Iterable[TargetDelta], newer: Iterable[TargetDelta]) -> tuple[TargetDelta, ...]:
    by_node: Mapping[str, TargetDelta] = {target.node: target for target in (*older, *newer)}
    return tuple(by_node[node] for node in sorted(by_node))
