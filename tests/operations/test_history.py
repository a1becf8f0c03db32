"""The record of operations: the same for everybody, cleared on request, pruned at last."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.exc import DBAPIError

from corral.adapters.system import SystemClock
from corral.domain.operation import Operation
from corral.operations import actions
from corral.reconcile.leader import LeaderElector
from corral.reconcile.maintenance import Pruner, RetentionOptions
from corral.store import operations as operation_store
from corral.store.database import Database
from corral.store.operations import HistoryFilter
from tests.nodes.registry import events
from tests.operations.scene import (
    admit,
    begun,
    fail,
    listed,
    make_spec,
    put_nodes,
    read,
    recorded,
    set_state,
    set_targets,
    sql,
)
from tests.support.statements import count_statements


@pytest.fixture
async def second(database_url: str) -> AsyncIterator[Database]:
    opened = Database(database_url)
    yield opened
    await opened.close()


async def ended(database: Database, state: str = "completed", *, days_ago: float = 0.0) -> Operation:
    operation = await begun(database, make_spec("solo"))
    end = f"corral_now() - make_interval(secs => {days_ago * 86400})"
    await set_state(database, operation, state, finished_at=end)
    return operation


async def everything(database: Database) -> dict[str, str]:
    """One operation in each state that an operation can be left in."""
    made: dict[str, str] = {}
    for state in ("completed", "cancelled", "superseded", "failed", "dismissed"):
        made[state] = (await ended(database, "failed" if state == "dismissed" else state)).id
    await actions.dismiss(database, made["dismissed"], "ann")
    left = {"completed_with_pending": None, "paused": ("a",), "waiting_on_nodes": ("a",)}
    for state, nodes in left.items():
        operation = await begun(database, make_spec("engine" if state == "waiting_on_nodes" else "solo", nodes=nodes))
        await set_state(database, operation, state)
        made[state] = operation.id
    made["running"] = (await begun(database, make_spec("engine"))).id
    made["queued"] = (await admit(database, make_spec("odd:name"))).operation.id
    return made


@pytest.fixture(autouse=True)
async def node(database: Database) -> None:
    await put_nodes(database, "a")


@pytest.mark.behaviour("OPS-24")
async def test_history_has_the_same_rows_in_the_same_order_on_every_frontend(
    database: Database, second: Database
) -> None:
    made = await everything(database)
    expected = ["dismissed", "superseded", "cancelled", "completed"]
    assert await recorded(database) == [made[name] for name in expected]
    assert await recorded(second) == await recorded(database)
    assert set(await listed(second)) == set(made.values()) - {made[name] for name in expected}


@pytest.mark.behaviour("OPS-24")
async def test_record_is_read_page_by_page_without_gaps_also_when_many_end_at_once(database: Database) -> None:
    made = [(await ended(database)).id for _ in range(7)]
    await sql(database, "ALTER TABLE operations DISABLE TRIGGER USER")
    await sql(database, "UPDATE operations SET finished_at = '2026-05-01T00:00:00Z'")
    seen: list[str] = []
    before = None
    while True:
        async with database.transaction() as tx:
            page = [record.operation for record in await operation_store.list_history(tx, 3, before)]
        if not page:
            break
        seen += [operation.id for operation in page]
        assert page[-1].finished_at is not None
        before = (page[-1].finished_at, page[-1].id)
    assert seen == sorted(made, reverse=True)


async def test_lists_are_one_statement_each_however_many_operations_there_are(database: Database) -> None:
    await everything(database)
    statements: list[str] = []
    count_statements(database, statements.append)
    assert len(await listed(database)) == 6
    assert len(await recorded(database)) == 4
    assert len(statements) == 2


async def of_node(database: Database, node: str) -> list[str]:
    async with database.transaction() as tx:
        return [
            record.operation.id for record in await operation_store.list_history(tx, matching=HistoryFilter(node=node))
        ]


async def test_record_of_a_node_has_what_was_done_on_it_alone_and_on_it_among_others(database: Database) -> None:
    second, third = await put_nodes(database, "b", "c")
    made = []
    for spec in (
        make_spec(),
        make_spec("solo", nodes=("b",)),
        make_spec("solo", nodes=("c",)),
        make_spec("engine", nodes=("b", "c")),
    ):
        operation = await begun(database, spec)
        await set_state(database, operation, "completed")
        made.append(operation.id)
    # One that ended before its targets were chosen is of the node that it was for.
    early = (await admit(database, make_spec("solo", nodes=("b",)))).operation
    await actions.cancel(database, early.id, "ann")
    everywhere, on_b, on_c, on_both = made
    assert await of_node(database, "b") == await of_node(database, second) == [early.id, on_both, on_b, everywhere]
    assert await of_node(database, third.upper()) == [on_both, on_c, everywhere]
    assert await of_node(database, "nobody") == await of_node(database, "\x00") == []
    async with database.transaction() as tx:
        newest, both, *_ = await operation_store.list_history(tx)
    assert (newest.node_names, newest.node_count) == ((), 0)
    assert (both.node_names, both.node_count) == (("b", "c"), 2)


async def test_record_of_a_node_outlives_it_and_is_not_taken_for_that_of_its_namesake(database: Database) -> None:
    (first,) = await put_nodes(database, "b")
    operation = await begun(database, make_spec("engine"))
    await set_state(database, operation, "completed")
    await sql(database, "DELETE FROM nodes WHERE name = 'b'")
    assert await of_node(database, "b") == await of_node(database, first) == [operation.id]
    (second,) = await put_nodes(database, "b")
    assert await of_node(database, "b") == await of_node(database, second) == []
    assert await of_node(database, first) == [operation.id]


async def test_history_names_the_first_nodes_and_counts_all(database: Database) -> None:
    await put_nodes(database, *(f"n{number:02}" for number in range(30)))
    operation = await begun(database, make_spec("engine"))
    await set_state(database, operation, "completed")
    async with database.transaction() as tx:
        (record,) = await operation_store.list_history(tx)
    assert record.node_names == ("a", *(f"n{number:02}" for number in range(19)))
    assert record.node_count == 31


@pytest.mark.behaviour("OPS-23")
async def test_clearing_removes_what_has_ended_and_nothing_that_goes_on_or_failed_unseen(
    database: Database, second: Database
) -> None:
    made = await everything(database)
    gone = {"completed", "cancelled", "superseded", "dismissed"}
    assert await actions.clear_history(database, "ann") == len(gone)
    left = {row.id for row in await sql(second, "SELECT id::text AS id FROM operations")}
    assert left == {made[name] for name in made.keys() - gone}
    (event,) = await events(database, "operations.cleared")
    assert event.data == {"count": len(gone), "by": "ann"}
    assert await actions.clear_history(second, "bob") == 0


@pytest.mark.behaviour("OPS-23")
async def test_record_that_cannot_be_cleared_is_an_error_and_stays(database: Database) -> None:
    await everything(database)
    before = await recorded(database)
    await sql(
        database,
        "CREATE FUNCTION no_delete() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'the disk is full'; END $$",
    )
    await sql(
        database, "CREATE TRIGGER no_delete BEFORE DELETE ON operations FOR EACH ROW EXECUTE FUNCTION no_delete()"
    )
    with pytest.raises(DBAPIError):
        await actions.clear_history(database, "ann")
    assert await recorded(database) == before
    assert await events(database, "operations.cleared") == []


@pytest.mark.behaviour("OPS-23")
async def test_operation_with_an_unsent_stop_outlives_clearing_the_history(database: Database) -> None:
    operation = await begun(database, make_spec())
    await set_targets(database, operation, "working")
    await actions.cancel(database, operation.id, "ann")
    assert await actions.clear_history(database, "ann") == 0
    assert any(target.stop_wanted for target in (await read(database, operation)).targets)
    await sql(database, "UPDATE operation_targets SET stop_wanted = false")
    assert await actions.clear_history(database, "ann") == 1


@pytest.mark.behaviour("OPS-22")
async def test_history_prunes_old_operations_and_never_active_ones(database: Database) -> None:
    made = await everything(database)
    ancient = [(await ended(database, state, days_ago=31)).id for state in ("completed", "failed", "cancelled")]
    recent = (await ended(database, days_ago=29)).id
    await sql(database, "UPDATE operations SET created_at = corral_now() - interval '90 days'")
    leader = LeaderElector(database, SystemClock(), "frontend-1", 15.0)
    await leader.tick()
    pruned = await Pruner(database, leader, RetentionOptions(outbox_s=86400.0)).tick()
    assert pruned.operations == len(ancient)
    left = {row.id for row in await sql(database, "SELECT id::text AS id FROM operations")}
    assert left == {*made.values(), recent}


@pytest.mark.behaviour("OPS-22")
async def test_history_above_its_limit_loses_the_oldest(database: Database) -> None:
    made = [(await ended(database, days_ago=10 - number)).id for number in range(6)]
    going_on = [(await begun(database, make_spec())).id, (await admit(database, make_spec("odd:name"))).operation.id]
    async with database.transaction() as tx:
        assert await operation_store.prune(tx, age_s=30 * 86400.0, most=4) == 2
    left = {row.id for row in await sql(database, "SELECT id::text AS id FROM operations")}
    assert left == {*made[2:], *going_on}


async def test_log_of_an_operation_is_bounded_and_in_order(database: Database) -> None:
    operation = await begun(database, make_spec())
    async with database.transaction() as tx:
        before = len(await operation_store.list_notes(tx, operation.id))
        lines = [(operation.id, "info", "a", f"line {number}") for number in range(1500)]
        await operation_store.add_notes(tx, lines)
        await operation_store.add_note(tx, operation.id, "one too many", level="error")
        notes = await operation_store.list_notes(tx, operation.id)
    assert len(notes) == operation_store.NOTES_MAX
    assert [note.text for note in notes[before:]] == [f"line {number}" for number in range(1000 - before)]


async def test_note_for_an_operation_that_is_gone_is_dropped(database: Database) -> None:
    operation = await begun(database, make_spec())
    await fail(database, operation)
    await sql(database, "DELETE FROM operations")
    async with database.transaction() as tx:
        await operation_store.add_note(tx, operation.id, "too late")
    assert await sql(database, "SELECT 1 FROM operation_events") == []
