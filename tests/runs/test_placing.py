"""Runs that their admission gives to a node, or lets wait, without a step of their frontend."""

from __future__ import annotations

import pytest

from corral.domain.access import Owner
from corral.domain.run import RunState
from corral.operations import actions
from corral.store.database import Database
from tests.operations.fake_bus import Hub
from tests.operations.scene import sql
from tests.runs.scene import RunFrontend, put_owner, put_workers
from tests.support.statements import count_statements


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def frontend(database: Database, hub: Hub) -> RunFrontend:
    return await RunFrontend(database, hub).plug_in()


@pytest.fixture
async def owner(database: Database) -> Owner:
    return await put_owner(database)


async def test_run_that_need_not_wait_is_begun_without_a_look_at_its_rows(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    statements: list[str] = []
    count_statements(frontend.database, statements.append)
    await frontend.dispatcher.tick()
    await frontend.dispatcher.wait_idle()
    [confirmation] = [statement for statement in statements if "due AS" not in statement]
    assert "UPDATE operations" in confirmation
    assert worker.run_id == run.id
    begun = await frontend.get(run.id)
    assert (begun.state, begun.attempt, begun.message) == (RunState.RUNNING, 1, "Runs on agent-1.")
    assert begun.started_at is not None


async def test_run_that_finds_all_places_in_use_waits_without_a_lease_and_is_woken(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1", max_runs=1)
    first = await frontend.start(owner, "first")
    await frontend.run()
    waiting = [await frontend.start(owner, f"text {number}") for number in range(2)]
    assert [run.message for run in waiting] == ["Waiting for a free place.", "Waiting for a free place; 1 before it."]
    assert set(map(str, frontend.dispatcher.held)) == {first.id}
    statements: list[str] = []
    count_statements(frontend.database, lambda text: statements.append(text) if "run places" in text else None)
    await frontend.run()
    assert statements == []
    for run in waiting:
        await worker.end(frontend)
        await frontend.run()
        assert worker.run_id == run.id


async def test_run_does_not_wait_for_a_choice_of_a_node_that_goes_on_elsewhere(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start_waiting(owner)
    assert run.state is RunState.QUEUED
    await frontend.run()
    assert worker.run_id == run.id


async def test_run_that_was_cancelled_before_its_command_was_sent_is_stopped_at_its_worker(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    await actions.cancel(frontend.database, run.id, "admin")
    await frontend.run()
    await frontend.wait_out(run.id, 10)
    assert (await frontend.get(run.id)).state is RunState.CANCELLED
    assert worker.job in [command.job_id for command in worker.cancelled]


async def test_run_whose_frontend_was_killed_before_its_command_was_sent_is_begun_by_a_peer(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    peer = await RunFrontend(frontend.database, hub, "frontend-2").plug_in()
    late = "UPDATE operations SET lease_until = corral_now() - interval '1 s', due_at = corral_now()"
    await sql(frontend.database, late)
    await peer.run()
    assert (worker.run_id, (await frontend.get(run.id)).state) == (run.id, RunState.RUNNING)
    # The one that was only slow learns that it holds the run no more, and changes nothing.
    await frontend.run()
    assert frontend.dispatcher.held == frozenset()
    assert len({start.job_id for start in worker.starts}) == 1
