"""Decides about loads: what a report means, how long a load may take, which node to try next, and sources of files.
Pure functions.

    base    how long a load may take before anything has moved: 25 minutes
    stall   each byte, each new phase pushes the end to so much from now: 10 minutes without anything end it
    cap     nothing pushes the end beyond this: a trickle does not hold a node for ever

Guarantee: a failure of one node is never the end while another may do it, and nothing is tried for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from corral.domain.node import Liveness, Node, NodeId
from corral.domain.operation import Fault, JobPhase, JobState, Progress, Target, TargetState
from corral.policy import faults
from corral.policy.dispatch import QUERY_RETRY_INTERVAL, SILENCE
from corral.policy.progress import (
    CommandRefused,
    JobReport,
    NoResponders,
    Observation,
    TargetChange,
    TargetEnd,
    TargetSnapshot,
    apply_observation,
)

# A failure is remembered for requests in the next moments: they get its cause instead of another attempt.
FRESH = timedelta(seconds=15)
# How many nodes are tried after the first one has failed.
OTHERS_MAX = 2
# How much more memory is requested after an engine ran out of it: the estimate was too small.
MEMORY_GROWTH = 1.5
# Time beyond the engine's own: for the command, and for its last report.
LOAD_SLACK_S = 300.0
# How long a worker that has signed off may take to be back: an upgrade or a restart of its service on a slow machine.
RETURN_WAIT = timedelta(seconds=30)
# How often to look for it meanwhile.
RETURN_LOOK_S = 1.0
RETRY_AFTER_S = (5.0, 300.0)

OUT_OF_MEMORY = "out_of_memory"
NODE_LOST = "node_lost"
STALLED = "load_stalled"
# The model was edited during the load: requests that wait load it as it is now.
EDITED = "model_edited"
# Faults that another node cannot avoid.
_HOPELESS = frozenset({"not_found", "digest_mismatch", "unsupported", "invalid_request", "bad_manifest"})
# Faults that the same node may avoid a moment later.
_PASSING = frozenset(
    {"source_unavailable", "bad_answer", "worker_restarted", faults.INTERNAL, faults.NODE_UNREACHABLE, NODE_LOST}
)
# Faults of a node whose worker was not there.
_AWAY = frozenset({NODE_LOST, faults.NODE_UNREACHABLE})
_ENGINE_PHASES = frozenset({JobPhase.STARTING, JobPhase.LOADING})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTimeouts:
    """Says how long a model's load may take: at first, without progress, and at most.

    Whatever is set, stall <= base <= cap.
    """

    base_s: float = 25 * 60.0
    stall_s: float = 10 * 60.0
    cap_s: float = 24 * 3600.0

    @property
    def stall(self) -> float:
        return min(self.stall_s, self.base_s)

    @property
    def cap(self) -> float:
        return max(self.cap_s, self.base_s)


def compute_deadline(began: datetime, timeouts: LoadTimeouts) -> datetime:
    """Return the deadline of a load without any progress yet."""
    return began + timedelta(seconds=timeouts.base_s)


def extend_deadline(until: datetime, began: datetime, now: datetime, timeouts: LoadTimeouts) -> datetime:
    """Return the deadline after progress: never earlier than before, never past the cap."""
    moved = now + timedelta(seconds=timeouts.stall)
    return max(until, min(moved, began + timedelta(seconds=timeouts.cap)))


def extend_deadline_for_engine(until: datetime, now: datetime, budget_s: float) -> datetime:
    """Return the deadline while the engine starts, which has its own budget: nothing moves until it is ready."""
    return max(until, now + timedelta(seconds=budget_s + LOAD_SLACK_S))


def has_moved(previous: Progress, current: Progress) -> bool:
    """Return whether a load has progressed: bytes, percent and phases count; so does hashing, which has a phase and no
    bytes."""
    return (previous.current_bytes, previous.percent, previous.phase, previous.file_name) != (
        current.current_bytes,
        current.percent,
        current.phase,
        current.file_name,
    )


def is_starting_engine(progress: Progress) -> bool:
    return progress.phase in _ENGINE_PHASES


def apply_load_observation(snapshot: TargetSnapshot, observation: Observation) -> TargetChange | None:
    """Apply an observation as for any job, except that a failure ends the target: the driver of the load chooses the
    next node."""
    fault = _find_failure(snapshot, observation)
    if fault is None or snapshot.target.state.is_final:
        return apply_observation(snapshot, observation)
    target = snapshot.target
    if isinstance(observation, JobReport):
        if observation.seq < target.seq:
            return None
        target = replace(target, seq=observation.seq)
    change = apply_observation(replace(snapshot, target=target), TargetEnd(state=TargetState.ERROR, fault=fault))
    if change is None:
        return None
    ended = replace(change.target, attempt=change.target.attempt + 1)
    return replace(
        change,
        target=ended,
        previous_state=snapshot.target.state,
        is_from_worker=isinstance(observation, JobReport | CommandRefused),
        note=f"failed: {fault.text}",
        level="warning",
    )


def _find_failure(snapshot: TargetSnapshot, observation: Observation) -> Fault | None:
    match observation:
        case CommandRefused(fault=fault):
            return fault
        case NoResponders() if snapshot.target.state is TargetState.QUEUED:
            return Fault(code=faults.NODE_UNREACHABLE, text="The node is not on the bus.")
        case JobReport(state=JobState.FAILED):
            return observation.fault or Fault(code=faults.INTERNAL, text="It failed, and the worker did not say why.")
        case JobReport(state=JobState.CANCELLED | JobState.PAUSED):
            text = observation.fault.text if observation.fault else "The job was cancelled on the node."
            return Fault(code=faults.CANCELLED_ON_NODE, text=text)
    return None


def find_end(target: Target, node: Node | None, *, is_over: bool) -> TargetEnd | None:
    """Return the end of a target that ends without a report of its worker. `is_over`: the deadline has passed."""
    if target.state.is_final:
        return None
    if node is None:
        return _make_error_end(faults.NODE_REMOVED, "The node was removed.")
    if node.liveness is not Liveness.ALIVE:
        return _make_error_end(
            NODE_LOST, "The node was lost." if node.liveness is Liveness.LOST else "Its worker has stopped."
        )
    if target.state is TargetState.QUEUED:
        if is_drained(node):
            # As for backends, a drain is no failure; a load is tried elsewhere all the same.
            fault = Fault(code=faults.NODE_DRAINED, text="The node was drained before its turn.")
            return TargetEnd(state=TargetState.SKIPPED, fault=fault)
        if node.bus_ok is False:
            return _make_error_end(faults.NODE_UNREACHABLE, "The node is not on the bus.")
    return _make_error_end(STALLED, "The load made no progress for too long.") if is_over else None


def is_returning(node: Node | None, now: datetime) -> bool:
    """Return whether a node's worker is probably being restarted: it has signed off a moment ago."""
    return node is not None and node.liveness is Liveness.LEFT and _is_recent(node, now)


