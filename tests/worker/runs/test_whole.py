"""Runs through a real cluster: frontend, PostgreSQL, NATS and an agent worker; only the runner follows a script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from corral.app.settings import WorkerSettings
from corral.app.worker import ComposedWorker, compose_worker
from corral.domain.access import SESSION_KEY_PREFIX
from corral.domain.node import NodeType
from corral.domain.run import Run, RunEvent, RunEventType, RunKind, RunState
from corral.runs.pool import RunEnding
from corral.store import runs as run_store
from corral.store.database import Transaction
from corral.store.runs import NewRun
from tests.runs.scene import put_owner
from tests.support.frontends import RunningFrontend
from tests.support.nodes import create_join_token
from tests.support.polling import eventually
from tests.worker.runs.scene import COMMAND, DONE, WAIT


class ScriptedKind:
    """Runs whose request is the script of the runner."""

    async def build_spec(self, tx: Transaction, run: Run) -> dict[str, Any]:
        del tx
        return {"model": "m", "extra": {"script": run.request["script"]}}

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None:
        del tx, ending


@pytest.fixture
async def worker(cluster: RunningFrontend, tmp_path: Path) -> AsyncIterator[ComposedWorker]:
    cluster.core.runs._kinds[RunKind.CHAT] = ScriptedKind()
    home = tmp_path / "worker"
    home.mkdir()
    token = await create_join_token(cluster, approves=True)
    settings = WorkerSettings.model_validate(
        {"join": cluster.url, "name": "helper", "worker_home": home, "node_type": NodeType.AGENT, "token": token}
    )
    composed = compose_worker(settings, runner_command=COMMAND)
    await composed.services.start()

    async def is_healthy() -> bool:
        status, node = await cluster.call("GET", "/api/nodes/helper")
        return status == 200 and node["schedulable"] and composed.membership.find_not_ready_reason() is None

    await eventually(is_healthy)
    yield composed
    await composed.services.stop()


async def start_run(frontend: RunningFrontend, *script: dict[str, Any]) -> str:
    owner = await put_owner(frontend.database)
    new = NewRun(
        kind=RunKind.CHAT,
        owner=owner,
        owner_name="ann",
        key_id=f"{SESSION_KEY_PREFIX}{owner.user_id}",
        subject="chat",
        request={"script": script},
    )
    async with frontend.database.transaction() as tx:
        run_id = await frontend.core.runs.admission.start(tx, new)
    frontend.core.dispatcher.wake()
    return run_id


async def wait_state(frontend: RunningFrontend, run_id: str, *states: RunState) -> Run:
    async def look() -> Run | None:
        run = await frontend.core.runs.get(run_id, None)
        return run if run.state in states else None

    found = await eventually(look)
    assert found is not None
    return found


async def read_trace(frontend: RunningFrontend, run_id: str) -> Sequence[RunEvent]:
    async with frontend.database.transaction() as tx:
        return await run_store.read_events(tx, run_id, 0)


async def test_run_is_placed_executed_and_completed(cluster: RunningFrontend, worker: ComposedWorker):
    run_id = await start_run(
        cluster,
        {"think": "hm"},
        *({"say": word} for word in ("The ", "answer ", "is 42.")),
        {"event": "usage", "data": {"prompt_tokens": 7, "completion_tokens": 5}},
        {"end": {"state": "completed", "content": "The answer is 42."}},
    )
    run = await wait_state(cluster, run_id, RunState.COMPLETED)
    assert run.node_name == "helper"
    assert run.result is not None
    assert run.result["content"] == "The answer is 42."
    assert (run.usage.prompt_tokens, run.usage.completion_tokens, run.usage.steps) == (7, 5, 1)
    trace = await read_trace(cluster, run_id)
    assert [event.seq for event in trace] == list(range(1, len(trace) + 1))
    assert "".join(event.data["text"] for event in trace if event.type is RunEventType.CONTENT) == "The answer is 42."
    step = next(event for event in trace if event.type is RunEventType.STEP)
    assert step.data["spec"]["base_urls"] == [f"{cluster.url}/v1"]
    assert trace[-1].type is RunEventType.END


async def test_decision_of_a_person_reaches_a_waiting_run(cluster: RunningFrontend, worker: ComposedWorker):
    request = {"event": "approval_requested", "tool": "shell", "data": {"call_id": "c1", "arguments": {}}}
    run_id = await start_run(cluster, request, {"wait": "decide"}, DONE)
    await wait_state(cluster, run_id, RunState.WAITING_APPROVAL)
    await cluster.core.runs.decide(run_id, None, "c1", approved=True, reason="fine")
    await wait_state(cluster, run_id, RunState.COMPLETED)
    trace = await read_trace(cluster, run_id)
    decided = [event.data for event in trace if event.type is RunEventType.STATUS]
    assert [(data["call_id"], data["approved"], data["reason"]) for data in decided] == [("c1", True, "fine")]


async def test_cancelled_run_leaves_the_worker(cluster: RunningFrontend, worker: ComposedWorker):
    run_id = await start_run(cluster, {"say": "a"}, WAIT)
    run = await wait_state(cluster, run_id, RunState.RUNNING)
    await cluster.core.runs.cancel(run_id, None, "ann")
    assert worker.run_services is not None
    executor = worker.run_services.executor
    assert run.job_id is not None

    async def has_ended() -> bool:
        event = executor.find_job(run.job_id or "")
        return event is not None and event.state == "done"

    await eventually(has_ended)
    await wait_state(cluster, run_id, RunState.CANCELLED)


async def test_run_whose_runner_dies_is_begun_once_more_and_then_lost(cluster: RunningFrontend, worker: ComposedWorker):
    run_id = await start_run(cluster, {"say": "a"}, {"die": 9})
    run = await wait_state(cluster, run_id, RunState.LOST)
    assert run.attempt == 2
    trace = await read_trace(cluster, run_id)
    assert [event.type for event in trace if event.type is RunEventType.RETRIED] == [RunEventType.RETRIED]
    assert [event.seq for event in trace] == list(range(1, len(trace) + 1))


async def test_runner_of_a_worker_that_waits_for_approval_is_not_started(cluster: RunningFrontend, tmp_path: Path):
    home = tmp_path / "pending"
    home.mkdir()
    token = await create_join_token(cluster)
    settings = WorkerSettings.model_validate(
        {"join": cluster.url, "name": "new", "worker_home": home, "node_type": NodeType.AGENT, "token": token}
    )
    composed = compose_worker(settings, runner_command=COMMAND)
    await composed.services.start()
    try:
        assert composed.run_services is not None
        process = composed.run_services.process

        async def is_pending() -> bool:
            return (await cluster.call("GET", "/api/nodes/new"))[0] == 200

        await eventually(is_pending)
        assert not (home / "runner").exists()
        await cluster.call("POST", "/api/nodes/new/approve")

        async def is_warm() -> bool:
            return process.pid is not None

        await eventually(is_warm)
    finally:
        await composed.services.stop()
