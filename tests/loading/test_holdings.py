"""What workers say that they run and hold, held against the registry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from corral.bus.messages import LoadModel
from corral.domain.errors import BootSuperseded
from corral.domain.node import NodeId
from corral.domain.replica import Replica
from corral.loading.holdings import HoldingsReport, HoldingsResult
from corral.reconcile.leader import LeaderElector
from corral.reconcile.maintenance import ReplicaChecker
from corral.store import replica_use as use_store
from corral.store import replicas as replica_store
from corral.store.database import Database
from tests.loading.machines import LoadFrontend, ModelWorker, machines, node_of
from tests.loading.scene import ask, edit, put_loaded, put_model, rows, states, use
from tests.operations.fake_bus import SILENT, Hub
from tests.operations.manual_dispatcher import SteppingClock, set_node
from tests.operations.scene import BOOT, read, sql


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def frontend(database: Database, hub: Hub) -> AsyncIterator[LoadFrontend]:
    made = await LoadFrontend(database, hub).plug_in()
    yield made
    await made.close()


async def report(frontend: LoadFrontend, worker: ModelWorker, **more: Any) -> HoldingsResult:
    values = {"boot_id": BOOT, "processes": tuple(worker.processes.values())} | more
    return await frontend.loading.apply_holdings(HoldingsReport(node_id=node_of(worker), **values))


async def only(database: Database) -> Replica:
    (row,) = await rows(database)
    return row


@pytest.mark.behaviour("NODE-118")
async def test_reported_replica_is_confirmed_and_its_new_address_stored(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    await put_loaded(database, one.node, model)
    await sql(database, "UPDATE replicas SET confirmed_at = NULL, misses = 1")
    one.run("chat", 0, model.run_hash, address="127.0.0.1:7777", engine_key="newer")
    await report(frontend, one)
    row = await only(database)
    assert (row.state, row.address, row.engine_key) == ("loaded", "127.0.0.1:7777", "newer")
    found = await sql(database, "SELECT confirmed_at IS NOT NULL AS is_confirmed, misses FROM replicas")
    assert (found[0].is_confirmed, found[0].misses) == (True, 0)


@pytest.mark.behaviour("LOAD-2")
async def test_process_that_is_what_its_model_is_now_is_adopted_and_not_loaded_again(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    one.run("chat", 0, model.run_hash, vram_bytes=5, threads=3)
    taken = await report(frontend, one)
    assert taken.adopted == ("chat#0",)
    row = await only(database)
    assert (row.state, row.address, row.vram_bytes, row.threads) == ("loaded", "127.0.0.1:9000", 5, 3)
    operation = await ask(frontend, if_cold=True)
    await frontend.run()
    assert not one.loads
    assert operation.subject == "chat"
    assert await report(frontend, one) == HoldingsResult()


@pytest.mark.parametrize(
    ("revision", "change", "why"),
    [
        ("another", {}, "before the model was edited"),
        ("", {"model": "unknown", "revision": "x"}, "There is no model unknown"),
    ],
)
@pytest.mark.behaviour("LOAD-3")
async def test_unrequested_process_is_stopped_exactly(
    database: Database, hub: Hub, frontend: LoadFrontend, revision: str, change: dict[str, str], why: str
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    one.run(change.get("model", "chat"), 0, change.get("revision", revision))
    taken = await report(frontend, one)
    assert len(taken.stopped) == 1
    row = await only(database)
    assert row.state == "unloading"
    assert why in row.stop_reason
    await frontend.run()
    assert one.processes == {}
    assert await rows(database) == []


async def test_process_started_by_hand_is_left_alone(database: Database, hub: Hub, frontend: LoadFrontend) -> None:
    (one,) = await machines(database, hub, "a")
    one.run("try-out", 0, "")
    assert await report(frontend, one) == HoldingsResult()
    assert await rows(database) == []


async def test_processes_of_a_drained_node_are_ended(database: Database, hub: Hub, frontend: LoadFrontend) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    one.run("chat", 0, model.run_hash)
    await set_node(database, one.node, drained_at="corral_now()")
    assert (await report(frontend, one)).stopped == ("chat#0",)


async def test_process_that_is_not_ready_is_adopted_once_it_is(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    one.run("chat", 0, model.run_hash, state="starting")
    assert await report(frontend, one) == HoldingsResult()
    one.run("chat", 0, model.run_hash, state="ready")
    assert (await report(frontend, one)).adopted == ("chat#0",)


@pytest.mark.behaviour("NODE-5b")
async def test_first_report_of_a_restarted_worker_removes_the_rows_of_engines_that_did_not_survive(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    for index in (0, 1):
        await put_loaded(database, one.node, model, index=index)
    # As a registration leaves it whose worker has not finished looking.
    await set_node(database, one.node, holdings_at="NULL")
    one.run("chat", 1, model.run_hash)
    assert (await report(frontend, one)).removed == ("chat#0",)
    assert [row.index for row in await rows(database)] == [1]


@pytest.mark.behaviour("NODE-117")
async def test_row_goes_after_two_reports_without_its_process_even_if_it_counts_as_busy(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    row = await put_loaded(database, one.node, await put_model(database))
    await set_node(database, one.node, holdings_at="corral_now()")
    await use(database, row, in_flight=9)
    await report(frontend, one)
    assert await states(database) == ["loaded"]
    assert (await report(frontend, one)).removed == ("chat#0",)
    assert await rows(database) == []


async def test_process_missing_in_one_report_only_keeps_its_row(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    row = await put_loaded(database, one.node, model)
    for is_listed in (False, True, False):
        one.processes.clear()
        if is_listed:
            one.run("chat", 0, model.run_hash, address=row.address)
        await report(frontend, one)
    assert await states(database) == ["loaded"]


async def test_row_that_is_younger_than_the_report_is_not_missed(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_loaded(database, one.node, await put_model(database))
    await sql(database, "UPDATE replicas SET loaded_at = corral_now()")
    for _ in range(3):
        await report(frontend, one)
    assert await states(database) == ["loaded"]


async def test_load_that_is_under_way_is_not_disturbed_by_reports(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    await ask(frontend)
    await frontend.run()
    await report(frontend, one)
    await report(frontend, one)
    one.run("chat", 0, model.run_hash, state="starting")
    await report(frontend, one)
    assert await states(database) == ["staging"]
    await one.load_done()
    await frontend.run()
    assert await states(database) == ["loaded"]


async def test_stop_reaches_an_engine_that_restarted_at_another_address(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    await put_loaded(database, one.node, model)
    one.run("chat", 0, model.run_hash, address="127.0.0.1:7777")
    await edit(database, "chat", options={"context_size": "1"})
    await frontend.run()
    row = await only(database)
    assert "7777" in row.stop_problem
    await report(frontend, one)
    await frontend.run()
    assert one.processes == {}
    assert await rows(database) == []


async def test_report_that_comes_late_does_not_bring_back_what_has_ended(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    row = await put_loaded(database, one.node, model)
    one.run("chat", 0, model.run_hash, address=row.address)
    late = tuple(one.processes.values())
    await ask(frontend, kind="unload", is_forced=True)
    await frontend.run_ahead()
    assert await rows(database) == []
    assert await report(frontend, one, processes=late) == HoldingsResult()
    assert await rows(database) == []
    one.run("chat", 0, model.run_hash, address="127.0.0.1:7777")
    assert (await report(frontend, one)).adopted == ("chat#0",), "another process is another matter"


async def test_engine_restarted_by_its_worker_after_a_crash_is_adopted_or_ended(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    """On the same port: the row that a refused request has removed says nothing about the new process."""
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    row = await put_loaded(database, one.node, model)
    async with database.transaction() as tx:
        assert await use_store.remove_refused_replica(tx, row, "Nobody listens at its address.")
    one.run("chat", 0, model.run_hash, address=row.address)
    assert (await report(frontend, one)).adopted == ("chat#0",)


async def test_replica_reloaded_at_the_same_address_is_adopted_after_its_row_was_lost(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    row = await put_loaded(database, one.node, model)
    one.run("chat", 0, model.run_hash, address=row.address)
    await ask(frontend, kind="unload", is_forced=True)
    await frontend.run_ahead()
    # Loaded again, and then its row is lost.
    again = await put_loaded(database, one.node, model)
    async with database.transaction() as tx:
        await replica_store.append_changed_replicas(tx, [again])
        await replica_store.remove_replicas(tx, NodeId(one.node), "its worker was restarted")
    one.run("chat", 0, model.run_hash, address=again.address)
    assert again.address == row.address
    assert (await report(frontend, one)).adopted == ("chat#0",)


async def test_holdings_report_of_an_older_boot_is_refused(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    with pytest.raises(BootSuperseded):
        await report(frontend, one, boot_id="an older one")


async def test_files_and_models_are_what_the_last_report_says(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    first, second = "a" * 64, "b" * 64
    await report(frontend, one, models={"chat": "x", "other": "y"}, files={first: (5, True), second: (7, False)})
    await report(frontend, one, models={"chat": "z"}, files={first: (5, True)})
    found = await sql(database, "SELECT sha256, size_bytes, is_whole FROM staged_files")
    assert [(row.sha256, row.size_bytes, row.is_whole) for row in found] == [(first, 5, True)]
    found = await sql(database, "SELECT model, revision FROM staged_models")
    assert [(row.model, row.revision) for row in found] == [("chat", "z")]
    await report(frontend, one, models={}, files={}, is_all=False)
    assert len(await sql(database, "SELECT 1 FROM staged_models")) == 1, "what is absent from a part says nothing"


@pytest.mark.behaviour("LOAD-5", "NODE-118")
async def test_node_that_does_not_answer_the_running_query_loses_no_replicas(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    one, two = await machines(database, hub, "a", "b")
    model = await put_model(database)
    for worker in (one, two):
        await put_loaded(database, worker.node, model)
        await set_node(database, worker.node, holdings_at="corral_now()")
    await sql(database, "UPDATE replicas SET confirmed_at = corral_now() - interval '3 minutes'")
    one.mode = SILENT
    clock = SteppingClock()
    leader = LeaderElector(database, clock, "frontend-1", 15.0)
    await leader.tick()
    check = ReplicaChecker(database, leader, frontend.loading.query_running)
    assert await check.tick() == 1
    assert await check.tick() == 1
    assert [row.node_id for row in await rows(database)] == [one.node], "the other said twice that it runs nothing"
    assert hub.names("models.running").count(one.node) == 2


@pytest.mark.behaviour("LOAD-2")
async def test_node_that_was_lost_and_is_back_is_queried_at_once_for_what_it_runs(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    await machines(database, hub, "a")
    leader = LeaderElector(database, SteppingClock(), "frontend-1", 15.0)
    await leader.tick()
    check = ReplicaChecker(database, leader, frontend.loading.query_running)
    await sql(database, "UPDATE nodes SET holdings_at = corral_now(), liveness_since = corral_now() - interval '1 min'")
    assert await check.tick() == 0
    await sql(database, "UPDATE nodes SET liveness_since = corral_now()")
    assert await check.tick() == 1
    assert await check.tick() == 0, "the node has reported now"


async def test_inconsistent_replica_rows_are_repaired(database: Database, hub: Hub, frontend: LoadFrontend) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    await put_loaded(database, one.node, model)
    await sql(database, "UPDATE replicas SET revision = 'of long ago'")
    await ask(frontend, queue_behind=True)
    await frontend.run()
    await sql(database, "UPDATE replicas SET updated_at = corral_now() - interval '2 minutes'")
    await sql(database, "UPDATE operations SET state = 'failed', finished_at = corral_now()")
    await sql(database, "UPDATE reservations SET created_at = corral_now() - interval '2 minutes'")
    clock = SteppingClock()
    leader = LeaderElector(database, clock, "frontend-1", 15.0)
    await leader.tick()
    await ReplicaChecker(database, leader, frontend.loading.query_running).tick()
    assert await states(database) == ["unloading", "unloading"]
    assert await sql(database, "SELECT 1 FROM reservations") == []


@pytest.mark.behaviour("OPS-102")
async def test_files_of_models_that_were_deleted_while_a_node_was_none_are_removed_after_a_while(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    leader = LeaderElector(database, SteppingClock(), "frontend-1", 15.0)
    await leader.tick()
    check = ReplicaChecker(database, leader, frontend.loading.query_running)
    held = {"chat": "r1", "forgotten": "r0"}

    async def look() -> list[str]:
        await report(frontend, one, models=held, files={})
        await check.tick()
        await frontend.run_ahead()
        return one.deleted

    assert await look() == [], "it may be a restored database: not at once"
    await sql(database, "UPDATE staged_models SET reported_at = corral_now() - interval '59 minutes'")
    assert await look() == []
    await sql(database, "UPDATE staged_models SET reported_at = corral_now() - interval '61 minutes'")
    assert await look() == ["forgotten"]
    del held["forgotten"]
    assert await look() == ["forgotten"], "once is enough"
    assert await sql(database, "SELECT 1 FROM model_removals") == []


async def test_engine_that_died_idle_is_loaded_once_on_the_next_request(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    other, one = await machines(database, hub, "a", "b")
    neighbour = await put_model(database, "neighbour")
    await put_loaded(database, one.node, neighbour, address="127.0.0.1:8099")
    model = await put_model(database)
    row = await put_loaded(database, one.node, model)
    async with database.transaction() as tx:
        assert await use_store.remove_refused_replica(tx, row, "nobody listens at its address")
    request = await ask(frontend, if_cold=True, actor="a request")
    rule = await ask(frontend, enough=1, actor="rules")
    assert request.id == rule.id
    await frontend.run()
    assert (len(one.loads), len(other.loads)) == (1, 0), "although the other has less to do"
    assert [command.replica for command in one.loads if isinstance(command, LoadModel)] == [0], "the same key"
    # Its worker was sooner, and says so.
    one.run("chat", 0, model.run_hash)
    await report(frontend, one)
    await one.load_done()
    await frontend.run()
    assert [(each.node_id, each.state) for each in await rows(database, "chat")] == [(one.node, "loaded")]


@pytest.mark.parametrize("options", [{"if_cold": True}, {"enough": 1}])
async def test_load_requested_after_an_engine_died_completes_when_the_engine_was_adopted_meanwhile(
    database: Database, hub: Hub, frontend: LoadFrontend, options: dict[str, Any]
) -> None:
    one, other = await machines(database, hub, "a", "b")
    model = await put_model(database)
    operation = await ask(frontend, **options)
    one.run("chat", 0, model.run_hash)
    assert (await report(frontend, one)).adopted == ("chat#0",)
    await frontend.run()
    assert (one.loads, other.loads) == ([], [])
    seen = await read(database, operation)
    assert (seen.state, seen.message) == ("completed", "chat is loaded already.")
