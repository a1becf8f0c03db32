"""Chat requests as the work of a run: what is passed on, and what is refused by its name."""

from __future__ import annotations

from typing import Any

import pytest

from corral.api.turns.conversation import read_conversation
from corral.domain.errors import InvalidRequest

USER = {"role": "user", "content": "hello"}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def read(**fields: Any) -> Any:
    return read_conversation({"model": "m", "messages": [USER]} | fields)


def test_leading_system_messages_become_instructions_and_later_ones_stay() -> None:
    later = {"role": "system", "content": "Now in Latin."}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "kind."}]},
        USER,
        later,
    ]
    request = read(messages=messages).request
    assert request.instructions == "Be brief.\n\nBe\nkind."
    assert list(request.messages) == [USER, later]


def test_schema_of_the_answer_becomes_an_option_of_the_run() -> None:
    schema = {"type": "object", "required": ["city"]}
    form = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema, "strict": True}}
    assert read(response_format=form).request.options["response_schema"] == schema
    assert read(response_format={"type": "json_object"}).request.options["response_schema"] == {"type": "object"}
    assert read(response_format={"type": "text"}).request.options == {}


def test_tool_choice_of_none_withholds_the_tools_of_the_caller() -> None:
    assert read(tools=[TOOL], tool_choice="none").request.client_tools == []
    chosen = read(tools=[TOOL], tool_choice="required").request
    assert (chosen.client_tools, chosen.options) == ([TOOL], {"model_settings": {"tool_choice": "required"}})
    assert read(tools=[TOOL], tool_choice="auto").request.options == {}


def test_fields_that_ask_for_nothing_are_accepted() -> None:
    neutral = {"n": 1, "logprobs": False, "modalities": ["text"], "store": True, "metadata": {"a": "b"}, "audio": None}
    assert read(**neutral).request.options == {}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"audio": {"voice": "x"}}, "audio"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"response_format": {"type": "grammar"}}, "response_format grammar"),
        ({"tools": [{"type": "custom"}]}, "custom"),
        ({"messages": [USER, {"role": "assistant", "content": "I"}]}, "last message of the assistant"),
    ],
)
def test_what_no_run_can_do_is_refused_by_its_name(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named) as caught:
        read(**fields)
    assert caught.value.slug == "not_expressible"


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "cat", "content": "x"}]}, r"messages\[0\].role"),
        ({"messages": [{"role": "user", "content": 5}]}, r"messages\[0\].content"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, r"messages\[0\].content\[0\].type"),
        ({"messages": [{"role": "tool", "content": "x"}]}, r"messages\[0\].tool_call_id"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}, USER]}, r"tool_calls\[0\].function"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"temperature": 10**400}, "temperature"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_completion_tokens": "9"}, "max_completion_tokens"),
        ({"stream": "yes"}, "stream"),
        ({"tools": [{"type": "function", "function": {}}]}, r"tools\[0\].function.name"),
        ({"tool_choice": 5}, "tool_choice"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ],
)
def test_value_of_a_wrong_type_is_refused_before_a_worker_gets_it(fields: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidRequest, match=where) as caught:
        read(**fields)
    assert caught.value.slug == "bad_value"


@pytest.mark.behaviour("API-40")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"messages": [{"role": "user", "content": "half \ud83d"}]}, "bad_text"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "\x00"}]}]}, "bad_text"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"\udfff": {}}}}]}, "bad_text"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"const": "\ud800"}}}}, "bad_text"),
        ({"temperature": float("nan")}, "bad_number"),
        ({"logit_bias": {"5": float("inf")}}, "bad_number"),
    ],
)
def test_value_that_cannot_be_stored_is_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(**fields)
    assert caught.value.slug == code


def test_any_other_text_and_number_is_passed_on() -> None:
    content = "tab\t, line\n, \x1b, \u2028, \ufffe and 🦙"
    conversation = read(messages=[{"role": "user", "content": content}], seed=10**400, top_p=1e-300)
    assert conversation.request.messages[0]["content"] == content
