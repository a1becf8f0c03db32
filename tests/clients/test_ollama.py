"""The official Ollama client against a frontend with real engines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import ollama
import pytest
from ollama import AsyncClient

from tests.clients.prompts import AT_A_TIME, CALL_IT, MODEL, PARAMETERS, QUESTION, SCHEMA
from tests.clients.stage import Stage
from tests.support.polling import eventually

pytestmark = [pytest.mark.behaviour("GW-96"), pytest.mark.usefixtures("smol")]
MESSAGES = [{"role": "user", "content": QUESTION}]
TOOL = {"type": "function", "function": {"name": "weather", "description": "Of a city", "parameters": PARAMETERS}}
SHORT = {"temperature": 0, "num_predict": 12}


@pytest.fixture
async def client(scene: Stage) -> AsyncIterator[AsyncClient]:
    opened = AsyncClient(host=scene.url, headers={"Authorization": f"Bearer {scene.key}"})
    yield opened
    await opened._client.aclose()


async def test_chat_whole_and_in_pieces(client: AsyncClient) -> None:
    whole = await client.chat(model=MODEL, messages=MESSAGES, options=SHORT)
    assert whole.message.content
    assert (whole.done, whole.done_reason, whole.eval_count) == (True, "length", 12)
    assert whole.total_duration
    streamed, last = "", None
    async for part in await client.chat(model=f"{MODEL}:latest", messages=MESSAGES, options=SHORT, stream=True):
        streamed += part.message.content or ""
        last = part
    assert streamed == whole.message.content
    assert last is not None
    assert (last.done, last.eval_count) == (True, 12)
    assert last.eval_duration


async def test_text_whole_in_pieces_and_raw(client: AsyncClient) -> None:
    whole = await client.generate(model=MODEL, prompt=QUESTION, system="Be short.", options=SHORT)
    stream = await client.generate(model=MODEL, prompt=QUESTION, system="Be short.", options=SHORT, stream=True)
    assert "".join([part.response or "" async for part in stream]) == whole.response
    raw = await client.generate(model=MODEL, prompt="Once upon a time", raw=True, options=SHORT)
    assert raw.response
    assert raw.response != whole.response


async def test_tool_is_called_and_its_result_is_taken(client: AsyncClient) -> None:
    messages = [{"role": "user", "content": CALL_IT}]
    options = {"temperature": 0, "num_predict": 60}
    calls: list[ollama.Message.ToolCall] = []
    async for part in await client.chat(model=MODEL, messages=messages, tools=[TOOL], options=options, stream=True):
        calls += part.message.tool_calls or []
    assert [(call.function.name, call.function.arguments) for call in calls] == [("weather", {"city": "Paris"})]
    answer = await client.chat(model=MODEL, messages=messages, tools=[TOOL], options=options)
    final_answer = await client.chat(
        model=MODEL,
        messages=[*messages, answer.message, {"role": "tool", "tool_name": "weather", "content": "It rains."}],
        tools=[TOOL],
        options=SHORT,
    )
    assert final_answer.message.content


async def test_json_schema_holds(client: AsyncClient) -> None:
    options = {"temperature": 0, "num_predict": 60}
    answer = await client.chat(model=MODEL, messages=MESSAGES, format=SCHEMA, options=options)
    assert set(json.loads(answer.message.content or "")) == {"name", "age"}


@pytest.mark.usefixtures("encoder")
async def test_embeddings_have_the_models_size_on_both_routes(client: AsyncClient) -> None:
    both = await client.embed(model="minilm", input=["a cat", "a kitten"])
    assert [len(vector) for vector in both.embeddings] == [384, 384]
    old = await client.embeddings(model="minilm", prompt="a cat")
    assert list(old.embedding) == pytest.approx(list(both.embeddings[0]), abs=1e-3)


async def test_models_are_listed_and_shown(client: AsyncClient) -> None:
    listed = await client.list()
    assert f"{MODEL}:latest" in [model.model for model in listed.models]
    loaded = await client.ps()
    assert f"{MODEL}:latest" in [model.model for model in loaded.models]
    shown = await client.show(MODEL)
    assert shown.capabilities == ["completion"]


async def test_model_is_loaded_by_a_request_without_a_prompt(client: AsyncClient) -> None:
    loaded = await client.generate(model=f"{MODEL}:latest")
    assert (loaded.done, loaded.done_reason, loaded.response) == (True, "load", "")
    penalised = await client.generate(model=MODEL, prompt=QUESTION, options=SHORT | {"repeat_penalty": 1.3})
    assert penalised.response


async def test_ollama_client_gets_errors_in_the_form_that_it_expects(client: AsyncClient, scene: Stage) -> None:
    with pytest.raises(ollama.ResponseError) as unknown:
        await client.chat(model="smollm", messages=MESSAGES)
    assert unknown.value.status_code == 404
    with pytest.raises(ollama.ResponseError) as refused:
        await client.chat(model=MODEL, messages=MESSAGES, options={"mirostat": 1})
    assert (refused.value.status_code, "options.mirostat" in refused.value.error) == (400, True)
    with pytest.raises(ollama.ResponseError) as stream:
        async for _ in await client.chat(
            model=MODEL, messages=[{"role": "user", "content": "word " * 4000}], stream=True
        ):
            pass
    assert (stream.value.status_code, "context" in stream.value.error) == (400, True)
    with pytest.raises(ollama.ResponseError) as managing:
        await client.pull(MODEL)
    assert "corral models" in managing.value.error
    stranger = AsyncClient(host=scene.url)
    with pytest.raises(ollama.ResponseError) as refused:
        await stranger.list()
    assert refused.value.status_code == 401
    await stranger._client.aclose()


async def test_client_that_leaves_lets_the_engine_go(client: AsyncClient, scene: Stage) -> None:
    stream = await client.chat(model=MODEL, messages=MESSAGES, options={"num_predict": 500}, stream=True)
    async for _ in stream:
        break
    await stream.aclose()  # type: ignore[attr-defined]

    async def nothing_is_under_way() -> bool:
        return scene.in_flight() == 0

    await eventually(nothing_is_under_way)


async def test_64_at_a_time_are_all_answered(client: AsyncClient) -> None:
    options = {"temperature": 0, "num_predict": 2}
    calls = [client.chat(model=MODEL, messages=MESSAGES, options=options) for _ in range(AT_A_TIME)]
    answers = await asyncio.gather(*calls)
    assert all(answer.message.content for answer in answers)
