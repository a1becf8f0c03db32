"""OpenAI's responses as chats, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from corral.api.dialects import responses
from corral.domain.errors import InvalidRequest
from tests.api.dialects.streams import USAGE, call_delta, chunk, server_sent, translate_in_pieces, whole, words

_EVENTS: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
LOGPROB = {"token": "One", "bytes": [79], "logprob": -1.0, "top_logprobs": []}
FUNCTION = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": True}


def read(**body: Any) -> responses.ResponsesTranslation:
    return responses.parse_request(
        {"model": "chat", "input": "hello"} | body, model="chat", answer_id="1", created_at=7
    )


WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
# What Codex 0.166 sends, with its long texts cut short.
CODEX = json.loads(Path(__file__).with_name("codex.json").read_text(encoding="utf-8"))


def test_request_with_everything_is_the_same_chat() -> None:
    chat = read(
        instructions="Be kind.",
        input=[
            {"role": "developer", "content": "Short."},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is it?"},
                    {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "low"},
                ],
            },
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "rain"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "sun"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Both."}]},
            {"role": "user", "content": "And now?"},
        ],
        tools=[FUNCTION],
        tool_choice={"type": "function", "name": "weather"},
        parallel_tool_calls=False,
        text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}},
        reasoning={"effort": "low"},
        max_output_tokens=9,
        top_logprobs=2,
        temperature=0,
        store=False,
    ).chat
    calls = [
        {"id": name, "type": "function", "function": {"name": "weather", "arguments": "{}"}} for name in ("c1", "c2")
    ]
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "low"}}
    assert chat == {
        "messages": [
            {"role": "system", "content": "Be kind.\n\nShort."},
            {"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": "rain"},
            {"role": "tool", "tool_call_id": "c2", "content": "sun"},
            {"role": "assistant", "content": "Both."},
            {"role": "user", "content": "And now?"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "weather", "parameters": {"type": "object"}, "strict": True},
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": False,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
        },
        "reasoning_effort": "low",
        "max_tokens": 9,
        "logprobs": True,
        "top_logprobs": 2,
        "temperature": 0,
        "stream": False,
    }


@pytest.mark.behaviour("GW-81")
@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"store": True}, "store: true"),
        ({"background": True}, "background: true"),
        ({"truncation": "auto"}, "truncation: auto"),
        ({"tools": [{"type": "web_search"}]}, "web_search"),
        ({"tools": [{"type": "web_search"}], "tool_choice": "auto"}, "web_search"),
        ({"tools": [WEATHER, {"type": "web_search"}], "tool_choice": "required"}, "web_search"),
        ({"tool_choice": {"type": "file_search"}}, "file_search"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "item_reference"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}]}, "input_file"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
    ],
)
def test_fields_that_a_chat_cannot_express_are_refused_by_name(body: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(**body)
    assert named in refused.value.message
    assert refused.value.slug == "not_expressible"


@pytest.mark.behaviour("GW-81")
@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "w", "arguments": "{}"}]}, "input"),
        ({"instructions": 3}, "instructions"),
    ],
)
def test_responses_request_is_refused_naming_the_wrong_field(body: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(**body)
    assert refused.value.message.startswith(f"{named}: ")


def test_answer_is_a_response_that_repeats_its_request() -> None:
    call = {"id": "c1", "function": {"name": "weather", "arguments": "{}"}}
    translation = read(tools=[FUNCTION], temperature=0.5, metadata={"a": "b"})
    rendered = translation.translate_response(
        whole({"content": "Hm.", "reasoning_content": "why", "tool_calls": [call]}, "tool_calls")
    )
    response = Response.model_validate(rendered)
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
    assert (response.status, response.output_text, response.temperature) == ("completed", "Hm.", 0.5)
    assert (response.metadata, response.created_at, response.error) == ({"a": "b"}, 7, None)
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.total_tokens) == (12, 17)
    assert response.usage.input_tokens_details.cached_tokens == 4


def test_answer_that_was_cut_short_is_incomplete() -> None:
    response = Response.model_validate(read().translate_response(whole({"content": "x"}, "length")))
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize("piece_bytes", [1, 7, 100_000])
def test_stream_is_the_whole_answer_in_numbered_events(piece_bytes: int) -> None:
    chunks = [
        chunk({"role": "assistant", "content": None}),
        chunk({"reasoning_content": "hm"}),
        chunk({"content": "One "}, logprobs={"content": [LOGPROB]}),
        chunk({"content": "moment."}),
        chunk(call_delta(0, '{"ci', id="c1", name="weather")),
        chunk(call_delta(0, 'ty": 1}')),
        chunk(call_delta(1, "{}", id="c2", name="clock")),
        chunk({}, "tool_calls"),
        {"choices": [], "usage": USAGE},
    ]
    events = server_sent(translate_in_pieces(read(stream=True).begin_stream(), chunks, piece_bytes))
    for event in events:
        _EVENTS.validate_python(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    last = events[-1]
    assert last["type"] == "response.completed"
    output = last["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call", "function_call"]
    assert output[1]["content"][0]["text"] == "One moment."
    assert len(output[1]["content"][0]["logprobs"]) == 1
    assert [(item["call_id"], item["arguments"]) for item in output[2:]] == [("c1", '{"city": 1}'), ("c2", "{}")]
    assert last["response"]["usage"]["total_tokens"] == 17
    done = [event for event in events if event["type"] == "response.output_item.done"]
    assert [event["item"] for event in done] == output
    added = [event["output_index"] for event in events if event["type"] == "response.output_item.added"]
    assert added == [0, 1, 2, 3]


class CountedSchema(dict[str, Any]):
    """The parameters of a tool, with a count of how often they were read."""

    reads = 0

    def items(self) -> Any:
        self.reads += 1
        return super().items()


def test_tools_are_in_every_response_of_a_stream_and_encoded_before_it_begins() -> None:
    schema = CountedSchema(type="object", properties={"city": {"type": "string"}})
    tool = WEATHER | {"parameters": schema}
    translation = read(stream=True, tools=[tool], instructions='Say "é".', metadata={"a": "b"})
    reads = schema.reads
    events = server_sent(translate_in_pieces(translation.begin_stream(), words("One")))
    assert schema.reads == reads
    responses = [event["response"] for event in events if "response" in event]
    assert [one["status"] for one in responses] == ["in_progress", "in_progress", "completed"]
    for response in responses:
        assert response["tools"] == [tool]
        assert (response["instructions"], response["metadata"]) == ('Say "é".', {"a": "b"})
        Response.model_validate(response)
    assert responses[0] == translation.render_head()


def test_stream_without_a_word_is_an_empty_message() -> None:
    events = server_sent(translate_in_pieces(read(stream=True).begin_stream(), words(finish="length")))
    assert events[-1]["type"] == "response.incomplete"
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == ""


def test_stream_without_a_finish_reason_fails() -> None:
    events = server_sent(translate_in_pieces(read(stream=True).begin_stream(), words("One")[:2]))
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert events[-1]["response"]["status"] == "failed"


def test_request_of_codex_becomes_a_chat_with_its_functions_when_other_tools_are_beside_them() -> None:
    translation = read(**CODEX)
    functions = [tool["name"] for tool in CODEX["tools"] if tool["type"] == "function"]
    assert [tool["function"]["name"] for tool in translation.chat["tools"]] == functions
    assert translation.ignored == ("tools.namespace", "tools.web_search")
    assert [tool["name"] for tool in translation.render_head()["tools"]] == functions
    assert [message["role"] for message in translation.chat["messages"]] == ["system", "user", "user"]
    assert translation.chat["tool_choice"] == "auto"


@pytest.mark.parametrize("choice", [None, "auto", "none", {"type": "function", "name": "weather"}])
def test_tools_of_the_service_are_left_out_when_no_call_of_them_can_be_required(choice: object) -> None:
    translation = read(tools=[WEATHER, {"type": "web_search"}, {"type": "web_search"}], tool_choice=choice)
    assert [tool["function"]["name"] for tool in translation.chat["tools"]] == ["weather"]
    assert translation.ignored == ("tools.web_search",)


def test_fields_that_change_nothing_are_ignored_in_a_response() -> None:
    inert = {
        "client_metadata": {"thread_id": "1"},
        "metadata": {"a": "b"},
        "store": False,
        "include": ["reasoning.encrypted_content", "file_search_call.results"],
        "reasoning": {"summary": "detailed"},
        "max_tool_calls": 2,
    }
    translation = read(**inert)
    assert translation.chat == read().chat
    assert translation.ignored == ("include.file_search_call.results",)


_CALL = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}
_OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "rain"}
_TEXT = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
_THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}


@pytest.mark.parametrize("output_items", [[_TEXT, _CALL], [_THOUGHT, _TEXT, _THOUGHT, _CALL], [_CALL, _TEXT]])
def test_text_and_call_of_one_turn_become_one_message_of_the_chat(output_items: list[Any]) -> None:
    messages = read(input=[{"role": "user", "content": "hello"}, *output_items, _OUTPUT]).chat["messages"]
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    assert messages[1:] == [
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    ]


def test_calls_of_one_turn_stay_together_when_thoughts_stand_between_them() -> None:
    items = [_CALL, _THOUGHT, _CALL | {"call_id": "c2"}, _OUTPUT, _OUTPUT | {"call_id": "c2"}]
    messages = read(input=[{"role": "user", "content": "hello"}, *items]).chat["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    assert [call["id"] for call in messages[1]["tool_calls"]] == ["c1", "c2"]


def test_call_gets_an_id_when_its_engine_gives_none() -> None:
    function = {"name": "weather", "arguments": "{}"}
    answer = read(tools=[WEATHER]).translate_response(whole({"tool_calls": [{"index": 0, "function": function}]}))
    (item,) = answer["output"]
    output = {"type": "function_call_output", "call_id": item["call_id"], "output": "rain"}
    messages = read(input=[{"role": "user", "content": "hello"}, item, output]).chat["messages"]
    assert messages[1]["tool_calls"][0]["id"] == messages[2]["tool_call_id"]
