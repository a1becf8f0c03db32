"""Which replica answers: the pure decision."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.node import NodeId
from corral.policy.serving.circuit_breaker import BreakerState
from corral.policy.serving.routing import (
    FADING_HALF_S,
    NEVER,
    TIE_RATIO,
    UNKNOWN_S,
    CandidateSnapshot,
    LeastWaitPolicy,
    RoundRobinPolicy,
    RoutableNode,
    compute_allowed_in_flight,
    compute_preference,
    compute_retry_after_s,
    compute_step_s,
    compute_typical_s,
    fade_average,
    find_policy,
    is_candidate,
    order_candidates,
    update_average,
)

PLACE = RoutableNode(id=NodeId("n"), name="n", is_open=True, labels={"zone": "a"})
LEAST_WAIT = LeastWaitPolicy()


def expected_s(in_flight: int, capacity: int, response_s: float) -> float:
    """As a frontend computes it for a replica whose requests are all its own."""
    return (in_flight + 1) * compute_step_s(capacity, response_s)


@dataclass(eq=False)
class Option:
    """A `Candidate` of a test."""

    name: str = ""
    expected_s: float = 1.0
    last_pick: int = 0


@pytest.mark.behaviour("NODE-58")
def test_routing_picks_the_least_wait_then_the_turn_then_the_most_room() -> None:
    busy = Option(expected_s=expected_s(2, 4, 1.0), last_pick=1)
    idle = Option(expected_s=expected_s(0, 4, 1.0), last_pick=9)
    assert LEAST_WAIT.pick([busy, idle]) is idle
    longer_ago = Option(expected_s=expected_s(0, 4, 1.0), last_pick=3)
    assert LEAST_WAIT.pick([busy, idle, longer_ago]) is longer_ago
    first, second = Option(expected_s=0.1), Option(expected_s=0.1)
    assert LEAST_WAIT.pick([first, second]) is first
    assert compute_preference(
        RoutableNode(id=NodeId("n"), name="n", is_open=True, labels={}, free_bytes=7)
    ) < compute_preference(PLACE)
    assert LEAST_WAIT.pick([]) is None


@pytest.mark.behaviour("GW-60")
def test_fast_busy_replica_goes_before_a_slow_idle_one_until_its_line_is_as_long() -> None:
    for in_flight, wins in ((0, True), (2, True), (4, False), (9, False)):
        fast = Option(expected_s=expected_s(in_flight, 8, 1.0))
        slow = Option(expected_s=expected_s(0, 8, 4.0))
        assert (LEAST_WAIT.pick([slow, fast]) is fast) == wins, in_flight
    # One that works on more at a time is sooner done with the same line.
    assert expected_s(3, 8, 1.0) < expected_s(3, 4, 1.0)


@pytest.mark.behaviour("GW-60")
def test_replicas_within_five_percent_take_turns() -> None:
    little_slower = Option(expected_s=TIE_RATIO - 0.001, last_pick=1)
    assert LEAST_WAIT.pick([Option(expected_s=1.0, last_pick=2), little_slower]) is little_slower
    slower, best = Option(expected_s=TIE_RATIO + 0.001, last_pick=1), Option(expected_s=1.0, last_pick=2)
    assert LEAST_WAIT.pick([slower, best]) is best


@pytest.mark.behaviour("NODE-43")
def test_routing_counts_only_open_selected_nodes_and_the_present_revision() -> None:
    assert is_candidate("r", "r", PLACE, {})
    assert is_candidate("r", "r", PLACE, {"zone": "a"})
    assert not is_candidate("r", "r", PLACE, {"zone": "b"})
    assert not is_candidate("old", "r", PLACE, {})
    assert not is_candidate("r", "r", None, {})
    assert not is_candidate("r", "r", RoutableNode(id=NodeId("n"), name="n", is_open=False, labels={}), {})


waits = st.one_of(st.just(NEVER), st.floats(0.001, 100.0))


@given(st.lists(st.tuples(waits, st.integers(0, 9)), max_size=12))
def test_replica_with_the_least_expected_wait_is_always_picked(drawn: list[tuple[float, int]]) -> None:
    options = [Option(expected_s=wait_s, last_pick=picked) for wait_s, picked in drawn]
    chosen = LEAST_WAIT.pick(options)
    lowest_s = min((option.expected_s for option in options), default=NEVER)
    assert (chosen is None) == (lowest_s == NEVER)
    if chosen is not None:
        alike = [option for option in options if option.expected_s <= lowest_s * TIE_RATIO]
        assert chosen in alike
        assert chosen.last_pick == min(option.last_pick for option in alike)


@given(replicas=st.integers(1, 8), requests=st.integers(0, 60), name=st.sampled_from(["", "round_robin"]))
@pytest.mark.behaviour("NODE-59")
def test_requests_that_end_at_once_go_round(replicas: int, requests: int, name: str) -> None:
    options = [Option(name=str(number)) for number in range(replicas)]
    seen: Counter[str] = Counter()
    for number in range(1, requests + 1):
        chosen = find_policy(name).pick(options)
        assert chosen is not None
        chosen.last_pick = number
        seen[chosen.name] += 1
    assert max(seen.values(), default=0) - min((seen[option.name] for option in options), default=0) <= 1


def test_round_robin_ignores_waits_and_skips_replicas_that_take_no_requests() -> None:
    full, slow, fast = (
        Option(expected_s=NEVER),
        Option(expected_s=9.0, last_pick=1),
        Option(expected_s=1.0, last_pick=2),
    )
    assert RoundRobinPolicy().pick([full, slow, fast]) is slow
    assert RoundRobinPolicy().pick([full]) is None


def test_policy_that_is_not_there_yet_is_the_usual_one() -> None:
    assert isinstance(find_policy("prefix_cache"), LeastWaitPolicy)
    assert isinstance(find_policy(""), LeastWaitPolicy)
    assert isinstance(find_policy("round_robin"), RoundRobinPolicy)


def test_unknown_speed_of_a_replica_is_the_median_of_the_others() -> None:
    assert compute_typical_s([None, None]) == UNKNOWN_S
    assert compute_typical_s([1.0, None, 30.0, 2.0]) == 2.0
    assert 1.0 < update_average(1.0, 8.0) < 2.0


def test_learnt_speed_of_an_idle_replica_fades_towards_the_others() -> None:
    assert fade_average(9.0, 1.0, 0.0) == 9.0
    assert fade_average(9.0, 1.0, FADING_HALF_S) == pytest.approx(5.0)
    assert fade_average(9.0, 1.0, 100 * FADING_HALF_S) == pytest.approx(1.0)


@given(capacity=st.integers(1, 200), shares=st.lists(st.integers(1, 200), max_size=6))
def test_frontend_may_use_what_others_leave_and_never_less_than_its_share(capacity: int, shares: list[int]) -> None:
    room = compute_allowed_in_flight(capacity, sum(shares), len(shares))
    assert room >= max(1, capacity // (len(shares) + 1))
    assert room <= capacity
    if sum(shares) < capacity:
        assert room >= capacity - sum(shares)


def test_time_to_wait_grows_with_the_line_and_has_bounds() -> None:
    assert compute_retry_after_s(waiting=99, max_in_flight=10, response_s=2.0) == 20
    assert compute_retry_after_s(waiting=0, max_in_flight=64, response_s=0.01) == 1
    assert compute_retry_after_s(waiting=10**6, max_in_flight=0, response_s=60.0) == 300


def test_pick_is_explained_by_the_numbers_that_it_goes_by() -> None:
    def term(name: str, expected: float | None, picked: int = 0, **more: object) -> CandidateSnapshot:
        values = {"in_flight": 3, "capacity": 4, "response_s": 2.0, "is_learnt": True, "free_bytes": 0} | more
        return CandidateSnapshot(replica_id=name, node_name=name, expected_s=expected, last_pick=picked, **values)  # type: ignore[arg-type]

    full = term("full", None, in_flight=4)
    ill = term("ill", None, breaker=BreakerState.OPEN)
    explained = order_candidates([full, term("slow", 9.0), term("b", 1.04, picked=2), term("a", 1.0, picked=5), ill])
    assert [one.replica_id for one in explained][:3] == ["b", "a", "slow"]
    assert "4 requests of 4" in full.sentence
    assert "failed" in ill.sentence
    assert "1.04 s expected" in explained[0].sentence
    assert "learnt" in explained[0].sentence
    assert math.isinf(NEVER)
