"""`corral collections …`: create and fill collections, search them, and follow how their entries are read."""

from __future__ import annotations

import json

import pytest
from aiohttp import web

from tests.unit.cli.conftest import bodies
from tests.unit.cli.test_runs import a_run
from tests.unit.client.standin import json_answer, refusal

BASE = "/api/agents/collections"
AT = "2026-01-02T12:00:00Z"


def a_collection(**changes):
    made = {
        "name": "manuals", "embedding_model": "minilm", "dimension": 384, "chunk_size": 400, "chunk_overlap": 0,
        "entries": 2, "chunks": 10, "created_at": AT,
    }  # fmt: skip
    return made | changes


def an_entry(**changes):
    made = {"name": "a.pdf", "state": "ready", "size_bytes": 3, "chunks": 5, "run_id": "r1", "updated_at": AT}
    return made | changes


def a_page(*entries, has_more=False):
    names = [entry["name"] for entry in entries]
    return {"items": list(entries), "entries": names, "count": len(names), "has_more": has_more}


def test_collection_is_created_filled_and_listed(corral, frontend, tmp_path):
    frontend.on(f"POST {BASE}", json_answer(a_collection(), status=201))
    assert "corral collections upload manuals FILE" in corral("collections", "create", "manuals").err
    assert bodies(frontend, f"POST {BASE}")[-1]["chunk_size"] == 400
    source = tmp_path / "a.pdf"
    source.write_bytes(b"%PDF")
    made = {"status": "ok", "filename": "a.pdf", "entry": an_entry(state="queued")}
    frontend.on(f"POST {BASE}/manuals/upload", json_answer(made, status=201))
    assert "Workers read them now." in corral("collections", "upload", "manuals", str(source), "--detach").err
    missing = corral("collections", "upload", "manuals", str(tmp_path / "none.pdf"))
    assert (missing.code, "cannot be read" in missing.err) == (1, True)
    frontend.on(f"GET {BASE}", json_answer({"items": [a_collection()], "collections": ["manuals"], "count": 1}))
    lines = corral("collections", "list").out.splitlines()
    assert lines[0].split() == ["NAME", "MODEL", "ENTRIES", "CHUNKS", "AGE"]
    assert lines[1].split()[:4] == ["manuals", "minilm", "2", "10"]
    frontend.on(f"GET {BASE}", json_answer({"items": [], "collections": [], "count": 0}))
    assert "corral collections create NAME" in corral("collections", "list").err


@pytest.mark.parametrize(
    ("entry", "code", "words"),
    [
        ({"state": "ready"}, 0, "a.pdf is ready, 5 chunks."),
        ({"state": "failed", "message": "The PDF is damaged."}, 1, "a.pdf failed: The PDF is damaged."),
    ],
)
def test_upload_waits_until_the_document_is_read_and_says_how_it_ended(corral, frontend, tmp_path, entry, code, words):
    source = tmp_path / "a.pdf"
    source.write_bytes(b"%PDF")
    made = {"status": "ok", "filename": "a.pdf", "entry": an_entry(state="queued", chunks=0)}
    frontend.on(f"POST {BASE}/manuals/upload", json_answer(made, status=201))
    looks = []

    async def stream(request):
        looks.append(request.path)
        end = json.dumps({"seq": 1, "at": AT, "type": "end", "data": {"state": "completed"}})
        return web.Response(text=f"id: 1\nevent: entry\ndata: {end}\n\n", content_type="text/event-stream")

    frontend.on("GET /api/runs/r1/events", stream)
    frontend.on("GET /api/runs/r1", json_answer(a_run(id="r1", state="completed", finished_at=AT)))
    text = {"entry": an_entry(**entry), "chunks": [], "content": "", "chunk_count": 0}
    frontend.on(f"GET {BASE}/manuals/entries/a.pdf", json_answer(text))
    outcome = corral("collections", "upload", "manuals", str(source))
    assert (outcome.code, words in outcome.err) == (code, True), outcome.err
    assert looks == ["/api/runs/r1/events"]


def test_entries_are_listed_with_why_one_failed_and_deleted(corral, frontend):
    failed = an_entry(name="b.pdf", state="failed", message="It is\x1b damaged.")
    frontend.on(f"GET {BASE}/manuals/entries", json_answer(a_page(an_entry(), failed)))
    lines = corral("collections", "entries", "manuals").out.splitlines()
    assert "failed" in lines[2]
    assert "\x1b" not in lines[2]
    assert json.loads(corral("collections", "entries", "manuals", "--json").out)[1]["state"] == "failed"
    frontend.on(f"DELETE {BASE}/manuals/entry/delete", json_answer(a_page()))
    assert "Deleted the entry." in corral("collections", "delete-entry", "manuals", "b.pdf").err
    assert bodies(frontend, f"DELETE {BASE}/manuals/entry/delete")[-1] == {"entry": "b.pdf"}
    text = {"entry": an_entry(), "chunks": ["one", "two"], "content": "one\n\ntwo", "chunk_count": 2}
    frontend.on(f"GET {BASE}/manuals/entries/a.pdf", json_answer(text))
    assert corral("collections", "show", "manuals", "a.pdf").out.split() == ["one", "two"]


def test_search_prints_text_and_file_of_each_result(corral, frontend):
    result = {
        "id": "x:0", "content": "At  noon.\n", "similarity": 0.8123, "score": 0.03,
        "metadata": {"file_name": "a.pdf", "source": "/x"},
    }  # fmt: skip
    frontend.on(f"POST {BASE}/manuals/search", json_answer({"results": [result], "count": 1}))
    out = corral("collections", "search", "manuals", "when?", "--results", "3").out
    assert out.splitlines()[:2] == ["1. a.pdf (similarity 0.81)", "   At noon."]
    assert bodies(frontend, f"POST {BASE}/manuals/search")[-1] == {"query": "when?", "max_results": 3}
    frontend.on(f"POST {BASE}/manuals/search", json_answer({"results": [], "count": 0}))
    assert "Nothing was found." in corral("collections", "search", "manuals", "when?").err


def test_sources_are_added_listed_and_deleted(corral, frontend):
    source = {"url": "https://example.com/", "update_interval": 30.0, "problem": "The source answers with 500."}
    found = {"sources": [source], "count": 1}
    frontend.on(f"POST {BASE}/manuals/sources", json_answer(found, status=201))
    corral("collections", "add-source", "manuals", "https://example.com/", "--every", "30m")
    assert bodies(frontend, f"POST {BASE}/manuals/sources")[-1]["update_interval"] == "30m"
    frontend.on(f"GET {BASE}/manuals/sources", json_answer(found))
    assert "The source answers with 500." in corral("collections", "sources", "manuals").out
    frontend.on(f"DELETE {BASE}/manuals/sources", json_answer({"sources": [], "count": 0}))
    assert "Deleted" in corral("collections", "delete-source", "manuals", "https://example.com/").err


def test_collection_is_reset_and_deleted_and_a_refusal_is_shown(corral, frontend):
    frontend.on(f"POST {BASE}/manuals/reset", json_answer(a_collection(entries=0)))
    assert "Deleted all entries" in corral("collections", "reset", "manuals", "--yes").err
    frontend.on(f"DELETE {BASE}/manuals", refusal(404, "collection_not_found", "There is no collection 'manuals'."))
    refused = corral("collections", "delete", "manuals", "--yes")
    assert (refused.code, "There is no collection" in refused.err) == (1, True)
