"""Usage of answers with several choices: all of them count, for the client and for the meter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from corral.domain.usage import RequestRecord
from corral.policy.serving.response_rewriter import ChoiceCounter, ResponseRewriter
from corral.policy.serving.token_usage import UNKNOWN_USAGE, TokenUsage
from tests.engines.engine_processes import Engine
from tests.serving.scene import serve
from tests.support.frontends import RunningFrontend
from tests.support.polling import eventually

QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]


class RecordList:
    def __init__(self, frontend: RunningFrontend) -> None:
        self.records: list[RequestRecord] = []
        frontend.core.gateway.listeners.append(self)

    def on_requests_ended(self, *records: RequestRecord) -> None:
        self.records.extend(records)


async def test_whole_chat_counts_the_tokens_of_all_choices(
    frontend: RunningFrontend, engine: Engine, client: AsyncOpenAI
) -> None:
    await serve(frontend, engine)
    listed = RecordList(frontend)
    answer = await client.chat.completions.create(model="chat", messages=QUESTION, n=3, max_tokens=4)
    assert len(answer.choices) == 3
    assert answer.usage is not None
    assert (answer.usage.completion_tokens, answer.usage.total_tokens) == (12, answer.usage.prompt_tokens + 12)
    (record,) = listed.records
    assert (record.completion_tokens, record.prompt_tokens) == (12, answer.usage.prompt_tokens)
    assert not record.is_estimated


async def test_chat_stream_ends_with_the_tokens_of_all_choices(
    frontend: RunningFrontend, engine: Engine, client: AsyncOpenAI
) -> None:
    await serve(frontend, engine)
    listed = RecordList(frontend)
    stream = await client.chat.completions.create(
        model="chat", messages=QUESTION, n=2, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    words = [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.delta.content]
    usage = chunks[-1].usage
    assert usage is not None
    assert (usage.completion_tokens, usage.total_tokens) == (len(words), usage.prompt_tokens + len(words))
    assert [(one.completion_tokens, one.is_estimated) for one in listed.records] == [(len(words), False)]


async def test_meter_counts_all_choices_of_a_stream_when_its_client_asks_for_no_usage(
    frontend: RunningFrontend, engine: Engine, client: AsyncOpenAI
) -> None:
    await serve(frontend, engine)
    listed = RecordList(frontend)
    stream = await client.completions.create(model="chat", prompt="Hello", n=2, max_tokens=4, stream=True)
    assert [chunk async for chunk in stream]
    assert [(one.completion_tokens, one.is_estimated) for one in listed.records] == [(8, False)]


async def test_meter_counts_the_unfinished_choice_when_a_client_leaves_a_stream(
    frontend: RunningFrontend, engine: Engine, client: AsyncOpenAI
) -> None:
    await serve(frontend, engine)
    await engine.post("/_control", {"tokens_per_s": 100})
    listed = RecordList(frontend)
    words = 0
    async with await client.completions.create(
        model="chat", prompt="Hello", n=2, max_tokens=100, stream=True, extra_body={"ignore_eos": True}
    ) as stream:
        async for chunk in stream:
            words += bool(chunk.choices[0].text)
            if words == 110:
                break

    async def is_counted() -> bool:
        return bool(listed.records)

    await eventually(is_counted)
    (record,) = listed.records
    assert record.completion_tokens is not None
    assert record.completion_tokens >= 110
    assert record.is_estimated


def _whole(choices: list[dict[str, Any]], completion: int = 10, **more: Any) -> bytes:
    usage = {"prompt_tokens": 3, "completion_tokens": completion, "total_tokens": 3 + completion}
    return json.dumps({"choices": choices, "usage": usage} | more).encode()


def _choice(index: int, text: str, finish: str = "stop", **more: Any) -> dict[str, Any]:
    return {"index": index, "message": {"content": text}, "finish_reason": finish} | more


def test_tokens_of_a_choice_are_estimated_by_its_text_when_only_the_first_is_reported() -> None:
    counter = ChoiceCounter()
    body = _whole([_choice(0, "a" * 40), _choice(1, "b" * 20), _choice(2, "")], timings={"predicted_n": 10})
    assert json.loads(ResponseRewriter(choices=counter).rewrite(body))["usage"]["completion_tokens"] == 10 + 5 + 1
    assert counter.is_estimated
    assert counter.make_total(TokenUsage(prompt=3, completion=10)) == TokenUsage(prompt=3, completion=16)


def test_tokens_of_a_choice_are_counted_when_its_logprobs_list_them() -> None:
    counter = ChoiceCounter()
    logprobs = {"content": [{"token": "x"}] * 7}
    body = _whole([_choice(0, "a" * 40), _choice(1, "b", logprobs=logprobs)], timings={"predicted_n": 10})
    assert json.loads(ResponseRewriter(choices=counter).rewrite(body))["usage"]["completion_tokens"] == 17
    assert not counter.is_estimated


@pytest.mark.parametrize(
    "body",
    [
        # vLLM and OpenAI tell the sum of all choices.
        _whole([_choice(0, "a"), _choice(1, "b")], completion=10),
        _whole([_choice(0, "a"), _choice(1, "b")], completion=10, timings={"predicted_n": 4}),
        _whole([_choice(0, "a")], timings={"predicted_n": 10}),
        b'{"choices":[{"index":1}], "timings":',
        b'{"choices":{"index":1}, "timings":{}}',
        b'{"choices":[{"index":1}, 2, null], "usage":7, "timings":[]}',
    ],
)
def test_answer_stays_as_it_is_when_its_usage_is_not_that_of_the_first_choice(body: bytes) -> None:
    counter = ChoiceCounter()
    assert ResponseRewriter(choices=counter).rewrite(body) == body
    assert counter.make_total(UNKNOWN_USAGE) == UNKNOWN_USAGE


def test_stream_stays_as_it_is_when_its_engine_tells_the_sum_of_all_choices() -> None:
    counter = ChoiceCounter()
    events = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9}}\n\ndata: [DONE]\n\n'
    assert ResponseRewriter(choices=counter).rewrite_events(events) == events
    assert counter.make_total(UNKNOWN_USAGE) == UNKNOWN_USAGE


def test_choice_of_a_stream_is_counted_once_when_its_engine_tells_times_with_every_token() -> None:
    """llama.cpp does with `timings_per_token`."""
    counter = ChoiceCounter()
    rewriter = ResponseRewriter(choices=counter)
    for index in (0, 1):
        for count in (1, 2, 3):
            rewriter.rewrite_events(_event(index, count))
        rewriter.rewrite_events(_event(index, 3, "stop"))
        rewriter.rewrite_events(_event(index, 3, usage={"prompt_tokens": 3, "completion_tokens": 3}))
    assert counter.make_total(UNKNOWN_USAGE).completion == 6


def _event(index: int, count: int, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": index, "delta": {}, "finish_reason": finish}
    body = {"choices": [] if more else [choice], "timings": {"predicted_n": count}} | more
    return b"data: " + json.dumps(body).encode() + b"\n\n"
