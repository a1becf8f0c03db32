"""Which replica answers: the pure decision."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.domain.node import NodeId
from corral.policy.routing import Choice, Place, is_candidate, pick

PLACE = Place(id=NodeId("n"), name="n", is_open=True, labels={"zone": "a"})


@pytest.mark.behaviour("NODE-58")
def test_the_least_busy_is_picked_then_the_one_whose_turn_it_is_then_the_one_with_most_room() -> None:
    busy = Choice(id="busy", in_flight=2, picked=1, free_bytes=100)
    idle = Choice(id="idle", in_flight=0, picked=9, free_bytes=1)
    assert pick([busy, idle]) == idle
    longer_ago = Choice(id="longer ago", in_flight=0, picked=3, free_bytes=0)
    assert pick([busy, idle, longer_ago]) == longer_ago
    roomy = Choice(id="roomy", in_flight=0, picked=3, free_bytes=7)
    assert pick([busy, idle, longer_ago, roomy]) == roomy
    assert pick([]) is None


@pytest.mark.behaviour("NODE-61")
def test_a_preferred_replica_is_picked_if_it_is_there_and_otherwise_nothing_changes() -> None:
    choices = [Choice(id="a", in_flight=0), Choice(id="b", in_flight=5)]
    assert pick(choices, preferred=lambda choice: choice.id == "b") == choices[1]
    assert pick(choices, preferred=lambda choice: choice.id == "gone") == choices[0]
    assert pick(choices, without={"b"}, preferred=lambda choice: choice.id == "b") == choices[0]


@pytest.mark.behaviour("NODE-43")
def test_only_open_nodes_that_the_selector_means_and_only_the_present_revision_count() -> None:
    assert is_candidate("r", "r", PLACE, {})
    assert is_candidate("r", "r", PLACE, {"zone": "a"})
    assert not is_candidate("r", "r", PLACE, {"zone": "b"})
    assert not is_candidate("old", "r", PLACE, {})
    assert not is_candidate("r", "r", None, {})
    assert not is_candidate("r", "r", Place(id=NodeId("n"), name="n", is_open=False, labels={}), {})


@given(
    counts=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12),
    without=st.sets(st.integers(0, 11)),
)
def test_nobody_less_busy_is_ever_passed_over(counts: list[tuple[int, int, int]], without: set[int]) -> None:
    choices = [
        Choice(id=str(number), in_flight=busy, picked=picked, free_bytes=free)
        for number, (busy, picked, free) in enumerate(counts)
    ]
    left = [choice for choice in choices if int(choice.id) not in without]
    chosen = pick(choices, without={str(number) for number in without})
    assert (chosen is None) == (not left)
    if chosen is not None:
        assert chosen in left
        assert chosen.in_flight == min(choice.in_flight for choice in left)


@given(replicas=st.integers(1, 8), requests=st.integers(0, 60))
@pytest.mark.behaviour("NODE-59")
def test_requests_that_end_at_once_go_round(replicas: int, requests: int) -> None:
    picked = dict.fromkeys(map(str, range(replicas)), 0)
    seen: Counter[str] = Counter()
    for number in range(1, requests + 1):
        chosen = pick([Choice(id=name, picked=last) for name, last in picked.items()])
        assert chosen is not None
        picked[chosen.id] = number
        seen[chosen.id] += 1
    assert max(seen.values(), default=0) - min((seen[name] for name in picked), default=0) <= 1
