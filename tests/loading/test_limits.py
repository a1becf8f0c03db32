"""How long a load may take, and what makes room for it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from corral.domain.operation import Operation
from corral.loading.kinds.load import BUSY_LOOKS, ROOM_S
from corral.loading.placer import PlacerOptions
from corral.operations import actions
from corral.store.database import Database
from tests.loading.machines import GIB, LoadFrontend, machines, sha_of
from tests.loading.scene import ask, put_loaded, put_model, rows, states, use
from tests.operations.fake_bus import Hub
from tests.operations.manual_dispatcher import notes
from tests.operations.scene import read, sql
from tests.support.polling import eventually


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def frontend(database: Database, hub: Hub) -> AsyncIterator[LoadFrontend]:
    made = await LoadFrontend(database, hub).plug_in()
    yield made
    await made.close()


@pytest.mark.behaviour("NODE-80")
@pytest.mark.behaviour("NODE-81")
async def test_hold_follows_what_moves_and_silence_ends_it(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    operation = await ask(frontend)
    await frontend.run()
    began = (await read(database, operation)).deadline_at
    assert began is not None
    # As if it had gone on for 24 minutes of the 25, with bytes all the while.
    await sql(database, "UPDATE operations SET deadline_at = corral_now() + interval '1 minute'")
    await one.move(10.0, phase="staging", current_bytes=1)
    await frontend.run()
    rest = await sql(database, "SELECT EXTRACT(EPOCH FROM deadline_at - corral_now()) AS s FROM operations")
    assert 590 < rest[0].s <= 600
    # A trickle does not push it beyond the cap.
    await sql(
        database,
        "UPDATE operations SET started_at = corral_now() - interval '24 hours', deadline_at = corral_now()"
        " + interval '1 s'",
    )
    await one.move(11.0, phase="staging", current_bytes=2)
    await frontend.run()
    rest = await sql(database, "SELECT EXTRACT(EPOCH FROM deadline_at - corral_now()) AS s FROM operations")
    assert rest[0].s <= 1
    await sql(database, "UPDATE operations SET deadline_at = corral_now() - interval '1 s'")
    frontend.dispatcher.wake_operation(operation.id)
    await frontend.run_ahead()
    seen = await read(database, operation)
    assert (seen.state, seen.fault and seen.fault.code) == ("failed", "load_stalled")
    assert [cancel.job_id for cancel in one.cancelled] == [one.loads[0].job_id]
    assert await rows(database) == []


@pytest.mark.behaviour("NODE-79")
async def test_engine_that_loads_without_a_byte_has_its_own_budget(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database, load_timeout_s=7200.0)
    await ask(frontend)
    await frontend.run()
    await one.move(60.0, phase="loading")
    await frontend.run()
    rest = await sql(database, "SELECT EXTRACT(EPOCH FROM deadline_at - corral_now()) AS s FROM operations")
    assert 7400 < rest[0].s <= 7500


@pytest.mark.behaviour("NODE-93")
async def test_load_reports_when_all_evictable_replicas_are_busy(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a", available_ram=str(GIB), total_ram=str(8 * GIB))
    busy = await put_loaded(database, one.node, await put_model(database, "busy"), ram_bytes=6 * GIB)
    await use(database, busy)
    await put_model(database, ram_bytes=4 * GIB)
    operation = await ask(frontend)
    await frontend.run_ahead(turns=6)
    seen = await read(database, operation)
    assert (seen.state, seen.fault and seen.fault.code) == ("failed", "eviction_busy")
    assert await states(database) == ["loaded"]


@pytest.mark.behaviour("NODE-95")
@pytest.mark.behaviour("NODE-96")
async def test_eviction_ends_exactly_the_chosen_process_before_the_engine_starts(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a", available_ram=str(GIB), total_ram=str(8 * GIB))
    for name, size in (("small", 1), ("right", 4)):
        model = await put_model(database, name)
        row = await put_loaded(database, one.node, model, ram_bytes=size * GIB, address=f"127.0.0.1:80{size}0")
        one.run(name, 0, model.run_hash, address=row.address)
    await put_model(database, ram_bytes=4 * GIB)
    one.stop_problem = "It does not end."
    operation = await ask(frontend)
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.message, seen.progress.phase) == ("Making room for chat on a", "making_room")
    assert not one.loads
    assert {row.model: str(row.state) for row in await rows(database)} == {
        "chat": "staging",
        "right": "unloading",
        "small": "loaded",
    }
    one.stop_problem = ""
    await sql(database, "UPDATE replicas SET stop_due_at = corral_now() WHERE state = 'unloading'")
    await frontend.run_ahead()
    assert {stop.process_key for stop in one.stops} == {"right#0"}
    assert {stop.expected_address for stop in one.stops} == {"127.0.0.1:8040"}
    assert len(one.loads) == 1
    events = await sql(database, "SELECT kind, key, data FROM outbox WHERE kind = 'replica.removed'")
    assert [(event.key, event.data["reason"]) for event in events] == [("right", "Evicted for chat.")]
    assert any("right" in line for line in await notes(database, operation))


async def test_eviction_skips_a_node_whose_engine_ended_after_its_last_report(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a", available_ram=str(GIB), total_ram=str(8 * GIB))
    idle = await put_model(database, "idle")
    await put_loaded(database, one.node, idle, ram_bytes=4 * GIB)
    gone = await put_model(database, "gone")
    await put_loaded(database, one.node, gone, ram_bytes=4 * GIB, address="127.0.0.1:8090")
    await sql(database, "UPDATE nodes SET last_heartbeat_at = corral_now() - interval '5 seconds'")
    await ask(frontend, "gone", kind="unload", is_forced=True)
    await frontend.run_ahead()
    assert [row.model for row in await rows(database)] == ["idle"]
    await put_model(database, ram_bytes=4 * GIB)
    operation = await ask(frontend)
    await frontend.run()
    seen = await read(database, operation)
    assert seen.message == "a may have room for chat soon: it waits for its next report."
    assert [(row.model, row.state) for row in await rows(database)] == [("idle", "loaded")]
    beat = "last_heartbeat_at = corral_now() + interval '2 seconds'"
    await sql(database, f"UPDATE nodes SET available_ram = {5 * GIB}, total_ram = {16 * GIB}, {beat}")
    await frontend.run_ahead()
    assert {row.model: str(row.state) for row in await rows(database)} == {"chat": "staging", "idle": "loaded"}


@pytest.mark.behaviour("NODE-93")
async def test_load_that_waits_for_what_is_in_use_waits_less_than_five_seconds_and_can_be_cancelled_at_once(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    assert BUSY_LOOKS * ROOM_S < 5.0
    (one,) = await machines(database, hub, "a", available_ram=str(GIB), total_ram=str(8 * GIB))
    busy = await put_loaded(database, one.node, await put_model(database, "busy"), ram_bytes=6 * GIB)
    await use(database, busy)
    await put_model(database, ram_bytes=4 * GIB)
    operation = await ask(frontend)
    await frontend.run()
    assert (await read(database, operation)).progress.phase == "making_room"
    await actions.cancel(database, operation.id, "ann")
    await frontend.run()
    assert (await read(database, operation)).state == "cancelled"
    assert await states(database) == ["loaded"]


async def put_large(database: Database) -> None:
    """A model of 70 GB whose files are in the library."""
    await put_model(database, files=("model.gguf",))
    large = "INSERT INTO blobs (sha256, size_bytes, chunks) VALUES (:s, 70000000000, '')"
    await sql(database, large, s=sha_of("model.gguf"))


async def wait_until_loading(frontend: LoadFrontend, operation: Operation) -> Operation:
    """Run until the operation has ended, or a worker has received the load."""

    async def is_loading() -> bool:
        await frontend.run()
        now = await read(frontend.database, operation)
        return now.state != "running" or now.message.startswith("Loading")

    await eventually(is_loading)
    return await read(frontend.database, operation)


@pytest.mark.behaviour("NODE-30")
async def test_model_that_fits_on_no_disk_fails_before_anything_is_installed_and_names_the_shortfall(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a", total_disk=str(100 * GIB), available_disk="0")
    await put_large(database)
    seen = await wait_until_loading(frontend, await ask(frontend))
    assert (seen.state, seen.fault and seen.fault.code) == ("failed", "insufficient_disk")
    assert "68.5 GiB are needed" in seen.message, seen.message
    assert "a has 0.0 GiB" in seen.message, seen.message
    assert (one.loads, await rows(database)) == ([], [])


@pytest.mark.behaviour("NODE-33")
async def test_disk_check_that_is_switched_off_lets_the_next_load_go_and_warns(database: Database, hub: Hub) -> None:
    checks = [True]
    made = await LoadFrontend(database, hub, placer_options=PlacerOptions(is_disk_enforced=lambda: checks[0])).plug_in()
    try:
        (one,) = await machines(database, hub, "a", total_disk=str(100 * GIB), available_disk="0")
        await put_large(database)
        assert (await wait_until_loading(made, await ask(made))).state == "failed"
        checks[0] = False
        operation = await ask(made)
        assert (await wait_until_loading(made, operation)).state == "running"
        assert len(one.loads) == 1
        assert any("disk" in line for line in await notes(database, operation))
    finally:
        await made.close()
