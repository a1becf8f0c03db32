"""A load from the request to a replica that answers, on real rows with workers that do what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from corral.bus.messages import LoadModel
from corral.domain.errors import Conflict, NotFound, Unavailable, Unprocessable
from corral.domain.operation import OperationState
from corral.nodes.lifecycle import drain
from corral.operations import actions
from corral.store import models as model_store
from corral.store import operations as operation_store
from corral.store.database import Database
from tests.loading.machines import GIB, LoadFrontend, ModelWorker, machines, sha_of
from tests.loading.scene import ask, edit, put_loaded, put_model, reserved, rows, states
from tests.operations.fake_bus import NORMAL, OFF, SILENT, Hub
from tests.operations.manual_dispatcher import command_on_its_way, set_node
from tests.operations.scene import read, sql
from tests.operations.scene import states as target_states
from tests.support.polling import eventually


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def frontend(database: Database, hub: Hub) -> AsyncIterator[LoadFrontend]:
    made = await LoadFrontend(database, hub).plug_in()
    yield made
    await made.close()


@pytest.mark.behaviour("NODE-85")
async def test_model_without_files_is_placed_loaded_and_published(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database, threads=2)
    operation = await ask(frontend)
    await frontend.run()
    (row,) = await rows(database)
    assert (row.state, row.index, row.revision, row.threads) == ("staging", 0, model.run_hash, 2)
    command = one.loads[0]
    assert isinstance(command, LoadModel)
    assert (command.model, command.replica, command.revision, command.backend) == (
        "chat",
        0,
        model.run_hash,
        "cpu-engine",
    )
    assert command.build is not None, "the engine is not installed there"
    assert (command.threads, command.ready_s, command.operation_id) == (2, 300.0, operation.id)
    await one.move(50.0, phase="starting")
    await frontend.run()
    assert await states(database) == ["loading"]
    seen = await read(database, operation)
    assert (seen.message, seen.progress.phase) == ("Loading chat on a", "starting")
    await one.load_done()
    await frontend.run()
    (row,) = await rows(database)
    assert (row.state, row.address, row.engine_key, row.version) == ("loaded", "127.0.0.1:9000", "secret", "2.0")
    assert row.load_s is not None
    seen = await read(database, operation)
    assert (seen.state, seen.message, seen.progress.percent) == ("completed", "Loaded on a", 100.0)
    assert await reserved(database) == []
    assert not frontend.dispatcher.held


async def test_files_are_fetched_once_and_their_sources_are_sent_to_the_node(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    frontend.library.gate.clear()
    operation = await ask(frontend)
    await frontend.run_ahead()
    seen = await read(database, operation)
    assert (seen.message, seen.progress.phase) == ("Fetching the files of chat", "downloading")
    assert (seen.progress.current_bytes, seen.progress.total_bytes) == (10, 100)
    assert not one.loads
    frontend.library.gate.set()

    async def is_commanded() -> bool:
        await frontend.run()
        return bool(one.loads)

    await eventually(is_commanded)
    command = one.loads[0]
    assert [(file.path, file.sha256) for file in command.files] == [("model.gguf", sha_of("model.gguf"))]
    assert [place.kind for place in command.places] == ["library"]
    assert isinstance(command, LoadModel)
    assert command.entry == "model.gguf"
    assert frontend.library.entered == ["chat"]
    await one.load_done()
    await frontend.run()
    assert await states(database) == ["loaded"]


async def test_source_that_fails_for_good_ends_the_load_with_its_cause(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    frontend.library.fails.append(Unprocessable("The file is not what was promised.", code="digest_mismatch"))
    operation = await ask(frontend)

    async def has_failed() -> bool:
        await frontend.run()
        return (await read(database, operation)).state is OperationState.FAILED

    await eventually(has_failed)
    fault = (await read(database, operation)).fault
    assert fault is not None
    assert (fault.code, fault.text) == (
        "digest_mismatch",
        "The files could not be fetched: The file is not what was promised.",
    )
    assert await rows(database) == []


async def test_cancelling_stops_the_fetch_and_leaves_nothing(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    frontend.library.gate.clear()
    operation = await ask(frontend)
    await frontend.run()
    await actions.cancel(database, operation.id, "ann")

    async def is_stopped() -> bool:
        frontend.clock.ahead += 1
        await frontend.run()
        return frontend.library.cancelled == ["chat"]

    await eventually(is_stopped)
    assert (await read(database, operation)).state is OperationState.CANCELLED


@pytest.mark.behaviour("NODE-85")
async def test_failure_on_one_node_goes_on_at_another_and_its_row_is_gone(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    workers = await machines(database, hub, "a", "b")
    await put_model(database)
    operation = await ask(frontend)
    await frontend.run()
    first = next(worker for worker in workers if worker.loads)
    second = next(worker for worker in workers if worker is not first)
    await first.fail("engine_failed", "The engine has ended with 1.")
    await frontend.run()
    (row,) = await rows(database)
    assert row.node_id == second.node
    assert len(second.loads) == 1
    await second.load_done()
    await frontend.run()
    assert (await read(database, operation)).state is OperationState.COMPLETED
    assert await reserved(database) == []


@pytest.mark.behaviour("NODE-75")
async def test_failed_load_names_every_cause_and_is_shared_by_requests_within_15_s(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    workers = await machines(database, hub, "a", "b")
    await put_model(database)
    first = await frontend.loads.request_load("chat")
    await frontend.run()
    for _ in range(2):
        worker = next(one for one in workers if any(one.jobs[load.job_id].state == "running" for load in one.loads))
        await worker.fail("engine_failed", f"It broke on {worker.node[:4]}.")
        await frontend.run()
    async with database.transaction() as tx:
        failed = await operation_store.get(tx, first)
    assert failed.state is OperationState.FAILED
    assert failed.fault is not None
    assert failed.fault.code == "engine_failed"
    for worker in workers:
        assert f"It broke on {worker.node[:4]}" in failed.fault.text
    assert await rows(database) == []
    assert await frontend.loads.request_load("chat") == first
    await sql(database, "UPDATE operations SET finished_at = finished_at - interval '16 s'")
    assert await frontend.loads.request_load("chat") != first


async def test_edit_makes_a_request_ignore_a_recent_load_failure(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await put_model(database)
    first = await frontend.loads.request_load("chat")
    await frontend.run()
    assert await frontend.loads.request_load("chat") == first
    await edit(database, "chat", options={"context_size": "512"})
    assert await frontend.loads.request_load("chat") != first


@pytest.mark.behaviour("NODE-71")
@pytest.mark.behaviour("NODE-72")
async def test_fifty_requests_on_three_frontends_are_one_load(database: Database, hub: Hub) -> None:
    (one, _) = await machines(database, hub, "a", "b")
    await put_model(database)
    frontends = [await LoadFrontend(database, hub, f"frontend-{number}").plug_in() for number in range(3)]
    try:
        requests = [asyncio.ensure_future(frontends[number % 3].loads.request_load("chat")) for number in range(50)]
        operations = {await future for future in requests}
        assert len(operations) == 1
        for frontend in frontends:
            await frontend.run()
        sent = [worker for worker in hub.workers.values() if isinstance(worker, ModelWorker) and worker.loads]
        assert sum(len(worker.loads) for worker in sent) == 1
        await sent[0].load_done()
        for frontend in frontends:
            await frontend.run()
        assert await states(database) == ["loaded"]
        assert {await frontend.loads.request_load("chat") for frontend in frontends} == operations, (
            "it is there already"
        )
    finally:
        for frontend in frontends:
            await frontend.close()
    assert one is not None


@pytest.mark.behaviour("NODE-73")
@pytest.mark.behaviour("NODE-74")
async def test_load_whose_frontend_dies_is_taken_over_and_the_old_owner_writes_nothing(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    operation = await ask(frontend)
    await frontend.run()
    await sql(
        database,
        "UPDATE operations SET lease_until = corral_now() - interval '1 s', due_at = corral_now() - interval '1 s'",
    )
    heir = await LoadFrontend(database, hub, "frontend-2").plug_in()
    try:
        await heir.run()
        assert operation.id in heir.dispatcher.held
        assert one.queried_jobs == [one.job], "the new owner has not received the earlier reports"
        assert len(one.loads) == 1, "and begins nothing anew"
        frontend.dispatcher.wake_operation(operation.id)
        await frontend.turn()
        assert operation.id not in frontend.dispatcher.held
        await one.load_done()
        await heir.run()
        assert (await read(database, operation)).state is OperationState.COMPLETED
    finally:
        await heir.close()


@pytest.mark.behaviour("NODE-87")
async def test_edit_during_the_load_publishes_nothing_and_stops_exactly_that(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    other = await put_model(database, "other")
    kept = await put_loaded(database, one.node, other)
    one.run("other", 0, other.run_hash, address=kept.address)
    operation = await ask(frontend)
    await frontend.run()
    await edit(database, "chat", options={"context_size": "512"})
    await one.load_done()
    await frontend.run_ahead()
    seen = await read(database, operation)
    assert (seen.state, seen.fault and seen.fault.code) == ("superseded", "model_edited")
    assert [row.model for row in await rows(database)] == ["other"]
    assert [stop.process_key for stop in one.stops] == ["chat#0"]
    assert list(one.processes) == ["other#0"]


async def test_model_that_is_deleted_and_made_again_is_loaded_although_its_namesake_was_not(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    made = await put_model(database)
    operation = await ask(frontend)
    async with database.transaction() as tx:
        await model_store.delete_model(tx, made)
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.fault and seen.fault.code) == ("superseded", "model_not_found")
    await put_model(database)
    again = await ask(frontend)
    assert again != operation
    await frontend.run()
    await one.load_done()
    await frontend.run()
    assert (await read(database, again)).state is OperationState.COMPLETED


async def test_load_that_finishes_between_an_edit_and_the_next_look_is_unloaded(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    await ask(frontend)
    await frontend.run()
    await sql(database, "UPDATE models SET run_hash = 'another'")
    await one.load_done()
    await frontend.dispatcher.flush()
    (row,) = await rows(database)
    assert (row.state, row.stop_reason) == ("unloading", "The model was edited while it was loaded.")


async def test_two_frontends_that_place_at_once_never_promise_more_than_there_is(database: Database, hub: Hub) -> None:
    await machines(database, hub, "a", available_ram=str(3 * GIB), total_ram=str(4 * GIB))
    for name in ("one", "two"):
        await put_model(database, name, ram_bytes=2 * GIB)
    frontends = [await LoadFrontend(database, hub, f"frontend-{number}").plug_in() for number in range(2)]
    try:
        for frontend, name in zip(frontends, ("one", "two"), strict=True):
            await ask(frontend, name)
        async with asyncio.TaskGroup() as group:
            for frontend in frontends:
                group.create_task(frontend.turn())
        assert len(await rows(database)) == 1
        (reservation,) = await reserved(database)
        assert reservation.ram_bytes == 2 * GIB
    finally:
        for frontend in frontends:
            await frontend.close()


async def test_fleet_without_room_is_refused_with_a_sentence_for_every_node(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await machines(database, hub, "a", "b", available_ram=str(GIB))
    await put_model(database, ram_bytes=20 * GIB)
    operation = await ask(frontend)
    await frontend.run()
    seen = await read(database, operation)
    assert seen.fault is not None
    assert (seen.state, seen.fault.code) == ("failed", "no_room")
    for name in ("a", "b"):
        assert f"{name} has " in seen.fault.text
    assert await rows(database) == []


async def test_nodes_that_are_named_are_the_only_ones(database: Database, hub: Hub, frontend: LoadFrontend) -> None:
    _, two = await machines(database, hub, "a", "b")
    await put_model(database)
    await ask(frontend, nodes=("b",))
    await frontend.run()
    assert len(two.loads) == 1
    with pytest.raises(NotFound, match="no node 'nowhere'"):
        await ask(frontend, nodes=("nowhere",), queue_behind=True)


async def test_replicas_go_to_several_nodes_and_take_the_files_from_one_another(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    workers = await machines(database, hub, "a", "b", "c")
    await put_model(database, files=("model.gguf",))
    operation = await ask(frontend, count=3)

    async def are_commanded() -> bool:
        await frontend.run()
        return all(worker.loads for worker in workers)

    await eventually(are_commanded)
    sources = {
        worker.node: [place.node for place in worker.loads[0].places if place.kind == "node"] for worker in workers
    }
    first = next(node for node, found in sources.items() if not found)
    followers = {found[0]: node for node, found in sources.items() if found}
    assert len(followers) == 2, "no node serves two others"
    assert first in followers, "a chain begins at the one that reads the library"
    for worker in workers:
        assert worker.loads[0].places[-1].kind == "library"
        await worker.load_done()
    await frontend.run()
    assert (await read(database, operation)).state is OperationState.COMPLETED
    assert await states(database) == ["loaded"] * 3


async def test_node_with_two_slots_gets_two_replicas_in_one_load(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a", slots_reported="2")
    await put_model(database)
    operation = await ask(frontend, count=2, nodes=("a",))
    await frontend.run()
    assert len(one.loads) == 1, "one after the other"
    await one.load_done()
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.message) == ("running", "Loading chat on a; loaded on a")
    await one.load_done()
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.message) == ("completed", "Loaded on a (2 times)")
    assert [(row.index, row.state) for row in await rows(database)] == [(0, "loaded"), (1, "loaded")]
    assert await reserved(database) == []


async def test_replicas_go_to_several_nodes_before_one_gets_a_second(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    workers = await machines(database, hub, "a", "b", slots_reported="2")
    await put_model(database)
    operation = await ask(frontend, count=3)
    await frontend.run()
    assert [len(worker.loads) for worker in workers] == [1, 1]
    for worker in workers:
        await worker.load_done()
        await frontend.run()
    (last,) = [worker for worker in workers if len(worker.loads) == 2]
    await last.load_done()
    await frontend.run()
    assert (await read(database, operation)).state is OperationState.COMPLETED
    assert await states(database) == ["loaded"] * 3


async def test_second_replica_that_has_no_place_leaves_the_first_and_says_so(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a", slots_reported="1")
    await put_model(database)
    operation = await ask(frontend, count=2)
    await frontend.run()
    await one.load_done()
    await frontend.run()
    seen = await read(database, operation)
    assert seen.state is OperationState.FAILED
    assert seen.message.startswith("Loaded on a; 1 more have no place.")
    assert await states(database) == ["loaded"]


async def test_node_that_is_off_the_bus_is_left_at_once(database: Database, hub: Hub, frontend: LoadFrontend) -> None:
    workers = await machines(database, hub, "a", "b")
    await put_model(database)
    workers[0].mode = OFF
    operation = await ask(frontend)
    await frontend.run()
    await workers[1].load_done()
    await frontend.run()
    assert (await read(database, operation)).message == "Loaded on b"
    assert [row.node_id for row in await rows(database)] == [workers[1].node]


@pytest.mark.behaviour("OPS-162")
async def test_load_on_one_node_that_is_drained_before_it_is_placed_is_cancelled_with_the_reason(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    one, two = await machines(database, hub, "a", "b")
    await put_model(database)
    operation = await ask(frontend, nodes=("a",))
    await drain(database, "a", "ann")
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.fault, seen.message) == ("cancelled", None, "Not done: a drained before it began")
    assert (one.loads, two.loads, await rows(database)) == ([], [], [])
    assert await ask(frontend, nodes=("b",)) != operation


@pytest.mark.behaviour("OPS-162")
async def test_load_on_one_node_that_is_drained_before_it_has_confirmed_is_cancelled_with_the_reason(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    one, two = await machines(database, hub, "a", "b")
    await put_model(database)
    one.mode = SILENT
    operation = await ask(frontend, nodes=("a",))
    await frontend.run()
    assert target_states(await read(database, operation)) == {"a": "unconfirmed"}
    await drain(database, "a", "ann")
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.fault, seen.message) == ("cancelled", None, "Not done: a drained before it began")
    assert target_states(seen) == {"a": "skipped"}
    assert two.loads == []


@pytest.mark.behaviour("OPS-162")
async def test_load_goes_to_another_node_when_the_chosen_one_is_drained_before_it_has_confirmed(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    workers = await machines(database, hub, "a", "b")
    await put_model(database)
    workers[0].mode = SILENT
    operation = await ask(frontend)
    await frontend.run()
    await drain(database, "a", "ann")
    await frontend.run()
    await workers[1].load_done()
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.message, seen.progress.percent) == ("completed", "Loaded on b", 100.0)
    assert target_states(seen) == {"a": "skipped", "b": "success"}


async def test_load_on_a_drained_node_that_has_failed_before_is_a_failure(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    operation = await ask(frontend, nodes=("a",))
    await frontend.run()
    await one.fail("engine_failed", "It broke.")
    await set_node(database, one.node, drained_at="corral_now()")
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.fault.code if seen.fault else "") == ("failed", "engine_failed")


async def test_silent_worker_fails_no_load_and_is_queried_until_it_answers(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    operation = await ask(frontend)
    one.mode = SILENT
    await frontend.turn()
    seen = await read(database, operation)
    assert (seen.state, [target.state for target in seen.targets]) == ("running", ["unconfirmed"])
    assert "does not respond" in seen.message
    one.mode = NORMAL
    await sql(database, "UPDATE operation_targets SET contacted_at = contacted_at - interval '6 s'")
    frontend.dispatcher.wake_operation(operation.id)
    await frontend.run()
    assert len(one.loads) == 1, "the worker did not know the job, so it was sent again"
    await one.load_done()
    await frontend.run()
    assert await states(database) == ["loaded"]


async def test_node_that_is_lost_while_it_loads_is_replaced(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    workers = await machines(database, hub, "a", "b")
    await put_model(database)
    operation = await ask(frontend)
    await frontend.run()
    first = next(worker for worker in workers if worker.loads)
    await sql(database, "UPDATE nodes SET liveness = 'lost' WHERE id = CAST(:id AS uuid)", id=first.node)
    await sql(database, "DELETE FROM replicas")
    frontend.dispatcher.wake_operation(operation.id)
    await frontend.run()
    second = next(worker for worker in workers if worker is not first)
    await second.load_done()
    await frontend.run()
    assert (await read(database, operation)).state is OperationState.COMPLETED


async def test_running_out_of_memory_is_tried_once_more_with_more_room(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a", available_ram=str(5 * GIB), total_ram=str(8 * GIB))
    idle = await put_model(database, "idle")
    await put_loaded(database, one.node, idle, ram_bytes=4 * GIB)
    one.run("idle", 0, idle.run_hash, address="127.0.0.1:8000")
    await put_model(database, ram_bytes=4 * GIB)
    operation = await ask(frontend)
    await frontend.run()
    assert len(one.loads) == 1
    await one.fail("out_of_memory", "The engine ran out of memory.")
    await frontend.run_ahead()
    assert len(one.loads) == 2
    assert "idle#0" not in one.processes, "room was made for it"
    await one.fail("out_of_memory", "The engine ran out of memory.")
    await frontend.run_ahead()
    seen = await read(database, operation)
    assert seen.fault is not None
    assert (seen.state, seen.fault.code) == ("failed", "out_of_memory")
    assert "more memory" in seen.fault.text
    assert await rows(database, "chat") == []


async def test_model_that_is_gone_or_disabled_is_not_loaded(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    operation = await ask(frontend)
    await frontend.run()
    await edit(database, "chat", enabled=False)
    frontend.dispatcher.wake_operation(operation.id)
    await frontend.run_ahead()
    seen = await read(database, operation)
    assert (seen.state, seen.fault and seen.fault.code) == ("superseded", "model_disabled")
    assert one.cancelled[0].job_id == one.job
    assert await rows(database) == []
    with pytest.raises(Conflict, match="is disabled"):
        await ask(frontend)
    with pytest.raises(NotFound, match="no model 'nothing'"):
        await ask(frontend, "nothing")


async def test_cancelled_load_stops_the_worker_and_deletes_the_row_after_the_process_ended(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    operation = await ask(frontend)
    await frontend.run()
    await actions.cancel(database, operation.id, "ann")
    assert await states(database) == ["unloading"]
    assert await reserved(database) == []
    assert await frontend.loading.replica_stopper.tick() == 0, "the job is stopped before what it may have started"
    await frontend.run()
    assert [cancel.job_id for cancel in one.cancelled] == [one.job]
    assert [stop.process_key for stop in one.stops] == ["chat#0"]
    assert await rows(database) == []


async def test_load_cancelled_while_its_command_is_on_its_way_is_stopped_before_its_row_goes(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    operation = await ask(frontend)
    async with command_on_its_way(hub, frontend):
        await actions.cancel(database, operation.id, "ann")
        assert await frontend.loading.replica_stopper.tick() == 0, "its worker may start the engine at any moment"
        assert await states(database) == ["unloading"]
    await frontend.run()
    assert [cancel.job_id for cancel in one.cancelled] == [one.job]
    assert [stop.process_key for stop in one.stops] == ["chat#0"]
    assert await rows(database) == []


async def test_paused_load_goes_on_as_the_same_operation(database: Database, hub: Hub, frontend: LoadFrontend) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    operation = await ask(frontend)
    await frontend.run()
    await actions.pause(database, operation.id, "ann")
    await frontend.run()
    assert one.cancelled[0].keeps_partial
    with pytest.raises(Conflict, match="paused by an admin"):
        await frontend.loads.request_load("chat")
    again = await ask(frontend)
    assert again.id == operation.id
    await frontend.run()
    assert len(one.loads) == 2
    await one.load_done()
    await frontend.run()
    assert (await read(database, operation)).state is OperationState.COMPLETED


async def test_failed_load_is_retried_as_an_operation_of_its_own(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await put_model(database)
    operation = await ask(frontend)
    await frontend.run()
    assert (await read(database, operation)).state is OperationState.FAILED
    await machines(database, hub, "a")
    again = await actions.retry(database, {"model": frontend.loads}, operation.id, "bob")
    assert (again.operation.retry_of, again.operation.kind) == (operation.id, "model_load")
    await frontend.run()
    assert await states(database) == ["staging"]


async def test_fetch_with_a_transient_failure_is_retried(
    database: Database, hub: Hub, frontend: LoadFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.loading.fetches.PAUSES_S", (0.01, 0.01))
    (one,), _ = await machines(database, hub, "a"), await put_model(database, files=("model.gguf",))
    frontend.library.fails.append(Unavailable("The source does not respond.", code="source_unavailable"))
    await ask(frontend)

    async def is_commanded() -> bool:
        await frontend.run()
        return bool(one.loads)

    await eventually(is_commanded)
    assert frontend.library.entered == ["chat", "chat"]
