"""Heartbeats: what one changes, and how a thousand of them are written."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import delete, text

from corral.domain.errors import StoreUnavailable
from corral.domain.node import Hardware, NodeId
from corral.nodes.heartbeats import HeartbeatBuffer
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store.database import Database
from corral.store.schema import reservations
from tests.nodes.registry import condition, events, ids, put_aside, stored, transaction_waits_for_a_lock
from tests.support.frontends import RunningFrontend
from tests.support.nodes import GIB, join_node
from tests.support.replicas import insert_replica, insert_reservation
from tests.support.statements import count_statements
from tests.unit.policy.builders import a_replica

LEASE_S = 45.0


@pytest.fixture
def deserted_url() -> Iterator[str]:
    """An address at which nobody answers: the port is bound, and nothing listens on it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"postgresql://postgres@127.0.0.1:{held.getsockname()[1]}/nothing"


async def _nodes(database: Database, count: int) -> list[NodeId]:
    """So many approved nodes, straight into the registry."""
    rows = [{"id": ids.new_id(), "name": f"n{number:04}"} for number in range(count)]
    async with database.transaction() as tx:
        await tx.execute(
            text(
                "INSERT INTO nodes (id, name, node_type, credential_hash, boot_id, liveness, lease_expires_at,"
                " last_heartbeat_at, approved_at, available_vram, total_vram)"
                " VALUES (:id, :name, 'backend', '', 'boot-one', 'alive', corral_now(), corral_now(), corral_now(),"
                " 7, 10)"
            ),
            rows,
        )
    return [NodeId(row["id"]) for row in rows]


async def _hardware(database: Database, node_id: NodeId) -> Hardware:
    async with database.transaction() as tx:
        return (await node_store.get_node(tx, node_id)).hardware


def _readings(buffer: HeartbeatBuffer, nodes: list[NodeId], **reading: Any) -> None:
    for node_id in nodes:
        buffer.record(node_id, {"boot_id": "boot-one"} | reading)


@pytest.mark.behaviour("NODE-15")
@pytest.mark.behaviour("OPS-65")
async def test_free_vram_is_stored_as_reported_and_shown_under_the_budget(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, total_vram=10 * GIB, available_vram=1 * GIB, vram_budget="80%")
    await node.heartbeat(available_vram=9 * GIB)
    shown = await node.read_as_admin()
    assert (shown["available_vram"], shown["reported_available_vram"]) == (8 * GIB, 9 * GIB)
    assert (await stored(node)).hardware.available_vram == 9 * GIB


@pytest.mark.behaviour("NODE-15")
@pytest.mark.behaviour("NODE-29")
@pytest.mark.behaviour("OPS-65")
async def test_reservation_outlives_any_number_of_heartbeats(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, total_vram=10 * GIB, available_vram=10 * GIB)
    async with frontend.database.transaction() as tx:
        await insert_reservation(tx, NodeId(node.id), "load 1", 6 * GIB)
    for _ in range(6):
        await node.heartbeat(available_vram=10 * GIB)
    assert (await node.read_as_admin())["reserved_vram"] == 6 * GIB
    async with frontend.database.transaction() as tx:
        await tx.execute(delete(reservations))
    assert (await node.read_as_admin())["reserved_vram"] == 0


@pytest.mark.behaviour("OPS-65")
async def test_fields_that_a_heartbeat_leaves_out_keep_their_values(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, total_vram=10, available_vram=9, total_disk=8, available_disk=7, gpu_vendor="amd")
    await node.heartbeat(available_ram=5, bus_ok=True)
    await node.heartbeat(available_disk=0)
    shown = await node.read_as_admin()
    assert (shown["total_vram"], shown["available_vram"], shown["gpu_vendor"]) == (10, 9, "amd")
    assert (shown["total_disk"], shown["available_disk"], shown["available_ram"]) == (8, 0, 5)
    assert condition(shown, "on_bus") is True


async def test_heartbeat_renews_the_free_memory_of_each_gpu(frontend: RunningFrontend) -> None:
    gpu = {"vendor": "nvidia", "name": "H200", "total_vram": 140 * GIB}
    node = await join_node(frontend, gpus=[gpu | {"available_vram": 140 * GIB}])
    await node.heartbeat(gpus=[gpu | {"available_vram": 120 * GIB}])
    await node.heartbeat(available_ram=5)
    assert [one["available_vram"] for one in (await node.read_as_admin())["gpus"]] == [120 * GIB]


async def test_node_shows_no_free_vram_when_its_replicas_hold_more_than_the_budget(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, total_vram=140 * GIB, available_vram=120 * GIB)
    async with frontend.database.transaction() as tx:
        for index, vram_bytes in enumerate((19 * GIB, None)):
            row = a_replica(node.id, index, id=ids.new_id(), vram_bytes=vram_bytes)
            await insert_replica(tx, row)
    assert (await node.call_as_admin("PUT", "/vram-budget", {"value": "20GiB"}))[0] == 200
    shown = await node.read_as_admin()
    assert (shown["available_vram"], shown["model_count"]) == (GIB, 2)
    assert (await node.call_as_admin("PUT", "/vram-budget", {"value": "8GiB"}))[0] == 200
    assert (await node.read_as_admin())["available_vram"] == 0


