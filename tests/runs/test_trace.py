"""The trace of a run: stored once, in order, bounded; read from any number on at any frontend."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text as sql_text

from corral.domain.access import Owner
from corral.domain.errors import Conflict, InvalidRequest, NotFound
from corral.domain.node import NodeId
from corral.domain.run import Run, RunEvent, RunEventType, RunState
from corral.runs import trace
from corral.runs.trace import OPEN_CALLS_MAX, REASON_MAX
from corral.store import runs as run_store
from corral.store.database import Database
from tests.operations.fake_bus import Hub
from tests.operations.scene import sql
from tests.runs.scene import RunFrontend, RunWorker, put_owner, put_workers
from tests.support.polling import eventually
from tests.support.statements import count_statements

_T = RunEventType


@pytest.fixture
async def frontend(database: Database) -> RunFrontend:
    return await RunFrontend(database, Hub()).plug_in()


@pytest.fixture
async def owner(database: Database) -> Owner:
    return await put_owner(database)


@pytest.fixture
async def worker(frontend: RunFrontend) -> RunWorker:
    [worker] = await put_workers(frontend.database, frontend.hub, "agent-1", max_runs=4)
    return worker


@pytest.fixture
async def run(frontend: RunFrontend, owner: Owner, worker: RunWorker) -> Run:
    """A run that the worker has accepted."""
    del worker
    run = await frontend.start(owner)
    await frontend.run()
    return await frontend.get(run.id)


def text(value: str) -> tuple[RunEventType, dict[str, str]]:
    return _T.CONTENT, {"text": value}


@pytest.mark.behaviour("RUNS-8")
async def test_repeated_delivery_changes_nothing(frontend: RunFrontend, run: Run, worker: RunWorker) -> None:
    await worker.deliver(frontend, text("a"), text("b"))
    again = await worker.deliver(frontend, text("a"), text("b"), text("c"), first=1)
    assert again.last_seq == 3
    assert [event.data["text"] for event in await frontend.trace(run.id)] == ["a", "b", "c"]


async def test_entries_behind_a_gap_are_not_stored(frontend: RunFrontend, run: Run, worker: RunWorker) -> None:
    result = await worker.deliver(frontend, text("later"), first=5)
    assert (result.last_seq, result.must_stop) == (0, False)
    assert await frontend.trace(run.id) == []


@pytest.mark.behaviour("RUNS-5")
async def test_delivery_does_not_wait_for_a_report_that_holds_the_target_and_wants_the_run(
    frontend: RunFrontend, run: Run, worker: RunWorker
) -> None:
    """Reports of jobs lock targets before runs: with a delivery that waits for the target, both would deadlock."""
    async with frontend.database.transaction() as tx:
        await tx.execute(sql_text("SELECT 1 FROM operation_targets FOR UPDATE"))
        assert (await worker.deliver(frontend, text("a"))).last_seq == 1
        await run_store.set_message(tx, run.id, "reported")
    assert (await frontend.get(run.id)).last_seq == 1


async def test_delivery_of_another_attempt_is_refused(frontend: RunFrontend, run: Run, worker: RunWorker) -> None:
    result = await worker.deliver(frontend, text("mine"), job="01a1eda5-a3fd-783e-83d6-08912054e399")
    assert result.must_stop
    assert await frontend.trace(run.id) == []


async def test_nothing_is_stored_behind_the_end(frontend: RunFrontend, run: Run, worker: RunWorker) -> None:
    await worker.end(frontend)
    await worker.deliver(frontend, text("more"))
    assert [event.type for event in await frontend.trace(run.id)] == [_T.END]


async def test_trace_over_its_limit_drops_texts_and_keeps_calls_and_the_end(
    frontend: RunFrontend, run: Run, worker: RunWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "TRACE_BYTES_MAX", 199)
    await worker.deliver(frontend, text("x" * 200), text("y" * 200), (_T.TOOL_RESULT, {"content": "z"}))
    await worker.end(frontend, content="end")
    found = await frontend.trace(run.id)
    assert [event.data.get("text", "")[:1] for event in found[:2]] == ["x", ""]
    assert found[1].data == {"dropped": True}
    assert found[2].data == {"content": "z"}
    assert found[3].data["content"] == "end"


@pytest.mark.behaviour("RUNS-17")
async def test_trace_that_grows_beyond_twice_its_limit_ends_its_run(
    frontend: RunFrontend, run: Run, worker: RunWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "TRACE_BYTES_MAX", 100)
    results = [(_T.TOOL_RESULT, {"content": f"{number}" * 90}) for number in range(6)]
    await worker.deliver(frontend, *results)
    await frontend.run()
    found = await frontend.trace(run.id)
    assert [event.type for event in found] == [_T.TOOL_RESULT] * 2 + [_T.END]
    ended = await frontend.get(run.id)
    assert (ended.state, ended.fault and ended.fault.code) == (RunState.FAILED, "trace_too_large")
    assert (await worker.deliver(frontend, *results)).must_stop is True


@pytest.mark.behaviour("RUNS-17")
@pytest.mark.parametrize("kind", [_T.TOOL_CALL, _T.APPROVAL_REQUESTED])
async def test_worker_that_reports_calls_without_end_ends_its_run(
    frontend: RunFrontend, run: Run, worker: RunWorker, kind: RunEventType
) -> None:
    await worker.deliver(frontend, *((kind, {"call_id": f"c{number}"}) for number in range(OPEN_CALLS_MAX + 5)))
    await frontend.run()
    found = await frontend.trace(run.id)
    assert [event.type for event in found] == [kind] * OPEN_CALLS_MAX + [_T.END]
    ended = await frontend.get(run.id)
    assert (ended.state, ended.fault and ended.fault.code) == (RunState.FAILED, "trace_too_large")
    assert len(ended.approvals) + len(ended.open_calls) <= OPEN_CALLS_MAX


@pytest.mark.behaviour("RUNS-17")
async def test_approvals_that_no_longer_wait_hold_no_arguments_and_are_bounded(
    frontend: RunFrontend, run: Run, worker: RunWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "APPROVALS_MAX", 3)
    for number in range(3):
        call = {"call_id": f"c{number}", "name": "rm", "arguments": {"path": "/"}}
        await worker.deliver(frontend, (_T.APPROVAL_REQUESTED, call))
        await worker.deliver(frontend, (_T.APPROVAL_RESOLVED, {**call, "reason": "x" * 5000}))
    await worker.deliver(frontend, (_T.APPROVAL_RESOLVED, {"call_id": "of no call"}))
    found = (await frontend.get(run.id)).approvals
    assert [set(entry) for entry in found.values()] == [{"tool", "requested_at", "approved", "reason"}] * 3
    assert {len(entry["reason"]) for entry in found.values()} == {REASON_MAX}
    await worker.deliver(frontend, (_T.APPROVAL_REQUESTED, {"call_id": "c4"}))
    assert (await frontend.trace(run.id))[-1].type is _T.END


async def test_usage_and_tool_calls_are_counted_from_the_trace(
    frontend: RunFrontend, run: Run, worker: RunWorker
) -> None:
    call = (_T.TOOL_CALL, {"call_id": "1", "name": "t"})
    usage = (_T.USAGE, {"prompt_tokens": 5, "completion_tokens": 2})
    await worker.deliver(frontend, (_T.STEP, {}), usage, call, (_T.TOOL_RESULT, {"call_id": "1"}), (_T.STEP, {}), usage)
    found = (await frontend.get(run.id)).usage
    assert (found.steps, found.tool_calls, found.prompt_tokens, found.completion_tokens) == (2, 1, 10, 4)


@pytest.mark.behaviour("RUNS-9")
async def test_approval_waits_for_a_person_and_its_worker_gets_the_decision(
    frontend: RunFrontend, run: Run, worker: RunWorker, owner: Owner
) -> None:
    await worker.deliver(frontend, (_T.APPROVAL_REQUESTED, {"call_id": "c1", "name": "rm", "arguments": {"path": "/"}}))
    waiting = await frontend.get(run.id)
    assert waiting.state is RunState.WAITING_APPROVAL
    with pytest.raises(NotFound):
        await frontend.runs.decide(run.id, str(owner), "c2", approved=True)
    await frontend.runs.decide(run.id, str(owner), "c1", approved=False, reason="not mine")
    assert frontend.hub.names("run.wake") == [worker.node]
    with pytest.raises(Conflict):
        await frontend.runs.decide(run.id, str(owner), "c1", approved=True)
    answer = await worker.deliver(frontend)
    assert answer.decisions == {"c1": {"approved": False, "reason": "not mine"}}
    await worker.deliver(frontend, (_T.APPROVAL_RESOLVED, {"call_id": "c1"}))
    assert (await frontend.get(run.id)).state is RunState.RUNNING


@pytest.mark.behaviour("RUNS-9")
async def test_second_call_of_a_step_still_waits_for_its_person_after_the_first_was_decided(
    frontend: RunFrontend, run: Run, worker: RunWorker, owner: Owner
) -> None:
    for call_id in ("c1", "c2"):
        await worker.deliver(frontend, (_T.APPROVAL_REQUESTED, {"call_id": call_id, "name": "rm"}))
    await frontend.runs.decide(run.id, str(owner), "c1", approved=True)
    await worker.deliver(frontend, (_T.APPROVAL_RESOLVED, {"call_id": "c1", "approved": True}))
    assert (await frontend.get(run.id)).state is RunState.WAITING_APPROVAL
    await frontend.runs.decide(run.id, str(owner), "c2", approved=False)
    await worker.deliver(frontend, (_T.APPROVAL_RESOLVED, {"call_id": "c2", "approved": False}))
    assert (await frontend.get(run.id)).state is RunState.RUNNING


async def test_call_that_its_worker_refused_without_a_decision_waits_no_more(
    frontend: RunFrontend, run: Run, worker: RunWorker, owner: Owner
) -> None:
    await worker.deliver(frontend, (_T.APPROVAL_REQUESTED, {"call_id": "c1", "name": "rm"}))
    await worker.deliver(frontend, (_T.APPROVAL_RESOLVED, {"call_id": "c1", "approved": False, "reason": "too late"}))
    found = await frontend.get(run.id)
    assert (found.state, found.approvals["c1"]["approved"]) == (RunState.RUNNING, False)
    with pytest.raises(Conflict):
        await frontend.runs.decide(run.id, str(owner), "c1", approved=True)


@pytest.mark.behaviour("RUNS-9")
async def test_decision_of_a_lost_attempt_does_not_count_for_the_next_one(
    frontend: RunFrontend, run: Run, worker: RunWorker, owner: Owner
) -> None:
    request = (_T.APPROVAL_REQUESTED, {"call_id": "c1", "name": "rm"})
    await worker.deliver(frontend, request)
    await frontend.runs.decide(run.id, str(owner), "c1", approved=True)
    worker.jobs.clear()
    await frontend.wait_out(run.id, 13)
    assert (await frontend.get(run.id)).attempt == 2
    worker.next_seq[run.id] = (await frontend.get(run.id)).last_seq + 1
    assert (await worker.deliver(frontend, request)).decisions == {}
    await frontend.runs.decide(run.id, str(owner), "c1", approved=False)
    assert (await worker.deliver(frontend)).decisions == {"c1": {"approved": False, "reason": ""}}


@pytest.mark.behaviour("RUNS-9")
async def test_run_that_waits_for_a_person_is_not_ended_by_its_wall_clock(
    frontend: RunFrontend, run: Run, worker: RunWorker
) -> None:
    await worker.deliver(frontend, (_T.APPROVAL_REQUESTED, {"call_id": "c1", "name": "rm"}))
    await frontend.age(run.id, 4000)
    await worker.deliver(frontend)
    await frontend.wait_out(run.id, 0)
    assert (await frontend.get(run.id)).state is RunState.WAITING_APPROVAL


@pytest.mark.behaviour("RUNS-8")
async def test_reader_at_another_frontend_gets_every_entry_once_and_ends_with_the_run(
    frontend: RunFrontend, run: Run, worker: RunWorker
) -> None:
    peer = await RunFrontend(frontend.database, frontend.hub, "frontend-2").plug_in()
    await worker.deliver(frontend, text("a"), text("b"))
    found: list[int] = []
    reads = asyncio.Event()

    async def read() -> None:
        async for events in peer.runs.reader.follow(run.id, 1):
            found.extend(event.seq for event in events)
            reads.set()

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(read())
        await reads.wait()
        await worker.deliver(frontend, text("c"))
        await worker.end(frontend)
    assert found == [2, 3, 4]


async def test_reader_of_an_ended_run_ends_at_once(frontend: RunFrontend, run: Run, worker: RunWorker) -> None:
    await worker.end(frontend)
    await frontend.run()
    assert [len(events) async for events in frontend.runs.reader.follow(run.id, 0)] == [1]
    assert [len(events) async for events in frontend.runs.reader.follow(run.id, 1)] == []


async def start_many(frontend: RunFrontend, owner: Owner, hub_worker: RunWorker, count: int) -> dict[str, str]:
    """Start runs at one worker; their ids with the ids of their jobs."""
    await sql(frontend.database, "UPDATE nodes SET max_runs = 100")
    for _ in range(count):
        await frontend.start(owner)
    await frontend.run()
    return {start.run_id: start.job_id for start in hub_worker.starts}


def make_entry(seq: int, data: dict[str, Any], kind: RunEventType = _T.CONTENT) -> RunEvent:
    return RunEvent(seq=seq, at=datetime.now(UTC), type=kind, data=data)


async def test_deliveries_that_arrive_together_are_written_in_one_statement(
    frontend: RunFrontend, owner: Owner, worker: RunWorker
) -> None:
    jobs = await start_many(frontend, owner, worker, 20)
    writes: list[str] = []
    count_statements(frontend.database, lambda text: writes.append(text) if "INTO run_events" in text else None)
    node = NodeId(worker.node)
    results = await asyncio.gather(
        *(frontend.runs.writer.deliver(node, run, job, [make_entry(1, {"text": run})]) for run, job in jobs.items())
    )
    assert [result.last_seq for result in results] == [1] * len(jobs)
    # The first one begins at once; what arrives meanwhile is the second.
    assert len(writes) == 2
    for run_id in jobs:
        assert [event.data for event in await frontend.trace(run_id)] == [{"text": run_id}]


async def test_delivery_that_follows_the_last_one_is_one_statement(
    frontend: RunFrontend, run: Run, worker: RunWorker
) -> None:
    await worker.deliver(frontend, (_T.STEP, {}))
    statements: list[str] = []
    count_statements(frontend.database, statements.append)
    result = await worker.deliver(frontend, (_T.TOOL_CALL, {"call_id": "c1"}), (_T.TOOL_RESULT, {"call_id": "c1"}))
    assert (result.last_seq, len(statements)) == (3, 1)
    assert (await worker.deliver(frontend, (_T.USAGE, {"prompt_tokens": 2}))).last_seq == 4
    found = await frontend.get(run.id)
    assert (found.usage.tool_calls, found.usage.prompt_tokens, found.open_calls) == (1, 2, ())
    assert [event.seq for event in await frontend.trace(run.id)] == [1, 2, 3, 4]


async def test_delivery_is_compared_with_the_row_and_not_with_what_its_frontend_remembers(
    frontend: RunFrontend, run: Run, worker: RunWorker
) -> None:
    peer = RunFrontend(frontend.database, frontend.hub, "frontend-2")
    await worker.deliver(frontend, (_T.STEP, {}))
    await worker.deliver(peer, (_T.CONTENT, {"text": "peer"}))
    # The worker had no answer from the other frontend, and delivers the same entry again with the next one.
    result = await worker.deliver(frontend, (_T.CONTENT, {"text": "peer"}), (_T.CONTENT, {"text": "next"}), first=2)
    assert result.last_seq == 3
    assert [event.data for event in await frontend.trace(run.id)] == [{}, {"text": "peer"}, {"text": "next"}]


@pytest.mark.parametrize("change", ["cancelled", "given to another worker"])
async def test_delivery_of_a_run_that_was_taken_away_is_refused_although_its_row_is_remembered(
    frontend: RunFrontend, run: Run, worker: RunWorker, change: str
) -> None:
    await worker.deliver(frontend, (_T.STEP, {}))
    async with frontend.database.transaction() as tx:
        if change == "cancelled":
            await run_store.cancel_run(tx, run.id, "Cancelled.")
        else:
            await run_store.requeue(tx, run.id, "Again.")
    before = await frontend.trace(run.id)
    assert (await worker.deliver(frontend, (_T.CONTENT, {"text": "late"}))).must_stop
    assert await frontend.trace(run.id) == before


async def test_rows_of_few_runs_are_remembered(
    frontend: RunFrontend, owner: Owner, worker: RunWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "KNOWN_MAX", 2)
    jobs = await start_many(frontend, owner, worker, 4)
    for seq in (1, 2):
        for run_id, job in jobs.items():
            result = await frontend.runs.writer.deliver(NodeId(worker.node), run_id, job, [make_entry(seq, {})])
            assert result.last_seq == seq
    assert len(frontend.runs.writer._known) == 2


async def test_run_that_is_locked_keeps_no_other_delivery_waiting(
    frontend: RunFrontend, owner: Owner, worker: RunWorker
) -> None:
    jobs = await start_many(frontend, owner, worker, 2)
    node = NodeId(worker.node)
    (locked, locked_job), (free, free_job) = list(jobs.items())[-2:]
    async with frontend.database.transaction() as tx:
        await run_store.lock_run(tx, locked)
        waiting = asyncio.create_task(frontend.runs.writer.deliver(node, locked, locked_job, [make_entry(1, {})]))
        result = await frontend.runs.writer.deliver(node, free, free_job, [make_entry(1, {})])
        assert result.last_seq == 1
        assert not waiting.done()
    assert (await waiting).last_seq == 1


async def test_delivery_that_cannot_be_stored_is_refused_alone(
    frontend: RunFrontend, owner: Owner, worker: RunWorker
) -> None:
    jobs = await start_many(frontend, owner, worker, 3)
    node, [bad, *good] = NodeId(worker.node), list(jobs)[-3:]
    results = await asyncio.gather(
        *(
            frontend.runs.writer.deliver(node, run, jobs[run], [make_entry(1, {"text": text})])
            for run, text in [(good[0], "a"), (bad, "\0"), (good[1], "b")]
        ),
        return_exceptions=True,
    )
    assert isinstance(results[1], InvalidRequest)
    assert [(await frontend.get(run)).last_seq for run in (good[0], bad, good[1])] == [1, 0, 1]


async def test_readers_at_the_frontend_that_stores_a_trace_cost_no_statements(
    frontend: RunFrontend, run: Run, worker: RunWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "LOOK_INTERVAL_S", 60.0)
    read: list[list[int]] = [[] for _ in range(10)]
    reads: list[str] = []

    async def follow(seqs: list[int]) -> None:
        async for events in frontend.runs.reader.follow(run.id):
            seqs += [event.seq for event in events]

    async with asyncio.TaskGroup() as group:
        for seqs in read:
            group.create_task(follow(seqs))
        await worker.deliver(frontend, text("a"))
        await eventually(lambda: _are_all(read, [1]))
        count_statements(frontend.database, lambda words: reads.append(words) if "FROM run_events" in words else None)
        for number in range(2, 6):
            await worker.deliver(frontend, text("b"))
            await eventually(lambda number=number: _are_all(read, list(range(1, number + 1))))  # type: ignore[misc]
        await worker.end(frontend)
    assert read == [list(range(1, 7))] * 10
    assert reads == []


async def _are_all(read: list[list[int]], expected: list[int]) -> bool:
    return all(seqs == expected for seqs in read)
