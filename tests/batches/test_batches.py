"""`/v1/batches` and what workers read and write of a batch: the cursor, ends, owners."""

from __future__ import annotations

import json

import pytest

from tests.agents.hand_worker import HandWorker, join_worker, make_key
from tests.batches.scene import HeldBatch, create_batch, hold_batch, make_line, render_lines, upload_input
from tests.support.frontends import RunningFrontend
from tests.support.polling import eventually

INPUT = render_lines([make_line(f"r{number}") for number in range(3)])
ENDS = [position + 1 for position, byte in enumerate(INPUT) if byte == ord("\n")]


@pytest.fixture
async def worker(frontend: RunningFrontend) -> HandWorker:
    return await join_worker(frontend, max_runs=1)


@pytest.fixture
async def key(frontend: RunningFrontend) -> str:
    return str((await make_key(frontend, "app"))["key"])


def answer_of(custom_id: str) -> str:
    return json.dumps({"custom_id": custom_id}) + "\n"


@pytest.mark.behaviour("BATCH-7")
async def test_batch_goes_from_validating_to_completed_with_its_files(worker: HandWorker, key: str):
    batch = await hold_batch(worker, key, INPUT, metadata={"for": "tests"})
    shown = await batch.show()
    assert (shown["object"], shown["status"], shown["metadata"]) == ("batch", "validating", {"for": "tests"})
    assert shown["expires_at"] - shown["created_at"] == 24 * 3600
    assert await batch.read_input(0, 10) + await batch.read_input(10) == INPUT
    assert await batch.read_input(len(INPUT)) == b""
    await batch.validate(3)
    shown = await batch.show()
    assert (shown["status"], shown["request_counts"]) == ("in_progress", {"total": 3, "completed": 0, "failed": 0})
    await batch.deliver(0, ENDS[0], 1, output=answer_of("r0"))
    assert (await batch.show())["output_file_id"] is None, "files are shown when they are whole"
    await batch.deliver(ENDS[0], ENDS[2], 3, output=answer_of("r2"), errors=answer_of("r1"))
    await worker.deliver(batch.run_id, ("end", {"state": "completed"}))
    shown = await batch.become("completed")
    assert shown["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert shown["completed_at"] >= shown["finalizing_at"] >= shown["in_progress_at"] >= shown["created_at"]
    assert [line["custom_id"] for line in await batch.read_file(shown["output_file_id"])] == ["r0", "r2"]
    assert [line["custom_id"] for line in await batch.read_file(shown["error_file_id"])] == ["r1"]
    _, file = await worker.frontend.call("GET", f"/v1/files/{shown['output_file_id']}", key=key)
    assert file["purpose"] == "batch_output"


@pytest.mark.behaviour("BATCH-8")
async def test_answers_that_are_delivered_twice_are_stored_once(worker: HandWorker, key: str):
    batch = await hold_batch(worker, key, INPUT)
    await batch.validate(3)
    for _ in range(2):
        status, cursor = await batch.deliver(0, ENDS[0], 1, output=answer_of("r0"))
        assert (status, cursor) == (200, {"next_byte": ENDS[0], "next_line": 1})
    # What does not follow the cursor changes nothing, either.
    status, cursor = await batch.deliver(ENDS[1], ENDS[2], 3, output=answer_of("r2"))
    assert (status, cursor["next_byte"]) == (200, ENDS[0])
    await worker.deliver(batch.run_id, ("end", {"state": "completed"}))
    shown = await batch.become("completed")
    assert [line["custom_id"] for line in await batch.read_file(shown["output_file_id"])] == ["r0"]
    assert shown["request_counts"]["completed"] == 1


@pytest.mark.behaviour("BATCH-8")
async def test_attempt_behind_a_lost_worker_goes_on_at_the_cursor_and_the_lost_one_cannot_write(
    worker: HandWorker, key: str
):
    batch = await hold_batch(worker, key, INPUT)
    await batch.validate(3)
    await batch.deliver(0, ENDS[0], 1, output=answer_of("r0"))
    lost = worker.jobs[batch.run_id]
    await worker.deliver(batch.run_id, ("end", {"state": "failed", "error_code": "worker_stopping"}))
    await worker.wait_until_given_again(batch.run_id, lost)
    spec = await worker.take(batch.run_id)
    assert spec["extra"] | {"slice_bytes": 0} == {
        "endpoint": "/v1/chat/completions",
        "is_valid": True,
        "next_byte": ENDS[0],
        "next_line": 1,
        "slice_bytes": 0,
    }
    status, answer = await batch.deliver(ENDS[0], ENDS[1], 2, output=answer_of("late"), job=lost)
    assert (status, answer["error"]["code"]) == (409, "run_not_held")
    await batch.deliver(ENDS[0], ENDS[2], 3, output=answer_of("r1") + answer_of("r2"))
    await worker.deliver(batch.run_id, ("end", {"state": "completed"}))
    shown = await batch.become("completed")
    assert [line["custom_id"] for line in await batch.read_file(shown["output_file_id"])] == ["r0", "r1", "r2"]


@pytest.mark.behaviour("BATCH-9")
async def test_batch_with_an_invalid_input_fails_with_the_errors_of_its_lines(worker: HandWorker, key: str):
    batch = await hold_batch(worker, key, INPUT)
    fault = {"code": "invalid_json_line", "line": 2, "message": "This is no JSON.", "param": None}
    await batch.validate(3, fault)
    await worker.deliver(batch.run_id, ("end", {"state": "failed", "error_code": "batch_invalid", "error_text": "no"}))
    shown = await batch.become("failed")
    assert shown["errors"] == {"object": "list", "data": [fault]}
    assert (shown["output_file_id"], shown["error_file_id"]) == (None, None)
    assert shown["failed_at"] is not None


@pytest.mark.behaviour("BATCH-10")
async def test_cancelled_batch_keeps_what_was_answered(worker: HandWorker, key: str):
    batch = await hold_batch(worker, key, INPUT)
    await batch.validate(3)
    await batch.deliver(0, ENDS[0], 1, output=answer_of("r0"))
    status, shown = await worker.frontend.call("POST", f"/v1/batches/{batch.id}/cancel", key=key)
    assert status == 200, shown
    assert shown["status"] in ("cancelling", "cancelled")
    status, answer = await batch.deliver(ENDS[0], ENDS[1], 2, output=answer_of("late"))
    assert (status, answer["error"]["code"]) == (409, "run_not_held")
    shown = await batch.become("cancelled")
    assert shown["cancelled_at"] >= shown["cancelling_at"]
    assert [line["custom_id"] for line in await batch.read_file(shown["output_file_id"])] == ["r0"]
    status, answer = await worker.frontend.call("POST", f"/v1/batches/{batch.id}/cancel", key=key)
    assert (status, answer["error"]["code"]) == (409, "batch_ended")


@pytest.mark.behaviour("BATCH-10")
async def test_expired_batch_keeps_what_was_answered_and_names_the_rest(worker: HandWorker, key: str):
    batch = await hold_batch(worker, key, INPUT.rstrip(b"\n"))
    await batch.validate(3)
    await batch.deliver(0, ENDS[0], 1, output=answer_of("r0"))
    end = {"state": "failed", "error_code": "run_timeout", "error_text": "The time is over."}
    await worker.deliver(batch.run_id, ("end", end))
    shown = await batch.become("expired")
    assert shown["request_counts"] == {"total": 3, "completed": 1, "failed": 2}
    assert [line["custom_id"] for line in await batch.read_file(shown["output_file_id"])] == ["r0"]
    errors = await batch.read_file(shown["error_file_id"])
    assert [(line["custom_id"], line["response"], line["error"]["code"]) for line in errors] == [
        ("r1", None, "batch_expired"),
        ("r2", None, "batch_expired"),
    ]


@pytest.mark.behaviour("BATCH-2")
async def test_batches_of_others_do_not_exist(worker: HandWorker, key: str):
    frontend, other = worker.frontend, str((await make_key(worker.frontend, "other"))["key"])
    batch = await hold_batch(worker, key, INPUT)
    for method, path in (("GET", ""), ("POST", "/cancel")):
        status, answer = await frontend.call(method, f"/v1/batches/{batch.id}{path}", key=other)
        assert (status, answer["error"]["code"]) == (404, "batch_not_found")
    assert (await frontend.call("GET", "/v1/batches", key=other))[1]["data"] == []
    mine = (await frontend.call("GET", "/v1/batches", key=key))[1]
    assert [shown["id"] for shown in mine["data"]] == [batch.id]
    status, answer = await create_batch(frontend, other, (await batch.show())["input_file_id"])
    assert (status, answer["error"]["code"]) == (404, "file_not_found")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"endpoint": "/v1/images/generations"}, "invalid_endpoint"),
        ({"completion_window": "1h"}, "invalid_window"),
        ({"input_file_id": "file-nothing"}, "file_not_found"),
    ],
)
async def test_batch_that_cannot_be_answered_is_refused(
    worker: HandWorker, key: str, fields: dict[str, str], code: str
):
    file_id = await upload_input(worker.frontend, key, INPUT)
    status, answer = await create_batch(worker.frontend, key, file_id, **fields)
    assert (status in (400, 404), answer["error"]["code"]) == (True, code)


