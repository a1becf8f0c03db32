"""Turns with a collection: searches before and during the turn, sources behind the answer, and what is remembered."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from tests.runner.chat_server import ScriptedModel, call, say
from tests.runner.scene import Message, Scene, run_scene

SOURCES = "\n\nSources:\n1. [a.pdf](/api/agents/collections/manuals/entries-raw/a.pdf)"


@dataclass
class Library:
    """Answers searches with the same results, and keeps what is to be remembered."""

    files: list[str] = field(default_factory=lambda: ["a.pdf", "a.pdf"])
    queries: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def answer(self, message: Message) -> Message:
        params = message["params"]
        if message["method"] == "add_memory":
            self.kept.append(params["text"])
            return {"result": {"entry": "memory/x.md"}}
        assert params["embedding"], "the query is embedded by the worker"
        self.queries.append(params["query"])
        return {"result": {"results": [{"file_name": name, "content": "At noon."} for name in self.files]}}


@asynccontextmanager
async def with_embeddings(model: ScriptedModel) -> AsyncIterator[str]:
    """The scripted model, and embeddings beside it."""

    async def embed(request: web.Request) -> web.Response:
        texts = (await request.json())["input"]
        return web.json_response({"data": [{"index": n, "embedding": [1.0]} for n, _ in enumerate(texts)]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", model.answer)
    app.router.add_post("/v1/embeddings", embed)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


@pytest.fixture
async def scene(model: ScriptedModel) -> AsyncIterator[Scene]:
    async with with_embeddings(model) as url, run_scene(url) as opened:
        yield opened


@pytest.fixture
def library(scene: Scene) -> Library:
    made = Library()
    scene.ask_answers = made.answer
    return made


def knowing(**fields: Any) -> dict[str, Any]:
    known = {"collection": "manuals", "embedding_model": "e", "searches": False, "has_tools": False}
    return {"extra": {"knowledge": known | fields}}


@pytest.mark.behaviour("KNOW-16")
async def test_message_is_searched_for_and_each_file_is_cited_once_behind_the_answer(
    scene: Scene, model: ScriptedModel, library: Library
) -> None:
    model.script(say("It starts ", "at noon."))
    outcome = await scene.run("When does it start?", **knowing(searches=True))
    assert library.queries == ["When does it start?"]
    system = model.messages(0)[0]
    assert system["role"] == "system"
    assert '["a.pdf"]\nAt noon.' in system["content"]
    assert outcome.content == f"It starts at noon.{SOURCES}"
    assert scene.text("content") == outcome.content
    assert outcome.messages == [{"role": "assistant", "content": outcome.content}]


@pytest.mark.behaviour("KNOW-16")
async def test_model_searches_and_adds_memories_by_tools(scene: Scene, model: ScriptedModel, library: Library) -> None:
    library.files = ["b.md", "a.pdf", "b.md"]
    model.script(call("search_memory", query="pump"), call("add_memory", text="Ann likes tea."), say("Done."))
    outcome = await scene.run("go", **knowing(has_tools=True))
    assert (library.queries, library.kept) == (["pump"], ["Ann likes tea."])
    assert sorted(tool["function"]["name"] for tool in model.requests[0]["tools"]) == ["add_memory", "search_memory"]
    assert [event["content"] for event in scene.events("tool_result")][1] == "Remembered as memory/x.md."
    assert outcome.content.splitlines()[3:] == [
        "1. [b.md](/api/agents/collections/manuals/entries-raw/b.md)",
        "2. [a.pdf](/api/agents/collections/manuals/entries-raw/a.pdf)",
    ]


async def test_turn_without_results_or_with_an_answer_in_json_has_no_list_of_sources(
    scene: Scene, model: ScriptedModel, library: Library
) -> None:
    model.script(say(json.dumps({"a": 1})))
    options = {"response_schema": {"type": "object"}}
    outcome = await scene.run("go", options=options, **knowing(searches=True))
    assert outcome.content == '{"a": 1}'
    library.files = []
    outcome = await scene.run("go", run_id="r2", **knowing(searches=True))
    assert outcome.content == "done"


@pytest.mark.behaviour("KNOW-20")
async def test_turn_goes_on_without_a_search_that_fails(scene: Scene, model: ScriptedModel) -> None:
    scene.ask_answers = lambda _: {"error": {"code": "embedding_dimension_changed", "message": "Other numbers."}}
    outcome = await scene.run("go", **knowing(searches=True))
    assert (outcome.state, outcome.content) == ("completed", "done")
    [status] = [event for event in scene.events("status") if event.get("code") == "embedding_dimension_changed"]
    assert status["message"] == "The documents were not searched: Other numbers."


@pytest.mark.behaviour("KNOW-17")
async def test_turn_hands_on_what_is_remembered_without_the_sources(
    scene: Scene, model: ScriptedModel, library: Library
) -> None:
    model.script(say("At noon."), say("Ann asked when it starts."))
    outcome = await scene.run("When?", **knowing(searches=True, memory_mode="summary"))
    assert outcome.result["memories"] == [["summary", "Ann asked when it starts."]]
    assert outcome.content == f"At noon.{SOURCES}"
    assert "assistant: At noon." in json.dumps(model.messages(1))
    model.script(say("At noon."))
    outcome = await scene.run("When?", run_id="r2", **knowing(searches=True, memory_mode="user_and_assistant"))
    assert outcome.result["memories"] == [["user", "When?"], ["assistant", "At noon."]]
