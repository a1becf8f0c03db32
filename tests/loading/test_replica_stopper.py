"""The one stop: exactly one process, acknowledged, tried until it is; unloading and deleting on top of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from corral.bus.messages import StopModelReply
from corral.domain.cluster import OutboxEvent, OutboxPosition
from corral.domain.errors import Conflict
from corral.domain.node import NodeId
from corral.domain.operation import OperationState
from corral.domain.replica import Replica, ReplicaState
from corral.loading.replica_stopper import find_stop_problem
from corral.policy.loads import compute_stop_pause_s
from corral.store import holdings as staged_store
from corral.store import models as model_store
from corral.store import replicas as replica_store
from corral.store.database import Database
from tests.loading.machines import LoadFrontend, ModelWorker, machines, node_of
from tests.loading.scene import ask, edit, put_loaded, put_model, rows, states, use
from tests.operations.fake_bus import NORMAL, OFF, SILENT, Hub
from tests.operations.manual_dispatcher import set_node
from tests.operations.scene import read, sql


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def frontend(database: Database, hub: Hub) -> AsyncIterator[LoadFrontend]:
    made = await LoadFrontend(database, hub).plug_in()
    yield made
    await made.close()


async def mark(database: Database, *replicas: Replica, grace_s: float = 30.0) -> None:
    async with database.transaction() as tx:
        await replica_store.mark_unloading(tx, [one.id for one in replicas], "because", grace_s=grace_s)


async def loaded(database: Database, worker: ModelWorker, name: str = "chat", index: int = 0) -> Replica:
    """A replica with its process."""
    async with database.transaction() as tx:
        model = await model_store.find_model(tx, name)
    model = model or await put_model(database, name)
    row = await put_loaded(database, worker.node, model, index, address=f"127.0.0.1:{8100 + index}")
    worker.run(name, index, model.run_hash, address=row.address)
    return row


async def due_now(database: Database) -> None:
    await sql(database, "UPDATE replicas SET stop_due_at = corral_now() WHERE state = 'unloading'")


async def test_row_goes_when_its_worker_says_that_exactly_its_process_has_ended(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    first = await loaded(database, one)
    await loaded(database, one, index=1)
    await mark(database, first)
    await frontend.run()
    assert [(stop.process_key, stop.expected_address) for stop in one.stops] == [("chat#0", first.address)]
    assert [row.index for row in await rows(database)] == [1]
    assert list(one.processes) == ["chat#1"]


@pytest.mark.behaviour("NODE-90")
@pytest.mark.parametrize("mode", [SILENT, OFF])
async def test_worker_that_does_not_answer_keeps_its_row_and_nothing_coarser_is_sent(
    database: Database, hub: Hub, frontend: LoadFrontend, mode: str
) -> None:
    (one,) = await machines(database, hub, "a")
    row = await loaded(database, one)
    one.mode = mode
    await mark(database, row)
    pauses = []
    for _ in range(3):
        await frontend.run()
        (left,) = await rows(database)
        assert left.stop_problem
        due = await sql(database, "SELECT EXTRACT(EPOCH FROM stop_due_at - updated_at) AS s FROM replicas")
        pauses.append(round(due[0].s))
        await due_now(database)
    assert pauses == [1, 2, 4]
    assert {name for name, _, _ in hub.sent} == {"model.stop"}
    one.mode = NORMAL
    await frontend.run()
    assert await rows(database) == []


def test_pause_doubles_to_four_minutes() -> None:
    assert [compute_stop_pause_s(number) for number in (1, 2, 3, 8, 9, 100)] == [1.0, 2.0, 4.0, 128.0, 240.0, 240.0]


@pytest.mark.behaviour("NODE-89")
async def test_stop_does_not_remove_a_row_that_replaced_the_stopped_one(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    row = await loaded(database, one)
    await mark(database, row)
    async with database.transaction() as tx:
        (stop,) = await replica_store.claim_stops(tx, limit=5, lease_s=120.0)
    # While its worker was asked, the row has become another one.
    await sql(database, "UPDATE replicas SET state = 'loaded', address = '127.0.0.1:9999', stop_due_at = NULL")
    async with database.transaction() as tx:
        assert not await replica_store.remove_stopped(tx, stop.replica, "because")
    assert await states(database) == ["loaded"]


async def test_replacement_gets_another_index_while_the_old_process_may_still_run(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    row = await loaded(database, one)
    one.stop_problem = "It does not end."
    await mark(database, row)
    await ask(frontend)
    await frontend.run()
    assert sorted((found.index, str(found.state)) for found in await rows(database)) == [
        (0, "unloading"),
        (1, "staging"),
    ]
    await one.load_done()
    one.stop_problem = ""
    await due_now(database)
    await frontend.run()
    assert [(found.index, str(found.state)) for found in await rows(database)] == [(1, "loaded")]
    assert list(one.processes) == ["chat#1"]


@pytest.mark.behaviour("NODE-91")
async def test_two_frontends_stop_a_replica_once(database: Database, hub: Hub) -> None:
    (one,) = await machines(database, hub, "a")
    row = await loaded(database, one)
    await mark(database, row)
    frontends = [await LoadFrontend(database, hub, f"frontend-{number}").plug_in() for number in range(2)]
    try:
        async with asyncio.TaskGroup() as group:
            for frontend in frontends:
                group.create_task(frontend.loading.replica_stopper.tick())
        for frontend in frontends:
            await frontend.loading.replica_stopper.wait_idle()
        assert len(one.stops) == 1
    finally:
        for frontend in frontends:
            await frontend.close()


async def test_unloading_replica_finishes_its_requests_within_the_grace(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    row = await loaded(database, one)
    await use(database, row)
    await mark(database, row)
    await frontend.run()
    assert not one.stops
    await use(database, row, in_flight=0)
    await frontend.run()
    assert not one.stops, "the last two seconds may not be written yet"
    await sql(database, "UPDATE replicas SET updated_at = updated_at - interval '3 s'")
    await frontend.run()
    assert len(one.stops) == 1


async def test_grace_ends_and_a_forced_stop_has_none(database: Database, hub: Hub, frontend: LoadFrontend) -> None:
    (one,) = await machines(database, hub, "a")
    first, second = await loaded(database, one), await loaded(database, one, index=1)
    for row in (first, second):
        await use(database, row)
    await mark(database, first)
    await mark(database, second, grace_s=0.0)
    await frontend.run()
    assert [stop.process_key for stop in one.stops] == ["chat#1"]
    await due_now(database)
    await frontend.run()
    assert [stop.process_key for stop in one.stops] == ["chat#1", "chat#0"]


def test_restarted_engine_is_not_taken_for_ended() -> None:
    row = Replica(id="1", node_id=NodeId("n"), model="m", index=0, state=ReplicaState.UNLOADING, address="h:1")
    moved = StopModelReply(process_key="m#0", matched=False, terminated=True, address="h:2")
    assert "h:2" in (find_stop_problem(moved, row) or "")
    assert find_stop_problem(replace(moved, address=""), row) is None
    assert find_stop_problem(StopModelReply(process_key="m#0", matched=True, terminated=False), row)


# --- unloading ---


@pytest.mark.behaviour("NODE-97")
async def test_unloading_what_is_loaded_nowhere_succeeds(database: Database, hub: Hub, frontend: LoadFrontend) -> None:
    await put_model(database)
    operation = await ask(frontend, kind="unload")
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.message) == ("completed", "chat is loaded nowhere")


@pytest.mark.behaviour("NODE-98")
async def test_node_that_fails_to_stop_delays_no_other_and_is_named(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    one, two = await machines(database, hub, "a", "b")
    for worker in (one, two):
        await loaded(database, worker)
    one.stop_problem = "It ignores every signal."
    operation = await ask(frontend, kind="unload")
    await frontend.run_ahead()
    assert [row.node_id for row in await rows(database)] == [one.node]
    seen = await read(database, operation)
    assert (seen.state, seen.message) == ("running", "Unloading chat from a: It ignores every signal.")
    await sql(database, "UPDATE operations SET started_at = started_at - interval '2 minutes'")
    await frontend.run_ahead()
    seen = await read(database, operation)
    assert seen.fault is not None
    assert (seen.state, seen.fault.code) == ("failed", "stop_failed")
    assert "a: Its process has not ended yet: It ignores every signal." in seen.fault.text
    one.stop_problem = ""
    await due_now(database)
    await frontend.run()
    assert await rows(database) == [], "it is tried until it has ended, whatever became of the operation"


async def test_unload_of_one_node_keeps_the_other_replicas(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    one, two = await machines(database, hub, "a", "b")
    for worker in (one, two):
        await loaded(database, worker)
    operation = await ask(frontend, kind="unload", nodes=("b",), is_forced=True)
    await frontend.run_ahead()
    assert (await read(database, operation)).message == "Unloaded from b"
    assert [row.node_id for row in await rows(database)] == [one.node]


async def test_loading_and_unloading_are_rivals_and_one_may_wait_for_the_other(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    first = await ask(frontend)
    await frontend.run()
    with pytest.raises(Conflict, match="for the same model"):
        await ask(frontend, kind="unload")
    behind = await ask(frontend, kind="unload", queue_behind=True)
    assert behind.after_id == first.id
    await one.load_done()
    await frontend.run_ahead()
    assert (await read(database, behind)).state is OperationState.COMPLETED
    assert await rows(database) == []


async def test_request_waits_behind_an_unloading_and_is_joined_by_others(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await loaded(database, one)
    one.stop_problem = "Not yet."
    await ask(frontend, kind="unload")
    await frontend.run()
    first = await frontend.loads.request_load("chat")
    assert await frontend.loads.request_load("chat") == first


async def test_edit_ends_what_runs_and_what_an_engine_does_not_notice_ends_nothing(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await loaded(database, one)
    await edit(database, "chat", description="a model")
    assert await states(database) == ["loaded"]
    await edit(database, "chat", options={"context_size": "1024"})
    assert await states(database) == ["unloading"]
    await frontend.run()
    assert await rows(database) == []


async def test_pending_stop_survives_a_lost_node_and_runs_when_it_returns(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    row = await loaded(database, one)
    other = await loaded(database, one, "other", 1)
    one.mode = OFF
    await mark(database, row)
    await frontend.run()
    async with database.transaction() as tx:
        assert await replica_store.remove_replicas(tx, node_of(one), "its node was lost") == 1
    assert [(found.model, str(found.state)) for found in await rows(database)] == [("chat", "unloading")]
    one.mode = NORMAL
    back = OutboxEvent(position=OutboxPosition(1, 1), kind="node.alive", key=one.node, at=datetime.now(UTC), data={})
    await frontend.loading.follow([back])
    await frontend.run()
    assert await rows(database) == []
    assert list(one.processes) == [f"other#{other.index}"]


# --- deleting ---


@pytest.mark.behaviour("LOAD-1", "NODE-101", "OPS-102")
async def test_deleted_model_goes_from_idle_nodes_at_once_and_from_absent_ones_when_they_are_back(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    loaded_on, idle, away = await machines(database, hub, "loaded", "idle", "away")
    await loaded(database, loaded_on)
    async with database.transaction() as tx:
        await staged_store.put_models(tx, [(node_of(one), "chat", "x") for one in (loaded_on, idle, away)])
    await set_node(database, away.node, liveness="'lost'")
    operation = await ask(frontend, kind="delete")
    await frontend.run_ahead()
    seen = await read(database, operation)
    assert seen.state is OperationState.COMPLETED_WITH_PENDING
    assert "pending for away" in seen.message
    assert (loaded_on.deleted, idle.deleted, away.deleted) == (["chat"], ["chat"], [])
    assert await rows(database) == []
    assert await sql(database, "SELECT 1 FROM models") == []
    assert [stop.process_key for stop in loaded_on.stops] == ["chat#0"]
    await set_node(database, away.node, liveness="'alive'", bus_ok="true")
    await frontend.run_ahead()
    assert away.deleted == ["chat"]
    seen = await read(database, operation)
    assert (seen.state, seen.progress.percent) == ("completed", 100.0)
    assert await sql(database, "SELECT 1 FROM model_removals") == []
    assert frontend.library.forgotten == 1


@pytest.mark.behaviour("LOAD-30")
async def test_delete_on_one_node_stops_its_replica_and_removes_only_its_copy(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    one, two = await machines(database, hub, "a", "b")
    for worker in (one, two):
        await loaded(database, worker)
    async with database.transaction() as tx:
        await staged_store.put_models(tx, [(node_of(worker), "chat", "x") for worker in (one, two)])
    operation = await ask(frontend, kind="unload", nodes=("b",), is_forced=True, removes_files=True)
    await frontend.run_ahead()
    seen = await read(database, operation)
    assert (seen.state, seen.message) == ("completed", "Removed the files of chat from b")
    assert (one.deleted, two.deleted) == ([], ["chat"])
    assert [row.node_id for row in await rows(database)] == [one.node]
    assert len(await sql(database, "SELECT 1 FROM models")) == 1
    assert [str(row.node_id) for row in await sql(database, "SELECT node_id FROM staged_models")] == [one.node]


@pytest.mark.behaviour("LOAD-30")
async def test_delete_on_an_absent_node_is_pending_until_it_is_back(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (away,) = await machines(database, hub, "away")
    await put_model(database)
    async with database.transaction() as tx:
        await staged_store.put_models(tx, [(node_of(away), "chat", "x")])
    await set_node(database, away.node, liveness="'lost'")
    operation = await ask(frontend, kind="unload", nodes=("away",), removes_files=True)
    await frontend.run_ahead()
    assert (await read(database, operation)).state is OperationState.COMPLETED_WITH_PENDING
    assert away.deleted == []
    await set_node(database, away.node, liveness="'alive'", bus_ok="true")
    await frontend.run_ahead()
    assert away.deleted == ["chat"]
    assert (await read(database, operation)).state is OperationState.COMPLETED


async def test_delete_on_a_node_without_a_copy_ends_at_once(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    operation = await ask(frontend, kind="unload", nodes=("a",), removes_files=True)
    await frontend.run_ahead()
    seen = await read(database, operation)
    assert (seen.state, seen.message) == ("completed", "There is no copy of chat to remove")
    assert one.deleted == []


async def test_delete_on_a_node_is_not_joined_to_a_plain_unload(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await loaded(database, one)
    one.stop_problem = "Not yet."
    plain = await ask(frontend, kind="unload", nodes=("a",))
    removal = await ask(frontend, kind="unload", nodes=("a",), removes_files=True, queue_behind=True)
    assert removal.after_id == plain.id


async def test_removal_that_fails_is_tried_again(database: Database, hub: Hub, frontend: LoadFrontend) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    async with database.transaction() as tx:
        await staged_store.put_models(tx, [(node_of(one), "chat", "x")])
    one.mode = SILENT
    operation = await ask(frontend, kind="delete")
    await frontend.run_ahead()
    seen = await read(database, operation)
    assert seen.state is OperationState.RUNNING
    assert "did not respond" in seen.message
    one.mode = NORMAL
    await sql(database, "UPDATE model_removals SET due_at = corral_now()")
    await frontend.run_ahead()
    assert (await read(database, operation)).state is OperationState.COMPLETED


async def test_recreated_model_does_not_lose_its_new_files_to_an_old_pending_delete(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    async with database.transaction() as tx:
        await staged_store.put_models(tx, [(node_of(one), "chat", "x")])
    one.mode = SILENT
    await ask(frontend, kind="delete")
    await frontend.run()
    await sql(database, "UPDATE operations SET state = 'failed', finished_at = corral_now()")
    one.mode = NORMAL
    await put_model(database)
    await ask(frontend)
    await frontend.turn()
    assert await sql(database, "SELECT 1 FROM model_removals") == []


@pytest.mark.behaviour("FLT-71")
async def test_frontend_off_the_bus_leaves_the_end_of_a_process_to_a_peer(database: Database, hub: Hub) -> None:
    (one,) = await machines(database, hub, "a")
    cut_off, peer = [await LoadFrontend(database, hub, name).plug_in() for name in ("frontend-1", "frontend-2")]
    try:
        await peer.presence.tick()
        await cut_off.presence.tick()
        cut_off.bus.unplug()
        await mark(database, await loaded(database, one))
        await due_now(database)
        assert await cut_off.loading.replica_stopper.tick() == 0
        assert await peer.loading.replica_stopper.tick() == 1
        await peer.loading.replica_stopper.wait_idle()
        assert (one.processes, await rows(database)) == ({}, [])
    finally:
        for each in (cut_off, peer):
            await each.close()


@pytest.mark.behaviour("FLT-71")
async def test_cold_model_requested_at_a_frontend_off_the_bus_is_loaded_by_a_peer(database: Database, hub: Hub) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    cut_off, peer = [await LoadFrontend(database, hub, name).plug_in() for name in ("frontend-1", "frontend-2")]
    try:
        await peer.presence.tick()
        await cut_off.presence.tick()
        cut_off.bus.unplug()
        operation = await ask(cut_off, if_cold=True)
        await cut_off.turn()
        await peer.run()
        assert (await read(database, operation)).owner == "frontend-2"
        assert [load.model for load in one.loads] == ["chat"]
    finally:
        for each in (cut_off, peer):
            await each.close()
