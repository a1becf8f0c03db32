"""Sources that are read again, what agents remember, searches of turns, and a server without the extension."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from aiohttp import web

from corral.adapters.http import HttpFetcher
from corral.engines.launchers.fake import compute_vector
from tests.agents.hand_worker import HandWorker, chat, create, join_worker, make_key
from tests.knowledge.scene import (
    BASE,
    DocumentWorker,
    create_collection,
    list_names,
    pack,
    upload,
    wait_for_entry,
)
from tests.operations.scene import sql
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.polling import eventually
from tests.tasks.scene import serving


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    fetcher = HttpFetcher(uses_proxies=False)
    async with running_frontend(database_url, allows_private_sources=True, fetcher=fetcher) as running:
        yield running
    await fetcher.stop()


@pytest.fixture
async def worker(frontend: RunningFrontend) -> DocumentWorker:
    return DocumentWorker(await join_worker(frontend), frontend)


@dataclass
class Site:
    """A web page whose text the test sets."""

    text: str = "<h1>Pump</h1>"
    status: int = 200
    reads: int = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.reads += 1
        return web.Response(text=self.text, status=self.status, content_type="text/html")


async def run_of(frontend: RunningFrontend, name: str, *, not_in: tuple[str, ...] = ()) -> str:
    """Wait until a run reads an entry, and return it."""

    async def look() -> str:
        run_id = (await wait_for_entry(frontend, name))["run_id"]
        return "" if run_id is None or run_id in not_in else str(run_id)

    return await eventually(look)


async def read_again(frontend: RunningFrontend) -> Any:
    """Let all sources be due, wait until they were looked at, and return the first."""
    await sql(frontend.database, "UPDATE collection_sources SET next_read_at = corral_now(), last_read_at = NULL")
    frontend.core.loops.wake("collections")

    async def look() -> Any:
        _, found = await frontend.call("GET", f"{BASE}/manuals/sources")
        source = found["sources"][0]
        return source if source["last_update"] or source["problem"] else None

    return await eventually(look)


def find_pause(source: Any) -> timedelta:
    """Return the time between the last reading of a source and the next one."""
    last, following = (datetime.fromisoformat(source[name]) for name in ("last_update", "next_update"))
    return timedelta(seconds=round((following - last).total_seconds()))


@pytest.mark.behaviour("KNOW-11")
async def test_source_is_read_again_and_only_a_changed_page_is_read_by_a_worker(
    frontend: RunningFrontend, worker: DocumentWorker
) -> None:
    site = Site()
    async with serving("/guide", site.answer) as url:
        await create_collection(frontend)
        body = {"url": f"{url}/guide", "update_interval": 30}
        status, added = await frontend.call("POST", f"{BASE}/manuals/sources", body)
        assert (status, added["sources"][0]["update_interval"]) == (201, 30.0)
        name = f"{urlsplit(url).netloc}/guide"
        first = await run_of(frontend, name)
        assert await worker.ingest(first) == ["<h1>Pump</h1>"]
        again = await read_again(frontend)
        assert (again["problem"], find_pause(again)) == ("", timedelta(minutes=30))
        assert (await wait_for_entry(frontend, name))["run_id"] == first
        site.text = "<h1>Valve</h1>"
        await read_again(frontend)
        assert await worker.ingest(await run_of(frontend, name, not_in=(first,))) == ["<h1>Valve</h1>"]
        site.status = 500
        failed = await read_again(frontend)
        assert "500" in failed["problem"]
        # It is tried again sooner than at its interval.
        assert datetime.fromisoformat(failed["next_update"]) < datetime.now(UTC) + timedelta(minutes=20)
        assert (await wait_for_entry(frontend, name))["state"] == "ready"
        status, left = await frontend.call("DELETE", f"{BASE}/manuals/sources", {"url": f"{url}/guide"})
        assert (status, left["sources"], await list_names(frontend)) == (200, [], [])


@pytest.mark.behaviour("KNOW-11")
async def test_sources_that_differ_in_their_query_are_entries_of_their_own(
    frontend: RunningFrontend, worker: DocumentWorker
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=f"<h1>{request.query.get('page')}</h1>", content_type="text/html")

    async with serving("/guide", answer) as url:
        await create_collection(frontend)
        for page in ("one", "two"):
            body = {"url": f"{url}/guide?page={page}"}
            assert (await frontend.call("POST", f"{BASE}/manuals/sources", body))[0] == 201

        async def look() -> list[str]:
            found = await list_names(frontend)
            return found if len(found) == 2 else []

        names = await eventually(look)
        texts = {tuple(await worker.ingest(await run_of(frontend, one))) for one in names}
        assert texts == {("<h1>one</h1>",), ("<h1>two</h1>",)}
        # Read again, each finds its own entry as it was.
        await sql(frontend.database, "UPDATE collection_sources SET next_read_at = corral_now(), last_read_at = NULL")
        await frontend.core.knowledge.reader.tick()
        assert await list_names(frontend) == names
        assert {(await wait_for_entry(frontend, one))["state"] for one in names} == {"ready"}


@pytest.mark.behaviour("KNOW-12")
@pytest.mark.parametrize("url", ["http://127.0.0.1/x", "http://10.0.0.1/x", "http://printer/x", "http://[::1]/"])
async def test_source_in_a_private_network_is_refused(database_url: str, url: str) -> None:
    async with running_frontend(database_url) as frontend:
        await create_collection(frontend)
        status, refused = await frontend.call("POST", f"{BASE}/manuals/sources", {"url": url})
        assert (status, refused["error"]["code"]) == (422, "private_address")


@pytest.mark.parametrize("fields", [{"url": "file:///etc/passwd"}, {"url": "https://a:b@example.com/"}, {"url": ""}])
async def test_source_with_a_bad_address_is_refused(frontend: RunningFrontend, fields: dict[str, Any]) -> None:
    await create_collection(frontend)
    assert (await frontend.call("POST", f"{BASE}/manuals/sources", fields))[0] in (400, 422)


@pytest.mark.parametrize("interval", [0, 0.5, "never", 10**9])
async def test_source_with_a_bad_interval_is_refused(frontend: RunningFrontend, interval: Any) -> None:
    await create_collection(frontend)
    body = {"url": "https://example.com/", "update_interval": interval}
    status, refused = await frontend.call("POST", f"{BASE}/manuals/sources", body)
    assert (status, refused["error"]["code"]) == (400, "bad_interval")


# --- what agents remember and search ---


async def answer_turn(worker: HandWorker, run_id: str, memories: list[list[str]]) -> dict[str, Any]:
    return await worker.answer(run_id, "At noon.", result={"memories": memories})


@pytest.mark.behaviour("KNOW-13")
async def test_turn_is_remembered_in_a_collection_of_its_owner_that_is_made_for_it(
    database_url: str,
) -> None:
    async with running_frontend(database_url, embedding_model="embedder") as frontend:
        worker = DocumentWorker(await join_worker(frontend), frontend)
        settings: dict[str, Any] = {"long_term_memory": True, "conversation_storage_mode": "user_and_assistant"}
        await create(frontend, shared=True, **settings)
        ben = (await make_key(frontend, "ben"))["key"]
        run_id = (await chat(frontend, "When does the pump start?", key=ben))["run_id"]
        sources = "\n\nSources:\n1. [a.md](/api/agents/collections/helper/entries-raw/a.md)"
        spec = await answer_turn(
            worker.hand, run_id, [["user", "When does the pump start?"], ["assistant", f"At noon.{sources}"]]
        )
        assert spec["extra"]["knowledge"] == {"memory_mode": "user_and_assistant"}
        names = [f"memory/{run_id}-assistant.md", f"memory/{run_id}-user.md"]
        assert await list_names(frontend, collection="helper", key=ben) == names
        assert (await frontend.call("GET", BASE))[1]["count"] == 0
        where: Any = {"collection": "helper", "key": ben}
        frontend.core.loops.wake("collections")

        async def look() -> str:
            return str((await wait_for_entry(frontend, names[0], **where))["run_id"] or "")

        assert await worker.ingest(await eventually(look)) == ["At noon."]
        assert (await wait_for_entry(frontend, names[0], "ready", **where))["chunks"] == 1


async def test_agent_whose_collection_is_missing_is_stored_with_a_warning(frontend: RunningFrontend) -> None:
    await create_collection(frontend)

    async def list_warnings(**settings: Any) -> list[str]:
        body = {"name": "helper", "model": "m", "enable_kb": True} | settings
        status, changed = await frontend.call("PUT", "/api/agents/helper", body)
        assert status == 200, changed
        return [one for one in changed["warnings"] if "model" not in one]

    made = await create(frontend, enable_kb=True, collection="manual")
    missing = "You have no collection 'manual', so the agent finds nothing in it. Did you mean manuals?"
    assert missing in made["warnings"]
    assert await list_warnings(collection="manual") == [missing]
    assert await list_warnings(collection="manuals") == []
    # One that remembers begins the collection of its own name itself.
    assert await list_warnings(long_term_memory=True) == []
    [without_name] = await list_warnings()
    assert without_name.endswith("Create it: corral collections create helper")


@pytest.mark.behaviour("KNOW-25")
async def test_memories_go_after_their_retention_with_their_files_and_documents_of_people_stay(
    database_url: str,
) -> None:
    async with running_frontend(database_url, embedding_model="embedder", memory_retention_s=3600.0) as frontend:
        worker = DocumentWorker(await join_worker(frontend), frontend)
        await create(frontend, long_term_memory=True)
        run_ids = []
        for message in ("old", "new"):
            run_ids.append((await chat(frontend, message))["run_id"])
            await answer_turn(worker.hand, run_ids[-1], [["user", message]])
            await worker.hand.wait_until_ended(run_ids[-1])
        mine, (old, new) = "mine.md", [f"memory/{run_id}-user.md" for run_id in run_ids]
        status, made = await upload(frontend, "Mine.", name=mine, collection="helper")
        assert status == 201, made
        aged = "UPDATE collection_entries SET state = 'ready', updated_at = updated_at - interval '2 h'"
        await sql(frontend.database, f"{aged} WHERE name <> :new", new=new)
        frontend.core.loops.wake("pruner")

        async def is_pruned() -> bool:
            return old not in await list_names(frontend, collection="helper")

        await eventually(is_pruned)
        assert await list_names(frontend, collection="helper") == sorted([mine, new])
        kept = await sql(frontend.database, "SELECT name FROM artifacts WHERE kind = 'collection'")
        assert sorted(row.name for row in kept) == sorted([mine, new])


@pytest.mark.behaviour("KNOW-13")
async def test_turn_ends_although_it_cannot_be_remembered(frontend: RunningFrontend, worker: DocumentWorker) -> None:
    await create(frontend, long_term_memory=True)
    run_id = (await chat(frontend, "hi"))["run_id"]
    await answer_turn(worker.hand, run_id, [["user", "hi"]])
    assert (await worker.hand.wait_until_ended(run_id))["state"] == "completed"
    assert (await frontend.call("GET", BASE))[1]["count"] == 0


@pytest.mark.behaviour("KNOW-14")
async def test_turn_searches_the_collection_of_its_own_owner_and_adds_to_it_once(
    frontend: RunningFrontend, worker: DocumentWorker
) -> None:
    ben = (await make_key(frontend, "ben"))["key"]
    await create_collection(frontend, "secrets")
    status, made = await upload(frontend, "The safe opens with 4711.", collection="secrets")
    assert status == 201, made
    await worker.ingest(made["entry"]["run_id"])
    await create(frontend, shared=True, enable_kb=True, collection="secrets", kb_mode="both", kb_results=2)
    # Ben has no collection of this name.
    spec = await worker.hand.take((await chat(frontend, "How does it open?", key=ben))["run_id"])
    assert "problem" in spec["extra"]["knowledge"]
    body = {"query": "safe opens", "embedding": pack(compute_vector("safe opens"))}
    status, refused = await call_run(worker.hand, str(spec["run_id"]), "search", body)
    assert (status, refused["error"]["code"]) == (404, "collection_not_found")
    # The owner has.
    spec = await worker.hand.take((await chat(frontend, "How does it open?"))["run_id"])
    knowledge = spec["extra"]["knowledge"]
    assert (knowledge["collection"], knowledge["searches"], knowledge["has_tools"]) == ("secrets", True, True)
    run_id = str(spec["run_id"])
    status, found = await call_run(worker.hand, run_id, "search", body)
    assert (status, [one["content"] for one in found["results"]]) == (200, ["The safe opens with 4711."])
    assert found["results"][0]["file_name"] == "pump.md"
    for _ in range(2):
        status, added = await call_run(worker.hand, run_id, "memories", {"call_id": "c1", "text": "Ann likes tea."})
        assert status == 200, added
    part = hashlib.sha256(b"c1").hexdigest()[:8]
    assert await list_names(frontend, collection="secrets") == [f"memory/{run_id}-{part}.md", "pump.md"]


async def call_run(worker: HandWorker, run_id: str, what: str, body: dict[str, Any]) -> tuple[int, Any]:
    return await worker.node.call("POST", f"/runs/{run_id}/collection/{what}", {"job_id": worker.jobs[run_id]} | body)


# --- PostgreSQL without the extension ---


@asynccontextmanager
async def plain_database(database_url: str) -> AsyncIterator[str]:
    """A database of a role that may not install extensions."""
    admin = await asyncpg.connect(database_url)
    name = f"plain_{hashlib.sha256(database_url.encode()).hexdigest()[:12]}"
    try:
        await admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'plain'")
        await admin.execute(f"CREATE DATABASE {name} OWNER {name}")
        parts = urlsplit(database_url)
        yield f"postgresql://{name}:plain@{parts.hostname}:{parts.port}/{name}"
    finally:
        await admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await admin.execute(f"DROP ROLE IF EXISTS {name}")
        await admin.close()


@pytest.mark.behaviour("KNOW-15")
async def test_server_without_the_extension_is_named_and_serves_everything_else(database_url: str) -> None:
    async with plain_database(database_url) as url, running_frontend(url, embedding_model="m") as frontend:

        async def look() -> str:
            _, ready = await frontend.call("GET", "/readyz")
            return str(ready) if "vector" in str(ready) else ""

        assert "is not installed in Corral's database" in await eventually(look)
        status, refused = await frontend.call("POST", BASE, {"name": "manuals"})
        assert (status, refused["error"]["code"]) == (503, "no_vector_extension")
        assert "CREATE EXTENSION vector" in refused["error"]["hint"]
        assert (await frontend.call("GET", BASE))[1]["count"] == 0
        await create(frontend, key=ADMIN_KEY)
        admin = await asyncpg.connect(database_url.rpartition("/")[0] + "/" + urlsplit(url).path[1:])
        await admin.execute("CREATE EXTENSION vector")
        await admin.close()
        status, made = await frontend.call("POST", BASE, {"name": "manuals"})
        assert status == 201, made
