"""Sources that misbehave and a disk that fills up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.faults.scene import MIB, Scene, scene_of
from tests.support.polling import eventually
from tests.worker.backends.scene import sha256
from tests.worker.backends.server import cut_after, page, status, trickle

# Leases of 30 s run out in here, and the machine may have other work.
pytestmark = pytest.mark.timeout(240)

KB = 1000
SLOW_SIZE = 640 * KB


@pytest.mark.behaviour("FLT-23")
async def test_source_that_answers_wrongly_never_becomes_a_backend_and_passing_trouble_is_tried_again(
    tmp_path: Path,
) -> None:
    async with scene_of(tmp_path, "worker-1") as scene:
        # A page ends the attempt of the worker, and the control plane tries again after half a minute; the others
        # are nothing that the worker would not mend by itself.
        scene.offer("page").faults = [page()]
        scene.offer("errors").faults = [status(500), status(503)]
        scene.offer("cut").faults = [cut_after(MIB)]
        scene.offer("wrong")
        names = ("page", "errors", "cut", "wrong")
        promised = {"wrong": "0" * 64}
        keys = {name: await scene.ask(name, "worker-1", sha256=promised.get(name, "")) for name in names}
        waiting = await eventually(lambda: _has_failed_once(scene, keys["page"]), within_s=60)
        assert waiting["state"] == "running"
        assert waiting["nodes"][0]["error_code"] == "bad_answer"
        wrong = await scene.becomes(keys["wrong"], "failed")
        assert (wrong["errorCode"], wrong["nodes"][0]["attempt"]) == ("digest_mismatch", 1)
        ended = {name: await scene.becomes(keys[name], "completed") for name in ("errors", "cut", "page")}
        assert {name: each["nodes"][0]["attempt"] for name, each in ended.items()} == {"errors": 0, "cut": 0, "page": 1}
        # It went on where it had been cut off, and nothing was fetched that need not be.
        assert {name: len(scene.fetched(name)) for name in names} == {"page": 2, "errors": 3, "cut": 2, "wrong": 1}
        assert scene.fetched("cut")[1] == f"bytes={MIB}-"
        await scene.shows_installed("worker-1", "errors", "cut", "page")


async def _has_failed_once(scene: Scene, key: str) -> Any:
    found = await scene.operation(key)
    return found if [node["attempt"] for node in found["nodes"]] == [1] else None


async def test_source_of_20_kb_a_second_is_waited_for_as_long_as_bytes_move(tmp_path: Path) -> None:
    async with scene_of(tmp_path, "worker-1") as scene:
        # Longer than the 30 s after which a silent worker is asked, and than the lease of an operation.
        file = scene.offer("slow", size=SLOW_SIZE)
        file.faults = [trickle(len(file.body) // (5 * KB), 0.25)]
        key = await scene.ask("slow", "worker-1", sha256=sha256(file.body))
        seen: set[int] = set()

        async def is_done() -> bool:
            found = await scene.operation(key)
            seen.update(node.get("current") or 0 for node in found["nodes"])
            assert found["state"] in ("queued", "running", "completed"), found
            return bool(found["state"] == "completed")

        await eventually(is_done, within_s=100)
        # A look every half second, roughly, over more than half a minute.
        assert len(seen) > 20
        done = await scene.becomes(key, "completed")
        assert (done["attempt"], done["nodes"][0]["attempt"]) == (1, 0)
        assert (scene.accepted("worker-1"), scene.fetched("slow")) == (1, [None])
        assert "does not respond" not in " ".join(await scene.notes(key))
