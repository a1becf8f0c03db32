"""Where a page of the record ends, as a text for the next call: the moment of an end and the id that had it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from corral.domain.errors import InvalidRequest
from corral.domain.operation import Operation

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CURSOR = re.compile(r"(\d{1,17})-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.ASCII)


def cursor_after(operation: Operation) -> str:
    assert operation.finished_at is not None, "the record holds what has ended"
    # Whole microseconds, as PostgreSQL keeps them: a fraction of one would skip or repeat a row.
    return f"{(operation.finished_at - _EPOCH) // timedelta(microseconds=1)}-{operation.id}"


def parse_cursor(text: str) -> tuple[datetime, str]:
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise InvalidRequest(
            "before: this is not a place in the record.", hint="Send the `next` of the page before.", code="bad_cursor"
        )
    return _EPOCH + timedelta(microseconds=int(match[1])), match[2]
