"""Ollama's API as OpenAI's calls, and back."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from ollama import ChatResponse, GenerateResponse

from corral.api.dialects import ollama
from corral.domain.errors import InvalidRequest
from tests.api.dialects.streams import USAGE, call_delta, chunk, lines, translate_in_pieces, whole, words

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n and so on").decode()
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
HELLO = [{"role": "user", "content": "hello"}]


def moment() -> ollama.OllamaClock:
    """A clock that is a second later whenever somebody looks."""
    now = iter(range(100))
    return ollama.OllamaClock(monotonic=lambda: float(next(now)), format_now=lambda: "2026-11-15T12:00:00Z")


def chat(**body: Any) -> ollama.OllamaTranslation:
    return ollama.read_chat({"model": "chat", "messages": HELLO} | body, model="chat:latest", clock=moment())


def generate(**body: Any) -> ollama.OllamaTranslation:
    return ollama.read_generate({"model": "chat", "prompt": "hello"} | body, model="chat", clock=moment())


def test_chat_with_everything_is_the_same_chat() -> None:
    translation = chat(
        messages=[
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "What is it?", "images": [PNG]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"function": {"name": "weather", "arguments": {"city": "Paris"}}},
                    {"function": {"name": "clock", "arguments": {}}},
                ],
            },
            {"role": "tool", "content": "noon", "tool_name": "clock"},
            {"role": "tool", "content": "rain", "tool_name": "weather"},
        ],
        tools=[TOOL],
        format={"type": "object"},
        options={"num_predict": 5, "temperature": 0, "top_k": 3, "stop": ["x"], "seed": 1, "num_ctx": 4096},
        keep_alive="5m",
        stream=False,
        think=False,
    )
    assert translation.ignored == ("num_ctx",)
    first, second = translation.chat["messages"][2]["tool_calls"]
    assert (first["function"], second["id"]) == ({"name": "weather", "arguments": '{"city": "Paris"}'}, "call_1")
    assert [message.get("tool_call_id") for message in translation.chat["messages"][3:]] == ["call_1", "call_0"]
    assert translation.chat["messages"][1]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ]
    rest = {name: value for name, value in translation.chat.items() if name != "messages"}
    assert rest == {
        "tools": [TOOL],
        "max_tokens": 5,
        "temperature": 0,
        "top_k": 3,
        "stop": ["x"],
        "seed": 1,
        "stream": False,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
        },
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_results_of_one_tool_belong_to_its_calls_in_their_order() -> None:
    call = {"function": {"name": "weather", "arguments": {}}}
    result = {"role": "tool", "tool_name": "weather", "content": "rain"}
    ollama_messages = [{"role": "assistant", "content": "", "tool_calls": [call, call]}, result, result]
    messages = chat(messages=ollama_messages).chat["messages"]
    assert [message.get("tool_call_id") for message in messages] == [None, "call_0", "call_1"]
    with pytest.raises(InvalidRequest, match="a call of this tool"):
        chat(messages=[*ollama_messages, result])


def test_text_is_a_chat_and_a_raw_one_is_none() -> None:
    translation = generate(system="Be kind.", format="json", context=[], template="", suffix="")
    assert translation.call == "chat"
    assert translation.chat["messages"] == [{"role": "system", "content": "Be kind."}, HELLO[0]]
    assert translation.chat["response_format"] == {"type": "json_object"}
    raw = generate(raw=True, options={"num_predict": -1})
    assert raw.call == "completions"
    assert raw.chat == {"prompt": "hello", "stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.behaviour("GW-81")
@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"options": {"typical_p": 0.9}}, "options.typical_p"),
        ({"options": {"mirostat": 1}}, "options.mirostat"),
        ({"suffix": "end"}, "suffix"),
        ({"template": "{{ .Prompt }}"}, "template"),
        ({"context": [1, 2]}, "context"),
        ({"raw": True, "system": "x"}, "system beside a raw prompt"),
    ],
)
def test_fields_that_a_chat_cannot_express_are_refused_by_name(body: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        generate(**body)
    assert named in refused.value.message
    assert refused.value.slug == "not_expressible"


def test_options_that_ask_for_nothing_are_no_reason_to_refuse() -> None:
    options = {"typical_p": 1.0, "mirostat": 0, "mirostat_tau": 5.0, "num_gpu": 1, "top_p": None}
    translation = chat(options=options)
    assert translation.ignored == ("mirostat_tau", "num_gpu")
    assert not set(translation.chat) & {*options}


@pytest.mark.behaviour("GW-81")
@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"messages": {}}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "x", "images": ["aGVsbG8gdGhlcmU="]}]}, "messages[0].images[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]"),
        ({"options": {"speed": 3}}, "options.speed"),
        ({"format": "xml"}, "format"),
        ({"stream": 1}, "stream"),
    ],
)
def test_ollama_request_is_refused_naming_the_wrong_field(body: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        chat(**body)
    assert refused.value.message.startswith(named)
    assert refused.value.slug == "bad_value"


def test_answer_has_its_message_and_its_numbers() -> None:
    call = {"id": "c1", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    rendered = chat(stream=False).translate_response(
        whole({"content": "Hm.", "reasoning_content": "why", "tool_calls": [call]}, "tool_calls")
        | {"timings": {"prompt_ms": 2.5, "predicted_ms": 10}}
    )
    answer = ChatResponse.model_validate(rendered)
    assert (answer.model, answer.message.content, answer.message.thinking) == ("chat:latest", "Hm.", "why")
    assert answer.message.tool_calls is not None
    assert answer.message.tool_calls[0].function.arguments == {"city": "Paris"}
    assert (answer.done, answer.done_reason) == (True, "stop")
    assert (answer.prompt_eval_count, answer.eval_count) == (12, 5)
    assert (answer.prompt_eval_duration, answer.eval_duration) == (2_500_000, 10_000_000)
    text = generate(stream=False).translate_response(whole({"content": "Hm."}, "length"))
    assert GenerateResponse.model_validate(text).response == "Hm."
    assert text["done_reason"] == "length"


@pytest.mark.parametrize("piece_bytes", [1, 7, 100_000])
def test_stream_is_lines_and_a_call_is_one_of_them(piece_bytes: int) -> None:
    chunks = [
        chunk({"role": "assistant", "content": None}),
        chunk({"reasoning_content": "hm"}),
        chunk({"content": "One "}),
        chunk({"content": "moment."}),
        chunk(call_delta(0, '{"ci', id="c1", name="weather")),
        chunk(call_delta(0, 'ty": "Paris"}')),
        chunk({}, "tool_calls"),
        {"choices": [], "usage": USAGE},
    ]
    found = lines(translate_in_pieces(chat().begin_stream(), chunks, piece_bytes))
    answers = [ChatResponse.model_validate(line) for line in found]
    assert "".join(answer.message.content or "" for answer in answers) == "One moment."
    assert [answer.done for answer in answers] == [False] * (len(answers) - 1) + [True]
    calls = [call for answer in answers for call in answer.message.tool_calls or ()]
    assert [(call.function.name, call.function.arguments) for call in calls] == [("weather", {"city": "Paris"})]
    assert answers[0].message.thinking == "hm"
    assert (found[-1]["eval_count"], found[-1]["done_reason"]) == (5, "stop")
    assert found[-1]["total_duration"] >= found[-1]["eval_duration"] > 0


def test_raw_text_streams_as_well() -> None:
    chunks: list[dict[str, Any]] = [{"choices": [{"text": text}]} for text in ("One ", "moment.")]
    end: list[dict[str, Any]] = [{"choices": [{"text": "", "finish_reason": "stop"}]}, {"choices": [], "usage": USAGE}]
    found = lines(translate_in_pieces(generate(raw=True).begin_stream(), chunks + end))
    assert [line["response"] for line in found] == ["One ", "moment.", ""]
    assert found[-1]["done"] is True


def test_stream_without_a_finish_reason_ends_with_an_error() -> None:
    assert "error" in lines(translate_in_pieces(chat().begin_stream(), words("One")[:2]))[-1]


def test_embeddings_are_returned_in_the_order_of_the_inputs() -> None:
    translated, ignored = ollama.read_embed({"model": "e", "input": ["a", "b"], "dimensions": 2, "truncate": True})
    assert (translated, ignored) == ({"input": ["a", "b"], "encoding_format": "float", "dimensions": 2}, ())
    answer = {
        "data": [{"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": [1.0]}],
        "usage": {"prompt_tokens": 3},
    }
    assert ollama.parse_embeddings(answer) == ([[1.0], [2.0]], 3)
