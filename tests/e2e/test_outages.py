"""PostgreSQL or NATS goes away, softly or by SIGKILL: nothing is lost, nobody is taken for dead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.api.streams import open_stream
from tests.e2e.cluster import Cluster, FrontendProcess, Record, cluster_of
from tests.support.polling import eventually

TWO = ("worker-1", "worker-2")


async def _intent(frontend: FrontendProcess) -> None:
    """Set on a node what an admin decides, which `_assert_intent` checks."""
    for method, path, body in (
        ("PATCH", "/labels", {"zone": "b"}),
        ("PUT", "/max-replicas-per-model", {"value": 4}),
        ("PUT", "/vram-budget", {"value": "80%"}),
        ("POST", "/drain", None),
    ):
        status, answer = await frontend.call(method, f"/api/nodes/worker-1{path}", body)
        assert status == 200, answer


async def _assert_intent(frontend: FrontendProcess) -> None:
    node: Any = await frontend.node("worker-1")
    assert node["labels"]["zone"] == "b"
    assert node["label_sources"]["zone"] == "admin"
    assert (node["max_replicas_per_model"], node["max_replicas_per_model_manually_set"]) == (4, True)
    assert (node["vram_budget"], node["vram_budget_manually_set"]) == ("80%", True)
    assert node["status"] == "draining"


@pytest.mark.behaviour("FLT-4")
async def test_outage_of_postgresql_loses_nothing_and_marks_no_node_dead(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, *TWO) as cluster:
        await _intent(cluster.frontends[0])
        before = {node["name"]: node["id"] for node in await cluster.frontends[0].get("/api/nodes")}
        async with open_stream(cluster.frontends[0].url, topics="node") as stream:
            await stream.next()
            await cluster.postgres.kill()
            await _longer_than_the_node_lease(cluster)
            await _back(cluster)
            record = Record()
            await record.during(cluster.all_statuses, await cluster.later(6))
            assert record.seen == {"healthy", "draining"}
            status, answer = await cluster.frontends[0].call("POST", "/api/nodes/worker-1/resume")
            assert status == 200, answer
            assert "node.lost" not in [frame.event for frame in await stream.until("node.resumed")]
            await cluster.frontends[0].call("POST", "/api/nodes/worker-1/drain")
        # And once more, softly.
        await cluster.postgres.stop()
        await _back(cluster)
        await _assert_intent(cluster.frontends[1])
        assert {node["name"]: node["id"] for node in await cluster.frontends[1].get("/api/nodes")} == before
        await cluster.leader()


async def _back(cluster: Cluster) -> None:
    """Start PostgreSQL again, and wait until every frontend has noticed."""
    await cluster.postgres.start()
    for frontend in cluster.frontends:
        await eventually(lambda f=frontend: _answers(f), within_s=60)  # type: ignore[misc]


async def _answers(frontend: FrontendProcess) -> bool:
    return (await frontend.call("GET", "/api/nodes"))[0] == 200


async def _longer_than_the_node_lease(cluster: Cluster) -> None:
    """Wait for longer than the node lease while PostgreSQL is away; heartbeats go on into memory."""
    frontend = cluster.frontends[0]
    begin = await _received(frontend)

    async def many_more() -> bool:
        assert frontend.program.exit_code is None, frontend.program.log
        status, answer = await frontend.call("GET", "/api/nodes")
        assert status != 500, answer
        assert status == 200 or answer["error"]["code"] == "store_unavailable"
        # Two nodes, two heartbeats a second each, either frontend may get them: this is more than the lease of 5 s.
        return await _received(frontend) - begin > 2 * 2 * 6

    await eventually(many_more, within_s=90)
    assert (await frontend.call("GET", "/api/nodes"))[0] == 503
    overview = await frontend.get("/api/cluster")
    assert overview["postgres"]["state"] == "down"
    assert overview["degraded"]
    status, ready = await frontend.call("GET", "/readyz", key=None)
    assert (status, bool(ready["degraded"])) == (200, True)


async def _received(frontend: FrontendProcess) -> float:
    _, text = await frontend.call("GET", "/metrics", key=None)
    (line,) = [line for line in text.splitlines() if line.startswith("corral_heartbeats_total")]
    return float(line.split()[1])


@pytest.mark.behaviour("FLT-5")
async def test_nodes_are_unhealthy_but_never_offline_without_nats_and_recover_by_themselves(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, *TWO) as cluster:
        frontend = cluster.frontends[0]
        await cluster.nats.kill()
        record = Record()
        await record.during(frontend.statuses, lambda: _all_are(frontend, "unhealthy"))
        await record.during(frontend.statuses, await cluster.later(6))
        assert record.seen == {"healthy", "unhealthy"}
        assert "not on the bus" in (await frontend.node("worker-1"))["status_reason"]
        assert (await frontend.get("/api/cluster"))["nats"]["state"] == "down"
        status, answer = await frontend.call("POST", "/api/nodes/worker-1/probe")
        assert status == 503, answer
        await cluster.nats.start()
        await cluster.become(dict.fromkeys(TWO, "healthy"), on_bus=True)
        for shown in cluster.frontends:
            await eventually(lambda f=shown: _probed(f))  # type: ignore[misc]


async def _all_are(frontend: FrontendProcess, status: str) -> bool:
    return set((await frontend.statuses()).values()) == {status}


async def _probed(frontend: FrontendProcess) -> bool:
    try:
        return (await frontend.call("POST", "/api/nodes/worker-1/probe"))[0] == 200
    except aiohttp.ClientError:
        return False
