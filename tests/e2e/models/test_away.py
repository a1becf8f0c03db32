"""Somebody goes away, or changes its mind, while models are loaded or being loaded: a worker, a machine, PostgreSQL,
NATS, a frontend, an admin."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from corral.adapters.system import SystemClock
from corral.runtime.tasks import TaskSet
from tests.e2e.models.scene import Models
from tests.support.polling import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

TWO = ("worker-1", "worker-2")
# How long after its owner's death an operation may be shown at most.
VANISHED_S = 60.0
_clock = SystemClock()


@pytest.mark.behaviour("FLT-34")
@pytest.mark.behaviour("NODE-5b")
async def test_engines_outlive_their_worker_answer_while_it_is_away_and_are_not_loaded_again(models: Models) -> None:
    await models.put("survivor")
    await models.loaded("survivor", "worker-1")
    before = await models.process("survivor")
    row = await _row(models, "survivor")
    worker = models.cluster.workers["worker-1"]
    lives = worker.log.count('"event": "registered"')
    await worker.kill()
    for via in (0, 1):
        assert (await models.answers("survivor", via=via)).node == "worker-1"
    await worker.start()

    async def is_back() -> bool:
        return worker.log.count('"event": "registered"') > lives

    await models.look(is_back)
    await models.cluster.become(dict.fromkeys(TWO, "healthy"), on_bus=True)
    after = await models.look(lambda: _loaded(models, "survivor"))
    assert [one["address"] for one in after] == [before["address"]]
    # The very same row: no request could find the model cold in between.
    assert await _row(models, "survivor") == row
    for via in (0, 1):
        assert (await models.answers("survivor", via=via)).node == "worker-1"
    running = [one for one in await models.all_processes() if one["model"] == "survivor"]
    assert [(one["pid"], one["restarts"]) for one in running] == [(before["pid"], 0)]
    await models.forget("survivor")


async def _row(models: Models, name: str) -> str:
    """Return the id of the row of a model's only replica."""
    status, rows = await models.call("GET", "/api/nodes/models")
    assert status == 200, rows
    (row,) = [one for one in rows if one["model_name"] == name]
    return str(row["id"])


async def _loaded(models: Models, name: str, count: int = 1) -> Any:
    """Return the replicas of a model if there are `count`, all loaded; else None."""
    found = await models.replicas(name)
    return found if [one["state"] for one in found] == ["loaded"] * count else None


async def test_machine_that_stands_still_is_replaced_by_another_and_serves_on_when_it_is_back(models: Models) -> None:
    await models.put("frozen", options={"tokens_per_s": "20"})
    await models.loaded("frozen", "worker-1")
    pid, worker = await models.pid("frozen"), models.cluster.workers["worker-1"]
    before = await models.replicas("frozen")
    async with models.stream("frozen", ignore_eos=True, max_tokens=40) as stream:
        assert "choices" in await stream.next()
        worker.send(signal.SIGSTOP)
        os.kill(pid, signal.SIGSTOP)
        try:
            await models.cluster.become({"worker-1": "offline", "worker-2": "healthy"})
            # Whoever asks now is answered by the other node.
            assert (await models.answers("frozen", via=1)).node == "worker-2"
        finally:
            os.kill(pid, signal.SIGCONT)
            worker.send(signal.SIGCONT)
        # The answer that stood still goes on where it was.
        assert (await stream.rest())[-1] == "[DONE]"
    await models.cluster.become(dict.fromkeys(TWO, "healthy"), on_bus=True)

    after = await models.look(lambda: _loaded(models, "frozen", 2))
    assert {one["node_name"] for one in after} == set(TWO)
    assert before[0]["address"] in [one["address"] for one in after]
    assert await models.pid("frozen") == pid
    await models.forget("frozen")


