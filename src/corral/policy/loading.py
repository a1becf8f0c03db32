"""Loads: what news means for one, how long it may take, whom to try next, and where files come from. Pure functions.

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
from corral.domain.operation import Fault, JobState, Phase, Progress, Target, TargetState
from corral.policy import faults
from corral.policy.dispatch import ASKED_AGAIN, SILENCE
from corral.policy.progress import Change, Ended, Heard, News, NobodyListens, Refused, Standing, take

# A failure is remembered for those who ask in the next moments: they get its cause instead of another try.
FRESH = timedelta(seconds=15)
# Nodes that are tried after the first one has failed.
OTHERS_MAX = 2
# How much more is asked for when an engine ran out of memory: the estimate was too small.
MORE_MEMORY = 1.5
# Beyond the time that the engine is given: for the command, and for its last word.
LOAD_SLACK_S = 300.0
RETRY_AFTER_S = (5.0, 300.0)

OUT_OF_MEMORY = "out_of_memory"
NODE_LOST = "node_lost"
STALLED = "load_stalled"
# It was edited while it was loaded: whoever waits asks for it as it is now.
EDITED = "model_edited"
# What another node cannot do better.
_HOPELESS = frozenset({"not_found", "digest_mismatch", "unsupported", "invalid_request", "bad_manifest"})
# What the same node may do better a moment later.
_PASSING = frozenset(
    {"source_unavailable", "bad_answer", "worker_restarted", faults.INTERNAL, faults.NODE_UNREACHABLE, NODE_LOST}
)
_AT_THE_ENGINE = frozenset({Phase.STARTING, Phase.LOADING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """How long a load may take. Whatever is set, stall <= base <= cap."""

    base_s: float = 25 * 60.0
    stall_s: float = 10 * 60.0
    cap_s: float = 24 * 3600.0

    @property
    def stall(self) -> float:
        return min(self.stall_s, self.base_s)

    @property
    def cap(self) -> float:
        return max(self.cap_s, self.base_s)


def hold_until(began: datetime, hold: Hold) -> datetime:
    """The end of a load of which nothing has moved yet."""
    return began + timedelta(seconds=hold.base_s)


def pushed(until: datetime, began: datetime, now: datetime, hold: Hold) -> datetime:
    """Something has moved: never earlier than it was, never past the cap."""
    moved = now + timedelta(seconds=hold.stall)
    return max(until, min(moved, began + timedelta(seconds=hold.cap)))


def pushed_for_engine(until: datetime, now: datetime, budget_s: float) -> datetime:
    """From here on nothing moves until the engine is ready; it has its own budget."""
    return max(until, now + timedelta(seconds=budget_s + LOAD_SLACK_S))


def has_moved(before: Progress, after: Progress) -> bool:
    """Bytes, percent and phases are progress; so is hashing, which has a phase and no bytes."""
    return (before.current_bytes, before.percent, before.phase, before.file_name) != (
        after.current_bytes,
        after.percent,
        after.phase,
        after.file_name,
    )


def is_at_the_engine(progress: Progress) -> bool:
    return progress.phase in _AT_THE_ENGINE


def take_load(standing: Standing, news: News) -> Change | None:
    """As for any job, except that a failure ends the target: whoever drives the load chooses where to try next."""
    fault = _failure_of(standing, news)
    if fault is None or standing.target.state.is_final:
        return take(standing, news)
    target = standing.target
    if isinstance(news, Heard):
        if news.seq < target.seq:
            return None
        target = replace(target, seq=news.seq)
    change = take(replace(standing, target=target), Ended(state=TargetState.ERROR, fault=fault))
    if change is None:
        return None
    ended = replace(change.target, attempt=change.target.attempt + 1)
    return replace(
        change,
        target=ended,
        was=standing.target.state,
        is_heard=isinstance(news, Heard | Refused),
        note=f"failed: {fault.text}",
        level="warning",
    )


def _failure_of(standing: Standing, news: News) -> Fault | None:
    match news:
        case Refused(fault=fault):
            return fault
        case NobodyListens() if standing.target.state is TargetState.QUEUED:
            return Fault(code=faults.NODE_UNREACHABLE, text="The node is not on the bus.")
        case Heard(state=JobState.FAILED):
            return news.fault or Fault(code=faults.INTERNAL, text="It failed, and the worker did not say why.")
        case Heard(state=JobState.CANCELLED | JobState.PAUSED):
            text = news.fault.text if news.fault else "The job was cancelled on the node."
            return Fault(code=faults.CANCELLED_ON_NODE, text=text)
    return None


def end_of(target: Target, node: Node | None, *, is_over: bool) -> Ended | None:
    """Whether it is over with a target without its worker having said so. `is_over`: the hold has run out."""
    if target.state.is_final:
        return None
    if node is None:
        return _error(faults.NODE_REMOVED, "The node was removed.")
    if node.liveness is not Liveness.ALIVE:
        return _error(NODE_LOST, "The node was lost." if node.liveness is Liveness.LOST else "Its worker has stopped.")
    if target.state is TargetState.QUEUED:
        if node.drained_at is not None or node.self_drained_at is not None:
            return _error(faults.NODE_DRAINED, "The node was drained before it could be done there.")
        if node.bus_ok is False:
            return _error(faults.NODE_UNREACHABLE, "The node is not on the bus.")
    return _error(STALLED, "Nothing has moved for too long.") if is_over else None


def asked_at(target: Target, now: datetime) -> datetime:
    """When a worker that says nothing is asked; one that did not answer is asked more often."""
    last = max((at for at in (target.heard_at, target.contacted_at) if at is not None), default=None)
    patience = ASKED_AGAIN if target.state is TargetState.UNCONFIRMED else SILENCE
    return now if last is None else last + patience


def _error(code: str, text: str) -> Ended:
    return Ended(state=TargetState.ERROR, fault=Fault(code=code, text=text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong on a node."""

    node: NodeId
    node_name: str
    fault: Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """Try once more. `avoid` are nodes to leave out; `grow` is how much more memory to ask for."""

    avoid: frozenset[NodeId] = frozenset()
    # Those of `avoid` that may be tried after all if nobody else is left.
    may_again: frozenset[NodeId] = frozenset()
    grow: float = 1.0


