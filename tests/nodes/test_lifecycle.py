"""Approval, drain and liveness: who may change which, and what each change takes with it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from corral.domain.node import NodeId
from corral.nodes.commands import note_bus
from corral.store import replicas as replica_store
from corral.store.database import Database
from tests.nodes.registry import (
    bus_key,
    condition,
    events,
    find_lost,
    load,
    loaded,
    put_aside,
    removals,
    stored,
)
from tests.support.frontends import RunningFrontend
from tests.support.nodes import PretendNode, age_heartbeat, create_join_token, join_node
from tests.support.replicas import insert_reservation


@pytest.mark.behaviour("NODE-6")
async def test_approving_an_approved_node_is_an_error_and_changes_nothing(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    before = await stored(node)
    status, answer = await node.call_as_admin("POST", "/approve")
    assert (status, answer["error"]["code"]) == (400, "not_pending")
    assert await stored(node) == before
    assert len(await events(frontend.database, "node.approved")) == 1


@pytest.mark.behaviour("NODE-6")
async def test_approval_gives_a_bus_credential_and_the_node_is_healthy_once_it_is_on_the_bus(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend, approved=False)
    is_aside = await put_aside(frontend.database)
    status, answer = await node.call_as_admin("POST", "/approve")
    assert (status, answer["status"]) == (200, "joining"), "nothing that was pending is on the bus yet"
    assert not (await node.read_as_admin())["schedulable"]
    assert not await is_aside()
    status, answer = await node.call("POST", "/credentials", {"bus_public_key": bus_key()})
    assert status == 200
    assert answer["nats_jwt"]
    await node.heartbeat(bus_ok=True)
    shown = await node.read_as_admin()
    assert (shown["status"], shown["schedulable"]) == ("healthy", True)


@pytest.mark.behaviour("NODE-7")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/approve", None),
        ("POST", "/drain", None),
        ("POST", "/resume", None),
        ("POST", "/probe", None),
        ("POST", "/stop", None),
        ("GET", "/models", None),
        ("GET", "/labels", None),
        ("PUT", "/labels", {}),
        ("PATCH", "/labels", {}),
        ("DELETE", "/labels/zone", None),
        ("PUT", "/max-replicas-per-model", {"value": 2}),
        ("DELETE", "/max-replicas-per-model", None),
        ("PUT", "/vram-budget", {"value": "50%"}),
        ("DELETE", "/vram-budget", None),
    ],
)
@pytest.mark.parametrize("reference", ["018f0000-0000-7000-8000-000000000000", "nobody"])
async def test_unknown_node_is_404_for_every_admin_call(
    frontend: RunningFrontend, method: str, path: str, body: Any, reference: str
) -> None:
    status, answer = await frontend.call(method, f"/api/nodes/{reference}{path}", body)
    assert (status, answer["error"]["code"]) == (404, "node_not_found")


@pytest.mark.behaviour("NODE-7")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/heartbeat"),
        ("POST", "/drain"),
        ("POST", "/resume"),
        ("POST", "/deregister"),
        ("DELETE", ""),
        ("GET", "/models"),
    ],
)
async def test_unknown_node_is_404_for_every_call_of_a_worker(
    frontend: RunningFrontend, method: str, path: str
) -> None:
    stranger = PretendNode(frontend, "stranger", id="018f0000-0000-7000-8000-000000000000")
    status, answer = await stranger.call(method, path)
    assert (status, answer["error"]["code"]) == (404, "node_not_found")


@pytest.mark.behaviour("NODE-17")
@pytest.mark.behaviour("OPS-66")
async def test_silent_node_is_offline_without_replicas_and_a_heartbeat_brings_it_back(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend)
    await load(node, "a", "a", "b")
    await age_heartbeat(node, 61)
    await find_lost(frontend)
    shown = await node.read_as_admin()
    assert (shown["status"], shown["schedulable"]) == ("offline", False)
    assert await loaded(node) == []
    assert await removals(node) == [("a", 2), ("b", 1)]
    assert len(await events(frontend.database, "node.lost")) == 1
    assert (await node.heartbeat(bus_ok=True))[0] == 200
    assert (await node.read_as_admin())["status"] == "healthy"
    assert len(await events(frontend.database, "node.alive")) == 1


@pytest.mark.behaviour("NODE-17")
async def test_node_is_not_lost_before_its_lease_has_run_out(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    await node.heartbeat(bus_ok=True)
    await load(node, "a")
    await age_heartbeat(node, 40)
    await find_lost(frontend)
    assert (await node.read_as_admin())["status"] == "healthy"
    assert await loaded(node) == ["a"]


@pytest.mark.behaviour("NODE-18")
async def test_node_off_the_bus_keeps_its_replicas_and_is_healthy_when_it_says_it_is_back(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend)
    await load(node, "a")
    await node.heartbeat(bus_ok=True)
    await note_bus(frontend.database, NodeId(node.id), is_on_bus=False)
    assert (await node.read_as_admin())["status"] == "unhealthy"
    await node.heartbeat()
    await find_lost(frontend)
    assert (await node.read_as_admin())["status"] == "unhealthy", "a heartbeat over HTTP says nothing about the bus"
    await node.heartbeat(bus_ok=True)
    await find_lost(frontend)
    assert (await node.read_as_admin())["status"] == "healthy"
    assert await loaded(node) == ["a"]
    assert await removals(node) == []


@pytest.mark.behaviour("OPS-68")
async def test_long_loss_of_the_bus_takes_no_replica_away_while_heartbeats_arrive(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    await node.heartbeat(bus_ok=True)
    await load(node, "a", "b")
    for _ in range(6):
        await age_heartbeat(node, 44)
        await node.heartbeat(bus_ok=False)
        await find_lost(frontend)
    shown = await node.read_as_admin()
    assert (shown["status"], condition(shown, "alive"), condition(shown, "on_bus")) == ("unhealthy", True, False)
    assert await loaded(node) == ["a", "b"]
    assert len(await events(frontend.database, "node.bus_changed")) == 2, "what stays the same is not news"


@pytest.mark.behaviour("NODE-19")
@pytest.mark.behaviour("OPS-59")
async def test_pending_node_that_was_silent_is_still_pending_after_its_next_heartbeat(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend, approved=False)
    await age_heartbeat(node, 61)
    await find_lost(frontend)
    assert condition(await node.read_as_admin(), "alive") is False
    await node.heartbeat(bus_ok=True)
    shown = await node.read_as_admin()
    assert (shown["status"], shown["schedulable"], condition(shown, "alive")) == ("pending", False, True)


@pytest.mark.behaviour("OPS-59")
@pytest.mark.parametrize(("method", "path"), [("POST", "/deregister"), ("DELETE", "")])
async def test_pending_node_that_left_comes_back_pending(frontend: RunningFrontend, method: str, path: str) -> None:
    node = await join_node(frontend, approved=False)
    assert (await node.call(method, path))[0] == 200
    node.reboot()
    _, answer = await node.register(None)
    assert answer["status"] == "pending"


@pytest.mark.behaviour("NODE-20")
@pytest.mark.parametrize(("method", "path"), [("POST", "/deregister"), ("DELETE", "")])
async def test_late_heartbeat_does_not_revive_a_deregistered_node(
    frontend: RunningFrontend, method: str, path: str
) -> None:
    node = await join_node(frontend)
    await load(node, "a")
    assert (await node.call(method, path))[0] == 200
    await node.heartbeat()
    await find_lost(frontend)
    shown = await node.read_as_admin()
    assert (shown["status"], shown["schedulable"]) == ("offline", False)
    assert await loaded(node) == []
    assert await removals(node) == [("a", 1)]
    node.reboot()
    _, answer = await node.register(None)
    assert answer["status"] == "healthy"


@pytest.mark.behaviour("NODE-20")
async def test_buffered_heartbeat_does_not_revive_a_deregistered_node(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend)
    await node.call("POST", "/heartbeat", {"boot_id": node.boot_id})
    await node.call("POST", "/deregister")
    frontend.core.heartbeats.record(NodeId(node.id), {"boot_id": node.boot_id})
    await frontend.core.heartbeats.flush()
    assert (await node.read_as_admin())["status"] == "offline"


@pytest.mark.behaviour("NODE-20")
async def test_worker_that_drains_itself_before_it_leaves_is_offline_in_the_end(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    assert (await node.call("POST", "/drain"))[0] == 200
    assert (await node.read_as_admin())["status"] == "draining"
    await node.call("POST", "/deregister")
    assert (await node.read_as_admin())["status"] == "offline"


@pytest.mark.behaviour("NODE-20")
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/deregister"), ("DELETE", ""), ("POST", "/drain"), ("POST", "/resume")]
)
async def test_last_words_of_an_older_process_do_not_touch_the_newer_one(
    frontend: RunningFrontend, method: str, path: str
) -> None:
    node = await join_node(frontend)
    before = node.boot_id
    node.reboot()
    await node.register(None)
    await load(node, "a")
    status, answer = await node.call(method, path, {"boot_id": before})
    assert (status, answer["error"]["code"]) == (409, "boot_superseded")
    assert (await node.read_as_admin())["status"] == "healthy"
    assert await loaded(node) == ["a"]
    assert (await node.call(method, path, {"boot_id": node.boot_id}))[0] == 200


@pytest.mark.behaviour("NODE-21")
@pytest.mark.behaviour("OPS-60")
async def test_drain_outlives_everything_but_an_admins_resume(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    assert (await node.call_as_admin("POST", "/drain"))[0] == 200
    node.reboot()
    _, answer = await node.register(None, bus_public_key=bus_key())
    assert answer["status"] == "draining"
    _, answer = await node.heartbeat(bus_ok=True)
    assert answer["draining"] is True
    assert (await node.call("POST", "/credentials", {"bus_public_key": bus_key()}))[0] == 200
    assert (await node.call("POST", "/resume"))[0] == 200
    shown = await node.read_as_admin()
    assert (shown["status"], shown["schedulable"]) == ("draining", False)
    status, shown = await node.call_as_admin("POST", "/resume")
    assert (status, shown["status"], shown["schedulable"]) == (200, "healthy", True)


@pytest.mark.behaviour("NODE-22")
async def test_drained_node_that_goes_silent_is_shown_as_draining_and_away(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    await node.call_as_admin("POST", "/drain")
    await age_heartbeat(node, 61)
    await find_lost(frontend)
    shown = await node.read_as_admin()
    assert (shown["status"], condition(shown, "alive")) == ("draining", False)
    assert "no heartbeat" in shown["status_reason"]


@pytest.mark.behaviour("NODE-23")
async def test_drain_takes_the_replicas_out_of_service_and_lets_them_finish_their_answers(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend)
    await load(node, "a", "a", "b")
    status, shown = await node.call_as_admin("POST", "/drain")
    assert (status, shown["status"]) == (200, "draining")
    async with frontend.database.transaction() as tx:
        rows = await replica_store.list_replicas(tx, NodeId(node.id))
    assert {(row.state, row.stop_reason) for row in rows} == {("unloading", "the node was drained")}
    assert sorted(event.key for event in await events(frontend.database, "replica.changed")) == ["a", "a", "b"]
    assert await removals(node) == [], "a row goes when its worker says that the process has ended"
    await node.call_as_admin("POST", "/drain")
    assert len(await events(frontend.database, "node.drained")) == 1, "draining twice is draining once"


@pytest.mark.behaviour("NODE-24")
async def test_removing_a_node_leaves_nothing_of_it(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "agent", node_type="agent", address="")
    await node.register(None, node_type="agent", address="")
    await load(node, "a", "a", "b")
    await node.call_as_admin("PATCH", "/labels", {"zone": "b"})
    await node.heartbeat(total_vram=10, available_vram=10)
    async with frontend.database.transaction() as tx:
        await insert_reservation(tx, NodeId(node.id), "load 1", 5)
    assert set(await _tables_with(frontend.database, node.id)) == {
        "api_keys",
        "node_labels",
        "nodes",
        "replicas",
        "reservations",
    }
    assert (await node.call_as_admin("DELETE", ""))[0] == 200
    # That it was removed is remembered for a while, so that its worker can be told.
    assert await _tables_with(frontend.database, node.id) == ["removed_nodes"]
    assert await removals(node) == [("a", 2), ("b", 1)]
    assert (await node.heartbeat())[0] == 404
    assert (await node.register(None))[0] == 401, "a removed node needs a join token like any other machine"
    assert (await node.register(await create_join_token(frontend)))[1]["status"] == "pending"


@pytest.mark.behaviour("NODE-24")
async def test_every_table_that_names_a_node_loses_its_rows_with_the_node(database: Database) -> None:
    async with database.transaction() as tx:
        naming = await tx.execute(
            text(
                "SELECT table_name FROM information_schema.columns"
                " WHERE table_schema = 'public' AND column_name = 'node_id'"
            )
        )
        cascading = await tx.execute(
            text(
                "SELECT k.table_name FROM information_schema.referential_constraints r"
                " JOIN information_schema.key_column_usage k ON k.constraint_name = r.constraint_name"
                " JOIN information_schema.constraint_column_usage u ON u.constraint_name = r.constraint_name"
                " WHERE k.column_name = 'node_id' AND r.delete_rule = 'CASCADE'"
                " AND u.table_name = 'nodes' AND u.column_name = 'id'"
            )
        )
        tables = {row.table_name for row in naming}
        assert {"replicas", "node_labels", "reservations", "api_keys"} <= tables
        assert tables == {row.table_name for row in cascading}


async def _tables_with(database: Database, node_id: str) -> list[str]:
    """The tables that hold a row of this node, audit and outbox aside: those are history."""
    async with database.transaction() as tx:
        columns = await tx.execute(
            text(
                "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
                " AND data_type = 'uuid' ORDER BY table_name"
            )
        )
        return [
            row.table_name
            for row in columns
            if (
                await tx.execute(
                    text(f'SELECT count(*) FROM "{row.table_name}" WHERE "{row.column_name}" = CAST(:id AS uuid)'),
                    {"id": node_id},
                )
            ).scalar_one()
        ]
