"""The outages in full length. Not part of `make test`; `make chaos` runs them."""

from __future__ import annotations

import pytest

from tests.e2e.gateway.outages import goes_away
from tests.e2e.models.scene import Models

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1200)]

TEN_MINUTES_S = 600.0


async def test_postgresql_is_away_for_ten_minutes_under_traffic(models: Models) -> None:
    await goes_away(models, "ten-minutes", postgres=True, away_s=TEN_MINUTES_S)


async def test_postgresql_and_nats_are_away_for_ten_minutes_under_traffic(models: Models) -> None:
    await goes_away(models, "ten-minutes-without-both", postgres=True, nats=True, away_s=TEN_MINUTES_S)
