"""The dispatcher on real rows: who is told what, when it is tried again, and what an operation becomes."""

from __future__ import annotations

import pytest

from corral.store.database import Database
from tests.operations.driving import driver, submit, workers
from tests.operations.fake_bus import Hub
from tests.operations.scene import asked, read, states


@pytest.fixture
def hub() -> Hub:
    return Hub()


async def test_an_operation_is_told_done_and_completed(database: Database, hub: Hub) -> None:
    one, two = await workers(database, hub, "a", "b")
    frontend = await driver(database, hub)
    operation = await submit(database, asked())
    await frontend.run()
    seen = await read(database, operation)
    assert states(seen) == {"a": "working", "b": "working"}
    assert seen.message == "Installing on 2 of 2 nodes"
    await one.finish()
    await two.finish()
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.progress.percent, seen.message) == ("completed", 100.0, "Done on 2 nodes")
    assert not frontend.dispatcher.held