async def test_file_of_another_purpose_is_no_input(worker: HandWorker, key: str):
    file_id = await upload_input(worker.frontend, key, INPUT, purpose="user_data")
    status, answer = await create_batch(worker.frontend, key, file_id)
    assert (status, answer["error"]["code"]) == (400, "invalid_purpose")


async def test_batch_without_an_agent_worker_is_503(frontend: RunningFrontend, key: str):
    status, answer = await create_batch(frontend, key, await upload_input(frontend, key, INPUT))
    assert (status, answer["error"]["code"]) == (503, "no_agent_worker")


async def test_input_of_an_open_batch_is_not_deleted(worker: HandWorker, key: str):
    batch = await hold_batch(worker, key, INPUT)
    file_id = (await batch.show())["input_file_id"]
    status, answer = await worker.frontend.call("DELETE", f"/v1/files/{file_id}", key=key)
    assert (status, answer["error"]["code"]) == (409, "file_in_use")
    await worker.frontend.call("POST", f"/v1/batches/{batch.id}/cancel", key=key)
    await batch.become("cancelled")
    assert (await worker.frontend.call("DELETE", f"/v1/files/{file_id}", key=key))[0] == 200


@pytest.mark.behaviour("BATCH-11")
async def test_batches_take_no_place_of_other_runs(worker: HandWorker, key: str):
    batches: list[HeldBatch] = [await hold_batch(worker, key, INPUT) for _ in range(2)]
    status, made = await worker.frontend.call("POST", "/api/agents", {"name": "helper", "model": "m"})
    assert status == 201, made
    status, accepted = await worker.frontend.call("POST", "/api/agents/helper/chat", {"message": "hi"})
    assert status == 202, accepted
    # The node takes one run at a time, and gets it beside the batches.
    await worker.take(accepted["run_id"])
    assert {(await batch.show())["status"] for batch in batches} == {"validating"}
    # There is no place for a third batch, and one that waits keeps no other run from a place.
    file_id = await upload_input(worker.frontend, key, INPUT)
    _, third = await create_batch(worker.frontend, key, file_id)

    async def waits() -> bool:
        _, run = await worker.frontend.call("GET", f"/api/runs/{third['run_id']}", key=key)
        return bool(run["state"] == "queued" and run["message"].startswith("Waiting for a free place"))

    await eventually(waits)
    await worker.end(accepted["run_id"])
    _, accepted = await worker.frontend.call("POST", "/api/agents/helper/chat", {"message": "hi"})
    await worker.take(accepted["run_id"])
    assert await waits()