@pytest.mark.behaviour("NODE-16")
async def test_heartbeat_of_a_pending_node_moves_its_time_and_nothing_else(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, approved=False, total_vram=1, available_vram=1, total_disk=1, available_disk=1)
    before = await node.read_as_admin()
    await node.heartbeat(
        total_vram=9, available_vram=9, total_disk=9, available_disk=9, total_ram=9, gpu_vendor="x", bus_ok=True
    )
    after = await node.read_as_admin()
    assert after.pop("last_heartbeat") > before.pop("last_heartbeat")
    assert after == before
    assert await events(frontend.database, "node.bus_changed") == []


@pytest.mark.behaviour("NODE-41")
async def test_card_that_grew_changes_the_labels_and_gives_rules_another_look(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, total_vram=8 * GIB, gpu_vendor="nvidia")
    is_aside = await put_aside(frontend.database)
    await node.heartbeat(available_vram=1)
    assert await is_aside(), "numbers that move are no reason"
    await node.heartbeat(total_vram=25 * GIB)
    assert (await node.read_as_admin())["labels"]["gpu.vram"] == "24GB"
    assert not await is_aside()


@pytest.mark.behaviour("NODE-15")
async def test_share_follows_a_card_that_grew(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, total_vram=10 * GIB, available_vram=10 * GIB, vram_budget="50%")
    await node.heartbeat(total_vram=20 * GIB, available_vram=20 * GIB)
    assert (await node.read_as_admin())["vram_budget_bytes"] == 10 * GIB


async def test_thousand_heartbeats_are_one_statement(database: Database) -> None:
    nodes = await _nodes(database, 1000)
    buffer = HeartbeatBuffer(database, LEASE_S)
    _readings(buffer, nodes, available_vram=5)
    statements: list[str] = []
    count_statements(database, statements.append)
    assert await buffer.flush() == 1000
    assert len(statements) == 1, [statement[:60] for statement in statements]
    assert len(buffer) == 0
    assert (await _hardware(database, nodes[-1])).available_vram == 5


async def test_buffer_keeps_the_newest_value_of_each_field(database: Database) -> None:
    (node_id,) = await _nodes(database, 1)
    buffer = HeartbeatBuffer(database, LEASE_S)
    _readings(buffer, [node_id], available_vram=5, available_ram=1)
    _readings(buffer, [node_id], available_vram=4, available_ram=None)
    assert await buffer.flush() == 1
    hardware = await _hardware(database, node_id)
    assert (hardware.available_vram, hardware.available_ram, hardware.total_vram) == (4, 1, 10)


async def test_heartbeats_wait_and_merge_while_postgresql_is_away(database: Database, deserted_url: str) -> None:
    first, second = await _nodes(database, 2)
    away = Database(deserted_url)
    buffer = HeartbeatBuffer(away, LEASE_S)
    try:
        _readings(buffer, [first, second], available_vram=5, available_ram=1)
        with pytest.raises(StoreUnavailable):
            await buffer.flush()
        _readings(buffer, [first], available_vram=4)
        with pytest.raises(StoreUnavailable):
            await buffer.flush()
        assert len(buffer) == 2
    finally:
        await away.close()
    buffer._database = database
    assert await buffer.flush() == 2
    hardware = await _hardware(database, first)
    assert (hardware.available_vram, hardware.available_ram) == (4, 1)
    assert (await _hardware(database, second)).available_vram == 5


async def test_heartbeat_during_a_failed_write_is_newer_than_the_requeued_one(database: Database) -> None:
    (node_id,) = await _nodes(database, 1)
    async with database.transaction() as holding:
        await holding.execute(text("SELECT 1 FROM nodes FOR UPDATE"))
        buffer = HeartbeatBuffer(database, LEASE_S)
        _readings(buffer, [node_id], available_vram=5, available_ram=1)
        writing = asyncio.get_running_loop().create_task(buffer.flush())
        await transaction_waits_for_a_lock(database)
        _readings(buffer, [node_id], available_vram=4)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
    assert await buffer.flush() == 1
    hardware = await _hardware(database, node_id)
    assert (hardware.available_vram, hardware.available_ram) == (4, 1)


async def test_flush_waits_for_the_heartbeats_that_another_flush_is_writing(database: Database) -> None:
    (node_id,) = await _nodes(database, 1)
    buffer = HeartbeatBuffer(database, LEASE_S)
    _readings(buffer, [node_id], available_vram=5)
    async with asyncio.TaskGroup() as group:
        async with database.transaction() as holding:
            await holding.execute(text("SELECT 1 FROM nodes FOR UPDATE"))
            group.create_task(buffer.flush())
            await transaction_waits_for_a_lock(database)
            later = group.create_task(buffer.flush())
            await asyncio.sleep(0)
            assert not later.done()
        await later
        assert (await _hardware(database, node_id)).available_vram == 5


