"""A worker in a real cluster: real frontend, PostgreSQL and NATS."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from corral.app.worker import ComposedWorker
from corral.domain.errors import NameTaken, NotAuthenticated
from corral.domain.node import NodeType
from tests.bus.nats_server import NatsServer
from tests.support.frontends import RunningFrontend
from tests.support.nodes import create_join_token
from tests.support.polling import eventually
from tests.worker.conftest import StartWorker
from tests.worker.relay import Relay


async def _node(cluster: RunningFrontend, name: str = "gpu-a") -> Any:
    status, node = await cluster.call("GET", f"/api/nodes/{name}")
    return node if status == 200 else None


async def _until_status(cluster: RunningFrontend, status: str, name: str = "gpu-a") -> Any:
    async def look() -> Any:
        node = await _node(cluster, name)
        return node if node and node["status"] == status else None

    return await eventually(look)


async def _until_healthy(cluster: RunningFrontend) -> Any:
    """Approved, alive, and seen on the bus."""

    async def look() -> Any:
        node = await _node(cluster)
        facts = {fact["name"]: fact["holds"] for fact in node["conditions"]} if node else {}
        return node if facts.get("on_bus") and node["status"] == "healthy" else None

    return await eventually(look)


async def _until_ready(worker: ComposedWorker) -> None:
    async def look() -> bool:
        return worker.membership.find_not_ready_reason() is None

    await eventually(look)


async def _readyz(worker: ComposedWorker, path: str = "/readyz") -> tuple[int, Any]:
    url = f"http://127.0.0.1:{worker.health.port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.json()


@pytest.mark.behaviour("WRK-5")
async def test_worker_joins_waits_is_approved_and_is_healthy(cluster: RunningFrontend, start_worker: StartWorker):
    worker = await start_worker(token=await create_join_token(cluster), labels={"site": "attic"})
    node = await _until_status(cluster, "pending")
    assert (await _readyz(worker))[1]["reason"] == "waiting for approval: corral nodes approve gpu-a"
    await cluster.call("POST", f"/api/nodes/{node['id']}/approve")
    healthy = await _until_healthy(cluster)
    assert healthy["id"] == worker.membership.node_id
    assert healthy["total_ram"] > 0
    assert healthy["available_disk"] is not None
    assert healthy["labels"]["site"] == "attic"
    assert healthy["http_address"] == f"127.0.0.1:{worker.health.port}"
    assert await _readyz(worker) == (200, {"status": "ready"})


async def test_frontend_reaches_the_worker_over_the_bus(cluster: RunningFrontend, start_worker: StartWorker):
    worker = await start_worker(token=await create_join_token(cluster, approves=True))
    await _until_healthy(cluster)
    status, described = await cluster.call("POST", "/api/nodes/gpu-a/probe")
    assert status == 200, described
    assert described["node_id"] == worker.membership.node_id
    assert described["hardware"]["total_ram"] > 0


@pytest.mark.behaviour("OPS-86")
async def test_readiness_follows_the_bus_and_health_does_not(
    cluster: RunningFrontend, nats: NatsServer, start_worker: StartWorker
):
    worker = await start_worker(token=await create_join_token(cluster, approves=True))
    await _until_healthy(cluster)
    await nats.kill()

    async def is_unready() -> bool:
        return await _readyz(worker) == (503, {"status": "not ready", "reason": "not on the bus"})

    await eventually(is_unready)
    assert (await _readyz(worker, "/healthz"))[0] == 200
    await _until_status(cluster, "unhealthy")
    await nats.start()
    await _until_healthy(cluster)
    assert (await _readyz(worker))[0] == 200


@pytest.mark.behaviour("WRK-6")
async def test_worker_outlives_its_frontend_and_comes_back_by_itself(
    cluster: RunningFrontend, start_worker: StartWorker
):
    async with Relay(cluster.url) as relay:
        worker = await start_worker(token=await create_join_token(cluster, approves=True), join=relay.url)
        await worker.membership.loop.tick_signal.wait()
        assert "does not respond" in str(worker.membership.find_not_ready_reason())
        assert await _node(cluster) is None
        await relay.open()
        node = await _until_healthy(cluster)
        await relay.close()
        await worker.membership.loop.tick_signal.wait()
        # The bus is a way of its own; only heartbeats are missing.
        assert worker.membership.find_not_ready_reason() is None
        await relay.open()
        await worker.membership.heartbeat_answered.wait()
        assert (await _node(cluster))["id"] == node["id"]
        await worker.services.stop()


@pytest.mark.behaviour("OPS-67")
async def test_removed_node_comes_back_as_a_new_one(cluster: RunningFrontend, start_worker: StartWorker):
    worker = await start_worker(token=await create_join_token(cluster, approves=True, max_uses=2))
    first = await _until_healthy(cluster)
    assert (await cluster.call("DELETE", f"/api/nodes/{first['id']}"))[0] == 200

    async def is_back() -> bool:
        node = await _node(cluster)
        return node is not None and node["id"] != first["id"]

    await eventually(is_back)
    second = await _until_healthy(cluster)
    await _until_ready(worker)
    assert worker.membership.node_id == second["id"]


@pytest.mark.behaviour("WRK-4")
async def test_taken_name_and_a_wrong_token_are_final(cluster: RunningFrontend, start_worker: StartWorker, tmp_path):
    token = await create_join_token(cluster, max_uses=2)
    await start_worker(token=token)
    await _until_status(cluster, "pending")
    second = await start_worker(is_started=False, token=token, worker_home=_made(tmp_path / "second"))
    with pytest.raises(NameTaken) as taken:
        await second.services.run()
    assert "--name" in str(taken.value.hint)
    third = await start_worker(is_started=False, token="cj_wrong", name="gpu-b", worker_home=_made(tmp_path / "third"))
    with pytest.raises(NotAuthenticated) as wrong:
        await third.services.run()
    assert "corral tokens create" in str(wrong.value.hint)


def _made(path: Any) -> Any:
    path.mkdir()
    return path


@pytest.mark.behaviour("OPS-90")
async def test_agent_gets_a_working_key_when_it_is_approved(cluster: RunningFrontend, start_worker: StartWorker):
    worker = await start_worker(token=await create_join_token(cluster), node_type=NodeType.AGENT)
    await _until_status(cluster, "pending")
    await cluster.call("POST", "/api/nodes/gpu-a/approve")
    await _until_healthy(cluster)
    await _until_ready(worker)
    # Known, and not an admin's.
    assert worker.membership.api_token is not None
    assert (await cluster.call("GET", "/api/nodes", key=worker.membership.api_token))[0] == 403
    assert (await cluster.call("GET", "/api/nodes", key="ck_unknown-key"))[0] == 401


@pytest.mark.behaviour("WRK-10")
async def test_stop_over_the_bus_ends_the_worker_and_leaves_the_node_offline(
    cluster: RunningFrontend, start_worker: StartWorker
):
    worker = await start_worker(token=await create_join_token(cluster, approves=True))
    await _until_healthy(cluster)
    assert (await cluster.call("POST", "/api/nodes/gpu-a/stop"))[0] in (200, 202)
    await worker.services.stop()
    node = await _until_status(cluster, "offline")
    assert "left" in str(node["conditions"]) or "stopped" in str(node["status_reason"]).lower()
