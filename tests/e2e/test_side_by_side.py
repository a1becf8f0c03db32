"""Frontends and workers side by side on one PostgreSQL and one NATS, and what happens when one of them dies."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.api.streams import open_stream
from tests.e2e.cluster import Record, cluster_of, empty_cluster
from tests.support.polling import eventually

THREE = ("worker-1", "worker-2", "worker-3")


@pytest.mark.behaviour("FLT-1")
async def test_two_frontends_and_three_workers_side_by_side(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        token = await cluster.token(max_uses=3)
        for name in THREE:
            await cluster.new_worker(name, token).start()
        await cluster.become(dict.fromkeys(THREE, "pending"))
        for number, name in enumerate(THREE):
            status, answer = await cluster.frontends[number % 2].call("POST", f"/api/nodes/{name}/approve")
            assert status == 200, answer
        await cluster.become(dict.fromkeys(THREE, "healthy"), on_bus=True)
        first, second = [_stable(await frontend.get("/api/nodes")) for frontend in cluster.frontends]
        assert first == second
        _, term = await cluster.leader()
        assert term >= 1
        overview = await cluster.frontends[1].get("/api/cluster")
        assert {shown["id"] for shown in overview["frontends"]} == {"frontend-1", "frontend-2"}
        assert all(shown["alive"] for shown in overview["frontends"])
        assert overview["degraded"] == []
        for frontend in cluster.frontends:
            for name in THREE:
                status, answer = await frontend.call("POST", f"/api/nodes/{name}/probe")
                assert (status, answer["name"]) == (200, name)


def _stable(nodes: list[Any]) -> list[Any]:
    """Return nodes without the fields that a heartbeat between two requests may change."""
    moving = ("last_heartbeat", "updated_at", "available_", "reported_available")
    return [{key: value for key, value in node.items() if not key.startswith(moving)} for node in nodes]


@pytest.mark.behaviour("FLT-2")
async def test_leader_that_is_killed_is_replaced_with_a_higher_term_and_nodes_stay_healthy(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, "worker-1", "worker-2") as cluster:
        leader, term = await cluster.leader()
        (follower,) = [frontend for frontend in cluster.frontends if frontend is not leader]
        async with open_stream(follower.url, topics="leader,node") as stream:
            await stream.next()
            await leader.program.kill()

            async def has_taken_over() -> bool:
                view = (await follower.get("/api/cluster"))["leader"]
                return bool(view["holder"] == follower.id)

            record = Record()
            await record.during(follower.statuses, has_taken_over)
            assert (await follower.get("/api/cluster"))["leader"]["term"] > term
            # One lease more under the new leader: long enough for a false alarm to be raised.
            await record.during(follower.statuses, await cluster.later(6))
            assert record.seen == {"healthy"}
            await leader.program.start()
            await eventually(leader.is_ready)
            await cluster.become(dict.fromkeys(cluster.workers, "healthy"), on_bus=True)
            kinds = [frame.event for frame in await stream.until("leader.changed")]
            assert "node.lost" not in kinds


async def test_frontend_stopped_with_open_streams_and_calls_in_flight_exits_with_0(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        leader, term = await cluster.leader()
        async with open_stream(leader.url) as first, open_stream(leader.url) as second:
            await first.next()
            await second.next()
            calls = [leader.call("POST", "/api/tokens", {"name": f"t{n}"}) for n in range(20)]
            answers = await _together(calls, lambda: leader.program.send(signal.SIGTERM))
            # Each call was answered, or refused before anything was done; none was cut.
            assert {status for status, _ in answers} <= {201, 503}
            for stream in (first, second):
                while await stream.next_or_end() is not None:
                    pass
        assert await leader.program.wait() == 0, leader.program.log
        (other,) = cluster.running()
        made = {answer["id"] for status, answer in answers if status == 201}
        assert made <= {token["id"] for token in await other.get("/api/tokens")}
        # It handed the lease over: the next leader did not have to wait for its end.
        _, next_term = await cluster.leader()
        assert next_term == term + 1
        gone = await other.get("/api/cluster")
        assert [shown["id"] for shown in gone["frontends"]] == [other.id]


async def _together(calls: list[Any], act: Any) -> list[tuple[int, Any]]:
    async def refused_or_answered(call: Any) -> tuple[int, Any]:
        try:
            answer: tuple[int, Any] = await call
        except aiohttp.ClientConnectorError:
            return 503, None
        return answer

    async with asyncio.TaskGroup() as group:
        started = [group.create_task(refused_or_answered(call)) for call in calls]
        await asyncio.wait(started, return_when=asyncio.FIRST_COMPLETED)
        act()
    return [task.result() for task in started]


@pytest.mark.behaviour("API-17")
async def test_frontend_without_postgresql_says_so_and_becomes_ready_by_itself(tmp_path: Path) -> None:
    async with empty_cluster(tmp_path) as cluster:
        frontend = cluster.new_frontend()
        await frontend.program.start()

        async def serves() -> bool:
            try:
                return (await frontend.call("GET", "/healthz", key=None))[0] == 200
            except OSError:
                return False

        await eventually(serves)

        async def says_why() -> bool:
            status, answer = await frontend.call("GET", "/readyz", key=None)
            assert status == 503
            return "PostgreSQL" in answer["reason"]

        await eventually(says_why)
        for path in ("/api/nodes", "/api/cluster", "/api/events", "/nothing"):
            status, answer = await frontend.call("GET", path)
            assert (status, answer["error"]["code"]) == (503, "starting")
            assert answer["error"]["request_id"]
            assert answer["error"]["hint"]
        await cluster.postgres.start()
        await eventually(frontend.is_ready)
        assert await frontend.get("/api/nodes") == []
        assert await frontend.program.end() == 0


@pytest.mark.behaviour("API-17")
async def test_frontend_waiting_for_postgresql_can_be_stopped(tmp_path: Path) -> None:
    async with empty_cluster(tmp_path) as cluster:
        frontend = cluster.new_frontend()
        await frontend.program.start()

        async def waits() -> bool:
            return "waiting for PostgreSQL" in frontend.program.log

        await eventually(waits)
        assert await frontend.program.end() == 0, frontend.program.log
