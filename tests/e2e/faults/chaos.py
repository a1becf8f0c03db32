"""The outages in full length, and the crowds in full size. Not part of `make test`; `make chaos` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.faults.outages import nats_goes_away
from tests.e2e.runs.many import many_runs_end_once, runs_go_on_without_nats, runs_go_on_without_postgres


@pytest.mark.timeout(600)
async def test_nats_is_away_for_two_minutes(tmp_path: Path) -> None:
    await nats_goes_away(tmp_path, 120.0)


@pytest.mark.timeout(900)
async def test_runs_go_on_while_postgresql_is_away_for_a_minute(tmp_path: Path) -> None:
    await runs_go_on_without_postgres(tmp_path, 60.0)


@pytest.mark.timeout(900)
async def test_runs_go_on_while_nats_is_away_for_a_minute(tmp_path: Path) -> None:
    await runs_go_on_without_nats(tmp_path, 60.0)


@pytest.mark.timeout(3600)
async def test_thousand_runs_that_are_requested_at_once_are_accepted_and_each_ends_once(tmp_path: Path) -> None:
    await many_runs_end_once(tmp_path, 1000)
