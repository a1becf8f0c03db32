"""Frontends that die in the middle, that get the same request at once, and that race with their workers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.faults.scene import MIB, Scene, scene_of
from tests.support.polling import eventually

# Leases of 30 s run out in here, and the machine may have other work.
pytestmark = pytest.mark.timeout(240)

TWO = ("worker-1", "worker-2")
ROUNDS = 8


@pytest.mark.behaviour("FLT-11")
async def test_owner_of_an_installation_is_killed_and_another_frontend_goes_on_with_the_same_job(
    tmp_path: Path,
) -> None:
    async with scene_of(tmp_path, "worker-1") as scene:
        scene.offer_in_halves("engine")
        key = await scene.ask("engine", "worker-1")
        before = await scene.until_fetched(key, MIB // 2)
        (owner,) = [frontend for frontend in scene.cluster.frontends if frontend.id == before["owner"]]
        await owner.program.kill()
        # The worker ends while nobody drives the operation.
        scene.let.set()
        done = await scene.becomes(key, "completed")
        (was,), (now,) = before["nodes"], done["nodes"]
        assert (now["job_id"], now["attempt"]) == (was["job_id"], 0)
        assert done["attempt"] == 2
        assert f"taken over from frontend {owner.id}" in await scene.notes(key)
        assert (scene.accepted("worker-1"), scene.fetched("engine")) == (1, [None])
        await scene.shows_installed("worker-1", "engine")


@pytest.mark.behaviour("FLT-20")
async def test_equal_requests_at_two_frontends_are_one_operation_with_one_job_on_each_node(
    tmp_path: Path,
) -> None:
    async with scene_of(tmp_path, *TWO) as scene:
        # It does not end before the last of them has asked.
        scene.offer_in_halves("engine", downloads=2)
        requests = [scene.ask("engine", *TWO, via=number % 2) for number in range(10)]
        (key,) = set(await asyncio.gather(*requests))
        scene.let.set()
        done = await scene.becomes(key, "completed")
        assert {node["node_name"]: node["state"] for node in done["nodes"]} == dict.fromkeys(TWO, "success")
        for frontend in scene.cluster.frontends:
            record = (await frontend.get("/api/operations/history"))["operations"]
            assert [each["id"] for each in record] == [key]
        assert [scene.accepted(name) for name in TWO] == [1, 1]
        assert scene.fetched("engine") == [None, None]


@pytest.mark.behaviour("FLT-21")
async def test_race_of_cancellation_and_completion_has_one_outcome_everywhere(tmp_path: Path) -> None:
    async with scene_of(tmp_path, "worker-1", CORRAL_MAX_PARALLEL_JOBS=str(ROUNDS)) as scene:
        names = [f"engine-{number}" for number in range(ROUNDS)]
        for name in names:
            scene.offer_in_halves(name, size=MIB // 4)
        keys = [await scene.ask(name, "worker-1") for name in names]
        for key in keys:
            await scene.until_fetched(key, MIB // 16)
        scene.let.set()
        answers = await asyncio.gather(*(_cancel_late(scene, key, number) for number, key in enumerate(keys)))
        for key, (status, answer) in zip(keys, answers, strict=True):
            ended = await scene.becomes(key, "completed", "cancelled")
            assert (status, ended["state"]) in ((200, "cancelled"), (409, "completed")), answer
            assert ended.get("error") is None
            assert status == 200 or answer["error"]["code"] == "operation_ended"
        # Later words of the worker change nothing, and what is not completed leaves nothing behind (see `end`).
        await _worker_has_ended_all(scene, len(keys))
        for key, (status, _) in zip(keys, answers, strict=True):
            assert (await scene.operation(key))["state"] == ("cancelled" if status == 200 else "completed")
        completed = {name for name, (status, _) in zip(names, answers, strict=True) if status == 409}
        installed = set(await scene.installed("worker-1"))
        assert completed <= installed
        # A cancellation that came too late for the worker says so: by the node's own end, or in the log.
        for key in (key for key, name in zip(keys, names, strict=True) if name in installed - completed):
            await eventually(lambda k=key: _says_too_late(scene, k))  # type: ignore[misc]


async def _cancel_late(scene: Scene, key: str, number: int) -> tuple[int, Any]:
    """Cancel at the frontend that did not get the first request: at once, or when the worker is about to end."""
    phases = (None, "verifying", "extracting", "checking", "committing")

    async def is_so_far() -> bool:
        found = await scene.operation(key)
        return found["state"] != "running" or found.get("phase") in phases[1 + number % 4 :]

    if number % 2:
        await eventually(is_so_far, within_s=60)
    return await scene.cluster.frontends[1].call("POST", f"/api/operations/{key}/cancel")


async def _says_too_late(scene: Scene, key: str) -> bool:
    (target,) = (await scene.operation(key))["nodes"]
    noted = sum("had finished before it could be stopped" in note for note in await scene.notes(key))
    print(
        "DBG",
        key,
        target["job_id"],
        target["state"],
        await scene.notes(key),
        await scene.cluster.frontends[0].get("/api/cluster"),
    )
    return (target["state"], noted) in (("success", 0), ("cancelled", 1))


async def _worker_has_ended_all(scene: Scene, count: int) -> None:
    async def look() -> bool:
        return scene.cluster.workers["worker-1"].log.count("job ended") == count

    await eventually(look, within_s=60)
