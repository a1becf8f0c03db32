"""Loads of models that an admin changes meanwhile: they end as superseded, and nobody has to look at a failure."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from corral.domain.operation import OperationState
from corral.store import loads as load_store
from corral.store import operations as operation_store
from corral.store.database import Database
from tests.loading.machines import LoadFrontend, machines
from tests.loading.scene import ask, edit, put_model
from tests.operations.fake_bus import Hub
from tests.operations.scene import read


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def frontend(database: Database, hub: Hub) -> AsyncIterator[LoadFrontend]:
    made = await LoadFrontend(database, hub).plug_in()
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("change", "code"), [({"options": {"context_size": "512"}}, "model_edited"), ({"enabled": False}, "model_disabled")]
)
async def test_load_of_a_model_that_is_changed_ends_as_superseded_and_leaves_the_list(
    database: Database, hub: Hub, frontend: LoadFrontend, change: dict[str, object], code: str
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    operation = await ask(frontend)
    await frontend.run()
    await edit(database, "chat", **change)
    frontend.dispatcher.wake_operation(operation.id)
    await frontend.run_ahead()
    seen = await read(database, operation)
    assert (seen.state, seen.fault and seen.fault.code) == ("superseded", code)
    assert [(target.state, target.stop_wanted) for target in seen.targets] == [("superseded", False)]
    assert [order.job_id for order in one.cancelled] == [one.job], "its worker gets a stop"
    async with database.transaction() as tx:
        assert await operation_store.list_live(tx) == []
        assert await load_store.list_load_failures(tx) == {}


async def test_model_that_was_edited_and_rolled_back_is_loaded_at_once_for_a_request(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database)
    first = await ask(frontend)
    await frontend.run()
    await edit(database, "chat", options={"context_size": "512"})
    frontend.dispatcher.wake_operation(first.id)
    await frontend.run_ahead()
    await edit(database, "chat", options={})
    second = await frontend.loads.request_load("chat")
    assert second != first.id
    await frontend.run_ahead()
    await one.load_done()
    await frontend.run()
    async with database.transaction() as tx:
        assert (await operation_store.get(tx, second)).state is OperationState.COMPLETED
