"""Tools for a model whose template has no place for them are refused in every dialect, and pass everywhere else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.dialects.recorder import recorder
from tests.api.dialects.streams import whole
from tests.api.dialects.test_routes import sentence
from tests.support.frontends import RunningFrontend

MESSAGES = [{"role": "user", "content": "hello"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
NO_TOOLS = {"format": "gguf", "has_chat_template": True, "takes_tools": False}
CHAT = {"model": "chat", "messages": MESSAGES, "max_tokens": 5}
WITH_TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", CHAT | {"tools": [FUNCTION], "tool_choice": "required"}),
    ("/v1/chat/completions", CHAT | {"tools": [FUNCTION]}),
    ("/v1/chat/completions", CHAT | {"functions": [FUNCTION["function"]]}),
    ("/v1/messages", CHAT | {"tools": [{"name": "weather", "input_schema": PARAMETERS}]}),
    ("/v1/responses", {"model": "chat", "input": "hi", "tools": [{"type": "function", "name": "weather"}]}),
    ("/api/chat", {"model": "chat", "messages": MESSAGES, "tools": [FUNCTION], "stream": False}),
]


@pytest.mark.behaviour("GW-221")
@pytest.mark.parametrize(("path", "body"), WITH_TOOLS)
async def test_tools_are_refused_when_the_template_has_no_place_for_them(
    frontend: RunningFrontend, path: str, body: dict[str, Any]
) -> None:
    async with recorder(frontend, "llama-cpp", facts=NO_TOOLS) as engine:
        status, answer = await frontend.call("POST", path, body)
        assert (status, "chat does not support tools" in sentence(path, answer)) == (400, True)
        assert engine.heard == []


@pytest.mark.behaviour("GW-221")
@pytest.mark.parametrize("facts", [None, {"format": "gguf"}, NO_TOOLS | {"takes_tools": True}])
async def test_tools_reach_the_engine_when_the_template_takes_them_or_is_unknown(
    frontend: RunningFrontend, facts: dict[str, Any] | None
) -> None:
    async with recorder(frontend, "llama-cpp", facts=facts) as engine:
        engine.answers["/v1/chat/completions"] = (200, whole({"content": "hi"}))
        for path, body in WITH_TOOLS:
            status, answer = await frontend.call("POST", path, body)
            assert status == 200, answer
        assert len(engine.heard) == len(WITH_TOOLS)


@pytest.mark.behaviour("GW-221")
@pytest.mark.parametrize(
    "more",
    [
        {"tools": []},
        {"tools": [FUNCTION], "tool_choice": "none"},
        {"metadata": {"tools": "a hammer"}},
        {"messages": [{"role": "user", "content": 'What are "tools"?'}]},
    ],
)
async def test_a_request_that_brings_no_tools_is_answered_when_the_model_takes_none(
    frontend: RunningFrontend, more: dict[str, Any]
) -> None:
    async with recorder(frontend, "llama-cpp", facts=NO_TOOLS):
        assert (await frontend.call("POST", "/v1/chat/completions", CHAT | more))[0] == 200


@pytest.mark.behaviour("GW-221")
async def test_tools_reach_the_engine_when_the_model_has_a_template_of_its_own(frontend: RunningFrontend) -> None:
    async with recorder(frontend, "llama-cpp", facts=NO_TOOLS, options={"chat_template": "chatml"}):
        assert (await frontend.call("POST", "/v1/chat/completions", CHAT | {"tools": [FUNCTION]}))[0] == 200
