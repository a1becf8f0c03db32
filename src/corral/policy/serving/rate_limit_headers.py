"""Renders what is left to a key with limits, as the headers that OpenAI's and Anthropic's clients expect.

Of several limits at once the tightest is shown: the one of which least is left. The balance is what this frontend would
admit, which is its share where there are several.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timedelta

from corral.domain.access import KeyAllowance, LimitBalance

RateLimitHeaders = list[tuple[bytes, bytes]]


def pick_tightest(known: Iterable[LimitBalance]) -> LimitBalance | None:
    """Return the limit of which least is left; of equal ones, the one that takes longest to reset."""
    return min(known, key=lambda left: (left.remaining, -left.reset_s), default=None)


def render_openai_headers(allowance: KeyAllowance) -> RateLimitHeaders:
    lines: RateLimitHeaders = []
    for kind, left in ((b"requests", allowance.requests), (b"tokens", allowance.tokens)):
        if left is not None:
            lines += [
                (b"x-ratelimit-limit-" + kind, b"%d" % left.limit),
                (b"x-ratelimit-remaining-" + kind, b"%d" % left.remaining),
                (b"x-ratelimit-reset-" + kind, format_duration(left.reset_s).encode()),
            ]
    return lines


def render_anthropic_headers(allowance: KeyAllowance, now: datetime) -> RateLimitHeaders:
    lines: RateLimitHeaders = []
    for kind, left in ((b"requests", allowance.requests), (b"tokens", allowance.tokens)):
        if left is not None:
            reset_at = now + timedelta(seconds=math.ceil(left.reset_s))
            lines += [
                (b"anthropic-ratelimit-%b-limit" % kind, b"%d" % left.limit),
                (b"anthropic-ratelimit-%b-remaining" % kind, b"%d" % left.remaining),
                (b"anthropic-ratelimit-%b-reset" % kind, f"{reset_at:%Y-%m-%dT%H:%M:%SZ}".encode()),
            ]
    return lines


def format_duration(seconds: float) -> str:
    """Format a duration as OpenAI does: `0s`, `20ms`, `8.64s`, `6m0s`, `23h59m1s`."""
    thousandths = max(0, math.ceil(seconds * 1000))
    if thousandths < 60_000:
        return f"{thousandths}ms" if 0 < thousandths < 1000 else f"{thousandths / 1000:g}s"
    minutes, left_s = divmod(math.ceil(thousandths / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{left_s}s" if hours else f"{minutes}m{left_s}s"
