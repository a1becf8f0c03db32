"""A frontend that follows the registry and leaves it alone otherwise, and the pretending engine as a real process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.engines.engine_processes import Engine
from tests.serving.scene import an_engine, keep_only_the_feed
from tests.support.frontends import RunningFrontend, running_frontend


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    async with running_frontend(database_url) as running:
        await keep_only_the_feed(running)
        yield running


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with an_engine(tmp_path) as running:
        yield running
