"""Cancel, pause, resume, retry, dismiss, and pending changes: on any frontend, in any race."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from corral.domain.errors import Conflict, CorralError, NotFound
from corral.domain.node import NodeId
from corral.domain.operation import Operation, OperationState, RolloutStrategy
from corral.operations import actions
from corral.operations.backend_plan import BackendOperationSpec
from corral.store import access as access_store
from corral.store import operations as operation_store
from corral.store.database import Database
from tests.nodes.registry import events, transaction_waits_for_a_lock
from tests.operations.scene import (
    admission,
    admissions,
    admit,
    begin,
    begun,
    fail,
    is_due,
    list_assignments,
    listed,
    make_spec,
    put_installed,
    put_nodes,
    read,
    recorded,
    set_state,
    set_targets,
    sql,
    states,
    there,
)


@pytest.fixture
async def second(database_url: str) -> AsyncIterator[Database]:
    """The database as another frontend sees it."""
    opened = Database(database_url)
    yield opened
    await opened.close()


@pytest.fixture
async def nodes(database: Database) -> list[NodeId]:
    return await put_nodes(database, "a", "b", "c")


async def cancel(database: Database, operation: Operation) -> Operation:
    return await actions.cancel(database, operation.id, "ann")


async def refused(action: object, *arguments: object) -> str:
    with pytest.raises(CorralError) as caught:
        await action(*arguments)  # type: ignore[operator]
    assert isinstance(caught.value, Conflict | NotFound)
    return caught.value.slug


@pytest.mark.behaviour("OPS-27")
@pytest.mark.behaviour("OPS-33")
async def test_cancelled_queued_operation_sends_no_commands(database: Database, nodes: list[NodeId]) -> None:
    operation = (await admit(database, make_spec())).operation
    cancelled = await cancel(database, operation)
    assert (cancelled.state, cancelled.fault, cancelled.targets) == (OperationState.CANCELLED, None, ())
    assert await list_assignments(database) == []
    assert not await is_due(database, operation), "no worker needs a stop"
    assert await listed(database) == []
    assert await recorded(database) == [operation.id]


@pytest.mark.behaviour("OPS-27")
@pytest.mark.behaviour("OPS-33")
async def test_cancel_sends_no_stop_to_targets_that_never_got_a_command(
    database: Database, nodes: list[NodeId]
) -> None:
    operation = await begun(database, make_spec())
    await set_targets(database, operation, "working", nodes[1])
    cancelled = await cancel(database, operation)
    assert states(cancelled) == {"a": "cancelled", "b": "cancelled", "c": "cancelled"}
    assert [target.node_name for target in cancelled.targets if target.stop_wanted] == ["b"]
    assert not any(target.keeps_partial for target in cancelled.targets), "what was fetched is thrown away"
    assert await list_assignments(database) == []
    assert await is_due(database, operation), "a dispatcher tells b"


@pytest.mark.behaviour("OPS-30")
async def test_cancel_on_any_frontend_fences_the_owner_out_and_writes_an_event(
    database: Database, second: Database, nodes: list[NodeId]
) -> None:
    operation = await begun(database, make_spec())
    await set_targets(database, operation, "working")
    held = await read(database, operation)
    await cancel(second, operation)
    after = await read(database, operation)
    assert (after.owner, after.fence > held.fence) == (None, True)
    written = await sql(
        database,
        "UPDATE operations SET message = 'done' WHERE id = CAST(:id AS uuid) AND owner = :owner AND fence = :fence"
        " RETURNING id",
        id=operation.id,
        owner=held.owner,
        fence=held.fence,
    )
    assert written == []
    (changed,) = await events(database, "operation.changed")
    assert (changed.key, changed.data["state"], changed.data["rev"]) == (operation.id, "cancelled", after.rev)


@pytest.mark.behaviour("OPS-31")
@pytest.mark.parametrize("end", ["completed", "failed", "superseded", "cancelled"])
async def test_ended_operation_cannot_be_cancelled_or_paused(database: Database, nodes: list[NodeId], end: str) -> None:
    operation = await begun(database, make_spec())
    await set_targets(database, operation, "success")
    await set_state(database, operation, end)
    before = await read(database, operation)
    assert await refused(actions.cancel, database, operation.id, "ann") == "operation_ended"
    assert await refused(actions.pause, database, operation.id, "ann") == "operation_ended"
    assert await read(database, operation) == before


@pytest.mark.behaviour("OPS-31")
@pytest.mark.behaviour("OPS-12")
async def test_cancellation_that_waits_for_the_completion_finds_it_settled(
    database: Database, second: Database, nodes: list[NodeId]
) -> None:
    operation = await begun(database, make_spec())
    async with asyncio.TaskGroup() as group, database.transaction() as tx:
        await operation_store.lock(tx, operation.id)
        late = group.create_task(refused(actions.cancel, second, operation.id, "ann"))
        await transaction_waits_for_a_lock(database)
        await operation_store.update_operation(tx, operation.id, {"state": OperationState.COMPLETED})
    assert late.result() == "operation_ended"
    assert (await read(database, operation)).state is OperationState.COMPLETED


@pytest.mark.behaviour("OPS-31")
async def test_concurrent_completion_and_cancellation_have_one_winner(
    database: Database, second: Database, nodes: list[NodeId]
) -> None:
    for _ in range(10):
        operation = await begun(database, make_spec())

        async def complete(operation: Operation = operation) -> str:
            try:
                await set_state(database, operation, "completed")
            except Conflict:
                return "refused"
            return "completed"

        async def stop(operation: Operation = operation) -> str:
            try:
                await cancel(second, operation)
            except Conflict:
                return "refused"
            return "cancelled"

        async with asyncio.TaskGroup() as group:
            one, other = group.create_task(complete()), group.create_task(stop())
        outcomes = {one.result(), other.result()} - {"refused"}
        assert outcomes == {str((await read(database, operation)).state)}
        await sql(database, "DELETE FROM operations")


@pytest.mark.behaviour("OPS-32")
async def test_removal_can_be_cancelled_while_it_is_queued_and_not_once_it_has_begun(
    database: Database, nodes: list[NodeId]
) -> None:
    await put_installed(database, nodes[0], there())
    running = await begun(database, make_spec(kind="delete"))
    assert await refused(actions.cancel, database, running.id, "ann") == "deletion_running"
    assert await refused(actions.pause, database, running.id, "ann") == "deletion_running"
    assert (await read(database, running)).state is OperationState.RUNNING
    assert len(await list_assignments(database)) == 1
    await set_state(database, running, "completed")
    queued = (await admit(database, make_spec(kind="delete"))).operation
    cancelled = await cancel(database, queued)
    assert (cancelled.state, cancelled.kind.is_deletion) == (OperationState.CANCELLED, True)


@pytest.mark.behaviour("OPS-34")
async def test_cancelled_operation_is_recorded_as_cancelled_without_an_error(
    database: Database, nodes: list[NodeId]
) -> None:
    operation = await begun(database, make_spec())
    await sql(database, "UPDATE operations SET error_code = 'internal', error_text = 'still trying'")
    await cancel(database, operation)
    async with database.transaction() as tx:
        (recorded,) = await operation_store.list_history(tx)
        (trace, *_) = await access_store.list_audit(tx, 1)
    record = recorded.operation
    assert (record.state, record.fault, record.message) == (OperationState.CANCELLED, None, "Cancelled by ann.")
    assert record.finished_at is not None
    assert (trace["actor"], trace["action"], trace["target"]) == ("ann", "operation.cancel", operation.id)


@pytest.mark.behaviour("OPS-33")
async def test_operation_with_only_pending_changes_can_be_cancelled(database: Database, nodes: list[NodeId]) -> None:
    operation = await begun(database, make_spec())
    await set_targets(database, operation, "success", *nodes[:2])
    await set_state(database, operation, "completed_with_pending")
    assert await refused(actions.pause, database, operation.id, "ann") == "nothing_to_pause"
    cancelled = await cancel(database, operation)
    assert states(cancelled) == {"a": "success", "b": "success", "c": "cancelled"}
    assert await list_assignments(database) == []


@pytest.mark.behaviour("OPS-29")
async def test_pause_keeps_what_was_fetched_and_a_resume_goes_on_with_new_jobs(
    database: Database, nodes: list[NodeId]
) -> None:
    operation = await begun(database, make_spec())
    await set_targets(database, operation, "success", nodes[0])
    await set_targets(database, operation, "working", nodes[1])
    await sql(database, "UPDATE operation_targets SET seq = 7, percent = 40 WHERE state = 'working'")
    paused = await actions.pause(database, operation.id, "ann")
    assert (paused.state, paused.finished_at) == (OperationState.PAUSED, None)
    assert [(item.node_name, item.keeps_partial) for item in paused.targets if item.stop_wanted] == [("b", True)]
    assert await list_assignments(database) == []
    assert await listed(database) == [operation.id]
    resumed = await actions.resume(database, admissions(database), operation.id, "bob")
    assert (resumed.id, resumed.state) == (operation.id, OperationState.QUEUED)
    assert states(resumed) == {"a": "success", "b": "queued", "c": "queued"}
    before = {item.node: item for item in operation.targets}
    for target in resumed.targets[1:]:
        assert target.job_id != before[target.node].job_id
        assert target.generation > before[target.node].generation
        assert (target.seq, target.stop_wanted, target.keeps_partial) == (0, False, False)
    assert {item.node_id: item.generation for item in await list_assignments(database)} == {
        target.node: target.generation for target in resumed.targets[1:]
    }
    assert resumed.targets[1].progress.percent == 40, "it goes on from there"
    assert await is_due(database, operation)


async def test_resume_accepts_only_paused_operations_without_a_rival(database: Database, nodes: list[NodeId]) -> None:
    operation = await begun(database, make_spec())
    assert await refused(actions.resume, database, admissions(database), operation.id, "ann") == "not_paused"
    await actions.pause(database, operation.id, "ann")
    rival = (await admit(database, make_spec(version="1.0"))).operation
    with pytest.raises(Conflict) as caught:
        await actions.resume(database, admissions(database), operation.id, "ann")
    assert caught.value.slug == "operation_in_progress"
    assert caught.value.details["operation_id"] == rival.id
    assert (await read(database, operation)).state is OperationState.PAUSED


async def test_node_that_went_during_a_pause_ends_its_target_with_that_reason(
    database: Database, nodes: list[NodeId]
) -> None:
    operation = await begun(database, make_spec())
    await actions.pause(database, operation.id, "ann")
    await sql(database, "DELETE FROM nodes WHERE name = 'a'")
    await sql(database, "UPDATE nodes SET drained_at = corral_now() WHERE name = 'b'")
    resumed = await actions.resume(database, admissions(database), operation.id, "ann")
    assert {item.node_name: item.fault.code if item.fault else "" for item in resumed.targets} == {
        "a": "node_removed",
        "b": "node_drained",
        "c": "",
    }
    assert [item.node_id for item in await list_assignments(database)] == [nodes[2]]


async def test_paused_operation_that_is_cancelled_has_its_workers_throw_away_what_they_kept(
    database: Database, nodes: list[NodeId]
) -> None:
    operation = await begun(database, make_spec())
    await set_targets(database, operation, "working", nodes[0])
    await actions.pause(database, operation.id, "ann")
    await sql(database, "UPDATE operation_targets SET stop_wanted = false")
    cancelled = await cancel(database, operation)
    assert [item.node_name for item in cancelled.targets if item.stop_wanted] == ["a"]
    assert not cancelled.targets[0].keeps_partial
    assert await is_due(database, operation)


@pytest.mark.behaviour("OPS-35")
async def test_retry_asks_for_exactly_the_same_and_dismisses_the_failure(
    database: Database, nodes: list[NodeId]
) -> None:
    spec = make_spec(
        "mine",
        nodes=("b",),
        uri="https://example.org/mine.tar.gz",
        alias="other",
        sha256="ab" * 32,
        strategy=RolloutStrategy(waves=(1,), stops_on_failure=True),
    )
    failed = await begun(database, spec)
    await fail(database, failed)
    again = await actions.retry(database, admissions(database), failed.id, "bob")
    assert not again.is_duplicate
    assert again.operation.retry_of == failed.id
    assert BackendOperationSpec.from_json(again.operation.request) == spec
    assert (again.operation.created_by, again.operation.scope_node) == ("bob", nodes[1])
    old = await read(database, failed)
    assert (old.dismissed_by, old.state) == ("bob", OperationState.FAILED)
    assert await listed(database) == [again.operation.id]


@pytest.mark.behaviour("OPS-35")
async def test_retry_that_is_refused_leaves_the_failure_listed(database: Database, nodes: list[NodeId]) -> None:
    failed = await begun(database, make_spec(nodes=("b",)))
    await fail(database, failed)
    await sql(database, "UPDATE nodes SET drained_at = corral_now() WHERE name = 'b'")
    assert await refused(actions.retry, database, admissions(database), failed.id, "ann") == "node_draining"
    assert await listed(database) == [failed.id]


@pytest.mark.behaviour("OPS-35")
async def test_retry_accepts_only_failed_cancelled_or_paused_operations(
    database: Database, nodes: list[NodeId]
) -> None:
    operation = await begun(database, make_spec())
    assert await refused(actions.retry, database, admissions(database), operation.id, "ann") == "not_retryable"
    await actions.pause(database, operation.id, "ann")
    resumed = await actions.retry(database, admissions(database), operation.id, "ann")
    assert (resumed.operation.id, resumed.is_resumed) == (operation.id, True)
    await cancel(database, operation)
    again = await actions.retry(database, admissions(database), operation.id, "ann")
    assert again.operation.retry_of == operation.id


@pytest.mark.behaviour("OPS-36")
@pytest.mark.behaviour("OPS-33")
async def test_dismissal_leaves_the_record_stops_no_work_and_leaves_nothing_to_run_later(
    database: Database, nodes: list[NodeId]
) -> None:
    operation = await begun(database, make_spec())
    await set_targets(database, operation, "working", nodes[0])
    await set_targets(database, operation, "error", nodes[1])
    await sql(database, "UPDATE assignments SET state = 'dead' WHERE node_id = CAST(:node AS uuid)", node=nodes[1])
    await fail(database, operation, reaped="true")
    dismissed = await actions.dismiss(database, operation.id, "bob")
    assert (dismissed.state, dismissed.dismissed_by) == (OperationState.FAILED, "bob")
    assert dismissed.fault is not None
    assert states(dismissed) == {"a": "working", "b": "error", "c": "cancelled"}
    assert not any(target.stop_wanted for target in dismissed.targets)
    assert [item.node_id for item in await list_assignments(database)] == [nodes[0]], "only what a worker is at"
    assert await listed(database) == []
    assert await recorded(database) == [operation.id]
    assert await actions.dismiss(database, operation.id, "eve") == dismissed, "the second time changes nothing"
    assert len(await events(database, "operation.dismissed")) == 1


@pytest.mark.behaviour("OPS-36")
@pytest.mark.parametrize("state", ["running", "waiting_on_nodes", "completed", "completed_with_pending", "cancelled"])
async def test_dismiss_accepts_only_failed_operations(database: Database, nodes: list[NodeId], state: str) -> None:
    operation = await begun(database, make_spec())
    if state != "running":
        await set_state(database, operation, state)
    assert await refused(actions.dismiss, database, operation.id, "ann") == "not_failed"
    assert (await read(database, operation)).dismissed_at is None


async def test_discarded_pending_change_ends_its_target_and_the_operation_goes_on_without_that_node(
    database: Database, nodes: list[NodeId]
) -> None:
    operation = await begun(database, make_spec())
    await set_targets(database, operation, "working", nodes[1])
    await sql(database, "UPDATE operations SET due_at = NULL")
    await actions.discard_assignment(database, "a", "cpu-engine", "ann")
    await actions.discard_assignment(database, "b", "cpu-engine", "ann")
    after = await read(database, operation)
    assert states(after) == {"a": "cancelled", "b": "cancelled", "c": "queued"}
    assert [item.node_name for item in after.targets if item.stop_wanted] == ["b"]
    assert [item.node_id for item in await list_assignments(database)] == [nodes[2]]
    assert await is_due(database, operation)
    gone = await events(database, "assignment.ended")
    assert {item.data["node_id"] for item in gone} == set(nodes[:2])
    assert {item.data["reason"] for item in gone} == {"dropped"}
    assert await refused(actions.discard_assignment, database, "a", "cpu-engine", "ann") == "assignment_not_found"


async def test_removal_that_a_worker_is_at_cannot_be_dropped(database: Database, nodes: list[NodeId]) -> None:
    await put_installed(database, nodes[0], there())
    operation = await begun(database, make_spec(kind="delete"))
    await set_targets(database, operation, "working")
    assert await refused(actions.discard_assignment, database, "a", "cpu-engine", "ann") == "deletion_running"
    assert len(await list_assignments(database)) == 1


async def test_dead_pending_change_is_retried_for_its_node_with_all_its_attempts(
    database: Database, nodes: list[NodeId]
) -> None:
    operation = await begun(database, make_spec(version="1.0"))
    assert (
        await refused(actions.retry_assignment, database, admission(database), "b", "cpu-engine", "ann")
        == "assignment_open"
    )
    await set_targets(database, operation, "success", nodes[0], nodes[2])
    await set_targets(database, operation, "error", nodes[1])
    await sql(
        database, "UPDATE assignments SET state = 'dead', attempts = 10 WHERE node_id = CAST(:n AS uuid)", n=nodes[1]
    )
    await fail(database, operation)
    revived = await actions.retry_assignment(database, admission(database), "b", "cpu-engine", "ann")
    assert (revived.operation.scope_node, revived.operation.retry_of) == (nodes[1], operation.id)
    assert revived.operation.request["version"] == "1.0"
    await begin(database, revived.operation)
    (assignment,) = [item for item in await list_assignments(database) if item.node_id == nodes[1]]
    assert (assignment.state, assignment.attempts, assignment.operation_id) == ("open", 0, revived.operation.id)
    assert states(await read(database, operation))["b"] == "error", "what has ended stays as it was"
