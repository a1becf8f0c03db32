"""Whose turn it is, and that everybody gets one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.policy.serving.fair_queue import FairQueue


def test_requests_of_one_key_are_served_in_order_of_arrival() -> None:
    turns: FairQueue[int] = FairQueue()
    for number in range(20):
        turns.add("a", 100, number)
    assert [turns.pop() for _ in range(20)] == list(range(20))
    assert turns.pop() is None
    assert len(turns) == 0


@pytest.mark.behaviour("GW-65")
def test_request_does_not_wait_behind_a_thousand_of_another_key() -> None:
    turns: FairQueue[str] = FairQueue(quantum=1000)
    for _ in range(1000):
        turns.add("crowd", 1000, "crowd")
    turns.add("single", 1000, "single")
    assert "single" in [turns.pop() for _ in range(2)]


@pytest.mark.behaviour("GW-65")
def test_shares_are_in_tokens_and_not_in_requests() -> None:
    turns: FairQueue[str] = FairQueue(quantum=1000)
    for _ in range(1000):
        turns.add("long", 5000, "long")
        turns.add("short", 100, "short")
    served = Counter(turns.pop() for _ in range(510))
    assert 40 <= served["short"] / served["long"] <= 60


def test_removed_item_leaves_the_order_of_the_others() -> None:
    turns: FairQueue[str] = FairQueue()
    tickets = {name: turns.add("a", 1, name) for name in ("first", "second", "third")}
    assert turns.remove(tickets["second"])
    assert not turns.remove(tickets["second"])
    assert [turns.pop(), turns.pop(), turns.pop()] == ["first", "third", None]
    assert not turns.remove(tickets["first"])


def test_key_without_waiting_items_accumulates_no_credit() -> None:
    turns: FairQueue[str] = FairQueue(quantum=1000)
    turns.add("a", 1, "a")
    turns.pop()
    for _ in range(3):
        turns.add("a", 600, "a")
        turns.add("b", 600, "b")
    # With the 999 that were left, the first key would be given two in a row.
    assert [turns.pop() for _ in range(2)] == ["a", "b"]


def test_turns_can_be_cleared_at_once() -> None:
    turns: FairQueue[int] = FairQueue()
    for number in range(4):
        turns.add(str(number % 2), 1, number)
    assert sorted(turns.clear()) == [0, 1, 2, 3]
    assert len(turns) == 0
    assert turns.pop() is None


costs = st.integers(1, 5000)


def by_the_book(lanes: dict[str, list[int]], quantum: int) -> Iterator[tuple[str, int]]:
    """Deficit round robin as it is written down, one round after the other."""
    deficits = dict.fromkeys(lanes, 0)
    while lanes:
        for who in tuple(lanes):
            deficits[who] += quantum
            while lanes[who] and lanes[who][0] <= deficits[who]:
                deficits[who] -= lanes[who][0]
                yield who, lanes[who].pop(0)
            if not lanes[who]:
                del lanes[who]


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(costs, min_size=1, max_size=8)), st.integers(1, 700))
def test_skipping_empty_rounds_does_not_change_the_order(lanes: dict[str, list[int]], quantum: int) -> None:
    turns: FairQueue[tuple[str, int]] = FairQueue(quantum)
    for who, own in lanes.items():
        for cost in own:
            turns.add(who, cost, (who, cost))
    expected = list(by_the_book({who: list(own) for who, own in lanes.items()}, quantum))
    assert [turns.pop() for _ in range(len(turns))] == expected


@given(
    quantum=st.integers(1, 3000),
    keys=st.lists(st.lists(costs, min_size=30, max_size=30), min_size=2, max_size=5),
    rounds=st.integers(1, 60),
)
def test_waiting_keys_differ_by_at_most_a_quantum_and_a_request(
    quantum: int, keys: list[list[int]], rounds: int
) -> None:
    turns: FairQueue[tuple[int, int]] = FairQueue(quantum)
    for place in range(30):
        for key, own in enumerate(keys):
            turns.add(str(key), own[place], (key, own[place]))
    served, left = [0] * len(keys), [30] * len(keys)
    dearest = max(max(own) for own in keys)
    for _ in range(rounds):
        taken = turns.pop()
        if taken is None or min(left) <= 1:
            return
        key, cost = taken
        served[key] += cost
        left[key] -= 1
        assert max(served) - min(served) <= quantum + dearest


@given(
    steps=st.lists(st.tuples(st.sampled_from("abc"), costs, st.booleans()), max_size=80),
    quantum=st.integers(1, 2000),
)
def test_waiting_key_is_served_however_many_arrive_later(steps: list[tuple[str, int, bool]], quantum: int) -> None:
    """A steady crowd comes in behind; the one who waited before it is served within a bounded number of turns."""
    turns: FairQueue[str] = FairQueue(quantum)
    for who, cost, takes in steps:
        turns.add(who, cost, "somebody")
        if takes:
            turns.pop()
    before = len(turns)
    turns.add("patient", 5000, "patient")
    for number in range(before + 5000 * 3 + 10):
        turns.add("crowd", 1, "crowd")
        if turns.pop() == "patient":
            return
        assert number < before + 5000 * 3, "starved"


@given(st.lists(st.tuples(st.sampled_from("abcd"), costs, st.sampled_from(["add", "take", "leave"])), max_size=100))
def test_queued_requests_are_served_once_or_have_left(steps: list[tuple[str, int, str]]) -> None:
    turns: FairQueue[int] = FairQueue(512)
    waiting: dict[int, int] = {}
    for number, (who, cost, act) in enumerate(steps):
        if act == "add":
            waiting[number] = turns.add(who, cost, number)
        elif act == "take":
            taken = turns.pop()
            assert (taken is None) == (not waiting)
            if taken is not None:
                del waiting[taken]
        elif waiting:
            left = next(iter(waiting))
            assert turns.remove(waiting.pop(left))
        assert len(turns) == len(waiting)
    assert {turns.pop() for _ in range(len(waiting))} == set(waiting)
