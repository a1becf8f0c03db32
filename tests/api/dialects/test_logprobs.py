"""Logprobs of completions come in OpenAI's form on every way through the frontend, and echo is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral.api.openai.logprobs import LogprobsWriter
from tests.api.dialects.recorder import recorder
from tests.api.dialects.streams import on_the_wire
from tests.support.frontends import ADMIN_KEY, RunningFrontend

AUTHORISED = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
ASKED = {"model": "chat", "prompt": "Once upon a", "max_tokens": 2, "logprobs": 1}
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


@pytest.mark.behaviour("GW-226")
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_completion_has_logprobs_in_openais_form_when_the_engine_tells_them_as_a_chat(
    frontend: RunningFrontend, is_chunked: bool
) -> None:
    """A body in chunks is answered by the server instead of the gateway's own protocol."""

    async def pieces() -> Any:
        yield json.dumps(ASKED).encode()

    async with recorder(frontend, "llama-cpp") as engine:
        engine.answers["/v1/completions"] = (200, completion({"content": CONTENT}))
        body: Any = pieces() if is_chunked else json.dumps(ASKED)
        async with frontend.http.post(f"{frontend.url}/v1/completions", data=body, headers=AUTHORISED) as answer:
            told = await answer.json()
        assert (answer.status, told["choices"][0]["logprobs"]) == (200, EXPECTED)


@pytest.mark.behaviour("GW-226")
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_stream_of_a_completion_has_logprobs_in_openais_form_with_offsets_from_event_to_event(
    frontend: RunningFrontend, is_chunked: bool
) -> None:
    """A body in chunks is answered by the server instead of the gateway's own protocol."""
    asked = json.dumps(ASKED | {"stream": True})

    async def pieces() -> Any:
        yield asked.encode()

    async with recorder(frontend, "llama-cpp") as engine:
        engine.streams["/v1/completions"] = on_the_wire(completion({"content": [entry]}) for entry in CONTENT)
        body: Any = pieces() if is_chunked else asked
        async with frontend.http.post(f"{frontend.url}/v1/completions", data=body, headers=AUTHORISED) as answer:
            *events, end, rest = (await answer.text()).split("\n\n")
    assert (end, rest) == ("data: [DONE]", "")
    told = [json.loads(event.removeprefix("data: "))["choices"][0]["logprobs"] for event in events]
    assert [one["tokens"] for one in told] == [[token] for token in EXPECTED["tokens"]]
    assert [one["text_offset"] for one in told] == [[0], [5]]


@pytest.mark.behaviour("GW-226")
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
    assert LogprobsWriter().rewrite(body) == body


@pytest.mark.behaviour("GW-226")
@pytest.mark.parametrize(
    ("backend", "echo", "status"),
    [("llama-cpp", True, 400), ("llama-cpp", False, 200), ("of-somebody-else", True, 200)],
)
async def test_echo_is_refused_when_the_engine_would_leave_it_out(
    frontend: RunningFrontend, backend: str, echo: bool, status: int
) -> None:
    async with recorder(frontend, backend):
        found, answer = await frontend.call("POST", "/v1/completions", ASKED | {"echo": echo})
        assert found == status
        assert status == 200 or answer["error"]["code"] == "echo_not_supported"