@pytest.mark.behaviour("RUNS-16")
@pytest.mark.parametrize("announced", [None, ["agent_turn"]])
async def test_batch_is_given_to_workers_that_announced_batches_only(
    frontend: RunningFrontend, key: str, announced: list[str] | None
):
    older = await join_worker(frontend, "older", max_runs=50, kinds=announced)
    file_id = await upload_input(frontend, key, INPUT)
    status, answer = await create_batch(frontend, key, file_id)
    assert (status, answer["error"]["code"]) == (503, "no_agent_worker")
    assert "older version" in answer["error"]["message"]
    # Such a worker still gets what it knows.
    await frontend.call("POST", "/api/agents", {"name": "helper", "model": "m"})
    status, accepted = await frontend.call("POST", "/api/agents/helper/chat", {"message": "hi"})
    assert status == 202, accepted
    await older.answer(accepted["run_id"])
    newer = await join_worker(frontend, "newer", max_runs=1)
    status, made = await create_batch(frontend, key, file_id)
    assert status == 200, made
    await newer.wait_for(made["run_id"])


async def test_files_of_a_batch_go_with_its_run(worker: HandWorker, key: str):
    batch = await hold_batch(worker, key, INPUT)
    await batch.validate(3)
    await batch.deliver(0, ENDS[0], 1, output=answer_of("r0"))
    await worker.frontend.call("POST", f"/v1/batches/{batch.id}/cancel", key=key)
    shown = await batch.become("cancelled")
    assert (await worker.frontend.call("DELETE", f"/api/runs/{batch.run_id}", key=key))[0] == 204
    for path in (f"/v1/files/{shown['output_file_id']}", f"/v1/batches/{batch.id}"):
        assert (await worker.frontend.call("GET", path, key=key))[0] == 404


@pytest.mark.behaviour("BATCH-12")
async def test_ticket_of_a_batch_asks_models_in_the_background_and_that_of_a_turn_does_not(
    worker: HandWorker, key: str
):
    batch = await hold_batch(worker, key, INPUT)
    _, work = await worker.fetch(batch.run_id)
    directory = worker.frontend.core.directory
    principal = await directory.authenticate_key(work["spec"]["ticket"])
    assert (principal.is_background, principal.name, principal.scope) == (True, "app", "infer")
    assert not (await directory.authenticate_key(key)).is_background
    await worker.frontend.call("POST", "/api/agents", {"name": "helper", "model": "m"}, key=key)
    _, accepted = await worker.frontend.call("POST", "/api/agents/helper/chat", {"message": "hi"}, key=key)
    spec = await worker.take(accepted["run_id"])
    assert not (await directory.authenticate_key(spec["ticket"])).is_background
