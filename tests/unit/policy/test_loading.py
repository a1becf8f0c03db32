"""Decisions about loads: how long they may take, whom to try next, where files come from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.node import NodeId
from corral.domain.operation import Fault, JobId, JobState, OperationId, Phase, Progress, Target, TargetState
from corral.policy import faults
from corral.policy.loading import (
    NODE_LOST,
    OUT_OF_MEMORY,
    Failure,
    Hold,
    Holder,
    all_causes,
    asked_at,
    eta_s,
    has_moved,
    hold_until,
    next_try,
    pushed,
    pushed_for_engine,
    retry_after_s,
    sources_of,
    take_load,
)
from corral.policy.progress import Heard, NoAnswer, NobodyListens, Refused, Standing, UnknownJob

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def failure(code: str, node: NodeId = A) -> Failure:
    return Failure(node=node, node_name=f"node {node}", fault=Fault(code=code, text=f"{code} happened"))


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


def standing(state: TargetState = TargetState.WORKING) -> Standing:
    return Standing(target=target(state), desired=None, attempts=0, next_job=JobId("next"))


def heard(state: JobState, seq: int = 6, fault: Fault | None = None) -> Heard:
    return Heard(seq=seq, state=state, progress=Progress(percent=10.0, phase=Phase.STAGING), fault=fault)


def test_the_hold_begins_at_its_base_and_is_pushed_by_what_moves() -> None:
    hold = Hold(base_s=1500, stall_s=600, cap_s=86400)
    until = hold_until(NOW, hold)
    assert until == NOW + seconds(1500)
    assert pushed(until, NOW, NOW + seconds(10), hold) == until, "never earlier than it was"
    assert pushed(until, NOW, NOW + seconds(1400), hold) == NOW + seconds(2000)
    assert pushed(until, NOW, NOW + seconds(86390), hold) == NOW + seconds(86400), "never past the cap"


@given(base=st.floats(1, 1e5), stall=st.floats(1, 1e6), cap=st.floats(1, 1e6), at=st.floats(0, 1e6))
def test_whatever_is_set_the_hold_never_goes_back_and_never_passes_the_cap(
    base: float, stall: float, cap: float, at: float
) -> None:
    hold = Hold(base_s=base, stall_s=stall, cap_s=cap)
    until = hold_until(NOW, hold)
    later = pushed(until, NOW, NOW + seconds(at), hold)
    assert until <= later <= NOW + seconds(hold.cap)
    assert hold.stall <= hold.base_s <= hold.cap


def test_an_engine_has_its_budget_and_some_slack() -> None:
    assert pushed_for_engine(NOW, NOW, 100.0) == NOW + seconds(400)
    assert pushed_for_engine(NOW + seconds(9999), NOW, 100.0) == NOW + seconds(9999)


def test_bytes_percent_and_phases_are_progress() -> None:
    before = Progress(percent=5.0, phase=Phase.VERIFYING, current_bytes=1)
    assert not has_moved(before, before)
    for after in (
        Progress(percent=6.0, phase=Phase.VERIFYING, current_bytes=1),
        Progress(percent=5.0, phase=Phase.STAGING, current_bytes=1),
        Progress(percent=5.0, phase=Phase.VERIFYING, current_bytes=2),
    ):
        assert has_moved(before, after)


@pytest.mark.parametrize(
    "news",
    [
        heard(JobState.FAILED, fault=Fault(code="engine_failed", text="it broke")),
        heard(JobState.FAILED),
        heard(JobState.CANCELLED),
        heard(JobState.PAUSED),
        Refused(fault=Fault(code="invalid_request", text="no")),
    ],
)
def test_a_failure_ends_the_target_whoever_drives_it_goes_on(news: Heard | Refused) -> None:
    change = take_load(standing(), news)
    assert change is not None
    assert (change.target.state, change.target.attempt, change.is_heard) == (TargetState.ERROR, 1, True)
    assert change.target.fault is not None


def test_nobody_listening_ends_only_what_was_not_told() -> None:
    untold = take_load(standing(TargetState.QUEUED), NobodyListens())
    assert untold is not None
    assert (untold.target.state, untold.target.fault and untold.target.fault.code) == (
        TargetState.ERROR,
        faults.NODE_UNREACHABLE,
    )
    told = take_load(standing(), NobodyListens())
    assert told is not None
    assert told.target.state is TargetState.UNCONFIRMED


def test_silence_is_no_failure_and_old_news_is_none() -> None:
    silent = take_load(standing(), NoAnswer())
    assert silent is not None
    assert silent.target.state is TargetState.UNCONFIRMED
    unknown = take_load(standing(), UnknownJob())
    assert unknown is not None
    assert unknown.target.state is TargetState.QUEUED
    assert take_load(standing(), heard(JobState.FAILED, seq=4)) is None
    assert take_load(standing(TargetState.SUCCESS), heard(JobState.FAILED)) is None


def test_other_nodes_are_tried_twice_and_then_it_has_failed() -> None:
    first = next_try([failure("engine_failed")])
    assert first is not None
    assert (first.avoid, first.may_again, first.grow) == (frozenset({A}), frozenset[NodeId](), 1.0)
    assert next_try([failure("engine_failed"), failure("engine_failed", B)]) is not None
    assert next_try([failure("engine_failed", node) for node in (A, B, C)]) is None


def test_what_passes_may_be_tried_on_the_same_node_and_what_no_node_can_mend_nowhere() -> None:
    for code in ("source_unavailable", NODE_LOST, faults.NODE_UNREACHABLE):
        again = next_try([failure(code)])
        assert again is not None
        assert again.may_again == {A}
    assert next_try([failure("digest_mismatch")]) is None


def test_too_little_memory_is_tried_once_more_with_more_and_the_node_is_not_left_out() -> None:
    again = next_try([failure(OUT_OF_MEMORY)])
    assert again is not None
    assert (again.avoid, again.grow) == (frozenset(), 1.5)
    assert next_try([failure(OUT_OF_MEMORY), failure(OUT_OF_MEMORY, B)]) is None


def test_every_cause_is_told_once() -> None:
    fault = all_causes([failure("one"), failure("two", B), failure("one")], ["c has no room."])
    assert fault is not None
    assert fault.text == "node a: one happened; node b: two happened; c has no room."
    assert all_causes([]) is None


def test_ten_nodes_form_a_chain() -> None:
    nodes = [NodeId(f"n{number}") for number in range(10)]
    found = sources_of(nodes, [])
    assert found[nodes[0]] == ()
    assert [found[node][0] for node in nodes[1:]] == nodes[:-1]


def test_the_holder_with_the_fewest_pullers_is_given_whole_ones_first() -> None:
    holders = [
        Holder(node=A, is_whole=True, pullers=2),
        Holder(node=B, is_whole=False, pullers=1),
        Holder(node=C, is_whole=True, pullers=1),
    ]
    assert sources_of([NodeId("new")], holders)[NodeId("new")] == (C, A)


@given(st.integers(1, 30), st.integers(0, 5))
def test_nobody_takes_from_itself_and_nobody_is_crowded(count: int, holding: int) -> None:
    nodes = [NodeId(f"n{number}") for number in range(count)]
    holders = [Holder(node=NodeId(f"h{number}"), is_whole=True) for number in range(holding)]
    found = sources_of(nodes, holders)
    firsts = [taken[0] for taken in found.values() if taken]
    assert all(node not in taken for node, taken in found.items())
    assert len(firsts) == len(set(firsts))


@pytest.mark.behaviour("NODE-92")
def test_the_rest_takes_as_long_as_the_speed_so_far_says() -> None:
    assert eta_s(100, 400, 10.0) == 30.0
    assert eta_s(0, 400, 10.0) is None
    assert eta_s(100, None, 10.0) is None
    assert eta_s(100, 400, 0.5) is None
    assert [retry_after_s(value, 60.0) for value in (1.0, 90.0, 900.0, None)] == [5.0, 90.0, 300.0, 60.0]


def test_a_worker_that_did_not_answer_is_asked_more_often() -> None:
    assert asked_at(target(), NOW) == NOW
    assert asked_at(target(heard_at=NOW), NOW) == NOW + seconds(30)
    assert asked_at(target(TargetState.UNCONFIRMED, contacted_at=NOW), NOW) == NOW + seconds(5)
