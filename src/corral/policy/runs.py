"""Decides about runs: which node takes one, what follows when a worker is lost, and when a run is over.

Guarantees: a node never gets more runs than it takes at a time. A run whose worker was lost is begun once more behind
the tool calls that it has made, unless a call was open that may have had effects; then it is lost. Silence alone is no
loss: a worker is queried first, and has time to come back to the bus.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from corral.domain.node import Node, NodeId
from corral.domain.operation import Fault, Target, TargetState
from corral.domain.run import (
    APPROVAL_LIMIT_S,
    BATCHES_PER_NODE,
    LOSSES,
    PROGRAMS_PER_NODE,
    WORKER_LOST,
    MadeCalls,
    OpenToolCall,
    Run,
    RunKind,
    RunNeeds,
    RunPlaceKind,
    RunState,
)
from corral.policy.earlier_calls import BYTES_MAX
from corral.policy.labels import matches_labels
from corral.policy.progress import (
    AssignmentOutcome,
    CommandRefused,
    JobReport,
    NoResponders,
    Observation,
    TargetChange,
    TargetEnd,
    TargetSnapshot,
    UnknownJob,
)
from corral.policy.progress import apply_observation as apply_to_target
from corral.policy.status import is_schedulable

# A worker sends a sign of life every 5 s; after this long it is queried over the bus.
SILENCE = timedelta(seconds=12)
# How often a silent worker is queried.
QUERY_INTERVAL = timedelta(seconds=3)
# How long a silent worker may stay away before its run is given up: bus and database reconnect within this time.
GIVE_UP_AFTER = timedelta(seconds=20)
# A run is begun at most so often.
ATTEMPTS_MAX = 2
# A batch goes on behind its last delivery, and lasts so long that workers are restarted meanwhile.
BATCH_ATTEMPTS_MAX = 20
# A training goes on from its last checkpoint, and lasts as long.
_ATTEMPTS_MAX = {RunKind.BATCH: BATCH_ATTEMPTS_MAX, RunKind.FINE_TUNE: BATCH_ATTEMPTS_MAX}
# What the first workers with runs execute; they do not say which kinds they know. Other kinds would fail there.
UNANNOUNCED_KINDS = frozenset({RunKind.AGENT_TURN, RunKind.TASK, RunKind.CHAT})
# How much longer than its own budget a run may take before the frontends end it: the worker does so first.
WALL_GRACE = timedelta(seconds=60)
# How soon a run that waits for a place looks again, if nothing wakes it.
LOOK_INTERVAL = timedelta(seconds=10)
# Of a long queue only the front looks so often: the looks of a thousand runs would keep the ends of others waiting.
QUEUE_FRONT = 8
LOOK_INTERVAL_MAX = timedelta(minutes=5)

RUN_LOST = "run_lost"
RUN_TIMEOUT = "run_timeout"


# In these states no worker has begun the present attempt.
_NOT_BEGUN = frozenset({RunState.QUEUED, RunState.LEASED})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNode:
    """Describes a node that executes runs: how many it takes at a time, and how many it has now."""

    node: Node
    max_runs: int
    active: int = 0

    @property
    def free(self) -> int:
        return self.max_runs - self.active


def can_execute(node: Node, kind: RunKind) -> bool:
    """Return whether the worker of a node takes runs, and knows this kind."""
    if kind.is_program:
        return kind in (node.run_kinds or ())
    return bool(node.max_runs) and kind in (UNANNOUNCED_KINDS if node.run_kinds is None else node.run_kinds)


def count_places(node: Node, kind: RunKind) -> int:
    """Return how many runs of this kind a node takes at a time."""
    if kind.place_kind is RunPlaceKind.BATCHES:
        return BATCHES_PER_NODE
    return PROGRAMS_PER_NODE if kind.is_program else node.max_runs or 0


def make_places(nodes: Iterable[Node], kind: RunKind, active: Mapping[NodeId, int]) -> list[RunNode]:
    """Return the nodes that take runs of a kind. `active`: how many of their places are used, by node."""
    return [
        RunNode(node=node, max_runs=count_places(node, kind), active=active.get(node.id, 0))
        for node in nodes
        if can_execute(node, kind)
    ]


def make_waiting_message(ahead: int) -> str:
    """Return what a run says that finds all places in use."""
    return f"Waiting for a free place; {ahead} before it." if ahead else "Waiting for a free place."


def has_room(node: Node, needs: RunNeeds) -> bool:
    """Return whether a node has the disk and memory for a program, besides what is promised to models."""
    hardware = node.hardware
    disk, ram = hardware.available_disk, hardware.available_ram
    has_disk = disk is None or needs.disk_bytes is None or disk - node.reserved_disk >= needs.disk_bytes
    vram = hardware.available_vram if hardware.total_vram else None
    has_vram = vram is None or needs.vram_bytes is None or vram - node.reserved_vram >= needs.vram_bytes
    ram_bytes = compute_ram_need(node, needs)
    has_ram = ram is None or ram_bytes is None or ram - node.reserved_ram >= ram_bytes
    return has_disk and has_vram and has_ram


def compute_ram_need(node: Node, needs: RunNeeds) -> int | None:
    """Return how much RAM a program takes of a node: also what is for a GPU, if the node has none of its own."""
    if needs.vram_bytes is None or (node.hardware.total_vram and not node.hardware.unified_memory):
        return needs.ram_bytes
    return (needs.ram_bytes or 0) + needs.vram_bytes


def list_eligible(places: Collection[RunNode], selector: Mapping[str, str]) -> list[RunNode]:
    """Return the places that may take a run with this selector, busy ones included."""
    return [
        place
        for place in places
        if place.max_runs > 0 and is_schedulable(place.node) and matches_labels(selector, place.node.label_map)
    ]


def choose_place(
    places: Collection[RunNode],
    selector: Mapping[str, str],
    *,
    preferred: NodeId | None = None,
    avoid: Collection[NodeId] = (),
    ahead: int = 0,
) -> RunNode | None:
    """Return the place for a run: the preferred node if it has one free, else the node with the most free places.

    Nodes to avoid are taken only if no other has a free place. `ahead` is how many runs have waited longer: as many
    places are left to them.
    """
    free = [place for place in list_eligible(places, selector) if place.free > 0]
    if sum(place.free for place in free) <= ahead:
        return None
    candidates = [place for place in free if place.node.id not in avoid] or free
    sticky = next((place for place in candidates if place.node.id == preferred), None)
    return sticky or min(candidates, key=lambda place: (-place.free, place.node.name), default=None)


def can_wait_for_child(eligible: Collection[RunNode], waiting: Mapping[NodeId, int]) -> bool:
    """Return whether one of the places that may take a run is left to runs that wait for no other. `waiting` counts
    those that do, by node. True without any place: it may come."""
    places = sum(place.max_runs for place in eligible)
    return places == 0 or sum(waiting.get(place.node.id, 0) for place in eligible) < places


def rank_session_nodes(places: Collection[RunNode], session_key: str, *, preferred: NodeId | None = None) -> list[Node]:
    """Return the nodes that may hold a session outside of runs, the best one first: where its runs were, then in an
    order that every frontend computes alike and that changes little when a node comes or goes."""
    nodes = [place.node for place in list_eligible(places, {})]

    def weigh(node: Node) -> tuple[bool, str]:
        return node.id != preferred, hashlib.sha256(f"{session_key} {node.id}".encode()).hexdigest()

    return sorted(nodes, key=weigh)


def can_retry(run: Run, made: MadeCalls) -> bool:
    """Return whether the run may be begun once more after its worker was lost. `made` are its calls so far, which the
    next attempt is given with their results."""
    return (
        run.attempt < _ATTEMPTS_MAX.get(run.kind, ATTEMPTS_MAX)
        and _find_risky_call(run) is None
        and not _is_too_much(made)
    )


def _is_too_much(made: MadeCalls) -> bool:
    """Return whether calls with effects could be made again, because the next attempt is not given them."""
    return made.may_have_effects and made.size_bytes > BYTES_MAX


def _find_risky_call(run: Run) -> OpenToolCall | None:
    """Return an open tool call that may have had effects and must not be made a second time."""
    return next((call for call in run.open_calls if not call.is_repeatable), None)


def is_loss(code: str) -> bool:
    """Return whether an attempt that ended with this error code ended because its worker or runner process was lost."""
    return code in LOSSES


def make_lost_fault(run: Run, made: MadeCalls) -> Fault:
    """Return why a run is lost for good."""
    node = f" on {run.node_name}" if run.node_name else ""
    risky = _find_risky_call(run)
    if risky is not None:
        text = f"The worker{node} was lost during a call of {risky.tool}, which may have had effects."
    elif _is_too_much(made):
        text = (
            f"The worker{node} was lost after calls of tools that may have had effects, too many to go on behind them."
        )
    else:
        text = f"The worker{node} was lost, {run.attempt} times in all."
    return Fault(code=RUN_LOST, text=text)


def compute_query_time(target: Target, now: datetime) -> datetime:
    """Return when the worker of a target is to be queried next."""
    if target.state is TargetState.UNCONFIRMED:
        return now if target.contacted_at is None else target.contacted_at + QUERY_INTERVAL
    last = max((at for at in (target.heard_at, target.contacted_at) if at is not None), default=None)
    return now if last is None else last + SILENCE


def compute_look_interval(ahead: int) -> timedelta:
    """Return how soon a run looks for a place again that so many others wait before."""
    return min(LOOK_INTERVAL * (1 + ahead // QUEUE_FRONT), LOOK_INTERVAL_MAX)


def is_given_up(run: Run, silent_since: datetime | None, now: datetime) -> bool:
    """Return whether the worker of a run has been silent for too long."""
    return silent_since is not None and not run.state.is_final and silent_since + GIVE_UP_AFTER <= now


def is_past_wall(run: Run, now: datetime) -> bool:
    """Return whether the present attempt of a run has gone on for longer than the run's budget and some grace. One that
    waits for a person, or has done so, has a day more: which part of its time that was is known to the worker alone."""
    began_at = run.attempt_started_at or run.started_at
    if began_at is None or run.state in _NOT_BEGUN:
        return False
    waits_s = APPROVAL_LIMIT_S if run.approvals or run.state is RunState.WAITING_APPROVAL else 0.0
    return began_at + timedelta(seconds=run.budgets.wall_s + waits_s) + WALL_GRACE <= now


def apply_run_observation(snapshot: TargetSnapshot, observation: Observation) -> TargetChange | None:
    """Apply what was observed about the job of a run to its target.

    The end of a run is read from its trace, so a worker that calls its job ended, does not know it or has refused it
    no longer works on it: the target ends, and the run is begun elsewhere or lost.
    """
    target = snapshot.target
    if target.state.is_final:
        return None
    loss = _find_loss(target, observation)
    if loss:
        return apply_end(snapshot, TargetEnd(state=TargetState.ERROR, fault=Fault(code=WORKER_LOST, text=loss)))
    if isinstance(observation, UnknownJob) or (isinstance(observation, JobReport) and observation.state.is_final):
        # The command is still on its way.
        return None
    return apply_to_target(snapshot, observation)


def _find_loss(target: Target, observation: Observation) -> str:
    """Return why the worker no longer works on a run, or never will; empty if it does or may do so."""
    is_sent = target.state is not TargetState.QUEUED
    match observation:
        case CommandRefused(fault=fault):
            return fault.text
        case NoResponders() if not is_sent:
            return "The node is not on the bus."
        case UnknownJob() if is_sent:
            return "The worker does not know the run."
        case JobReport(state=state) if is_sent and state.is_final:
            return "The worker no longer has the run."
        case _:
            return ""


def apply_end(snapshot: TargetSnapshot, end: TargetEnd) -> TargetChange | None:
    """End a target without a report of its worker; None if it has ended already. Runs have no assignments."""
    change = apply_to_target(snapshot, end)
    return None if change is None else replace(change, assignment_outcome=AssignmentOutcome.STAYS)
