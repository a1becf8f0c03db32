"""Where the placer puts replicas, and what it reserves there, on real rows with workers that do what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from corral.store import loads as load_store
from corral.store.database import Database
from tests.loading.machines import GIB, LoadFrontend, machines
from tests.loading.scene import ask, put_model, reserved, rows
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


CARD = {"total_vram": str(80 * GIB), "available_vram": str(80 * GIB)}


@pytest.mark.behaviour("PLACE-10")
async def test_loading_a_processor_build_on_a_node_with_a_gpu_reserves_and_observes_ram(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    """The fleet's only build for this card is `cpu-engine`."""
    (one,) = await machines(database, hub, "gpu", capability="'amd'", **CARD)
    await put_model(database, ram_bytes=4 * GIB, vram_bytes=5 * GIB)
    await ask(frontend)
    await frontend.run()
    (row,) = await rows(database)
    assert (row.backend, row.vram_bytes, row.ram_bytes) == ("cpu-engine", 0, 4 * GIB)
    assert [(one.vram_bytes, one.ram_bytes) for one in await reserved(database)] == [(0, 4 * GIB)]
    await one.load_done()
    await frontend.run()
    assert await observed(database) == {"cpu": {"ram_bytes": 1000, "vram_bytes": None}}


@pytest.mark.behaviour("PLACE-10")
async def test_loading_a_gpu_build_on_a_node_with_a_gpu_reserves_and_observes_vram(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "gpu", capability="'nvidia'", **CARD)
    await put_model(database, ram_bytes=4 * GIB, vram_bytes=5 * GIB)
    await ask(frontend)
    await frontend.run()
    (row,) = await rows(database)
    assert (row.backend, row.vram_bytes, row.ram_bytes) == ("cuda-engine", 5 * GIB, 4 * GIB)
    await one.load_done()
    await frontend.run()
    assert set(await observed(database)) == {"gpu"}


async def observed(database: Database, model: str = "chat") -> dict[str, object]:
    """What is stored of the memory that replicas of the model took, by the memory that they used."""
    async with database.transaction() as tx:
        document = await load_store.find_observed(tx, model)
    return {key: value for key, value in (document or {}).items() if key != "run_hash"}


@pytest.mark.behaviour("NODE-26")
async def test_concurrent_loads_are_placed_only_within_the_vram_budget(database: Database, hub: Hub) -> None:
    card = {"total_vram": str(12 * GIB), "available_vram": str(12 * GIB), "gpu_vendor": "'nvidia'"}
    await machines(database, hub, "a", budget_reported="'5GiB'", **card)
    names = ("one", "two", "three")
    for name in names:
        await put_model(database, name, vram_bytes=3 * GIB)
    frontends = [await LoadFrontend(database, hub, f"frontend-{number}").plug_in() for number in range(3)]
    try:
        for frontend, name in zip(frontends, names, strict=True):
            await ask(frontend, name)
        async with asyncio.TaskGroup() as group:
            for frontend in frontends:
                group.create_task(frontend.turn())
        assert len(await rows(database)) == 1
        (reservation,) = await reserved(database)
        assert reservation.vram_bytes == 3 * GIB
    finally:
        for frontend in frontends:
            await frontend.close()
