"""Applies one observation to one target, and computes the progress of an operation as a whole.

Guarantees: a final target never changes. An observation that is older than the last applied one changes nothing. A
bar never goes back within an attempt, and that of the operation never at all. Silence and slowness are no failures;
only a failure counts towards the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from corral.domain.backend import DesiredState
from corral.domain.operation import Fault, JobId, JobState, Progress, Target, TargetState
from corral.policy import faults


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """A worker's report about one of its jobs, from an event or a reply over NATS."""

    seq: int
    state: JobState
    progress: Progress
    fault: Fault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRefused:
    """Outcome of sending a bus command: the worker refused the command."""

    fault: Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResponders:
    """Outcome of sending a bus command: NATS had no subscriber for the node, so the command has not arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer:
    """Outcome of sending a bus command: no reply came in time. The worker may or may not be at work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownJob:
    """Outcome of asking a worker about a job: the worker knows no such job.

    The bus command never arrived, or the worker has forgotten it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEnd:
    """Says that an operation ended on a node without the worker: a deadline, a removed node or a failed wave."""

    state: TargetState
    fault: Fault | None = None


Observation = JobReport | CommandRefused | NoResponders | NoAnswer | UnknownJob | TargetEnd


class AssignmentOutcome(StrEnum):
    """What a worker's report does to a pending engine backend change: keep, retry later, give up, delete."""

    STAYS = "stays"
    LATER = "later"  # stays, with one more failure and a time to try again
    DEAD = "dead"  # stays for admins to see; it is not tried any more
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChange:
    """How a worker's report changes the state of an operation on one node, and the node's pending change."""

    target: Target
    previous_state: TargetState
    assignment_outcome: AssignmentOutcome = AssignmentOutcome.STAYS
    attempts: int = 0
    pause_s: float = 0.0
    # True if the worker itself has reported now.
    is_from_worker: bool = False
    # The log line for operators; empty if there is nothing new.
    note: str = ""
    level: str = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSnapshot:
    """State of an operation on one node as stored in PostgreSQL, with the pending change and its attempts."""

    target: Target
    desired: DesiredState | None
    attempts: int
    # When the decision was made that led to the observation; a later report is newer than a missing answer.
    as_of: datetime | None = None
    # For the next attempt: a worker takes the same id for the same job.
    next_job: JobId


def apply_observation(snapshot: TargetSnapshot, observation: Observation) -> TargetChange | None:
    """Apply an observation to a target; None if nothing changes."""
    target = snapshot.target
    if target.state.is_final:
        return None
    match observation:
        case JobReport():
            return _apply_report(snapshot, observation)
        case CommandRefused(fault=fault):
            return _apply_failure(snapshot, fault, is_from_worker=True)
        case NoResponders():
            return _apply_no_responders(snapshot)
        case NoAnswer():
            return _apply_no_answer(snapshot)
        case UnknownJob() | TargetEnd():
            return (
                _apply_unknown_job(snapshot)
                if isinstance(observation, UnknownJob)
                else _apply_end(snapshot, observation)
            )


def _apply_unknown_job(snapshot: TargetSnapshot) -> TargetChange:
    requeued = replace(snapshot.target, state=TargetState.QUEUED, seq=0)
    return _make_change(
        snapshot, requeued, note="does not know the job; the command will be sent again", level="warning"
    )


def _apply_end(snapshot: TargetSnapshot, end: TargetEnd) -> TargetChange:
    assert end.state.is_final, "only an end is decided without the worker"
    return _make_change(
        snapshot,
        replace(snapshot.target, state=end.state, fault=end.fault),
        assignment_outcome=AssignmentOutcome.GONE,
        note=end.fault.text if end.fault else str(end.state),
        level="error" if end.state is TargetState.ERROR else "info",
    )


def _apply_report(snapshot: TargetSnapshot, report: JobReport) -> TargetChange | None:
    target = snapshot.target
    if report.seq < target.seq:
        return None
    progress = merge_progress(target.progress, report.progress)
    newer = replace(target, seq=report.seq, progress=progress)
    if not report.state.is_final:
        return _apply_working(snapshot, replace(newer, state=TargetState.WORKING, fault=None))
    match report.state:
        case JobState.DONE:
            done = replace(newer, state=TargetState.SUCCESS, progress=replace(progress, percent=100.0), fault=None)
            return _make_change(
                snapshot, done, assignment_outcome=AssignmentOutcome.GONE, is_from_worker=True, note="completed"
            )
        case JobState.PAUSED:
            # The job was paused and is requested again: an ended job does not go on, so the next one has a new id.
            requeued = replace(newer, state=TargetState.QUEUED, job_id=snapshot.next_job, seq=0)
            return _make_change(
                snapshot, requeued, is_from_worker=True, note="was paused; the command will be sent again"
            )
        case JobState.CANCELLED:
            text = report.fault.text if report.fault else "The job was cancelled on the node."
            fault = Fault(code=faults.CANCELLED_ON_NODE, text=text)
            return _apply_failure(replace(snapshot, target=newer), fault, is_from_worker=True)
        case _:
            fault = report.fault or Fault(code=faults.INTERNAL, text="The job failed, and the worker did not say why.")
            return _apply_failure(replace(snapshot, target=newer), fault, is_from_worker=True)


