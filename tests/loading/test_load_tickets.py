"""A reported process is adopted only if the cluster requested it, on its own host and where the rules allow it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from corral.bus.messages import LoadModel
from corral.domain.operation import OperationState
from corral.loading.holdings import HoldingsReport, HoldingsResult
from corral.store.database import Database
from tests.loading.machines import TICKETS, LoadFrontend, ModelWorker, machines, node_of
from tests.loading.scene import ask, put_loaded, put_model, rows
from tests.operations.fake_bus import Hub
from tests.operations.scene import BOOT, read, sql
from tests.support.rules import put_rule


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def frontend(database: Database, hub: Hub) -> AsyncIterator[LoadFrontend]:
    made = await LoadFrontend(database, hub).plug_in()
    yield made
    await made.close()


async def report(frontend: LoadFrontend, worker: ModelWorker) -> HoldingsResult:
    processes = tuple(worker.processes.values())
    return await frontend.loading.apply_holdings(
        HoldingsReport(node_id=node_of(worker), boot_id=BOOT, processes=processes)
    )


@pytest.mark.behaviour("LOAD-60")
async def test_process_without_ticket_is_stopped_and_gets_no_requests(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    one.run("chat", 0, model.run_hash, ticket="")
    assert await report(frontend, one) == HoldingsResult(stopped=("chat#0",))
    (row,) = await rows(database)
    assert (row.state, "no valid ticket" in row.stop_reason) == ("unloading", True)


@pytest.mark.behaviour("LOAD-60")
@pytest.mark.parametrize("other", ["node", "model", "index", "run_hash", "forged"])
async def test_ticket_of_another_load_does_not_bring_a_process_into_service(
    database: Database, hub: Hub, frontend: LoadFrontend, other: str
) -> None:
    one, two = await machines(database, hub, "a", "b")
    model = await put_model(database)
    right = TICKETS.issue(node_of(one), "chat", 0, model.run_hash)
    tickets = {
        "node": TICKETS.issue(node_of(two), "chat", 0, model.run_hash),
        "model": TICKETS.issue(node_of(one), "chatty", 0, model.run_hash),
        "index": TICKETS.issue(node_of(one), "chat", 1, model.run_hash),
        "run_hash": TICKETS.issue(node_of(one), "chat", 0, "another"),
        "forged": f"{right[:-4]}AAAA",
    }
    one.run("chat", 0, model.run_hash, ticket=tickets[other])
    assert (await report(frontend, one)).adopted == ()
    one.processes.clear()
    await sql(database, "DELETE FROM replicas")
    one.run("chat", 0, model.run_hash, ticket=right)
    assert (await report(frontend, one)).adopted == ("chat#0",)


@pytest.mark.behaviour("LOAD-60")
async def test_load_command_carries_a_ticket_that_brings_its_process_back_after_the_row_is_lost(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    await ask(frontend)
    await frontend.run()
    (command,) = one.loads
    assert isinstance(command, LoadModel)
    await one.load_done()
    await frontend.run()
    await sql(database, "DELETE FROM replicas")
    assert (await report(frontend, one)).adopted == ("chat#0",)


@pytest.mark.behaviour("LOAD-61")
async def test_process_of_a_worker_that_knows_no_tickets_stays_in_service_while_its_row_exists(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    before = await put_loaded(database, one.node, model)
    one.run("chat", 0, model.run_hash, address=before.address, ticket="")
    assert await report(frontend, one) == HoldingsResult()
    (row,) = await rows(database)
    assert (row.id, row.state, row.address) == (before.id, "loaded", before.address)


@pytest.mark.behaviour("LOAD-62")
@pytest.mark.parametrize("address", ["127.0.0.9:18999", "10.9.9.9:80", "metadata.internal:80", "[::ffff:10.0.0.8]:1"])
async def test_process_at_another_host_than_its_nodes_is_not_adopted(
    database: Database, hub: Hub, frontend: LoadFrontend, address: str
) -> None:
    (one,) = await machines(database, hub, "a", address="'10.0.0.7:50050'")
    model = await put_model(database)
    one.run("chat", 0, model.run_hash, address=address)
    assert (await report(frontend, one)).adopted == ()
    (row,) = await rows(database)
    assert (row.state, "10.0.0.7" in row.stop_reason) == ("unloading", True)


@pytest.mark.behaviour("LOAD-62")
async def test_replica_does_not_move_to_another_host_but_may_move_to_another_port(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a", address="'10.0.0.7:50050'")
    model = await put_model(database)
    await put_loaded(database, one.node, model, address="10.0.0.7:8000")
    moved = one.run("chat", 0, model.run_hash, address="10.0.0.7:9000")
    await report(frontend, one)
    (row,) = await rows(database)
    assert (row.state, row.address) == ("loaded", "10.0.0.7:9000")
    one.processes["chat#0"] = replace(moved, address="10.0.0.8:9000")
    await report(frontend, one)
    (row,) = await rows(database)
    assert row.state == "unloading"


@pytest.mark.behaviour("LOAD-62")
async def test_load_fails_when_the_worker_names_an_engine_on_another_host(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a", address="'10.0.0.7:50050'")
    one.engine_values = {"address": "127.0.0.1:5432"}
    await put_model(database)
    operation = await ask(frontend)
    await frontend.run()
    await one.load_done()
    await frontend.run()
    ended = await read(database, operation)
    assert ended.state is OperationState.FAILED
    assert "10.0.0.7" in ended.message
    assert [row for row in await rows(database) if row.state == "loaded"] == []


@pytest.mark.behaviour("LOAD-63")
async def test_process_on_a_node_that_the_rule_excludes_is_not_adopted(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    model = await put_model(database)
    async with database.transaction() as tx:
        await put_rule(tx, "chat", {"trust": "high"})
    one.run("chat", 0, model.run_hash)
    assert (await report(frontend, one)).adopted == ()
    (row,) = await rows(database)
    assert "rule" in row.stop_reason


@pytest.mark.behaviour("LOAD-63")
async def test_load_fails_when_a_new_rule_excludes_its_node_before_the_engine_is_ready(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    operation = await ask(frontend)
    await frontend.run()
    async with database.transaction() as tx:
        await put_rule(tx, "chat", {"trust": "high"})
    await one.load_done()
    await frontend.run()
    assert (await read(database, operation)).state is OperationState.FAILED
    assert [row for row in await rows(database) if row.state == "loaded"] == []
    assert one.processes == {}, "an engine that may get no requests is stopped"
