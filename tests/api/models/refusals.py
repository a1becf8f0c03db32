"""What a refusal looks like."""

from __future__ import annotations

from typing import Any

from tests.api.operations import assert_envelope


def assert_refused(answer: tuple[int, Any], status: int, code: str) -> Any:
    """The error, which is one of ours with this status and code."""
    assert (answer[0], answer[1]["error"]["code"]) == (status, code), answer
    assert_envelope(answer[1])
    return answer[1]["error"]