def list_awaited_nodes(failures: Iterable[NodeFailure], nodes: Mapping[NodeId, Node], now: datetime) -> list[Node]:
    """Return the nodes that a load was lost on because their workers are being restarted.

    A worker that has registered again a moment ago and is not on the bus yet counts, too."""
    lost = {failure.node for failure in failures if failure.fault.code in _AWAY}
    known = [nodes[key] for key in sorted(lost) if key in nodes]
    return [node for node in known if is_returning(node, now) or _is_joining(node, now)]


def _is_joining(node: Node, now: datetime) -> bool:
    return node.liveness is Liveness.ALIVE and node.bus_ok is False and _is_recent(node, now)


def _is_recent(node: Node, now: datetime) -> bool:
    return not is_drained(node) and now - node.liveness_since < RETURN_WAIT


def is_drained(node: Node) -> bool:
    """Return whether an admin has drained the node, or its worker has drained itself."""
    return node.drained_at is not None or node.self_drained_at is not None


def is_left_by_drains(named: Collection[Node], failures: Collection[NodeFailure]) -> bool:
    """Return whether a load has no node because every node that it names is drained, and nothing else has failed."""
    return (
        bool(named)
        and all(is_drained(node) for node in named)
        and all(failure.fault.code == faults.NODE_DRAINED for failure in failures)
    )


