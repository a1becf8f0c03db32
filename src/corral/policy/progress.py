"""What one piece of news changes about one target, and how far an operation is as a whole.

Guarantees: a final target never changes. News that is older than what was taken in changes nothing. A bar never goes
back within an attempt, and that of the operation never at all. Silence and slowness are no failures; only a failure
counts towards the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from corral.domain.backend import Desired
from corral.domain.operation import Fault, JobId, JobState, Progress, Target, TargetState
from corral.policy import faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a worker says of a job, in an event or as an answer."""

    seq: int
    state: JobState
    progress: Progress
    fault: Fault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The worker answered that it will not."""

    fault: Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class NobodyListens:
    """The node is off the bus: it has certainly not got the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer:
    """It may have got the message, and may be at work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownJob:
    """The worker knows no such job: the command never arrived, or its memory of it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Decided here, without the worker: the deadline has passed, the node is gone, an earlier wave failed."""

    state: TargetState
    fault: Fault | None = None


News = Heard | Refused | NobodyListens | NoAnswer | UnknownJob | Ended


class Owed(StrEnum):
    """What becomes of the assignment."""

    STAYS = "stays"
    LATER = "later"  # stays, with one more failure and a time to try again
    DEAD = "dead"  # stays for admins to see; nobody tries it any more
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The target as it is afterwards, and what that means for its assignment."""

    target: Target
    was: TargetState
    owed: Owed = Owed.STAYS
    attempts: int = 0
    pause_s: float = 0.0
    # The worker itself has spoken, now.
    is_heard: bool = False
    # What an operator wants to read of it at night; empty if it is nothing new.
    note: str = ""
    level: str = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A target as it is in the registry, with what its assignment says."""

    target: Target
    desired: Desired | None
    attempts: int
    # When the decision was made that led to the news; what was heard after it is newer than a missing answer.
    as_of: datetime | None = None
    # For the next attempt: a worker takes the same id for the same job.
    next_job: JobId


def take(standing: Standing, news: News) -> Change | None:
    """None if nothing changes."""
    target = standing.target
    if target.state.is_final:
        return None
    match news:
        case Heard():
            return _heard(standing, news)
        case Refused(fault=fault):
            return _failed(standing, fault, is_heard=True)
        case NobodyListens():
            return _nobody_listens(standing)
        case NoAnswer():
            return _no_answer(standing)
        case UnknownJob() | Ended():
            return _unknown(standing) if isinstance(news, UnknownJob) else _ended(standing, news)


def _unknown(standing: Standing) -> Change:
    again = replace(standing.target, state=TargetState.QUEUED, seq=0)
    return _change(standing, again, note="knows nothing of the job; it will be told again", level="warning")


def _ended(standing: Standing, ended: Ended) -> Change:
    assert ended.state.is_final, "only an end is decided without the worker"
    return _change(
        standing,
        replace(standing.target, state=ended.state, fault=ended.fault),
        owed=Owed.GONE,
        note=ended.fault.text if ended.fault else str(ended.state),
        level="error" if ended.state is TargetState.ERROR else "info",
    )


def _heard(standing: Standing, heard: Heard) -> Change | None:
    target = standing.target
    if heard.seq < target.seq:
        return None
    progress = merged(target.progress, heard.progress)
    newer = replace(target, seq=heard.seq, progress=progress)
    if not heard.state.is_final:
        return _moved(standing, replace(newer, state=TargetState.WORKING, fault=None))
    match heard.state:
        case JobState.DONE:
            done = replace(newer, state=TargetState.SUCCESS, progress=replace(progress, percent=100.0), fault=None)
            return _change(standing, done, owed=Owed.GONE, is_heard=True, note="done")
        case JobState.PAUSED:
            # Somebody paused it and it is wanted again: a job that has ended does not go on, so the next has a new id.
            again = replace(newer, state=TargetState.QUEUED, job_id=standing.next_job, seq=0)
            return _change(standing, again, is_heard=True, note="was paused; it will be told again")
        case JobState.CANCELLED:
            text = heard.fault.text if heard.fault else "The job was cancelled on the node."
            fault = Fault(code=faults.CANCELLED_ON_NODE, text=text)
            return _failed(replace(standing, target=newer), fault, is_heard=True)
        case _:
            fault = heard.fault or Fault(code=faults.INTERNAL, text="The job failed, and the worker did not say why.")
            return _failed(replace(standing, target=newer), fault, is_heard=True)


def _moved(standing: Standing, working: Target) -> Change | None:
    if working == standing.target and standing.as_of is None:
        # A duplicate. As an answer to a question it would still say that the worker is there.
        return None
    is_news = standing.target.state is not TargetState.WORKING
    return _change(standing, working, is_heard=True, note="accepted" if is_news else "")


def _nobody_listens(standing: Standing) -> Change | None:
    """Before it was told it counts as a failure; of one that works it only means that it cannot be asked."""
    if standing.target.state is not TargetState.QUEUED:
        return _no_answer(standing)
    return _failed(standing, Fault(code=faults.NODE_UNREACHABLE, text="The node is not on the bus."), keeps_job=True)


def _no_answer(standing: Standing) -> Change | None:
    target = standing.target
    if target.heard_at is not None and standing.as_of is not None and target.heard_at > standing.as_of:
        return None
    if target.state is TargetState.UNCONFIRMED:
        return _change(standing, target)
    return _change(
        standing,
        replace(target, state=TargetState.UNCONFIRMED),
        note="does not answer; it may be at work and will be asked again",
        level="warning",
    )


def _failed(standing: Standing, fault: Fault, *, is_heard: bool = False, keeps_job: bool = False) -> Change:
    target, attempts = standing.target, standing.attempts + 1
    if not faults.is_transient(fault.code):
        # What a node should lose is never forgotten: the thing is still there, and an admin sees that.
        owed = Owed.DEAD if standing.desired is Desired.ABSENT else Owed.GONE
        ended = replace(target, state=TargetState.ERROR, fault=fault, attempt=attempts)
        return _change(
            standing,
            ended,
            owed=owed,
            attempts=attempts,
            is_heard=is_heard,
            note=f"failed: {fault.text}",
            level="error",
        )
    if attempts >= faults.ATTEMPTS_MAX:
        dead = replace(
            target, state=TargetState.ERROR, fault=Fault(code=faults.DEAD_LETTER, text=fault.text), attempt=attempts
        )
        note = f"failed: {fault.text}; put aside after {attempts} attempts"
        return _change(standing, dead, owed=Owed.DEAD, attempts=attempts, is_heard=is_heard, note=note, level="error")
    pause = faults.pause_s(attempts)
    again = replace(target, state=TargetState.QUEUED, fault=fault, attempt=attempts)
    if not keeps_job:
        again = replace(again, job_id=standing.next_job, seq=0, progress=Progress())
    return _change(
        standing,
        again,
        owed=Owed.LATER,
        attempts=attempts,
        pause_s=pause,
        is_heard=is_heard,
        note=f"failed: {fault.text}; will be tried again in {pause:g} s ({attempts} of {faults.ATTEMPTS_MAX})",
        level="warning",
    )


def _change(
    standing: Standing,
    target: Target,
    *,
    owed: Owed = Owed.STAYS,
    attempts: int | None = None,
    pause_s: float = 0.0,
    is_heard: bool = False,
    **said: str,
) -> Change:
    return Change(
        target=target,
        was=standing.target.state,
        owed=owed,
        attempts=standing.attempts if attempts is None else attempts,
        pause_s=pause_s,
        is_heard=is_heard,
        note=said.get("note", ""),
        level=said.get("level", "info"),
    )


def merged(old: Progress, new: Progress) -> Progress:
    """The newer of two readings of one attempt. What it does not say, it leaves."""
    return Progress(
        percent=max(old.percent, min(max(new.percent, 0.0), 100.0)),
        phase=new.phase or old.phase,
        current_bytes=new.current_bytes if new.current_bytes is not None else old.current_bytes,
        total_bytes=new.total_bytes if new.total_bytes is not None else old.total_bytes,
        file_name=new.file_name or old.file_name,
    )


def aggregate(targets: Sequence[Target], shown: Progress) -> Progress:
    """The whole: weighted by bytes where every total is known, else the mean of the percentages; never below `shown`.

    Bytes are told only when every target says how many; the phase is that of whoever is furthest behind.
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