@pytest.mark.behaviour("FLT-43")
async def test_node_drained_during_a_load_is_left_and_waiting_requests_are_served_elsewhere(
    models: Models,
) -> None:
    await models.put("drained", options={"load_s": "3"})
    # So that it is this node which is chosen first.
    await models.call("POST", "/api/nodes/worker-2/drain")
    tasks = TaskSet("waiting")
    try:
        pending = tasks.start(models.chat("drained", via=1), name="a request that waits")
        await models.at_the_engine("drained")
        await models.call("POST", "/api/nodes/worker-2/resume")
        status, answer = await models.call("POST", "/api/nodes/worker-1/drain")
        assert status == 200, answer
        answer = await pending
        assert (answer.status, answer.node) == (200, "worker-2"), answer.body
    finally:
        await tasks.close()
        await models.call("POST", "/api/nodes/worker-2/resume")
        await models.call("POST", "/api/nodes/worker-1/resume")

    async def is_only_there() -> bool:
        here = [one["model"] for one in await models.processes("worker-1")]
        return "drained" not in here and [one["node_name"] for one in await models.replicas("drained")] == ["worker-2"]

    await models.look(is_only_there)
    await models.cluster.become(dict.fromkeys(TWO, "healthy"), on_bus=True)
    await models.forget("drained")


@pytest.mark.behaviour("FLT-41")
async def test_model_that_is_edited_while_it_loads_is_never_served_as_it_was(models: Models) -> None:
    await models.put("edited", options={"load_s": "4"})
    seen: set[tuple[str, bool]] = set()

    async def are_served() -> bool:
        seen.update((one["state"], one["is_current"]) for one in await models.replicas("edited", via=1))
        return all(pending.done() for pending in waiting)

    tasks = TaskSet("waiting")
    try:
        waiting = [tasks.start(models.chat("edited", via=via), name=f"waits at {via}") for via in (0, 1)]
        node, old = await _starting(models, "edited")
        await models.edit("edited", via=1, load_s="0.5")
        await models.look(are_served)
        for pending in waiting:
            answer = await pending
            assert answer.status == 200, answer.body
    finally:
        await tasks.close()
    # Never as it was, and the old process was ended.
    assert ("loaded", False) not in seen
    assert ("loaded", True) in seen

    async def is_gone() -> bool:
        return old not in [one["pid"] for one in await models.processes(node)]

    await models.look(is_gone)
    await models.answers("edited")
    await models.forget("edited")


async def _starting(models: Models, name: str) -> tuple[str, int]:
    async def find() -> Any:
        for node in TWO:
            for one in await models.processes(node):
                if (one["model"], one["state"]) == (name, "starting"):
                    return node, one["pid"]
        return None

    found: tuple[str, int] = await models.look(find)
    return found


async def test_two_frontends_that_load_evict_and_edit_one_model_at_once_agree_in_the_end(models: Models) -> None:
    """Each machine has few threads, so the three models push each other out all the time."""
    names = ("one", "other", "third")
    for name in names:
        await models.put(name, options={"slots": "1"})
    seen: list[int] = []

    async def user(via: int) -> None:
        seen.extend([(await models.chat(name, via=via)).status for name in (*names, *reversed(names))])

    async def admin(via: int) -> None:
        for turn in range(4):
            status, _ = await models.call("POST", "/api/models/one/load", {}, via=via)
            seen.append(status)
            body = {"options": {"slots": str(2 + turn % 2)}}
            status, _ = await models.call("PATCH", "/api/models/config/one", body, via=via)
            seen.append(status)
            status, _ = await models.call("POST", "/api/models/one/unload", {}, via=1 - via)
            seen.append(status)

    async with asyncio.TaskGroup() as group:
        for via in (0, 1):
            group.create_task(user(via))
            group.create_task(admin(via))
    # Refused, or told to wait: that is an answer. A mistake of ours is not.
    assert set(seen) <= {200, 202, 409, 502, 503}, seen
    assert seen.count(200)
    await models.edit("one", slots="4")
    for via in (0, 1):
        await models.answers("one", via=via)
    await models.look(lambda: _agree(models, names))
    await models.forget(*names)


async def _agree(models: Models, names: tuple[str, ...]) -> bool:
    """Return whether rows, processes and both frontends agree, and no operation is open."""
    running = {(one["model"], one["address"]) for one in await models.all_processes() if one["model"] in names}
    for via, frontend in enumerate(models.cluster.frontends):
        rows = [(name, one) for name in names for one in await models.replicas(name, via=via)]
        if any(one["state"] != "loaded" or not one["is_current"] for _, one in rows):
            return False
        if {(name, one["address"]) for name, one in rows} != running:
            return False
        if any([await models.under_way(frontend, name) for name in names]):
            return False
    return True


