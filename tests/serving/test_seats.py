"""Replicas in a frontend's memory: what is learnt of them, when they are left alone, and when they are full."""

from __future__ import annotations

from collections import Counter

import pytest

from corral.adapters.system import SystemClock
from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.policy.serving.breaker import IN_A_ROW_MAX, OPEN_S, BreakerState
from corral.policy.serving.routing import FADING_HALF_S, Place
from corral.serving.seats import Bench, Held, Seat, SeatOptions, Seats
from corral.store.use import Elsewhere
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


def bench_with(names: str, clock: HandClock, *, concurrency: int = 64, **model: object) -> tuple[Seats, Bench]:
    options = SeatOptions(concurrency=concurrency)
    seats = seats_with([replica(name) for name in names], clock=clock, options=options, **model)
    bench = seats.bench("chat")
    assert bench is not None
    return seats, bench


def take(bench: Bench, *without: str) -> Held:
    held = bench.take(without)
    assert held is not None
    return held


def seat(seats: Seats, name: str) -> Seat:
    found = seats.find(name)
    assert found is not None
    return found


def fail_at(bench: Bench, name: str, times: int = IN_A_ROW_MAX) -> None:
    others = [one.replica.id for one in bench.seats if one.replica.id != name]
    for _ in range(times):
        with take(bench, *others) as held:
            assert held.replica.id == name
            held.failed()


@pytest.mark.behaviour("NODE-58")
def test_at_first_the_one_whose_node_has_most_memory_free_is_picked(clock: HandClock) -> None:
    seats, bench = bench_with("", clock)
    places = [
        (replica(name), Place(id=NodeId(name), name=name, is_open=True, labels={}, free_bytes=free))
        for name, free in (("small", 1), ("large", 9), ("middling", 5))
    ]
    seats.arrange(bench.model, places)
    assert [take(bench).replica.id for _ in range(3)] == ["large", "middling", "small"]


@pytest.mark.behaviour("GW-60")
def test_a_replica_that_answers_three_times_as_fast_gets_three_times_as_much(clock: HandClock) -> None:
    seats, bench = bench_with("ab", clock)
    seat(seats, "a").learn(1.0, 0.1)
    seat(seats, "b").learn(3.0, 0.1)
    picked = Counter(take(bench).replica.id for _ in range(40))
    assert picked == {"a": 30, "b": 10}


@pytest.mark.behaviour("GW-61")
def test_a_replica_of_which_nothing_is_known_is_neither_shunned_nor_swamped(clock: HandClock) -> None:
    seats, bench = bench_with("abcd", clock)
    for name, seconds in (("a", 10.0), ("b", 12.0), ("c", 50.0)):
        seat(seats, name).learn(seconds, 1.0)
    term = {one.replica_id: one for one in bench.explain()}["d"]
    assert (term.seconds, term.is_learnt) == (12.0, False)
    picked = Counter(take(bench).replica.id for _ in range(30))
    assert picked["d"] <= picked["a"]
    assert picked["d"] >= picked["c"]


@pytest.mark.behaviour("GW-61")
def test_answers_teach_and_a_quiet_replica_is_given_another_chance(clock: HandClock) -> None:
    seats, bench = bench_with("ab", clock)
    for name, seconds in (("a", 1.0), ("b", 9.0)):
        with take(bench, "b" if name == "a" else "a") as held:
            held.succeeded(seconds, 0.5)
    assert (seat(seats, "a").seconds, seat(seats, "b").seconds) == (1.0, 9.0)
    assert seat(seats, "b").first_byte_s == 0.5
    for _ in range(20):
        seats.fade(FADING_HALF_S)
    assert seat(seats, "b").seconds == 9.0
    for one in seats:
        one.is_used = False
    for _ in range(20):
        seats.fade(FADING_HALF_S)
    learnt = seat(seats, "b").seconds
    assert learnt is not None
    assert learnt == pytest.approx(bench.typical_s, rel=0.1)


def test_what_is_assumed_of_a_new_replica_follows_what_the_others_have_become(clock: HandClock) -> None:
    seats, bench = bench_with("abc", clock)
    for name in "ab":
        seat(seats, name).learn(1.0, 0.1)
    for _ in range(100):
        for name in "ab":
            seat(seats, name).learn(20.0, 0.1)
    seats.fade(2.0)
    term = {one.replica_id: one for one in bench.explain()}["c"]
    assert term.seconds == pytest.approx(20.0, rel=0.01)
    assert term.expected_s == pytest.approx(20.0 / 64, rel=0.01)


def test_an_answer_that_says_nothing_about_speed_teaches_nothing(clock: HandClock) -> None:
    seats, bench = bench_with("a", clock)
    with take(bench) as held:
        held.succeeded()
    assert seat(seats, "a").seconds is None


def test_a_verdict_counts_once(clock: HandClock) -> None:
    seats, bench = bench_with("a", clock)
    with take(bench) as held:
        for _ in range(IN_A_ROW_MAX):
            held.failed()
        held.succeeded(1.0, 1.0)
    assert seat(seats, "a").seconds is None
    assert seat(seats, "a").breaker.state(clock.now) is BreakerState.CLOSED