def _apply_working(snapshot: TargetSnapshot, working: Target) -> TargetChange | None:
    if working == snapshot.target and snapshot.as_of is None:
        # A duplicate. As an answer to a query it still shows that the worker is there.
        return None
    is_news = snapshot.target.state is not TargetState.WORKING
    return _make_change(snapshot, working, is_from_worker=True, note="accepted" if is_news else "")


def _apply_no_responders(snapshot: TargetSnapshot) -> TargetChange | None:
    """Apply an empty bus: before the command was accepted it counts as a failure; for a running job it only means
    that it cannot be queried."""
    if snapshot.target.state is not TargetState.QUEUED:
        return _apply_no_answer(snapshot)
    return _apply_failure(
        snapshot, Fault(code=faults.NODE_UNREACHABLE, text="The node is not on the bus."), keeps_job=True
    )


def _apply_no_answer(snapshot: TargetSnapshot) -> TargetChange | None:
    target = snapshot.target
    if target.heard_at is not None and snapshot.as_of is not None and target.heard_at > snapshot.as_of:
        return None
    if target.state is TargetState.UNCONFIRMED:
        return _make_change(snapshot, target)
    return _make_change(
        snapshot,
        replace(target, state=TargetState.UNCONFIRMED),
        note="does not respond; it may be at work and will be queried again",
        level="warning",
    )


def _apply_failure(
    snapshot: TargetSnapshot, fault: Fault, *, is_from_worker: bool = False, keeps_job: bool = False
) -> TargetChange:
    target, attempts = snapshot.target, snapshot.attempts + 1
    if not faults.is_transient(fault.code):
        # A removal is never forgotten: the backend is still installed, and an admin sees that.
        outcome = AssignmentOutcome.DEAD if snapshot.desired is DesiredState.ABSENT else AssignmentOutcome.GONE
        ended = replace(target, state=TargetState.ERROR, fault=fault, attempt=attempts)
        return _make_change(
            snapshot,
            ended,
            assignment_outcome=outcome,
            attempts=attempts,
            is_from_worker=is_from_worker,
            note=f"failed: {fault.text}",
            level="error",
        )
    if attempts >= faults.ATTEMPTS_MAX:
        dead = replace(
            target, state=TargetState.ERROR, fault=Fault(code=faults.DEAD_LETTER, text=fault.text), attempt=attempts
        )
        note = f"failed: {fault.text}; no more retries after {attempts} attempts"
        return _make_change(
            snapshot,
            dead,
            assignment_outcome=AssignmentOutcome.DEAD,
            attempts=attempts,
            is_from_worker=is_from_worker,
            note=note,
            level="error",
        )
    pause = faults.compute_pause_s(attempts)
    requeued = replace(target, state=TargetState.QUEUED, fault=fault, attempt=attempts)
    if not keeps_job:
        requeued = replace(requeued, job_id=snapshot.next_job, seq=0, progress=Progress())
    return _make_change(
        snapshot,
        requeued,
        assignment_outcome=AssignmentOutcome.LATER,
        attempts=attempts,
        pause_s=pause,
        is_from_worker=is_from_worker,
        note=f"failed: {fault.text}; retrying in {pause:g} s ({attempts} of {faults.ATTEMPTS_MAX})",
        level="warning",
    )


def _make_change(
    snapshot: TargetSnapshot,
    target: Target,
    *,
    assignment_outcome: AssignmentOutcome = AssignmentOutcome.STAYS,
    attempts: int | None = None,
    pause_s: float = 0.0,
    is_from_worker: bool = False,
    **note_fields: str,
) -> TargetChange:
    return TargetChange(
        target=target,
        previous_state=snapshot.target.state,
        assignment_outcome=assignment_outcome,
        attempts=snapshot.attempts if attempts is None else attempts,
        pause_s=pause_s,
        is_from_worker=is_from_worker,
        note=note_fields.get("note", ""),
        level=note_fields.get("level", "info"),
    )


def merge_progress(old: Progress, new: Progress) -> Progress:
    """Return the newer of two readings of one attempt; absent values keep the older ones."""
    return Progress(
        percent=max(old.percent, min(max(new.percent, 0.0), 100.0)),
        phase=new.phase or old.phase,
        current_bytes=new.current_bytes if new.current_bytes is not None else old.current_bytes,
        total_bytes=new.total_bytes if new.total_bytes is not None else old.total_bytes,
        file_name=new.file_name or old.file_name,
    )


def aggregate_progress(targets: Sequence[Target], shown: Progress) -> Progress:
    """Return the overall progress: weighted by bytes where every total is known, else the mean of the percentages;
    never below `shown`.

    Bytes are shown only when every target reports them; the phase is that of the target furthest behind.
    """
    counted = [target for target in targets if target.state is not TargetState.SKIPPED]
    if not counted:
        return shown
    totals = [target.progress.total_bytes for target in counted]
    known = [total for total in totals if total]
    if len(known) == len(counted):
        percent = sum(t.progress.percent * (t.progress.total_bytes or 0) for t in counted) / sum(known)
    else:
        percent = sum(t.progress.percent for t in counted) / len(counted)
    working = [target for target in counted if target.state is TargetState.WORKING and target.progress.phase]
    slowest = min(working, key=lambda target: target.progress.percent, default=None)
    return Progress(
        # A sum of floats may come out a hair above its largest part.
        percent=min(max(percent, shown.percent), 100.0),
        phase=slowest.progress.phase if slowest else None,
        current_bytes=_sum(target.progress.current_bytes for target in counted),
        total_bytes=_sum(totals),
        file_name=slowest.progress.file_name if slowest else "",
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total
