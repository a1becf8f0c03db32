"""Frontends stop and start again while they answer: no stream is cut, alone on a port or several on one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.cluster import FrontendProcess
from tests.e2e.gateway.traffic import traffic
from tests.e2e.models.scene import Models, Stream
from tests.support.frontends import ADMIN_KEY
from tests.support.polling import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

STREAMS = 6
# Three seconds each: longer than a frontend takes to notice that it is to stop.
SLOW = {"tokens_per_s": "20"}
TOKENS = 60


@asynccontextmanager
async def _open_streams(models: Models, name: str, via: int) -> AsyncIterator[list[Stream]]:
    """Open streams, and wait for the first event of each."""
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(models.stream(name, via=via, max_tokens=TOKENS)) for _ in range(STREAMS)
        ]
        for stream in opened:
            assert await stream.next() is not None
        yield opened


async def _assert_whole(streams: list[Stream]) -> None:
    for stream in streams:
        events = await stream.rest()
        assert events[-1] == "[DONE]"
        assert not [event for event in events if "error" in event]


async def test_frontend_that_is_restarted_with_streams_open_cuts_none(models: Models) -> None:
    await models.put("restarted", options=SLOW)
    await models.loaded("restarted", "worker-1")
    frontend = models.cluster.frontends[0]
    async with _open_streams(models, "restarted", via=0) as streams:
        ending = asyncio.create_task(frontend.program.end())
        await _assert_whole(streams)
        assert await ending == 0
    assert "waiting for open responses" in frontend.program.log
    assert "open responses were interrupted" not in frontend.program.log
    await frontend.program.start()
    await models.look(frontend.is_ready)
    await models.forget("restarted")


@asynccontextmanager
async def _several(models: Models, count: int) -> AsyncIterator[FrontendProcess]:
    """Run one more frontend that is several processes; the cluster forgets it afterwards."""
    cluster = models.cluster
    plain = cluster.frontend_settings
    cluster.frontend_settings = {**plain, "CORRAL_PROCESSES": str(count)}
    frontend = cluster.new_frontend()
    cluster.frontend_settings = plain
    await frontend.program.start()
    try:
        await models.look(frontend.is_ready)
        await models.look(lambda: _children(models, frontend, count))
        yield frontend
    finally:
        if frontend.program.is_running:
            await frontend.program.end()
        cluster.frontends.remove(frontend)


async def _children(models: Models, frontend: FrontendProcess, count: int) -> dict[str, int] | None:
    """Return the pids of a frontend's processes by id, as other frontends list them; None until there are `count`."""
    listed = (await models.cluster.frontends[0].get("/api/cluster"))["frontends"]
    found = {one["id"]: one["pid"] for one in listed if one["id"].startswith(f"{frontend.id}-") and one["alive"]}
    return found if len(found) == count and all(_lives(pid) for pid in found.values()) else None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_several_processes_share_a_port_and_one_that_leaves_or_dies_is_replaced_under_traffic(
    models: Models,
) -> None:
    await models.put("shared")
    await models.loaded("shared", "worker-1")
    async with _several(models, 2) as frontend:
        via = models.cluster.frontends.index(frontend)
        children: Any = await _children(models, frontend, 2)
        assert sorted(children) == [f"{frontend.id}-1", f"{frontend.id}-2"]
        first = children[f"{frontend.id}-1"]
        async with traffic(models, "shared", via=[via]) as going:
            # It leaves in order, so that nobody notices.
            os.kill(first, signal.SIGTERM)
            await models.look(lambda: _is_replaced(models, frontend, first, starts=3))
            await going.more(30)
        second = children[f"{frontend.id}-2"]
        os.kill(second, signal.SIGKILL)
        await _wait_until_gone(second)
        # Each on a connection of its own: a process that starts must get none of them before it is ready.
        while not await _is_replaced(models, frontend, second, starts=4):
            assert await _ask_on_new_connection(frontend, "shared") == 200
        for _ in range(10):
            assert await _ask_on_new_connection(frontend, "shared") == 200
    assert '"frontend": "frontend-' in frontend.program.log
    await models.forget("shared")


async def _wait_until_gone(pid: int) -> None:
    async def is_gone() -> bool:
        return not _lives(pid)

    await eventually(is_gone)


async def _ask_on_new_connection(frontend: FrontendProcess, model: str) -> int:
    """Send one chat on a connection of its own and return the status of the response."""
    body = {"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]}
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as session,
        session.post(f"{frontend.url}/v1/chat/completions", json=body) as response,
    ):
        return response.status


async def _is_replaced(models: Models, frontend: FrontendProcess, pid: int, *, starts: int) -> bool:
    """Return whether another process runs instead of `pid` and `starts` processes of the group have become ready."""
    if frontend.program.log.count("frontend is ready") < starts:
        return False
    found = await _children(models, frontend, 2)
    return found is not None and pid not in found.values()


async def test_metrics_of_several_processes_are_those_of_all_whichever_of_them_answers(models: Models) -> None:
    await models.put("counted")
    await models.loaded("counted", "worker-1")
    async with _several(models, 2) as frontend:
        via = models.cluster.frontends.index(frontend)
        for rounds in range(1, 4):
            for _ in range(5):
                await models.answers("counted", via=via)
            counted = await _counted(frontend, "counted")
            assert (sorted(counted), sum(counted.values())) == (["1", "2"], 5 * rounds)
    await models.forget("counted")


async def _counted(frontend: FrontendProcess, model: str) -> dict[str, int]:
    """Return the requests for a model by process, from whichever process answers."""
    async with aiohttp.ClientSession() as session, session.get(f"{frontend.url}/metrics") as answer:
        text = await answer.text()
    found: dict[str, int] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "corral_leader":
                found.setdefault(sample.labels["process"], 0)
            elif sample.name == "corral_requests_total" and sample.labels["model"] == model:
                found[sample.labels["process"]] = found.get(sample.labels["process"], 0) + int(sample.value)
    return found


async def test_several_frontend_processes_cut_no_stream_when_stopped(models: Models) -> None:
    await models.put("drained", options=SLOW)
    await models.loaded("drained", "worker-1")
    async with _several(models, 2) as frontend:
        children: Any = await _children(models, frontend, 2)
        async with _open_streams(models, "drained", via=models.cluster.frontends.index(frontend)) as streams:
            ending = asyncio.create_task(frontend.program.end())
            await _assert_whole(streams)
            assert await ending == 0
    assert not [pid for pid in children.values() if _lives(pid)]
    await models.forget("drained")


async def test_parent_that_is_killed_takes_its_processes_with_it(models: Models) -> None:
    async with _several(models, 2) as frontend:
        children: Any = await _children(models, frontend, 2)
        await frontend.program.kill()

        async def are_gone() -> bool:
            return not any(_lives(pid) for pid in children.values())

        await eventually(are_gone)
