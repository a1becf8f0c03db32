"""A worker is killed in the middle of an installation: at half of the bytes, before the swap, and after it."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.worker.backends.layout import BackendRecords, BackendsLayout
from tests.e2e.faults.scene import MIB, Scene, scene_of
from tests.support.polling import eventually
from tests.support.ports import find_free_port

# Leases of 30 s run out in here, and the machine may have other work.
pytestmark = pytest.mark.timeout(240)

PROGRAM = Path(__file__).parent.parent / "programs" / "dying_worker.py"
ENGINE = "fake#0"


async def test_worker_killed_in_the_middle_of_a_download_goes_on_with_the_bytes_that_it_has(tmp_path: Path) -> None:
    async with scene_of(tmp_path, "worker-1") as scene:
        scene.offer_in_halves("engine", size=4 * MIB)
        key = await scene.ask("engine", "worker-1")
        before = await scene.until_fetched(key, 2 * MIB - 4096)
        await scene.cluster.workers["worker-1"].kill()
        await scene.cluster.workers["worker-1"].start()
        done = await scene.becomes(key, "completed")
        (was,), (now,) = before["nodes"], done["nodes"]
        assert (now["job_id"], now["attempt"], now["percentage"]) == (was["job_id"], 0, 100.0)
        first, second = scene.fetched("engine")
        assert first is None
        assert second is not None
        # Nobody has promised a sha256: what came since the sum of the last MiB was noted is fetched again.
        assert int(second.removeprefix("bytes=").rstrip("-")) >= MIB - 4096
        assert scene.accepted("worker-1") == 1
        await scene.shows_installed("worker-1", "engine")


@asynccontextmanager
async def _killed_during_an_upgrade(folder: Path, moment: str) -> AsyncIterator[tuple[Scene, str]]:
    """Start an engine of the old version, and kill its worker at this moment of the upgrade."""
    armed = folder / "armed"
    command = [sys.executable, str(PROGRAM), moment, str(armed), "worker"]
    async with scene_of(folder, "worker-1", command=command, CORRAL_ENGINE_PORT=str(find_free_port())) as scene:
        install = await scene.post("/api/backends/install/fake", {"nodes": ["worker-1"], "version": "1.0.0"})
        await scene.becomes(install, "completed")
        started, answer = await scene.cluster.frontends[0].call(
            "POST", "/api/nodes/worker-1/backends/start", {"backend": "fake"}
        )
        assert started == 202, answer
        await eventually(lambda: _runs(scene), within_s=60)
        armed.touch()
        key = await scene.post("/api/backends/upgrade/fake", {"nodes": ["worker-1"]}, via=1)
        assert await scene.cluster.workers["worker-1"].wait() == -signal.SIGKILL
        yield scene, key


async def _runs(scene: Scene) -> bool:
    found = await scene.cluster.frontends[0].get("/api/nodes/worker-1/processes")
    return [process["key"] for process in found if process["state"] == "ready"] == [ENGINE]


def _current(scene: Scene) -> Any:
    """Return the version that the disk says is installed, and since when."""
    records = BackendRecords(BackendsLayout(scene.disk("worker-1")))
    records.load()
    return records.pointers["fake"].current


async def _is_upgraded(scene: Scene, key: str) -> None:
    """Check that the upgrade was done once, and that the engine of the old version is gone."""
    done = await scene.becomes(key, "completed")
    (target,) = done["nodes"]
    assert (target["attempt"], target["percentage"]) == (0, 100.0)

    async def look() -> bool:
        found = (await scene.installed("worker-1"))["fake"]
        return bool((found["version"], found["previous_version"]) == ("2.0.0", "1.0.0"))

    await eventually(look, within_s=60)
    assert await scene.cluster.frontends[0].get("/api/nodes/worker-1/processes") == []
    assert scene.accepted("worker-1") == 3


@pytest.mark.behaviour("FLT-13")
async def test_worker_killed_between_staging_and_the_swap_has_the_old_version_and_upgrades_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with _killed_during_an_upgrade(tmp_path, "staged") as (scene, key):
        assert _current(scene).build.version == "1.0.0"
        await scene.cluster.workers["worker-1"].start()
        await _is_upgraded(scene, key)


async def test_worker_killed_after_the_swap_and_before_its_report_does_not_do_it_twice(tmp_path: Path) -> None:
    async with _killed_during_an_upgrade(tmp_path, "swapped") as (scene, key):
        swapped = _current(scene)
        assert swapped.build.version == "2.0.0"
        await scene.cluster.workers["worker-1"].start()
        await _is_upgraded(scene, key)
        assert _current(scene) == swapped
