"""How many replicas there are to be: floor, load, idleness, spread; and what never happens whatever the situation."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.node import NodeId
from corral.domain.replica import ReplicaState, Rule, RuleWindow
from corral.policy.placing.fleet import ModelTraits, PlacementFleet
from corral.policy.placing.scaling import (
    BACKOFF_TICKS_MAX,
    COOLDOWN,
    ModelDemand,
    ReplicaSnapshot,
    ScalingBackoff,
    ScalingDecision,
    ScalingInput,
    ScalingInputBuilder,
    ScalingSignal,
    compute_backoff,
    compute_max_replicas,
    decide,
)
from tests.unit.policy.builders import THEN, a_node, a_replica

LONG_AGO = THEN - timedelta(hours=1)


def a_rule(least: int = 0, most: int = 0, **changes: Any) -> Rule:
    return Rule(model="m", selector={}, min_replicas=least, max_replicas=most, **changes)


def loaded(index: int = 0, node: str = "a", **changes: Any) -> ReplicaSnapshot:
    values: dict[str, Any] = {"id": f"{node}/{index}", "node_id": NodeId(node), "index": index, "is_loaded": True}
    return ReplicaSnapshot(**values | {"used_at": THEN} | changes)


def busy(index: int = 0, **changes: Any) -> ReplicaSnapshot:
    return loaded(index, in_flight=1, **changes)


def idle(index: int = 0, **changes: Any) -> ReplicaSnapshot:
    return loaded(index, **{"used_at": LONG_AGO} | changes)


def coming(index: int = 0, **changes: Any) -> ReplicaSnapshot:
    return loaded(index, is_loaded=False, used_at=None, **changes)


def looked_at(rule: Rule | None, *replicas: ReplicaSnapshot, **changes: Any) -> ScalingDecision:
    return decide(ScalingInput(model="m", rule=rule, replicas=replicas, now=THEN, **{"capacity": 9} | changes))


@pytest.mark.behaviour("NODE-44")
def test_scaling_adds_only_replicas_with_a_free_slot() -> None:
    assert looked_at(a_rule(2), capacity=1).add == 1
    decision = looked_at(a_rule(3), loaded(), capacity=9)
    assert (decision.add, decision.signal, decision.reason) == (2, ScalingSignal.FLOOR, "1 of at least 3.")


@pytest.mark.behaviour("NODE-45")
def test_three_ticks_without_capacity_are_followed_by_five_minutes_of_rest() -> None:
    rule = a_rule(1)
    for tick in range(1, BACKOFF_TICKS_MAX + 1):
        decision = looked_at(rule, capacity=0)
        assert decision.add == 0
        assert decision.backoff is not None
        assert decision.backoff.ticks == tick
        rule = replace(rule, unsatisfiable_ticks=tick, unsatisfiable_until=decision.backoff.until)
    assert rule.unsatisfiable_until == THEN + COOLDOWN
    resting = looked_at(rule, capacity=9)
    assert (resting.add, resting.backoff) == (0, None), "no load is attempted, also with capacity"
    assert decide(_at(rule, THEN + COOLDOWN)).add == 1, "and then it is tried again"


def _at(rule: Rule, now: Any) -> ScalingInput:
    return ScalingInput(model="m", rule=rule, replicas=(), now=now, capacity=9)


@pytest.mark.behaviour("NODE-46")
def test_rest_that_was_ended_by_the_cluster_is_over() -> None:
    resting = a_rule(1, unsatisfiable_ticks=3, unsatisfiable_until=THEN + COOLDOWN)
    assert looked_at(resting).add == 0
    assert looked_at(replace(resting, unsatisfiable_ticks=0, unsatisfiable_until=None)).add == 1


@pytest.mark.behaviour("NODE-47")
def test_scaling_backoff_is_cleared_when_the_minimum_is_loaded_and_not_before() -> None:
    tired = a_rule(1, unsatisfiable_ticks=2)
    assert looked_at(tired).backoff is None, "an attempt is no success"
    assert looked_at(tired, coming()).backoff is None
    assert looked_at(tired, loaded()).backoff == ScalingBackoff()
    assert compute_backoff(tired, THEN) == ScalingBackoff(ticks=3, until=THEN + COOLDOWN), "a failed attempt counts on"


@pytest.mark.behaviour("NODE-48")
def test_replica_is_added_when_all_are_busy_unless_at_the_maximum() -> None:
    decision = looked_at(a_rule(1, 3), busy(0), busy(1))
    assert (decision.add, decision.signal) == (1, ScalingSignal.BUSY)
    assert looked_at(a_rule(1, 2), busy(0), busy(1)).add == 0
    assert looked_at(a_rule(1, 3), busy(0), loaded(1)).add == 0, "one is free"
    assert looked_at(a_rule(1), busy(0)).add == 1, "a maximum of 0 is none"
    assert looked_at(None, busy(0)).add == 0, "without a rule one is enough"
    assert looked_at(a_rule(), busy(0)).add == 0, "a selector alone asks for no more than one"


@pytest.mark.behaviour("NODE-48")
def test_busy_means_as_many_requests_as_it_works_on_at_a_time() -> None:
    assert looked_at(a_rule(1, 3), loaded(in_flight=3, parallel=4)).add == 0
    assert looked_at(a_rule(1, 3), loaded(in_flight=4, parallel=4)).add == 1


def test_requests_that_wait_call_for_one_more() -> None:
    decision = looked_at(a_rule(1, 3), loaded(in_flight=1, parallel=4), waiting=2)
    assert (decision.add, decision.signal) == (1, ScalingSignal.WAITING)
    assert looked_at(a_rule(0, 3), waiting=2).add == 0, "the first one is loaded for the request that waits for it"


def test_too_little_capacity_for_a_burst_adds_no_scaling_backoff() -> None:
    decision = looked_at(a_rule(1, 3), busy(), capacity=0)
    assert (decision.add, decision.backoff) == (0, None)


@pytest.mark.behaviour("NODE-49")
def test_busy_replicas_and_waiting_requests_together_add_one() -> None:
    decision = looked_at(a_rule(1, 9), busy(), waiting=3)
    assert (decision.add, decision.signal) == (1, ScalingSignal.BUSY)


@pytest.mark.parametrize("signal", [{"waiting": 9}, {}])
def test_scaling_signal_never_adds_twice(signal: dict[str, Any]) -> None:
    rule = a_rule(1, 9)
    assert looked_at(rule, busy(), **signal).add == 1
    assert looked_at(rule, busy(), coming(1), **signal).add == 0
    assert looked_at(rule, busy(), busy(1), added_at=THEN - timedelta(seconds=29), **signal).add == 0
    assert looked_at(rule, busy(), busy(1), added_at=THEN - timedelta(seconds=30), **signal).add == 1


@pytest.mark.behaviour("NODE-51")
def test_idle_replicas_above_the_floor_go_highest_index_first() -> None:
    rows = [idle(0), idle(1), idle(2), idle(3)]
    assert looked_at(a_rule(2, 9), *rows).remove == ("a/3", "a/2")
    assert looked_at(a_rule(0, 9), *rows).remove == ("a/3", "a/2", "a/1"), "the last one stays"
    assert looked_at(a_rule(4, 9), *rows).remove == ()


@pytest.mark.behaviour("NODE-51")
def test_scaling_removes_only_replicas_idle_for_five_minutes() -> None:
    recent = idle(3, used_at=THEN - timedelta(minutes=5))
    assert looked_at(a_rule(1, 9), idle(0), busy(1, used_at=LONG_AGO), idle(2), recent).remove == ("a/2", "a/0")
    assert looked_at(a_rule(1, 9), loaded(0), loaded(1, used_at=None)).remove == (), "it has only just come"


def test_least_recently_used_replica_of_one_index_is_removed_first() -> None:
    older = idle(1, node="b", used_at=LONG_AGO - timedelta(hours=1))
    assert looked_at(a_rule(1, 9), idle(0), idle(1), older).remove == ("b/1", "a/1")


def test_replicas_above_a_lowered_maximum_are_removed_unless_busy() -> None:
    assert looked_at(a_rule(1, 1), loaded(0), loaded(1), busy(2)).remove == ("a/1", "a/0")
    assert looked_at(a_rule(1, 1), busy(0), busy(1)).remove == ()
    assert looked_at(None, loaded(0), loaded(1)).remove == (), "somebody loaded two by hand"


@pytest.mark.behaviour("SCALE-1")
def test_last_one_goes_after_its_idle_time() -> None:
    for rule in (None, a_rule(), a_rule(0, 4)):
        assert looked_at(rule, idle(), idle_s=600).remove == ("a/0",)
        assert looked_at(rule, loaded(), idle_s=600).remove == ()
        assert looked_at(rule, idle(), idle_s=0).remove == ()
        assert looked_at(rule, idle()).remove == ()


@pytest.mark.behaviour("SCALE-1")
def test_last_replica_stays_when_it_is_pinned_in_demand_or_a_minimum() -> None:
    assert looked_at(None, idle(), idle_s=600, is_pinned=True).remove == ()
    assert looked_at(a_rule(1), idle(), idle_s=600).remove == ()
    assert looked_at(None, idle(), idle_s=600, waiting=1).remove == ()
    assert looked_at(None, idle(), coming(1), idle_s=600).remove == ()


@pytest.mark.behaviour("NODE-52")
def test_spread_wants_one_on_every_node_that_matches() -> None:
    rule, nodes = a_rule(spreads=True), tuple(NodeId(name) for name in "abc")
    first = looked_at(rule, nodes=nodes)
    assert (first.add, first.node_ids) == (3, nodes)
    rows = [loaded(0, node=name) for name in "abc"]
    assert looked_at(rule, *rows, nodes=nodes).add == 0
    fourth = looked_at(rule, *rows, nodes=(*nodes, NodeId("d")))
    assert (fourth.add, fourth.node_ids) == (1, (NodeId("d"),))
    assert looked_at(rule) == ScalingDecision(reason="No node matches.")


@pytest.mark.behaviour("NODE-53")
def test_spread_gives_no_node_a_second_and_takes_one_back() -> None:
    rule, nodes = a_rule(spreads=True), (NodeId("a"), NodeId("b"))
    assert looked_at(rule, loaded(), coming(0, node="b"), nodes=nodes).add == 0
    both = looked_at(rule, loaded(0), loaded(1), loaded(0, node="b"), nodes=nodes)
    assert both.remove == ("a/1",)
    in_use = looked_at(rule, loaded(0), busy(1), loaded(0, node="b"), nodes=nodes)
    assert in_use.remove == ()


def test_replica_on_a_node_that_is_away_is_replaced_and_left_alone() -> None:
    away = idle(0, is_placed=False)
    assert looked_at(a_rule(1), away).add == 1
    assert looked_at(a_rule(1), away, loaded(0, node="b")).remove == ()


def test_replica_that_the_selector_does_not_mean_any_more_goes_when_it_is_idle() -> None:
    stray = loaded(0, is_placed=False, is_stray=True)
    assert looked_at(a_rule(1), stray).add == 1, "it makes up no minimum"
    assert looked_at(a_rule(1), stray, loaded(0, node="b")).remove == ("a/0",)
    assert looked_at(a_rule(1), replace(stray, in_flight=1), loaded(0, node="b")).remove == ()


def a_fleet(**changes: Any) -> PlacementFleet:
    nodes = [
        a_node("a", labels={"zone": "b"}, slots_reported=2),
        a_node("b", labels={"zone": "b"}, slots_reported=2),
        a_node("c"),
        a_node("d", labels={"zone": "b"}, drained_at=THEN),
    ]
    rows = [
        a_replica("a", revision="now", in_flight=2, loaded_at=LONG_AGO),
        a_replica("b", revision="old", in_flight=0),
        a_replica("b", 1, revision="now", state=ReplicaState.UNLOADING),
        a_replica("c", revision="now", last_used_at=THEN),
        a_replica("d", revision="now"),
    ]
    values: dict[str, Any] = {"selector": {"zone": "b"}, "min_replicas": 1, "max_replicas": 4} | changes
    rule = Rule(model="m", **values)
    return PlacementFleet.build(
        nodes, rows, models=[ModelTraits(name="m", run_hash="now", is_pinned=True)], rules=[rule]
    )


def test_situation_counts_what_serves_under_the_rule() -> None:
    seen = ScalingInputBuilder(a_fleet(), THEN).build_input("m", ModelDemand(waiting=3, parallel=2, idle_s=60))
    assert [(row.node_id, row.is_placed, row.is_stray) for row in seen.replicas] == [
        ("a", True, False),
        ("c", False, True),
        ("d", False, False),
    ]
    assert seen.capacity == 3, "one on a, two on b, where the old one takes no slot"
    assert (seen.waiting, seen.is_pinned, seen.idle_s, seen.added_at) == (3, True, 60, LONG_AGO)
    assert decide(seen).signal is ScalingSignal.BUSY


def test_situation_knows_the_window_and_the_nodes_of_a_spread() -> None:
    window = RuleWindow(cron="0 * * * *", duration_s=600, min_replicas=3)
    assert THEN.minute == 0
    seen = ScalingInputBuilder(a_fleet(windows=(window,)), THEN).build_input("m")
    assert seen.rule is not None
    assert seen.rule.min_replicas == 3
    assert decide(seen).add == 2
    spread = ScalingInputBuilder(a_fleet(spreads=True, min_replicas=0, max_replicas=0), THEN).build_input("m")
    assert decide(spread).node_ids == (NodeId("b"),)
    assert ScalingInputBuilder(a_fleet(), THEN).build_input("unknown").replicas == ()


@pytest.mark.behaviour("NODE-55")
def test_minimum_is_requested_again_when_all_rows_have_vanished() -> None:
    rule = Rule(model="m", selector={}, min_replicas=2)
    fleet = PlacementFleet.build(
        [a_node("a"), a_node("b")], models=[ModelTraits(name="m", run_hash="now")], rules=[rule]
    )
    assert decide(ScalingInputBuilder(fleet, THEN).build_input("m")).add == 2


counted = st.builds(
    loaded,
    st.integers(0, 3),
    node=st.sampled_from("abc"),
    is_loaded=st.booleans(),
    is_placed=st.sampled_from([True, True, True, False]),
    in_flight=st.integers(0, 2),
    parallel=st.integers(1, 2),
    used_at=st.none() | st.integers(0, 1000).map(lambda seconds: THEN - timedelta(seconds=seconds)),
)


@st.composite
def situations(draw: Any) -> ScalingInput:
    rows = [replace(row, id=str(number)) for number, row in enumerate(draw(st.lists(counted, max_size=6)))]
    least = draw(st.integers(0, 3))
    most = draw(st.sampled_from([0, least, least + 1, least + 4]))
    spreads = draw(st.sampled_from([False, False, False, True]))
    rule = a_rule(0, 0, spreads=True) if spreads else a_rule(least, most)
    return ScalingInput(
        model="m",
        rule=draw(st.sampled_from([None, rule, rule, rule])),
        replicas=tuple(replace(row, is_stray=not row.is_placed and draw(st.booleans())) for row in rows),
        now=THEN,
        capacity=draw(st.integers(0, 4)),
        nodes=draw(st.lists(st.sampled_from([NodeId(name) for name in "abcd"]), unique=True).map(tuple)),
        waiting=draw(st.integers(0, 2)),
        is_pinned=draw(st.booleans()),
        idle_s=draw(st.none() | st.integers(0, 900)),
        added_at=draw(st.none() | st.integers(0, 90).map(lambda seconds: THEN - timedelta(seconds=seconds))),
    )


@pytest.mark.behaviour("SCALE-3")
@given(situations())
def test_scaling_never_goes_above_the_maximum_nor_below_the_minimum(seen: ScalingInput) -> None:
    decision = decide(seen)
    placed = [row for row in seen.replicas if row.is_placed]
    by_id = {row.id: row for row in seen.replicas}
    gone = [by_id[replica_id] for replica_id in decision.remove]
    assert not (decision.add and decision.remove), "never both in one tick"
    assert len(set(decision.remove)) == len(decision.remove)
    assert all(row.is_loaded and not row.in_flight for row in gone)
    serving = len([row for row in placed if row.is_loaded])
    left = serving - len([row for row in gone if row.is_placed])
    if seen.rule is not None and seen.rule.spreads:
        assert len(decision.node_ids) == decision.add
        assert {row.node_id for row in placed} & set(decision.node_ids) == set()
        meant = {row.node_id for row in placed}
        assert {row.node_id for row in placed if row not in gone} == meant, "each node keeps one"
        return
    least = seen.rule.min_replicas if seen.rule is not None else 0
    assert len(placed) + decision.add <= max(len(placed), compute_max_replicas(seen.rule))
    assert decision.add <= seen.capacity
    assert left >= min(serving, least)
    if gone and left == 0:
        assert all(not row.is_placed for row in gone) or (seen.idle_s and not seen.is_pinned and least == 0)


@given(situations())
def test_decision_that_was_carried_out_is_not_made_again(seen: ScalingInput) -> None:
    decision = decide(seen)
    if decision.add and not decision.node_ids:
        more = tuple(coming(9 + number, node="d") for number in range(decision.add))
        after = decide(replace(seen, replicas=seen.replicas + more, capacity=seen.capacity - decision.add))
        is_floor = decision.signal is ScalingSignal.FLOOR
        assert after.add == 0 or (is_floor and after.signal is ScalingSignal.FLOOR), (
            "only a floor that had too few slots"
        )
    if decision.remove:
        left = tuple(row for row in seen.replicas if row.id not in decision.remove)
        again = decide(replace(seen, replicas=left))
        assert not set(again.remove) & set(decision.remove)
