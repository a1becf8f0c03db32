"""Agents as models of Ollama's official client, and the calls that agents do not answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import ollama
import pytest
from ollama import AsyncClient

from tests.agents.hand_worker import HandWorker, create, join_worker
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend

USAGE = {"prompt_tokens": 30, "completion_tokens": 12, "steps": 2, "tool_calls": 1}
RESULT = {"call_id": "c1", "name": "time__now", "content": "noon", "is_error": False}
MESSAGES: Any = [{"role": "user", "content": "hello"}]


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    async with running_frontend(database_url) as running:
        yield running


@pytest.fixture
async def worker(frontend: RunningFrontend) -> HandWorker:
    return await join_worker(frontend)


@pytest.fixture
async def llama(frontend: RunningFrontend) -> AsyncIterator[AsyncClient]:
    opened = AsyncClient(host=frontend.url, headers={"Authorization": f"Bearer {ADMIN_KEY}"}, timeout=60)
    yield opened
    await opened._client.aclose()


async def take_first(worker: HandWorker) -> tuple[str, dict[str, Any]]:
    """Take the run that a call has started, and return its id and its specification."""
    [run_id] = await worker.wait_for_run()
    return run_id, await worker.take(run_id)


@pytest.mark.behaviour("AGENT-46")
@pytest.mark.parametrize("name", ["helper", "agent/helper", "agent/helper:latest"])
async def test_client_of_ollama_chats_with_an_agent(
    llama: AsyncClient, frontend: RunningFrontend, worker: HandWorker, name: str
) -> None:
    await create(frontend, system_prompt="Be brief.")
    asking = asyncio.create_task(
        llama.chat(model=name, messages=MESSAGES, options={"num_predict": 20, "repeat_last_n": 64, "num_ctx": 512})
    )
    run_id, spec = await take_first(worker)
    assert (spec["instructions"], spec["options"]["max_tokens"]) == ("Be brief.", 20)
    await worker.end(run_id, "Hi.", usage=USAGE)
    answer = await asking
    assert (answer.model, answer.message.content, answer.done_reason) == (name, "Hi.", "stop")
    assert (answer.prompt_eval_count, answer.eval_count) == (30, 12)


@pytest.mark.behaviour("AGENT-46")
async def test_stream_of_ollama_relays_a_run_and_holds_nothing_but_parts_of_the_answer(
    llama: AsyncClient, frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    parts = await llama.chat(model="helper", messages=MESSAGES, stream=True)
    first = asyncio.ensure_future(anext(parts))
    run_id, _ = await take_first(worker)
    # Nothing has come from the run yet: a line without text keeps the connection.
    assert (await first).message.content == ""
    await worker.deliver(run_id, ("step", {}), ("tool_call", RESULT), ("tool_result", RESULT))
    await worker.deliver(run_id, ("content", {"text": "It is noon."}))
    await worker.end(run_id, "It is noon.", usage=USAGE)
    rest = [part async for part in parts]
    assert "".join(part.message.content or "" for part in rest) == "It is noon."
    assert (rest[-1].done, rest[-1].eval_count) == (True, 12)


@pytest.mark.behaviour("AGENT-46")
async def test_text_of_ollama_is_answered_by_an_agent_and_a_raw_prompt_is_refused(
    llama: AsyncClient, frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    asking = asyncio.create_task(llama.generate(model="helper", prompt="hello"))
    run_id, _ = await take_first(worker)
    await worker.end(run_id, "Hi.")
    assert (await asking).response == "Hi."
    with pytest.raises(ollama.ResponseError, match="prompt is not possible") as caught:
        await llama.generate(model="helper", prompt="hello", raw=True)
    assert caught.value.status_code == 400


@pytest.mark.behaviour("AGENT-46")
async def test_agents_are_listed_and_shown_to_clients_of_ollama_and_need_no_loading(
    llama: AsyncClient, frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend)
    assert [model.model for model in (await llama.list()).models] == ["agent/helper:latest"]
    assert (await llama.show("agent/helper:latest")).capabilities == ["completion", "tools"]
    assert (await llama.generate(model="agent/helper")).done_reason == "load"
    _, listed = await frontend.call("GET", "/api/runs")
    assert listed["runs"] == []
    with pytest.raises(ollama.ResponseError, match="no agent 'nobody'"):
        await llama.chat(model="agent/nobody", messages=MESSAGES)


@pytest.mark.behaviour("AGENT-47")
@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("/v1/messages/count_tokens", {"messages": MESSAGES}),
        ("/v1/embeddings", {"input": "hello"}),
        ("/v1/completions", {"prompt": "hello"}),
        ("/v1/rerank", {"query": "hello", "documents": ["a"]}),
        ("/v1/audio/speech", {"input": "hello"}),
        ("/api/embed", {"input": "hello"}),
    ],
)
async def test_call_that_agents_do_not_answer_is_refused_with_the_ones_that_they_do(
    frontend: RunningFrontend, worker: HandWorker, path: str, rest: dict[str, Any]
) -> None:
    await create(frontend)
    status, answer = await frontend.call("POST", path, {"model": "agent/helper"} | rest)
    assert status == 400
    assert "agents do not answer" in json.dumps(answer)
    assert "/v1/chat/completions" in json.dumps(answer)
