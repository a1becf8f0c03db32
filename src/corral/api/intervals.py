"""Reads intervals of request bodies: a number counts minutes, as LocalAI's do; a text is a duration, such as 1h."""

from __future__ import annotations

from corral.domain.duration import find_seconds
from corral.domain.errors import InvalidRequest


def parse_interval_s(field: str, value: float | str) -> float:
    """Return the seconds of an interval. Raises `InvalidRequest`, which names the field, if the text is none."""
    if not isinstance(value, str):
        return float(value) * 60
    seconds = find_seconds(value.strip())
    if seconds is None:
        raise InvalidRequest(
            f"{field}: {value[:40]!r} is not a duration.", hint="Write 30m or 1d.", code="bad_interval"
        )
    return seconds
