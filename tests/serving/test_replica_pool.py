"""Replicas in a frontend's memory: what is learnt of them, when they are left alone, and when they are full."""

from __future__ import annotations

from collections import Counter

import pytest

from corral.adapters.system import SystemClock
from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.gateway.routing.replica_pool import (
    ReplicaCheckout,
    ReplicaPool,
    ReplicaPoolOptions,
    ReplicaPools,
    RoutableReplica,
)
from corral.policy.serving.circuit_breaker import IN_A_ROW_MAX, OPEN_S, BreakerState
from corral.policy.serving.routing import FADING_HALF_S, RoutableNode
from corral.store.replica_use import PeerUse
from tests.serving.scene import RUN_HASH, seats_with


class HandClock(SystemClock):
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def replica(name: str, address: str = "") -> Replica:
    return Replica(
        id=name,
        node_id=NodeId(f"n-{name}"),
        model="chat",
        index=0,
        state=ReplicaState.LOADED,
        address=address or f"{name}:1",
        revision=RUN_HASH,
    )


def bench_with(
    names: str, clock: HandClock, *, concurrency: int = 64, **model: object
) -> tuple[ReplicaPools, ReplicaPool]:
    options = ReplicaPoolOptions(concurrency=concurrency)
    seats = seats_with([replica(name) for name in names], clock=clock, options=options, **model)
    bench = seats.find_pool("chat")
    assert bench is not None
    return seats, bench


def take(bench: ReplicaPool, *without: str) -> ReplicaCheckout:
    held = bench.check_out(without)
    assert held is not None
    return held


def seat(seats: ReplicaPools, name: str) -> RoutableReplica:
    found = seats.find(name)
    assert found is not None
    return found


def fail_at(bench: ReplicaPool, name: str, times: int = IN_A_ROW_MAX) -> None:
    others = [one.replica.id for one in bench.replicas if one.replica.id != name]
    for _ in range(times):
        with take(bench, *others) as held:
            assert held.replica.id == name
            held.record_failure()


@pytest.mark.behaviour("NODE-58")
def test_replica_on_the_node_with_most_free_memory_is_picked_at_first(clock: HandClock) -> None:
    seats, bench = bench_with("", clock)
    places = [
        (replica(name), RoutableNode(id=NodeId(name), name=name, is_open=True, labels={}, free_bytes=free))
        for name, free in (("small", 1), ("large", 9), ("middling", 5))
    ]
    seats.update_pool(bench.model, places)
    assert [take(bench).replica.id for _ in range(3)] == ["large", "middling", "small"]


@pytest.mark.behaviour("GW-60")
def test_replica_that_answers_three_times_as_fast_gets_three_times_as_much(clock: HandClock) -> None:
    seats, bench = bench_with("ab", clock)
    seat(seats, "a").record_times(1.0, 0.1)
    seat(seats, "b").record_times(3.0, 0.1)
    picked = Counter(take(bench).replica.id for _ in range(40))
    assert picked == {"a": 30, "b": 10}


def test_replica_of_which_nothing_is_known_is_neither_shunned_nor_swamped(clock: HandClock) -> None:
    seats, bench = bench_with("abcd", clock)
    for name, seconds in (("a", 10.0), ("b", 12.0), ("c", 50.0)):
        seat(seats, name).record_times(seconds, 1.0)
    term = {one.replica_id: one for one in bench.list_candidates()}["d"]
    assert (term.response_s, term.is_learnt) == (12.0, False)
    picked = Counter(take(bench).replica.id for _ in range(30))
    assert picked["d"] <= picked["a"]
    assert picked["d"] >= picked["c"]


def test_answers_teach_and_a_quiet_replica_is_given_another_chance(clock: HandClock) -> None:
    seats, bench = bench_with("ab", clock)
    for name, seconds in (("a", 1.0), ("b", 9.0)):
        with take(bench, "b" if name == "a" else "a") as held:
            held.record_success(seconds, 0.5)
    assert (seat(seats, "a").response_s, seat(seats, "b").response_s) == (1.0, 9.0)
    assert seat(seats, "b").first_byte_s == 0.5
    for _ in range(20):
        seats.fade_times(FADING_HALF_S)
    assert seat(seats, "b").response_s == 9.0
    for one in seats:
        one.is_used = False
    for _ in range(20):
        seats.fade_times(FADING_HALF_S)
    learnt = seat(seats, "b").response_s
    assert learnt is not None
    assert learnt == pytest.approx(bench.typical_s, rel=0.1)


def test_new_replica_is_assumed_to_be_as_fast_as_the_others_are_now(clock: HandClock) -> None:
    seats, bench = bench_with("abc", clock)
    for name in "ab":
        seat(seats, name).record_times(1.0, 0.1)
    for _ in range(100):
        for name in "ab":
            seat(seats, name).record_times(20.0, 0.1)
    seats.fade_times(2.0)
    term = {one.replica_id: one for one in bench.list_candidates()}["c"]
    assert term.response_s == pytest.approx(20.0, rel=0.01)
    assert term.expected_s == pytest.approx(20.0 / 64, rel=0.01)


def test_response_without_a_time_does_not_change_the_learnt_speed(clock: HandClock) -> None:
    seats, bench = bench_with("a", clock)
    with take(bench) as held:
        held.record_success()
    assert seat(seats, "a").response_s is None


