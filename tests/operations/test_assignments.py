"""Assignments: one per node and backend, written with their targets, and gone with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from corral.domain.backend import DesiredState
from corral.domain.node import NodeId
from corral.domain.operation import Operation, OperationState
from corral.nodes import lifecycle
from corral.nodes.commands import note_bus
from corral.nodes.heartbeats import HeartbeatBuffer
from corral.operations import backend_plan, backend_reports
from corral.store import assignments as assignment_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store.database import Database
from tests.nodes.registry import events, find_lost, transaction_waits_for_a_lock
from tests.operations.scene import (
    BOOT,
    admission,
    admit,
    begin,
    begun,
    catalog,
    ids,
    is_due,
    list_assignments,
    make_spec,
    put_installed,
    put_nodes,
    read,
    set_state,
    set_targets,
    sql,
    states,
    there,
)
from tests.support.frontends import RunningFrontend
from tests.support.nodes import age_heartbeat, join_node
from tests.support.polling import eventually
from tests.support.statements import count_statements


@pytest.fixture
async def second(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url)
    yield opened
    await opened.close()


@pytest.fixture
async def idle(frontend: RunningFrontend) -> RunningFrontend:
    """A frontend that admits and hears, and leaves the dispatching to the test."""
    await frontend.core.dispatcher.claim_loop.stop()
    return frontend


async def forget_schedule(database: Database) -> None:
    await sql(database, "UPDATE operations SET due_at = NULL")


def codes(operation: Operation) -> dict[str, str]:
    return {target.node_name: target.fault.code if target.fault else "" for target in operation.targets}


@pytest.mark.behaviour("OPS-45")
@pytest.mark.behaviour("NODE-124")
async def test_pending_agent_and_drained_nodes_get_no_assignment(database: Database) -> None:
    await put_nodes(database, "a")
    await put_nodes(database, "new", approved_at="NULL")
    await put_nodes(database, "agent", node_type="'agent'")
    await put_nodes(database, "drained", drained_at="corral_now()")
    operation = await begun(database, make_spec())
    assert states(operation) == {"a": "queued"}
    assert len(await list_assignments(database)) == 1


@pytest.mark.behaviour("OPS-46")
@pytest.mark.behaviour("NODE-119")
async def test_request_for_an_absent_node_succeeds_with_a_pending_change(database: Database) -> None:
    (node,) = await put_nodes(database, "away", liveness="'lost'")
    installation = await begun(database, make_spec("solo"))
    assert states(installation) == {"away": "queued"}
    await put_installed(database, node, there())
    removal = await begun(database, make_spec(kind="delete"))
    assert removal.state is OperationState.RUNNING
    assert {(item.backend, item.desired, item.attempts) for item in await list_assignments(database)} == {
        ("solo", DesiredState.PRESENT, 0),
        ("cpu-engine", DesiredState.ABSENT, 0),
    }


@pytest.mark.behaviour("OPS-51")
async def test_newer_request_replaces_the_older_assignment_and_notes_it_in_its_operation(database: Database) -> None:
    a, b, c = await put_nodes(database, "a", "b", "c")
    first = await begun(database, make_spec())
    await set_targets(database, first, "working", b)
    await set_targets(database, first, "success", c)
    await sql(database, "DELETE FROM assignments WHERE node_id = CAST(:node AS uuid)", node=c)
    older = {item.node_id: item.generation for item in await list_assignments(database)}
    await put_installed(database, a, there())
    await put_installed(database, b, there())
    await forget_schedule(database)
    second = await begun(database, make_spec("cpu-engine", "delete", nodes=("a", "b")))
    after = await read(database, first)
    assert states(after) == {"a": "superseded", "b": "superseded", "c": "success"}
    assert [item.node_name for item in after.targets if item.stop_wanted] == ["b"]
    assert await is_due(database, first)
    left = await list_assignments(database)
    assert {(item.node_id, item.desired, item.operation_id) for item in left} == {
        (a, DesiredState.ABSENT, second.id),
        (b, DesiredState.ABSENT, second.id),
    }
    assert all(item.generation > older[item.node_id] for item in left)
    async with database.transaction() as tx:
        assert any(second.id in note.text for note in await operation_store.list_notes(tx, first.id))


@pytest.mark.behaviour("OPS-51")
async def test_requests_of_two_frontends_for_one_node_leave_one_assignment_with_the_largest_generation(
    database: Database, second: Database
) -> None:
    (node,) = await put_nodes(database, "a")
    await put_installed(database, node, there())
    one = (await admit(database, make_spec(nodes=("a",)))).operation
    other = (await admit(database, make_spec("cpu-engine", "delete", nodes=("a",)))).operation
    async with asyncio.TaskGroup() as group:
        group.create_task(begin(database, one))
        group.create_task(begin(second, other))
    (left,) = await list_assignments(database)
    by_operation = {item.id: item for item in (await read(database, one), await read(database, other))}
    winner = by_operation.pop(left.operation_id)
    (loser,) = by_operation.values()
    assert left.generation == winner.targets[0].generation
    assert loser.targets[0].generation < left.generation
    assert states(loser) == {"a": "superseded"}


@pytest.mark.behaviour("OPS-51")
async def test_assignment_written_at_the_same_moment_is_seen_and_replaced(database: Database, second: Database) -> None:
    """Neither had an assignment to find when it began."""
    await put_nodes(database, "a")
    one = (await admit(database, make_spec(nodes=("a",)))).operation
    other = (await admit(database, make_spec("cpu-engine", "install", nodes=("a",)))).operation
    async with asyncio.TaskGroup() as group, database.transaction() as tx:
        planned = await backend_plan.plan(tx, make_spec(nodes=("a",)), catalog())
        await assignment_store.assign(tx, one, planned.targets, ids)
        group.create_task(begin(second, other))
        await waits_for_a_lock(database)
    assert states(await read(database, one)) == {"a": "superseded"}
    assert [item.operation_id for item in await list_assignments(database)] == [other.id]


async def waits_for_a_lock(database: Database) -> None:
    async def look() -> bool:
        return bool(await sql(database, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))

    await eventually(look)


async def test_generations_grow_also_after_the_older_row_is_gone(database: Database) -> None:
    await put_nodes(database, "a")
    seen = []
    for _ in range(3):
        operation = await begun(database, make_spec())
        seen.append(operation.targets[0].generation)
        await sql(database, "DELETE FROM assignments")
        await set_state(database, operation, "completed")
    assert seen == sorted(set(seen))


async def test_thousand_nodes_are_a_handful_of_statements(database: Database) -> None:
    nodes = await put_nodes(database, *[f"n{number:04}" for number in range(1000)])
    older = await begun(database, make_spec(nodes=tuple(nodes)))
    operation = (await admit(database, make_spec(version="1.0"))).operation
    statements: list[str] = []
    count_statements(database, statements.append)
    async with database.transaction() as tx:
        planned = await backend_plan.plan(tx, make_spec(version="1.0"), catalog())
        await assignment_store.assign(tx, operation, planned.targets, ids)
    assert len(statements) < 15
    after = await read(database, operation)
    assert len(after.targets) == len({target.job_id for target in after.targets}) == 1000
    assert {item.operation_id for item in await list_assignments(database)} == {operation.id}
    assert set(states(await read(database, older)).values()) == {"superseded"}
    statements.clear()
    assert len((await admission(database).plan(make_spec("solo"))).targets) == 1000
    assert len(statements) < 6


@pytest.mark.behaviour("OPS-47")
@pytest.mark.behaviour("NODE-123")
async def test_drain_ends_at_once_what_was_not_begun_and_lets_the_worker_finish(database: Database) -> None:
    await put_nodes(database, "a", "b")
    working = await begun(database, make_spec("solo"))
    await set_targets(database, working, "working")
    silent = await begun(database, make_spec("engine"))
    await set_targets(database, silent, "unconfirmed")
    queued = await begun(database, make_spec("odd:name"))
    await forget_schedule(database)
    await lifecycle.drain(database, "a", "ann")
    assert states(await read(database, working)) == {"a": "working", "b": "working"}
    for operation, state in ((silent, "unconfirmed"), (queued, "queued")):
        after = await read(database, operation)
        assert states(after) == {"a": "skipped", "b": state}
        assert codes(after)["a"] == "node_drained"
        assert after.targets[0].stop_wanted == (operation is silent), "it may be at work on it"
        assert await is_due(database, operation)
    assert not await is_due(database, working)
    a_owes = [item.backend for item in await list_assignments(database) if item.operation_id]
    assert sorted(a_owes) == ["cpu-engine", "odd:name", "solo", "solo"]
    gone = await events(database, "assignment.ended")
    assert {(item.data["backend"], item.data["reason"]) for item in gone} == {
        ("cpu-engine", "node_drained"),
        ("odd:name", "node_drained"),
    }


@pytest.mark.behaviour("OPS-47")
@pytest.mark.behaviour("OPS-48")
@pytest.mark.behaviour("NODE-123")
async def test_silent_node_keeps_its_pending_change_and_is_due_after_its_next_heartbeat(idle: RunningFrontend) -> None:
    database = idle.database
    node = await join_node(idle, "a")
    await node.heartbeat(bus_ok=True)
    operation = await begun(database, make_spec("solo"))
    await age_heartbeat(node, 20 * 60)
    await find_lost(idle)
    assert (await node.read_as_admin())["status"] == "offline"
    assert states(await read(database, operation)) == {"a": "queued"}
    assert len(await list_assignments(database)) == 1
    await forget_schedule(database)
    await node.heartbeat()
    assert await is_due(database, operation)
    assert len(await list_assignments(database)) == 1


@pytest.mark.behaviour("OPS-48")
async def test_node_that_comes_back_by_any_way_has_its_operations_looked_at(idle: RunningFrontend) -> None:
    database = idle.database
    node = await join_node(idle, "a")
    other = await join_node(idle, "b")
    operation = await begun(database, make_spec("solo", nodes=("a",)))
    elsewhere = await begun(database, make_spec("solo", nodes=("b",)))

    async def woke() -> bool:
        is_awake = await is_due(database, operation)
        await forget_schedule(database)
        return is_awake

    await forget_schedule(database)
    await node.heartbeat(bus_ok=True)
    assert await woke(), "its heartbeat says that it is on the bus"
    await node.heartbeat(bus_ok=True)
    assert not await woke(), "nothing is new"
    node.reboot()
    assert (await node.register())[0] == 201
    assert await woke(), "it registered again"
    await note_bus(database, NodeId(node.id), is_on_bus=True)
    assert await woke(), "it greeted on the bus"
    await note_bus(database, NodeId(node.id), is_on_bus=False)
    assert not await woke(), "there is nothing to try while it is away"
    await set_targets(database, operation, "cancelled")
    await sql(database, "UPDATE operation_targets SET stop_wanted = true")
    await note_bus(database, NodeId(node.id), is_on_bus=True)
    assert await woke(), "its stop is still to be sent"
    await sql(database, "UPDATE operation_targets SET stop_wanted = false")
    await note_bus(database, NodeId(node.id), is_on_bus=False)
    await note_bus(database, NodeId(node.id), is_on_bus=True)
    assert not await woke(), "nothing of it is left to do there"
    assert not await is_due(database, elsewhere)
    assert other.id


@pytest.mark.behaviour("OPS-50")
async def test_removed_node_leaves_no_assignment_and_ends_its_targets(database: Database) -> None:
    a, b = await put_nodes(database, "a", "b")
    await put_installed(database, a, there("solo"))
    working = await begun(database, make_spec("engine"))
    await set_targets(database, working, "working")
    cancelled = await begun(database, make_spec("odd:name"))
    await set_targets(database, cancelled, "cancelled")
    await sql(database, "UPDATE operation_targets SET stop_wanted = true WHERE state = 'cancelled'")
    await forget_schedule(database)
    await lifecycle.remove(database, "a", "ann")
    after = await read(database, working)
    assert states(after) == {"a": "error", "b": "working"}
    assert codes(after)["a"] == "node_removed"
    assert [item.node_name for item in after.targets if item.stop_wanted] == []
    assert [item.node_name for item in (await read(database, cancelled)).targets if item.stop_wanted] == ["b"]
    assert {item.node_id for item in await list_assignments(database)} == {b}
    assert await sql(database, "SELECT 1 FROM installed_backends") == []
    assert await is_due(database, working)


async def test_node_that_is_drained_while_it_is_being_assigned_gets_a_target_that_has_ended(
    database: Database, second: Database
) -> None:
    a, b = await put_nodes(database, "a", "b")
    operation = (await admit(database, make_spec())).operation
    async with asyncio.TaskGroup() as group, database.transaction() as tx:
        await node_store.lock_node(tx, a)
        await tx.execute(text("UPDATE nodes SET drained_at = corral_now() WHERE name = 'a'"))
        assigning = group.create_task(begin(second, operation))
        await transaction_waits_for_a_lock(database)
    after = assigning.result()
    assert (states(after), codes(after)["a"]) == ({"a": "skipped", "b": "queued"}, "node_drained")
    assert [item.node_id for item in await list_assignments(database)] == [b]
    assert [item.node_name for item in after.targets if item.finished_at is None] == ["b"]


async def test_heartbeats_do_not_wait_for_an_assignment_that_is_being_written(
    database: Database, second: Database
) -> None:
    (node,) = await put_nodes(database, "a")
    operation = (await admit(database, make_spec())).operation
    buffer = HeartbeatBuffer(second, 45.0)
    async with database.transaction() as tx:
        planned = await backend_plan.plan(tx, make_spec(), catalog())
        await assignment_store.assign(tx, operation, planned.targets, ids)
        async with second.transaction() as other:
            await other.execute(text("SET LOCAL lock_timeout = '2s'"))
            await other.execute(text("UPDATE nodes SET available_ram = 5"))
    buffer.record(node, {"boot_id": BOOT})
    assert await buffer.flush() == 1
    assert len(await list_assignments(database)) == 1


@pytest.mark.parametrize("news", ["report", "heartbeat", "registration", "greeting"])
async def test_holder_of_an_operation_can_write_to_its_node_while_the_node_reports(
    idle: RunningFrontend, news: str
) -> None:
    """A dispatcher locks an operation and then writes what it saw of the node; nobody may stand there the other way."""
    database = idle.database
    node = await join_node(idle, "a")
    operation = await begun(database, make_spec())
    await forget_schedule(database)
    speak = {
        "report": lambda: backend_reports.BackendReportWriter(database).submit_report(
            backend_reports.make_report(NodeId(node.id), node.boot_id, [there("cpu-engine", "2.0")], {})
        ),
        "heartbeat": lambda: node.heartbeat(bus_ok=True),
        "registration": node.register,
        "greeting": lambda: note_bus(database, NodeId(node.id), is_on_bus=True),
    }
    async with asyncio.TaskGroup() as group, database.transaction() as tx:
        await operation_store.lock(tx, operation.id)
        group.create_task(speak[news]())
        await transaction_waits_for_a_lock(database)
        await tx.execute(text("UPDATE nodes SET bus_since = corral_now() WHERE name = 'a'"))
        await tx.execute(text("UPDATE operation_targets SET heard_at = corral_now()"))
    assert await is_due(database, operation)


async def test_assignments_are_listed_with_node_names_open_and_dead(database: Database) -> None:
    a, _ = await put_nodes(database, "a", "b")
    operation = await begun(database, make_spec())
    await sql(
        database,
        "UPDATE assignments SET state = 'dead', attempts = 10, error_code = 'internal', error_text = 'no luck'"
        " WHERE node_id = CAST(:node AS uuid)",
        node=a,
    )
    async with database.transaction() as tx:
        listed = await assignment_store.list_assignments(tx)
        of_node = await assignment_store.list_assignments(tx, node_id=a)
        of_operation = await assignment_store.list_assignments(tx, operation_id=operation.id)
    assert [(item.node_name, str(item.assignment.state), item.subject) for item in listed] == [
        ("a", "dead", "engine"),
        ("b", "open", "engine"),
    ]
    assert of_node == listed[:1]
    assert of_operation == listed
    assert listed[0].assignment.fault is not None
