"""A cancel reaches the worker: at once when it can be reached, and when it is back if not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from corral.domain.errors import Unavailable
from corral.domain.node import NodeId
from corral.domain.operation import Operation
from corral.operations import actions
from corral.store import assignments as assignment_store
from corral.store.database import Database
from tests.operations.fake_bus import NORMAL, OFF, SILENT, Hub
from tests.operations.manual_dispatcher import command_on_its_way, driver, set_node, submit, target, workers
from tests.operations.scene import admit, begin, is_due, list_assignments, listed, make_spec, read, sql, states


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.mark.behaviour("OPS-28")
async def test_cancel_at_one_frontend_stops_the_jobs_that_another_drives(database: Database, hub: Hub) -> None:
    one, two = await workers(database, hub, "a", "b")
    owner = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    await owner.run()
    await actions.cancel(database, operation.id, "ann")
    assert await is_due(database, operation), "anybody may act on it at once"
    other = await driver(database, hub, "frontend-2")
    await other.run()
    for worker in (one, two):
        (cancel,) = worker.cancelled
        assert (cancel.job_id, cancel.keeps_partial) == (worker.job, False)
    await owner.run()
    seen = await read(database, operation)
    assert (seen.state, states(seen)) == ("cancelled", {"a": "cancelled", "b": "cancelled"})
    assert await listed(database) == []
    await owner.dispatcher.renew_leases()
    assert not owner.dispatcher.held | other.dispatcher.held
    assert len(one.cancelled) == 1, "the cancel is sent once"


@pytest.mark.behaviour("OPS-28")
async def test_pause_keeps_partial_files_and_a_resume_is_a_new_job(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    await worker.move(60.0)
    await frontend.run()
    first = worker.job
    await actions.pause(database, operation.id, "ann")
    await frontend.run()
    assert [(cancel.job_id, cancel.keeps_partial) for cancel in worker.cancelled] == [(first, True)]
    assert (await read(database, operation)).state == "paused"
    assert (await admit(database, make_spec("solo"))).operation.id == operation.id
    await frontend.run()
    assert worker.job != first
    await worker.say(worker.jobs[first])
    await frontend.run()
    assert (await read(database, operation)).state == "running", "the end of the old job is not that of the new"
    await worker.finish()
    await frontend.run()
    assert (await read(database, operation)).state == "completed"


@pytest.mark.behaviour("OPS-28")
@pytest.mark.parametrize("mode", [OFF, SILENT])
async def test_worker_that_could_not_be_reached_gets_the_cancel_when_it_is_back(
    database: Database, hub: Hub, mode: str
) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    worker.mode = mode
    await actions.cancel(database, operation.id, "ann")
    await frontend.run()
    assert worker.cancelled == []
    assert (await target(database, operation, worker.node)).stop_wanted
    assert (await read(database, operation)).state == "cancelled"
    (row,) = await sql(database, "SELECT due_at IS NOT NULL AS is_planned FROM operations")
    assert row.is_planned == (mode == SILENT), "a node off the bus wakes it; a silent node is sent the cancel again"
    worker.mode = NORMAL
    await set_node(database, worker.node, bus_ok="true")
    await frontend.run()
    assert [cancel.job_id for cancel in worker.cancelled] == [worker.job]
    assert not (await target(database, operation, worker.node)).stop_wanted


@pytest.mark.behaviour("OPS-28")
async def test_worker_that_is_starting_gets_the_cancel_again_when_it_has_read_its_journal(
    database: Database, hub: Hub
) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    worker.refuses_cancel = Unavailable("This worker is starting.", code="worker_starting")
    await actions.cancel(database, operation.id, "ann")
    await frontend.run()
    assert (await target(database, operation, worker.node)).stop_wanted, "it resumes its jobs in a moment"
    worker.refuses_cancel = None
    await set_node(database, worker.node, bus_ok="true")
    await frontend.run()
    assert [cancel.job_id for cancel in worker.cancelled] == [worker.job]


@pytest.mark.behaviour("OPS-28")
@pytest.mark.parametrize("action", [actions.cancel, actions.pause])
async def test_cancel_reaches_a_worker_whose_command_is_on_its_way(
    database: Database, hub: Hub, action: Callable[[Database, str, str], Awaitable[Operation]]
) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    async with command_on_its_way(hub, frontend):
        await action(database, operation.id, "ann")
        assert (await target(database, operation, worker.node)).stop_wanted
    await frontend.run()
    assert [cancel.job_id for cancel in worker.cancelled] == [worker.job]


async def test_discarding_a_pending_change_stops_the_job_whose_command_is_on_its_way(
    database: Database, hub: Hub
) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    await submit(database, make_spec("solo"))
    async with command_on_its_way(hub, frontend):
        await actions.discard_assignment(database, "a", "solo", "ann")
    await frontend.run()
    assert [cancel.job_id for cancel in worker.cancelled] == [worker.job]


async def test_drain_stops_the_job_whose_command_is_on_its_way(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    await submit(database, make_spec("solo"))
    async with command_on_its_way(hub, frontend), database.transaction() as tx:
        await assignment_store.end_for_node(tx, NodeId(worker.node), "a", is_removed=False)
    await frontend.run()
    assert [cancel.job_id for cancel in worker.cancelled] == [worker.job]


async def test_job_whose_command_is_on_its_way_is_stopped_when_it_is_replaced(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    older = await submit(database, make_spec("solo"))
    async with command_on_its_way(hub, frontend):
        newer = await submit(database, make_spec("solo", "delete", nodes=("a",)))
        await begin(database, newer, "frontend-2")
    await frontend.run()
    assert (await target(database, older, worker.node)).job_id in [cancel.job_id for cancel in worker.cancelled]


async def test_worker_that_was_sent_no_command_gets_no_cancel(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    operation = await begin(database, await submit(database, make_spec("solo")), "frontend-2")
    await actions.cancel(database, operation.id, "ann")
    assert not (await target(database, operation, worker.node)).stop_wanted


async def test_late_report_of_a_cancelled_job_changes_nothing(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub, is_leader=True)
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    await actions.cancel(database, operation.id, "ann")
    await frontend.run()
    before = await read(database, operation)
    await worker.say(worker.jobs[worker.job])
    await worker.finish()
    await worker.fail("internal")
    await frontend.run()
    assert await read(database, operation) == before


async def test_job_that_was_replaced_is_stopped(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    older = await submit(database, make_spec("solo"))
    await frontend.run()
    first = worker.job
    newer = await submit(database, make_spec("solo", "delete", nodes=("a",)))
    await frontend.run()
    assert [cancel.job_id for cancel in worker.cancelled] == [first]
    seen = await read(database, older)
    assert (seen.state, states(seen)) == ("superseded", {"a": "superseded"})
    assert worker.commands[-1][0] == "backend.delete"
    assert [item.operation_id for item in await list_assignments(database)] == [newer.id]


async def test_removed_node_ends_its_targets_and_gets_no_commands(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    await sql(database, "DELETE FROM nodes")
    await sql(database, "UPDATE operations SET due_at = corral_now()")
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.fault.code if seen.fault else "") == ("failed", "node_removed")
    assert worker.queried_jobs == []