async def assert_warm(models: Models, name: str) -> None:
    """Check that every frontend answers a model, as a whole and as a stream."""
    for via in range(len(models.cluster.frontends)):
        await models.answers(name, via=via)
        async with models.stream(name, via=via) as stream:
            assert (await stream.rest())[-1] == "[DONE]"


@asynccontextmanager
async def warm(models: Models, name: str) -> AsyncIterator[None]:
    """Load a model that every frontend knows; check at the end that it was not loaded again and another can be."""
    await models.put(name)
    await models.loaded(name, "worker-1")
    await assert_warm(models, name)
    jobs, pid = models.accepted(), await models.pid(name)
    yield
    await models.cluster.become(dict.fromkeys(TWO, "healthy"), on_bus=True)
    await assert_warm(models, name)
    assert await models.pid(name) == pid
    assert models.accepted() == jobs
    await models.put("after", via=1)
    await models.answers("after")
    await models.forget(name, "after")


@pytest.mark.behaviour("FLT-37")
async def test_loaded_models_answer_without_postgresql_and_recover_when_it_is_back(models: Models) -> None:
    async with warm(models, "without-postgresql"):
        await models.cluster.postgres.kill()
        try:
            await assert_warm(models, "without-postgresql")
        finally:
            await models.cluster.postgres.start()


@pytest.mark.behaviour("FLT-37")
async def test_loaded_models_answer_without_nats_and_recover_when_it_is_back(models: Models) -> None:
    async with warm(models, "without-nats"):
        await models.cluster.nats.kill()
        try:
            await models.cluster.become(dict.fromkeys(TWO, "unhealthy"))
            await assert_warm(models, "without-nats")
        finally:
            await models.cluster.nats.start()


@pytest.mark.behaviour("FLT-38")
async def test_promise_2_with_postgresql_and_nats_both_stopped_a_loaded_model_answers(models: Models) -> None:
    async with warm(models, "promised"):
        await models.cluster.nats.kill()
        await models.cluster.postgres.kill()
        try:
            for frontend in models.cluster.frontends:
                status, _ = await frontend.call("POST", "/api/tokens", {"name": "nobody can be let in now"})
                assert status == 503
            await assert_warm(models, "promised")
        finally:
            await models.cluster.postgres.start()
            await models.cluster.nats.start()


@pytest.mark.behaviour("OPS-44", "NODE-134")
async def test_frontend_killed_in_the_middle_of_a_load_is_replaced_and_the_load_is_not_begun_again(
    models: Models,
) -> None:
    await models.put("passed-on", options={"load_s": "6"})
    key = await models.load("passed-on", nodes=["worker-1"])
    pid = await models.at_the_engine("passed-on")
    jobs = models.accepted("worker-1")
    # It is shown by everybody.
    for frontend in models.cluster.frontends:
        assert [each["id"] for each in await models.under_way(frontend, "passed-on")] == [key]
    found = await models.operation(key)
    owner = next(index for index, each in enumerate(models.cluster.frontends) if each.id == found["owner"])
    other, began = 1 - owner, 0.0
    tasks = TaskSet("waiting")
    try:
        pending = tasks.start(models.chat("passed-on", via=other), name="a request at the other frontend")
        killed = models.cluster.frontends[owner].program
        await killed.kill()
        began = _clock.monotonic()
        answer = await pending
        assert (answer.status, answer.node) == (200, "worker-1"), answer.body
        assert await models.pid("passed-on") == pid
        assert models.accepted("worker-1") == jobs
        left = models.cluster.frontends[other]

        async def has_vanished() -> bool:
            return not await models.under_way(left, "passed-on")

        await eventually(has_vanished, within_s=VANISHED_S - (_clock.monotonic() - began))
        ended: Any = await models.operation(key, left)
        assert (ended["state"], [node["state"] for node in ended["nodes"]]) == ("completed", ["success"])
    finally:
        await tasks.close()
        await models.cluster.frontends[owner].program.start()
        await eventually(models.cluster.frontends[owner].is_ready, within_s=90)
    await assert_warm(models, "passed-on")
    assert await models.pid("passed-on") == pid
    await models.forget("passed-on")
