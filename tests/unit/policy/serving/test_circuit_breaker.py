"""When a replica is left alone, and when it gets another chance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.policy.serving.circuit_breaker import (
    IN_A_ROW_MAX,
    JITTER,
    OPEN_MOST_S,
    OPEN_S,
    RECENT,
    BreakerState,
    CircuitBreaker,
    EngineVerdict,
    judge_response,
)


def opened(now: float = 0.0) -> CircuitBreaker:
    breaker = CircuitBreaker()
    for _ in range(IN_A_ROW_MAX):
        breaker.record_failure(now, 0.0)
    return breaker


@pytest.mark.behaviour("GW-63")
def test_five_failures_in_a_row_open_it_and_one_success_between_them_does_not() -> None:
    breaker = CircuitBreaker()
    for _ in range(2):
        for _ in range(IN_A_ROW_MAX - 1):
            breaker.record_failure(0.0, 0.0)
        breaker.record_success()
    assert breaker.get_state(0.0) is BreakerState.CLOSED
    assert opened().get_state(0.0) is BreakerState.OPEN


@pytest.mark.behaviour("GW-63")
def test_breaker_opens_after_more_than_half_of_the_last_twenty_fail() -> None:
    breaker = CircuitBreaker()
    for _ in range(RECENT // 2):
        breaker.record_success()
        breaker.record_failure(0.0, 0.0)
    assert breaker.get_state(0.0) is BreakerState.CLOSED
    breaker.record_failure(0.0, 0.0)
    assert breaker.get_state(0.0) is BreakerState.OPEN


def test_failures_that_are_long_past_do_not_count() -> None:
    breaker = CircuitBreaker()
    for _ in range(100):
        for outcome in (True, True, False):
            breaker.record_success() if outcome else breaker.record_failure(0.0, 0.0)
    assert breaker.get_state(0.0) is BreakerState.CLOSED


def test_breaker_lets_one_request_through_after_its_time_and_closes_on_success() -> None:
    breaker = opened()
    assert not breaker.allows_trial(OPEN_S / 2)
    assert breaker.get_state(OPEN_S) is BreakerState.HALF_OPEN
    assert breaker.allows_trial(OPEN_S)
    breaker.begin_trial()
    assert not breaker.allows_trial(OPEN_S)
    breaker.record_success(is_trial=True)
    breaker.end_trial()
    assert breaker.get_state(OPEN_S) is BreakerState.CLOSED
    # What was before is forgotten: it takes five again.
    breaker.record_failure(OPEN_S, 0.0)
    assert breaker.get_state(OPEN_S) is BreakerState.CLOSED


def test_trial_without_a_verdict_allows_the_next_one() -> None:
    breaker = opened()
    breaker.begin_trial()
    breaker.end_trial()
    assert breaker.allows_trial(OPEN_S)


@pytest.mark.behaviour("GW-63")
def test_each_trial_that_fails_doubles_the_time_up_to_half_a_minute() -> None:
    breaker, now, times = opened(), 0.0, []
    for _ in range(8):
        assert breaker.open_until is not None
        times.append(breaker.open_until - now)
        now = breaker.open_until
        breaker.begin_trial()
        breaker.record_failure(now, 0.0, is_trial=True)
        breaker.end_trial()
    assert times == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_calls_that_began_before_it_opened_neither_close_it_nor_make_it_longer() -> None:
    breaker = opened()
    until = breaker.open_until
    breaker.record_success()
    breaker.record_failure(0.5, 0.0)
    assert breaker.open_until == until


def test_breaker_opens_at_once_for_a_refused_connection() -> None:
    breaker = CircuitBreaker()
    breaker.trip(10.0, 0.0)
    assert breaker.open_until == 10.0 + OPEN_S


@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 10.0), st.floats(0.0, 1.0)), max_size=60))
def test_breaker_is_never_open_longer_than_its_limit(steps: list[tuple[bool, float, float]]) -> None:
    breaker, now = CircuitBreaker(), 0.0
    for is_well, pause_s, jitter in steps:
        now += pause_s
        is_trial = breaker.open_until is not None
        if is_trial:
            breaker.begin_trial()
        if is_well:
            breaker.record_success(is_trial=is_trial)
        else:
            breaker.record_failure(now, jitter, is_trial=is_trial)
        if is_trial:
            breaker.end_trial()
        assert breaker.open_until is None or breaker.open_until - now <= OPEN_MOST_S * (1 + JITTER)
        assert not (is_well and is_trial) or breaker.open_until is None


@pytest.mark.behaviour("NODE-113")
@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (200, b"model not loaded", EngineVerdict.WELL),
        (400, b'{"error": "Wrong role."}', EngineVerdict.WELL),
        (400, b'{"error": {"code": "model_not_loaded"}}', EngineVerdict.NOT_LOADED),
        (401, b"", EngineVerdict.NOT_OURS),
        (404, b"No face in the picture.", EngineVerdict.WELL),
        (404, b"model not loaded", EngineVerdict.WELL),
        (429, b"", EngineVerdict.WELL),
        (500, b"", EngineVerdict.FAILED),
        (502, b"model not loaded", EngineVerdict.FAILED),
        (503, b"Loading model", EngineVerdict.BUSY),
        (503, b"Model is NOT loaded.", EngineVerdict.NOT_LOADED),
        (503, b" " * 5000 + b"model not loaded", EngineVerdict.BUSY),
    ],
)
def test_response_is_judged_by_its_status(status: int, body: bytes, verdict: EngineVerdict) -> None:
    assert judge_response(status, body) is verdict
