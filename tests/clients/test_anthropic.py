"""The official Anthropic client: on an engine that speaks its API itself, and on one for which it is translated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import anthropic
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam, ToolParam

from tests.clients.prompts import AT_A_TIME, CALL_IT, MODEL, PARAMETERS, QUESTION, SCHEMA, TRANSLATED
from tests.clients.stage import Stage
from tests.support.polling import eventually

pytestmark = [pytest.mark.behaviour("GW-95"), pytest.mark.usefixtures("smol")]
MESSAGES: list[MessageParam] = [{"role": "user", "content": QUESTION}]
TOOL: ToolParam = {"name": "weather", "description": "Of a city", "input_schema": PARAMETERS}
# The client has no parameter for it any more.
COLD = {"temperature": 0}
both_ways = pytest.mark.parametrize("model", [MODEL, TRANSLATED])


@pytest.fixture
async def client(scene: Stage) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=scene.url, api_key=scene.key, max_retries=0, timeout=60) as opened:
        yield opened


@both_ways
async def test_message_whole_and_in_pieces(client: AsyncAnthropic, model: str) -> None:
    whole = await client.messages.create(
        model=model, max_tokens=12, system="Be short.", messages=MESSAGES, extra_body=COLD
    )
    assert whole.stop_reason == "max_tokens"
    assert whole.usage.output_tokens == 12
    assert whole._request_id
    assert whole.content[0].type == "text"
    async with client.messages.stream(
        model=model, max_tokens=12, system="Be short.", messages=MESSAGES, extra_body=COLD
    ) as stream:
        streamed = "".join([text async for text in stream.text_stream])
        final = await stream.get_final_message()
    assert streamed == whole.content[0].text
    assert (final.stop_reason, final.usage.output_tokens) == ("max_tokens", 12)


@both_ways
async def test_tool_is_used_and_its_result_is_taken(client: AsyncAnthropic, model: str) -> None:
    messages: list[MessageParam] = [{"role": "user", "content": CALL_IT}]
    async with client.messages.stream(
        model=model, max_tokens=60, tools=[TOOL], messages=messages, extra_body=COLD
    ) as stream:
        final = await stream.get_final_message()
    assert final.stop_reason == "tool_use"
    used = [block for block in final.content if block.type == "tool_use"]
    assert [(block.name, block.input) for block in used] == [("weather", {"city": "Paris"})]
    final_answer = await client.messages.create(
        model=model,
        max_tokens=8,
        tools=[TOOL],
        messages=[
            *messages,
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": used[0].id, "name": "weather", "input": {"city": "Paris"}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": used[0].id, "content": "It rains."}],
            },
        ],
    )
    assert final_answer.content


async def test_json_schema_holds(client: AsyncAnthropic) -> None:
    answer = await client.messages.create(
        model=TRANSLATED,
        max_tokens=60,
        messages=MESSAGES,
        output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
        extra_body=COLD,
    )
    assert answer.content[0].type == "text"
    assert set(json.loads(answer.content[0].text)) == {"name", "age"}


async def test_tokens_are_counted_where_the_engine_counts(client: AsyncAnthropic) -> None:
    counted = await client.messages.count_tokens(model=MODEL, messages=MESSAGES)
    answer = await client.messages.create(model=MODEL, max_tokens=1, messages=MESSAGES)
    cached = answer.usage.cache_read_input_tokens or 0
    assert counted.input_tokens == answer.usage.input_tokens + cached


async def test_models_are_listed_and_shown(client: AsyncAnthropic) -> None:
    assert MODEL in [model.id async for model in client.models.list()]
    shown = await client.models.retrieve("gpt-4")
    assert (shown.id, shown.type, shown.display_name) == (MODEL, "model", MODEL)
    assert shown.created_at.year > 2000
    with pytest.raises(anthropic.NotFoundError):
        await client.models.retrieve("smollm")


@both_ways
async def test_errors_have_the_classes_that_programs_expect(client: AsyncAnthropic, model: str) -> None:
    with pytest.raises(anthropic.NotFoundError) as unknown:
        await client.messages.create(model="smollm", max_tokens=1, messages=MESSAGES)
    assert unknown.value.type == "not_found_error"
    with pytest.raises(anthropic.AuthenticationError) as stranger:
        await client.with_options(api_key="ck_wrong").messages.create(model=model, max_tokens=1, messages=MESSAGES)
    assert stranger.value.type == "authentication_error"
    # The engine's own refusal: more than its context holds.
    with pytest.raises(anthropic.BadRequestError, match="context") as long:
        await client.messages.create(model=model, max_tokens=1, messages=[{"role": "user", "content": "word " * 4000}])
    assert long.value.type == "invalid_request_error"
    assert long.value.request_id


async def test_fields_that_cannot_be_translated_are_refused(client: AsyncAnthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="web_search"):
        await client.messages.create(
            model=TRANSLATED,
            max_tokens=1,
            messages=MESSAGES,
            tools=[{"type": "web_search_20250305", "name": "web_search"}],
        )


@both_ways
async def test_client_that_leaves_lets_the_engine_go(client: AsyncAnthropic, scene: Stage, model: str) -> None:
    async with client.messages.stream(model=model, max_tokens=500, messages=MESSAGES) as stream:
        async for _ in stream.text_stream:
            break

    async def nothing_is_under_way() -> bool:
        return scene.in_flight() == 0

    await eventually(nothing_is_under_way)


async def test_64_at_a_time_are_all_answered(client: AsyncAnthropic) -> None:
    async def one(number: int) -> str:
        model = (MODEL, TRANSLATED)[number % 2]
        answer = await client.messages.create(model=model, max_tokens=2, messages=MESSAGES, extra_body=COLD)
        assert answer.content[0].type == "text"
        return answer.content[0].text

    answers = await asyncio.gather(*(one(number) for number in range(AT_A_TIME)))
    assert all(answers)
