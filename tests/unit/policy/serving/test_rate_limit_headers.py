"""Lines that tell what is left: forms that the clients' own parsers take."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from corral.domain.access import KeyAllowance, LimitBalance
from corral.policy.serving.rate_limit_headers import (
    format_duration,
    pick_tightest,
    render_anthropic_headers,
    render_openai_headers,
)


def left(remaining: int, reset_s: float = 1.0, limit: int = 100) -> LimitBalance:
    return LimitBalance(limit=limit, remaining=remaining, reset_s=reset_s)


@pytest.mark.behaviour("GW-132")
@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (-1.0, "0s"),
        (0.0, "0s"),
        (0.0001, "1ms"),
        (0.02, "20ms"),
        (0.9995, "1s"),
        (8.64, "8.64s"),
        (59.9999, "1m0s"),
        (360.0, "6m0s"),
        (3599.2, "1h0m0s"),
        (86_341.0, "23h59m1s"),
        (28 * 86_400.0, "672h0m0s"),
    ],
)
def test_time_is_written_as_openai_writes_it(seconds: float, written: str) -> None:
    assert format_duration(seconds) == written


@pytest.mark.behaviour("GW-132")
def test_allowance_of_several_limits_is_the_tightest() -> None:
    assert pick_tightest([]) is None
    assert pick_tightest([left(5), left(3), left(4)]) == left(3)
    assert pick_tightest([left(0, 2.0), left(0, 90.0)]) == left(0, 90.0)


@pytest.mark.behaviour("GW-132")
def test_rate_limit_headers_contain_only_the_kinds_that_are_limited() -> None:
    assert render_openai_headers(KeyAllowance()) == []
    assert render_openai_headers(KeyAllowance(requests=left(3))) == [
        (b"x-ratelimit-limit-requests", b"100"),
        (b"x-ratelimit-remaining-requests", b"3"),
        (b"x-ratelimit-reset-requests", b"1s"),
    ]
    now = datetime(2026, 1, 31, 23, 59, 30, 500_000, tzinfo=UTC)
    assert render_anthropic_headers(KeyAllowance(tokens=left(3, 29.2)), now) == [
        (b"anthropic-ratelimit-tokens-limit", b"100"),
        (b"anthropic-ratelimit-tokens-remaining", b"3"),
        (b"anthropic-ratelimit-tokens-reset", b"2026-02-01T00:00:00Z"),
    ]
