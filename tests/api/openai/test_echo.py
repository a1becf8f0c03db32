"""`echo` of completions on an engine that ignores it: the prompt comes in front of each completion."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from typing import Any

import pytest
from openai import AsyncOpenAI

from corral.policy.serving.response_rewriter import PromptEcho, ResponseRewriter
from tests.api.dialects.recorder import recorder
from tests.api.dialects.streams import on_the_wire
from tests.api.openai.test_choices import RecordList
from tests.engines.engine_processes import Engine
from tests.serving.scene import serve
from tests.support.frontends import ADMIN_KEY, RunningFrontend

PROMPTS = ["the one", "a wörd of people"]
AUTHORISED = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}


@pytest.mark.parametrize("prompt", [PROMPTS[0], PROMPTS[:1], PROMPTS], ids=["text", "list of one", "list of two"])
async def test_completion_begins_with_its_prompt(
    frontend: RunningFrontend, llama: Engine, client: AsyncOpenAI, prompt: Any
) -> None:
    await serve(frontend, llama, backend="llama-cpp")
    listed = RecordList(frontend)
    request: dict[str, Any] = {"model": "chat", "prompt": prompt, "max_tokens": 4, "temperature": 0}
    plain = await client.completions.create(**request)
    echoed = await client.completions.create(**request, echo=True)
    prompts = [prompt] if isinstance(prompt, str) else prompt
    texts = {choice.index: choice.text for choice in plain.choices}
    assert {choice.index: choice.text for choice in echoed.choices} == {
        index: own_prompt + texts[index] for index, own_prompt in enumerate(prompts)
    }
    assert echoed.usage is not None
    assert plain.usage is not None
    assert echoed.usage.total_tokens == plain.usage.total_tokens
    first, second = listed.records
    assert (second.prompt_tokens, second.completion_tokens) == (first.prompt_tokens, first.completion_tokens)


@pytest.mark.parametrize("prompt", [PROMPTS[0], PROMPTS], ids=["text", "list"])
@pytest.mark.parametrize("n", [1, 2])
async def test_completion_of_no_tokens_is_its_prompt_alone(
    frontend: RunningFrontend, llama: Engine, client: AsyncOpenAI, prompt: Any, n: int
) -> None:
    """llama.cpp generates one token for `max_tokens: 0`."""
    await serve(frontend, llama, backend="llama-cpp")
    listed = RecordList(frontend)
    answer = await client.completions.create(model="chat", prompt=prompt, n=n, max_tokens=0, echo=True)
    prompts = [prompt] if isinstance(prompt, str) else prompt
    assert [choice.text for choice in sorted(answer.choices, key=lambda one: one.index)] == [
        own_prompt for own_prompt in prompts for _ in range(n)
    ]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens > 0
    (record,) = listed.records
    assert (record.prompt_tokens, record.completion_tokens) == (answer.usage.prompt_tokens, 0)


@pytest.mark.parametrize("prompt", [PROMPTS[0], PROMPTS], ids=["text", "list"])
async def test_stream_of_no_tokens_is_its_prompt_alone(
    frontend: RunningFrontend, llama: Engine, client: AsyncOpenAI, prompt: Any
) -> None:
    await serve(frontend, llama, backend="llama-cpp")
    listed = RecordList(frontend)
    stream = await client.completions.create(
        model="chat", prompt=prompt, max_tokens=0, echo=True, stream=True, stream_options={"include_usage": True}
    )
    texts: dict[int, str] = defaultdict(str)
    chunks = [chunk async for chunk in stream]
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == dict(enumerate([prompt] if isinstance(prompt, str) else prompt))
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.completion_tokens == 0
    assert usage.total_tokens == usage.prompt_tokens > 0
    (record,) = listed.records
    assert (record.prompt_tokens, record.completion_tokens) == (usage.prompt_tokens, 0)
    assert not record.is_estimated


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_first_chunk_of_each_choice_of_a_stream_carries_its_prompt(
    frontend: RunningFrontend, llama: Engine, is_chunked: bool
) -> None:
    """A body in chunks is answered by the server instead of the gateway's own protocol."""
    await serve(frontend, llama, backend="llama-cpp")
    body = json.dumps(
        {"model": "chat", "prompt": PROMPTS, "n": 2, "max_tokens": 3, "stream": True, "echo": True}
    ).encode()

    async def pieces() -> Any:
        yield body

    data: Any = pieces() if is_chunked else body
    async with frontend.http.post(f"{frontend.url}/v1/completions", data=data, headers=AUTHORISED) as answer:
        *events, end, rest = (await answer.text()).split("\n\n")
    assert (answer.status, end, rest) == (200, "data: [DONE]", "")
    texts: dict[int, list[str]] = defaultdict(list)
    for event in events:
        (choice,) = json.loads(event.removeprefix("data: "))["choices"]
        texts[choice["index"]].append(choice["text"])
    assert sorted(texts) == [0, 1, 2, 3]
    for index, pieces_of_one in texts.items():
        prompt = PROMPTS[index // 2]
        assert pieces_of_one[0].startswith(prompt)
        assert prompt not in "".join(pieces_of_one[1:])


@pytest.mark.parametrize(
    "more",
    [{"logprobs": 1}, {"logprobs": 0}, {"prompt": [1, 2, 3]}, {"prompt": [[1], [2]]}, {"prompt": []}, {"prompt": None}],
)
async def test_echo_of_logprobs_and_of_token_ids_is_refused_by_name(
    frontend: RunningFrontend, engine: Engine, more: dict[str, Any]
) -> None:
    await serve(frontend, engine, backend="llama-cpp")
    body = {"model": "chat", "prompt": "Hello", "echo": True} | more
    status, answer = await frontend.call("POST", "/v1/completions", body)
    assert (status, answer["error"]["code"]) == (400, "echo_not_supported")


@pytest.mark.parametrize(("kib", "status"), [(100, 200), (1025, 400)])
async def test_prompt_of_more_than_a_mebibyte_is_not_repeated(
    frontend: RunningFrontend, engine: Engine, kib: int, status: int
) -> None:
    await serve(frontend, engine, backend="llama-cpp")
    await engine.post("/_control", {"context_size": 1_000_000})
    prompt = "word and " * (kib * 1024 // 9)
    prompt += "!" * (kib * 1024 - len(prompt))
    body = {"model": "chat", "prompt": prompt, "max_tokens": 1, "echo": True}
    data = io.BytesIO(json.dumps(body).encode())
    async with frontend.http.post(f"{frontend.url}/v1/completions", data=data, headers=AUTHORISED) as answer:
        found = await answer.json()
    assert answer.status == status
    assert status == 400 or found["choices"][0]["text"].startswith(prompt)


def _logprobs(*tokens: str) -> dict[str, Any]:
    offsets = [len("".join(tokens[:place])) for place in range(len(tokens))]
    return {
        "tokens": list(tokens),
        "token_logprobs": [None, *[-1.0] * (len(tokens) - 1)],
        "top_logprobs": [None, *[{token: -1.0} for token in tokens[1:]]],
        "text_offset": offsets,
    }


@pytest.mark.parametrize("more", [("er",), ()], ids=["one token more", "the prompt alone"])
async def test_engine_with_echo_of_its_own_gives_the_logprobs_of_the_prompt_alone(
    frontend: RunningFrontend, more: tuple[str, ...]
) -> None:
    """Engines differ in what they generate for `max_tokens: 0`, and count one token."""
    tokens, listed = ("a ", "wörd"), RecordList(frontend)
    choice = {"index": 0, "text": "".join(tokens + more), "logprobs": _logprobs(*tokens, *more)}
    usage = {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}
    body = {"model": "chat", "prompt": "a wörd", "max_tokens": 0, "echo": True, "logprobs": 1}
    async with recorder(frontend, "vllm") as engine:
        engine.answers["/v1/completions"] = (200, {"choices": [choice | {"finish_reason": "length"}], "usage": usage})
        status, answer = await frontend.call("POST", "/v1/completions", body)
    assert status == 200
    assert answer["choices"] == [
        {"index": 0, "text": "a wörd", "logprobs": _logprobs(*tokens), "finish_reason": "length"}
    ]
    assert answer["usage"] == {"prompt_tokens": 2, "completion_tokens": 0, "total_tokens": 2}
    assert [(one.prompt_tokens, one.completion_tokens) for one in listed.records] == [(2, 0)]


async def test_stream_of_an_engine_with_echo_of_its_own_ends_with_the_prompt(frontend: RunningFrontend) -> None:
    """The prompt comes in two chunks, and the second one goes on behind it."""
    tokens = ("a ", "wörd", "er")
    events = [
        {"choices": [{"index": 0, "text": "a ", "logprobs": _logprobs("a ")}]},
        {"choices": [{"index": 0, "text": "wörder", "logprobs": _logprobs("wörd", "er")}]},
        {"choices": [{"index": 0, "text": "s", "logprobs": _logprobs("s"), "finish_reason": "length"}]},
    ]
    listed = RecordList(frontend)
    body = {"model": "chat", "prompt": "a wörd", "max_tokens": 0, "echo": True, "logprobs": 1, "stream": True}
    async with recorder(frontend, "vllm") as engine:
        engine.streams["/v1/completions"] = on_the_wire(events)
        async with frontend.http.post(f"{frontend.url}/v1/completions", json=body, headers=AUTHORISED) as answer:
            *written, end, rest = (await answer.text()).split("\n\n")
    assert (end, rest) == ("data: [DONE]", "")
    choices = [json.loads(event.removeprefix("data: "))["choices"][0] for event in written]
    assert [choice["text"] for choice in choices] == [*tokens[:2], ""]
    assert [choice["logprobs"]["tokens"] for choice in choices] == [["a "], ["wörd"], []]
    assert [record.completion_tokens for record in listed.records] == [0]


@pytest.mark.parametrize(
    ("more", "completion_tokens"),
    [
        ({"prompt": [1, 2], "max_tokens": 0}, 0),
        ({"prompt": [[1, 2]], "max_tokens": 0}, 0),
        ({"prompt": "another", "max_tokens": 0}, 0),
        ({"max_tokens": 1}, 1),
        ({"max_tokens": None}, 1),
        ({"max_tokens": 0, "echo": False}, 1),
    ],
)
async def test_text_of_an_engine_with_echo_of_its_own_is_left_to_it_otherwise(
    frontend: RunningFrontend, more: dict[str, Any], completion_tokens: int
) -> None:
    """The text of token ids is not known here, and an engine may write a prompt otherwise."""
    choices = [{"index": 0, "text": "a wörder", "finish_reason": "length"}]
    usage = {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}
    body = {"model": "chat", "prompt": "a wörd", "echo": True} | more
    async with recorder(frontend, "vllm") as engine:
        engine.answers["/v1/completions"] = (200, {"choices": choices, "usage": usage})
        status, answer = await frontend.call("POST", "/v1/completions", body)
    assert (status, answer["choices"]) == (200, choices)
    assert answer["usage"] == usage | {"completion_tokens": completion_tokens, "total_tokens": 2 + completion_tokens}


def test_choice_that_ends_without_a_text_has_its_prompt() -> None:
    rewriter = ResponseRewriter(echo=PromptEcho(prompts=("a prompt",)))
    event = {"choices": [{"index": 0, "text": None, "finish_reason": "stop"}]}
    written = rewriter.rewrite_events(b"data: " + json.dumps(event).encode() + b"\n\n")
    assert json.loads(written.removeprefix(b"data: "))["choices"][0]["text"] == "a prompt"


@pytest.mark.parametrize("body", [b"not JSON", b"[1]", b'{"choices":[{"index":7,"text":"x"}]}', b'{"choices":[3]}'])
def test_answer_without_a_choice_of_these_prompts_stays_as_it_is(body: bytes) -> None:
    assert ResponseRewriter(echo=PromptEcho(prompts=("a",))).rewrite(body) == body
