"""When a replica is left alone, and when it gets another chance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.policy.serving.breaker import (
    IN_A_ROW_MAX,
    JITTER,
    OPEN_MOST_S,
    OPEN_S,
    RECENT,
    Breaker,
    BreakerState,
    Verdict,
    judge,
)


def opened(now: float = 0.0) -> Breaker:
    breaker = Breaker()
    for _ in range(IN_A_ROW_MAX):
        breaker.failed(now, 0.0)
    return breaker


@pytest.mark.behaviour("GW-63")
def test_five_failures_in_a_row_open_it_and_one_success_between_them_does_not() -> None:
    breaker = Breaker()
    for _ in range(2):
        for _ in range(IN_A_ROW_MAX - 1):
            breaker.failed(0.0, 0.0)
        breaker.succeeded()
    assert breaker.state(0.0) is BreakerState.CLOSED
    assert opened().state(0.0) is BreakerState.OPEN


@pytest.mark.behaviour("GW-63")
def test_more_than_half_of_the_last_twenty_open_it() -> None:
    breaker = Breaker()
    for _ in range(RECENT // 2):
        breaker.succeeded()
        breaker.failed(0.0, 0.0)
    assert breaker.state(0.0) is BreakerState.CLOSED
    breaker.failed(0.0, 0.0)
    assert breaker.state(0.0) is BreakerState.OPEN


def test_failures_that_are_long_past_do_not_count() -> None:
    breaker = Breaker()
    for _ in range(100):
        for outcome in (True, True, False):
            breaker.succeeded() if outcome else breaker.failed(0.0, 0.0)
    assert breaker.state(0.0) is BreakerState.CLOSED


@pytest.mark.behaviour("GW-64")
def test_after_its_time_one_is_let_through_and_closes_it_if_it_is_answered() -> None:
    breaker = opened()
    assert not breaker.lets_one_through(OPEN_S / 2)
    assert breaker.state(OPEN_S) is BreakerState.HALF_OPEN
    assert breaker.lets_one_through(OPEN_S)
    breaker.begin_trial()
    assert not breaker.lets_one_through(OPEN_S)
    breaker.succeeded(is_trial=True)
    breaker.end_trial()
    assert breaker.state(OPEN_S) is BreakerState.CLOSED
    # What was before is forgotten: it takes five again.
    breaker.failed(OPEN_S, 0.0)
    assert breaker.state(OPEN_S) is BreakerState.CLOSED


@pytest.mark.behaviour("GW-64")
def test_a_trial_that_nobody_saw_through_makes_way_for_the_next() -> None:
    breaker = opened()
    breaker.begin_trial()
    breaker.end_trial()
    assert breaker.lets_one_through(OPEN_S)


@pytest.mark.behaviour("GW-63")
def test_each_trial_that_fails_doubles_the_time_up_to_half_a_minute() -> None:
    breaker, now, times = opened(), 0.0, []
    for _ in range(8):
        assert breaker.until is not None
        times.append(breaker.until - now)
        now = breaker.until
        breaker.begin_trial()
        breaker.failed(now, 0.0, is_trial=True)
        breaker.end_trial()
    assert times == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_calls_that_began_before_it_opened_neither_close_it_nor_make_it_longer() -> None:
    breaker = opened()
    until = breaker.until
    breaker.succeeded()
    breaker.failed(0.5, 0.0)
    assert breaker.until == until


def test_who_is_known_to_be_gone_is_left_alone_at_once() -> None:
    breaker = Breaker()
    breaker.trip(10.0, 0.0)
    assert breaker.until == 10.0 + OPEN_S


@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 10.0), st.floats(0.0, 1.0)), max_size=60))
def test_it_is_never_open_for_longer_than_its_limit(steps: list[tuple[bool, float, float]]) -> None:
    breaker, now = Breaker(), 0.0
    for is_well, pause_s, jitter in steps:
        now += pause_s
        is_trial = breaker.until is not None
        if is_trial:
            breaker.begin_trial()
        if is_well:
            breaker.succeeded(is_trial=is_trial)
        else:
            breaker.failed(now, jitter, is_trial=is_trial)
        if is_trial:
            breaker.end_trial()
        assert breaker.until is None or breaker.until - now <= OPEN_MOST_S * (1 + JITTER)
        assert not (is_well and is_trial) or breaker.until is None


@pytest.mark.behaviour("NODE-113")
@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (200, b"model not loaded", Verdict.WELL),
        (400, b'{"error": "Wrong role."}', Verdict.WELL),
        (400, b'{"error": {"code": "model_not_loaded"}}', Verdict.NOT_LOADED),
        (401, b"", Verdict.NOT_OURS),
        (404, b"No face in the picture.", Verdict.WELL),
        (404, b"model not loaded", Verdict.WELL),
        (429, b"", Verdict.WELL),
        (500, b"", Verdict.FAILED),
        (502, b"model not loaded", Verdict.FAILED),
        (503, b"Loading model", Verdict.BUSY),
        (503, b"Model is NOT loaded.", Verdict.NOT_LOADED),
        (503, b" " * 5000 + b"model not loaded", Verdict.BUSY),
    ],
)
def test_what_an_answer_says_about_its_engine(status: int, body: bytes, verdict: Verdict) -> None:
    assert judge(status, body) is verdict
