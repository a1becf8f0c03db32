"""What a turn is given, how it is cancelled, waits for a person, and ends at a budget."""

from __future__ import annotations

import pytest

from tests.agents.hand_worker import HandWorker, chat, create, join_worker
from tests.support.frontends import RunningFrontend, running_frontend


@pytest.fixture
async def worker(frontend: RunningFrontend) -> HandWorker:
    return await join_worker(frontend)


@pytest.mark.behaviour("AGENT-21")
async def test_turn_is_given_what_its_agent_is_configured_with(frontend: RunningFrontend, worker: HandWorker) -> None:
    await create(
        frontend,
        model="m1",
        temperature=0.2,
        max_tokens=100,
        tool_mode="guided",
        tool_choice="required",
        max_iterations=3,
        max_attempts=4,
        loop_detection=2,
        auto_compaction_threshold=9000,
        budgets={"wall": "2m", "tool_calls": 7, "tokens": 5000},
    )
    spec = await worker.answer((await chat(frontend, "hi"))["run_id"])
    assert (spec["model"], spec["instructions"]) == ("m1", "You are a helpful assistant.")
    assert spec["budgets"] == {"wall_s": 120.0, "steps": 3, "tool_calls": 7, "tokens": 5000}
    options = spec["options"]
    assert (options["temperature"], options["max_tokens"], options["tool_mode"]) == (0.2, 100, "guided")
    assert (options["max_attempts"], options["loop_detection"], options["compaction_tokens"]) == (4, 2, 9000)
    assert (options["strips_thinking"], options["tool_choice"]) == (True, "required")
    await create(frontend, "open", strip_thinking_tags=False, enable_auto_compaction=False)
    spec = await worker.answer((await chat(frontend, "hi", name="open"))["run_id"])
    assert (spec["options"]["strips_thinking"], spec["options"]["compaction_tokens"]) == (False, 0)


async def test_turn_that_waits_is_given_what_its_agent_is_configured_with_when_it_begins(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend, system_prompt="old", cancel_previous_on_new_message=False)
    first = await chat(frontend, "one")
    await worker.take(first["run_id"])
    second = await chat(frontend, "two", thread=first["thread_id"])
    await frontend.call("PUT", "/api/agents/helper", {"name": "helper", "model": "m", "system_prompt": "new"})
    await worker.end(first["run_id"])
    assert (await worker.answer(second["run_id"]))["instructions"] == "new"


@pytest.mark.behaviour("AGENT-12")
async def test_turn_is_cancelled_at_another_frontend_and_its_worker_stops(
    frontend: RunningFrontend, worker: HandWorker, database_url: str
) -> None:
    await create(frontend)
    run_id = (await chat(frontend, "hi"))["run_id"]
    await worker.take(run_id)
    async with running_frontend(database_url) as other:
        assert (await other.call("POST", f"/api/runs/{run_id}/cancel"))[0] == 200
    assert (await worker.deliver(run_id, ("content", {"text": "late"})))["must_stop"] is True
    _, run = await frontend.call("GET", f"/api/runs/{run_id}")
    assert run["state"] == "cancelled"


@pytest.mark.behaviour("AGENT-14")
@pytest.mark.parametrize("reason", ["steps", "tokens", "tool_calls"])
async def test_turn_that_ends_at_a_budget_says_which(
    frontend: RunningFrontend, worker: HandWorker, reason: str
) -> None:
    await create(frontend)
    run_id = (await chat(frontend, "hi"))["run_id"]
    await worker.answer(run_id, "so far", reason=reason)
    _, run = await frontend.call("GET", f"/api/runs/{run_id}")
    assert (run["state"], run["reason"], run["content"]) == ("completed", reason, "so far")


@pytest.mark.behaviour("AGENT-17")
@pytest.mark.parametrize("approved", [True, False])
async def test_tool_call_marked_ask_waits_for_a_person_whose_decision_reaches_the_worker(
    frontend: RunningFrontend, worker: HandWorker, *, approved: bool
) -> None:
    await create(frontend, tool_rules={"files__*": "ask", "*": "auto"})
    run_id = (await chat(frontend, "hi"))["run_id"]
    spec = await worker.take(run_id)
    assert list(spec["tool_rules"].items()) == [("files__*", "ask"), ("*", "auto")]
    call = {"call_id": "c1", "name": "files__write", "arguments": {"path": "x"}}
    await worker.deliver(run_id, ("approval_requested", call))
    _, run = await frontend.call("GET", f"/api/runs/{run_id}")
    assert (run["state"], run["approvals"][0]["tool"]) == ("waiting_approval", "files__write")
    body = {"approved": approved, "reason": "not there"}
    assert (await frontend.call("POST", f"/api/runs/{run_id}/calls/c1", body))[0] == 200
    answer = await worker.deliver(run_id)
    assert answer["decisions"] == {"c1": {"approved": approved, "reason": "not there"}}
