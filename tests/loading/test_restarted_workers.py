"""Workers that are stopped and started again while they load a model or copy its files."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from corral.domain.operation import OperationState
from corral.store.database import Database
from tests.loading.machines import LoadFrontend, machines
from tests.loading.scene import ask, put_model
from tests.operations.fake_bus import Hub
from tests.operations.manual_dispatcher import set_node
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


@pytest.mark.behaviour("LOAD-31")
async def test_load_waits_for_the_only_worker_while_it_is_restarted_and_goes_on_there(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (worker,) = await machines(database, hub, "a")
    await put_model(database)
    operation = await ask(frontend)
    await frontend.run()
    await set_node(database, worker.node, liveness="'left'", liveness_since="corral_now()")
    await sql(database, "DELETE FROM replicas")
    worker.jobs.clear()
    frontend.dispatcher.wake_operation(operation.id)
    await frontend.run_ahead()
    waiting = await read(database, operation)
    assert waiting.state is OperationState.RUNNING
    assert waiting.message == "Waiting for the worker of a, which was stopped while it loaded chat"

    await set_node(database, worker.node, liveness="'alive'", liveness_since="corral_now()", bus_ok="false")
    await frontend.run_ahead()
    assert (await read(database, operation)).state is OperationState.RUNNING
    await set_node(database, worker.node, bus_ok="true")
    await frontend.run_ahead()
    assert len(worker.loads) == 2
    await worker.load_done()
    await frontend.run()
    assert (await read(database, operation)).state is OperationState.COMPLETED


@pytest.mark.behaviour("LOAD-31")
async def test_load_fails_with_its_cause_when_the_worker_that_was_stopped_does_not_come_back(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (worker,) = await machines(database, hub, "a")
    await put_model(database)
    operation = await ask(frontend)
    await frontend.run()
    await set_node(database, worker.node, liveness="'left'", liveness_since="corral_now() - interval '31 s'")
    await sql(database, "DELETE FROM replicas")
    frontend.dispatcher.wake_operation(operation.id)
    await frontend.run_ahead()
    seen = await read(database, operation)
    assert seen.state is OperationState.FAILED
    assert "Its worker has stopped" in seen.message


@pytest.mark.behaviour("LOAD-31")
async def test_staging_waits_for_a_worker_that_is_restarted_and_sends_the_command_again(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (worker,) = await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    operation = await ask(frontend, kind="stage")

    async def is_commanded() -> bool:
        await frontend.run_ahead()
        return bool(worker.loads)

    await eventually(is_commanded)
    await set_node(database, worker.node, liveness="'left'", liveness_since="corral_now()")
    worker.loads.clear()
    worker.jobs.clear()
    frontend.dispatcher.wake_operation(operation.id)
    await frontend.run_ahead()
    assert (await read(database, operation)).state is OperationState.RUNNING
    await set_node(database, worker.node, liveness="'alive'", liveness_since="corral_now()")
    # It has been silent for so long that it is queried, and does not know the job any more.
    silent = "contacted_at = corral_now() - interval '1 minute', heard_at = corral_now() - interval '1 minute'"
    await sql(database, f"UPDATE operation_targets SET {silent}")
    frontend.dispatcher.wake_operation(operation.id)
    await eventually(is_commanded)
    await worker.load_done()

    async def is_completed() -> bool:
        await frontend.run_ahead()
        return (await read(database, operation)).state is OperationState.COMPLETED

    await eventually(is_completed)
