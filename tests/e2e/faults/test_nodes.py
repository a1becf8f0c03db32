"""A node goes for good, or its disk does, while it is at work."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.faults.scene import MIB, Scene, assert_tidy, scene_of
from tests.support.polling import eventually

# Leases of 30 s run out in here, and the machine may have other work.
pytestmark = pytest.mark.timeout(240)

TWO = ("worker-1", "worker-2")
AS_ROOT = ["unshare", "--map-root-user", "--mount", "sh", "-c"]


async def test_node_removed_in_the_middle_ends_its_part_and_its_worker_throws_away_what_it_had_begun(
    tmp_path: Path,
) -> None:
    async with scene_of(tmp_path) as scene:
        # The removed worker may come back, as a node that nobody has asked anything of.
        token = await scene.cluster.token(max_uses=5, approves=True)
        for name in TWO:
            await scene.cluster.new_worker(name, token).start()
        await scene.cluster.become(dict.fromkeys(TWO, "healthy"), on_bus=True)
        scene.offer_in_halves("engine", downloads=2)
        key = await scene.ask("engine", *TWO)
        await scene.until_fetched(key, MIB // 2, nodes=2)
        removed = (await scene.cluster.frontends[1].node("worker-1"))["id"]
        status, answer = await scene.cluster.frontends[1].call("DELETE", "/api/nodes/worker-1")
        assert status == 200, answer
        await eventually(lambda: _is_another_node(scene, removed), within_s=60)
        await scene.cluster.become({"worker-1": "healthy"}, on_bus=True)
        await eventually(lambda: _has_ended(scene, "worker-1"), within_s=60)
        scene.let.set()
        failed = await scene.becomes(key, "failed")
        assert failed["errorCode"] == "node_removed"
        assert {node["node_name"]: node["state"] for node in failed["nodes"]} == {
            "worker-1": "error",
            "worker-2": "success",
        }
        await scene.shows_installed("worker-2", "engine")
        assert await scene.installed("worker-1") == {}
        # A node like any other: what it once refused to be told again, it can be told now.
        await scene.becomes(await scene.ask("engine", "worker-1"), "completed")
        assert [scene.accepted(name) for name in TWO] == [2, 1]


async def _is_another_node(scene: Scene, old: str) -> bool:
    status, node = await scene.cluster.frontends[0].call("GET", "/api/nodes/worker-1")
    return status == 200 and node["id"] != old


async def _has_ended(scene: Scene, name: str) -> bool:
    return "job ended" in scene.cluster.workers[name].log


@pytest.mark.behaviour("FLT-22")
async def test_disk_that_is_full_after_nine_tenths_of_a_download_fails_it_with_that_reason_and_works_on(
    tmp_path: Path,
) -> None:
    home = tmp_path / "worker-1"
    home.mkdir()
    # A disk in memory that only the worker sees: the kernel itself says that it is full.
    mount = f"mount -t tmpfs -o size=16m tmpfs {home}"
    if not shutil.which("unshare") or subprocess.run([*AS_ROOT, mount], capture_output=True, check=False).returncode:
        pytest.skip("this system does not let an ordinary user mount a disk in memory")
    command = [*AS_ROOT, f"{mount} && exec {sys.executable} -m corral worker"]
    async with scene_of(tmp_path, "worker-1", command=command, CORRAL_DISK_HEADROOM="0") as scene:
        seen = Path(f"/proc/{scene.cluster.workers['worker-1'].pid}/root") / home.relative_to("/")
        size = len(scene.offer_in_halves("engine", tenths=9).body)
        key = await scene.ask("engine", "worker-1")
        await scene.until_fetched(key, size * 9 // 10 - 4096)
        filler = seen / "somebody else's"
        _fill(filler)
        scene.let.set()
        failed = await scene.becomes(key, "failed")
        assert (failed["errorCode"], failed["nodes"][0]["attempt"]) == ("disk_full", 1)
        # The room is free again, although nobody has tidied up.
        assert_tidy(seen / "backends")
        filler.unlink()
        again = await scene.post(f"/api/operations/{key}/retry", None, via=1)
        await scene.becomes(again, "completed")
        await scene.shows_installed("worker-1", "engine")
        assert_tidy(seen / "backends")
        assert scene.fetched("engine") == [None, None]


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
