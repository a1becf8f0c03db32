"""A frontend with one model, whose engine does what the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.gateway.scene import Records
from tests.serving.scene import keep_only_the_feed, put_model, put_replica, settled
from tests.support.engines import MisbehavingEngine, misbehaving
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import joined


@pytest.fixture
async def engine() -> AsyncIterator[MisbehavingEngine]:
    async with misbehaving() as running:
        yield running


@pytest.fixture
async def other() -> AsyncIterator[MisbehavingEngine]:
    async with misbehaving() as running:
        yield running


@pytest.fixture
async def frontend(database_url: str, engine: MisbehavingEngine) -> AsyncIterator[RunningFrontend]:
    async with running_frontend(database_url) as running:
        await keep_only_the_feed(running)
        await put_model(running.database)
        node = await joined(running)
        await put_replica(running.database, node.id, engine.address)
        await settled(running)
        yield running


@pytest.fixture
def records(frontend: RunningFrontend) -> Records:
    heard = Records()
    frontend.core.gateway.listeners.append(heard)
    return heard
