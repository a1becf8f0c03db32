"""Decides what to do next about an operation, and its state: pure functions of its rows.

`decide` returns the targets to send to, to query, to stop, to end and to roll back. `conclude` returns the state,
the message and when there is something to do again. Both start from the whole state every time; the owner of the
operation and earlier attempts do not matter.

Guarantees: an unreachable node is sent nothing. A wave begins only after all before it. An operation ends exactly
once, and only when every target has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from corral.domain.backend import Assignment, AssignmentState
from corral.domain.node import Liveness, Node, NodeId
from corral.domain.operation import (
    OPEN,
    Fault,
    Operation,
    OperationState,
    Progress,
    RolloutStrategy,
    Target,
    TargetState,
)
from corral.policy import faults
from corral.policy.progress import TargetEnd, aggregate_progress
from corral.policy.status import compute_status, is_reachable, is_schedulable

# A worker that has been silent for this long is queried.
SILENCE = timedelta(seconds=30)
# A worker that did not respond is queried again at every look, but not more often than this.
QUERY_RETRY_INTERVAL = timedelta(seconds=5)
# How soon to look again when nothing wakes the operation: a wave that waits for the health of an earlier one.
LOOK_INTERVAL = timedelta(seconds=30)
NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationView:
    """An engine backend operation with its nodes and pending changes, read at once to decide how it goes on."""

    operation: Operation
    strategy: RolloutStrategy
    assignments: Mapping[NodeId, Assignment]
    nodes: Mapping[NodeId, Node]
    now: datetime
    # Query every worker that may be at work: the new owner has missed earlier reports.
    queries_all: bool = False

    @property
    def targets(self) -> tuple[Target, ...]:
        return self.operation.targets


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchDecision:
    """Lists what a frontend does next on each node of an engine backend operation: send, query, stop, end, undo."""

    send: tuple[Target, ...] = ()
    query: tuple[Target, ...] = ()
    stop: tuple[Target, ...] = ()
    end: tuple[tuple[Target, TargetEnd], ...] = ()
    roll_back: tuple[Target, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.send or self.query or self.stop or self.end or self.roll_back)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationVerdict:
    """Says the state of an operation, its message and progress, and when a frontend looks at it again."""

    state: OperationState
    message: str
    progress: Progress
    fault: Fault | None = None
    # True if the lease should be kept: a worker is at work, or will soon get a command.
    is_moving: bool = False
    # When there is something to do that nothing will wake the operation for. None: never.
    next_at: datetime | None = None


def decide(view: OperationView) -> DispatchDecision:
    operation = view.operation
    stop = tuple(t for t in view.targets if t.stop_wanted and is_reachable(view.nodes.get(t.node)))
    if operation.state not in OPEN:
        return DispatchDecision(stop=stop)
    end = tuple((target, end_reason) for target in view.targets if (end_reason := _find_end(view, target)) is not None)
    if end:
        # An end changes what the rest may do: write it first, and look again.
        return DispatchDecision(stop=stop, end=end)
    roll_back = _list_to_roll_back(view)
    if roll_back:
        return DispatchDecision(stop=stop, roll_back=roll_back)
    return DispatchDecision(
        stop=stop,
        send=tuple(target for target in view.targets if _is_due(view, target)),
        query=tuple(target for target in view.targets if _is_silent(view, target)),
    )


def _find_end(view: OperationView, target: Target) -> TargetEnd | None:
    """Return the end of a target that ends without a report of its worker; None if it goes on."""
    if target.state.is_final:
        return None
    node = view.nodes.get(target.node)
    if node is None:
        return _make_error_end(faults.NODE_REMOVED, "The node was removed.")
    deadline = view.operation.deadline_at
    if deadline is not None and deadline <= view.now and _is_bound_by_deadline(target, node):
        return _make_error_end(faults.DEADLINE_PASSED, "The node did not come back before the deadline.")
    return None if target.state is TargetState.WORKING else _find_end_before_work(view, target, node)


def _is_bound_by_deadline(target: Target, node: Node | None) -> bool:
    """Return whether the deadline applies: a running job may be finished after the deadline, as long as its worker
    lives."""
    return target.state is not TargetState.WORKING or node is None or node.liveness is not Liveness.ALIVE


def _find_end_before_work(view: OperationView, target: Target, node: Node) -> TargetEnd | None:
    if node.drained_at is not None:
        # An admin drained it on purpose: that is no failure of the operation.
        fault = Fault(code=faults.NODE_DRAINED, text="The node was drained before its turn.")
        return TargetEnd(state=TargetState.SKIPPED, fault=fault)
    if target.state is TargetState.QUEUED and not target.is_rollback and _is_stopped_by_failure(view, target):
        return TargetEnd(state=TargetState.SKIPPED)
    return None


def _is_stopped_by_failure(view: OperationView, target: Target) -> bool:
    strategy = view.strategy
    if not (strategy.stops_on_failure or strategy.rolls_back):
        return False
    return any(other.wave < target.wave and other.state is TargetState.ERROR for other in view.targets)


def _make_error_end(code: str, text: str) -> TargetEnd:
    return TargetEnd(state=TargetState.ERROR, fault=Fault(code=code, text=text))


def _list_to_roll_back(view: OperationView) -> tuple[Target, ...]:
    """Return the targets that this operation has changed, once all have ended and one has failed."""
    if not view.strategy.rolls_back or not all(target.state.is_final for target in view.targets):
        return ()
    if not any(target.state is TargetState.ERROR and not target.is_rollback for target in view.targets):
        return ()
    return tuple(
        target
        for target in view.targets
        if target.state is TargetState.SUCCESS and not target.is_rollback and target.previous is not None
    )


def _is_due(view: OperationView, target: Target) -> bool:
    if target.state is not TargetState.QUEUED or not is_schedulable(view.nodes.get(target.node)):
        return False
    assignment = view.assignments.get(target.node)
    if assignment is None or assignment.state is not AssignmentState.OPEN or not _is_wave_open(view, target):
        return False
    return assignment.next_retry_at is None or assignment.next_retry_at <= view.now


def _is_wave_open(view: OperationView, target: Target) -> bool:
    """Return whether every target of earlier waves has ended, and those that succeeded are healthy."""
    # The first wave waits for nothing; this check for a thousand targets must not look at a thousand each time.
    if target.is_rollback or target.wave == 0:
        return True
    earlier = [other for other in view.targets if other.wave < target.wave]
    return all(other.state.is_final for other in earlier) and all(
        _is_healthy(view.nodes.get(other.node)) for other in earlier if other.state is TargetState.SUCCESS
    )


def _is_healthy(node: Node | None) -> bool:
    # A node that was removed since has no health any more.
    return node is None or is_reachable(node)


def _is_silent(view: OperationView, target: Target) -> bool:
    if target.state not in (TargetState.WORKING, TargetState.UNCONFIRMED):
        return False
    if not is_reachable(view.nodes.get(target.node)):
        return False
    patience = QUERY_RETRY_INTERVAL if target.state is TargetState.UNCONFIRMED else SILENCE
    return view.queries_all or _compute_query_time(view, target, patience) <= view.now


def _compute_query_time(view: OperationView, target: Target, interval: timedelta = SILENCE) -> datetime:
    last = max((at for at in (target.heard_at, target.contacted_at) if at is not None), default=None)
    return view.now if last is None else last + interval


def conclude(view: OperationView) -> OperationVerdict:
    operation, targets = view.operation, view.targets
    progress = aggregate_progress(targets, operation.progress)
    if operation.state not in OPEN and not operation.is_reaped:
        return OperationVerdict(
            state=operation.state,
            message=operation.message,
            progress=operation.progress,
            fault=operation.fault,
            next_at=min(_list_stop_moments(view), default=None),
        )
    if all(target.state.is_final for target in targets):
        if _list_to_roll_back(view):
            return _make_open_verdict(view, progress)
        return _make_end_verdict(view, progress)
    if operation.is_reaped:
        return OperationVerdict(
            state=operation.state, message=operation.message, progress=progress, fault=operation.fault
        )
    return _make_open_verdict(view, progress)


def _make_end_verdict(view: OperationView, progress: Progress) -> OperationVerdict:
    """Return the verdict of an operation whose targets have all ended."""
    operation, targets = view.operation, view.targets
    failed = [t for t in targets if t.state is TargetState.ERROR]
    if failed:
        if operation.is_reaped:
            return OperationVerdict(
                state=operation.state, message=operation.message, progress=progress, fault=operation.fault
            )
        text = "; ".join(f"{t.node_name}: {t.fault.text if t.fault else 'failed'}" for t in failed)
        code = failed[0].fault.code if failed[0].fault else faults.INTERNAL
        return OperationVerdict(
            state=OperationState.FAILED,
            message=_describe_failure(targets, failed),
            progress=progress,
            fault=Fault(code=code, text=text),
        )
    by_state = {state: [t for t in targets if t.state is state] for state in TargetState}
    if by_state[TargetState.SUPERSEDED]:
        names = _format_names(by_state[TargetState.SUPERSEDED])
        return OperationVerdict(
            state=OperationState.SUPERSEDED, message=f"Replaced by a newer operation on {names}", progress=progress
        )
    cancelled, skipped = by_state[TargetState.CANCELLED], by_state[TargetState.SKIPPED]
    if targets and len(cancelled) == len(targets):
        return OperationVerdict(state=OperationState.CANCELLED, message="Cancelled on every node", progress=progress)
    if targets and skipped and len(cancelled) + len(skipped) == len(targets):
        message = f"Not done: {describe_drained([t.node_name for t in skipped])}"
        return OperationVerdict(state=OperationState.CANCELLED, message=message, progress=progress)
    done = len(by_state[TargetState.SUCCESS])
    message = f"Completed on {_format_node_count(done)}"
    if cancelled:
        message += f"; cancelled on {_format_names(cancelled)}"
    if skipped:
        message += f"; skipped: {describe_drained([t.node_name for t in skipped])}"
    # Only progress that is whole is 100: the bar of a completed operation is full.
    whole = Progress(percent=100.0, current_bytes=progress.total_bytes, total_bytes=progress.total_bytes)
    return OperationVerdict(state=OperationState.COMPLETED, message=message, progress=whole)


def describe_drained(node_names: Sequence[str]) -> str:
    """Return the words for nodes that an operation has skipped: `a, b drained before it began`."""
    return f"{_format_with_rest(node_names[:NAMES_SHOWN], len(node_names))} drained before it began"


def _describe_failure(targets: Sequence[Target], failed: Sequence[Target]) -> str:
    done = [t for t in targets if t.state is TargetState.SUCCESS and not t.is_rollback]
    parts = [f"Failed on {_format_names(failed)}"]
    if done:
        parts.append(f"done on {_format_node_count(len(done))}")
    for word, chosen in (
        ("rolled back", [t for t in targets if t.is_rollback and t.state is TargetState.SUCCESS]),
        ("not tried", [t for t in targets if t.state is TargetState.SKIPPED]),
    ):
        if chosen:
            parts.append(f"{word}: {_format_names(chosen)}")
    return "; ".join(parts)


@dataclass(slots=True, kw_only=True)
class _OpenTargets:
    """Groups targets that have not ended by what they wait for."""

    working: list[Target] = field(default_factory=list)
    unconfirmed: list[Target] = field(default_factory=list)
    ready: list[Target] = field(default_factory=list)  # waiting to be sent, now or after a pause
    gated: list[Target] = field(default_factory=list)  # behind an earlier wave
    absent: list[Target] = field(default_factory=list)


def _group_open_targets(view: OperationView) -> _OpenTargets:
    out = _OpenTargets()
    for target in view.targets:
        if target.state.is_final:
            continue
        node = view.nodes.get(target.node)
        if target.state is TargetState.UNCONFIRMED:
            out.unconfirmed.append(target)
        elif target.state is TargetState.WORKING:
            # A job on a node that cannot be reached now is not known to run.
            (out.working if is_reachable(node) else out.unconfirmed).append(target)
        elif not _is_wave_open(view, target):
            out.gated.append(target)
        else:
            (out.ready if is_schedulable(node) else out.absent).append(target)
    return out


def _make_open_verdict(view: OperationView, progress: Progress) -> OperationVerdict:
    out = _group_open_targets(view)
    is_moving = bool(out.working or out.ready or _list_to_roll_back(view))
    if view.operation.state is OperationState.COMPLETED_WITH_PENDING:
        state = OperationState.COMPLETED_WITH_PENDING
    elif is_moving:
        state = OperationState.RUNNING
    elif out.unconfirmed or out.gated:
        state = OperationState.WAITING_ON_NODES
    else:
        state = OperationState.COMPLETED_WITH_PENDING
    return OperationVerdict(
        state=state,
        message=_describe_state(view, out, state),
        progress=progress,
        is_moving=is_moving,
        next_at=_compute_next_at(view, out),
    )


def _describe_state(view: OperationView, out: _OpenTargets, state: OperationState) -> str:
    targets = view.targets
    done = sum(target.state is TargetState.SUCCESS for target in targets)
    word = _WORDS.get(view.operation.kind.value.partition("_")[2], "Working")
    if state is OperationState.RUNNING:
        if any(target.is_rollback for target in targets) or _list_to_roll_back(view):
            return "Rolling back after a failure"
        busy = len(out.working) + len(out.ready)
        return f"{word} on {busy} of {_format_node_count(len(targets))}" + (f"; done on {done}" if done else "")
    pending = [*out.unconfirmed, *out.absent, *out.ready, *out.working]
    parts = [f"Completed on {done}"] if done else []
    if pending:
        parts.append(f"pending for {len(pending)}: {_format_names_with_reasons(view, pending)}")
    if out.gated:
        parts.append(f"{_format_node_count(len(out.gated))} of later waves wait for them")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:]


_WORDS = {
    "install": "Installing",
    "upgrade": "Upgrading",
    "reinstall": "Reinstalling",
    "rollback": "Rolling back",
    "delete": "Removing",
}


def _format_names_with_reasons(view: OperationView, targets: Sequence[Target]) -> str:
    shown = [f"{target.node_name} ({_describe_wait(view, target)})" for target in targets[:NAMES_SHOWN]]
    return _format_with_rest(shown, len(targets))


def _describe_wait(view: OperationView, target: Target) -> str:
    node = view.nodes.get(target.node)
    if node is None:
        return "removed"
    if node.liveness is not Liveness.ALIVE:
        return "offline"
    if node.bus_ok is False:
        return "off the bus"
    if target.state is TargetState.UNCONFIRMED:
        return "does not respond"
    if target.state is TargetState.WORKING:
        return "at work"
    return "queued" if is_schedulable(node) else str(compute_status(node))


def _format_names(targets: Sequence[Target]) -> str:
    return _format_with_rest([target.node_name for target in targets[:NAMES_SHOWN]], len(targets))


def _format_with_rest(shown: Sequence[str], count: int) -> str:
    rest = count - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _format_node_count(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


def _compute_next_at(view: OperationView, out: _OpenTargets) -> datetime | None:
    """Return the next moment that nothing else wakes the operation for: a node that returns and a job that ends do."""
    return min(_list_moments(view, out), default=None)


def _list_moments(view: OperationView, out: _OpenTargets) -> Iterable[datetime]:
    deadline = view.operation.deadline_at
    if deadline is not None:
        for target in (*out.absent, *out.unconfirmed, *out.ready, *out.gated):
            # A job on a node off the bus: the deadline counts from when that node is lost, and no event wakes the
            # operation then.
            soonest = (
                view.now if _is_bound_by_deadline(target, view.nodes.get(target.node)) else view.now + LOOK_INTERVAL
            )
            yield max(deadline, soonest)
    for target in out.ready:
        assignment = view.assignments.get(target.node)
        if assignment is not None:
            yield max(assignment.next_retry_at or view.now, view.now)
    for target in (*out.working, *out.unconfirmed):
        if is_reachable(view.nodes.get(target.node)):
            yield max(_compute_query_time(view, target), view.now)
    if out.gated and not out.ready and not out.working:
        yield view.now + LOOK_INTERVAL
    if _list_to_roll_back(view):
        yield view.now
    yield from _list_stop_moments(view)


def _list_stop_moments(view: OperationView) -> Iterable[datetime]:
    """Return when to send stop commands again that got no answer."""
    if any(target.stop_wanted and is_reachable(view.nodes.get(target.node)) for target in view.targets):
        yield view.now + QUERY_RETRY_INTERVAL
