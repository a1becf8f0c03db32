"""Search over the API: the query is embedded by a real engine, in the name of the caller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.agents.hand_worker import make_key
from tests.engines.engine_processes import Engine
from tests.knowledge.scene import BASE
from tests.knowledge.test_search import put_entry
from tests.operations.scene import sql
from tests.serving.scene import an_engine, keep_only_the_feed, serve
from tests.support.frontends import RunningFrontend, running_frontend


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    async with running_frontend(database_url) as running:
        await keep_only_the_feed(running)
        yield running


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with an_engine(tmp_path) as running:
        yield running


async def make_filled(frontend: RunningFrontend, key: str) -> str:
    status, made = await frontend.call("POST", BASE, {"name": "manuals", "embedding_model": "chat"}, key=key)
    assert status == 201, made
    [row] = await sql(frontend.database, "SELECT CAST(id AS text) AS id FROM collections")
    await put_entry(frontend.database, row.id, ["The pump starts at noon.", "The valve is blue."])
    await sql(frontend.database, "UPDATE collections SET dimension = 64")
    return str(row.id)


@pytest.mark.behaviour("KNOW-9")
async def test_query_is_embedded_by_the_model_and_results_are_in_the_form_of_localai(
    frontend: RunningFrontend, engine: Engine
) -> None:
    await serve(frontend, engine)
    ann = (await make_key(frontend, "ann"))["key"]
    await make_filled(frontend, ann)
    body = {"query": "when does the pump start", "max_results": 1}
    status, found = await frontend.call("POST", f"{BASE}/manuals/search", body, key=ann)
    assert (status, found["count"]) == (200, 1), found
    [result] = found["results"]
    assert result["content"] == "The pump starts at noon."
    assert result["metadata"] == {
        "file_name": "a.md",
        "source": "/api/agents/collections/manuals/entries-raw/a.md",
        "chunk": "0",
    }
    assert 0 < result["similarity"] <= 1
    path = f"{BASE}/manuals/search?query=when%20does%20the%20pump%20start&max_results=1"
    assert (await frontend.call("GET", path, key=ann)) == (200, found)


@pytest.mark.behaviour("KNOW-4")
async def test_search_with_embeddings_of_another_length_is_409(frontend: RunningFrontend, engine: Engine) -> None:
    await serve(frontend, engine)
    ann = (await make_key(frontend, "ann"))["key"]
    await make_filled(frontend, ann)
    await sql(frontend.database, "UPDATE collections SET dimension = 32")
    status, refused = await frontend.call("POST", f"{BASE}/manuals/search", {"query": "x"}, key=ann)
    assert (status, refused["error"]["code"]) == (409, "embedding_dimension_changed")
    assert "corral collections reset manuals" in refused["error"]["hint"]


async def test_search_counts_as_a_request_of_its_caller_and_obeys_the_models_of_the_key(
    frontend: RunningFrontend, engine: Engine
) -> None:
    await serve(frontend, engine)
    key = (await make_key(frontend, "ann", models=["other"]))["key"]
    status, _ = await frontend.call("POST", BASE, {"name": "manuals", "embedding_model": "chat"}, key=key)
    assert status == 404
    for body in ({"query": ""}, {"query": "x", "max_results": 0}, {"query": "x", "max_results": 51}, {}):
        status, _ = await frontend.call("POST", f"{BASE}/manuals/search", body, key=key)
        assert status in (400, 422), body
