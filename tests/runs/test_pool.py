"""Runs are given to nodes, watched, begun again or lost, and end once."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from corral.domain.access import Owner
from corral.domain.errors import Conflict, CorralError, NotFound, Unavailable
from corral.domain.node import NodeId
from corral.domain.operation import OperationState
from corral.domain.run import RunBudgets, RunEvent, RunEventType, RunState
from corral.operations import actions
from corral.store import operations as operation_store
from corral.store import run_places as place_store
from corral.store.database import Database
from tests.operations.fake_bus import NORMAL, OFF, SILENT, Hub
from tests.operations.scene import count_lock_waits, sql, wait_for_locks
from tests.runs.scene import RunFrontend, put_owner, put_workers
from tests.support.statements import count_statements

_T = RunEventType
CALL = {"call_id": "c1", "name": "files__write"}
READ_CALL = {"call_id": "c1", "name": "files__read", "is_repeatable": True}


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def frontend(database: Database, hub: Hub) -> RunFrontend:
    return await RunFrontend(database, hub).plug_in()


@pytest.fixture
async def owner(database: Database) -> Owner:
    return await put_owner(database)


@pytest.mark.behaviour("RUNS-1")
async def test_run_is_given_to_a_worker_and_ends_with_the_last_entry_of_its_trace(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    assert (run.state, run.node_name) == (RunState.LEASED, "agent-1")
    await frontend.run()
    assert (await frontend.get(run.id)).state is RunState.RUNNING
    await worker.deliver(frontend, (_T.STEP, {}), (_T.CONTENT, {"text": "hi"}))
    await worker.end(frontend, content="hi", usage={"prompt_tokens": 3})
    await frontend.run()
    ended = await frontend.get(run.id)
    assert (ended.state, ended.node_name, ended.attempt) == (RunState.COMPLETED, "agent-1", 1)
    assert ended.result is not None
    assert ended.result["content"] == "hi"
    assert ended.usage.steps == 1
    assert [event.type for event in await frontend.trace(run.id)] == [_T.STEP, _T.CONTENT, _T.END]
    async with frontend.database.transaction() as tx:
        assert (await operation_store.get(tx, run.id)).state is OperationState.COMPLETED
    assert [ending.state for ending in frontend.kind.endings] == [RunState.COMPLETED]


async def test_run_is_held_by_the_frontend_that_admits_it_from_the_commit_on_and_not_before(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    assert set(map(str, frontend.dispatcher.held)) == {run.id}
    [row] = await sql(frontend.database, "SELECT owner, state, fence, attempt FROM operations")
    assert tuple(row) == ("frontend-1", "running", 1, 1)
    with pytest.raises(Unavailable):
        await frontend.start(owner, selector={"zone": "lab"})
    assert set(map(str, frontend.dispatcher.held)) == {run.id}


async def test_run_is_left_to_peers_by_a_frontend_that_cannot_drive_it_now(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    peer = await RunFrontend(frontend.database, hub, "frontend-2").plug_in()
    await frontend.dispatcher.stop()
    run = await frontend.start(owner)
    assert frontend.dispatcher.held == frozenset()
    await peer.run()
    assert worker.run_id == run.id


async def test_renewal_of_leases_does_not_wait_for_an_operation_that_is_locked(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    await put_workers(frontend.database, hub, "agent-1")
    locked, other = [await frontend.start(owner) for _ in range(2)]
    await frontend.run()
    ends = "SELECT id::text AS id, lease_until FROM operations"
    before = {row.id: row.lease_until for row in await sql(frontend.database, ends)}
    async with frontend.database.transaction() as tx:
        await operation_store.lock(tx, locked.id)
        async with asyncio.timeout(60):
            await frontend.dispatcher.renew_leases()
    after = {row.id: row.lease_until for row in await sql(frontend.database, ends)}
    assert after[locked.id] == before[locked.id]
    assert after[other.id] > before[other.id]
    assert set(map(str, frontend.dispatcher.held)) == {locked.id, other.id}


@pytest.mark.behaviour("RUNS-2")
async def test_run_is_refused_and_nothing_is_stored_without_an_agent_worker(
    frontend: RunFrontend, owner: Owner
) -> None:
    with pytest.raises(Unavailable) as refused:
        await frontend.start(owner)
    assert refused.value.slug == "no_agent_worker"
    assert await sql(frontend.database, "SELECT id FROM runs UNION SELECT id FROM operations") == []


async def test_run_is_refused_if_no_agent_worker_has_its_labels(frontend: RunFrontend, owner: Owner, hub: Hub) -> None:
    await put_workers(frontend.database, hub, "agent-1")
    with pytest.raises(Unavailable, match="zone=lab"):
        await frontend.start(owner, selector={"zone": "lab"})


@pytest.mark.behaviour("RUNS-3")
async def test_worker_never_gets_more_runs_than_it_takes_and_the_rest_follow_in_order(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    one, two = await put_workers(frontend.database, hub, "agent-1", "agent-2", max_runs=2)
    runs = [await frontend.start(owner, f"text {number}") for number in range(6)]
    await frontend.run()
    assert [len(one.starts), len(two.starts)] == [2, 2]
    waiting = [await frontend.get(run.id) for run in runs[4:]]
    assert [run.state for run in waiting] == [RunState.QUEUED, RunState.QUEUED]
    # A run says how many were before it when it looked last; those may have begun since.
    assert re.fullmatch(r"Waiting for a free place; [1-5] before it\.", waiting[1].message)
    await one.end(frontend)
    await frontend.run()
    assert [len(one.starts), len(two.starts)] == [3, 2]
    assert one.run_id == runs[4].id
    assert (await frontend.get(runs[5].id)).state is RunState.QUEUED


async def test_choices_of_nodes_that_wait_for_another_frontend_hold_few_connections_and_rows(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1", max_runs=8)
    runs = [await frontend.start_waiting(owner, f"text {number}") for number in range(8)]
    async with frontend.database.transaction() as tx:
        await place_store.lock_places(tx)
        assert await frontend.dispatcher.tick() == len(runs)
        await wait_for_locks(frontend.database, 2)
        # Other transactions go on meanwhile, such as the end of a run that waits for its place.
        for run in runs:
            assert (await frontend.get(run.id)).state is RunState.QUEUED
            assert await count_lock_waits(frontend.database) == 2
    await frontend.dispatcher.wait_idle()
    await frontend.run()
    assert sorted(start.run_id for start in worker.starts) == sorted(run.id for run in runs)


async def test_place_is_not_kept_free_for_a_run_whose_frontend_was_lost(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1", max_runs=1)
    peer = await RunFrontend(frontend.database, hub, "frontend-2").plug_in()
    earlier = await peer.start_waiting(owner, "earlier")
    run = await frontend.start(owner)
    await frontend.run()
    assert worker.starts == []
    # The other frontend has not renewed its lease for a while.
    await sql(
        frontend.database,
        "UPDATE operations SET lease_until = lease_until - interval '20 s' WHERE id = CAST(:id AS uuid)",
        id=earlier.id,
    )
    await frontend.wait_out(run.id, 10)
    assert [start.run_id for start in worker.starts] == [run.id]


async def test_runs_of_one_session_go_to_the_same_node(frontend: RunFrontend, owner: Owner, hub: Hub) -> None:
    workers = await put_workers(frontend.database, hub, "agent-1", "agent-2", max_runs=4)
    for _ in range(3):
        await frontend.start(owner, session_key="one")
        await frontend.run()
    assert sorted(len(worker.starts) for worker in workers) == [0, 3]


async def test_runs_of_one_scope_run_one_after_the_other(frontend: RunFrontend, owner: Owner, hub: Hub) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    first = await frontend.start(owner, "first", scope="thread:1")
    second = await frontend.start(owner, "second", scope="thread:1")
    await frontend.run()
    assert [start.run_id for start in worker.starts] == [first.id]
    await worker.end(frontend)
    await frontend.run()
    assert [start.run_id for start in worker.starts] == [first.id, second.id]


@pytest.mark.behaviour("RUNS-4")
@pytest.mark.behaviour("RUNS-5")
async def test_run_is_begun_once_more_elsewhere_when_its_worker_forgot_it(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    workers = await put_workers(frontend.database, hub, "agent-1", "agent-2")
    run = await frontend.start(owner)
    await frontend.run()
    [had] = [worker for worker in workers if worker.starts]
    [other] = [worker for worker in workers if not worker.starts]
    await had.deliver(frontend, (_T.STEP, {}))
    had.jobs.clear()
    await frontend.wait_out(run.id, 13)
    assert [start.run_id for start in other.starts] == [run.id]
    again = await frontend.get(run.id)
    assert (again.state, again.attempt) == (RunState.RUNNING, 2)
    assert [event.type for event in await frontend.trace(run.id)] == [_T.STEP, _T.RETRIED]
    # The first worker comes back with what it did: the fence keeps it out.
    late = await had.deliver(frontend, (_T.CONTENT, {"text": "late"}), first=3)
    assert late.must_stop
    other.next_seq[run.id] = 3
    await other.end(frontend)
    await frontend.run()
    assert (await frontend.get(run.id)).state is RunState.COMPLETED


@pytest.mark.behaviour("RUNS-4")
async def test_run_is_lost_if_its_worker_was_lost_during_a_call_that_may_have_had_effects(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    one, two = await put_workers(frontend.database, hub, "agent-1", "agent-2")
    run = await frontend.start(owner)
    await frontend.run()
    had = one if one.starts else two
    await had.deliver(frontend, (_T.TOOL_CALL, CALL))
    had.jobs.clear()
    await frontend.wait_out(run.id, 13)
    lost = await frontend.get(run.id)
    assert lost.state is RunState.LOST
    assert lost.fault is not None
    assert "files__write" in lost.fault.text
    assert len(one.starts) + len(two.starts) == 1
    assert (await frontend.trace(run.id))[-1].type is _T.END
    assert [ending.state for ending in frontend.kind.endings] == [RunState.LOST]


async def test_run_is_begun_again_if_the_open_call_is_repeatable(frontend: RunFrontend, owner: Owner, hub: Hub) -> None:
    one, two = await put_workers(frontend.database, hub, "agent-1", "agent-2")
    run = await frontend.start(owner)
    await frontend.run()
    had = one if one.starts else two
    await had.deliver(frontend, (_T.TOOL_CALL, READ_CALL))
    had.jobs.clear()
    await frontend.wait_out(run.id, 13)
    assert len(one.starts) + len(two.starts) == 2
    assert (await frontend.get(run.id)).open_calls == ()


@pytest.mark.behaviour("RUNS-4")
@pytest.mark.parametrize(
    "result", [(), ((_T.TOOL_RESULT, {"call_id": "c2"}),)], ids=["both open", "the harmless ended"]
)
async def test_run_is_lost_if_one_of_several_open_calls_may_have_had_effects(
    frontend: RunFrontend, owner: Owner, hub: Hub, result: tuple[tuple[RunEventType, dict[str, Any]], ...]
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    await frontend.run()
    harmless = (_T.TOOL_CALL, {**READ_CALL, "call_id": "c2"})
    await worker.deliver(frontend, (_T.TOOL_CALL, CALL), harmless, *result)
    worker.jobs.clear()
    await frontend.wait_out(run.id, 13)
    lost = await frontend.get(run.id)
    assert (lost.state, len(worker.starts)) == (RunState.LOST, 1)
    assert lost.fault is not None
    assert "files__write" in lost.fault.text


async def test_run_is_lost_after_its_second_worker_was_lost(frontend: RunFrontend, owner: Owner, hub: Hub) -> None:
    workers = await put_workers(frontend.database, hub, "agent-1", "agent-2")
    run = await frontend.start(owner)
    await frontend.run()
    for _ in range(2):
        for worker in workers:
            worker.jobs.clear()
        await frontend.wait_out(run.id, 13)
    assert (await frontend.get(run.id)).state is RunState.LOST
    assert sum(len(worker.starts) for worker in workers) == 2


@pytest.mark.behaviour("RUNS-6")
async def test_silent_worker_keeps_its_run_while_it_may_come_back(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    await frontend.run()
    worker.mode = SILENT
    await frontend.wait_out(run.id, 60)
    assert (await frontend.get(run.id)).state is RunState.RUNNING
    await frontend.wait_out(run.id, 10)
    assert (await frontend.get(run.id)).state is RunState.RUNNING
    worker.mode = NORMAL
    await frontend.wait_out(run.id, 5)
    await worker.end(frontend)
    await frontend.run()
    assert (await frontend.get(run.id)).state is RunState.COMPLETED
    assert len(worker.starts) == 1


async def test_silent_worker_loses_its_run_after_the_time_to_come_back(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    workers = await put_workers(frontend.database, hub, "agent-1", "agent-2")
    run = await frontend.start(owner)
    await frontend.run()
    [had] = [worker for worker in workers if worker.starts]
    [other] = [worker for worker in workers if not worker.starts]
    had.mode = OFF
    await frontend.wait_out(run.id, 13)
    assert not other.starts
    await frontend.wait_out(run.id, 25)
    assert [start.run_id for start in other.starts] == [run.id]


@pytest.mark.behaviour("RUNS-6")
async def test_sign_of_life_over_http_keeps_a_run_whose_worker_is_off_the_bus(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    await frontend.run()
    worker.mode = OFF
    for _ in range(5):
        await frontend.age(run.id, 10)
        await worker.deliver(frontend)
        await frontend.run()
    assert (await frontend.get(run.id)).state is RunState.RUNNING


async def test_run_goes_to_another_node_if_the_chosen_one_is_off_the_bus(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    one, two = await put_workers(frontend.database, hub, "agent-1", "agent-2")
    one.mode = OFF
    run = await frontend.start(owner)
    await frontend.run()
    assert [start.run_id for start in two.starts] == [run.id]
    assert (await frontend.get(run.id)).attempt == 1


@pytest.mark.behaviour("RUNS-7")
async def test_cancelled_run_is_stopped_at_its_worker_and_keeps_its_place_until_then(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1", max_runs=1)
    run = await frontend.start(owner)
    await frontend.run()
    worker.mode = SILENT
    cancelled = await frontend.runs.cancel(run.id, str(owner), "ann")
    assert cancelled.state is RunState.CANCELLED
    assert (await worker.deliver(frontend, (_T.CONTENT, {"text": "late"}))).must_stop
    following = await frontend.start(owner)
    await frontend.run()
    assert (await frontend.get(following.id)).state is RunState.QUEUED
    worker.mode = NORMAL
    await frontend.wait_out(run.id, 10)
    assert [stop.job_id for stop in worker.cancelled] == [worker.starts[0].job_id]
    assert worker.run_id == following.id
    assert (await frontend.trace(run.id))[-1].data == {"state": "cancelled"}


@pytest.mark.behaviour("RUNS-7")
async def test_queued_run_that_was_cancelled_never_starts(frontend: RunFrontend, owner: Owner, hub: Hub) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start_waiting(owner)
    placed = await frontend.start(owner)
    await actions.cancel(frontend.database, run.id, "admin")
    await frontend.runs.cancel(placed.id, None, "ann")
    await frontend.run()
    assert not worker.starts
    assert (await frontend.get(run.id)).state is RunState.CANCELLED
    with pytest.raises(Conflict):
        await frontend.runs.cancel(run.id, str(owner), "ann")


@pytest.mark.behaviour("RUNS-7")
@pytest.mark.parametrize("outcome", [{}, {"state": "failed", "error_code": "model_not_found"}], ids=["answer", "error"])
async def test_run_that_its_worker_has_ended_keeps_its_result_although_it_is_cancelled_before_it_is_concluded(
    frontend: RunFrontend, owner: Owner, hub: Hub, outcome: dict[str, Any]
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    await frontend.run()
    await worker.end(frontend, **outcome)
    with pytest.raises(Conflict) as refused:
        await frontend.runs.cancel(run.id, str(owner), "ann")
    assert refused.value.slug == "run_ended"
    with pytest.raises(Conflict) as refused:
        await actions.cancel(frontend.database, run.id, "admin")
    assert refused.value.slug == "operation_ended"
    await frontend.run()
    assert str((await frontend.get(run.id)).state) == outcome.get("state", "completed")
    assert [ending.outcome["content"] for ending in frontend.kind.endings] == ["done"]
    assert [event.type for event in await frontend.trace(run.id)] == [_T.END]


@pytest.mark.behaviour("RUNS-7")
async def test_run_whose_attempt_was_lost_is_cancelled_and_not_begun_again(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    await frontend.run()
    await worker.end(frontend, state="failed", error_code="runner_lost", error_text="It died.")
    assert (await frontend.runs.cancel(run.id, str(owner), "ann")).state is RunState.CANCELLED
    await frontend.run()
    assert len(worker.starts) == 1
    assert (await frontend.get(run.id)).state is RunState.CANCELLED


async def test_run_that_ended_keeps_its_result_although_the_run_that_started_it_is_cancelled(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    parent_worker, child_worker = await put_workers(frontend.database, hub, "agent-1", "agent-2", max_runs=1)
    parent = await frontend.start(owner)
    await frontend.run()
    child = await frontend.start(owner, parent_id=parent.id, depth=1)
    await frontend.run()
    ended = next(worker for worker in (parent_worker, child_worker) if worker.run_id == child.id)
    await ended.end(frontend)
    await frontend.runs.cancel(parent.id, str(owner), "ann")
    await frontend.run()
    assert (await frontend.get(parent.id)).state is RunState.CANCELLED
    assert (await frontend.get(child.id)).state is RunState.COMPLETED


async def test_frontend_that_drives_a_run_is_woken_by_an_end_that_is_delivered_to_another_one(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    peer = await RunFrontend(frontend.database, hub, "frontend-2").plug_in()
    run = await frontend.start(owner)
    await frontend.run()
    woken: list[str] = []

    def record(operation_id: str) -> bool:
        woken.append(operation_id)
        return True

    frontend.runs.wake_operation = record
    await worker.deliver(peer, (_T.CONTENT, {"text": "hi"}))
    assert woken == []
    await worker.end(peer)
    assert woken == [run.id]


async def test_failed_outcome_fails_the_run_with_its_code(frontend: RunFrontend, owner: Owner, hub: Hub) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    await frontend.run()
    await worker.end(frontend, state="failed", error_code="model_not_found", error_text="There is no model m.")
    await frontend.run()
    failed = await frontend.get(run.id)
    assert failed.state is RunState.FAILED
    assert failed.fault is not None
    assert (failed.fault.code, failed.message) == ("model_not_found", "There is no model m.")


async def test_run_is_begun_again_if_only_the_runner_process_was_lost(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    await frontend.run()
    await worker.end(frontend, state="failed", error_code="runner_lost", error_text="It died.")
    await frontend.run()
    assert len(worker.starts) == 2
    assert (await frontend.get(run.id)).state is RunState.RUNNING


async def test_run_past_its_wall_clock_is_ended_although_its_worker_says_it_lives(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner, budgets=RunBudgets(wall_s=30))
    await frontend.run()
    await frontend.age(run.id, 100)
    await worker.deliver(frontend)
    await frontend.wait_out(run.id, 0)
    ended = await frontend.get(run.id)
    assert ended.state is RunState.FAILED
    assert ended.fault is not None
    assert ended.fault.code == "run_timeout"
    await frontend.wait_out(run.id, 5)
    assert worker.cancelled


async def test_run_without_a_place_fails_after_its_limit(frontend: RunFrontend, owner: Owner, hub: Hub) -> None:
    await put_workers(frontend.database, hub, "agent-1", max_runs=1)
    await frontend.start(owner)
    await frontend.run()
    run = await frontend.start(owner)
    await frontend.run()
    await frontend.wait_out(run.id, 4000)
    failed = await frontend.get(run.id)
    assert failed.fault is not None
    assert (failed.state, failed.fault.code) == (RunState.FAILED, "no_free_place")


@pytest.mark.behaviour("RUNS-13")
async def test_run_goes_with_its_owner_and_its_worker_is_stopped(frontend: RunFrontend, owner: Owner, hub: Hub) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    await frontend.run()
    await sql(frontend.database, "DELETE FROM users WHERE id = CAST(:id AS uuid)", id=owner.user_id)
    assert (await worker.deliver(frontend)).must_stop
    await frontend.wait_out(run.id, 13)
    await frontend.wait_out(run.id, 13)
    assert worker.cancelled
    with pytest.raises(NotFound):
        await frontend.get(run.id)


async def test_another_frontend_goes_on_with_a_run_whose_frontend_was_killed(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    await frontend.run()
    peer = await RunFrontend(frontend.database, hub, "frontend-2").plug_in()
    await sql(
        frontend.database,
        "UPDATE operations SET lease_until = corral_now() - interval '1 s', due_at = corral_now()",
    )
    await worker.deliver(peer, (_T.CONTENT, {"text": "hi"}))
    await worker.end(peer)
    await peer.run()
    assert (await peer.get(run.id)).state is RunState.COMPLETED
    assert len(worker.starts) == 1


async def test_run_cannot_be_paused_or_retried_as_an_operation(frontend: RunFrontend, owner: Owner, hub: Hub) -> None:
    await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    with pytest.raises(CorralError) as refused:
        await actions.pause(frontend.database, run.id, "admin")
    assert refused.value.slug == "run_not_pausable"
    await actions.cancel(frontend.database, run.id, "admin")
    with pytest.raises(CorralError) as refused:
        await actions.retry(frontend.database, {"run": frontend.runs.admission}, run.id, "admin")
    assert refused.value.slug == "not_retryable"


@pytest.mark.behaviour("RUNS-10")
async def test_runs_of_others_do_not_exist_for_an_owner(frontend: RunFrontend, owner: Owner, hub: Hub) -> None:
    await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    other = await put_owner(frontend.database, "eve")
    with pytest.raises(NotFound):
        await frontend.runs.get(run.id, str(other))
    with pytest.raises(NotFound):
        await frontend.runs.cancel(run.id, str(other), "eve")
    with pytest.raises(NotFound):
        await frontend.runs.delete(run.id, str(other))


@pytest.mark.behaviour("RUNS-12")
async def test_operation_of_a_run_holds_no_text_of_its_owner(frontend: RunFrontend, owner: Owner, hub: Hub) -> None:
    await put_workers(frontend.database, hub, "agent-1")
    await frontend.start(owner, "a private canary")
    rows = await sql(
        frontend.database,
        "SELECT o::text AS line FROM operations o UNION ALL SELECT e::text FROM operation_events e"
        " UNION ALL SELECT a::text FROM audit a UNION ALL SELECT b::text FROM outbox b",
    )
    assert rows
    # Nor the name of the agent or the task.
    assert not [row.line for row in rows if "canary" in row.line or "helper" in row.line]


async def test_runs_are_not_in_the_lists_and_the_clearing_of_operations(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    ended = await frontend.start(owner)
    await frontend.run()
    await worker.end(frontend)
    await frontend.run()
    await frontend.start(owner)
    async with frontend.database.transaction() as tx:
        assert await operation_store.list_live(tx) == []
        assert await operation_store.list_history(tx) == []
        assert await operation_store.count_states(tx) == {}
        assert await operation_store.prune(tx, age_s=0, most=0) == 0
        assert await operation_store.clear_history(tx) == 0
    assert (await frontend.get(ended.id)).state is RunState.COMPLETED


async def test_run_that_is_given_up_ends_its_trace_and_frees_its_place(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1", max_runs=1)
    run = await frontend.start(owner)
    await frontend.run()
    following = await frontend.start(owner)
    await frontend.run()
    # As if frontends had been lost with it again and again.
    await sql(
        frontend.database,
        "UPDATE operations SET owner = 'lost', fence = fence + 1, attempt = 20, due_at = corral_now(),"
        " lease_until = corral_now() - interval '1 second' WHERE id = CAST(:id AS uuid)",
        id=run.id,
    )
    await frontend.run()
    await frontend.run()
    given_up = await frontend.get(run.id)
    assert given_up.state is RunState.LOST
    last = (await frontend.trace(run.id))[-1]
    assert (last.type, last.data["state"], last.data["error_code"]) == (_T.END, "lost", "owner_lost")
    batches = [batch async for batch in frontend.runs.reader.follow(run.id) if batch]
    assert batches[-1][-1].type is _T.END
    assert [ending.state for ending in frontend.kind.endings] == [RunState.LOST]
    assert [stop.job_id for stop in worker.cancelled] == [worker.starts[0].job_id]
    assert worker.run_id == following.id


async def test_runs_that_no_node_can_take_keep_no_other_run_waiting(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    one, gone = await put_workers(frontend.database, hub, "agent-1", "agent-2", max_runs=1)
    await sql(
        frontend.database,
        "INSERT INTO node_labels (node_id, key, value, source) VALUES (CAST(:id AS uuid), 'zone', 'lab', 'admin')",
        id=gone.node,
    )
    first = await frontend.start(owner, selector={"zone": "lab"})
    await frontend.run()
    assert gone.run_id == first.id
    busy = await frontend.start(owner)
    await frontend.run()
    assert one.run_id == busy.id
    for _ in range(12):
        await frontend.start(owner, selector={"zone": "lab"})
    await frontend.run()
    following = await frontend.start(owner)
    await frontend.run()
    await one.end(frontend)
    await frontend.run()
    assert one.run_id == following.id


async def test_runs_that_wait_begin_as_soon_as_a_stop_is_confirmed(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1", max_runs=1)
    run = await frontend.start(owner)
    await frontend.run()
    following = await frontend.start(owner)
    await frontend.run()
    await frontend.runs.cancel(run.id, str(owner), "ann")
    await frontend.run()
    await frontend.run()
    assert worker.run_id == following.id


async def test_long_queue_begins_on_all_places_of_a_node_that_joins(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    await put_workers(frontend.database, hub, "agent-1", max_runs=1)
    runs = [await frontend.start(owner) for _ in range(30)]
    await frontend.run()
    [joined] = await put_workers(frontend.database, hub, "agent-2", max_runs=20)
    await frontend.wait_out(runs[1].id, 0)
    assert {start.run_id for start in joined.starts} == {run.id for run in runs[1:21]}


async def test_places_that_become_free_together_wake_no_more_runs_than_they_can_take(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1", max_runs=4)
    runs = [await frontend.start(owner) for _ in range(30)]
    await frontend.run()
    looks: list[str] = []
    count_statements(frontend.database, lambda text: looks.append(text) if "AS behind" in text else None)
    for start in list(worker.starts):
        end = RunEvent(seq=1, at=datetime.now(UTC), type=_T.END, data={"state": "completed"})
        await frontend.runs.writer.deliver(NodeId(worker.node), start.run_id, start.job_id, [end])
    await frontend.run()
    assert {start.run_id for start in worker.starts} == {run.id for run in runs[:8]}
    # One look for each place.
    assert len(looks) == 4
