"""NATS or PostgreSQL goes away in the middle of an installation, and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.faults.outages import nats_goes_away
from tests.e2e.faults.scene import MIB, Scene, scene_of
from tests.support.polling import eventually

# Leases of 30 s run out in here, and the machine may have other work.
pytestmark = pytest.mark.timeout(240)


@pytest.mark.behaviour("FLT-15")
async def test_nats_outage_lets_workers_finish_and_requests_made_meanwhile_complete_afterwards(
    tmp_path: Path,
) -> None:
    # Longer than a node's lease in these tests, the two seconds for an answer, and the five after which a silent
    # worker is asked again. Nothing of ours waits longer than that without looking at the registry, which is told by
    # HTTP; `make chaos` takes NATS away for two minutes.
    await nats_goes_away(tmp_path, 6.0)


async def test_postgresql_is_killed_in_the_middle_of_an_installation_and_nothing_is_lost_or_done_twice(
    tmp_path: Path,
) -> None:
    async with scene_of(tmp_path, "worker-1") as scene:
        scene.offer_in_halves("engine")
        key = await scene.ask("engine", "worker-1")
        before = await scene.until_fetched(key, MIB // 2)
        await scene.cluster.postgres.kill()
        scene.let.set()
        # Its last word goes out while nobody can write it down.
        await eventually(lambda: _has_ended(scene), within_s=60)
        await eventually(lambda: _is_unknown_everywhere(scene, key), within_s=60)
        await scene.cluster.postgres.start()
        done = await scene.becomes(key, "completed")
        (was,), (now,) = before["nodes"], done["nodes"]
        assert (now["job_id"], now["attempt"], now["state"]) == (was["job_id"], 0, "success")
        assert (scene.accepted("worker-1"), scene.fetched("engine")) == (1, [None])
        await scene.shows_installed("worker-1", "engine")
        # And the next one goes as if nothing had been.
        scene.offer("other")
        await scene.becomes(await scene.ask("other", "worker-1", via=1), "completed")


async def _has_ended(scene: Scene) -> bool:
    return "job ended" in scene.cluster.workers["worker-1"].log


async def _is_unknown_everywhere(scene: Scene, key: str) -> bool:
    return all([await scene.operation(key, frontend) is None for frontend in scene.cluster.frontends])
