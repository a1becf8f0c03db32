"""Tools for a model whose template has no place for them are refused in every dialect, and pass everywhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from corral.store.model_schema import model_files
from tests.api.dialects.recorder import recorder
from tests.api.dialects.streams import whole
from tests.api.dialects.test_routes import sentence
from tests.api.models.test_uploaded_files import upload
from tests.serving.scene import settled
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.polling import eventually
from tests.unit.policy.models.test_chat_template import PLAIN, gguf_file
from tests.unit.policy.models.test_chat_template import WITH_TOOLS as TEMPLATE_WITH_TOOLS

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
        assert engine.requests == []


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
        assert len(engine.requests) == len(WITH_TOOLS)


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
async def test_request_that_brings_no_tools_is_answered_when_the_model_takes_none(
    frontend: RunningFrontend, more: dict[str, Any]
) -> None:
    async with recorder(frontend, "llama-cpp", facts=NO_TOOLS):
        assert (await frontend.call("POST", "/v1/chat/completions", CHAT | more))[0] == 200


@pytest.mark.behaviour("GW-221")
async def test_tools_reach_the_engine_when_the_model_has_a_template_of_its_own(frontend: RunningFrontend) -> None:
    async with recorder(frontend, "llama-cpp", facts=NO_TOOLS, options={"chat_template": "chatml"}):
        assert (await frontend.call("POST", "/v1/chat/completions", CHAT | {"tools": [FUNCTION]}))[0] == 200


@pytest.mark.parametrize(("template", "expected"), [(PLAIN, (400, 0)), (TEMPLATE_WITH_TOOLS, (200, 1))])
async def test_tools_for_a_model_of_an_earlier_version_are_judged_by_its_file_when_a_frontend_has_started(
    database_url: str, tmp_path: Path, template: str, expected: tuple[int, int]
) -> None:
    gguf_file(tmp_path / "model.gguf", template)
    written_before = {"format": "gguf", "has_chat_template": True}
    async with (
        running_frontend(database_url, frontend_id="earlier", library_dir=tmp_path / "library") as earlier,
        recorder(earlier, "llama-cpp", facts=written_before) as engine,
    ):
        engine.answers["/v1/chat/completions"] = (200, whole({"content": "hi"}))
        # A pass that finds the model without files leaves it unknown, so that a later pass reads them.
        await earlier.core.loops["library"].run_once()
        sha256 = await upload(earlier, (tmp_path / "model.gguf").read_bytes())
        async with earlier.database.transaction() as tx:
            await tx.execute(insert(model_files).values(model="chat", path="model.gguf", sha256=sha256))
        async with running_frontend(database_url, frontend_id="newer", library_dir=tmp_path / "library") as newer:

            async def has_looked() -> bool:
                _, shown = await newer.call("GET", "/api/models/config/chat")
                return shown["facts"]["takes_tools"] is not None

            await eventually(has_looked)
            await settled(newer, earlier)
            for frontend in (newer, earlier):
                engine.requests.clear()
                status, answer = await frontend.call("POST", "/v1/chat/completions", CHAT | {"tools": [FUNCTION]})
                assert (status, len(engine.requests)) == expected, answer
