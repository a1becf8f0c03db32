"""One agent asks another as a tool."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import text

from corral.store import run_places as place_store
from tests.agents.hand_worker import HandWorker, chat, create, join_worker, make_key
from tests.operations.scene import wait_for_locks
from tests.support.frontends import RunningFrontend, running_frontend

# A run that finds a place free is given to its node when it is admitted.
OPEN_STATES = ("queued", "leased")


@pytest.fixture
async def worker(frontend: RunningFrontend) -> HandWorker:
    return await join_worker(frontend, max_runs=8)


async def ask(
    worker: HandWorker, run_id: str, name: str = "expert", *, call_id: str = "c1", job_id: str = ""
) -> tuple[int, Any]:
    body = {"job_id": job_id or worker.jobs[run_id], "call_id": call_id, "message": "What is it?"}
    return await worker.node.call("POST", f"/runs/{run_id}/agents/{name}", body)


async def start(worker: HandWorker, **more: Any) -> str:
    """Take a turn of an agent that may ask `expert`."""
    sent = await chat(worker.frontend, "hello", **more)
    spec = await worker.take(sent["run_id"])
    assert [agent["name"] for agent in spec["agents"]] == ["expert"]
    return str(sent["run_id"])


@pytest.mark.behaviour("AGENT-31")
async def test_run_asks_another_agent_and_gets_its_answer(frontend: RunningFrontend, worker: HandWorker) -> None:
    key = await make_key(frontend, "ann")
    await create(frontend, "expert", key=key["key"], description="Knows it.")
    await create(frontend, agents=["expert", "gone"], key=key["key"])
    parent = await start(worker, key=key["key"])
    status, reply = await ask(worker, parent)
    assert (status, reply["state"] in OPEN_STATES, reply["content"]) == (200, True, "")
    # The same tool call is the same run, also when it comes twice at once and at another frontend.
    again = await asyncio.gather(*(ask(worker, parent) for _ in range(5)))
    assert {answer["run_id"] for _, answer in again} == {reply["run_id"]}
    spec = await worker.take(reply["run_id"])
    assert spec["messages"] == [{"role": "user", "content": "What is it?"}]
    _, child = await frontend.call("GET", f"/api/runs/{reply['run_id']}", key=key["key"])
    assert (child["parent_id"], child["trigger"], child["owner_name"]) == (parent, "agent", "ann")
    await worker.end(reply["run_id"], "A cat.")
    status, reply = await ask(worker, parent)
    assert (reply["state"], reply["content"], reply["error_text"]) == ("completed", "A cat.", "")
    status, other = await ask(worker, parent, call_id="c2")
    assert other["run_id"] != reply["run_id"]


@pytest.mark.behaviour("AGENT-48")
async def test_run_of_another_user_asks_shared_agents_only(frontend: RunningFrontend, worker: HandWorker) -> None:
    ann, ben = [(await make_key(frontend, name))["key"] for name in ("ann", "ben")]
    await create(frontend, "expert", key=ann)
    await create(frontend, agents=["expert"], key=ann)
    shared = {"name": "helper", "model": "m", "agents": ["expert"], "shared": True}
    assert (await frontend.call("PUT", "/api/agents/helper?all_users=true", shared))[0] == 200
    sent = await chat(frontend, "hello", key=ben)
    assert (await worker.take(sent["run_id"]))["agents"] == []
    _, reply = await ask(worker, sent["run_id"])
    assert (reply["state"], reply["run_id"]) == ("failed", "")
    assert "There is no agent 'expert'" in reply["error_text"]
    # Its owner still asks it, and everybody does once it is shared.
    await start(worker, key=ann)
    expert = {"name": "expert", "model": "m", "shared": True}
    assert (await frontend.call("PUT", "/api/agents/expert?all_users=true", expert))[0] == 200
    await start(worker, key=ben)


async def test_failed_agent_gives_its_reason_to_the_run_that_called_it(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend, "expert")
    await create(frontend, agents=["expert"])
    parent = await start(worker)
    _, reply = await ask(worker, parent)
    await worker.answer(reply["run_id"], state="failed", error_code="model_failed", error_text="No model.")
    _, reply = await ask(worker, parent)
    assert (reply["state"], reply["error_text"]) == ("failed", "No model.")


async def test_agent_that_is_not_named_paused_or_deleted_is_an_error_text(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend, "expert")
    await create(frontend, "stranger")
    await create(frontend, agents=["expert"])
    parent = await start(worker)
    for name, prepare, sentence in (
        ("stranger", None, "may not be called"),
        ("expert", ("PUT", "/api/agents/expert/pause"), "is paused"),
        ("expert", ("DELETE", "/api/agents/expert"), "There is no agent"),
    ):
        if prepare is not None:
            assert (await frontend.call(*prepare))[0] in (200, 204)
        status, reply = await ask(worker, parent, name)
        assert (status, reply["state"]) == (200, "failed")
        assert sentence in reply["error_text"]


async def test_chain_of_agents_ends_at_its_depth(frontend: RunningFrontend, worker: HandWorker) -> None:
    await create(frontend, "expert", agents=["expert"])
    sent = await chat(frontend, "hello", name="expert")
    run_id = sent["run_id"]
    for depth in range(3):
        spec = await worker.take(run_id)
        assert [agent["name"] for agent in spec["agents"]] == ["expert"], depth
        _, reply = await ask(worker, run_id)
        assert reply["state"] in OPEN_STATES, reply
        run_id = reply["run_id"]
    assert (await worker.take(run_id))["agents"] == []
    _, reply = await ask(worker, run_id)
    assert "at most 3 levels deep" in reply["error_text"]


async def test_question_is_refused_at_once_if_the_runs_that_wait_for_it_hold_every_place(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend, "expert")
    await create(frontend, agents=["expert"])
    parent = await start(worker)
    async with frontend.database.transaction() as tx:
        await tx.execute(text("UPDATE nodes SET max_runs = 1"))
    _, reply = await ask(worker, parent)
    assert (reply["state"], reply["run_id"]) == ("failed", "")
    assert "place" in reply["error_text"]


async def test_runs_that_wait_for_others_never_hold_all_places_although_they_ask_at_once(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend, "expert")
    await create(frontend, agents=["expert"])
    parents = [await start(worker) for _ in range(3)]
    async with frontend.database.transaction() as tx:
        await tx.execute(text("UPDATE nodes SET max_runs = 3"))
    async with asyncio.TaskGroup() as group, frontend.database.transaction() as tx:
        await place_store.lock_places(tx)
        asking = [group.create_task(ask(worker, parent)) for parent in parents]
        await wait_for_locks(frontend.database, len(parents))
    replies = {parent: task.result()[1] for parent, task in zip(parents, asking, strict=True)}
    [refused] = [parent for parent, reply in replies.items() if reply["state"] == "failed"]
    assert "place" in replies[refused]["error_text"]
    # The one that was refused goes on without the answer, and then all others do, whichever is given the place first.
    await worker.end(refused)
    waiting = [parent for parent in parents if parent != refused]
    async with asyncio.TaskGroup() as group:
        for parent in waiting:
            group.create_task(worker.answer(replies[parent]["run_id"], "A cat."))
    for parent in waiting:
        _, reply = await ask(worker, parent)
        assert (reply["state"], reply["content"]) == ("completed", "A cat.")


@pytest.mark.behaviour("AGENT-31")
async def test_run_that_is_begun_once_more_gets_the_answer_of_the_agent_that_it_waited_for(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend, "expert")
    await create(frontend, agents=["expert"])
    parent = await start(worker)
    _, child = await ask(worker, parent)
    await worker.take(child["run_id"])
    earlier = worker.jobs[parent]
    await worker.deliver(parent, ("end", {"state": "failed", "error_code": "runner_lost", "error_text": "It died."}))
    await worker.wait_until_given_again(parent, earlier)
    await worker.take(parent)
    _, reply = await ask(worker, parent)
    assert (reply["run_id"], reply["state"]) == (child["run_id"], "leased")
    await worker.end(child["run_id"], "A cat.")
    _, reply = await ask(worker, parent)
    assert (reply["state"], reply["content"]) == ("completed", "A cat.")


@pytest.mark.behaviour("AGENT-31")
async def test_cancelling_a_run_cancels_the_runs_that_it_started(
    frontend: RunningFrontend, worker: HandWorker, database_url: str
) -> None:
    await create(frontend, "expert", agents=["expert"])
    await create(frontend, agents=["expert"])
    parent = await start(worker)
    _, child = await ask(worker, parent)
    await worker.take(child["run_id"])
    _, grandchild = await ask(worker, child["run_id"])
    async with running_frontend(database_url) as other:
        assert (await other.call("POST", f"/api/runs/{parent}/cancel"))[0] == 200
    for run_id in (parent, child["run_id"], grandchild["run_id"]):
        _, run = await frontend.call("GET", f"/api/runs/{run_id}")
        assert run["state"] == "cancelled"
    assert (await worker.deliver(child["run_id"]))["must_stop"] is True
    status, refused = await ask(worker, parent)
    assert (status, refused["error"]["code"]) == (409, "run_not_held")


async def test_end_of_a_run_cancels_the_runs_that_it_started(frontend: RunningFrontend, worker: HandWorker) -> None:
    await create(frontend, "expert")
    await create(frontend, agents=["expert"])
    parent = await start(worker)
    _, child = await ask(worker, parent)
    await worker.end(parent, "I give up.")
    _, run = await frontend.call("GET", f"/api/runs/{child['run_id']}")
    assert run["state"] == "cancelled"


async def test_question_of_a_worker_that_does_not_hold_the_run_is_refused(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend, "expert")
    await create(frontend, agents=["expert"])
    parent = await start(worker)
    status, refused = await ask(worker, parent, job_id="01a1eda5-a3fd-783e-83d6-08912054e398")
    assert (status, refused["error"]["code"]) == (409, "run_not_held")
    stranger = await join_worker(frontend, "agent-2")
    stranger.jobs[parent] = worker.jobs[parent]
    status, refused = await ask(stranger, parent)
    assert (status, refused["error"]["code"]) == (409, "run_not_held")


async def test_agent_of_a_shared_agent_is_found_as_its_owner_means_it(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    key = await make_key(frontend, "ann")
    await create(frontend, "expert", description="of the admin", shared=True)
    await create(frontend, "expert", key=key["key"], description="of ann")
    await create(frontend, agents=["expert"], shared=True)
    parent = await start(worker, key=key["key"])
    _, reply = await ask(worker, parent)
    _, child = await frontend.call("GET", f"/api/runs/{reply['run_id']}", key=key["key"])
    _, expert = await frontend.call("GET", "/api/agents/expert")
    assert (child["agent_id"], child["owner_name"]) == (expert["id"], "ann")
