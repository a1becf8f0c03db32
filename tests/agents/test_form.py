"""Every field of the form of an agent has an effect: on what a worker is given, or on what the product does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.hand_worker import HandWorker, chat, create, join_worker, make_key
from tests.agents.test_schedule import set_due, show, tick
from tests.knowledge.scene import create_collection
from tests.support.frontends import RunningFrontend
from tests.support.polling import eventually

SKILLS = {"enable_skills": True}
KNOWLEDGE = {"enable_kb": True}
MEMORY = {"long_term_memory": True}
AUTONOMOUS: dict[str, Any] = {"standalone_job": True, "permanent_goal": "peace", "periodic_runs": "1h"}
# Another value of each field that shows in the work of a turn, with the settings beside which it does.
IN_THE_WORK: dict[str, tuple[dict[str, Any], Any]] = {
    "model": ({}, "other"),
    "temperature": ({}, 0.3),
    "max_tokens": ({}, 77),
    "tool_mode": ({}, "guided"),
    "tool_choice": ({}, "required"),
    "system_prompt": ({}, "Answer in Latin."),
    "strip_thinking_tags": ({}, False),
    "mcp_servers": ({}, [{"url": "https://tools.example/mcp"}]),
    "mcp_stdio_servers": ({}, ["files"]),
    "tool_rules": ({}, {"files__*": "deny"}),
    "agents": ({}, ["colleague"]),
    "enable_skills": ({}, True),
    "skills_mode": (SKILLS, "prompt"),
    "selected_skills": (SKILLS, ["pdf"]),
    "skills_prompt": (SKILLS | {"skills_mode": "prompt"}, "Read these first:"),
    "enable_kb": ({}, True),
    "collection": (KNOWLEDGE, "manuals"),
    "kb_mode": (KNOWLEDGE | {"collection": "manuals"}, "both"),
    "kb_results": (KNOWLEDGE | {"collection": "manuals"}, 3),
    "long_term_memory": ({}, True),
    "summary_long_term_memory": (MEMORY, True),
    "conversation_storage_mode": (MEMORY, "whole_conversation"),
    "max_iterations": ({}, 3),
    "max_attempts": ({}, 4),
    "loop_detection": ({}, 9),
    "enable_auto_compaction": ({}, False),
    "auto_compaction_threshold": ({}, 1024),
    "budgets": ({}, {"wall": "90s"}),
}
# Shown by a test of their own below.
ELSEWHERE = {
    *("name", "description", "shared", "labels", "cancel_previous_on_new_message"),
    *("standalone_job", "periodic_runs", "permanent_goal", "inner_monologue_template"),
}


@pytest.fixture
async def worker(frontend: RunningFrontend) -> HandWorker:
    return await join_worker(frontend)


async def put(frontend: RunningFrontend, **settings: Any) -> None:
    status, changed = await frontend.call("PUT", "/api/agents/helper", {"name": "helper", "model": "m"} | settings)
    assert status == 200, changed


async def read_work(frontend: RunningFrontend, worker: HandWorker, **settings: Any) -> dict[str, Any]:
    """Return what a worker gets for a turn of the agent with these settings, without what differs for each run."""
    await put(frontend, **settings)
    spec = await worker.answer((await chat(frontend, "hi"))["run_id"])
    return {name: value for name, value in spec.items() if name not in ("run_id", "ticket", "session_key")}


@pytest.mark.behaviour("AGENT-23")
async def test_each_field_of_the_form_is_shown_to_have_an_effect(frontend: RunningFrontend) -> None:
    _, form = await frontend.call("GET", "/api/agents/config/metadata")
    assert {field["name"] for field in form["fields"]} == set(IN_THE_WORK) | ELSEWHERE


@pytest.mark.behaviour("AGENT-23")
async def test_fields_of_the_form_change_the_work_of_a_turn(frontend: RunningFrontend, worker: HandWorker) -> None:
    await create(frontend)
    await create(frontend, "colleague")
    for name in ("pdf", "csv"):
        body = {"name": name, "description": f"About {name}.", "content": f"Read {name}."}
        assert (await frontend.call("POST", "/api/agents/skills", body))[0] == 201
    assert (await frontend.call("PUT", "/api/mcp/servers/files", {"command": "uvx", "args": ["files"]}))[0] == 200
    await create_collection(frontend, "manuals")
    without: dict[str, dict[str, Any]] = {}
    for name, (context, value) in IN_THE_WORK.items():
        key = repr(context)
        if key not in without:
            without[key] = await read_work(frontend, worker, **context)
            # The comparison below would show nothing if works differed anyway.
            assert await read_work(frontend, worker, **context) == without[key]
        assert await read_work(frontend, worker, **context, **{name: value}) != without[key], name


@pytest.mark.behaviour("AGENT-23")
async def test_description_is_what_another_agent_reads_about_it(frontend: RunningFrontend, worker: HandWorker) -> None:
    await create(frontend, "colleague", description="Counts sheep.")
    await create(frontend, agents=["colleague"])
    work = await read_work(frontend, worker, agents=["colleague"])
    assert work["agents"] == [{"name": "colleague", "description": "Counts sheep."}]


@pytest.mark.behaviour("AGENT-23")
async def test_name_and_sharing_say_who_reaches_an_agent_and_labels_where_it_runs(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    ben = (await make_key(frontend, "ben"))["key"]
    await create(frontend)
    path, body = "/api/agents/helper/chat", {"message": "hi"}
    assert (await frontend.call("POST", path, body, key=ben))[0] == 404
    await put(frontend, shared=True)
    status, accepted = await frontend.call("POST", path, body, key=ben)
    assert status == 202, accepted
    await worker.answer(accepted["run_id"])
    await put(frontend, labels={"zone": "lab"})
    status, refused = await frontend.call("POST", path, body)
    assert (status, refused["error"]["code"]) == (503, "no_agent_worker")
    await put(frontend, name="renamed")
    assert (await frontend.call("GET", "/api/agents/helper"))[0] == 404
    assert (await show(frontend, "renamed"))["name"] == "renamed"


@pytest.mark.behaviour("AGENT-23")
@pytest.mark.parametrize("cancels", [True, False])
async def test_new_message_cancels_the_turn_before_it_only_if_the_agent_says_so(
    frontend: RunningFrontend, worker: HandWorker, *, cancels: bool
) -> None:
    await create(frontend, cancel_previous_on_new_message=cancels)
    first = await chat(frontend, "one")
    await worker.take(first["run_id"])
    await chat(frontend, "two", thread=first["thread_id"])
    _, run = await frontend.call("GET", f"/api/runs/{first['run_id']}")
    assert (run["state"] == "cancelled") is cancels


@pytest.mark.behaviour("AGENT-23")
async def test_fields_of_an_autonomous_agent_say_when_it_runs_and_for_what(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    async def is_leader() -> bool:
        return frontend.core.leader.is_leader()

    await eventually(is_leader)
    await create(frontend, permanent_goal="peace", periodic_runs="1h")
    assert (await show(frontend))["next_run_at"] is None
    times = []
    for interval in ("1h", "9h"):
        await put(frontend, **AUTONOMOUS | {"periodic_runs": interval})
        times.append((await show(frontend))["next_run_at"])
    assert times[0] < times[1]

    async def read_messages(**settings: Any) -> Any:
        await put(frontend, **AUTONOMOUS | settings)
        await set_due(frontend, 1)
        await tick(frontend)
        [run_id] = await worker.wait_for_run()
        return (await worker.answer(run_id))["messages"]

    plain = await read_messages()
    assert "peace" in repr(plain)
    assert await read_messages(permanent_goal="order") != plain
    assert await read_messages(inner_monologue_template="Look around.") != plain