@pytest.mark.behaviour("GW-63")
def test_a_replica_that_fails_again_and_again_gets_no_requests_for_a_while(clock: HandClock) -> None:
    _, bench = bench_with("ab", clock)
    fail_at(bench, "a")
    assert {take(bench).replica.id for _ in range(6)} == {"b"}
    assert [term.breaker for term in bench.explain()] == [BreakerState.CLOSED, BreakerState.OPEN]


@pytest.mark.behaviour("GW-64")
def test_then_one_request_is_let_through_and_its_answer_brings_the_replica_back(clock: HandClock) -> None:
    _, bench = bench_with("ab", clock)
    fail_at(bench, "a")
    clock.now += OPEN_S
    trial = take(bench)
    assert trial.replica.id == "a"
    assert {take(bench).replica.id for _ in range(3)} == {"b"}
    trial.succeeded(1.0, 0.1)
    trial.release()
    assert "a" in {take(bench).replica.id for _ in range(3)}


@pytest.mark.behaviour("GW-64")
def test_a_trial_whose_client_leaves_makes_way_for_the_next(clock: HandClock) -> None:
    _, bench = bench_with("ab", clock)
    fail_at(bench, "a")
    clock.now += OPEN_S
    take(bench).release()
    assert take(bench).replica.id == "a"


@pytest.mark.behaviour("GW-64")
def test_a_trial_that_fails_waits_twice_as_long(clock: HandClock) -> None:
    _, bench = bench_with("ab", clock)
    fail_at(bench, "a")
    clock.now += OPEN_S
    with take(bench) as trial:
        trial.failed()
    clock.now += OPEN_S
    assert take(bench).replica.id == "b"
    clock.now += OPEN_S
    assert take(bench).replica.id == "a"


@pytest.mark.behaviour("GW-67")
def test_no_request_is_lost_to_breakers_alone(clock: HandClock) -> None:
    _, bench = bench_with("ab", clock)
    fail_at(bench, "a")
    clock.now += OPEN_S / 2
    fail_at(bench, "b")
    # Both are left alone; the first will be tried sooner, so it is.
    with take(bench) as held:
        assert held.replica.id == "a"
        assert take(bench, "a").replica.id == "b"
        held.succeeded(1.0, 0.1)
    assert bench.explain()[0].breaker is BreakerState.CLOSED


def test_whoever_is_healthy_and_full_is_waited_for_rather_than_trying_the_ill(clock: HandClock) -> None:
    _, bench = bench_with("ab", clock, concurrency=1)
    fail_at(bench, "a")
    assert take(bench).replica.id == "b"
    assert bench.take() is None


def test_nobody_listening_is_enough_to_be_left_alone_at_once(clock: HandClock) -> None:
    _, bench = bench_with("ab", clock)
    with take(bench, "b") as held:
        held.failed(is_gone=True)
    assert {take(bench).replica.id for _ in range(3)} == {"b"}


def test_a_new_process_at_another_address_begins_with_a_clean_sheet(clock: HandClock) -> None:
    seats, bench = bench_with("a", clock)
    seat(seats, "a").learn(9.0, 1.0)
    old = [take(bench) for _ in range(IN_A_ROW_MAX)]
    fail_at(bench, "a")
    place = Place(id=NodeId("n-a"), name="n", is_open=True, labels={})
    seats.arrange(bench.model, [(replica("a", "elsewhere:2"), place)])
    assert seat(seats, "a").seconds is None
    assert bench.explain()[0].breaker is BreakerState.CLOSED
    # What the former process did says nothing about this one, and is still counted until it ends.
    for one in old:
        one.failed()
    assert seat(seats, "a").own == IN_A_ROW_MAX
    for one in old:
        one.release()
    assert seat(seats, "a").own == 0
    assert bench.explain()[0].breaker is BreakerState.CLOSED


@pytest.fixture
def full(clock: HandClock) -> tuple[Seats, Bench]:
    return bench_with("ab", clock, parallel=2)


@pytest.mark.behaviour("GW-68")
def test_a_replica_is_given_as_many_as_it_works_on_at_a_time(full: tuple[Seats, Bench]) -> None:
    _, bench = full
    held = [take(bench) for _ in range(4)]
    assert Counter(one.replica.id for one in held) == {"a": 2, "b": 2}
    assert bench.take() is None
    held[0].release()
    assert take(bench).replica.id == held[0].replica.id
    assert [one.expected_s for one in bench.explain()] == [None, None]


@pytest.mark.behaviour("GW-69")
def test_what_other_frontends_have_there_takes_room_and_everybody_keeps_a_share(full: tuple[Seats, Bench]) -> None:
    seats, bench = full
    seats.hear({"a": Elsewhere(in_flight=2, frontends=1)})
    # At `a` there is nothing left but an equal share, at `b` all.
    held = [take(bench) for _ in range(3)]
    assert Counter(one.replica.id for one in held) == {"b": 2, "a": 1}
    assert bench.take() is None
    seats.hear({})
    assert take(bench).replica.id == "a"
