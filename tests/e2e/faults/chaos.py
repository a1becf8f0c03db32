"""The outages in full length. Not part of `make test`; `make chaos` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.faults.outages import nats_goes_away


@pytest.mark.timeout(600)
async def test_nats_is_away_for_two_minutes(tmp_path: Path) -> None:
    await nats_goes_away(tmp_path, 120.0)