def next_try(failures: Sequence[Failure]) -> Again | None:
    """Where to go on after these failures, oldest first; None: it has failed."""
    if any(failure.fault.code in _HOPELESS for failure in failures):
        return None
    short = [failure for failure in failures if failure.fault.code == OUT_OF_MEMORY]
    if len(short) > 1 or len(failures) > OTHERS_MAX:
        return None
    # One that ran out of memory is not avoided: with more room it may do.
    avoid = {failure.node for failure in failures if failure not in short}
    may_again = {failure.node for failure in failures if failure.fault.code in _PASSING}
    return Again(avoid=frozenset(avoid), may_again=frozenset(may_again), grow=MORE_MEMORY if short else 1.0)


def all_causes(failures: Iterable[Failure], refusals: Iterable[str] = ()) -> Fault | None:
    """One fault for everybody who waits; every cause once."""
    known = list(failures)
    told = [f"{failure.node_name}: {failure.fault.text}" for failure in known] + list(refusals)
    texts = dict.fromkeys(text.removesuffix(".") for text in told)
    if not texts:
        return None
    last = known[-1].fault.code if known else "no_room"
    text = f"{'; '.join(texts)}."
    if last == OUT_OF_MEMORY:
        text += " Give it a node with more memory, a smaller context, or set `vram` or `ram` of the model."
    return Fault(code=last, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A node that has files of a model, or is being sent them. `pullers`: how many take from it now."""

    node: NodeId
    is_whole: bool
    pullers: int = 0


def sources_of(wanted: Sequence[NodeId], holders: Collection[Holder]) -> Mapping[NodeId, tuple[NodeId, ...]]:
    """From which nodes each of these takes its files, best first; empty: from the library.

    Each new one is given the holder with the fewest pullers and becomes one itself: ten of them form a chain. Whole
    copies that are as idle come first; two more whole ones follow in case the first one goes.
    """
    pullers = {holder.node: holder.pullers for holder in holders}
    whole = {holder.node for holder in holders if holder.is_whole}
    chosen: dict[NodeId, tuple[NodeId, ...]] = {}
    for node in wanted:
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


def eta_s(current_bytes: int | None, total_bytes: int | None, elapsed_s: float) -> float | None:
    """How long the rest will take at the speed so far; None as long as nobody can say."""
    if not current_bytes or not total_bytes or elapsed_s < 1.0:
        return None
    return max(0.0, (total_bytes - current_bytes) * elapsed_s / current_bytes)


def retry_after_s(eta: float | None, otherwise_s: float) -> float:
    least, most = RETRY_AFTER_S
    return min(max(eta if eta is not None else otherwise_s, least), most)


def stop_pause_s(attempts: int) -> float:
    """How long to wait after the n-th time that a process could not be ended: 1 s, doubling to 4 minutes."""
    return min(float(2 ** min(max(attempts, 1) - 1, 8)), 240.0)
