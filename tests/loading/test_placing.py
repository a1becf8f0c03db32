"""Where the placer puts replicas, and what it reserves there, on real rows with workers that do what the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from corral.store.database import Database
from tests.loading.machines import LoadFrontend, machines
from tests.loading.scene import ask, put_model, rows
from tests.operations.fake_bus import Hub


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def frontend(database: Database, hub: Hub) -> AsyncIterator[LoadFrontend]:
    made = await LoadFrontend(database, hub).plug_in()
    yield made
    await made.close()


@pytest.mark.behaviour("PLACE-2")
async def test_loading_a_third_model_on_two_threads_evicts_nothing_while_memory_is_free(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a", cpu_threads="2")
    for name in ("chat", "whisper", "embeddings"):
        await put_model(database, name)
        await ask(frontend, name)
        await frontend.run()
        await one.load_done()
        await frontend.run()
    assert [(row.model, row.state, row.threads) for row in await rows(database)] == [
        ("chat", "loaded", 1),
        ("embeddings", "loaded", 1),
        ("whisper", "loaded", 1),
    ]
