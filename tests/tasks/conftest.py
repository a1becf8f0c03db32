"""A frontend with tasks, an owner, a model, and agent workers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from corral.domain.access import Owner
from corral.store.database import Database
from tests.loading.scene import put_model
from tests.operations.fake_bus import Hub
from tests.runs.scene import RunWorker, put_owner, put_workers
from tests.tasks.scene import TaskFrontend, WebhookReceiver, receiving_webhooks


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def frontend(database: Database, hub: Hub) -> AsyncIterator[TaskFrontend]:
    made = TaskFrontend(database, hub)
    await made.plug_in()
    await put_model(database)
    yield made
    await made.webhooks.close()
    await made.fetcher.stop()


@pytest.fixture
async def owner(database: Database) -> Owner:
    return await put_owner(database)


@pytest.fixture
async def worker(frontend: TaskFrontend, hub: Hub) -> RunWorker:
    [made] = await put_workers(frontend.database, hub, "agent-1", max_runs=4)
    return made


@pytest.fixture
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with receiving_webhooks() as made:
        yield made
