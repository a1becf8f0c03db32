"""The states of an operation: what the table itself allows, whoever writes to it."""

from __future__ import annotations

import itertools

import pytest
from sqlalchemy.exc import IntegrityError

from corral.domain.errors import Conflict
from corral.domain.operation import SETTLED, Fault, Operation, OperationState
from corral.store.database import Database
from tests.operations.scene import admit, begun, fail, make_spec, put_nodes, read, set_state, set_targets, sql
from tests.support.transitions import can_become

ALL_PAIRS = list(itertools.product(OperationState, OperationState))


async def in_state(database: Database, state: OperationState, *, is_reaped: bool = False) -> Operation:
    """A row in any state. The guard watches changes, so it is put there as it is."""
    operation = (await admit(database, make_spec("solo"))).operation
    await sql(database, "ALTER TABLE operations DISABLE TRIGGER USER")
    await sql(
        database,
        "UPDATE operations SET state = :state, reaped = :reaped WHERE id = CAST(:id AS uuid)",
        state=str(state),
        reaped=is_reaped,
        id=operation.id,
    )
    await sql(database, "ALTER TABLE operations ENABLE TRIGGER USER")
    return await read(database, operation)


@pytest.mark.behaviour("OPS-11")
async def test_state_transitions_are_refused_unless_listed(database: Database) -> None:
    await put_nodes(database, "a")
    assert len(ALL_PAIRS) == 81
    for old, new in ALL_PAIRS:
        for is_reaped in {False, old is OperationState.FAILED}:
            before = await in_state(database, old, is_reaped=is_reaped)
            allowed = old is new or can_become(old, new, was_reaped=is_reaped)
            if allowed:
                await set_state(database, before, new, finished_at="finished_at")
                assert (await read(database, before)).state is new
            else:
                with pytest.raises(Conflict) as caught:
                    await set_state(database, before, new, finished_at="finished_at", message="'changed'")
                assert caught.value.slug == "illegal_transition"
                assert str(old) in caught.value.message
                assert await read(database, before) == before, (old, new)
            await sql(database, "DELETE FROM operations")


@pytest.mark.behaviour("OPS-12")
@pytest.mark.parametrize("state", sorted(SETTLED))
@pytest.mark.parametrize(
    "late", ["error_code = 'late'", "error_text = 'late'", "finished_at = corral_now()", "state = 'failed'"]
)
async def test_settled_operation_keeps_its_state_error_and_end(
    database: Database, state: OperationState, late: str
) -> None:
    await put_nodes(database, "a")
    before = await in_state(database, state)
    with pytest.raises(Conflict) as caught:
        await sql(database, f"UPDATE operations SET {late}")
    assert caught.value.slug == "illegal_transition"
    assert await read(database, before) == before


@pytest.mark.behaviour("OPS-13")
async def test_true_completion_replaces_a_failure_of_the_reaper_and_no_other(database: Database) -> None:
    await put_nodes(database, "a")
    operation = await begun(database, make_spec("solo"))
    await fail(database, operation, reaped="true", error_code="'owner_lost'")
    await set_state(database, operation, "completed", error_code="NULL", error_text="NULL", reaped="false")
    after = await read(database, operation)
    assert (after.state, after.fault) == (OperationState.COMPLETED, None)
    real = await begun(database, make_spec("solo"))
    await fail(database, real)
    with pytest.raises(Conflict):
        await set_state(database, real, "completed", error_code="NULL", error_text="NULL")
    assert (await read(database, real)).fault is not None


@pytest.mark.behaviour("OPS-14")
async def test_claim_cannot_reopen_what_was_cancelled_while_it_was_queued(database: Database) -> None:
    await put_nodes(database, "a")
    operation = await in_state(database, OperationState.CANCELLED)
    with pytest.raises(Conflict):
        await sql(database, "UPDATE operations SET state = 'running', owner = 'late', fence = fence + 1")
    assert await read(database, operation) == operation


@pytest.mark.behaviour("OPS-15")
async def test_kind_of_an_operation_never_changes(database: Database) -> None:
    await put_nodes(database, "a")
    operation = (await admit(database, make_spec("solo"))).operation
    with pytest.raises(Conflict):
        await sql(database, "UPDATE operations SET kind = 'backend_delete'")
    assert not (await read(database, operation)).kind.is_deletion


@pytest.mark.behaviour("OPS-16")
async def test_errors_are_read_back_as_code_and_text(database: Database) -> None:
    await put_nodes(database, "a")
    operation = await begun(database, make_spec("solo"))
    words = 'gpu-a: "{}" said the server — 503 \u00e4 \\n'
    await sql(database, "UPDATE operation_targets SET error_code = 'source_unavailable', error_text = :t", t=words)
    await set_targets(database, operation, "error")
    await set_state(database, operation, "failed", error_code="'source_unavailable'", error_text="'x: y; z'")
    after = await read(database, operation)
    assert after.fault == Fault(code="source_unavailable", text="x: y; z")
    assert after.targets[0].fault == Fault(code="source_unavailable", text=words)


async def test_visible_change_increments_the_revision_and_a_lease_does_not(database: Database) -> None:
    await put_nodes(database, "a")
    operation = (await admit(database, make_spec("solo"))).operation
    await sql(
        database, "UPDATE operations SET owner = 'x', fence = fence + 1, due_at = NULL, lease_until = corral_now()"
    )
    assert (await read(database, operation)).rev == operation.rev
    await sql(database, "UPDATE operations SET message = 'half way'")
    assert (await read(database, operation)).rev == operation.rev + 1


@pytest.mark.behaviour("NODE-124")
@pytest.mark.parametrize(
    ("node", "backend"),
    [("agent", "solo"), ("nobody", "solo"), ("a", "")],
    ids=["an agent node", "a node that does not exist", "a backend without a name"],
)
async def test_assignment_that_cannot_be_satisfied_is_refused_by_the_database(
    database: Database, node: str, backend: str
) -> None:
    (usable,) = await put_nodes(database, "a")
    (agent,) = await put_nodes(database, "agent", node_type="'agent'")
    operation = (await admit(database, make_spec("solo"))).operation
    known = {"a": usable, "agent": agent, "nobody": operation.id}
    with pytest.raises(IntegrityError):
        await sql(
            database,
            "INSERT INTO assignments (node_id, backend, desired, operation_id)"
            " VALUES (CAST(:node AS uuid), :backend, 'present', CAST(:operation AS uuid))",
            node=known[node],
            backend=backend,
            operation=operation.id,
        )
    assert await sql(database, "SELECT 1 FROM assignments") == []
