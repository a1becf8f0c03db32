"""An owner that dies, stops or falls behind: the operation goes on elsewhere, once."""

from __future__ import annotations

import asyncio

import pytest

from corral.domain.errors import LeaseLost
from corral.domain.operation import Operation, OperationKind
from corral.operations import actions
from corral.operations.dispatcher import PROVEN_S
from corral.store import dispatch as store
from corral.store.database import Database
from corral.store.dispatch import ClaimRequest, OperationLease
from tests.operations.fake_bus import FakeWorker, Hub
from tests.operations.manual_dispatcher import Driver, age, driver, notes, submit, target, workers
from tests.operations.scene import list_assignments, listed, make_spec, read, sql, states


@pytest.fixture
def hub() -> Hub:
    return Hub()


async def expire(database: Database) -> None:
    """As if every owner had been silent for a lease."""
    await sql(
        database,
        "UPDATE operations SET lease_until = corral_now() - interval '1 ms', due_at = corral_now() - interval '1 ms'"
        " WHERE lease_until IS NOT NULL",
    )


async def started(database: Database, hub: Hub) -> tuple[Driver, Operation, FakeWorker]:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    return frontend, operation, worker


@pytest.mark.behaviour("OPS-9")
async def test_killed_owner_loses_its_lease_and_another_goes_on(database: Database, hub: Hub) -> None:
    killed, operation, worker = await started(database, hub)
    killed.bus.unplug()
    await worker.finish()
    other = await driver(database, hub, "frontend-2")
    await other.run()
    assert (await read(database, operation)).owner == "frontend-1", "not while the lease holds"
    await expire(database)
    await other.run()
    seen = await read(database, operation)
    assert (seen.state, seen.attempt) == ("completed", 2)
    assert worker.queried_jobs == [worker.job], "it queries what it has no report of"
    assert len(worker.commands) == 1, "and tells nobody twice"
    assert "taken over from frontend frontend-1" in await notes(database, operation)


@pytest.mark.behaviour("OPS-9")
async def test_owner_killed_before_sending_its_command_is_followed_by_one_that_sends_it(
    database: Database, hub: Hub
) -> None:
    (worker,) = await workers(database, hub, "a")
    operation = await submit(database, make_spec("solo"))
    killed = await driver(database, hub)
    killed.bus.unplug()
    await killed.run()
    job = (await target(database, operation, worker.node)).job_id
    await expire(database)
    await (await driver(database, hub, "frontend-2")).run()
    assert [command.job_id for _, command in worker.commands] == [job], "the job was there before it was sent"


async def test_lease_of_the_defaults_leaves_time_to_take_over_within_60_s(database: Database, hub: Hub) -> None:
    _, operation, _ = await started(database, hub)
    (row,) = await sql(
        database,
        "SELECT extract(epoch FROM lease_until - corral_now()) AS left_s, lease_until = due_at AS same FROM operations",
    )
    assert 0 < row.left_s <= 30
    assert row.same, "the end of the lease is when somebody else may look at it"
    assert (await read(database, operation)).owner == "frontend-1"


async def test_write_of_a_fenced_owner_changes_nothing(database: Database, hub: Hub) -> None:
    old, operation, _ = await started(database, hub)
    await expire(database)
    new = await driver(database, hub, "frontend-2")
    await new.run()
    before = await read(database, operation)
    assert before.owner == "frontend-2"
    hold = OperationLease(id=operation.id, owner="frontend-1", fence=before.fence - 1)
    with pytest.raises(LeaseLost):
        await old.dispatcher._drivers["backend"].step(hold)
    assert await read(database, operation) == before
    await old.dispatcher.renew_leases()
    assert not old.dispatcher.held


async def test_renewal_is_one_statement_and_keeps_the_lease_exclusive(database: Database, hub: Hub) -> None:
    found = await workers(database, hub, "a", "b", "c")
    frontend = await driver(database, hub)
    for worker in found:
        await submit(database, make_spec("solo", nodes=(worker.node,)))
    await frontend.run()
    await sql(database, "UPDATE operations SET lease_until = corral_now() + interval '1 s'")
    await frontend.dispatcher.renew_leases()
    rows = await sql(database, "SELECT lease_until > corral_now() + interval '20 s' AS is_renewed FROM operations")
    assert [row.is_renewed for row in rows] == [True] * 3


async def test_frontend_that_stops_hands_over_at_once(database: Database, hub: Hub) -> None:
    stopping, operation, worker = await started(database, hub)
    other = await driver(database, hub, "frontend-2")
    await stopping.dispatcher.stop()
    stopping.bus.unplug()
    await other.run()
    seen = await read(database, operation)
    assert (seen.owner, seen.attempt) == ("frontend-2", 1), "nobody was lost"
    await worker.finish()
    await other.run()
    assert (await read(database, operation)).state == "completed"


