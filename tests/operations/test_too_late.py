"""A cancellation that came too late for its worker."""

from __future__ import annotations

import pytest

from corral.operations import actions
from corral.store import operations as operation_store
from corral.store.database import Database
from tests.operations.fake_bus import Hub
from tests.operations.manual_dispatcher import driver, submit, workers
from tests.operations.scene import make_spec, read


@pytest.mark.behaviour("FLT-21")
async def test_worker_that_had_finished_before_it_could_be_stopped_is_in_the_log_once(database: Database) -> None:
    hub = Hub()
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub, is_leader=True)
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    await actions.cancel(database, operation.id, "ann")
    await worker.finish()
    for _ in range(2):
        await frontend.run()
        await worker.say(worker.jobs[worker.job])
    await frontend.run()
    assert (await read(database, operation)).state == "cancelled"
    async with database.transaction() as tx:
        notes = await operation_store.list_notes(tx, operation.id)
    late = [note for note in notes if "had finished before it could be stopped" in note.text]
    assert [(note.node_name, note.level) for note in late] == [("a", "warning")]
