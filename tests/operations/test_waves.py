"""Waves: one after the other, a health gate between them, a stop at the first failure, and the way back."""

from __future__ import annotations

import pytest

from corral.domain.node import NodeId
from corral.domain.operation import Operation, RolloutStrategy
from corral.store.database import Database
from tests.operations.fake_bus import FakeWorker, Hub
from tests.operations.manual_dispatcher import ONE_BY_ONE, Driver, driver, notes, set_node, submit, workers
from tests.operations.scene import admit, list_assignments, make_spec, put_installed, read, states, there

BACK_AND_FORTH = RolloutStrategy(waves=(1,), stops_on_failure=True, rolls_back=True)


@pytest.fixture
def hub() -> Hub:
    return Hub()


async def upgrading(
    database: Database, hub: Hub, strategy: RolloutStrategy, *names: str
) -> tuple[Driver, Operation, list[FakeWorker]]:
    found = await workers(database, hub, *names)
    for worker in found:
        await put_installed(database, NodeId(worker.node), there())
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("engine", "upgrade", strategy=strategy))
    await frontend.run()
    return frontend, operation, found


async def test_wave_begins_when_the_one_before_is_done(database: Database, hub: Hub) -> None:
    strategy = RolloutStrategy(waves=(1, 2))
    frontend, operation, (a, b, c, d) = await upgrading(database, hub, strategy, "a", "b", "c", "d")
    assert states(await read(database, operation)) == {"a": "working", "b": "queued", "c": "queued", "d": "queued"}
    await a.finish()
    await frontend.run()
    assert states(await read(database, operation)) == {"a": "success", "b": "working", "c": "working", "d": "queued"}
    await b.finish()
    await frontend.run()
    assert d.commands == []
    await c.finish()
    await frontend.run()
    await d.finish()
    await frontend.run()
    assert (await read(database, operation)).state == "completed"


async def test_wave_waits_until_those_before_are_well_again(database: Database, hub: Hub) -> None:
    frontend, operation, (a, b) = await upgrading(database, hub, ONE_BY_ONE, "a", "b")
    await set_node(database, a.node, bus_ok="false")
    await a.finish()
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, states(seen)) == ("waiting_on_nodes", {"a": "success", "b": "queued"})
    assert b.commands == []
    await set_node(database, a.node, bus_ok="true")
    await set_node(database, b.node, bus_ok="true")
    await frontend.run()
    assert len(b.commands) == 1
    await b.finish()
    await frontend.run()
    assert (await read(database, operation)).state == "completed"


async def test_later_waves_are_not_started_after_a_failure(database: Database, hub: Hub) -> None:
    frontend, operation, (a, b, c) = await upgrading(database, hub, ONE_BY_ONE, "a", "b", "c")
    await a.finish()
    await frontend.run()
    await b.fail("check_failed", "The new version does not start.")
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, states(seen)) == ("failed", {"a": "success", "b": "error", "c": "skipped"})
    assert seen.message == "Failed on b; done on 1 node; not tried: c"
    assert c.commands == []
    assert await list_assignments(database) == [], "what was not tried is not pending"


async def test_other_nodes_continue_after_a_failure_without_a_stop(database: Database, hub: Hub) -> None:
    frontend, operation, (a, b) = await upgrading(database, hub, RolloutStrategy(waves=(1,)), "a", "b")
    await a.fail("check_failed")
    await frontend.run()
    await b.finish()
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, states(seen)) == ("failed", {"a": "error", "b": "success"})


async def test_changed_nodes_are_rolled_back_after_a_failure(database: Database, hub: Hub) -> None:
    frontend, operation, (a, b, _) = await upgrading(database, hub, BACK_AND_FORTH, "a", "b", "c")
    upgrade = a.commands[0][1]
    await a.finish()
    await frontend.run()
    await b.fail("check_failed", "The new version does not start.")
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.message) == ("running", "Rolling back after a failure")
    name, command = a.commands[-1]
    assert (name, command.backend, command.build) == ("backend.rollback", "cpu-engine", None)
    assert command.generation > upgrade.generation
    assert command.job_id != upgrade.job_id
    assert [name for name, _ in b.commands] == ["backend.upgrade"], "it never had the new one"
    await a.finish()
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, states(seen)) == ("failed", {"a": "success", "b": "error", "c": "skipped"})
    assert seen.message == "Failed on b; rolled back: a; not tried: c"
    assert seen.fault is not None
    assert seen.fault.text == "b: The new version does not start."
    assert await list_assignments(database) == []
    assert "a: rolls back to the previous version: another node failed" in await notes(database, operation)


async def test_way_back_waits_for_those_that_are_still_at_work(database: Database, hub: Hub) -> None:
    strategy = RolloutStrategy(waves=(3,), rolls_back=True)
    frontend, operation, (a, b, c) = await upgrading(database, hub, strategy, "a", "b", "c")
    await a.finish()
    await b.fail("check_failed")
    await frontend.run()
    assert len(a.commands) == 1
    await c.finish()
    await frontend.run()
    assert [a.commands[-1][0], c.commands[-1][0]] == ["backend.rollback"] * 2
    await a.finish()
    await c.fail("nothing_to_roll_back", "There is nothing to go back to.")
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, states(seen)) == ("failed", {"a": "success", "b": "error", "c": "error"})


async def test_rollback_skips_nodes_with_a_newer_assignment(database: Database, hub: Hub) -> None:
    frontend, operation, (a, b) = await upgrading(database, hub, BACK_AND_FORTH, "a", "b")
    await a.finish()
    await frontend.run()
    await admit(database, make_spec("engine", "delete", nodes=("a",)))
    await frontend.run()
    assert a.commands[-1][0] == "backend.delete"
    await b.fail("check_failed")
    await frontend.run()
    assert [name for name, _ in a.commands] == ["backend.upgrade", "backend.delete"]
    seen = await read(database, operation)
    assert (seen.state, seen.message) == ("failed", "Failed on b; done on 1 node")
