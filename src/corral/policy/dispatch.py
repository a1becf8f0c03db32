"""What to do next about an operation, and where it stands: pure functions of its rows.

`decide` says whom to tell, whom to ask, whom to stop, what has ended by itself and what goes back. `conclude` says the
state, the sentence and when there is something to do again. Both start from the whole state every time; who holds the
operation, and what was tried before, does not matter.

Guarantees: nobody who cannot be reached is sent anything. A wave begins only after all before it. An operation ends
exactly once, and only when every target has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from corral.domain.backend import Assignment, AssignmentState
from corral.domain.node import Liveness, Node, NodeId, NodeStatus
from corral.domain.operation import (
    OPEN,
    Fault,
    Operation,
    OperationState,
    Progress,
    Strategy,
    Target,
    TargetState,
)
from corral.policy import faults
from corral.policy.progress import Ended, aggregate
from corral.policy.status import status_of

# A worker that has said nothing for this long is asked.
SILENCE = timedelta(seconds=30)
# One that did not answer is asked again at every look, but not more often than this.
ASKED_AGAIN = timedelta(seconds=5)
# How soon to look again at what nothing wakes: a wave that waits for the health of an earlier one.
LOOK_AGAIN = timedelta(seconds=30)
NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """An operation with its targets, what its nodes owe, and the nodes, all read at one moment of the database."""

    operation: Operation
    strategy: Strategy
    assignments: Mapping[NodeId, Assignment]
    nodes: Mapping[NodeId, Node]
    now: datetime
    # Ask everybody who may be at work: whoever drives it now has not heard what was said before.
    asks_all: bool = False

    @property
    def targets(self) -> tuple[Target, ...]:
        return self.operation.targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    send: tuple[Target, ...] = ()
    ask: tuple[Target, ...] = ()
    stop: tuple[Target, ...] = ()
    end: tuple[tuple[Target, Ended], ...] = ()
    roll_back: tuple[Target, ...] = ()

    @property
    def is_nothing(self) -> bool:
        return not (self.send or self.ask or self.stop or self.end or self.roll_back)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    state: OperationState
    message: str
    progress: Progress
    fault: Fault | None = None
    # Somebody should keep hold of it: a worker is at work, or will soon be told.
    is_moving: bool = False
    # When there is something to do that nobody will call for. None: never.
    next_at: datetime | None = None


def can_be_asked(node: Node | None) -> bool:
    """Whether a message may reach its worker. A drained node may still be at work, so it is asked."""
    return (
        node is not None
        and node.approved_at is not None
        and node.liveness is Liveness.ALIVE
        and node.bus_ok is not False
    )


def can_be_sent(node: Node | None) -> bool:
    """Whether new work may be sent to it."""
    return node is not None and status_of(node) is NodeStatus.HEALTHY


def decide(view: View) -> Decision:
    operation = view.operation
    stop = tuple(t for t in view.targets if t.stop_wanted and can_be_asked(view.nodes.get(t.node)))
    if operation.state not in OPEN:
        return Decision(stop=stop)
    end = tuple((target, why) for target in view.targets if (why := _end_of(view, target)) is not None)
    if end:
        # What has ended changes what the rest may do: write it down first, and look again.
        return Decision(stop=stop, end=end)
    roll_back = _to_roll_back(view)
    if roll_back:
        return Decision(stop=stop, roll_back=roll_back)
    return Decision(
        stop=stop,
        send=tuple(target for target in view.targets if _is_due(view, target)),
        ask=tuple(target for target in view.targets if _is_silent(view, target)),
    )


def _end_of(view: View, target: Target) -> Ended | None:
    """Whether it is over with a target without its worker having said so."""
    if target.state.is_final:
        return None
    node = view.nodes.get(target.node)
    if node is None:
        return _error(faults.NODE_REMOVED, "The node was removed.")
    deadline = view.operation.deadline_at
    if deadline is not None and deadline <= view.now and _heeds_deadline(target, node):
        return _error(faults.DEADLINE_PASSED, "The node was not there before the deadline.")
    return None if target.state is TargetState.WORKING else _end_before_work(view, target, node)


def _heeds_deadline(target: Target, node: Node | None) -> bool:
    """What a worker is at may be finished after the deadline, as long as that worker lives."""
    return target.state is not TargetState.WORKING or node is None or node.liveness is not Liveness.ALIVE


def _end_before_work(view: View, target: Target, node: Node) -> Ended | None:
    if node.drained_at is not None:
        # Somebody drained it on purpose: that is no failure of the operation.
        fault = Fault(code=faults.NODE_DRAINED, text="The node was drained before it could be done there.")
        return Ended(state=TargetState.SKIPPED, fault=fault)
    if target.state is TargetState.QUEUED and not target.is_rollback and _stops_here(view, target):
        return Ended(state=TargetState.SKIPPED)
    return None


def _stops_here(view: View, target: Target) -> bool:
    strategy = view.strategy
    if not (strategy.stops_on_failure or strategy.rolls_back):
        return False
    return any(other.wave < target.wave and other.state is TargetState.ERROR for other in view.targets)


def _error(code: str, text: str) -> Ended:
    return Ended(state=TargetState.ERROR, fault=Fault(code=code, text=text))


def _to_roll_back(view: View) -> tuple[Target, ...]:
    """Those that this operation has changed, once everybody has come to an end and somebody failed."""
    if not view.strategy.rolls_back or not all(target.state.is_final for target in view.targets):
        return ()
    if not any(target.state is TargetState.ERROR and not target.is_rollback for target in view.targets):
        return ()
    return tuple(
        target
        for target in view.targets
        if target.state is TargetState.SUCCESS and not target.is_rollback and target.previous is not None
    )


def _is_due(view: View, target: Target) -> bool:
    if target.state is not TargetState.QUEUED or not can_be_sent(view.nodes.get(target.node)):
        return False
    assignment = view.assignments.get(target.node)
    if assignment is None or assignment.state is not AssignmentState.OPEN or not _wave_is_open(view, target):
        return False
    return assignment.next_retry_at is None or assignment.next_retry_at <= view.now


def _wave_is_open(view: View, target: Target) -> bool:
    """Every target before it has come to its end, and those that succeeded are well with what they got."""
    # The first wave waits for nobody; asking that of a thousand targets must not look at a thousand each time.
    if target.is_rollback or target.wave == 0:
        return True
    before = [other for other in view.targets if other.wave < target.wave]
    return all(other.state.is_final for other in before) and all(
        _is_well(view.nodes.get(other.node)) for other in before if other.state is TargetState.SUCCESS
    )


def _is_well(node: Node | None) -> bool:
    # A node that was removed since is nobody's health any more.
    return node is None or can_be_asked(node)


def _is_silent(view: View, target: Target) -> bool:
    if target.state not in (TargetState.WORKING, TargetState.UNCONFIRMED):
        return False
    if not can_be_asked(view.nodes.get(target.node)):
        return False
    patience = ASKED_AGAIN if target.state is TargetState.UNCONFIRMED else SILENCE
    return view.asks_all or _silent_at(view, target, patience) <= view.now


def _silent_at(view: View, target: Target, patience: timedelta = SILENCE) -> datetime:
    last = max((at for at in (target.heard_at, target.contacted_at) if at is not None), default=None)
    return view.now if last is None else last + patience


def conclude(view: View) -> Verdict:
    operation, targets = view.operation, view.targets
    progress = aggregate(targets, operation.progress)
    if operation.state not in OPEN and not operation.is_reaped:
        return Verdict(
            state=operation.state,
            message=operation.message,
            progress=operation.progress,
            fault=operation.fault,
            next_at=min(_stops(view), default=None),
        )
    if all(target.state.is_final for target in targets):
        if _to_roll_back(view):
            return _going_on(view, progress)
        return _ending(view, progress)
    if operation.is_reaped:
        return Verdict(state=operation.state, message=operation.message, progress=progress, fault=operation.fault)
    return _going_on(view, progress)


def _ending(view: View, progress: Progress) -> Verdict:
    """Everybody is at an end."""
    operation, targets = view.operation, view.targets
    failed = [t for t in targets if t.state is TargetState.ERROR]
    if failed:
        if operation.is_reaped:
            return Verdict(state=operation.state, message=operation.message, progress=progress, fault=operation.fault)
        text = "; ".join(f"{t.node_name}: {t.fault.text if t.fault else 'failed'}" for t in failed)
        code = failed[0].fault.code if failed[0].fault else faults.INTERNAL
        return Verdict(
            state=OperationState.FAILED,
            message=_failure(targets, failed),
            progress=progress,
            fault=Fault(code=code, text=text),
        )
    by_state = {state: [t for t in targets if t.state is state] for state in TargetState}
    if by_state[TargetState.SUPERSEDED]:
        names = _names(by_state[TargetState.SUPERSEDED])
        return Verdict(
            state=OperationState.SUPERSEDED, message=f"Replaced by a newer operation on {names}", progress=progress
        )
    cancelled, skipped = by_state[TargetState.CANCELLED], by_state[TargetState.SKIPPED]
    if targets and len(cancelled) == len(targets):
        return Verdict(state=OperationState.CANCELLED, message="Taken back on every node", progress=progress)
    if targets and skipped and len(cancelled) + len(skipped) == len(targets):
        message = f"Not done: {_names(skipped)} drained before it began"
        return Verdict(state=OperationState.CANCELLED, message=message, progress=progress)
    done = len(by_state[TargetState.SUCCESS])
    message = f"Done on {_count(done)}"
    if cancelled:
        message += f"; taken back on {_names(cancelled)}"
    if skipped:
        message += f"; skipped: {_names(skipped)} drained before it began"
    # Only progress that is whole is 100: the bar of a completed operation is full.
    whole = Progress(percent=100.0, current_bytes=progress.total_bytes, total_bytes=progress.total_bytes)
    return Verdict(state=OperationState.COMPLETED, message=message, progress=whole)


def _failure(targets: Sequence[Target], failed: Sequence[Target]) -> str:
    done = [t for t in targets if t.state is TargetState.SUCCESS and not t.is_rollback]
    parts = [f"Failed on {_names(failed)}"]
    if done:
        parts.append(f"done on {_count(len(done))}")
    for word, chosen in (
        ("rolled back", [t for t in targets if t.is_rollback and t.state is TargetState.SUCCESS]),
        ("not tried", [t for t in targets if t.state is TargetState.SKIPPED]),
    ):
        if chosen:
            parts.append(f"{word}: {_names(chosen)}")
    return "; ".join(parts)


@dataclass(slots=True, kw_only=True)
class _Open:
    """Targets that are not at their end, by what keeps them."""

    working: list[Target] = field(default_factory=list)
    unconfirmed: list[Target] = field(default_factory=list)
    ready: list[Target] = field(default_factory=list)  # to be sent now or after a pause
    gated: list[Target] = field(default_factory=list)  # behind an earlier wave
    absent: list[Target] = field(default_factory=list)


def _sorted_out(view: View) -> _Open:
    out = _Open()
    for target in view.targets:
        if target.state.is_final:
            continue
        node = view.nodes.get(target.node)
        if target.state is TargetState.UNCONFIRMED:
            out.unconfirmed.append(target)
        elif target.state is TargetState.WORKING:
            # One that works on a node which cannot be reached now is not known to work.
            (out.working if can_be_asked(node) else out.unconfirmed).append(target)
        elif not _wave_is_open(view, target):
            out.gated.append(target)
        else:
            (out.ready if can_be_sent(node) else out.absent).append(target)
    return out


def _going_on(view: View, progress: Progress) -> Verdict:
    out = _sorted_out(view)
    is_moving = bool(out.working or out.ready or _to_roll_back(view))
    if view.operation.state is OperationState.COMPLETED_WITH_PENDING:
        state = OperationState.COMPLETED_WITH_PENDING
    elif is_moving:
        state = OperationState.RUNNING
    elif out.unconfirmed or out.gated:
        state = OperationState.WAITING_ON_NODES
    else:
        state = OperationState.COMPLETED_WITH_PENDING
    return Verdict(
        state=state,
        message=_sentence(view, out, state),
        progress=progress,
        is_moving=is_moving,
        next_at=_next_at(view, out),
    )


def _sentence(view: View, out: _Open, state: OperationState) -> str:
    targets = view.targets
    done = sum(target.state is TargetState.SUCCESS for target in targets)
    word = _WORDS.get(view.operation.kind.value.partition("_")[2], "Working")
    if state is OperationState.RUNNING:
        if any(target.is_rollback for target in targets) or _to_roll_back(view):
            return "Rolling back after a failure"
        busy = len(out.working) + len(out.ready)
        return f"{word} on {busy} of {_count(len(targets))}" + (f"; done on {done}" if done else "")
    owed = [*out.unconfirmed, *out.absent, *out.ready, *out.working]
    parts = [f"Done on {done}"] if done else []
    if owed:
        parts.append(f"owed to {len(owed)}: {_names_with_reasons(view, owed)}")
    if out.gated:
        parts.append(f"{_count(len(out.gated))} of later waves wait for them")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:]


_WORDS = {
    "install": "Installing",
    "upgrade": "Upgrading",
    "reinstall": "Reinstalling",
    "rollback": "Rolling back",
    "delete": "Removing",
}


def _names_with_reasons(view: View, targets: Sequence[Target]) -> str:
    shown = [f"{target.node_name} ({_reason(view, target)})" for target in targets[:NAMES_SHOWN]]
    return _with_more(shown, len(targets))


def _reason(view: View, target: Target) -> str:
    node = view.nodes.get(target.node)
    if node is None:
        return "removed"
    if node.liveness is not Liveness.ALIVE:
        return "offline"
    if node.bus_ok is False:
        return "off the bus"
    if target.state is TargetState.UNCONFIRMED:
        return "does not answer"
    if target.state is TargetState.WORKING:
        return "at work"
    return "to be told" if can_be_sent(node) else str(status_of(node))


def _names(targets: Sequence[Target]) -> str:
    return _with_more([target.node_name for target in targets[:NAMES_SHOWN]], len(targets))


def _with_more(shown: Sequence[str], count: int) -> str:
    rest = count - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _count(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


def _next_at(view: View, out: _Open) -> datetime | None:
    """Only moments that nothing else calls for: a node that returns and a job that ends wake the operation."""
    return min(_moments(view, out), default=None)


def _moments(view: View, out: _Open) -> Iterable[datetime]:
    deadline = view.operation.deadline_at
    if deadline is not None:
        for target in (*out.absent, *out.unconfirmed, *out.ready, *out.gated):
            # At work on a node off the bus: the deadline counts from when that node is lost, and nothing calls then.
            soonest = view.now if _heeds_deadline(target, view.nodes.get(target.node)) else view.now + LOOK_AGAIN
            yield max(deadline, soonest)
    for target in out.ready:
        assignment = view.assignments.get(target.node)
        if assignment is not None:
            yield max(assignment.next_retry_at or view.now, view.now)
    for target in (*out.working, *out.unconfirmed):
        if can_be_asked(view.nodes.get(target.node)):
            yield max(_silent_at(view, target), view.now)
    if out.gated and not out.ready and not out.working:
        yield view.now + LOOK_AGAIN
    if _to_roll_back(view):
        yield view.now
    yield from _stops(view)


def _stops(view: View) -> Iterable[datetime]:
    """When to tell those again that did not answer when they were to stop."""
    if any(target.stop_wanted and can_be_asked(view.nodes.get(target.node)) for target in view.targets):
        yield view.now + ASKED_AGAIN
