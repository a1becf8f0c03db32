"""A worker stops, freezes, dies, is removed, or has a wrong clock."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.adapters.nats.connection import BusWarningLog, NatsConnection
from corral.adapters.nats.credentials import NatsCredential, make_credential, new_user_key
from corral.domain.errors import NotAuthenticated
from tests.e2e.cluster import Cluster, cluster_of
from tests.e2e.test_outages import _assert_intent, _intent
from tests.support.polling import eventually


@pytest.mark.behaviour("FLT-6")
async def test_frozen_worker_goes_offline_and_comes_back_with_nothing_of_the_admins_undone(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, "worker-1", "worker-2") as cluster:
        frontend = cluster.frontends[0]
        worker, before = cluster.workers["worker-1"], await frontend.node("worker-1")
        worker.send(signal.SIGSTOP)
        try:
            await cluster.become({"worker-1": "offline", "worker-2": "healthy"})
            assert "No heartbeat" in (await frontend.node("worker-1"))["status_reason"]
            # Decided while it could not hear it.
            await _intent(frontend)
        finally:
            worker.send(signal.SIGCONT)

        async def is_alive() -> bool:
            conditions = (await frontend.node("worker-1"))["conditions"]
            return all(fact["holds"] for fact in conditions if fact["name"] in ("alive", "on_bus"))

        await eventually(is_alive)
        after = await frontend.node("worker-1")
        assert (after["id"], after["boot_id"]) == (before["id"], before["boot_id"])
        await _assert_intent(frontend)
        assert (await frontend.call("POST", "/api/nodes/worker-1/resume"))[0] == 200
        await cluster.become({"worker-1": "healthy"}, on_bus=True)


@pytest.mark.behaviour("FLT-7")
async def test_killed_worker_comes_back_as_the_same_node_and_one_that_leaves_is_offline_at_once(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, "worker-1", frontends=1) as cluster:
        frontend, worker = cluster.frontends[0], cluster.workers["worker-1"]
        before = await frontend.node("worker-1")
        await _intent(frontend)
        await worker.kill()
        await worker.start()

        async def has_new_life() -> bool:
            return bool((await frontend.node("worker-1"))["boot_id"] != before["boot_id"])

        await eventually(has_new_life)
        assert (await frontend.node("worker-1"))["id"] == before["id"]
        await _assert_intent(frontend)
        assert (await frontend.call("POST", "/api/nodes/worker-1/resume"))[0] == 200
        await cluster.become({"worker-1": "healthy"}, on_bus=True)
        assert await worker.end() == 0, worker.log
        gone = await frontend.node("worker-1")
        assert (gone["status"], gone["status_reason"]) == ("offline", "Its worker has stopped")
        assert [node["name"] for node in await frontend.get("/api/nodes")] == ["worker-1"]


async def test_worker_whose_clock_is_five_minutes_off_works_with_its_bus_credential(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, frontends=1) as cluster:
        await cluster.join("ahead", ahead_s=300)
        await cluster.join("behind", ahead_s=-300)
        for name in ("ahead", "behind"):
            status, answer = await cluster.frontends[0].call("POST", f"/api/nodes/{name}/probe")
            assert (status, answer["name"]) == (200, name)
        # The credential is presented anew after the bus was away.
        await cluster.nats.restart()
        await cluster.become({"ahead": "healthy", "behind": "healthy"}, on_bus=True)


@pytest.mark.behaviour("FLT-9")
async def test_removed_worker_comes_back_only_with_a_valid_token(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, "worker-1", "worker-2") as cluster:
        first, second = cluster.frontends
        worker, old = cluster.workers["worker-1"], await first.node("worker-1")
        assert (await second.call("DELETE", "/api/nodes/worker-1"))[0] == 200

        async def is_refused() -> bool:
            return "not known any more" in worker.log and "has no uses left" in worker.log

        await eventually(is_refused)
        # It goes on waiting and is not let in; the others do not notice.
        assert worker.exit_code is None
        assert await first.statuses() == {"worker-2": "healthy"}
        await worker.kill()
        # The same machine with a new token is a new node that has to be approved.
        await cluster.new_worker("worker-1", await cluster.token()).start()
        await cluster.become({"worker-1": "pending", "worker-2": "healthy"})
        assert (await first.node("worker-1"))["id"] != old["id"]
        assert (await first.call("POST", "/api/nodes/worker-1/approve"))[0] == 200
        await cluster.become({"worker-1": "healthy", "worker-2": "healthy"}, on_bus=True)


@pytest.mark.behaviour("FLT-9")
async def test_removed_node_is_cut_off_the_bus_although_its_credential_has_not_run_out(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, frontends=1) as cluster:
        seed, public = new_user_key()
        body = {"name": "held", "credential": "c" * 40, "boot_id": "boot-1234", "address": "127.0.0.1:1"}
        body |= {"token": await cluster.token(approves=True), "bus_public_key": public}
        status, node = await cluster.frontends[0].call("POST", "/api/node/register", body, key=None)
        assert status == 201, node
        granted = make_credential(node["nats_jwt"], seed, subject_id=node["id"])
        lost = asyncio.Event()
        connection = _connection(cluster, granted, lost.set)
        await connection.open()
        try:
            assert (await cluster.frontends[0].call("DELETE", "/api/nodes/held"))[0] == 200
            async with asyncio.timeout(30):
                await lost.wait()
        finally:
            await connection.close()
        again = _connection(cluster, granted, lambda: None)
        with pytest.raises(NotAuthenticated):
            await again.open()


@pytest.mark.behaviour("TRUST-6")
async def test_removed_node_is_cut_off_the_bus_with_every_key_that_it_has_shown(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, frontends=1) as cluster:
        frontend = cluster.frontends[0]
        first, second = new_user_key(), new_user_key()
        body = {"name": "held", "credential": "c" * 40, "boot_id": "boot-1234", "address": "127.0.0.1:1"}
        body |= {"token": await cluster.token(approves=True), "bus_public_key": first[1]}
        _, node = await frontend.call("POST", "/api/node/register", body, key=None)
        lost = asyncio.Event()
        older = make_credential(node["nats_jwt"], first[0], subject_id=node["id"])
        connection = _connection(cluster, older, lost.set)
        await connection.open()
        try:
            path, shown = f"/api/node/{node['id']}/credentials", {"bus_public_key": second[1]}
            status, fresh = await frontend.call("POST", path, shown, key=body["credential"])
            assert status == 200, fresh
            assert (await frontend.call("DELETE", "/api/nodes/held"))[0] == 200
            async with asyncio.timeout(30):
                await lost.wait()
        finally:
            await connection.close()
        newer = make_credential(fresh["nats_jwt"], second[0], subject_id=node["id"])
        for granted in (older, newer):
            with pytest.raises(NotAuthenticated):
                await _connection(cluster, granted, lambda: None).open()


def _connection(cluster: Cluster, granted: NatsCredential, on_lost: Callable[[], None]) -> NatsConnection:
    return NatsConnection(cluster.nats.endpoint("held"), granted, reporter=BusWarningLog("held"), on_lost=on_lost)