async def test_operation_that_outlives_too_many_owners_is_given_up_and_the_truth_may_replace_that(
    database: Database, hub: Hub
) -> None:
    _, operation, worker = await started(database, hub)
    for number in range(2, 8):
        await expire(database)
        await (await driver(database, hub, f"frontend-{number}")).run()
    seen = await read(database, operation)
    assert seen.fault is not None
    assert (seen.state, seen.fault.code, seen.is_reaped) == ("failed", "owner_lost", True)
    assert await listed(database) == [operation.id]
    # The worker had it all the while. Nobody holds the operation, so the leader hears the end.
    leader = await driver(database, hub, "leader", is_leader=True)
    await worker.finish()
    await leader.run()
    seen = await read(database, operation)
    assert (seen.state, seen.fault, seen.is_reaped) == ("completed", None, False)


async def test_owners_that_were_lost_before_one_drove_the_operation_for_minutes_do_not_count(
    database: Database, hub: Hub
) -> None:
    _, operation, _ = await started(database, hub)
    for number in range(2, 12):
        await expire(database)
        owner = await driver(database, hub, f"frontend-{number}")
        await owner.run()
        assert (await read(database, operation)).attempt == 2
        await owner.dispatcher.renew_leases()
        assert (await read(database, operation)).attempt == 2, "not yet"
        owner.clock.ahead += PROVEN_S
        await owner.dispatcher.renew_leases()
        assert (await read(database, operation)).attempt == 1
    assert (await read(database, operation)).state == "running"


async def test_frontend_that_lets_its_own_lease_run_out_is_no_lost_owner(database: Database, hub: Hub) -> None:
    frontend, operation, worker = await started(database, hub)
    for _ in range(8):
        await expire(database)
        await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.attempt) == ("running", 1)
    assert not [note for note in await notes(database, operation) if "taken over" in note]
    await worker.finish()
    await frontend.run()
    assert (await read(database, operation)).state == "completed"


async def test_frontend_that_is_killed_again_and_again_and_keeps_its_name_is_a_lost_owner_each_time(
    database: Database, hub: Hub
) -> None:
    _, operation, _ = await started(database, hub)
    for _ in range(6):
        await expire(database)
        await (await driver(database, hub, "frontend-1")).run()
    seen = await read(database, operation)
    assert seen.fault is not None
    assert (seen.state, seen.fault.code) == ("failed", "owner_lost")


async def test_end_that_its_owner_misses_is_taken_in_by_the_leader(database: Database, hub: Hub) -> None:
    owner, operation, worker = await started(database, hub)
    leader = await driver(database, hub, "leader", is_leader=True)
    owner.bus.unplug()
    await worker.move(50.0)
    await worker.finish()
    await leader.dispatcher.flush()
    assert states(await read(database, operation)) == {"a": "success"}
    await owner.run()
    assert (await read(database, operation)).state == "completed", "and its owner was called"


async def test_peer_that_does_not_lead_leaves_the_events_of_others_alone(database: Database, hub: Hub) -> None:
    _, operation, worker = await started(database, hub)
    bystander = await driver(database, hub, "frontend-2")
    await worker.finish()
    assert len(bystander.dispatcher._events) == 0
    await bystander.dispatcher.flush()
    assert states(await read(database, operation)) == {"a": "working"}


async def test_concurrent_claims_have_one_winner(database: Database, hub: Hub) -> None:
    await workers(database, hub, "a")
    await submit(database, make_spec("solo"))

    async def claim(name: str) -> int:
        async with database.transaction() as tx:
            request = ClaimRequest(owner=name, pools=[(tuple(OperationKind), 5)])
            return len(await store.claim_operations(tx, request, 30))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(claim(f"frontend-{number}")) for number in range(8)]
    assert sum(task.result() for task in tasks) == 1


async def test_operation_that_is_called_for_while_it_is_held_is_looked_at_again(database: Database, hub: Hub) -> None:
    frontend, operation, worker = await started(database, hub)
    assert await frontend.turn() == 0
    await age(database, operation, 40)
    assert await (await driver(database, hub, "frontend-2")).turn() == 0, "a call takes it away from nobody"
    assert await frontend.turn() == 1
    assert worker.queried_jobs == [worker.job]
    assert (await read(database, operation)).fence == 1, "it is still the same hold"


async def test_cancelled_operation_is_fenced_away_from_its_owner(database: Database, hub: Hub) -> None:
    frontend, operation, worker = await started(database, hub)
    await actions.cancel(database, operation.id, "ann")
    await worker.finish()
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, states(seen)) == ("cancelled", {"a": "cancelled"})
    assert await list_assignments(database) == []
