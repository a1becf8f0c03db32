"""Anthropic's messages as chats, and back."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from corral.api.dialects import anthropic
from corral.domain.errors import InvalidRequest
from corral.ports.requests import EngineLost
from tests.api.dialects.streams import call_delta, chunk, server_sent, translate_in_pieces, whole, words

TOOL = {"name": "weather", "description": "of a city", "input_schema": {"type": "object"}}
_EVENTS: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)


def read(**body: Any) -> anthropic.MessagesTranslation:
    request = {"model": "chat", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]} | body
    return anthropic.parse_request(request, model="chat", answer_id="1")


def gathered(raw: bytes) -> Message:
    """The message that the official client makes of the events."""
    snapshot: Any = None
    pieces: dict[int, Any] = {}
    for event in server_sent(raw):
        snapshot = accumulate_event(event=_EVENTS.validate_python(event), current_snapshot=snapshot, json_bufs=pieces)
    assert snapshot is not None
    return Message.model_validate(snapshot.model_dump())


def test_conversation_is_the_same_conversation() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    used = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Paris"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "rain"}]}
    thought = {"type": "thinking", "thinking": "hm", "signature": "x"}
    chat = read(
        system=[{"type": "text", "text": "Be"}, {"type": "text", "text": "kind."}],
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]},
            {"role": "assistant", "content": [thought, {"type": "text", "text": "I look."}, used]},
            {"role": "user", "content": [result, {"type": "text", "text": "And now?"}]},
        ],
    ).chat
    function = {"name": "weather", "arguments": '{"city": "Paris"}'}
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert chat["messages"] == [
        {"role": "system", "content": "Be\nkind."},
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, url]},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "t1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "rain"},
        {"role": "user", "content": "And now?"},
    ]


def test_results_of_tools_alone_are_no_words_of_the_user() -> None:
    used: list[dict[str, Any]] = [
        {"type": "tool_use", "id": name, "name": "weather", "input": {}} for name in ("t1", "t2")
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "rain"},
        {"type": "tool_result", "tool_use_id": "t2"},
    ]
    chat = read(messages=[{"role": "assistant", "content": used}, {"role": "user", "content": results}]).chat
    assert [message["role"] for message in chat["messages"]] == ["assistant", "tool", "tool"]
    assert [message["content"] for message in chat["messages"]] == [None, "rain", ""]


def test_anthropic_request_maps_every_other_parameter_to_its_chat_field() -> None:
    chat = read(
        stop_sequences=["\n"],
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        tools=[TOOL],
        tool_choice={"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
        metadata={"user_id": "u1"},
        output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}},
        thinking={"type": "disabled"},
        stream=True,
    ).chat
    function = {"name": "weather", "description": "of a city", "parameters": {"type": "object"}}
    schema = {"name": "answer", "schema": {"type": "object"}, "strict": True}
    assert chat == {
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 10,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "stop": ["\n"],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": False,
        "user": "u1",
        "response_format": {"type": "json_schema", "json_schema": schema},
    }
    for theirs, ours in (("auto", "auto"), ("any", "required"), ("none", "none")):
        assert read(tool_choice={"type": theirs}).chat["tool_choice"] == ours


@pytest.mark.behaviour("GW-81")
@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"container": "x"}, "container"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking with a budget"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search_20250305"),
        ({"messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}]}, "document"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "assistant's own"),
        ({"output_config": {"effort": "high"}}, "output_config.effort"),
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
        ({"max_tokens": None}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"tools": [{"name": "x"}]}, "tools[0].input_schema"),
        ({"tool_choice": {"type": "maybe"}}, "tool_choice.type"),
        ({"stream": "yes"}, "stream"),
    ],
)
def test_anthropic_request_is_refused_naming_the_wrong_field(body: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(**body)
    assert refused.value.message.startswith(f"{named}: ")


def test_answer_has_its_blocks_its_reason_and_its_usage() -> None:
    call = {"id": "t1", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    answer = read().translate_response(
        whole({"content": "Hm.", "reasoning_content": "why", "tool_calls": [call]}, finish="tool_calls")
    )
    message = Message.model_validate(answer, strict=True)
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert answer["content"][2]["input"] == {"city": "Paris"}
    assert message.stop_reason == "tool_use"
    assert (message.usage.input_tokens, message.usage.cache_read_input_tokens, message.usage.output_tokens) == (8, 4, 5)


@pytest.mark.parametrize(
    ("choice", "reason", "sequence"),
    [
        ({"finish": "stop"}, "end_turn", None),
        ({"finish": "length"}, "max_tokens", None),
        ({"finish": "content_filter"}, "refusal", None),
        ({"finish": "stop", "stop_reason": "END"}, "stop_sequence", "END"),
    ],
)
def test_anthropic_response_states_why_it_stopped(choice: dict[str, Any], reason: str, sequence: str | None) -> None:
    answer = read().translate_response(whole({"content": "x"}, **choice))
    assert (answer["stop_reason"], answer["stop_sequence"]) == (reason, sequence)


@pytest.mark.parametrize("piece_bytes", [1, 7, 100_000])
def test_stream_is_the_whole_answer_in_pieces_for_the_official_client(piece_bytes: int) -> None:
    chunks = [
        chunk({"role": "assistant", "content": None}),
        chunk({"reasoning_content": "hm"}),
        chunk({"content": "One "}),
        chunk({"content": "moment."}),
        chunk(call_delta(0, '{"ci', id="t1", name="weather")),
        chunk(call_delta(0, 'ty": "Paris"}')),
        chunk(call_delta(1, "", id="t2", name="clock")),
        *words(finish="tool_calls")[1:],
    ]
    raw = translate_in_pieces(read(stream=True).begin_stream(), chunks, piece_bytes)
    message = gathered(raw)
    calls = [
        {"id": "t1", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}},
        {"id": "t2", "function": {"name": "clock", "arguments": "{}"}},
    ]
    same = whole({"content": "One moment.", "reasoning_content": "hm", "tool_calls": calls}, finish="tool_calls")
    assert message == Message.model_validate(read().translate_response(same))
    kinds = [event["type"] for event in server_sent(raw)]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 4
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])


def test_stream_without_a_finish_reason_ends_with_an_error() -> None:
    events = server_sent(translate_in_pieces(read(stream=True).begin_stream(), words("One")[:2]))
    assert events[-1]["type"] == "error"
    assert events[-1]["error"]["type"] == "api_error"


def test_error_of_the_engine_in_the_middle_is_an_error_here() -> None:
    with pytest.raises(EngineLost, match="out of memory"):
        read(stream=True).begin_stream().translate_event({"error": {"message": "out of memory"}})


def test_call_gets_an_id_when_its_engine_gives_none() -> None:
    call = {"index": 0, "function": {"name": "weather", "arguments": "{}"}}
    (block,) = read(tools=[TOOL]).translate_response(whole({"tool_calls": [call]}))["content"]
    streamed = gathered(
        translate_in_pieces(read(tools=[TOOL]).begin_stream(), [chunk({"tool_calls": [call]}), chunk({}, "tool_calls")])
    )
    assert block["id"]
    assert [one.id for one in streamed.content if one.type == "tool_use"] == [block["id"]]
