"""Requests that choose MCP servers of their model, on a worker that the test plays and an engine that answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from corral.gateway.request.request_body import IN_PLACE_BYTES_MAX
from tests.agents.hand_worker import HandWorker, create, join_worker
from tests.runner.chat_server import ScriptedModel, run_scripted_model
from tests.serving.scene import put_model, put_replica, settled
from tests.support.decoding import record_decoded_sizes
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import join_node

SERVERS = {"stdio": {"time": {"command": "mcp-time"}, "files": {"command": "mcp-files", "args": ["/data"]}}}
CHAT = "/v1/chat/completions"


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    async with running_frontend(database_url) as running:
        yield running


@pytest.fixture
async def worker(frontend: RunningFrontend) -> HandWorker:
    return await join_worker(frontend)


@pytest.fixture
async def engine(frontend: RunningFrontend) -> AsyncIterator[ScriptedModel]:
    """Two models that are loaded on one engine: `chat` with two MCP servers, and `plain` without any."""
    async with run_scripted_model() as model:
        node = await join_node(frontend, "node-1")
        models: dict[str, dict[str, Any]] = {"chat": {"mcp": SERVERS, "agent": {"max_iterations": 4}}, "plain": {}}
        for name, config in models.items():
            await put_model(frontend.database, name, **config)
            await put_replica(frontend.database, node.id, model.url.removeprefix("http://").split("/")[0], model=name)
        await settled(frontend)
        yield model


def ask(text: str = "What time is it?") -> Any:
    return [{"role": "user", "content": text}]


async def take_first(worker: HandWorker) -> tuple[str, dict[str, Any]]:
    [run_id] = await worker.wait_for_run()
    return run_id, await worker.take(run_id)


@pytest.mark.behaviour("MCP-20")
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("named", ["time", " time ,", ["time"]])
async def test_chat_that_names_a_server_is_a_run_with_this_server_alone(
    frontend: RunningFrontend, worker: HandWorker, named: Any
) -> None:
    body = {"model": "chat", "messages": ask(), "metadata": {"mcp_servers": named, "trace": "t"}, "temperature": 0.5}
    asking = asyncio.create_task(frontend.call("POST", CHAT, body))
    run_id, spec = await take_first(worker)
    assert [server["name"] for server in spec["mcp_servers"]] == ["time"]
    assert (spec["kind"], spec["model"], spec["budgets"]["steps"]) == ("chat", "chat", 4)
    assert (spec["options"]["temperature"], spec["options"]["compaction_tokens"]) == (0.5, 0)
    assert "mcp_servers" not in json.dumps({key: spec[key] for key in ("messages", "options", "instructions")})
    await worker.end(run_id, "Noon.")
    status, answer = await asking
    assert (status, answer["choices"][0]["message"]["content"], answer["model"]) == (200, "Noon.", "chat")


@pytest.mark.behaviour("MCP-21")
@pytest.mark.parametrize("model", ["chat", "plain"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": ask()}),
        ("/v1/responses", {"input": "hello"}),
        ("/v1/messages", {"messages": ask(), "max_tokens": 9}),
    ],
)
async def test_unknown_server_is_refused_with_the_known_ones_and_nothing_reaches_the_engine(
    frontend: RunningFrontend, worker: HandWorker, engine: ScriptedModel, model: str, path: str, body: dict[str, Any]
) -> None:
    sent = body | {"model": model, "metadata": {"mcp_servers": "time,nothing"}}
    status, refused = await frontend.call("POST", path, sent)
    assert status == 400
    unknown = "nothing" if model == "chat" else "time"
    assert unknown in refused["error"]["message"]
    assert ("time, files" if model == "chat" else "has none") in refused["error"]["message"].replace(
        "files, time", "time, files"
    )
    assert engine.requests == []


@pytest.mark.behaviour("MCP-22")
@pytest.mark.parametrize("model", ["chat", "plain"])
async def test_chat_without_a_choice_goes_to_the_engine_without_the_keys(
    frontend: RunningFrontend, engine: ScriptedModel, model: str
) -> None:
    for metadata in (None, {"a": "b"}, {"mcp_servers": "", "a": "b"}, {"mcp_servers": [], "mcp_prompt": "", "a": "b"}):
        body: dict[str, Any] = {"model": model, "messages": ask('say "mcp_servers"'), "stream": True}
        if metadata is not None:
            body["metadata"] = metadata
        status, _ = await frontend.call("POST", CHAT, body)
        assert status == 200
        assert engine.requests[-1].get("metadata") == (None if metadata is None else {"a": "b"})
        assert engine.requests[-1]["messages"] == body["messages"]
    _, listed = await frontend.call("GET", "/api/runs")
    assert listed["runs"] == []


@pytest.mark.usefixtures("engine")
async def test_configuration_of_localai_is_taken_with_warnings_and_its_limits_reach_the_worker(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    remote = json.dumps({"mcpServers": {"docs": {"url": "https://docs.example/mcp"}}})
    agent = {"max_attempts": 4, "max_iterations": 2, "loop_detection": 3, "enable_reasoning": True}
    config = {"backend": "fake", "mcp": {"remote": remote}, "agent": agent}
    status, saved = await frontend.call("PUT", "/api/models/config/theirs", config)
    assert status == 200, saved
    assert any("agent.enable_reasoning has no effect" in warning for warning in saved["warnings"])
    asking = asyncio.create_task(frontend.call("POST", "/v1/responses", {"model": "theirs", "input": "hello"}))
    run_id, spec = await take_first(worker)
    assert (spec["budgets"]["steps"], spec["options"]["max_attempts"], spec["options"]["loop_detection"]) == (2, 4, 3)
    await worker.end(run_id, "Hello.")
    assert (await asking)[0] == 200


@pytest.mark.behaviour("MCP-27")
@pytest.mark.usefixtures("engine")
async def test_response_of_a_model_begins_without_a_declared_server_that_was_deleted(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    config = {"backend": "fake", "mcp": {"servers": ["gone"], "remote": {"docs": {"url": "https://docs.example/mcp"}}}}
    assert (await frontend.call("PUT", "/api/models/config/half", config))[0] == 200
    asking = asyncio.create_task(frontend.call("POST", "/v1/responses", {"model": "half", "input": "hello"}))
    run_id, spec = await take_first(worker)
    assert [server["name"] for server in spec["mcp_servers"]] == ["docs"]
    await worker.end(run_id, "Hello.")
    assert (await asking)[0] == 200
    # Whoever names it has to know that it is not there.
    body: dict[str, Any] = {"model": "half", "input": "hello", "metadata": {"mcp_servers": "gone"}}
    status, refused = await frontend.call("POST", "/v1/responses", body)
    assert (status, refused["error"]["code"]) == (404, "mcp_server_not_found")
    for path, body in (("prompts/half/greet", {}), ("resources/half/read", {"uri": "notes://first"})):
        status, refused = await frontend.call("POST", f"/v1/mcp/{path}", body | {"server": "gone"})
        assert (status, refused["error"]["code"]) == (404, "mcp_server_not_found")


async def test_keys_that_are_spelt_with_escapes_are_found(
    frontend: RunningFrontend, worker: HandWorker, engine: ScriptedModel
) -> None:
    text = json.dumps({"model": "chat", "messages": ask(), "metadata": {"mcp_servers": "time"}})
    escaped = text.replace("mcp_servers", "mc\\u0070_servers")
    asking = asyncio.create_task(frontend.call("POST", CHAT, escaped, content_type="application/json"))
    run_id, spec = await take_first(worker)
    assert [server["name"] for server in spec["mcp_servers"]] == ["time"]
    await worker.end(run_id)
    assert (await asking)[0] == 200
    assert engine.requests == []


@pytest.mark.behaviour("GW-235")
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/v1/messages"])
async def test_large_conversation_is_decoded_in_another_process(
    frontend: RunningFrontend, worker: HandWorker, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    turns = [{"role": "user", "content": "a word"}, {"role": "assistant", "content": "another"}] * 2_000
    body = {"model": "chat", "metadata": {"mcp_servers": "time"}, "max_tokens": 9} | {
        "input" if path == "/v1/responses" else "messages": turns[:-1]
    }
    text = json.dumps(body | ({"max_output_tokens": body.pop("max_tokens")} if path == "/v1/responses" else {}))
    decoded = record_decoded_sizes(monkeypatch)
    asking = asyncio.create_task(frontend.call("POST", path, text, content_type="application/json"))
    [run_id] = await worker.wait_for_run()
    # What the test's own worker decodes is not the frontend's.
    assert max(decoded, default=0) <= IN_PLACE_BYTES_MAX < len(text)
    spec = await worker.take(run_id)
    assert [message["content"] for message in spec["messages"]] == [turn["content"] for turn in turns[:-1]]
    await worker.end(run_id)
    assert (await asking)[0] == 200


@pytest.mark.behaviour("MCP-23")
@pytest.mark.usefixtures("engine")
async def test_response_uses_all_servers_unless_it_has_tools_or_chooses(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    async with AsyncOpenAI(base_url=f"{frontend.url}/v1", api_key=ADMIN_KEY, timeout=60) as client:
        asking = asyncio.create_task(client.responses.create(model="chat", input="hello"))
        run_id, spec = await take_first(worker)
        assert {server["name"] for server in spec["mcp_servers"]} == {"time", "files"}
        await worker.end(run_id, "Hi.")
        assert (await asking).output_text == "Hi."
        asking = asyncio.create_task(
            client.responses.create(model="chat", input="hello", metadata={"mcp_servers": "files"})
        )
        run_id, spec = await take_first(worker)
        assert [server["name"] for server in spec["mcp_servers"]] == ["files"]
        await worker.end(run_id, "Hi.")
        assert (await asking).metadata == {"mcp_servers": "files"}


@pytest.mark.behaviour("MCP-23")
@pytest.mark.parametrize(
    "fields",
    [
        {"model": "plain"},
        {"model": "chat", "metadata": {"mcp_servers": ""}},
        {"model": "chat", "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]},
    ],
)
async def test_response_without_servers_goes_to_the_engine(
    frontend: RunningFrontend, worker: HandWorker, engine: ScriptedModel, fields: dict[str, Any]
) -> None:
    status, _ = await frontend.call("POST", "/v1/responses", {"input": "hello", "stream": True} | fields)
    assert status == 200
    assert len(engine.requests) == 1
    assert not engine.requests[0].get("metadata")


@pytest.mark.usefixtures("engine")
async def test_message_that_names_a_server_is_a_run(frontend: RunningFrontend, worker: HandWorker) -> None:
    async with AsyncAnthropic(base_url=frontend.url, api_key=ADMIN_KEY, timeout=60) as claude:
        metadata: Any = {"user_id": "u", "mcp_servers": "time"}
        asking = asyncio.create_task(
            claude.messages.create(model="chat", max_tokens=9, messages=ask(), metadata=metadata)
        )
        run_id, spec = await take_first(worker)
        assert [server["name"] for server in spec["mcp_servers"]] == ["time"]
        await worker.end(run_id, "Noon.")
        assert (await asking).content[0].to_dict()["text"] == "Noon."


@pytest.mark.behaviour("MCP-24")
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("path", ["/v1/mcp/chat/completions", "/mcp/v1/chat/completions", "/mcp/chat/completions"])
async def test_paths_of_localai_use_all_servers_of_the_model(
    frontend: RunningFrontend, worker: HandWorker, path: str
) -> None:
    asking = asyncio.create_task(frontend.call("POST", path, {"model": "chat", "messages": ask()}))
    run_id, spec = await take_first(worker)
    assert {server["name"] for server in spec["mcp_servers"]} == {"time", "files"}
    await worker.end(run_id, "Noon.")
    status, answer = await asking
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "Noon.")
    status, refused = await frontend.call("POST", path, {"model": "plain", "messages": ask()})
    assert (status, refused["error"]["code"]) == (400, "no_mcp_servers")
    status, refused = await frontend.call("POST", path, {"model": "nobody", "messages": ask()})
    assert (status, refused["error"]["code"]) == (404, "model_not_found")
    assert (await frontend.call("POST", path, {"model": "chat", "messages": ask()}, key=None))[0] == 401


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "metadata",
    [{"mcp_servers": 5}, {"mcp_servers": [1]}, {"mcp_prompt": 5}, {"mcp_prompt": "p", "mcp_prompt_args": "x"}],
)
async def test_choice_of_a_wrong_form_is_refused(frontend: RunningFrontend, metadata: dict[str, Any]) -> None:
    body = {"model": "chat", "messages": ask(), "metadata": metadata}
    status, refused = await frontend.call("POST", CHAT, body)
    assert (status, refused["error"]["code"]) == (400, "bad_value")


async def test_call_for_an_agent_cannot_choose_servers(frontend: RunningFrontend, worker: HandWorker) -> None:
    await create(frontend)
    body = {"model": "helper", "messages": ask(), "metadata": {"mcp_servers": "time"}}
    status, refused = await frontend.call("POST", CHAT, body)
    assert (status, refused["error"]["code"]) == (400, "mcp_with_agent")


@pytest.mark.usefixtures("engine")
async def test_run_cannot_ask_for_a_chat_with_servers(frontend: RunningFrontend, worker: HandWorker) -> None:
    body = {"model": "chat", "messages": ask(), "metadata": {"mcp_servers": "time"}}
    asking = asyncio.create_task(frontend.call("POST", CHAT, body))
    run_id, spec = await take_first(worker)
    status, refused = await frontend.call("POST", CHAT, body, key=spec["ticket"])
    assert (status, refused["error"]["code"]) == (403, "nested_run")
    await worker.end(run_id)
    assert (await asking)[0] == 200
