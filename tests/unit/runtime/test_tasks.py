"""Background tasks are owned: none is dropped, none fails in silence, all end with their owner."""

from __future__ import annotations

import asyncio
import gc

import pytest
from structlog.testing import capture_logs

from corral.runtime.tasks import TaskSet


async def test_crash_is_logged_and_reported_to_the_owner() -> None:
    crashed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    tasks = TaskSet("owner", crashed.set_result)

    async def crash() -> None:
        raise RuntimeError("broken")

    with capture_logs() as logs:
        tasks.start(crash(), name="work")
        error = await crashed
    assert str(error) == "broken"
    assert [(entry["event"], entry["task"]) for entry in logs] == [("task crashed", "owner.work")]
    assert len(tasks) == 0
    await tasks.close()


async def test_closing_cancels_every_task_and_waits_for_its_cleanup() -> None:
    tasks = TaskSet("owner", lambda error: pytest.fail(f"a cancelled task is no crash: {error!r}"))
    ended: list[int] = []
    entered = asyncio.Event()

    async def work(number: int) -> None:
        try:
            if number == 2:
                entered.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0)
            ended.append(number)

    for number in range(3):
        tasks.start(work(number), name=str(number))
    await entered.wait()
    await tasks.close()
    assert (sorted(ended), len(tasks)) == ([0, 1, 2], 0)
    await tasks.close()


async def test_task_without_other_references_is_not_collected() -> None:
    tasks = TaskSet("owner")
    gate = asyncio.Event()
    done: list[str] = []

    async def work() -> None:
        await gate.wait()
        done.append("done")

    tasks.start(work(), name="work")
    await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0)
    gc.collect()
    gate.set()
    await tasks.join()
    assert done == ["done"]
    await tasks.close()


async def test_joining_waits_also_for_tasks_that_start_meanwhile() -> None:
    tasks = TaskSet("owner")
    done: list[str] = []

    async def second() -> None:
        await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0)
        done.append("second")

    async def first() -> None:
        tasks.start(second(), name="second")

    tasks.start(first(), name="first")
    await tasks.join()
    assert done == ["second"]


async def test_closed_owner_starts_nothing_more() -> None:
    tasks = TaskSet("owner")
    await tasks.close()

    async def work() -> None:
        pytest.fail("must not run")

    with pytest.raises(RuntimeError, match="owner has been stopped"):
        tasks.start(work(), name="late")
