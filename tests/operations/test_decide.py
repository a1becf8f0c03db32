"""What the dispatcher decides, as pure functions: properties over made-up operations, and the rules one by one."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.domain.backend import Assignment, DesiredState
from corral.domain.node import Liveness, Node, NodeId, NodeType
from corral.domain.operation import (
    OPEN,
    TRANSITIONS,
    Fault,
    JobId,
    JobPhase,
    JobState,
    Operation,
    OperationId,
    OperationKind,
    OperationState,
    Progress,
    RolloutStrategy,
    Target,
    TargetState,
)
from corral.policy import faults
from corral.policy.dispatch import LOOK_INTERVAL, SILENCE, OperationView, conclude, decide
from corral.policy.progress import (
    AssignmentOutcome,
    CommandRefused,
    JobReport,
    NoAnswer,
    NoResponders,
    TargetChange,
    TargetEnd,
    TargetSnapshot,
    UnknownJob,
    aggregate_progress,
    apply_observation,
)
from corral.policy.status import is_reachable, is_schedulable

NOW = datetime(2026, 5, 1, tzinfo=UTC)
AGO = NOW - timedelta(hours=1)
ID = OperationId("operation")


def target(name: str = "a", state: str = "queued", **more: Any) -> Target:
    values = {"node_name": name, "job_id": JobId(f"job-{name}")} | more
    return Target(operation_id=ID, node=NodeId(name), state=TargetState(state), **values)


def node(name: str = "a", **more: Any) -> Node:
    values: dict[str, Any] = {"approved_at": AGO, "bus_ok": True} | more
    return Node(
        id=NodeId(name),
        name=name,
        type=NodeType.BACKEND,
        credential_hash="",
        boot_id="",
        liveness_since=AGO,
        created_at=AGO,
        updated_at=AGO,
        **values,
    )


def assignment(name: str, **more: Any) -> Assignment:
    return Assignment(
        node_id=NodeId(name),
        backend="engine",
        desired=more.pop("desired", DesiredState.PRESENT),
        generation=1,
        operation_id=ID,
        created_at=AGO,
        **more,
    )


def view(
    targets: Sequence[Target],
    nodes: Sequence[Node] | None = None,
    *,
    state: str = "running",
    assignments: Mapping[str, Assignment] | None = None,
    strategy: RolloutStrategy | None = None,
    **more: Any,
) -> OperationView:
    asks_all = more.pop("asks_all", False)
    operation = Operation(
        id=ID,
        kind=OperationKind.BACKEND_INSTALL,
        subject="engine",
        scope_key="",
        request={},
        state=OperationState(state),
        created_by="ann",
        created_at=AGO,
        updated_at=AGO,
        targets=tuple(targets),
        **more,
    )
    found = [node(item.node) for item in targets] if nodes is None else nodes
    assigned = {item.node: assignment(item.node) for item in targets if not item.state.is_final}
    return OperationView(
        operation=operation,
        strategy=strategy or RolloutStrategy(),
        assignments=assigned | {NodeId(key): value for key, value in (assignments or {}).items()},
        nodes={item.id: item for item in found},
        now=NOW,
        queries_all=asks_all,
    )


def standing(at: Target | None = None, **more: Any) -> TargetSnapshot:
    values: dict[str, Any] = {"desired": DesiredState.PRESENT, "attempts": 0, "next_job": JobId("next")} | more
    return TargetSnapshot(target=at or target(), **values)


def make_report(seq: int, state: str = "running", percent: float = 0.0, **more: Any) -> JobReport:
    fault = Fault(code=more.pop("code", ""), text="it broke")
    return JobReport(
        seq=seq,
        state=JobState(state),
        progress=Progress(percent=percent, **more),
        fault=fault if fault.code else None,
    )


def after(at: TargetSnapshot, *news: Any) -> TargetSnapshot:
    """Where a target is after all of these."""
    for item in news:
        change = apply_observation(at, item)
        if change is not None:
            at = replace(at, target=change.target, attempts=change.attempts)
    return at


def must(change: TargetChange | None) -> TargetChange:
    assert change is not None
    return change


# --- what news change ---

events = st.lists(
    st.builds(
        make_report,
        st.integers(0, 30),
        st.sampled_from(["queued", "running"]),
        st.floats(0, 100),
        current_bytes=st.none() | st.integers(0, 10**12),
    ),
    max_size=20,
)
anything = st.one_of(
    st.builds(make_report, st.integers(0, 30), st.sampled_from(["running", "done", "paused"]), st.floats(-5, 200)),
    st.builds(
        make_report,
        st.integers(0, 30),
        st.just("failed"),
        st.floats(0, 100),
        code=st.sampled_from(["internal", "disk_full", "source_unavailable"]),
    ),
    st.just(NoAnswer()),
    st.just(NoResponders()),
    st.just(UnknownJob()),
    st.just(CommandRefused(fault=Fault(code="stale_generation", text="older"))),
    st.just(TargetEnd(state=TargetState.SKIPPED)),
)


@pytest.mark.behaviour("OPS-17")
@given(st.lists(anything, max_size=30))
def test_bar_is_0_to_100_and_never_goes_back_within_an_attempt(news: list[Any]) -> None:
    at = standing()
    for item in news:
        change = apply_observation(at, item)
        if change is None:
            continue
        now = change.target
        assert 0 <= now.progress.percent <= 100
        if now.attempt == at.target.attempt:
            assert now.progress.percent >= at.target.progress.percent
        at = replace(at, target=now, attempts=change.attempts)


@pytest.mark.behaviour("OPS-38")
@given(st.lists(anything, max_size=30), anything)
def test_final_target_never_changes(news: list[Any], late: Any) -> None:
    at = after(standing(), *news)
    if at.target.state.is_final:
        assert apply_observation(at, late) is None


@pytest.mark.behaviour("OPS-38")
@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.sampled_from(list(JobPhase)), st.integers(0, 10**9)), min_size=1, max_size=8
    ),
    st.sampled_from(["running", "done", "failed"]),
    st.randoms(use_true_random=False),
)
def test_reordered_and_duplicate_events_lead_to_the_same_state(
    moves: list[tuple[float, JobPhase, int]], last: str, chance: random.Random
) -> None:
    """As a worker tells them: its percentages grow, phases and bytes are those of the moment."""
    percents = sorted(percent for percent, _, _ in moves)
    reports = [
        make_report(number + 1, percent=percent, phase=phase, current_bytes=size)
        for number, (percent, (_, phase, size)) in enumerate(zip(percents, moves, strict=True))
    ]
    code = "disk_full" if last == "failed" else ""
    reports.append(make_report(len(reports) + 1, last, 100.0, code=code, phase=JobPhase.COMMITTING, current_bytes=1))
    mixed = [*reports, *chance.sample(reports, len(reports) // 2)]
    chance.shuffle(mixed)
    expected = after(standing(), *reports)
    assert after(standing(), reports[-1]).target.state is expected.target.state
    found = after(standing(), *mixed)
    if last == "running":
        assert found == expected
    else:
        assert (found.target.state, found.target.fault) == (expected.target.state, expected.target.fault)


@pytest.mark.behaviour("OPS-21")
@pytest.mark.behaviour("NODE-122")
def test_silence_is_no_attempt_and_an_empty_bus_is_one() -> None:
    silent = must(apply_observation(standing(attempts=3), NoAnswer()))
    assert (silent.target.state, silent.attempts, silent.assignment_outcome) == (
        "unconfirmed",
        3,
        AssignmentOutcome.STAYS,
    )
    unanswered = must(apply_observation(standing(attempts=3), NoResponders()))
    assert (unanswered.target.state, unanswered.attempts, unanswered.assignment_outcome) == (
        "queued",
        4,
        AssignmentOutcome.LATER,
    )
    assert unanswered.target.job_id == "job-a", "nobody has got it, so it is still the same job"
    working = must(apply_observation(standing(target(state="working"), attempts=3), NoResponders()))
    assert (working.target.state, working.attempts) == ("unconfirmed", 3), "one that works has not failed"


def test_report_received_after_a_query_outranks_the_missing_answer() -> None:
    spoke = target(state="working", heard_at=NOW + timedelta(seconds=1))
    assert apply_observation(standing(spoke, as_of=NOW), NoAnswer()) is None


@pytest.mark.behaviour("NODE-121")
def test_pauses_double_from_30_s_to_15_minutes() -> None:
    assert [faults.compute_pause_s(failures) for failures in range(1, 10)] == [
        30,
        60,
        120,
        240,
        480,
        900,
        900,
        900,
        900,
    ]


@pytest.mark.behaviour("OPS-49")
@pytest.mark.behaviour("NODE-121")
def test_real_failure_is_tried_ten_times_and_then_put_aside() -> None:
    at, pauses = standing(), []
    for _ in range(9):
        change = must(apply_observation(at, make_report(1, "failed", code="source_unavailable")))
        assert (change.target.state, change.assignment_outcome) == ("queued", AssignmentOutcome.LATER)
        assert (change.target.job_id, change.target.seq) == ("next", 0), "a job that has ended does not go on"
        pauses.append(change.pause_s)
        at = replace(at, target=change.target, attempts=change.attempts)
    assert pauses == [faults.compute_pause_s(number) for number in range(1, 10)]
    last = must(apply_observation(at, make_report(1, "failed", code="source_unavailable")))
    assert (last.target.state, last.assignment_outcome, last.attempts) == ("error", AssignmentOutcome.DEAD, 10)
    assert last.target.fault == Fault(code="dead_letter", text="it broke")
    assert "10 attempts" in last.note


@pytest.mark.parametrize("code", sorted(faults.PERMANENT))
def test_failure_that_another_try_cannot_mend_ends_the_target(code: str) -> None:
    change = must(apply_observation(standing(), make_report(1, "failed", code=code)))
    assert (change.target.state, change.assignment_outcome) == ("error", AssignmentOutcome.GONE)
    assert change.target.fault == Fault(code=code, text="it broke")


@pytest.mark.behaviour("OPS-53")
def test_failed_removal_stays_pending() -> None:
    removal = standing(desired=DesiredState.ABSENT)
    assert (
        must(apply_observation(removal, make_report(1, "failed", code="stop_failed"))).assignment_outcome
        is AssignmentOutcome.DEAD
    )
    assert (
        must(apply_observation(removal, make_report(1, "failed", code="internal"))).assignment_outcome
        is AssignmentOutcome.LATER
    )


def test_unknown_fault_code_is_retried() -> None:
    assert (
        must(apply_observation(standing(), make_report(1, "failed", code="from_the_future"))).assignment_outcome
        is AssignmentOutcome.LATER
    )


def test_job_unknown_to_the_worker_is_sent_again_under_the_same_id() -> None:
    change = must(apply_observation(standing(target(state="working", seq=7)), UnknownJob()))
    assert (change.target.state, change.target.job_id, change.target.seq) == ("queued", "job-a", 0)
    assert change.attempts == 0


# --- the whole ---

parts = st.lists(
    st.builds(
        lambda name, state, percent, total: target(
            f"n{name}", state, progress=Progress(percent=percent, total_bytes=total)
        ),
        st.integers(0, 10**6),
        st.sampled_from(list(TargetState)),
        st.floats(0, 100),
        st.none() | st.integers(0, 10**12),
    ),
    max_size=12,
    unique_by=lambda item: item.node,
)


@pytest.mark.behaviour("OPS-17")
@given(parts, st.floats(0, 100))
def test_bar_of_an_operation_never_goes_back(targets: list[Target], shown: float) -> None:
    assert shown <= aggregate_progress(targets, Progress(percent=shown)).percent <= 100


def test_whole_is_weighted_by_bytes_when_all_are_known() -> None:
    small = target("a", progress=Progress(percent=100, total_bytes=10, current_bytes=10))
    large = target("b", progress=Progress(percent=0, total_bytes=990, current_bytes=0))
    whole = aggregate_progress([small, large], Progress())
    assert (whole.percent, whole.current_bytes, whole.total_bytes) == (1.0, 10, 1000)
    unknown = replace(large, progress=Progress(percent=0))
    assert aggregate_progress([small, unknown], Progress()).percent == 50.0


# --- what to do next ---

liveness = st.sampled_from(list(Liveness))


@st.composite
def views(draw: st.DrawFn) -> OperationView:
    size = draw(st.integers(1, 7))
    targets: list[Target] = []
    nodes: list[Node] = []
    assignments: dict[str, Assignment] = {}
    for number in range(size):
        name = f"n{number}"
        targets.append(
            target(
                name,
                draw(st.sampled_from(list(TargetState))),
                wave=draw(st.integers(0, 2)),
                stop_wanted=draw(st.booleans()),
                contacted_at=draw(st.none() | st.just(AGO) | st.just(NOW)),
                previous=draw(st.none() | st.just({"name": "engine"})),
                is_rollback=draw(st.booleans()),
            )
        )
        retry_at = draw(st.none() | st.just(AGO) | st.just(NOW) | st.just(NOW + timedelta(minutes=1)))
        assignments[name] = assignment(name, next_retry_at=retry_at)
        if draw(st.integers(0, 9)):
            nodes.append(
                node(
                    name,
                    liveness=draw(liveness),
                    bus_ok=draw(st.sampled_from([True, False, None])),
                    approved_at=draw(st.sampled_from([AGO, AGO, None])),
                    drained_at=draw(st.sampled_from([None, None, AGO])),
                )
            )
    strategy = RolloutStrategy(stops_on_failure=draw(st.booleans()), rolls_back=draw(st.booleans()))
    return view(
        targets,
        nodes,
        state=draw(st.sampled_from(list(OperationState))),
        assignments=assignments,
        strategy=strategy,
        deadline_at=draw(st.none() | st.just(AGO) | st.just(NOW) | st.just(NOW + timedelta(days=1))),
        asks_all=draw(st.booleans()),
    )


@given(views())
def test_unreachable_node_is_sent_nothing(seen: OperationView) -> None:
    decision = decide(seen)
    assert all(is_schedulable(seen.nodes.get(item.node)) for item in decision.send)
    assert all(is_reachable(seen.nodes.get(item.node)) for item in (*decision.query, *decision.stop))


@given(views())
def test_decision_drives_only_open_targets(seen: OperationView) -> None:
    decision = decide(seen)
    if seen.operation.state not in OPEN:
        assert (decision.send, decision.query, decision.end, decision.roll_back) == ((), (), (), ())
    assert all(item.state is TargetState.QUEUED for item in decision.send)
    assert not any(item.state.is_final for item, _ in decision.end)


@given(views())
def test_wave_begins_only_after_all_before_it(seen: OperationView) -> None:
    for item in decide(seen).send:
        if not item.is_rollback:
            before = [other for other in seen.targets if other.wave < item.wave]
            assert all(other.state.is_final for other in before)


@given(views())
def test_operation_ends_exactly_when_all_its_targets_have(seen: OperationView) -> None:
    verdict, old = conclude(seen), seen.operation.state
    assert verdict.state is old or verdict.state in TRANSITIONS[old] or old is OperationState.QUEUED
    if old in OPEN:
        is_over = all(item.state.is_final for item in seen.targets) and not decide(seen).roll_back
        assert (verdict.state not in OPEN) == is_over
        assert verdict.message


@settings(max_examples=1000)
@given(views())
def test_open_operation_has_a_next_look_or_a_worker_that_reports(seen: OperationView) -> None:
    """Nothing spins for ever and nothing is forgotten: whoever is silent is looked at again, or is not there."""
    verdict = conclude(seen)
    decision = decide(seen)
    if verdict.is_moving and not decision.end:
        assert verdict.next_at is not None
        assert verdict.next_at >= seen.now
    if decision.is_empty:
        assert verdict.next_at is None or verdict.next_at > seen.now


def test_deadline_leaves_work_on_a_node_off_the_bus_alone_and_looks_for_its_loss_now_and_then() -> None:
    seen = view([target("a", "working")], [node("a", bus_ok=False)], state="waiting_on_nodes", deadline_at=AGO)
    assert decide(seen).is_empty
    assert conclude(seen).next_at == NOW + LOOK_INTERVAL


@pytest.mark.parametrize("gone", [Liveness.LOST, Liveness.LEFT])
def test_deadline_ends_work_on_a_node_that_is_gone(gone: Liveness) -> None:
    seen = view([target("a", "working")], [node("a", liveness=gone)], state="waiting_on_nodes", deadline_at=AGO)
    [(ended, why)] = decide(seen).end
    assert (ended.node, why.fault and why.fault.code) == ("a", "deadline_passed")


@pytest.mark.behaviour("OPS-46")
def test_absent_nodes_owe_it_and_the_rest_counts_as_done() -> None:
    away = node("b", liveness=Liveness.LOST)
    seen = view([target("a", "success"), target("b")], [node("a"), away])
    assert decide(seen).is_empty
    verdict = conclude(seen)
    assert verdict.state is OperationState.COMPLETED_WITH_PENDING
    assert verdict.message == "Completed on 1; pending for 1: b (offline)"
    assert not verdict.is_moving


@pytest.mark.behaviour("OPS-20")
def test_operation_waits_when_only_silent_nodes_are_left() -> None:
    verdict = conclude(view([target("a", "success"), target("b", "unconfirmed", contacted_at=NOW)]))
    assert verdict.state is OperationState.WAITING_ON_NODES
    assert verdict.message == "Completed on 1; pending for 1: b (does not respond)"
    assert verdict.next_at == NOW + SILENCE


def test_errors_win_and_are_joined_by_name() -> None:
    failed = [
        target(name, "error", fault=Fault(code="disk_full", text=f"no room on {name}")) for name in ("gpu-a", "gpu-b")
    ]
    verdict = conclude(view([*failed, target("c", "success"), target("d", "superseded")]))
    assert verdict.state is OperationState.FAILED
    assert verdict.fault == Fault(code="disk_full", text="gpu-a: no room on gpu-a; gpu-b: no room on gpu-b")
    assert verdict.message == "Failed on gpu-a, gpu-b; done on 1 node"


def test_deadline_ends_what_has_not_begun_and_lets_work_finish() -> None:
    seen = view([target("a", "working"), target("b"), target("c", "unconfirmed")], deadline_at=AGO)
    ended = {item.node: why.fault for item, why in decide(seen).end}
    assert ended.keys() == {"b", "c"}
    assert all(fault is not None and fault.code == "deadline_passed" for fault in ended.values())


def test_node_that_is_gone_ends_its_target_and_a_drained_one_what_it_has_not_begun() -> None:
    drained = [node("b", drained_at=AGO), node("c", drained_at=AGO)]
    seen = view([target("a", "working"), target("b"), target("c", "working")], drained)
    assert {item.node: why.fault.code for item, why in decide(seen).end if why.fault} == {
        "a": "node_removed",
        "b": "node_drained",
    }


@pytest.mark.behaviour("OPS-162")
def test_drained_node_is_skipped_and_the_operation_completes_on_the_others() -> None:
    skipped = target("b", "skipped", fault=Fault(code="node_drained", text="The node was drained."))
    verdict = conclude(view([target("a", "success"), skipped]))
    assert (verdict.state, verdict.fault) == (OperationState.COMPLETED, None)
    assert verdict.message == "Completed on 1 node; skipped: b drained before it began"


@pytest.mark.behaviour("OPS-162")
def test_operation_whose_only_node_is_drained_is_cancelled() -> None:
    verdict = conclude(view([target("b", "skipped")]))
    assert (verdict.state, verdict.fault) == (OperationState.CANCELLED, None)
    assert verdict.message == "Not done: b drained before it began"


def test_takeover_queries_every_worker_that_may_be_running() -> None:
    targets = [target("a", "working", heard_at=NOW), target("b", "unconfirmed", contacted_at=NOW), target("c")]
    assert decide(view(targets)).query == ()
    assert [item.node for item in decide(view(targets, asks_all=True)).query] == ["a", "b"]


def test_pause_after_a_failure_is_kept() -> None:
    later = assignment("a", next_retry_at=NOW + timedelta(seconds=30))
    seen = view([target("a")], assignments={"a": later})
    assert decide(seen).send == ()
    verdict = conclude(seen)
    assert (verdict.state, verdict.is_moving) == (OperationState.RUNNING, True)
    assert verdict.next_at == later.next_retry_at


def test_operation_at_its_end_only_has_workers_to_stop() -> None:
    seen = view([target("a", "cancelled", stop_wanted=True), target("b", "queued")], state="cancelled")
    decision = decide(seen)
    assert [item.node for item in decision.stop] == ["a"]
    assert (decision.send, decision.query, decision.end) == ((), (), ())
