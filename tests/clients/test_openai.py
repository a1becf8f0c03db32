"""The official OpenAI client against a frontend with real engines."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from openai.types.responses import FunctionToolParam

from tests.clients.prompts import AT_A_TIME, CALL_IT, MODEL, PARAMETERS, QUESTION, SCHEMA
from tests.clients.stage import Stage
from tests.support.polling import eventually
from tests.support.speech import SENTENCE, assert_is_sentence

pytestmark = [pytest.mark.behaviour("GW-94"), pytest.mark.usefixtures("smol")]
MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
TOOL: ChatCompletionToolParam = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
FUNCTION: FunctionToolParam = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": True}


@pytest.fixture
async def client(scene: Stage) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{scene.url}/v1", api_key=scene.key, max_retries=0, timeout=60) as opened:
        yield opened


async def test_chat_whole_and_in_pieces(client: AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(model="gpt-4", messages=MESSAGES, max_tokens=12, temperature=0)
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 12
    streamed, usage = "", None
    stream = await client.chat.completions.create(
        model=MODEL,
        messages=MESSAGES,
        max_tokens=12,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    async for chunk in stream:
        streamed += "".join(choice.delta.content or "" for choice in chunk.choices)
        usage = chunk.usage or usage
    assert streamed == whole.choices[0].message.content
    assert usage is not None
    assert usage.completion_tokens == 12


async def test_usage_counts_all_choices_of_an_answer_of_llama_cpp(client: AsyncOpenAI) -> None:
    whole = await client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=6, n=3, temperature=0)
    assert whole.usage is not None
    assert (len(whole.choices), whole.usage.completion_tokens) == (3, 18)
    usage = None
    async for chunk in await client.completions.create(
        model=MODEL,
        prompt="Once upon",
        max_tokens=6,
        n=2,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    ):
        usage = chunk.usage or usage
    assert usage is not None
    assert usage.completion_tokens == 12


async def test_tool_is_called_and_its_result_is_taken(client: AsyncOpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": CALL_IT}]
    async with client.chat.completions.stream(
        model=MODEL, messages=messages, tools=[TOOL], temperature=0, max_tokens=60
    ) as stream:
        final = await stream.get_final_completion()
    choice = final.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    call = choice.message.tool_calls[0]
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Paris"})
    final_answer = await client.chat.completions.create(
        model=MODEL,
        max_tokens=8,
        messages=[
            *messages,
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": "weather", "arguments": call.function.arguments},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": call.id, "content": "It rains."},
        ],
        tools=[TOOL],
    )
    assert final_answer.choices[0].message.content


async def test_json_schema_holds_and_logprobs_are_there(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=MESSAGES,
        max_tokens=60,
        temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
    )
    assert set(json.loads(answer.choices[0].message.content or "")) == {"name", "age"}
    rated = await client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=2, logprobs=True, top_logprobs=3
    )
    assert rated.choices[0].logprobs is not None
    assert rated.choices[0].logprobs.content is not None
    assert [len(token.top_logprobs) for token in rated.choices[0].logprobs.content] == [3, 3]


async def test_completion(client: AsyncOpenAI) -> None:
    text = await client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=4)
    assert text.choices[0].text


async def test_response_whole_and_in_pieces(client: AsyncOpenAI) -> None:
    whole = await client.responses.create(
        model=MODEL, input=QUESTION, instructions="Be short.", max_output_tokens=12, temperature=0
    )
    assert (whole.status, whole.error) == ("incomplete", None)
    assert whole.incomplete_details is not None
    assert whole.incomplete_details.reason == "max_output_tokens"
    assert whole.usage is not None
    assert whole.usage.output_tokens == 12
    async with client.responses.stream(
        model=MODEL, input=QUESTION, instructions="Be short.", max_output_tokens=12, temperature=0
    ) as stream:
        streamed = "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])
    assert streamed == whole.output_text


async def test_function_of_a_response_is_called(client: AsyncOpenAI) -> None:
    async with client.responses.stream(
        model=MODEL, input=CALL_IT, tools=[FUNCTION], temperature=0, max_output_tokens=60
    ) as stream:
        response = await stream.get_final_response()
    calls = [item for item in response.output if item.type == "function_call"]
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [("weather", {"city": "Paris"})]
    final_answer = await client.responses.create(
        model=MODEL,
        input=[
            {"role": "user", "content": CALL_IT},
            {"type": "function_call", "call_id": calls[0].call_id, "name": "weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": calls[0].call_id, "output": "It rains."},
        ],
        tools=[FUNCTION],
        max_output_tokens=8,
    )
    assert final_answer.output_text


async def test_response_with_a_schema_and_logprobs(client: AsyncOpenAI) -> None:
    answer = await client.responses.create(
        model=MODEL,
        input=QUESTION,
        max_output_tokens=60,
        temperature=0,
        text={"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}},
    )
    assert set(json.loads(answer.output_text)) == {"name", "age"}
    rated = await client.responses.create(
        model=MODEL, input=QUESTION, max_output_tokens=2, top_logprobs=2, include=["message.output_text.logprobs"]
    )
    message = rated.output[0]
    assert message.type == "message"
    assert message.content[0].type == "output_text"
    assert message.content[0].logprobs is not None
    assert len(message.content[0].logprobs) == 2


@pytest.mark.usefixtures("encoder")
async def test_embeddings_know_what_is_alike(client: AsyncOpenAI) -> None:
    answer = await client.embeddings.create(model="minilm", input=["a cat", "a kitten", "the stock market"])
    cat, kitten, stocks = (row.embedding for row in answer.data)

    def likeness(one: list[float], two: list[float]) -> float:
        return sum(a * b for a, b in zip(one, two, strict=True))

    assert likeness(cat, kitten) > likeness(cat, stocks)


@pytest.mark.usefixtures("piper", "whisper")
async def test_synthesised_speech_is_transcribed_word_for_word(client: AsyncOpenAI) -> None:
    spoken = await client.audio.speech.create(model="piper-joe", voice="joe", input=SENTENCE, response_format="wav")
    sound = spoken.content
    assert sound.startswith(b"RIFF")
    transcript = await client.audio.transcriptions.create(
        model="whisper-1", file=("a.wav", io.BytesIO(sound)), language="en"
    )
    assert_is_sentence(transcript.text)
    with pytest.warns(DeprecationWarning, match="deprecated"):
        english = await client.audio.translations.create(model="whisper-base", file=("a.wav", io.BytesIO(sound)))
    assert_is_sentence(english.text)


@pytest.mark.usefixtures("reranker")
async def test_documents_are_ranked(client: AsyncOpenAI) -> None:
    body = {"model": "reranker", "query": "a cat", "documents": ["a cat", "the dog", "x"], "top_n": 2}
    answer = await client.post("/rerank", cast_to=dict[str, object], body=body)
    ranked = answer["results"]
    assert isinstance(ranked, list)
    assert len(ranked) == 2
    assert ranked[0]["relevance_score"] >= ranked[1]["relevance_score"]


async def test_errors_have_the_classes_that_programs_expect(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.responses.create(model="smollm", input="x")
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="ck_wrong").responses.create(model=MODEL, input="x")
    with pytest.raises(openai.BadRequestError, match="web_search"):
        await client.responses.create(model=MODEL, input="x", tools=[{"type": "web_search"}])
    with pytest.raises(openai.BadRequestError, match="it is for chat, completions"):
        await client.images.generate(model=MODEL, prompt="a horse")
    with pytest.raises(openai.BadRequestError, match="it is for chat, completions"):
        await client.embeddings.create(model=MODEL, input="x")
    # The engine's own refusal: more than its context holds.
    with pytest.raises(openai.BadRequestError, match="context"):
        await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "word " * 4000}])


async def test_client_that_leaves_lets_the_engine_go(client: AsyncOpenAI, scene: Stage) -> None:
    stream = await client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=500, stream=True)
    async for _ in stream:
        break
    await stream.close()
    response = await client.responses.create(model=MODEL, input=QUESTION, max_output_tokens=500, stream=True)
    async for event in response:
        if event.type == "response.output_text.delta":
            break
    await response.close()

    async def nothing_is_under_way() -> bool:
        return scene.in_flight() == 0

    await eventually(nothing_is_under_way)


async def test_64_at_a_time_are_all_answered(client: AsyncOpenAI) -> None:
    async def one(number: int) -> str:
        if number % 2:
            answer = await client.responses.create(model=MODEL, input=QUESTION, max_output_tokens=2, temperature=0)
            return answer.output_text
        chat = await client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=2, temperature=0)
        return chat.choices[0].message.content or ""

    answers = await asyncio.gather(*(one(number) for number in range(AT_A_TIME)))
    assert len(answers) == AT_A_TIME
    assert all(answers)


@pytest.mark.usefixtures("piper", "whisper")
async def test_transcription_is_streamed_to_the_client_from_speech_in_the_default_format(client: AsyncOpenAI) -> None:
    spoken = await client.audio.speech.create(model="piper-en-us-joe", voice="joe", input=SENTENCE)
    stream = await client.audio.transcriptions.create(
        model="whisper-1", file=("a.mp3", io.BytesIO(spoken.content)), language="en", stream=True
    )
    events = [event async for event in stream]
    assert_is_sentence("".join(one.delta for one in events if one.type == "transcript.text.delta"))
    assert events[-1].type == "transcript.text.done"


async def test_logprobs_of_a_completion_have_the_form_that_the_client_reads(client: AsyncOpenAI) -> None:
    answer = await client.completions.create(model=MODEL, prompt="Once upon a", max_tokens=3, logprobs=2, temperature=0)
    found = answer.choices[0].logprobs
    assert found is not None
    assert found.tokens is not None
    assert "".join(found.tokens) == answer.choices[0].text
    assert found.text_offset is not None
    assert [
        answer.choices[0].text[offset:].startswith(token)
        for offset, token in zip(found.text_offset, found.tokens, strict=True)
    ] == [True] * 3
    assert [len(top) for top in found.top_logprobs or []] == [2, 2, 2]
    with pytest.raises(openai.BadRequestError, match="has no logprobs of prompts"):
        await client.completions.create(model=MODEL, prompt="Once upon a", max_tokens=1, logprobs=1, echo=True)


async def test_choices_are_generated_up_to_the_limit_and_refused_above_it(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=2, n=2)
    assert [choice.index for choice in answer.choices] == [0, 1]
    with pytest.raises(openai.BadRequestError, match="at most 4 choices at a time, and 5 were requested") as refused:
        await client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=2, n=5)
    assert (refused.value.code, refused.value.param) == ("too_many_choices", "n")


async def test_picture_for_a_text_model_is_a_bad_request(client: AsyncOpenAI) -> None:
    pixel = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    picture: list[ChatCompletionMessageParam] = [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": pixel}}]}
    ]
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(model=MODEL, messages=picture, max_tokens=2)
    assert refused.value.code == "image_input_not_supported"
