"""Collections over the API: uploads that a worker reads, replaced ones, other owners, and what the server lacks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from corral.domain.access import parse_owner
from corral.domain.artifact import ArtifactKind
from corral.policy.documents import ENTRY_BYTES_MAX
from corral.store import artifacts as artifact_store
from corral.store import collections as store
from corral.store.artifacts import NewArtifact
from corral.store.collections import NewEntry
from corral.store.database import Database
from tests.agents.hand_worker import join_worker, make_key
from tests.knowledge.scene import (
    BASE,
    DocumentWorker,
    create_collection,
    list_names,
    upload,
    wait_for_entry,
)
from tests.operations.scene import sql
from tests.runs.scene import ids
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.polling import eventually

GUIDE = "The pump starts at noon.\n\nThe valve is blue.\n\nCall the plumber on Mondays."


@pytest.fixture
async def worker(frontend: RunningFrontend) -> DocumentWorker:
    return DocumentWorker(await join_worker(frontend), frontend)


async def begin(frontend: RunningFrontend, content: str = GUIDE, **fields: Any) -> str:
    """Upload a document, and return the run that is to read it."""
    status, made = await upload(frontend, content, **fields)
    assert status == 201, made
    return str(made["entry"]["run_id"])


@pytest.mark.behaviour("KNOW-1")
async def test_upload_is_read_by_a_worker_and_shown_with_its_text_and_its_file(
    frontend: RunningFrontend, worker: DocumentWorker
) -> None:
    await create_collection(frontend)
    run_id = await begin(frontend)
    assert (await wait_for_entry(frontend, "pump.md"))["state"] in ("queued", "reading")
    texts = await worker.ingest(run_id)
    entry = await wait_for_entry(frontend, "pump.md", "ready")
    assert (entry["chunks"], entry["run_id"], entry["message"]) == (3, run_id, "")
    _, shown = await frontend.call("GET", f"{BASE}/manuals/entries/pump.md")
    assert (shown["chunks"], shown["chunk_count"]) == (texts, 3)
    status, raw = await frontend.call("GET", f"{BASE}/manuals/entries-raw/pump.md")
    assert (status, raw) == (200, GUIDE)
    _, found = await frontend.call("GET", BASE)
    assert (found["collections"], found["items"][0]["chunks"], found["items"][0]["dimension"]) == (["manuals"], 3, 64)


@pytest.mark.behaviour("KNOW-2")
async def test_chunks_are_stored_once_although_deliveries_are_repeated_and_another_worker_goes_on(
    frontend: RunningFrontend, worker: DocumentWorker
) -> None:
    await create_collection(frontend)
    run_id = await begin(frontend)
    await worker.hand.take(run_id)
    for _ in range(2):
        assert (await worker.deliver(run_id, 0, ["one", "two"]))[1]["stored"] == 2
    status, refused = await worker.deliver(run_id, 4, ["five"])
    assert (status, refused["error"]["code"]) == (409, "chunk_missing")
    status, refused = await worker.deliver(run_id, 2, ["three"], total=4)
    assert (status, refused["error"]["code"]) == (409, "chunk_missing")
    _, work = await worker.hand.fetch(run_id)
    assert work["spec"]["extra"]["next_chunk"] == 2
    assert (await wait_for_entry(frontend, "pump.md"))["state"] == "reading"
    assert (await worker.deliver(run_id, 2, ["three"], total=3))[0] == 200
    assert (await wait_for_entry(frontend, "pump.md"))["state"] == "ready"
    _, shown = await frontend.call("GET", f"{BASE}/manuals/entries/pump.md")
    assert shown["chunks"] == ["one", "two", "three"]


@pytest.mark.behaviour("KNOW-3")
async def test_document_keeps_its_earlier_text_until_the_new_one_is_read(
    frontend: RunningFrontend, worker: DocumentWorker
) -> None:
    await create_collection(frontend)
    await worker.ingest(await begin(frontend))
    second = await begin(frontend, "The pump starts at midnight.")
    await worker.hand.take(second)
    _, shown = await frontend.call("GET", f"{BASE}/manuals/entries/pump.md")
    assert (shown["entry"]["state"], shown["chunks"][0]) == ("reading", "The pump starts at noon.")
    assert (await worker.deliver(second, 0, ["The pump starts at midnight."], total=1))[0] == 200
    _, shown = await frontend.call("GET", f"{BASE}/manuals/entries/pump.md")
    assert (shown["entry"]["state"], shown["chunks"]) == ("ready", ["The pump starts at midnight."])
    third = await begin(frontend, "A third text.")
    status, refused = await worker.deliver(second, 0, ["late"], total=1)
    assert (status, refused["error"]["code"]) == (409, "run_not_held") or status == 404, refused
    await worker.ingest(third)
    assert await list_names(frontend) == ["pump.md"]


@pytest.mark.behaviour("KNOW-4")
async def test_embeddings_of_another_length_are_refused_with_409_and_the_entry_says_so(
    frontend: RunningFrontend, worker: DocumentWorker
) -> None:
    await create_collection(frontend)
    await worker.ingest(await begin(frontend))
    run_id = await begin(frontend, name="other.md")
    await worker.hand.take(run_id)
    status, refused = await worker.deliver(run_id, 0, ["x"], vectors=[[0.5] * 32], total=1)
    assert (status, refused["error"]["code"]) == (409, "embedding_dimension_changed")
    end = {"state": "failed", "error_code": "embedding_dimension_changed", "error_text": refused["error"]["message"]}
    await worker.hand.end(run_id, "", **end)
    entry = await wait_for_entry(frontend, "other.md", "failed")
    assert "have 32 numbers" in entry["message"]
    assert (await frontend.call("POST", f"{BASE}/manuals/reset"))[0] == 200
    assert await list_names(frontend) == []
    again = await begin(frontend, name="other.md")
    await worker.hand.take(again)
    assert (await worker.deliver(again, 0, ["x"], vectors=[[0.5] * 32], total=1))[0] == 200


@pytest.mark.parametrize("vector", [[float("nan")] * 4, [], [float("inf")]])
async def test_embedding_that_is_no_number_is_refused(
    frontend: RunningFrontend, worker: DocumentWorker, vector: list[float]
) -> None:
    await create_collection(frontend)
    run_id = await begin(frontend)
    await worker.hand.take(run_id)
    status, _ = await worker.deliver(run_id, 0, ["x"], vectors=[vector], total=1)
    assert status == 400


@pytest.mark.behaviour("KNOW-5")
async def test_collection_of_another_owner_does_not_exist(frontend: RunningFrontend, worker: DocumentWorker) -> None:
    ann, ben = [(await make_key(frontend, name))["key"] for name in ("ann", "ben")]
    await create_collection(frontend, key=ann)
    await worker.ingest(await begin(frontend, key=ann))
    for method, path, body in (
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/reset", {}),
        ("GET", "/entries", None),
        ("GET", "/entries/pump.md", None),
        ("GET", "/entries-raw/pump.md", None),
        ("DELETE", "/entry/delete", {"entry": "pump.md"}),
        ("POST", "/search", {"query": "pump"}),
        ("GET", "/sources", None),
        ("POST", "/sources", {"url": "https://example.com/"}),
        ("DELETE", "/sources", {"url": "https://example.com/"}),
    ):
        for key in (ben, ADMIN_KEY):
            assert (await frontend.call(method, f"{BASE}/manuals{path}", body, key=key))[0] == 404, path
    assert (await upload(frontend, "x", key=ben))[0] == 404
    assert await list_names(frontend, key=ann) == ["pump.md"]
    assert (await frontend.call("GET", BASE, key=ben))[1]["count"] == 0


@pytest.mark.behaviour("KNOW-6")
async def test_worker_reads_and_writes_only_documents_of_runs_that_it_holds(
    frontend: RunningFrontend, worker: DocumentWorker
) -> None:
    await create_collection(frontend)
    run_id = await begin(frontend)
    await worker.hand.take(run_id)
    thief = DocumentWorker(await join_worker(frontend, "agent-2"), frontend)
    thief.hand.jobs[run_id] = worker.hand.jobs[run_id]
    for status, refused in (
        await thief.deliver(run_id, 0, ["x"], total=1),
        await thief.hand.node.call("GET", f"/runs/{run_id}/document?job_id={worker.hand.jobs[run_id]}"),
        await thief.hand.node.call("POST", f"/runs/{run_id}/collection/search", {"job_id": "x"}),
    ):
        assert (status, refused["error"]["code"]) == (409, "run_not_held")
    # A run that reads a document is no turn of an agent.
    body = {"job_id": worker.hand.jobs[run_id], "call_id": "c", "text": "x"}
    assert (await worker.hand.node.call("POST", f"/runs/{run_id}/collection/memories", body))[0] == 409


@pytest.mark.behaviour("KNOW-7")
@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("tool.exe", 400, "unsupported_document"), ("", 400, "bad_entry_name"), ("noending", 400, "unsupported_document")],
)
async def test_document_that_cannot_be_read_is_refused_and_nothing_is_kept(
    frontend: RunningFrontend, worker: DocumentWorker, name: str, status: int, code: str
) -> None:
    await create_collection(frontend)
    found, refused = await upload(frontend, "x", name=name)
    assert (found, refused["error"]["code"]) == (status, code)
    assert (await frontend.call("GET", "/v1/files"))[1]["data"] == []
    assert await list_names(frontend) == []


@pytest.mark.behaviour("KNOW-7")
async def test_document_that_is_too_large_is_refused_while_it_arrives(
    frontend: RunningFrontend, worker: DocumentWorker
) -> None:
    await create_collection(frontend)
    status, refused = await upload(frontend, b"x" * (ENTRY_BYTES_MAX + 1))
    assert (status, refused["error"]["code"]) == (413, "document_too_large")
    assert (await frontend.call("GET", "/v1/files"))[1]["data"] == []


async def test_upload_without_an_agent_worker_is_refused_and_nothing_is_kept(frontend: RunningFrontend) -> None:
    await create_collection(frontend)
    status, refused = await upload(frontend, GUIDE)
    assert (status, refused["error"]["code"]) == (503, "no_agent_worker")
    assert await list_names(frontend) == []


@pytest.mark.behaviour("KNOW-8")
async def test_deleted_entry_takes_its_file_its_chunks_and_its_run_with_it(
    frontend: RunningFrontend, worker: DocumentWorker
) -> None:
    await create_collection(frontend)
    await worker.ingest(await begin(frontend))
    file = (await frontend.call("GET", "/v1/files"))[1]["data"][0]
    assert (await frontend.call("DELETE", f"/v1/files/{file['id']}"))[0] == 409
    open_run = await begin(frontend, name="other.md")
    await worker.hand.take(open_run)
    for name in ("pump.md", "other.md"):
        status, left = await frontend.call("DELETE", f"{BASE}/manuals/entry/delete", {"entry": name})
        assert status == 200, left
    assert left["entries"] == []
    assert (await frontend.call("GET", "/v1/files"))[1]["data"] == []
    assert (await worker.hand.wait_until_ended(open_run))["state"] == "cancelled"
    assert (await frontend.call("DELETE", f"{BASE}/manuals"))[0] == 204
    assert (await frontend.call("GET", f"{BASE}/manuals"))[0] == 404


async def test_entry_whose_run_was_cancelled_has_failed(frontend: RunningFrontend, worker: DocumentWorker) -> None:
    await create_collection(frontend)
    run_id = await begin(frontend)
    await worker.hand.take(run_id)
    assert (await frontend.call("POST", f"/api/runs/{run_id}/cancel"))[0] == 200
    frontend.core.loops.wake("collections")
    assert "cancelled" in (await wait_for_entry(frontend, "pump.md", "failed"))["message"]


@pytest.mark.parametrize("name", ["", " x", "a/b", "a:b", "..", "x" * 101, "a\x00b"])
async def test_collection_with_an_invalid_name_is_refused(frontend: RunningFrontend, name: str) -> None:
    status, refused = await frontend.call("POST", BASE, {"name": name})
    assert status == 400, refused


async def test_collection_without_an_embedding_model_names_what_to_do(frontend: RunningFrontend) -> None:
    status, refused = await frontend.call("POST", BASE, {"name": "manuals"})
    assert (status, refused["error"]["code"]) == (400, "no_embedding_model")
    status, refused = await frontend.call("POST", BASE, {"name": "manuals", "embedding_model": "nosuch"})
    assert status == 404, refused


async def test_document_of_some_mib_arrives_whole(frontend: RunningFrontend, worker: DocumentWorker) -> None:
    await create_collection(frontend)
    content = "\n\n".join(f"Line {number} of a long text." for number in range(60_000))
    run_id = await begin(frontend, content)
    await worker.hand.take(run_id)
    assert await worker.read(run_id) == content


@pytest.mark.behaviour("KNOW-4")
async def test_document_that_is_stored_while_its_collection_is_emptied_keeps_the_length_of_its_embeddings(
    frontend: RunningFrontend, worker: DocumentWorker
) -> None:
    """Otherwise the next document could have embeddings of another length beside it."""
    collection = await create_collection(frontend)
    await worker.ingest(await begin(frontend, name="old.md"))
    async with frontend.database.transaction() as tx:
        await store.lock_collection(tx, collection.id)
        artifact_id, entry_id = ids.new_id(), ids.new_id()
        owner = parse_owner(collection.owner)
        new = NewArtifact(id=artifact_id, owner=owner, kind=ArtifactKind.COLLECTION, name="new.md")
        await artifact_store.insert_artifact(tx, new)
        await store.insert_entry(
            tx,
            NewEntry(
                id=entry_id,
                collection_id=collection.id,
                name="new.md",
                media_type="",
                size_bytes=1,
                sha256="",
                artifact_id=artifact_id,
                key_id="k",
                owner_name="ann",
            ),
        )
        values = {"state": "ready", "ready_version": 1, "language": "simple", "chunks": 1}
        await store.update_entry(tx, entry_id, values)
        emptying = asyncio.create_task(frontend.call("POST", f"{BASE}/manuals/reset"))
        # It has deleted what it could see, and waits for the row of the collection.
        await eventually(lambda: is_waiting(frontend.database))
    assert (await emptying)[0] == 200
    _, shown = await frontend.call("GET", f"{BASE}/manuals")
    assert (shown["entries"], shown["dimension"]) == (1, 64)


async def is_waiting(database: Database) -> bool:
    """Whether a statement of this database waits for a lock."""
    query = "SELECT count(*) AS number FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    [row] = await sql(database, f"{query} AND datname = current_database()")
    return bool(row.number)


# --- admins that act for others, and languages ---


@pytest.mark.behaviour("KNOW-24")
async def test_admin_acts_for_another_owner_and_the_audit_names_the_admin(
    frontend: RunningFrontend, worker: DocumentWorker
) -> None:
    ben = await make_key(frontend, "ben")
    await create_collection(frontend, key=ben["key"])
    mine = f"?user_id=key:{ben['id']}"
    assert (await frontend.call("GET", BASE))[1]["count"] == 0
    _, found = await frontend.call("GET", f"{BASE}{mine}")
    assert [(one["name"], one["owner"]) for one in found["items"]] == [("manuals", f"key:{ben['id']}")]
    assert (await frontend.call("GET", f"{BASE}?all_users=true"))[1]["collections"] == ["manuals"]
    status, made = await upload(frontend, GUIDE, collection="manuals", query=mine)
    assert status == 201, made
    run_id = made["entry"]["run_id"]
    # The run is the owner's, and not the admin's.
    assert (await frontend.call("GET", f"/api/runs/{run_id}", key=ben["key"]))[0] == 200
    assert (await frontend.call("GET", f"/api/runs/{run_id}"))[0] == 404
    await worker.ingest(run_id)
    assert await list_names(frontend, key=ben["key"]) == ["pump.md"]
    for method, path, body in (
        ("GET", "/manuals/entries", None),
        ("GET", "/manuals/entries/pump.md", None),
        ("GET", "/manuals/entries-raw/pump.md", None),
        ("DELETE", "/manuals/entry/delete", {"entry": "pump.md"}),
        ("POST", "/manuals/reset", None),
    ):
        assert (await frontend.call(method, f"{BASE}{path}{mine}", body))[0] == 200, path
    assert await list_names(frontend, key=ben["key"]) == []
    assert (await frontend.call("DELETE", f"{BASE}/manuals{mine}"))[0] == 204
    _, audit = await frontend.call("GET", "/api/audit")
    lines = [(one["action"], one["actor"]) for one in audit["entries"] if one["action"].startswith("collection.")]
    assert [action for action, _ in lines] == ["collection.delete", "collection.reset", "collection.create"]
    assert lines[0][1] == lines[1][1] != "ben"


@pytest.mark.behaviour("KNOW-5")
async def test_only_admins_name_another_owner(frontend: RunningFrontend) -> None:
    await create_collection(frontend)
    ben = (await make_key(frontend, "ben"))["key"]
    _, found = await frontend.call("GET", BASE)
    owner = found["items"][0]["owner"]
    for path in ("", "/manuals", "/manuals/entries", "/manuals/sources", "/manuals/entries-raw/x"):
        status, refused = await frontend.call("GET", f"{BASE}{path}?user_id={owner}", key=ben)
        assert (status, refused["error"]["code"]) == (403, "not_allowed"), path
    for method, path in (("DELETE", "/manuals"), ("POST", "/manuals/reset")):
        assert (await frontend.call(method, f"{BASE}{path}?user_id={owner}", key=ben))[0] == 403
    assert (await frontend.call("GET", f"{BASE}?all_users=true", key=ben))[0] == 403
    for strange in ("nobody", "user:nobody", "key:1", "cluster:", "team:1"):
        assert (await frontend.call("GET", f"{BASE}?user_id={strange}"))[0] == 404, strange
    assert (await frontend.call("GET", f"{BASE}/manuals"))[0] == 200


@pytest.mark.behaviour("KNOW-23")
async def test_document_has_its_own_language_or_that_of_its_collection(
    frontend: RunningFrontend, worker: DocumentWorker
) -> None:
    german = "Die Pumpe läuft, wenn das Ventil des zweiten Tanks offen ist.\n\nSie hält am Mittag an."
    await create_collection(frontend)
    await worker.ingest(await begin(frontend, german))
    assert (await wait_for_entry(frontend, "pump.md", "ready"))["language"] == "german"
    # Replaced by another language, it is found in that of the text that is ready.
    run_id = await begin(frontend, GUIDE.replace("Call", "You have to call"))
    assert (await wait_for_entry(frontend, "pump.md"))["language"] == "german"
    await worker.ingest(run_id)
    assert (await wait_for_entry(frontend, "pump.md", "ready"))["language"] == "english"
    await create_collection(frontend, "plain", language="simple")
    await worker.ingest(await begin(frontend, german, collection="plain"))
    assert (await wait_for_entry(frontend, "pump.md", "ready", collection="plain"))["language"] == "simple"


@pytest.mark.parametrize("language", ["klingon", "English", "", "a; DROP TABLE users", "x" * 64])
async def test_collection_in_a_language_that_there_is_not_is_refused(frontend: RunningFrontend, language: str) -> None:
    body = {"name": "manuals", "language": language}
    status, refused = await frontend.call("POST", BASE, body)
    assert (status, refused["error"]["code"]) == (400, "bad_language"), refused
