"""Trace contexts of clients: sent on only if an engine can take them as they are."""

from __future__ import annotations

import pytest

from corral.ports.requests import sanitise_traceparent

VALID = f"00-{'a' * 32}-{'b' * 16}-01"


def test_valid_traceparent_is_sent_on_unchanged() -> None:
    assert sanitise_traceparent(VALID) == VALID


@pytest.mark.parametrize("header", ["", f" {VALID}", VALID.upper(), f"{VALID}-more", f"{VALID}\r\nX: y", VALID[:-1]])
def test_traceparent_of_another_form_is_not_sent_on(header: str) -> None:
    assert sanitise_traceparent(header) == ""