async def test_heartbeat_of_an_older_process_is_refused_at_the_door(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, available_vram=1)
    old = node.boot_id
    node.reboot()
    await node.register(None, available_vram=1)
    status, answer = await node.heartbeat(boot_id=old, available_vram=9)
    if status == 200:  # This frontend had not read of the newer process yet; the registry has.
        assert (await stored(node)).hardware.available_vram == 1
        await frontend.core.feed.tick()
        status, answer = await node.heartbeat(boot_id=old, available_vram=9)
    assert (status, answer["error"]["code"]) == (409, "boot_superseded")
    assert answer["error"]["hint"]
    assert (await stored(node)).hardware.available_vram == 1


async def test_heartbeat_of_an_older_process_is_not_written(database: Database) -> None:
    (node_id,) = await _nodes(database, 1)
    buffer = HeartbeatBuffer(database, LEASE_S)
    buffer.record(node_id, {"boot_id": "boot-none", "available_vram": 3})
    await buffer.flush()
    assert (await _hardware(database, node_id)).available_vram == 7


@pytest.mark.parametrize("was_put_back", [True, False])
async def test_readings_of_two_processes_are_never_mixed(database: Database, was_put_back: bool) -> None:
    (node_id,) = await _nodes(database, 1)
    buffer = HeartbeatBuffer(database, LEASE_S)
    buffer.record(node_id, {"boot_id": "boot-none", "available_vram": 3, "bus_ok": True})
    if was_put_back:
        batch, buffer._waiting = buffer._waiting, {}
        buffer.record(node_id, {"boot_id": "boot-one", "available_ram": 2})
        buffer._put_back(batch)
    else:
        buffer.record(node_id, {"boot_id": "boot-one", "available_ram": 2})
    await buffer.flush()
    async with database.transaction() as tx:
        node = await node_store.get_node(tx, node_id)
    assert (node.hardware.available_vram, node.hardware.available_ram, node.bus_ok) == (7, 2, None)


async def test_frontends_that_flush_the_same_nodes_at_once_do_not_lock_each_other_out(database: Database) -> None:
    nodes = await _nodes(database, 60)
    for _ in range(5):
        ahead, back = HeartbeatBuffer(database, LEASE_S), HeartbeatBuffer(database, LEASE_S)
        _readings(ahead, nodes, available_vram=1)
        _readings(back, nodes[::-1], available_vram=2)
        async with asyncio.TaskGroup() as group:
            flushes = [group.create_task(buffer.flush()) for buffer in (ahead, back)]
        assert [flush.result() for flush in flushes] == [60, 60]


async def test_rows_of_a_batch_are_locked_in_the_order_of_their_ids(database: Database) -> None:
    """A transaction holds the second node; a batch in reverse order must wait there with the first locked already."""
    first, second = sorted(await _nodes(database, 2))
    buffer = HeartbeatBuffer(database, LEASE_S)
    _readings(buffer, [second, first], available_vram=1)
    async with asyncio.TaskGroup() as group, database.transaction() as holding:
        await holding.execute(text("SELECT 1 FROM nodes WHERE id = CAST(:id AS uuid) FOR UPDATE"), {"id": second})
        group.create_task(buffer.flush())
        await transaction_waits_for_a_lock(database)
        free = await holding.execute(text("SELECT id::text FROM nodes FOR UPDATE SKIP LOCKED"))
        assert {row.id for row in free} == {second}, "the first is locked by the batch"


async def test_heartbeat_of_a_removed_node_is_dropped_and_the_others_are_written(database: Database) -> None:
    gone, here = await _nodes(database, 2)
    buffer = HeartbeatBuffer(database, LEASE_S)
    _readings(buffer, [gone, here], available_vram=1)
    async with database.transaction() as tx:
        await node_store.delete_node(tx, gone)
    await buffer.flush()
    assert (await _hardware(database, here)).available_vram == 1
    assert len(buffer) == 0


async def test_heartbeat_that_only_moves_numbers_writes_no_event(database: Database) -> None:
    (node_id,) = await _nodes(database, 1)
    async with database.transaction() as tx:
        before = await outbox.read_bounds(tx)
    buffer = HeartbeatBuffer(database, LEASE_S)
    for size in range(3):
        _readings(buffer, [node_id], available_vram=size)
        await buffer.flush()
    async with database.transaction() as tx:
        assert await outbox.read(tx, before.head) == []
        assert (await tx.execute(text("SELECT count(*) FROM outbox"))).scalar() == 0


async def test_heartbeat_during_a_flush_waits_for_the_next_flush(database: Database) -> None:
    nodes = await _nodes(database, 2)
    buffer, writes = HeartbeatBuffer(database, LEASE_S), []

    def another_comes(statement: str) -> None:
        if "UPDATE nodes" in statement:
            writes.append(statement)
            _readings(buffer, nodes[1:], available_vram=3)

    count_statements(database, another_comes)
    _readings(buffer, nodes[:1], available_vram=2)
    assert await buffer.flush() == 1
    assert (len(writes), len(buffer)) == (1, 1), "a busy frontend does not write without end"
    assert (await _hardware(database, nodes[1])).available_vram == 7
