"""Usage of completions with a list of prompts: all of them count, for the client and for the meter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import AsyncOpenAI

from corral.policy.serving.response_rewriter import ChoiceCounter, PromptSizes, make_rewriter, measure_prompts
from corral.policy.serving.token_usage import TokenUsage
from tests.api.openai.test_choices import RecordList
from tests.engines.engine_processes import Engine
from tests.serving.scene import serve
from tests.support.frontends import RunningFrontend
from tests.support.polling import eventually

# 2, 3 and 1 words, which are the tokens of the fake engine.
PROMPTS = ["the one", "word after word", "is"]


async def test_whole_answer_estimates_the_prompts_after_the_first_and_says_so(
    frontend: RunningFrontend, engine: Engine, client: AsyncOpenAI
) -> None:
    """The engine reports the two tokens of the first prompt, which has 7 characters; the others have 17."""
    await serve(frontend, engine)
    listed = RecordList(frontend)
    answer = await client.completions.create(model="chat", prompt=PROMPTS, max_tokens=4)
    assert answer.usage is not None
    usage = answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens
    assert usage == (2 + 5, 12, 19)
    (record,) = listed.records
    assert (record.prompt_tokens, record.completion_tokens, record.is_estimated) == (7, 12, True)


async def test_stream_ends_with_the_exact_tokens_of_all_prompts(
    frontend: RunningFrontend, engine: Engine, client: AsyncOpenAI
) -> None:
    await serve(frontend, engine)
    listed = RecordList(frontend)
    stream = await client.completions.create(
        model="chat", prompt=PROMPTS, n=2, max_tokens=4, stream=True, stream_options={"include_usage": True}
    )
    usage = [chunk async for chunk in stream][-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (6, 24, 30)
    (record,) = listed.records
    assert (record.prompt_tokens, record.completion_tokens, record.is_estimated) == (6, 24, False)


async def test_meter_counts_all_prompts_of_a_stream_when_its_client_asks_for_no_usage(
    frontend: RunningFrontend, engine: Engine, client: AsyncOpenAI
) -> None:
    await serve(frontend, engine)
    listed = RecordList(frontend)
    stream = await client.completions.create(model="chat", prompt=PROMPTS, max_tokens=4, stream=True)
    assert [chunk async for chunk in stream]
    assert [(one.prompt_tokens, one.is_estimated) for one in listed.records] == [(6, False)]


async def test_meter_counts_every_prompt_when_a_client_leaves_a_stream(
    frontend: RunningFrontend, engine: Engine, client: AsyncOpenAI
) -> None:
    """Only the first prompt has been reported by then."""
    await serve(frontend, engine)
    await engine.post("/_control", {"tokens_per_s": 100})
    listed = RecordList(frontend)
    async with await client.completions.create(
        model="chat", prompt=PROMPTS, max_tokens=100, stream=True, extra_body={"ignore_eos": True}
    ) as stream:
        async for chunk in stream:
            if chunk.choices[0].index == 1:
                break

    async def is_counted() -> bool:
        return bool(listed.records)

    await eventually(is_counted)
    (record,) = listed.records
    assert record.prompt_tokens is not None
    assert record.prompt_tokens >= 6
    assert record.is_estimated


async def test_llama_cpp_reports_the_tokens_of_all_prompts_through_the_frontend(
    frontend: RunningFrontend, llama: Engine, client: AsyncOpenAI
) -> None:
    await serve(frontend, llama, backend="llama-cpp")
    exact = 0
    for prompt in PROMPTS:
        one = await client.completions.create(model="chat", prompt=prompt, max_tokens=1)
        assert one.usage is not None
        exact += one.usage.prompt_tokens
    listed = RecordList(frontend)
    stream = await client.completions.create(
        model="chat", prompt=PROMPTS, max_tokens=2, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert None not in chunks, "an event without contents breaks the client"
    usage = chunks[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (exact, 6)
    ids = [[5, 6, 7], [8, 9]]
    whole = await client.completions.create(model="chat", prompt=ids, max_tokens=2)
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == 5
    reported = [(one.prompt_tokens, one.is_estimated) for one in listed.records]
    assert reported == [(exact, False), (5, False)]


def _body(prompt: Any, **more: Any) -> bytes:
    return json.dumps({"model": "chat", "prompt": prompt} | more).encode()


@pytest.mark.parametrize(
    ("prompt", "sizes"),
    [
        (["abcd", "ab", "abcdef"], PromptSizes(first=4, others=8)),
        ([[1, 2, 3], [4, 5]], PromptSizes(other_tokens=2)),
        (["abcd", [1, 2]], PromptSizes(first=4, other_tokens=2)),
        ([1, 2, 3], PromptSizes()),
        (["one", 2], PromptSizes()),
        ("text", PromptSizes()),
        ([], PromptSizes()),
    ],
)
def test_prompts_of_a_request_are_measured_by_their_form(prompt: Any, sizes: PromptSizes) -> None:
    assert measure_prompts(_body(prompt)) == sizes


@pytest.mark.parametrize(
    ("prompts", "first_tokens", "total"),
    [
        (["word " * 5_000] * 4, 5_000, 20_000),
        ([[100 + number % 900 for number in range(10_000)]] * 3, 10_000, 30_000),
    ],
)
def test_prompts_of_a_large_request_are_measured_by_their_bytes(
    prompts: list[Any], first_tokens: int, total: int
) -> None:
    found = measure_prompts(_body(prompts)).estimate_total(first_tokens)
    assert found == pytest.approx(total, rel=0.01)


def test_large_request_whose_first_prompt_is_very_long_is_estimated_by_its_bytes() -> None:
    sizes = measure_prompts(_body(["word " * 40_000, "more"]))
    assert sizes.estimate_total(40_000) > 40_000


def test_prompt_with_the_name_of_a_field_in_it_does_not_count_as_that_field() -> None:
    body = _body(['"n": 3', "b"])
    rewriter = make_rewriter("completions", body, None)
    assert rewriter is not None
    assert rewriter.choices is not None
    for index in (0, 1):
        choice = {"index": index, "text": "", "finish_reason": "stop"}
        timings = {"prompt_n": 4, "cache_n": 1, "predicted_n": 2}
        rewriter.rewrite_events(b"data: " + json.dumps({"choices": [choice], "timings": timings}).encode() + b"\n\n")
    assert rewriter.choices.make_total(TokenUsage(prompt=5, completion=2)) == TokenUsage(prompt=10, completion=4)


def test_usage_of_one_prompt_stays_when_the_choices_share_it() -> None:
    counter = ChoiceCounter()
    timings = {"prompt_n": 5, "predicted_n": 2}
    for _ in range(2):
        usage = {"prompt_tokens": 5, "completion_tokens": 2}
        counter.apply_event({"choices": [], "usage": usage, "timings": timings})
    assert counter.make_total(TokenUsage(prompt=5, completion=2)) == TokenUsage(prompt=5, completion=4)
