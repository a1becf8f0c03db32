"""What one owner may have: agents, threads, messages of a thread, tasks, and runs that have not ended."""

from __future__ import annotations

from typing import Any

import pytest

from corral.agents import service as agent_service
from corral.agents import turns
from corral.runs import admission
from corral.tasks import service as task_service
from tests.agents.hand_worker import HandWorker, chat, create, join_worker, make_key
from tests.serving.scene import put_model
from tests.support.frontends import RunningFrontend

pytestmark = pytest.mark.behaviour("RUNS-18")


@pytest.fixture
async def worker(frontend: RunningFrontend) -> HandWorker:
    return await join_worker(frontend)


async def refuse(frontend: RunningFrontend, path: str, body: Any, key: str, status: int, code: str) -> None:
    """Make a call that is refused with this status and code."""
    found, answer = await frontend.call("POST", path, body, key=key)
    assert (found, answer["error"]["code"]) == (status, code)
    assert "limit" in answer["error"]["message"]


async def test_agents_and_tasks_of_one_owner_are_bounded_and_those_of_others_are_not_affected(
    frontend: RunningFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_service, "AGENTS_OF_OWNER_MAX", 1)
    monkeypatch.setattr(task_service, "TASKS_OF_OWNER_MAX", 1)
    await put_model(frontend.database, "chat")
    ann, ben = [(await make_key(frontend, name))["key"] for name in ("ann", "ben")]
    task = {"name": "one", "model": "chat", "prompt": "p"}
    for key in (ann, ben):
        await create(frontend, key=key)
        await refuse(frontend, "/api/agents", {"name": "two", "model": "chat"}, key, 409, "too_many_agents")
        await refuse(frontend, "/api/agents/helper/clone", {"name": "two"}, key, 409, "too_many_agents")
        assert (await frontend.call("POST", "/api/agent/tasks", task, key=key))[0] == 201
        await refuse(frontend, "/api/agent/tasks", task | {"name": "two"}, key, 429, "too_many_tasks")


async def test_threads_and_their_messages_are_bounded(
    frontend: RunningFrontend, worker: HandWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_service, "THREADS_MAX", 1)
    monkeypatch.setattr(turns, "THREAD_MESSAGES_MAX", 2)
    ann = (await make_key(frontend, "ann"))["key"]
    await create(frontend, key=ann)
    sent = await chat(frontend, "hello", key=ann)
    await worker.answer(sent["run_id"], "hi")
    await refuse(frontend, "/api/agents/helper/chat", {"message": "hello"}, ann, 409, "too_many_threads")
    again = {"message": "hello", "thread_id": sent["thread_id"]}
    await refuse(frontend, "/api/agents/helper/chat", again, ann, 409, "thread_full")


async def test_runs_of_one_owner_that_have_not_ended_are_bounded(
    frontend: RunningFrontend, worker: HandWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "OPEN_RUNS_MAX", 1)
    ann, ben = [(await make_key(frontend, name))["key"] for name in ("ann", "ben")]
    for key in (ann, ben):
        await create(frontend, key=key)
    sent = await chat(frontend, "hello", key=ann)
    await refuse(frontend, "/api/agents/helper/chat", {"message": "hello"}, ann, 429, "too_many_runs")
    other = await chat(frontend, "hello", key=ben)
    await worker.answer(other["run_id"])
    await worker.answer(sent["run_id"])
    await chat(frontend, "hello", key=ann)
