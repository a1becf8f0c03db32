"""The headers with which a caller says which revision a change may replace."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header

from corral.domain.errors import InvalidRequest

IfMatch = Annotated[str | None, Header(description="The revision that was seen; another one is refused with 409.")]
IfNoneMatch = Annotated[str | None, Header(description="`*`: only if there is none yet.")]


def parse_expected_revision(if_match: str | None, if_none_match: str | None = None) -> int | None:
    """Return the expected revision: None if any will do, 0 if there must be none yet."""
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise InvalidRequest("If-None-Match is understood as `*` only.", code="bad_revision")
        return 0
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/").strip('"')
    if not text.isascii() or not text.isdigit() or not 1 <= len(text) <= 9:
        raise InvalidRequest(f"If-Match {if_match[:40]!r} is not the number of a revision.", code="bad_revision")
    return int(text)
