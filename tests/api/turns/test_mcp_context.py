"""Prompts and resources of MCP servers in a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from corral.agents.turns import TurnRequest
from corral.api.turns.mcp_context import add_prompt, add_resources
from corral.domain.errors import InvalidRequest, Unprocessable
from corral.policy.serving.mcp_choice import ALL_SERVERS, McpChoice, drop_mcp_keys, has_mcp_keys, read_mcp_choice

PICTURE = {"type": "image_url", "image_url": {"url": "data:"}}
NOTE = {"contents": [{"uri": "n://1", "text": "a"}, {"uri": "n://1", "text": "b"}]}


def make_request(*messages: dict[str, Any]) -> TurnRequest:
    return TurnRequest(messages=messages or ({"role": "user", "content": "hello"},))


def test_messages_of_a_prompt_come_first_in_their_roles() -> None:
    prompt = {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "Act."}},
            {"role": "assistant", "content": [{"type": "text", "text": "I"}, {"type": "text", "text": "do."}]},
        ]
    }
    assert [(one["role"], one["content"]) for one in add_prompt(make_request(), prompt).messages] == [
        ("user", "Act."),
        ("assistant", "I\ndo."),
        ("user", "hello"),
    ]


def test_resource_is_added_to_the_last_message_of_the_user_also_with_pictures() -> None:
    request = make_request(
        {"role": "user", "content": [PICTURE]}, {"role": "tool", "tool_call_id": "1", "content": "sunny"}
    )
    messages = add_resources(request, [("n://1", NOTE)]).messages
    assert messages[0]["content"] == [PICTURE, {"type": "text", "text": "Resource n://1:\na\nb"}]
    assert messages[1]["content"] == "sunny"
    assert request.messages[0]["content"] == [PICTURE]


def test_resource_that_is_no_text_is_refused() -> None:
    with pytest.raises(Unprocessable, match="no text"):
        add_resources(make_request(), [("n://1", {"contents": [{"blob": "AA=="}]})])


def test_choice_is_read_in_every_form_and_its_keys_are_taken_out() -> None:
    metadata = {
        "mcp_servers": "a, b,a",
        "mcp_prompt": "p",
        "mcp_prompt_args": {"n": 1, "s": "x"},
        "mcp_resources": ["n://1"],
        "user": "u",
    }
    assert read_mcp_choice(metadata) == McpChoice(
        servers=("a", "b"), prompt="p", prompt_arguments={"n": "1", "s": "x"}, resources=("n://1",)
    )
    assert (has_mcp_keys(metadata), drop_mcp_keys(metadata)) == (True, {"user": "u"})


def test_default_counts_where_a_request_names_no_servers() -> None:
    assert read_mcp_choice(None, default=ALL_SERVERS).servers is None
    assert read_mcp_choice({"mcp_servers": None}, default=ALL_SERVERS).servers is None
    assert read_mcp_choice({"mcp_servers": ""}, default=ALL_SERVERS).is_empty
    assert read_mcp_choice({"user": "u"}).is_empty


@pytest.mark.parametrize("number", [51, 1000])
def test_too_many_servers_are_refused(number: int) -> None:
    with pytest.raises(InvalidRequest, match="at most 50"):
        read_mcp_choice({"mcp_servers": [str(one) for one in range(number)]})
