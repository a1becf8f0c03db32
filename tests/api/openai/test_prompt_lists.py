"""Usage of completions with a list of prompts: all of them count, for the client and for the meter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import AsyncOpenAI

from corral.policy.serving.response_rewriter import (
    ChoiceCounter,
    PromptSizes,
    ResponseRewriter,
    make_rewriter,
    measure_prompts,
)
from corral.policy.serving.token_usage import TokenUsage
from tests.api.dialects.recorder import recorder
from tests.api.dialects.streams import on_the_wire
from tests.api.openai.test_choices import RecordList
from tests.engines.engine_processes import Engine
from tests.serving.scene import serve
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.polling import eventually

# 2, 3 and 1 words, which are the tokens of the fake engine.
PROMPTS = ["the one", "word after word", "is"]
AUTHORISED = {"Authorization": f"Bearer {ADMIN_KEY}"}


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


async def test_stream_ends_with_the_cached_tokens_of_all_prompts(frontend: RunningFrontend) -> None:
    """llama.cpp ends each choice with an event of this form."""
    listed, events = RecordList(frontend), []
    for index, (prompt, cached) in enumerate(((4, 3), (9, 0), (6, 5))):
        usage: dict[str, Any] = {"completion_tokens": 2, "prompt_tokens": prompt, "total_tokens": prompt + 2}
        usage |= {"prompt_tokens_details": {"cached_tokens": cached}}
        timings = {"cache_n": cached, "prompt_n": prompt - cached, "predicted_n": 2}
        choice = {"index": index, "text": "", "logprobs": None, "finish_reason": "length"}
        events.append({"choices": [choice], "usage": usage, "timings": timings})
    body = {"model": "chat", "prompt": PROMPTS, "max_tokens": 2, "stream": True}
    async with recorder(frontend, "llama-cpp") as engine:
        engine.streams["/v1/completions"] = on_the_wire(events)
        async with frontend.http.post(f"{frontend.url}/v1/completions", json=body, headers=AUTHORISED) as answer:
            *_, last, end, rest = (await answer.text()).split("\n\n")
    assert (end, rest) == ("data: [DONE]", "")
    usage = json.loads(last.removeprefix("data: "))["usage"]
    assert (usage["prompt_tokens"], usage["prompt_tokens_details"]) == (19, {"cached_tokens": 8})
    assert [(one.prompt_tokens, one.cached_tokens) for one in listed.records] == [(19, 8)]


async def test_whole_answer_has_no_cached_tokens_when_its_engine_tells_those_of_one_prompt(
    frontend: RunningFrontend, engine: Engine, client: AsyncOpenAI
) -> None:
    await serve(frontend, engine)
    await engine.post("/_control", {"cache_block": 1})
    listed = RecordList(frontend)
    for prompt in (PROMPTS, PROMPTS, PROMPTS[1], PROMPTS[1:2]):
        answer = await client.completions.create(model="chat", prompt=prompt, max_tokens=4)
        assert answer.usage is not None
        details = answer.usage.prompt_tokens_details
        cached = details.cached_tokens if details is not None else None
        assert cached == (None if prompt is PROMPTS else 2)
    assert [record.cached_tokens for record in listed.records] == [None, None, 2, 2]


def _stream_usages(counter: ChoiceCounter, *usages: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the usages as they leave the rewriter; each is that of one choice, with one token."""
    rewriter, written = ResponseRewriter(choices=counter), []
    for index, usage in enumerate(usages):
        event = {
            "choices": [{"index": index}],
            "usage": {"completion_tokens": 1} | usage,
            "timings": {"predicted_n": 1},
        }
        line = rewriter.rewrite_events(b"data: " + json.dumps(event).encode() + b"\n\n")
        written.append(json.loads(line.removeprefix(b"data: "))["usage"])
    return written


def _usage(prompt: int, **details: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "prompt_tokens_details": details}


def test_cached_tokens_of_a_prompt_count_once_when_its_choices_share_it() -> None:
    counter = ChoiceCounter(2)
    cached = [_usage(5, cached_tokens=4), _usage(5, cached_tokens=4), _usage(3, cached_tokens=0)]
    usage = _stream_usages(counter, *cached, _usage(3, cached_tokens=0))[-1]
    assert (usage["prompt_tokens"], usage["prompt_tokens_details"]) == (8, {"cached_tokens": 4})
    assert counter.make_total(TokenUsage(prompt=3, cached=0, completion=1)) == TokenUsage(8, 4, 4)


@pytest.mark.parametrize("is_silent_first", [False, True])
def test_cached_tokens_are_absent_when_the_engine_does_not_tell_those_of_every_prompt(is_silent_first: bool) -> None:
    counter = ChoiceCounter(1)
    reported, silent = _usage(5, cached_tokens=4, audio_tokens=1), {"prompt_tokens": 3}
    usage = _stream_usages(counter, *([silent, reported] if is_silent_first else [reported, silent, reported]))[-1]
    assert usage["prompt_tokens_details"] == {"audio_tokens": 1}
    assert counter.make_total(TokenUsage(prompt=5, cached=4, completion=1)).cached is None


def test_cached_tokens_are_added_up_by_times_when_the_engine_reports_no_usage() -> None:
    for first, total in (({"cache_n": 0}, 2), ({}, None)):
        counter = ChoiceCounter(1)
        for timings in (first, {"cache_n": 2}):
            choice = {"index": 0, "finish_reason": "stop"}
            counter.apply_event({"choices": [choice], "timings": {"prompt_n": 3, "predicted_n": 1} | timings})
        assert counter.make_total(TokenUsage(prompt=5, cached=2, completion=1)).cached == total


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
    assert rewriter.choices.make_total(TokenUsage(5, 1, 2)) == TokenUsage(prompt=10, cached=2, completion=4)


def test_usage_of_one_prompt_stays_when_the_choices_share_it() -> None:
    counter = ChoiceCounter()
    timings = {"prompt_n": 5, "predicted_n": 2}
    for _ in range(2):
        usage = {"prompt_tokens": 5, "completion_tokens": 2}
        counter.apply_event({"choices": [], "usage": usage, "timings": timings})
    assert counter.make_total(TokenUsage(prompt=5, completion=2)) == TokenUsage(prompt=5, completion=4)
