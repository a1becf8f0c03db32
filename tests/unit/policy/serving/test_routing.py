"""Which replica answers: the pure decision."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.node import NodeId
from corral.policy.serving.breaker import BreakerState
from corral.policy.serving.routing import (
    ALIKE,
    FADING_HALF_S,
    NEVER,
    UNKNOWN_S,
    LeastWait,
    Place,
    RoundRobin,
    Term,
    expected_s,
    explain,
    faded,
    is_candidate,
    learnt,
    own_room,
    policy_of,
    preference,
    retry_after_s,
    typical_s,
)

PLACE = Place(id=NodeId("n"), name="n", is_open=True, labels={"zone": "a"})
LEAST_WAIT = LeastWait()


@dataclass(eq=False)
class Option:
    """A `Candidate` of a test."""

    name: str = ""
    expected_s: float = 1.0
    picked: int = 0


@pytest.mark.behaviour("NODE-58")
def test_the_least_wait_is_picked_then_the_one_whose_turn_it_is_then_the_one_with_most_room() -> None:
    busy = Option(expected_s=expected_s(2, 4, 1.0), picked=1)
    idle = Option(expected_s=expected_s(0, 4, 1.0), picked=9)
    assert LEAST_WAIT.pick([busy, idle]) is idle
    longer_ago = Option(expected_s=expected_s(0, 4, 1.0), picked=3)
    assert LEAST_WAIT.pick([busy, idle, longer_ago]) is longer_ago
    first, second = Option(expected_s=0.1), Option(expected_s=0.1)
    assert LEAST_WAIT.pick([first, second]) is first
    assert preference(Place(id=NodeId("n"), name="n", is_open=True, labels={}, free_bytes=7)) < preference(PLACE)
    assert LEAST_WAIT.pick([]) is None


@pytest.mark.behaviour("GW-60")
def test_a_fast_busy_replica_goes_before_a_slow_idle_one_until_its_line_is_as_long() -> None:
    for in_flight, wins in ((0, True), (2, True), (4, False), (9, False)):
        fast = Option(expected_s=expected_s(in_flight, 8, 1.0))
        slow = Option(expected_s=expected_s(0, 8, 4.0))
        assert (LEAST_WAIT.pick([slow, fast]) is fast) == wins, in_flight
    # One that works on more at a time is sooner done with the same line.
    assert expected_s(3, 8, 1.0) < expected_s(3, 4, 1.0)


@pytest.mark.behaviour("GW-60")
def test_what_is_alike_within_five_percent_takes_turns() -> None:
    little_slower = Option(expected_s=ALIKE - 0.001, picked=1)
    assert LEAST_WAIT.pick([Option(expected_s=1.0, picked=2), little_slower]) is little_slower
    slower, best = Option(expected_s=ALIKE + 0.001, picked=1), Option(expected_s=1.0, picked=2)
    assert LEAST_WAIT.pick([slower, best]) is best


@pytest.mark.behaviour("NODE-43")
def test_only_open_nodes_that_the_selector_means_and_only_the_present_revision_count() -> None:
    assert is_candidate("r", "r", PLACE, {})
    assert is_candidate("r", "r", PLACE, {"zone": "a"})
    assert not is_candidate("r", "r", PLACE, {"zone": "b"})
    assert not is_candidate("old", "r", PLACE, {})
    assert not is_candidate("r", "r", None, {})
    assert not is_candidate("r", "r", Place(id=NodeId("n"), name="n", is_open=False, labels={}), {})


waits = st.one_of(st.just(NEVER), st.floats(0.001, 100.0))


@given(st.lists(st.tuples(waits, st.integers(0, 9)), max_size=12))
def test_nobody_who_would_answer_sooner_is_ever_passed_over(drawn: list[tuple[float, int]]) -> None:
    options = [Option(expected_s=wait_s, picked=picked) for wait_s, picked in drawn]
    chosen = LEAST_WAIT.pick(options)
    lowest_s = min((option.expected_s for option in options), default=NEVER)
    assert (chosen is None) == (lowest_s == NEVER)
    if chosen is not None:
        alike = [option for option in options if option.expected_s <= lowest_s * ALIKE]
        assert chosen in alike
        assert chosen.picked == min(option.picked for option in alike)


@given(replicas=st.integers(1, 8), requests=st.integers(0, 60), name=st.sampled_from(["", "round_robin"]))
@pytest.mark.behaviour("NODE-59")
def test_requests_that_end_at_once_go_round(replicas: int, requests: int, name: str) -> None:
    options = [Option(name=str(number)) for number in range(replicas)]
    seen: Counter[str] = Counter()
    for number in range(1, requests + 1):
        chosen = policy_of(name).pick(options)
        assert chosen is not None
        chosen.picked = number
        seen[chosen.name] += 1
    assert max(seen.values(), default=0) - min((seen[option.name] for option in options), default=0) <= 1


def test_round_robin_minds_no_waits_and_skips_who_takes_none() -> None:
    full, slow, fast = Option(expected_s=NEVER), Option(expected_s=9.0, picked=1), Option(expected_s=1.0, picked=2)
    assert RoundRobin().pick([full, slow, fast]) is slow
    assert RoundRobin().pick([full]) is None


def test_a_policy_that_is_not_there_yet_is_the_usual_one() -> None:
    assert isinstance(policy_of("prefix_cache"), LeastWait)
    assert isinstance(policy_of(""), LeastWait)
    assert isinstance(policy_of("round_robin"), RoundRobin)


@pytest.mark.behaviour("GW-61")
def test_what_is_not_known_of_a_replica_is_taken_from_the_middle_of_the_others() -> None:
    assert typical_s([None, None]) == UNKNOWN_S
    assert typical_s([1.0, None, 30.0, 2.0]) == 2.0
    assert 1.0 < learnt(1.0, 8.0) < 2.0


def test_what_is_learnt_of_a_replica_comes_closer_to_the_others_while_nobody_asks_it() -> None:
    assert faded(9.0, 1.0, 0.0) == 9.0
    assert faded(9.0, 1.0, FADING_HALF_S) == pytest.approx(5.0)
    assert faded(9.0, 1.0, 100 * FADING_HALF_S) == pytest.approx(1.0)


@given(capacity=st.integers(1, 200), shares=st.lists(st.integers(1, 200), max_size=6))
def test_a_frontend_may_use_what_others_leave_and_never_less_than_its_share(capacity: int, shares: list[int]) -> None:
    room = own_room(capacity, sum(shares), len(shares))
    assert room >= max(1, capacity // (len(shares) + 1))
    assert room <= capacity
    if sum(shares) < capacity:
        assert room >= capacity - sum(shares)


def test_the_time_to_wait_grows_with_the_line_and_has_bounds() -> None:
    assert retry_after_s(waiting=99, room=10, seconds=2.0) == 20
    assert retry_after_s(waiting=0, room=64, seconds=0.01) == 1
    assert retry_after_s(waiting=10**6, room=0, seconds=60.0) == 300


@pytest.mark.behaviour("GW-62")
def test_a_pick_is_explained_by_the_numbers_that_it_goes_by() -> None:
    def term(name: str, expected: float | None, picked: int = 0, **more: object) -> Term:
        values = {"in_flight": 3, "capacity": 4, "seconds": 2.0, "is_learnt": True, "free_bytes": 0} | more
        return Term(replica_id=name, node_name=name, expected_s=expected, picked=picked, **values)  # type: ignore[arg-type]

    full = term("full", None, in_flight=4)
    ill = term("ill", None, breaker=BreakerState.OPEN)
    told = explain([full, term("slow", 9.0), term("b", 1.04, picked=2), term("a", 1.0, picked=5), ill])
    assert [one.replica_id for one in told][:3] == ["b", "a", "slow"]
    assert "4 requests of 4" in full.sentence
    assert "failed" in ill.sentence
    assert "1.04 s expected" in told[0].sentence
    assert "learnt" in told[0].sentence
    assert math.isinf(NEVER)
