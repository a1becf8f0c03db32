"""Checks JSON of requests for values that PostgreSQL cannot store, although decoders accept them.

These are texts with NUL or half of a surrogate pair, and numbers that are not finite: `NaN`, `1e999`.
"""

from __future__ import annotations

import math

from corral.domain.errors import InvalidRequest


def check_storable(value: object) -> None:
    """Raise `InvalidRequest` for a JSON value that cannot be stored, at any depth."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, str) and not _is_storable_text(item):
            raise make_unstorable_text_error()
        elif isinstance(item, float) and not math.isfinite(item):
            raise InvalidRequest("A number in the request is not finite.", code="bad_number")


def make_unstorable_text_error() -> InvalidRequest:
    return InvalidRequest("A text in the request holds characters that cannot be stored.", code="bad_text")


def _is_storable_text(text: str) -> bool:
    if "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