def test_verdict_counts_once(clock: HandClock) -> None:
    seats, bench = bench_with("a", clock)
    with take(bench) as held:
        for _ in range(IN_A_ROW_MAX):
            held.record_failure()
        held.record_success(1.0, 1.0)
    assert seat(seats, "a").response_s is None
    assert seat(seats, "a").breaker.get_state(clock.now) is BreakerState.CLOSED


@pytest.mark.behaviour("GW-63")
def test_replica_that_fails_again_and_again_gets_no_requests_for_a_while(clock: HandClock) -> None:
    _, bench = bench_with("ab", clock)
    fail_at(bench, "a")
    assert {take(bench).replica.id for _ in range(6)} == {"b"}
    assert [term.breaker for term in bench.list_candidates()] == [BreakerState.CLOSED, BreakerState.OPEN]


def test_open_breaker_lets_one_request_through_and_its_success_closes_it(clock: HandClock) -> None:
    _, bench = bench_with("ab", clock)
    fail_at(bench, "a")
    clock.now += OPEN_S
    trial = take(bench)
    assert trial.replica.id == "a"
    assert {take(bench).replica.id for _ in range(3)} == {"b"}
    trial.record_success(1.0, 0.1)
    trial.release()
    assert "a" in {take(bench).replica.id for _ in range(3)}


def test_trial_whose_client_leaves_makes_way_for_the_next(clock: HandClock) -> None:
    _, bench = bench_with("ab", clock)
    fail_at(bench, "a")
    clock.now += OPEN_S
    take(bench).release()
    assert take(bench).replica.id == "a"


def test_trial_that_fails_waits_twice_as_long(clock: HandClock) -> None:
    _, bench = bench_with("ab", clock)
    fail_at(bench, "a")
    clock.now += OPEN_S
    with take(bench) as trial:
        trial.record_failure()
    clock.now += OPEN_S
    assert take(bench).replica.id == "b"
    clock.now += OPEN_S
    assert take(bench).replica.id == "a"


def test_requests_are_not_lost_to_breakers_alone(clock: HandClock) -> None:
    _, bench = bench_with("ab", clock)
    fail_at(bench, "a")
    clock.now += OPEN_S / 2
    fail_at(bench, "b")
    # Both are left alone; the first will be tried sooner, so it is.
    with take(bench) as held:
        assert held.replica.id == "a"
        assert take(bench, "a").replica.id == "b"
        held.record_success(1.0, 0.1)
    assert bench.list_candidates()[0].breaker is BreakerState.CLOSED


def test_full_healthy_replica_is_preferred_to_one_with_an_open_breaker(clock: HandClock) -> None:
    _, bench = bench_with("ab", clock, concurrency=1)
    fail_at(bench, "a")
    assert take(bench).replica.id == "b"
    assert bench.check_out() is None


def test_refused_connection_opens_the_breaker_at_once(clock: HandClock) -> None:
    _, bench = bench_with("ab", clock)
    with take(bench, "b") as held:
        held.record_failure(is_gone=True)
    assert {take(bench).replica.id for _ in range(3)} == {"b"}


def test_new_process_at_another_address_begins_with_a_clean_sheet(clock: HandClock) -> None:
    seats, bench = bench_with("a", clock)
    seat(seats, "a").record_times(9.0, 1.0)
    old = [take(bench) for _ in range(IN_A_ROW_MAX)]
    fail_at(bench, "a")
    place = RoutableNode(id=NodeId("n-a"), name="n", is_open=True, labels={})
    seats.update_pool(bench.model, [(replica("a", "elsewhere:2"), place)])
    assert seat(seats, "a").response_s is None
    assert bench.list_candidates()[0].breaker is BreakerState.CLOSED
    # What the former process did says nothing about this one, and is still counted until it ends.
    for one in old:
        one.record_failure()
    assert seat(seats, "a").in_flight_here == IN_A_ROW_MAX
    for one in old:
        one.release()
    assert seat(seats, "a").in_flight_here == 0
    assert bench.list_candidates()[0].breaker is BreakerState.CLOSED


@pytest.fixture
def full(clock: HandClock) -> tuple[ReplicaPools, ReplicaPool]:
    return bench_with("ab", clock, parallel=2)


def test_replica_is_given_as_many_as_it_works_on_at_a_time(full: tuple[ReplicaPools, ReplicaPool]) -> None:
    _, bench = full
    held = [take(bench) for _ in range(4)]
    assert Counter(one.replica.id for one in held) == {"a": 2, "b": 2}
    assert bench.check_out() is None
    held[0].release()
    assert take(bench).replica.id == held[0].replica.id
    assert [one.expected_s for one in bench.list_candidates()] == [None, None]


def test_requests_of_other_frontends_take_capacity_and_each_keeps_a_share(
    full: tuple[ReplicaPools, ReplicaPool],
) -> None:
    seats, bench = full
    seats.apply_other_leases({"a": PeerUse(in_flight=2, frontends=1)})
    # At `a` there is nothing left but an equal share, at `b` all.
    held = [take(bench) for _ in range(3)]
    assert Counter(one.replica.id for one in held) == {"b": 2, "a": 1}
    assert bench.check_out() is None
    seats.apply_other_leases({})
    assert take(bench).replica.id == "a"
