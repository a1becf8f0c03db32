"""`corral batches …`: create one of a file, list, show and cancel batches, and download their files."""

from __future__ import annotations

import json

from aiohttp import web

from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import json_answer, refusal

BATCH_ID = "batch_" + "0" * 24 + "2054e399"
FILE_ID = "file-" + "1" * 32


def a_batch(**changes):
    made = {
        "id": BATCH_ID, "object": "batch", "endpoint": "/v1/chat/completions", "input_file_id": FILE_ID,
        "completion_window": "24h", "status": "in_progress", "created_at": 1767355200, "run_id": "r1",
        "request_counts": {"total": 10, "completed": 3, "failed": 1},
    }  # fmt: skip
    return made | changes


async def send_content(request):
    del request
    return web.Response(body=b'{"custom_id": "a"}\n', content_type="application/octet-stream")


def test_batch_is_created_of_a_file(corral, frontend, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"{}\n")
    file = {"id": FILE_ID, "bytes": 3, "created_at": 1, "filename": "in.jsonl", "purpose": "batch"}
    frontend.on("POST /v1/files", json_answer(file))
    frontend.on("POST /v1/batches", json_answer(a_batch(status="validating")))
    made = corral("batches", "create", str(source), "--endpoint", "/v1/embeddings")
    assert made.out == f"{BATCH_ID}\n"
    assert f"corral batches show {BATCH_ID}" in made.err
    assert bodies(frontend, "POST /v1/batches")[-1]["endpoint"] == "/v1/embeddings"
    missing = corral("batches", "create", str(tmp_path / "nothing"))
    assert missing.code == 1
    assert "cannot be read" in missing.err


def test_batches_are_listed_with_their_counts(corral, frontend):
    frontend.on("GET /v1/batches", json_answer({"data": [a_batch()]}))
    lines = corral("batches", "list").out.splitlines()
    assert lines[0].split() == ["ID", "ENDPOINT", "STATUS", "ANSWERED", "AGE"]
    assert "in progress" in lines[1]
    assert "4/10, 1 failed" in lines[1]
    assert json.loads(corral("batches", "list", "--json").out)[0]["id"] == BATCH_ID
    frontend.on("GET /v1/batches", json_answer({"data": []}))
    assert "corral batches create FILE" in corral("batches", "list").err


def test_batch_is_found_by_the_end_of_its_id_and_shown_with_its_errors(corral, frontend):
    error = {"code": "invalid_json_line", "line": 2, "message": "This line is no\x1b JSON.", "param": None}
    failed = a_batch(status="failed", errors={"data": [error]})
    frontend.on("GET /v1/batches", json_answer({"data": [failed]}))
    frontend.on(f"GET /v1/batches/{BATCH_ID}", json_answer(failed))
    shown = corral("batches", "show", "2054e399")
    assert "failed" in shown.out
    assert "line 2: This line is no\N{REPLACEMENT CHARACTER} JSON. (invalid_json_line)" in shown.out


def test_batch_is_cancelled_and_an_ended_one_is_refused(corral, frontend):
    frontend.on(f"POST /v1/batches/{BATCH_ID}/cancel", json_answer(a_batch(status="cancelling")))
    assert "Cancelled the batch." in corral("batches", "cancel", BATCH_ID).err
    answer = refusal(409, "batch_ended", "The batch has completed already.")
    frontend.on(f"POST /v1/batches/{BATCH_ID}/cancel", answer)
    outcome = corral("batches", "cancel", BATCH_ID)
    assert (outcome.code, "completed already" in outcome.err) == (1, True)


def test_answers_are_written_to_a_new_file_only(corral, frontend, tmp_path):
    target = tmp_path / "out.jsonl"
    frontend.on(f"GET /v1/batches/{BATCH_ID}", json_answer(a_batch(status="completed", output_file_id=FILE_ID)))
    frontend.on(f"GET /v1/files/{FILE_ID}/content", send_content)
    assert "Wrote 19 bytes" in corral("batches", "download", BATCH_ID, str(target)).err
    assert target.read_bytes() == b'{"custom_id": "a"}\n'
    again = corral("batches", "download", BATCH_ID, str(target))
    assert (again.code, "cannot be written" in again.err) == (1, True)
    none = corral("batches", "download", BATCH_ID, str(tmp_path / "errors"), "--errors")
    assert (none.code, "no failed requests" in none.err) == (1, True)
