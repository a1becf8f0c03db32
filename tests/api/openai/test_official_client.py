"""The official client against a frontend and a real engine: it finds everything that it looks for."""

from __future__ import annotations

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.engines.engine_processes import Engine
from tests.serving.scene import put_model, serve, settled
from tests.support.frontends import RunningFrontend

QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Why is the sky blue?"}]


@pytest.mark.behaviour("V1-1")
async def test_chat_is_answered_with_its_usage(frontend: RunningFrontend, engine: Engine, client: AsyncOpenAI) -> None:
    await serve(frontend, engine, aliases=("gpt-4",))
    whole = await client.chat.completions.create(model="gpt-4", messages=QUESTION)
    assert whole.choices[0].message.content
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage is not None
    assert whole.usage.total_tokens > 0
    assert whole.model == "chat"
    raw = await client.chat.completions.with_raw_response.create(model="chat", messages=QUESTION)
    assert raw.headers["x-corral-node"] == "node-1"
    assert raw.headers["x-request-id"]


@pytest.mark.behaviour("V1-1")
async def test_stream_has_the_text_of_the_whole_response_and_its_usage(
    frontend: RunningFrontend, engine: Engine, client: AsyncOpenAI
) -> None:
    await serve(frontend, engine)
    whole = await client.chat.completions.create(model="chat", messages=QUESTION)
    stream = await client.chat.completions.create(
        model="chat",
        messages=QUESTION,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert streamed == whole.choices[0].message.content
    assert chunks[-1].usage is not None
    assert len(chunks) > 3


@pytest.mark.behaviour("V1-1")
async def test_completions_and_embeddings_are_answered(
    frontend: RunningFrontend, engine: Engine, client: AsyncOpenAI
) -> None:
    await serve(frontend, engine)
    text = await client.completions.create(model="chat", prompt="Once upon a time")
    assert text.choices[0].text
    # The client asks for base64 by itself and unpacks it.
    vectors = await client.embeddings.create(model="chat", input=["hay", "oats"])
    assert [len(item.embedding) for item in vectors.data] == [64, 64]


@pytest.mark.behaviour("V1-2")
async def test_models_are_listed_and_shown_loaded_or_not(frontend: RunningFrontend, client: AsyncOpenAI) -> None:
    await put_model(frontend.database, "org/model:tag", aliases=("short",))
    await put_model(frontend.database, "hidden", enabled=False)
    await settled(frontend)
    assert [model.id async for model in client.models.list()] == ["org/model:tag"]
    shown = await client.models.retrieve("org/model:tag")
    assert (shown.id, shown.object, shown.owned_by) == ("org/model:tag", "model", "corral")
    assert (await client.models.retrieve("short")).id == "org/model:tag"
    for name in ("hidden", "org/mode:tag"):
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve(name)


@pytest.mark.behaviour("V1-3")
async def test_errors_have_the_classes_that_programs_expect(
    frontend: RunningFrontend, engine: Engine, client: AsyncOpenAI
) -> None:
    await serve(frontend, engine, serves=["chat"], aliases=("smollm2",))
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.chat.completions.create(model="smolm2", messages=QUESTION)
    assert unknown.value.code == "model_not_found"
    assert unknown.value.param == "model"
    assert unknown.value.type == "invalid_request_error"
    assert "smollm2" in str(unknown.value)
    with pytest.raises(openai.BadRequestError) as other:
        await client.embeddings.create(model="chat", input="x")
    assert "it is for chat" in str(other.value)
    with pytest.raises(openai.AuthenticationError) as stranger:
        await client.with_options(api_key="ck_wrong").models.list()
    assert stranger.value.code == "invalid_api_key"
    # The engine's own words come through as they are.
    with pytest.raises(openai.BadRequestError) as engines:
        await client.chat.completions.create(model="chat", messages=QUESTION, max_tokens=0)
    assert "max_tokens" in str(engines.value)


@pytest.mark.behaviour("V1-4")
async def test_defaults_of_the_model_are_filled_in_where_a_request_is_silent(
    frontend: RunningFrontend, engine: Engine, client: AsyncOpenAI
) -> None:
    await serve(frontend, engine, defaults={"max_tokens": 3, "system": "You are a horse."})
    silent = await client.chat.completions.create(model="chat", messages=QUESTION)
    assert silent.usage is not None
    assert silent.usage.completion_tokens == 3
    spoken = await client.chat.completions.create(
        model="chat",
        messages=[{"role": "system", "content": "You are a horse."}, *QUESTION],
        max_tokens=5,
    )
    assert spoken.usage is not None
    assert spoken.usage.completion_tokens == 5
    assert spoken.usage.prompt_tokens == silent.usage.prompt_tokens
