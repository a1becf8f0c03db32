"""Chats with MCP servers through a real cluster: client, frontend, NATS, agent worker, runner, program and engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from corral.app.settings import WorkerSettings
from corral.app.worker import ComposedWorker, compose_worker
from corral.domain.node import NodeType
from tests.runner.chat_server import ScriptedModel, call, run_scripted_model, say
from tests.runner.scene import make_server
from tests.serving.scene import put_model, put_replica, settled
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.nodes import create_join_token, join_node
from tests.support.polling import eventually
from tests.worker.conftest import OWN_USER

QUESTION: Any = [{"role": "user", "content": "What is 1 + 2?"}]


@pytest.fixture
async def worker(cluster: RunningFrontend, tmp_path: Path) -> AsyncIterator[ComposedWorker]:
    """An agent worker with a real runner process."""
    home = tmp_path / "worker"
    home.mkdir()
    token = await create_join_token(cluster, approves=True)
    values = {"join": cluster.url, "name": "helper", "worker_home": home, "node_type": NodeType.AGENT, "token": token}
    composed = compose_worker(WorkerSettings.model_validate(values | OWN_USER))
    await composed.services.start()

    async def is_healthy() -> bool:
        status, node = await cluster.call("GET", "/api/nodes/helper")
        return status == 200 and node["schedulable"] and composed.membership.find_not_ready_reason() is None

    await eventually(is_healthy)
    yield composed
    await composed.services.stop()


@pytest.fixture
async def engine(cluster: RunningFrontend, tmp_path: Path) -> AsyncIterator[ScriptedModel]:
    """A model with one MCP server, on an engine that answers by a script."""
    notes = tmp_path / "notes"
    notes.mkdir()
    program = {key: value for key, value in make_server(notes).items() if key in ("command", "args", "env")}
    async with run_scripted_model() as model:
        node = await join_node(cluster, "node-1")
        await put_model(cluster.database, "chat", mcp={"stdio": {"tools": program}})
        await put_replica(cluster.database, node.id, model.url.removeprefix("http://").split("/")[0])
        await settled(cluster)
        yield model


@pytest.mark.behaviour("MCP-20")
@pytest.mark.usefixtures("worker")
async def test_chat_calls_a_tool_of_a_program_and_answers_with_its_result(
    cluster: RunningFrontend, engine: ScriptedModel
) -> None:
    engine.script(call("tools__add", a=1, b=2), say("It is ", "3."))
    async with AsyncOpenAI(base_url=f"{cluster.url}/v1", api_key=ADMIN_KEY, timeout=120) as client:
        stream = await client.chat.completions.create(
            model="chat",
            messages=QUESTION,
            metadata={"mcp_servers": "tools"},
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "It is 3."
    [result] = [extra["mcp_tool_result"] for chunk in chunks if "mcp_tool_result" in (extra := chunk.model_extra or {})]
    assert (result["name"], result["content"], result["is_error"]) == ("tools__add", "3", False)
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens) == (20, 10)
    assert len(engine.requests) == 2
    for request in engine.requests:
        assert "metadata" not in request


@pytest.mark.behaviour("MCP-25")
@pytest.mark.usefixtures("worker")
async def test_prompt_comes_before_the_conversation_and_resources_behind_its_last_message(
    cluster: RunningFrontend, engine: ScriptedModel
) -> None:
    body = {
        "model": "chat",
        "messages": [{"role": "system", "content": "Be brief."}, *QUESTION],
        "metadata": {
            "mcp_prompt": "greet",
            "mcp_prompt_args": '{"name": "Ada"}',
            "mcp_resources": "notes://first",
        },
    }
    status, answer = await cluster.call("POST", "/v1/chat/completions", body)
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "done")
    [request] = engine.requests
    assert [(message["role"], message["content"]) for message in request["messages"]] == [
        ("system", "Be brief."),
        ("user", "Say hello to Ada."),
        ("user", "What is 1 + 2?\n\nResource notes://first:\na note"),
    ]
    # Tools are those of the chosen servers, and there are none.
    assert "tools" not in request


@pytest.mark.behaviour("MCP-26")
@pytest.mark.usefixtures("worker")
async def test_loop_that_reaches_its_iterations_ends_with_text_and_a_flag(
    cluster: RunningFrontend, engine: ScriptedModel
) -> None:
    engine.script(*(call("tools__add", a=1, b=number) for number in range(9)), say("Enough."))
    engine.rest = say("Enough.")
    status, answer = await cluster.call("POST", "/v1/mcp/chat/completions", {"model": "chat", "messages": QUESTION})
    assert status == 200, answer
    [choice] = answer["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Enough.", "stop")
    assert answer["run"]["ended_by"] == "steps"
