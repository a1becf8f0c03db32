"""`echo` of completions on an engine that ignores it: the prompt comes in front of each completion."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from typing import Any

import pytest
from openai import AsyncOpenAI

from corral.policy.serving.response_rewriter import PromptEcho, ResponseRewriter
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
        index: said + texts[index] for index, said in enumerate(prompts)
    }
    assert echoed.usage is not None
    assert plain.usage is not None
    assert echoed.usage.total_tokens == plain.usage.total_tokens
    first, second = listed.records
    assert (second.prompt_tokens, second.completion_tokens) == (first.prompt_tokens, first.completion_tokens)


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


def test_choice_that_ends_without_a_text_has_its_prompt() -> None:
    rewriter = ResponseRewriter(echo=PromptEcho(prompts=("a prompt",)))
    event = {"choices": [{"index": 0, "text": None, "finish_reason": "stop"}]}
    written = rewriter.rewrite_events(b"data: " + json.dumps(event).encode() + b"\n\n")
    assert json.loads(written.removeprefix(b"data: "))["choices"][0]["text"] == "a prompt"


@pytest.mark.parametrize("body", [b"not JSON", b"[1]", b'{"choices":[{"index":7,"text":"x"}]}', b'{"choices":[3]}'])
def test_answer_without_a_choice_of_these_prompts_stays_as_it_is(body: bytes) -> None:
    assert ResponseRewriter(echo=PromptEcho(prompts=("a",))).rewrite(body) == body
