"""Decisions about loads: how long they may take, whom to try next, where files come from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.node import NodeId
from corral.domain.operation import Fault, JobId, JobPhase, JobState, OperationId, Progress, Target, TargetState
from corral.policy import faults
from corral.policy.loads import (
    NODE_LOST,
    OUT_OF_MEMORY,
    FileHolder,
    LoadTimeouts,
    NodeFailure,
    apply_load_observation,
    combine_causes,
    compute_deadline,
    compute_query_time,
    compute_retry_after_s,
    estimate_eta_s,
    extend_deadline,
    extend_deadline_for_engine,
    has_moved,
    pick_sources,
    plan_retry,
)
from corral.policy.progress import CommandRefused, JobReport, NoAnswer, NoResponders, TargetSnapshot, UnknownJob

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def failure(code: str, node: NodeId = A) -> NodeFailure:
    return NodeFailure(node=node, node_name=f"node {node}", fault=Fault(code=code, text=f"{code} happened"))


def target(state: TargetState = TargetState.WORKING, **more: object) -> Target:
    values: dict[str, object] = {"seq": 5} | more
    return Target(
        operation_id=OperationId("o"),
        node=A,
        node_name="a",
        job_id=JobId("j"),
        state=state,
        **values,  # type: ignore[arg-type]
    )


def standing(state: TargetState = TargetState.WORKING) -> TargetSnapshot:
    return TargetSnapshot(target=target(state), desired=None, attempts=0, next_job=JobId("next"))


def make_report(state: JobState, seq: int = 6, fault: Fault | None = None) -> JobReport:
    return JobReport(seq=seq, state=state, progress=Progress(percent=10.0, phase=JobPhase.STAGING), fault=fault)


def test_hold_begins_at_its_base_and_is_pushed_by_what_moves() -> None:
    hold = LoadTimeouts(base_s=1500, stall_s=600, cap_s=86400)
    until = compute_deadline(NOW, hold)
    assert until == NOW + seconds(1500)
    assert extend_deadline(until, NOW, NOW + seconds(10), hold) == until, "never earlier than it was"
    assert extend_deadline(until, NOW, NOW + seconds(1400), hold) == NOW + seconds(2000)
    assert extend_deadline(until, NOW, NOW + seconds(86390), hold) == NOW + seconds(86400), "never past the cap"


@given(base=st.floats(1, 1e5), stall=st.floats(1, 1e6), cap=st.floats(1, 1e6), at=st.floats(0, 1e6))
def test_whatever_is_set_the_hold_never_goes_back_and_never_passes_the_cap(
    base: float, stall: float, cap: float, at: float
) -> None:
    hold = LoadTimeouts(base_s=base, stall_s=stall, cap_s=cap)
    until = compute_deadline(NOW, hold)
    later = extend_deadline(until, NOW, NOW + seconds(at), hold)
    assert until <= later <= NOW + seconds(hold.cap)
    assert hold.stall <= hold.base_s <= hold.cap


def test_engine_has_its_budget_and_some_slack() -> None:
    assert extend_deadline_for_engine(NOW, NOW, 100.0) == NOW + seconds(400)
    assert extend_deadline_for_engine(NOW + seconds(9999), NOW, 100.0) == NOW + seconds(9999)


def test_bytes_percent_and_phases_are_progress() -> None:
    before = Progress(percent=5.0, phase=JobPhase.VERIFYING, current_bytes=1)
    assert not has_moved(before, before)
    for after in (
        Progress(percent=6.0, phase=JobPhase.VERIFYING, current_bytes=1),
        Progress(percent=5.0, phase=JobPhase.STAGING, current_bytes=1),
        Progress(percent=5.0, phase=JobPhase.VERIFYING, current_bytes=2),
    ):
        assert has_moved(before, after)


@pytest.mark.parametrize(
    "news",
    [
        make_report(JobState.FAILED, fault=Fault(code="engine_failed", text="it broke")),
        make_report(JobState.FAILED),
        make_report(JobState.CANCELLED),
        make_report(JobState.PAUSED),
        CommandRefused(fault=Fault(code="invalid_request", text="no")),
    ],
)
def test_failure_report_ends_the_target(news: JobReport | CommandRefused) -> None:
    change = apply_load_observation(standing(), news)
    assert change is not None
    assert (change.target.state, change.target.attempt, change.is_from_worker) == (TargetState.ERROR, 1, True)
    assert change.target.fault is not None


def test_missing_subscriber_ends_only_a_load_that_was_not_sent() -> None:
    unsent = apply_load_observation(standing(TargetState.QUEUED), NoResponders())
    assert unsent is not None
    assert (unsent.target.state, unsent.target.fault and unsent.target.fault.code) == (
        TargetState.ERROR,
        faults.NODE_UNREACHABLE,
    )
    sent = apply_load_observation(standing(), NoResponders())
    assert sent is not None
    assert sent.target.state is TargetState.UNCONFIRMED


def test_silence_is_no_failure_and_old_news_is_none() -> None:
    silent = apply_load_observation(standing(), NoAnswer())
    assert silent is not None
    assert silent.target.state is TargetState.UNCONFIRMED
    unknown = apply_load_observation(standing(), UnknownJob())
    assert unknown is not None
    assert unknown.target.state is TargetState.QUEUED
    assert apply_load_observation(standing(), make_report(JobState.FAILED, seq=4)) is None
    assert apply_load_observation(standing(TargetState.SUCCESS), make_report(JobState.FAILED)) is None


def test_load_tries_two_other_nodes_and_then_fails() -> None:
    first = plan_retry([failure("engine_failed")])
    assert first is not None
    assert (first.avoid, first.retryable, first.memory_factor) == (frozenset({A}), frozenset[NodeId](), 1.0)
    assert plan_retry([failure("engine_failed"), failure("engine_failed", B)]) is not None
    assert plan_retry([failure("engine_failed", node) for node in (A, B, C)]) is None


def test_transient_fault_is_retried_on_the_node_and_a_permanent_one_nowhere() -> None:
    for code in ("source_unavailable", NODE_LOST, faults.NODE_UNREACHABLE):
        again = plan_retry([failure(code)])
        assert again is not None
        assert again.retryable == {A}
    assert plan_retry([failure("digest_mismatch")]) is None


def test_too_little_memory_is_tried_once_more_with_more_and_the_node_is_not_left_out() -> None:
    again = plan_retry([failure(OUT_OF_MEMORY)])
    assert again is not None
    assert (again.avoid, again.memory_factor) == (frozenset(), 1.5)
    assert plan_retry([failure(OUT_OF_MEMORY), failure(OUT_OF_MEMORY, B)]) is None


def test_load_failure_names_every_cause_once() -> None:
    fault = combine_causes([failure("one"), failure("two", B), failure("one")], ["c has no room."])
    assert fault is not None
    assert fault.text == "node a: one happened; node b: two happened; c has no room."
    assert combine_causes([]) is None


def test_ten_nodes_form_a_chain() -> None:
    nodes = [NodeId(f"n{number}") for number in range(10)]
    found = pick_sources(nodes, [])
    assert found[nodes[0]] == ()
    assert [found[node][0] for node in nodes[1:]] == nodes[:-1]


def test_holder_with_the_fewest_pullers_is_given_whole_ones_first() -> None:
    holders = [
        FileHolder(node=A, is_whole=True, pullers=2),
        FileHolder(node=B, is_whole=False, pullers=1),
        FileHolder(node=C, is_whole=True, pullers=1),
    ]
    assert pick_sources([NodeId("new")], holders)[NodeId("new")] == (C, A)


@given(st.integers(1, 30), st.integers(0, 5))
def test_file_sources_exclude_the_node_itself_and_are_spread_evenly(count: int, holding: int) -> None:
    nodes = [NodeId(f"n{number}") for number in range(count)]
    holders = [FileHolder(node=NodeId(f"h{number}"), is_whole=True) for number in range(holding)]
    found = pick_sources(nodes, holders)
    firsts = [taken[0] for taken in found.values() if taken]
    assert all(node not in taken for node, taken in found.items())
    assert len(firsts) == len(set(firsts))


@pytest.mark.behaviour("NODE-92")
def test_rest_takes_as_long_as_the_speed_so_far_says() -> None:
    assert estimate_eta_s(100, 400, 10.0) == 30.0
    assert estimate_eta_s(0, 400, 10.0) is None
    assert estimate_eta_s(100, None, 10.0) is None
    assert estimate_eta_s(100, 400, 0.5) is None
    assert [compute_retry_after_s(value, 60.0) for value in (1.0, 90.0, 900.0, None)] == [5.0, 90.0, 300.0, 60.0]


def test_worker_that_did_not_answer_is_queried_more_often() -> None:
    assert compute_query_time(target(), NOW) == NOW
    assert compute_query_time(target(heard_at=NOW), NOW) == NOW + seconds(30)
    assert compute_query_time(target(TargetState.UNCONFIRMED, contacted_at=NOW), NOW) == NOW + seconds(5)
