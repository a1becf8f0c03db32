"""Logprobs of completions come in OpenAI's form on every way through the frontend, and echo with them is refused."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Any

import pytest

from corral.policy.serving.response_rewriter import ChoiceCounter, LogprobsRewriter, ResponseRewriter
from tests.api.dialects.recorder import recorder
from tests.api.dialects.streams import on_the_wire
from tests.api.openai.test_choices import RecordList
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.polling import eventually

MIB = 1024 * 1024
AUTHORISED = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
COMPLETION = {"model": "chat", "prompt": "Once upon a", "max_tokens": 2, "logprobs": 1}
CONTENT = [
    {
        "id": 655,
        "token": " time",
        "bytes": [32, 116, 105, 109, 101],
        "logprob": -1.5,
        "top_logprobs": [{"token": " time", "bytes": [32, 116, 105, 109, 101], "logprob": -1.5}],
    },
    {"id": 9, "token": "\ufffd", "bytes": [226, 128], "logprob": -0.5, "top_logprobs": []},
]
EXPECTED: dict[str, Any] = {
    "tokens": [" time", "bytes:\\xe2\\x80"],
    "token_logprobs": [-1.5, -0.5],
    "top_logprobs": [{" time": -1.5}, {}],
    "text_offset": [0, 5],
}


def completion(logprobs: Any) -> dict[str, Any]:
    choice = {"index": 0, "text": " time…", "logprobs": logprobs, "finish_reason": "length"}
    return {"object": "text_completion", "choices": [choice]}


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_completion_has_logprobs_in_openais_form_when_the_engine_tells_them_as_a_chat(
    frontend: RunningFrontend, is_chunked: bool
) -> None:
    """A body in chunks is answered by the server instead of the gateway's own protocol."""

    async def pieces() -> Any:
        yield json.dumps(COMPLETION).encode()

    async with recorder(frontend, "llama-cpp") as engine:
        engine.answers["/v1/completions"] = (200, completion({"content": CONTENT}))
        body: Any = pieces() if is_chunked else json.dumps(COMPLETION)
        async with frontend.http.post(f"{frontend.url}/v1/completions", data=body, headers=AUTHORISED) as answer:
            response_body = await answer.json()
        assert (answer.status, response_body["choices"][0]["logprobs"]) == (200, EXPECTED)


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_stream_of_a_completion_has_logprobs_in_openais_form_with_offsets_from_event_to_event(
    frontend: RunningFrontend, is_chunked: bool
) -> None:
    """A body in chunks is answered by the server instead of the gateway's own protocol."""
    request_body = json.dumps(COMPLETION | {"stream": True})

    async def pieces() -> Any:
        yield request_body.encode()

    async with recorder(frontend, "llama-cpp") as engine:
        engine.streams["/v1/completions"] = on_the_wire(completion({"content": [entry]}) for entry in CONTENT)
        body: Any = pieces() if is_chunked else request_body
        async with frontend.http.post(f"{frontend.url}/v1/completions", data=body, headers=AUTHORISED) as answer:
            *events, end, rest = (await answer.text()).split("\n\n")
    assert (end, rest) == ("data: [DONE]", "")
    logprobs = [json.loads(event.removeprefix("data: "))["choices"][0]["logprobs"] for event in events]
    assert [one["tokens"] for one in logprobs] == [[token] for token in EXPECTED["tokens"]]
    assert [one["text_offset"] for one in logprobs] == [[0], [5]]


def large_completion(size_bytes: int) -> dict[str, Any]:
    """Two choices with logprobs of more than so many bytes."""
    entries = CONTENT * (size_bytes // len(json.dumps(CONTENT)) + 1)
    choices = [
        {"index": index, "text": "", "logprobs": {"content": entries}, "finish_reason": "stop"} for index in range(2)
    ]
    usage = {"prompt_tokens": 3, "completion_tokens": len(entries), "total_tokens": 3 + len(entries)}
    return {"choices": choices, "usage": usage, "timings": {"predicted_n": len(entries)}}


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_large_completion_is_rewritten_in_another_process_as_a_small_one_is_on_the_loop(
    frontend: RunningFrontend, is_chunked: bool
) -> None:
    """A body in chunks is answered by the server instead of the gateway's own protocol."""
    given = large_completion(12 * MIB)
    expected = json.loads(
        ResponseRewriter(choices=ChoiceCounter(), logprobs=LogprobsRewriter()).rewrite(json.dumps(given).encode())
    )

    async def pieces() -> Any:
        yield json.dumps(COMPLETION | {"n": 2}).encode()

    async with recorder(frontend, "llama-cpp") as engine:
        engine.answers["/v1/completions"] = (200, given)
        body: Any = pieces() if is_chunked else json.dumps(COMPLETION | {"n": 2})
        async with frontend.http.post(f"{frontend.url}/v1/completions", data=body, headers=AUTHORISED) as answer:
            response_body = await answer.json()
        assert answer.status == 200
        assert frontend.core.api_deps.compute.pid is not None
    assert response_body == expected
    assert response_body["usage"]["completion_tokens"] == 2 * given["usage"]["completion_tokens"]
    assert len(response_body["choices"][1]["logprobs"]["tokens"]) == given["usage"]["completion_tokens"]


async def test_frontend_answers_others_while_a_large_completion_is_rewritten(frontend: RunningFrontend) -> None:
    """The process stands still meanwhile, so nothing but the loop's own work is done."""
    ended = RecordList(frontend)
    async with recorder(frontend, "llama-cpp") as engine:
        engine.answers["/v1/completions"] = (200, large_completion(MIB))
        assert (await frontend.call("POST", "/v1/completions", COMPLETION | {"n": 2}))[0] == 200
        pid = frontend.core.api_deps.compute.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            large = asyncio.create_task(frontend.call("POST", "/v1/completions", COMPLETION | {"n": 2}))

            async def is_answered_by_engine() -> bool:
                return len(engine.requests) == 2

            await eventually(is_answered_by_engine)
            engine.answers["/v1/completions"] = (200, completion({"content": CONTENT}))
            for _ in range(20):
                assert (await frontend.call("POST", "/v1/completions", COMPLETION))[0] == 200
            assert not large.done()
        finally:
            os.kill(pid, signal.SIGCONT)
        assert (await large)[0] == 200
    assert [record.status for record in ended.records] == [200] * 22
    assert ended.records[-1].completion_tokens == 2 * len(CONTENT) * (MIB // len(json.dumps(CONTENT)) + 1)


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices": [{"logprobs":  null}]}',
        b'{"choices": [{"logprobs": {"tokens":  ["a"]}}]}',
        b'{"logprobs"',
        b'["logprobs"]',
        b'{"choices": []}',
    ],
)
def test_completion_is_unchanged_when_its_logprobs_are_in_openais_form_or_absent(body: bytes) -> None:
    assert ResponseRewriter(logprobs=LogprobsRewriter()).rewrite(body) == body


@pytest.mark.parametrize(
    ("backend", "echo", "status"),
    [("llama-cpp", True, 400), ("llama-cpp", False, 200), ("of-somebody-else", True, 200)],
)
async def test_echo_with_logprobs_is_refused_when_the_engine_would_leave_it_out(
    frontend: RunningFrontend, backend: str, echo: bool, status: int
) -> None:
    async with recorder(frontend, backend):
        found, answer = await frontend.call("POST", "/v1/completions", COMPLETION | {"echo": echo})
        assert found == status
        assert status == 200 or answer["error"]["code"] == "echo_not_supported"
