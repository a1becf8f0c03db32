"""What a run that is begun once more goes on with."""

from __future__ import annotations

from typing import Any

import pytest

from corral.domain.access import Owner
from corral.domain.node import NodeId
from corral.domain.run import RunBudgets, RunEventType, RunState
from corral.store.database import Database
from tests.operations.fake_bus import Hub
from tests.operations.scene import sql
from tests.runs.scene import RunFrontend, put_owner, put_workers

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


@pytest.mark.behaviour("RUNS-14")
@pytest.mark.parametrize("loss", ["killed", "stream broken"])
async def test_run_goes_on_behind_calls_with_effects_once_every_one_has_its_result(
    frontend: RunFrontend, owner: Owner, hub: Hub, loss: str
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    await frontend.run()
    calls = [(_T.STEP, {}), (_T.TOOL_CALL, CALL), (_T.TOOL_CALL, {**CALL, "call_id": "c2"})]
    results = [(_T.TOOL_RESULT, {"call_id": "c2", "content": "two"}), (_T.TOOL_RESULT, {"call_id": "c1"})]
    await worker.deliver(frontend, *calls, *results, (_T.STEP, {}))
    if loss == "killed":
        worker.jobs.clear()
        await frontend.wait_out(run.id, 13)
    else:
        await worker.end(frontend, state="failed", error_code="model_stream_broken", messages=[])
        await frontend.run()
    again = await frontend.get(run.id)
    assert (again.state, again.attempt) == (RunState.RUNNING, 2)
    work = await frontend.runs.build_work(NodeId(worker.node), run.id, worker.job)
    first, *earlier = work.spec["messages"]
    assert first == {"role": "user", "content": "hello"}
    assert [call["id"] for call in earlier[0]["tool_calls"]] == ["c1", "c2"]
    assert [(message["tool_call_id"], message["content"]) for message in earlier[1:]] == [("c1", ""), ("c2", "two")]
    answer = {"role": "assistant", "content": "done"}
    worker.next_seq[run.id] = work.run.last_seq + 1
    await worker.deliver(frontend, (_T.TOOL_CALL, {**READ_CALL, "call_id": "c3"}), (_T.TOOL_RESULT, {"call_id": "c3"}))
    assert (await frontend.runs.build_work(NodeId(worker.node), run.id, worker.job)).spec == work.spec
    await worker.end(frontend, messages=[answer])
    await frontend.run()
    [ending] = frontend.kind.endings
    assert ending.outcome["messages"] == [*earlier, answer]


async def test_run_that_waited_for_a_person_has_its_whole_time_again_after_its_worker_was_lost(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner, budgets=RunBudgets(wall_s=30))
    await frontend.run()
    await worker.deliver(frontend, (_T.APPROVAL_REQUESTED, {**CALL, "arguments": {}}))
    await frontend.wait_out(run.id, 600)
    assert (await frontend.get(run.id)).state is RunState.WAITING_APPROVAL
    worker.jobs.clear()
    await frontend.wait_out(run.id, 13)
    await frontend.wait_out(run.id, 60)
    again = await frontend.get(run.id)
    assert (again.state, again.attempt) == (RunState.RUNNING, 2)
    await frontend.wait_out(run.id, 60)
    ended = await frontend.get(run.id)
    assert ended.fault is not None
    assert (ended.state, ended.fault.code) == (RunState.FAILED, "run_timeout")


@pytest.mark.parametrize("is_decided", [False, True])
async def test_run_that_waits_for_a_person_or_did_so_is_ended_a_day_after_its_budget(
    frontend: RunFrontend, owner: Owner, hub: Hub, is_decided: bool
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner, budgets=RunBudgets(wall_s=30))
    await frontend.run()
    await worker.deliver(frontend, (_T.APPROVAL_REQUESTED, {**CALL, "arguments": {}}))
    if is_decided:
        await worker.deliver(frontend, (_T.APPROVAL_RESOLVED, {**CALL, "approved": True}))
    await frontend.wait_out(run.id, 24 * 3600)
    assert (await frontend.get(run.id)).finished_at is None
    await frontend.wait_out(run.id, 100)
    ended = await frontend.get(run.id)
    assert ended.fault is not None
    assert (ended.state, ended.fault.code) == (RunState.FAILED, "run_timeout")


async def test_run_whose_worker_was_lost_waits_for_a_place_for_its_limit_and_no_longer(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner, budgets=RunBudgets(wall_s=7200))
    await frontend.run()
    await frontend.wait_out(run.id, 4000)
    await sql(frontend.database, "UPDATE nodes SET drained_at = corral_now()")
    worker.jobs.clear()
    await frontend.wait_out(run.id, 13)
    await frontend.wait_out(run.id, 3500)
    assert (await frontend.get(run.id)).state is RunState.QUEUED
    await frontend.wait_out(run.id, 200)
    failed = await frontend.get(run.id)
    assert failed.fault is not None
    assert (failed.state, failed.fault.code) == (RunState.FAILED, "no_free_place")


async def test_first_attempt_of_a_run_is_given_its_messages_alone(
    frontend: RunFrontend, owner: Owner, hub: Hub
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    await frontend.run()
    await worker.deliver(frontend, (_T.TOOL_CALL, CALL), (_T.TOOL_RESULT, {"call_id": "c1"}))
    work = await frontend.runs.build_work(NodeId(worker.node), run.id, worker.job)
    assert work.spec["messages"] == [{"role": "user", "content": "hello"}]


@pytest.mark.behaviour("RUNS-14")
@pytest.mark.parametrize(("call", "state"), [(CALL, RunState.LOST), (READ_CALL, RunState.RUNNING)])
async def test_run_whose_calls_are_too_large_to_hand_on_begins_again_only_if_they_can_be_repeated(
    frontend: RunFrontend, owner: Owner, hub: Hub, call: dict[str, Any], state: RunState
) -> None:
    [worker] = await put_workers(frontend.database, hub, "agent-1")
    run = await frontend.start(owner)
    await frontend.run()
    for number in range(12):
        call_id = {"call_id": f"c{number}"}
        result = {**call_id, "content": "x" * 100_000}
        await worker.deliver(frontend, (_T.TOOL_CALL, {**call, **call_id}), (_T.TOOL_RESULT, result))
    worker.jobs.clear()
    await frontend.wait_out(run.id, 13)
    after = await frontend.get(run.id)
    assert after.state is state
    if state is RunState.LOST:
        assert after.fault is not None
        assert "may have had effects" in after.fault.text
    else:
        work = await frontend.runs.build_work(NodeId(worker.node), run.id, worker.job)
        assert work.spec["messages"] == [{"role": "user", "content": "hello"}]
