"""Whatever clients and engines send, what comes of it is an answer or a sentence, never a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.api.dialects import anthropic, ollama, responses
from corral.api.dialects.chat_completion import ChatEventParser, Translation
from corral.api.dialects.error_envelopes import ANTHROPIC, OLLAMA
from corral.api.dialects.translation_work import read_json
from corral.domain.errors import CorralError, InvalidRequest
from corral.ports.requests import EngineLost
from tests.api.dialects.streams import chunk, whole

MOMENT = ollama.OllamaClock(monotonic=lambda: 0.0, format_now=lambda: "")
# Words that mean something somewhere, so that nonsense gets deep.
_WORDS = st.sampled_from(
    [
        *(
            "text",
            "image",
            "tool_use",
            "tool_result",
            "user",
            "assistant",
            "system",
            "tool",
            "auto",
            "function",
            "base64",
        ),
        *(
            "input_text",
            "input_image",
            "function_call",
            "function_call_output",
            "message",
            "json_schema",
            "json",
            "enabled",
        ),
    ]
)
_NAMES = st.sampled_from(
    [
        *(
            "model",
            "messages",
            "input",
            "prompt",
            "system",
            "stream",
            "tools",
            "tool_choice",
            "options",
            "format",
            "role",
        ),
        *("content", "type", "text", "source", "data", "name", "id", "images", "tool_calls", "function", "arguments"),
        *(
            "max_tokens",
            "thinking",
            "output_config",
            "metadata",
            "include",
            "reasoning",
            "stop",
            "num_predict",
            "mirostat",
        ),
        *(
            "choices",
            "delta",
            "message",
            "finish_reason",
            "usage",
            "logprobs",
            "index",
            "error",
            "embedding",
            "timings",
        ),
        *("prompt_ms", "prompt_tokens", "prompt_tokens_details", "tool_call_id", "call_id", "schema", "raw", "think"),
    ]
)
_PLAIN = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=3) | _WORDS
JSON = st.recursive(
    _PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=5), max_leaves=25
)
OBJECTS = st.dictionaries(_NAMES, JSON, max_size=6)
HELLO = {"messages": [{"role": "user", "content": "a"}]}
READERS: dict[str, Callable[[dict[str, Any]], Translation]] = {
    "messages": lambda body: anthropic.parse_request(HELLO | {"max_tokens": 1} | body, model="m", answer_id="1"),
    "responses": lambda body: responses.parse_request({"input": "a"} | body, model="m", answer_id="1", created_at=1),
    "chat": lambda body: ollama.read_chat(HELLO | body, model="m", clock=MOMENT),
    "generate": lambda body: ollama.read_generate({"prompt": "a"} | body, model="m", clock=MOMENT),
}
readers = pytest.mark.parametrize("read", list(READERS.values()), ids=list(READERS))


def failure(work: Callable[[], object], kind: type[CorralError]) -> CorralError | None:
    """The error of this kind that it ends with, if it does. Any other is a crash."""
    try:
        work()
    except kind as error:
        return error
    return None


@pytest.mark.behaviour("GW-81")
@readers
@settings(max_examples=100, deadline=None)
@given(body=OBJECTS)
def test_request_is_translated_or_refused(read: Callable[[dict[str, Any]], Translation], body: dict[str, Any]) -> None:
    refused = failure(lambda: json.dumps(read(body).chat), InvalidRequest)
    assert refused is None or refused.message.endswith(".")


@pytest.mark.behaviour("GW-81")
@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("messages", {"messages": [{"role": "assistant", "content": [{"type": []}]}]}),
        ("messages", {"tool_choice": {"type": {}}}),
        ("responses", {"include": [[]]}),
        ("responses", {"input": [{"role": {}, "content": "a"}]}),
        ("chat", {"messages": [{"role": [], "content": "a"}]}),
        ("chat", {"options": {"mirostat": []}}),
    ],
)
def test_word_that_is_no_text_is_refused(dialect: str, body: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        READERS[dialect](body)


@pytest.mark.behaviour("GW-89")
@readers
@settings(max_examples=100, deadline=None)
@given(reply=OBJECTS)
def test_translation_of_any_response_succeeds_or_blames_the_engine(
    read: Callable[[dict[str, Any]], Translation], reply: dict[str, Any]
) -> None:
    translation = read({})
    odd: dict[str, Any] = {"logprobs": {"content": 5}, "timings": {"prompt_ms": float("inf")}}
    for answer in (reply, whole(reply), whole({"content": "a"}) | reply, whole({"content": "a"}, **odd) | odd):
        blamed = failure(lambda: json.dumps(translation.translate_response(answer)), EngineLost)  # noqa: B023 - called at once
        assert blamed is None or blamed.slug == "engine_garbage"


@pytest.mark.behaviour("GW-89")
@readers
@settings(max_examples=100, deadline=None)
@given(reply=st.lists(OBJECTS, max_size=4))
def test_translation_of_any_stream_succeeds_or_ends_with_an_error(
    read: Callable[[dict[str, Any]], Translation], reply: list[dict[str, Any]]
) -> None:
    stream = read({"stream": True}).begin_stream()

    def play() -> bytes:
        for one in reply:
            stream.translate_event(chunk(one))
            stream.translate_event(one)
        return stream.render_end()

    broken = failure(play, EngineLost)
    assert broken is None or stream.render_error(broken)


@pytest.mark.behaviour("GW-89")
@settings(max_examples=100, deadline=None)
@given(raw=st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()), status=st.integers(400, 599))
def test_garbage_from_an_engine_is_reported_as_engine_garbage(raw: bytes, status: int) -> None:
    for work in (lambda: read_json(raw), lambda: ChatEventParser().feed(b"data: " + raw + b"\n\n")):
        blamed = failure(work, EngineLost)
        assert blamed is None or blamed.slug == "engine_garbage"
    for envelope in (ANTHROPIC, OLLAMA):
        assert envelope.render_engine_error is not None
        assert json.loads(envelope.render_engine_error(status, raw, "r"))["error"]


@pytest.mark.behaviour("GW-89")
@settings(max_examples=100, deadline=None)
@given(body=OBJECTS, reply=OBJECTS | st.fixed_dictionaries({"data": st.lists(OBJECTS, max_size=3)}))
def test_translation_of_any_embeddings_succeeds_or_names_the_cause(body: dict[str, Any], reply: dict[str, Any]) -> None:
    refused = failure(lambda: ollama.read_embed(body), InvalidRequest)
    assert refused is None or refused.message
    blamed = failure(lambda: ollama.parse_embeddings(reply), EngineLost)
    assert blamed is None or blamed.slug == "engine_garbage"
