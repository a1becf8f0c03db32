"""Files ahead of a load: into the library, onto nodes, and what becomes of a fetch when things change."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from corral.bus.messages import StageModel
from corral.domain.errors import NotFound, Unavailable
from corral.domain.operation import Operation, OperationState
from corral.nodes.lifecycle import drain
from corral.operations.actions import cancel
from corral.store.database import Database
from tests.loading.machines import GIB, LoadFrontend, machines, put_blobs, sha_of
from tests.loading.scene import ask, edit, put_loaded, put_model, rows
from tests.operations.fake_bus import SILENT, Hub
from tests.operations.manual_dispatcher import command_on_its_way, set_node
from tests.operations.scene import read, sql, states
from tests.support.polling import eventually


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def frontend(database: Database, hub: Hub) -> AsyncIterator[LoadFrontend]:
    made = await LoadFrontend(database, hub).plug_in()
    yield made
    await made.close()


async def ended(frontend: LoadFrontend, operation: Operation) -> Operation:
    async def look() -> Operation | None:
        frontend.clock.ahead += 1
        await frontend.run()
        seen = await read(frontend.database, operation)
        return seen if seen.state not in (OperationState.QUEUED, OperationState.RUNNING) else None

    found = await eventually(look)
    assert found is not None
    return found


async def test_installing_fetches_the_files_and_tells_no_node(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    seen = await ended(frontend, await ask(frontend, kind="install"))
    assert (seen.state, seen.message, seen.progress.percent) == ("completed", "The files of chat are available", 100.0)
    assert not one.loads
    seen = await ended(frontend, await ask(frontend, kind="install"))
    assert frontend.library.entered == ["chat"], "what is there is not fetched again"


async def test_load_goes_on_behind_an_installation_that_is_under_way(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    frontend.library.gate.clear()
    installing = await ask(frontend, kind="install")
    await frontend.run()
    first = await frontend.loads.request_load("chat")
    assert first != installing.id
    (waiting,) = await sql(database, "SELECT message FROM operations WHERE id = CAST(:id AS uuid)", id=first)
    assert waiting.message == "Waiting until the model install of chat has ended."
    assert await frontend.loads.request_load("chat") == first
    assert (await ask(frontend, kind="install")).id in (installing.id, first)
    frontend.library.gate.set()
    await ended(frontend, installing)
    await frontend.run()
    assert frontend.library.entered == ["chat"]
    assert len(await rows(database)) == 1


async def install_in_vain(frontend: LoadFrontend) -> tuple[Operation, Operation]:
    """A load that waits for an installation whose source answers that there is no such file."""
    await put_model(frontend.database, files=("model.gguf",))
    frontend.library.fails.append(NotFound("There is no such file.", code="not_found"))
    frontend.library.gate.clear()
    installing = await ask(frontend, kind="install")
    await frontend.run()
    load = await ask(frontend)
    frontend.library.gate.set()
    return await ended(frontend, installing), await ended(frontend, load)


@pytest.mark.behaviour("OPS-164")
async def test_load_is_cancelled_as_not_begun_when_the_installation_before_it_failed(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await machines(database, hub, "a")
    installing, load = await install_in_vain(frontend)
    assert (installing.state, load.state) == ("failed", "cancelled")
    assert load.fault is None
    assert load.message == (
        "Not begun: the model install of chat failed: The files could not be fetched: There is no such file."
    )
    assert frontend.library.entered == ["chat"], "the source got one request"


@pytest.mark.behaviour("OPS-164")
async def test_load_requested_after_a_failed_installation_fetches_the_files_itself(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await machines(database, hub, "a")
    await install_in_vain(frontend)
    await ask(frontend)

    async def is_placed() -> bool:
        frontend.clock.ahead += 1
        await frontend.run()
        return bool(await rows(database))

    await eventually(is_placed)


async def test_request_after_a_failed_installation_is_given_its_cause_instead_of_another_load(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await machines(database, hub, "a")
    installing, _ = await install_in_vain(frontend)
    assert await frontend.loads.request_load("chat") == installing.id


async def test_load_is_not_begun_when_the_installation_before_it_was_cancelled(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    frontend.library.gate.clear()
    installing = await ask(frontend, kind="install")
    await frontend.run()
    load = await ask(frontend)
    await cancel(database, installing.id, "ann")
    seen = await ended(frontend, load)
    assert (seen.state, seen.message) == ("cancelled", "Not begun: the model install of chat was cancelled.")
    assert frontend.library.entered == ["chat"]


async def test_staging_forms_a_chain_and_ends_when_every_node_has_the_files(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    workers = await machines(database, hub, "a", "b", "c")
    (away,) = await machines(database, hub, "away")
    await set_node(database, away.node, liveness="'lost'")
    await put_model(database, files=("model.gguf",))
    operation = await ask(frontend, kind="stage")

    async def are_commanded() -> bool:
        frontend.clock.ahead += 1
        await frontend.run()
        return all(worker.loads for worker in workers)

    await eventually(are_commanded)
    assert all(isinstance(worker.loads[0], StageModel) for worker in workers)
    from_library = [worker for worker in workers if worker.loads[0].places[0].kind == "library"]
    assert len(from_library) == 1
    for worker in workers:
        await worker.load_done()
    seen = await ended(frontend, operation)
    assert (seen.state, seen.message) == ("completed", "The files are on 3 nodes")
    assert not away.loads
    found = await sql(database, "SELECT count(*) AS n FROM staged_models")
    assert found[0].n == 3


async def test_staging_cancelled_while_its_command_is_on_its_way_is_stopped(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    await ended(frontend, await ask(frontend, kind="install"))
    operation = await ask(frontend, kind="stage")
    async with command_on_its_way(hub, frontend):
        await cancel(database, operation.id, "ann")
    await frontend.run()
    assert [cancel.job_id for cancel in one.cancelled] == [one.job]


async def test_node_that_cannot_get_the_files_is_named(database: Database, hub: Hub, frontend: LoadFrontend) -> None:
    one, two = await machines(database, hub, "a", "b")
    await put_model(database, files=("model.gguf",))
    operation = await ask(frontend, kind="stage", nodes=("a", "b"))

    async def are_commanded() -> bool:
        frontend.clock.ahead += 1
        await frontend.run()
        return bool(one.loads and two.loads)

    await eventually(are_commanded)
    await one.fail("disk_full", "The disk is full.")
    await two.load_done()
    seen = await ended(frontend, operation)
    assert seen.fault is not None
    assert (seen.state, seen.fault.code, seen.fault.text) == ("failed", "disk_full", "a: The disk is full.")


@pytest.mark.behaviour("OPS-162")
async def test_node_that_is_drained_before_it_gets_the_files_is_skipped(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    one, two = await machines(database, hub, "a", "b")
    await put_model(database, files=("model.gguf",))
    one.mode = SILENT
    operation = await ask(frontend, kind="stage", nodes=("a", "b"))
    await frontend.run_ahead()
    assert states(await read(database, operation)) == {"a": "unconfirmed", "b": "working"}
    await drain(database, "a", "ann")
    await two.load_done()
    seen = await ended(frontend, operation)
    assert (seen.state, states(seen)) == ("completed", {"a": "skipped", "b": "success"})
    assert seen.message == "The files are on 1 nodes; skipped: a drained before it began"


@pytest.mark.behaviour("OPS-162")
async def test_copying_of_files_is_cancelled_when_every_node_is_drained_before_it_gets_them(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    one.mode = SILENT
    operation = await ask(frontend, kind="stage", nodes=("a",))
    await frontend.run_ahead()
    await drain(database, "a", "ann")
    seen = await ended(frontend, operation)
    assert (seen.state, seen.fault, seen.message) == ("cancelled", None, "Not done: a drained before it began")


async def test_files_that_only_nodes_have_need_no_fetch(database: Database, hub: Hub, frontend: LoadFrontend) -> None:
    one, two = await machines(database, hub, "a", "b")
    await put_model(database, files=("model.gguf",))
    await ended(frontend, await ask(frontend, kind="install"))
    sha256 = sha_of("model.gguf")
    await sql(database, "DELETE FROM library_files")
    await sql(
        database,
        "INSERT INTO staged_files (node_id, sha256, size_bytes) VALUES (CAST(:n AS uuid), :s, 100)",
        n=one.node,
        s=sha256,
    )
    await ask(frontend, nodes=("b",))
    await frontend.run()
    assert [place.node for place in two.loads[0].places] == [one.node, ""]
    assert frontend.library.entered == ["chat"]


async def test_files_that_are_nowhere_any_more_are_fetched_again(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    await ended(frontend, await ask(frontend, kind="install"))
    await sql(database, "DELETE FROM library_files")
    await ask(frontend)

    async def is_placed() -> bool:
        frontend.clock.ahead += 1
        await frontend.run()
        return bool(await rows(database))

    await eventually(is_placed)
    assert frontend.library.entered == ["chat", "chat"]


async def test_changed_files_end_the_fetch_of_the_old_ones(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    frontend.library.gate.clear()
    operation = await ask(frontend)
    await frontend.run()
    await edit(database, "chat", files=[{"path": "other.gguf", "uri": "https://files/other.gguf"}])

    async def is_begun_again() -> bool:
        frontend.clock.ahead += 1
        await frontend.run()
        return len(frontend.library.entered) == 2

    await eventually(is_begun_again)
    assert frontend.library.cancelled == ["chat"]
    assert (await read(database, operation)).state is OperationState.RUNNING


async def test_takeover_starts_its_own_fetch_and_stops_the_old_one(database: Database, hub: Hub) -> None:
    await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    first, heir = [await LoadFrontend(database, hub, name).plug_in() for name in ("frontend-1", "frontend-2")]
    try:
        first.library.gate.clear()
        operation = await ask(first)
        await first.run()
        await sql(
            database,
            "UPDATE operations SET lease_until = corral_now() - interval '1 s', due_at = corral_now() - interval '1 s'",
        )
        await heir.turn()
        assert operation.id in heir.dispatcher.held

        async def has_stopped() -> bool:
            first.clock.ahead += 1
            await first.turn()
            return first.library.cancelled == ["chat"]

        await eventually(has_stopped)

        async def is_placed() -> bool:
            heir.clock.ahead += 1
            await heir.run()
            return bool(await rows(database))

        await eventually(is_placed)
        assert heir.library.entered == ["chat"]
    finally:
        for frontend in (first, heir):
            await frontend.close()


async def test_source_that_never_delivers_ends_the_load_with_its_error(
    database: Database, hub: Hub, frontend: LoadFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.loading.fetches.PAUSES_S", (0.01,))
    await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    frontend.library.fails += [Unavailable("Nobody is there.", code="source_unavailable")] * 2
    seen = await ended(frontend, await ask(frontend))
    assert seen.fault is not None
    assert (seen.fault.code, seen.fault.text) == (
        "source_unavailable",
        "The files could not be fetched: Nobody is there.",
    )


async def test_model_that_was_to_make_room_and_does_not_go_is_left_for_another_node(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    small = {"available_ram": str(GIB), "total_ram": str(8 * GIB)}
    workers = await machines(database, hub, "a", "b", **small)
    for number, worker in enumerate(workers):
        model = await put_model(database, f"idle-{number}")
        row = await put_loaded(database, worker.node, model, ram_bytes=6 * GIB)
        worker.run(model.name, 0, model.run_hash, address=row.address)
        worker.stop_problem = "It does not end."
    await put_model(database, ram_bytes=4 * GIB)
    operation = await ask(frontend)
    await frontend.run()
    chosen = next(worker for worker in workers if worker.stops)
    other = next(worker for worker in workers if worker is not chosen)
    other.stop_problem = ""
    await sql(database, "UPDATE replicas SET stop_attempts = 6 WHERE state = 'unloading'")
    await frontend.run_ahead()
    assert len(other.loads) == 1
    assert not chosen.loads
    await other.load_done()
    await frontend.run()
    assert (await read(database, operation)).state is OperationState.COMPLETED


async def test_blobs_of_a_frontend_that_is_gone_are_not_counted_on(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    await ended(frontend, await ask(frontend, kind="install"))
    await put_blobs(database, [sha_of("model.gguf")])
    await sql(database, "UPDATE library_files SET holder = 'frontend-9', is_shared = false")
    await ended(frontend, await ask(frontend, kind="install"))
    assert frontend.library.entered == ["chat", "chat"]


async def test_install_of_a_model_whose_copy_is_damaged_fetches_it_again(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await put_model(database, files=("model.gguf",))
    await ended(frontend, await ask(frontend, kind="install"))
    frontend.library.damaged = {sha_of("model.gguf")}
    seen = await ended(frontend, await ask(frontend, kind="install"))
    assert (seen.state, frontend.library.entered) == ("completed", ["chat", "chat"])


async def test_staging_of_a_model_that_is_edited_ends_as_superseded(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    operation = await ask(frontend, kind="stage")

    async def is_commanded() -> bool:
        frontend.clock.ahead += 1
        await frontend.run()
        return bool(one.loads)

    await eventually(is_commanded)
    await edit(database, "chat", options={"context_size": "512"})
    frontend.dispatcher.wake_operation(operation.id)
    seen = await ended(frontend, operation)
    assert (seen.state, seen.fault and seen.fault.code) == ("superseded", "model_edited")
