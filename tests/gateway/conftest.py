"""A frontend with one model, whose engine does what the test says; on the loop of production."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from tests.gateway.scene import Records
from tests.serving.scene import keep_only_the_feed, put_model, put_replica, settled
from tests.support.engines import MisbehavingEngine, run_misbehaving_engine
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import join_node


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def engine() -> AsyncIterator[MisbehavingEngine]:
    async with run_misbehaving_engine() as running:
        yield running


@pytest.fixture
async def other() -> AsyncIterator[MisbehavingEngine]:
    async with run_misbehaving_engine() as running:
        yield running


@pytest.fixture
async def frontend(database_url: str, engine: MisbehavingEngine) -> AsyncIterator[RunningFrontend]:
    async with running_frontend(database_url) as running:
        await keep_only_the_feed(running)
        await put_model(running.database)
        node = await join_node(running)
        await put_replica(running.database, node.id, engine.address)
        await settled(running)
        yield running


@pytest.fixture
def records(frontend: RunningFrontend) -> Records:
    recorder = Records()
    frontend.core.gateway.listeners.append(recorder)
    return recorder