def compute_query_time(target: Target, now: datetime) -> datetime:
    """Return when a silent worker is queried; one that did not respond is queried more often."""
    last = max((at for at in (target.heard_at, target.contacted_at) if at is not None), default=None)
    patience = QUERY_RETRY_INTERVAL if target.state is TargetState.UNCONFIRMED else SILENCE
    return now if last is None else last + patience


def _make_error_end(code: str, text: str) -> TargetEnd:
    return TargetEnd(state=TargetState.ERROR, fault=Fault(code=code, text=text))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailure:
    """Says with which fault a model's load failed on which node, to decide about a retry."""

    node: NodeId
    node_name: str
    fault: Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPlan:
    """Says how a model's load is tried again: which nodes to leave out, and how much more memory to reserve."""

    avoid: frozenset[NodeId] = frozenset()
    # The nodes of `avoid` that may be tried after all if no other is left.
    retryable: frozenset[NodeId] = frozenset()
    memory_factor: float = 1.0


def plan_retry(failures: Sequence[NodeFailure]) -> RetryPlan | None:
    """Return how to go on after these failures, oldest first; None: the load has failed."""
    if any(failure.fault.code in _HOPELESS for failure in failures):
        return None
    short = [failure for failure in failures if failure.fault.code == OUT_OF_MEMORY]
    if len(short) > 1 or len(failures) > OTHERS_MAX:
        return None
    # A node that ran out of memory is not avoided: with more room it may do.
    avoid = {failure.node for failure in failures if failure not in short}
    may_again = {failure.node for failure in failures if failure.fault.code in _PASSING}
    return RetryPlan(
        avoid=frozenset(avoid), retryable=frozenset(may_again), memory_factor=MEMORY_GROWTH if short else 1.0
    )


def combine_causes(failures: Iterable[NodeFailure], refusals: Iterable[str] = ()) -> Fault | None:
    """Combine failures into one fault for every caller that waits; each cause once."""
    known = list(failures)
    causes = [f"{failure.node_name}: {failure.fault.text}" for failure in known] + list(refusals)
    texts = dict.fromkeys(text.removesuffix(".") for text in causes)
    if not texts:
        return None
    last = known[-1].fault.code if known else "no_room"
    text = f"{'; '.join(texts)}."
    if last == OUT_OF_MEMORY:
        text += " Give it a node with more memory, a smaller context, or set `vram` or `ram` of the model."
    return Fault(code=last, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHolder:
    """A node from which others may copy a model's files; `pullers` counts the nodes that copy from it now."""

    node: NodeId
    is_whole: bool
    pullers: int = 0


def pick_sources(node_ids: Sequence[NodeId], holders: Collection[FileHolder]) -> Mapping[NodeId, tuple[NodeId, ...]]:
    """Return the nodes that each of these takes its files from, best first; empty: from the library.

    Each new node is given the holder with the fewest pullers and becomes one itself: ten of them form a chain. Whole
    copies that are as idle come first; two more whole ones follow in case the first one goes.
    """
    pullers = {holder.node: holder.pullers for holder in holders}
    whole = {holder.node for holder in holders if holder.is_whole}
    chosen: dict[NodeId, tuple[NodeId, ...]] = {}
    for node in node_ids:
        others = sorted((one for one in pullers if one != node), key=lambda one: (pullers[one], one not in whole, one))
        if others:
            first = others[0]
            pullers[first] += 1
            spare = [one for one in others[1:] if one in whole][:2]
            chosen[node] = (first, *spare)
        else:
            chosen[node] = ()
        pullers.setdefault(node, 0)
    return chosen


def estimate_eta_s(current_bytes: int | None, total_bytes: int | None, elapsed_s: float) -> float | None:
    """Estimate how long the rest will take at the speed so far; None while that is unknown."""
    if not current_bytes or not total_bytes or elapsed_s < 1.0:
        return None
    return max(0.0, (total_bytes - current_bytes) * elapsed_s / current_bytes)


def compute_retry_after_s(eta: float | None, otherwise_s: float) -> float:
    least, most = RETRY_AFTER_S
    return min(max(eta if eta is not None else otherwise_s, least), most)


def compute_stop_pause_s(attempts: int) -> float:
    """Return how long to wait after the n-th failed stop of a process: 1 s, doubling to 4 minutes."""
    return min(float(2 ** min(max(attempts, 1) - 1, 8)), 240.0)
