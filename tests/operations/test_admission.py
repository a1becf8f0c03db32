"""Admission: one door, one operation per scope, whoever asks and on which frontend."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from sqlalchemy import text

from corral.domain.errors import Conflict, CorralError, NotFound
from corral.domain.operation import OperationId, OperationKind, OperationState, RolloutStrategy
from corral.operations import actions
from corral.operations.admission import AdmissionResult
from corral.operations.backend_plan import BackendOperationSpec, read_fleet
from corral.store import access as access_store
from corral.store import operations as operation_store
from corral.store.database import Database
from tests.nodes.registry import events
from tests.operations.scene import (
    admission,
    admissions,
    admit,
    begin,
    begun,
    count_lock_waits,
    is_due,
    list_assignments,
    listed,
    make_spec,
    put_installed,
    put_nodes,
    read,
    set_state,
    set_targets,
    sql,
    there,
)
from tests.support.polling import eventually


@pytest.fixture
async def second(database_url: str) -> object:
    """The database as another frontend sees it."""
    opened = Database(database_url)
    yield opened
    await opened.close()


async def count(database: Database) -> int:
    return int((await sql(database, "SELECT count(*) AS n FROM operations"))[0].n)


@pytest.mark.behaviour("OPS-1")
async def test_operation_is_visible_on_every_frontend_before_its_id_is_returned(
    database: Database, second: Database
) -> None:
    await put_nodes(database, "a")
    admitted = await admit(database, make_spec())
    assert not admitted.is_duplicate
    seen = await read(second, admitted.operation)
    assert seen == admitted.operation
    assert (seen.state, seen.created_by, seen.subject) == (OperationState.QUEUED, "ann", "engine")
    assert await listed(second) == [seen.id]
    assert await is_due(second, seen), "a dispatcher finds it"
    (created,) = await events(database, "operation.created")
    assert created.data == {
        "id": seen.id,
        "rev": seen.rev,
        "state": "queued",
        "kind": "backend_install",
        "subject": "engine",
    }


@pytest.mark.behaviour("OPS-2")
@pytest.mark.parametrize("unknown", ["018f0000-0000-7000-8000-000000000000", "nonsense", "", "\x00"])
async def test_unknown_operation_is_404_for_everything(database: Database, unknown: str) -> None:
    async with database.transaction() as tx:
        assert await operation_store.find(tx, unknown) is None
        with pytest.raises(NotFound):
            await operation_store.get(tx, unknown)
    for call in (
        actions.cancel(database, unknown, "ann"),
        actions.pause(database, unknown, "ann"),
        actions.dismiss(database, unknown, "ann"),
        actions.retry(database, admissions(database), unknown, "ann"),
    ):
        with pytest.raises(NotFound) as caught:
            await call
        assert caught.value.slug == "operation_not_found"


@pytest.mark.behaviour("OPS-3")
async def test_repeated_request_is_one_operation_and_returns_it_as_a_duplicate(database: Database) -> None:
    (node,) = await put_nodes(database, "a")
    first = await admit(database, make_spec("engine"))
    again = await admit(database, make_spec("corral@Engine"), "bob")
    assert (again.operation.id, again.is_duplicate) == (first.operation.id, True)
    assert again.operation.created_by == "ann"
    named = await admit(database, make_spec(nodes=("a",)))
    by_id = await admit(database, make_spec(nodes=(node,)))
    assert named.operation.id != first.operation.id, "another scope"
    assert (by_id.operation.id, by_id.is_duplicate) == (named.operation.id, True)
    assert await count(database) == 2


@pytest.mark.behaviour("OPS-3")
async def test_twenty_equal_requests_on_two_frontends_become_one_operation(
    database: Database, second: Database
) -> None:
    await put_nodes(database, "a")
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(admit((database, second)[number % 2], make_spec())) for number in range(20)]
    admitted = [task.result() for task in asking]
    assert len({item.operation.id for item in admitted}) == 1
    assert Counter(item.is_duplicate for item in admitted) == {True: 19, False: 1}
    assert await count(database) == 1
    assert len(await events(database, "operation.created")) == 1


@pytest.mark.behaviour("OPS-3")
async def test_index_has_the_last_word_over_a_frontend_that_does_not_wait_its_turn(database: Database) -> None:
    await put_nodes(database, "a")
    operation = (await admit(database, make_spec())).operation
    new = operation_store.NewOperation(
        id=OperationId(operation.id[:-4] + "0000"),
        kind=operation.kind,
        subject="engine",
        scope_key=operation.scope_key,
        scope_node=None,
        scope_node_name="",
        request=operation.request,
        created_by="eve",
    )
    async with database.transaction() as tx:
        assert await operation_store.insert(tx, new) is None
    assert await count(database) == 1


@pytest.mark.behaviour("OPS-4")
async def test_rival_is_refused_with_the_operation_in_its_way(database: Database) -> None:
    (node,) = await put_nodes(database, "a")
    await put_installed(database, node, there())
    first = await begun(database, make_spec())
    for rival in (
        make_spec(kind="delete"),
        make_spec(version="1.0"),
        make_spec(kind="upgrade"),
        make_spec(strategy=RolloutStrategy(waves=(1,))),
    ):
        with pytest.raises(Conflict) as caught:
            await admit(database, rival)
        assert caught.value.slug == "operation_in_progress"
        assert caught.value.details["operation_id"] == first.id
        assert caught.value.message == f"The backend install of {first.subject} is running for the same nodes."
        assert caught.value.hint
    assert await count(database) == 1


@pytest.mark.behaviour("OPS-4")
async def test_rivals_that_race_on_two_frontends_are_never_both_admitted(database: Database, second: Database) -> None:
    (node,) = await put_nodes(database, "a")
    await put_installed(database, node, there())

    async def ask(number: int) -> AdmissionResult | CorralError:
        try:
            return await admit((database, second)[number % 2], make_spec(kind=("upgrade", "delete")[number // 2 % 2]))
        except CorralError as error:
            return error

    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(ask(number)) for number in range(8)]
    outcomes = [task.result() for task in asking]
    admitted = {item.operation.id for item in outcomes if isinstance(item, AdmissionResult)}
    refused = [item for item in outcomes if isinstance(item, CorralError)]
    assert len(admitted) == 1
    assert {error.slug for error in refused} == {"operation_in_progress"}
    assert len(refused) == 4
    assert await count(database) == 1


@pytest.mark.behaviour("OPS-4")
async def test_operations_queue_behind_one_another_and_each_moves_up_when_the_one_before_has_ended(
    database: Database,
) -> None:
    (node,) = await put_nodes(database, "a")
    await put_installed(database, node, there())
    first = await begun(database, make_spec(kind="upgrade"))
    second = (await admit(database, make_spec(kind="delete"), queue_behind=True)).operation
    third = (await admit(database, make_spec(), queue_behind=True)).operation
    assert (second.after_id, third.after_id) == (first.id, second.id)
    again = await admit(database, make_spec(), queue_behind=True)
    assert (again.operation.id, again.is_duplicate) == (third.id, True)
    assert not await is_due(database, second)
    assert await listed(database) == [third.id, second.id, first.id]
    await set_state(database, first, "completed")
    assert (await read(database, second)).after_id is None
    assert await is_due(database, second)
    assert not await is_due(database, third)
    with pytest.raises(Conflict):
        await admit(database, make_spec(version="1.0"))
    await actions.cancel(database, second.id, "ann")
    assert (await read(database, third)).after_id is None
    assert await is_due(database, third)


@pytest.mark.behaviour("OPS-4")
async def test_removal_waits_for_the_installation_that_brings_what_it_removes(database: Database) -> None:
    await put_nodes(database, "a")
    installation = (await admit(database, make_spec())).operation
    with pytest.raises(Conflict) as caught:
        await admit(database, make_spec(kind="delete"))
    assert caught.value.slug == "operation_in_progress", "not: there is nothing to remove"
    removal = (await admit(database, make_spec(kind="delete"), queue_behind=True)).operation
    assert removal.after_id == installation.id
    await admit(database, make_spec("solo", nodes=("a",)))
    await sql(database, "UPDATE nodes SET drained_at = corral_now()")
    with pytest.raises(Conflict) as caught:
        await admit(database, make_spec("solo", "delete", nodes=("a",)), queue_behind=True)
    assert caught.value.slug == "node_draining", "no turn will change that"


@pytest.mark.behaviour("OPS-4")
async def test_cancelled_operation_in_a_queue_is_skipped(database: Database) -> None:
    (node,) = await put_nodes(database, "a")
    await put_installed(database, node, there())
    first = await begun(database, make_spec(kind="upgrade"))
    second = (await admit(database, make_spec(kind="delete"), queue_behind=True)).operation
    third = (await admit(database, make_spec(), queue_behind=True)).operation
    await actions.cancel(database, second.id, "ann")
    assert (await read(database, third)).after_id == first.id
    assert not await is_due(database, third)
    await set_state(database, first, "failed")
    assert await is_due(database, third)
    assert (await admit(database, make_spec())).operation.id == third.id


async def wait_until_done_or_locked(database: Database, task: asyncio.Task[object]) -> None:
    async def look() -> bool:
        return task.done() or await count_lock_waits(database) > 0

    await eventually(look)


@pytest.mark.behaviour("OPS-4")
@pytest.mark.parametrize("end", ["completed", "failed", "paused"])
async def test_operation_begins_although_the_one_before_it_ends_while_it_is_admitted(
    database: Database, second: Database, end: str
) -> None:
    (node,) = await put_nodes(database, "a")
    await put_installed(database, node, there())
    first = await begun(database, make_spec(kind="upgrade"))
    async with asyncio.TaskGroup() as group, second.transaction() as tx:
        await tx.execute(
            text("UPDATE operations SET state = :state WHERE id = CAST(:id AS uuid)"), {"state": end, "id": first.id}
        )
        admitting = group.create_task(admit(database, make_spec(kind="delete"), queue_behind=True))
        await wait_until_done_or_locked(database, admitting)
    behind = admitting.result().operation
    assert (await read(database, behind)).after_id is None
    assert await is_due(database, behind)


@pytest.mark.behaviour("OPS-4")
async def test_operation_queues_behind_the_one_that_is_left_if_the_last_one_ends_while_it_is_admitted(
    database: Database, second: Database
) -> None:
    (node,) = await put_nodes(database, "a")
    await put_installed(database, node, there())
    first = await begun(database, make_spec(kind="upgrade"))
    last = (await admit(database, make_spec(kind="delete"), queue_behind=True)).operation
    async with asyncio.TaskGroup() as group, second.transaction() as tx:
        await tx.execute(
            text("UPDATE operations SET state = 'cancelled' WHERE id = CAST(:id AS uuid)"), {"id": last.id}
        )
        admitting = group.create_task(admit(database, make_spec(), queue_behind=True))
        await wait_until_done_or_locked(database, admitting)
    behind = admitting.result().operation
    assert (await read(database, behind)).after_id == first.id
    await set_state(database, first, "completed")
    assert await is_due(database, behind)


@pytest.mark.behaviour("OPS-4")
async def test_queue_of_one_scope_is_bounded(database: Database) -> None:
    (node,) = await put_nodes(database, "a")
    await put_installed(database, node, there())
    for number in range(20):
        await admit(database, make_spec(kind=("install", "delete")[number % 2]), queue_behind=True)
    with pytest.raises(Conflict) as caught:
        await admit(database, make_spec(version="1.0"), queue_behind=True)
    assert caught.value.slug == "too_many_waiting"
    assert caught.value.hint


@pytest.mark.behaviour("OPS-5")
async def test_backend_on_two_nodes_is_two_operations_also_from_two_frontends(
    database: Database, second: Database
) -> None:
    a, b = await put_nodes(database, "a", "b")
    async with asyncio.TaskGroup() as group:
        one = group.create_task(admit(database, make_spec(nodes=("a",))))
        other = group.create_task(admit(second, make_spec(nodes=("b",))))
    assert not one.result().is_duplicate
    assert not other.result().is_duplicate
    for admitted, node in ((one.result(), a), (other.result(), b)):
        operation = await begin(database, admitted.operation)
        assert (operation.scope_node, [target.node for target in operation.targets]) == (node, [node])
    assert {(item.node_id, item.backend) for item in await list_assignments(database)} == {
        (a, "cpu-engine"),
        (b, "cpu-engine"),
    }


@pytest.mark.behaviour("OPS-10")
async def test_operation_records_its_creator_and_leaves_an_audit_entry(database: Database) -> None:
    await put_nodes(database, "a")
    operation = (await admit(database, make_spec("solo"), "auto-upgrade")).operation
    assert (await read(database, operation)).created_by == "auto-upgrade"
    async with database.transaction() as tx:
        (trace,) = await access_store.list_audit(tx, 10)
        notes = await operation_store.list_notes(tx, operation.id)
    assert (trace["actor"], trace["action"], trace["target"]) == ("auto-upgrade", "operation.create", operation.id)
    assert ["auto-upgrade" in note.text for note in notes] == [True]


@pytest.mark.behaviour("OPS-35")
async def test_whole_request_is_kept(database: Database) -> None:
    await put_nodes(database, "a")
    spec = make_spec(
        "mine",
        nodes=("a",),
        uri="https://example.org/mine.tar.gz",
        alias="other",
        sha256="ab" * 32,
        deadline_s=60.0,
        strategy=RolloutStrategy(waves=(1, 2), stops_on_failure=True, rolls_back=True),
    )
    operation = await read(database, (await admit(database, spec)).operation)
    assert BackendOperationSpec.from_json(operation.request) == spec
    assert operation.deadline_at is not None
    assert (operation.deadline_at - operation.created_at).total_seconds() == 60.0


@pytest.mark.behaviour("OPS-26")
async def test_node_scoped_operation_keeps_its_node_apart_from_the_backend_name(
    database: Database,
) -> None:
    (node,) = await put_nodes(database, "a")
    operation = (await admit(database, make_spec("corral@odd:name", nodes=("a",)))).operation
    await begin(database, operation)
    live = await read(database, operation)
    await set_state(database, operation, "completed")
    async with database.transaction() as tx:
        (record,) = await operation_store.list_history(tx)
    for seen in (live, record.operation):
        assert (seen.subject, seen.scope_node, seen.scope_node_name) == ("corral@odd:name", node, "a")
    assert (await admit(database, make_spec("solo"))).operation.scope_node is None


async def test_plan_writes_nothing(database: Database) -> None:
    await put_nodes(database, "a", "b")
    plan = await admission(database).plan(make_spec())
    assert len(plan.targets) == 2
    assert await count(database) == 0


async def test_refused_request_leaves_nothing_behind(database: Database) -> None:
    with pytest.raises(Conflict) as caught:
        await admit(database, make_spec())
    assert caught.value.slug == "no_eligible_nodes"
    assert await count(database) == 0
    assert await sql(database, "SELECT 1 FROM audit UNION SELECT 1 FROM outbox") == []


@pytest.mark.behaviour("OPS-8")
async def test_queued_operation_stays_queued_however_long_it_waits(database: Database) -> None:
    await put_nodes(database, "a")
    operation = (await admit(database, make_spec())).operation
    await sql(database, "UPDATE operations SET created_at = corral_now() - interval '90 days'")
    async with database.transaction() as tx:
        assert await operation_store.prune(tx, age_s=1.0, most=0) == 0
    after = await read(database, operation)
    assert (after.state, after.fault) == (OperationState.QUEUED, None)
    assert await is_due(database, operation)


@pytest.mark.behaviour("NODE-120")
async def test_asking_again_makes_what_waits_after_a_failure_due_now_and_there_is_still_one_row(
    database: Database,
) -> None:
    await put_nodes(database, "a")
    operation = await begun(database, make_spec())
    await sql(
        database,
        "UPDATE assignments SET attempts = 4, next_retry_at = corral_now() + interval '10 min'",
    )
    await set_state(database, operation, "waiting_on_nodes", due_at="corral_now() + interval '10 min'")
    assert not await is_due(database, operation)
    again = await admit(database, make_spec())
    (assignment,) = await list_assignments(database)
    assert again.is_duplicate
    assert (assignment.attempts, assignment.next_retry_at) == (4, None)
    assert await is_due(database, operation)


@pytest.mark.behaviour("NODE-120")
@pytest.mark.behaviour("OPS-51")
async def test_repeating_a_request_that_is_only_pending_replaces_the_older_operation(database: Database) -> None:
    await put_nodes(database, "a", liveness="'lost'")
    first = await begun(database, make_spec())
    await sql(database, "UPDATE assignments SET attempts = 9, next_retry_at = corral_now() + interval '10 min'")
    await set_state(database, first, "completed_with_pending")
    second = await begun(database, make_spec())
    (assignment,) = await list_assignments(database)
    assert (assignment.operation_id, assignment.attempts, assignment.next_retry_at) == (second.id, 0, None)
    assert [str(target.state) for target in (await read(database, first)).targets] == ["superseded"]
    assert await is_due(database, first), "its dispatcher closes it"


@pytest.mark.behaviour("OPS-29")
async def test_asking_again_for_what_is_paused_takes_the_same_operation_up_again(database: Database) -> None:
    await put_nodes(database, "a")
    operation = await begun(database, make_spec())
    await set_targets(database, operation, "working")
    await actions.pause(database, operation.id, "ann")
    other = await admit(database, make_spec(version="1.0"))
    assert not other.is_resumed, "another intent is another operation"
    await actions.cancel(database, other.operation.id, "ann")
    again = await admit(database, make_spec(), "bob")
    assert (again.operation.id, again.is_duplicate, again.is_resumed) == (operation.id, True, True)
    assert again.operation.state is OperationState.QUEUED
    assert len(await list_assignments(database)) == 1


async def test_kinds_are_what_the_table_takes(database: Database) -> None:
    (node,) = await put_nodes(database, "a")
    await put_installed(database, node, there(previous_version="0.9"))
    for kind in [kind for kind in OperationKind if kind.is_backend]:
        operation = (await admit(database, make_spec(kind=kind.value.partition("_")[2]))).operation
        assert operation.kind is kind
        await actions.cancel(database, operation.id, "ann")


async def test_admission_reads_only_the_named_nodes(database: Database) -> None:
    a, b = await put_nodes(database, "a", "b")
    for node in (a, b):
        await put_installed(database, node, there())
    await begun(database, make_spec("solo"))
    for references in (("a",), (a.upper(),), ("a", a)):
        async with database.transaction() as tx:
            fleet = await read_fleet(tx, make_spec(nodes=references))
        assert [node.name for node in fleet.nodes] == ["a"]
        assert set(fleet.installed) == set(fleet.assignments) == {a}
