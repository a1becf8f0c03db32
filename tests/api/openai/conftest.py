"""A frontend that follows the registry and leaves it alone otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.serving.scene import keep_only_the_feed
from tests.support.frontends import RunningFrontend, running_frontend


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    async with running_frontend(database_url) as running:
        await keep_only_the_feed(running)
        yield running
