"""What an attempt is given of the tool calls that were made before it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from corral.domain.run import RunEvent, RunEventType
from corral.policy.earlier_calls import continue_spec, make_call_messages

_T = RunEventType


def make_trace(*entries: tuple[RunEventType, dict[str, Any]]) -> list[RunEvent]:
    return [
        RunEvent(seq=number, at=datetime(2026, 1, 1, tzinfo=UTC), type=kind, tool=data.get("name", ""), data=data)
        for number, (kind, data) in enumerate(entries, 1)
    ]


def made(call_id: str, arguments: Any = None) -> tuple[RunEventType, dict[str, Any]]:
    return _T.TOOL_CALL, {"call_id": call_id, "name": "files__write", "arguments": arguments or {}}


def returned(call_id: str, content: str) -> tuple[RunEventType, dict[str, Any]]:
    return _T.TOOL_RESULT, {"call_id": call_id, "name": "files__write", "content": content}


def test_calls_of_one_step_are_one_message_in_the_order_of_the_calls_and_steps_stay_apart() -> None:
    step: tuple[RunEventType, dict[str, Any]] = (_T.STEP, {})
    calls = [step, made("a", {"p": "ä"}), made("b"), returned("b", "2"), returned("a", "1"), step, made("c")]
    messages = make_call_messages(make_trace(*calls, returned("c", "3")))
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "assistant", "tool"]
    function = {"name": "files__write", "arguments": '{"p": "ä"}'}
    assert messages[0]["tool_calls"][0] == {"id": "a", "type": "function", "function": function}
    assert [call["id"] for call in messages[0]["tool_calls"]] == ["a", "b"]
    results = [(message["tool_call_id"], message["content"]) for message in messages if message["role"] == "tool"]
    assert results == [("a", "1"), ("b", "2"), ("c", "3")]


def test_calls_without_a_result_and_steps_without_calls_are_left_out() -> None:
    trace = make_trace((_T.STEP, {}), made("a"), made("b"), returned("b", "2"), (_T.STEP, {}), made("c"), (_T.STEP, {}))
    assert [message.get("tool_call_id") for message in make_call_messages(trace)] == [None, "b"]
    assert make_call_messages([]) == []


def test_arguments_that_are_no_object_go_back_as_an_empty_one() -> None:
    trace = make_trace(made("a", "{broken"), returned("a", "no JSON"))
    assert make_call_messages(trace)[0]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_attempt_that_goes_on_need_not_call_a_tool_first() -> None:
    settings = {"tool_choice": {"type": "function", "function": {"name": "pay"}}, "top_p": 0.5}
    options = {"tool_choice": "required", "max_attempts": 3, "model_settings": settings}
    spec = {"model": "m", "messages": [{"role": "user", "content": "pay"}], "options": options}
    earlier = [{"role": "assistant", "content": ""}]
    continued = continue_spec(spec, earlier)
    assert continued["messages"] == [*spec["messages"], *earlier]
    assert continued["options"] == {"tool_choice": "auto", "max_attempts": 3, "model_settings": {"top_p": 0.5}}
    assert continue_spec(spec, []) == spec
