"""The memory of a node while a program of a run works there: what the placer sees of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.domain.run import RunNeeds
from corral.policy.runs import has_room
from corral.store import models as model_store
from tests.fine_tuning.scene import FineTuneScene, open_scene
from tests.support.nodes import GIB
from tests.unit.policy.builders import a_node


async def read_free_ram(scene: FineTuneScene) -> int:
    """Return how much RAM of the node the placer may give to models."""
    async with scene.frontend.database.transaction() as tx:
        model = await model_store.get_model(tx, "tiny")
        snapshot = await scene.frontend.core.model_operations.file_sources.placer.read_snapshot(tx, model)
    room = snapshot.fleet.rooms[scene.worker.node.id]  # type: ignore[index]
    assert room.ram is not None
    return room.ram


@pytest.mark.behaviour("TUNE-22")
async def test_memory_of_a_training_is_taken_before_the_node_reports_it(database_url: str, tmp_path: Path) -> None:
    async with open_scene(database_url, tmp_path, total_ram=16 * GIB, available_ram=16 * GIB) as scene:
        before = await read_free_ram(scene)
        job_id = await scene.take()
        assert await read_free_ram(scene) < before - GIB
        await scene.finish(job_id)
        assert await read_free_ram(scene) == before


def test_room_for_a_gpu_is_room_in_ram_on_a_node_without_one() -> None:
    needs = RunNeeds(ram_bytes=GIB, vram_bytes=4 * GIB)

    def fits(**hardware: Any) -> bool:
        return has_room(a_node(total_ram=16 * GIB, **hardware), needs)

    assert fits(available_ram=5 * GIB)
    assert not fits(available_ram=4 * GIB)
    assert fits(available_ram=GIB, available_vram=4 * GIB, total_vram=24 * GIB)
    assert not fits(available_ram=8 * GIB, available_vram=GIB, total_vram=24 * GIB)
