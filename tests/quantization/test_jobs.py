"""Quantisations through the API: what is refused, what workers fetch and send, and what becomes of the result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.hand_worker import make_key
from tests.quantization.scene import (
    JOBS,
    QuantizationScene,
    add_model,
    join_quantizer,
    open_scene,
    upload,
    write_typed_gguf,
)
from tests.support.frontends import ADMIN_KEY
from tests.support.nodes import GIB
from tests.support.polling import eventually
from tests.support.tiny_gguf import write_tiny_gguf

Q4_K_M, Q8_0 = 15, 7


@pytest.fixture
async def scene(database_url: str, tmp_path: Path) -> AsyncIterator[QuantizationScene]:
    async with open_scene(database_url, tmp_path) as opened:
        yield opened


@pytest.fixture
def result(tmp_path: Path) -> bytes:
    return write_typed_gguf(tmp_path / "result.gguf", Q4_K_M, seed=2)


@pytest.mark.behaviour("QUANT-1")
async def test_quantization_becomes_a_model_with_its_provenance(scene: QuantizationScene, result: bytes) -> None:
    job_id = await scene.take(name="tiny-small")
    status, source = await scene.call_source(job_id)
    assert status == 200, source
    assert (source["is_ready"], source["entry"], len(source["files"])) == (True, "tiny.F32.gguf", 1)
    answer = await scene.finish(job_id, result, is_requantized=True, source_types=["q4_1"])
    assert answer["model"] == "tiny-small"
    job = await scene.show(job_id)
    assert (job["status"], job["progress_percent"], job["import_status"]) == ("completed", 100.0, "completed")
    assert job["output_file"] == "tiny.Q4_K_M.gguf"
    status, model = await scene.frontend.call("GET", "/api/models/config/tiny-small")
    assert status == 200, model
    provenance = model["provenance"]
    assert (provenance["model"], provenance["weight_type"], provenance["is_requantized"]) == ("tiny", "q4_k_m", True)
    assert (provenance["source_types"], provenance["run_id"]) == (["q4_1"], job_id)
    assert model["payload_bytes"] == len(result)
    assert model["facts"]["quantisation"] == "Q4_K_M"


@pytest.mark.behaviour("QUANT-2")
async def test_result_of_another_type_is_refused_and_makes_no_model(scene: QuantizationScene, tmp_path: Path) -> None:
    job_id = await scene.take(name="tiny-small")
    wrong = write_typed_gguf(tmp_path / "wrong.gguf", Q8_0, seed=2)
    assert (await scene.send_file(job_id, wrong))[0] == 200
    status, refused = await scene.report(job_id, wrong)
    assert (status, refused["error"]["code"]) == (422, "wrong_weight_type")
    broken = b"These bytes are no model." * 10
    assert (await scene.send_file(job_id, broken))[0] == 200
    assert (await scene.report(job_id, broken))[1]["error"]["code"] == "wrong_weight_type"
    assert (await scene.show(job_id))["output_file"] == ""
    assert (await scene.frontend.call("GET", "/api/models/config/tiny-small"))[0] == 404


@pytest.mark.behaviour("QUANT-3")
async def test_name_that_is_taken_is_refused_before_anything_is_stored(scene: QuantizationScene) -> None:
    status, refused = await scene.start(name="tiny")
    assert (status, refused["error"]["code"]) == (409, "model_name_taken")
    assert (await scene.frontend.call("GET", JOBS))[1]["jobs"] == []


@pytest.mark.behaviour("QUANT-3")
async def test_name_that_is_taken_meanwhile_costs_the_model_and_not_the_result(
    scene: QuantizationScene, result: bytes, tmp_path: Path
) -> None:
    job_id = await scene.take(name="tiny-small")
    await add_model(scene.frontend, "tiny-small", write_tiny_gguf(tmp_path / "other.gguf", seed=9).read_bytes())
    answer = await scene.finish(job_id, result)
    assert (answer["model"], "taken" in answer["problem"]) == ("", True)
    job = await scene.show(job_id)
    assert (job["status"], job["import_status"]) == ("completed", "failed")
    status, refused = await scene.frontend.call("POST", f"{JOBS}/{job_id}/import", {"name": "tiny"})
    assert (status, refused["error"]["code"]) == (409, "model_name_taken")
    status, imported = await scene.frontend.call("POST", f"{JOBS}/{job_id}/import", {})
    assert (status, imported["name"]) == (200, "tiny-q4_k_m"), imported
    status, refused = await scene.frontend.call("POST", f"{JOBS}/{job_id}/import", {"name": "again"})
    assert (status, refused["error"]["code"]) == (409, "already_imported")


@pytest.mark.behaviour("QUANT-25")
async def test_of_two_results_that_get_one_name_at_the_same_moment_one_becomes_the_model(
    scene: QuantizationScene, result: bytes
) -> None:
    other = QuantizationScene(scene.frontend, await join_quantizer(scene.frontend, "node-2"), scene.folder)
    # Named when they began, on two nodes.
    jobs = [await scene.take(name="small"), await other.take(name="small")]
    answers = await asyncio.gather(scene.finish(jobs[0], result), other.finish(jobs[1], result))
    assert sorted(answer["model"] for answer in answers) == ["", "small"], answers
    shown = {job["import_status"]: job for job in [await scene.show(job_id) for job_id in jobs]}
    assert shown["completed"]["import_model_name"] == "small"
    assert "small" in shown["failed"]["import_message"], shown
    # Named later, one of them without being a model yet.
    job_id = await scene.take()
    await scene.finish(job_id, result)
    path, body = f"{JOBS}/{{}}/import", {"name": "late"}
    rivals = (shown["failed"]["id"], job_id)
    late = await asyncio.gather(*(scene.frontend.call("POST", path.format(rival), body) for rival in rivals))
    assert sorted(status for status, _ in late) == [200, 409], late
    assert next(answer["error"]["code"] for status, answer in late if status == 409) == "model_name_taken"
    # The result that lost is there, and gets a name of its own.
    loser = rivals[[status for status, _ in late].index(409)]
    status, imported = await scene.frontend.call("POST", path.format(loser), {"name": "own"})
    assert (status, imported["name"]) == (200, "own"), imported


@pytest.mark.behaviour("QUANT-4")
async def test_active_quantization_is_not_deleted_and_an_ended_one_leaves_its_model(
    scene: QuantizationScene, result: bytes
) -> None:
    job_id = await scene.take(name="tiny-small")
    status, refused = await scene.frontend.call("DELETE", f"{JOBS}/{job_id}")
    assert (status, refused["error"]["code"]) == (409, "quantization_active")
    await scene.finish(job_id, result)
    assert (await scene.frontend.call("DELETE", f"{JOBS}/{job_id}"))[0] == 204
    assert (await scene.frontend.call("GET", f"{JOBS}/{job_id}"))[0] == 404
    status, model = await scene.frontend.call("GET", "/api/models/config/tiny-small")
    assert (status, model["provenance"]["model"]) == (200, "tiny")


@pytest.mark.behaviour("QUANT-4")
async def test_deleted_quantization_takes_a_result_with_it_that_is_no_model(
    scene: QuantizationScene, result: bytes
) -> None:
    job_id = await scene.take()
    await scene.finish(job_id, result)
    sha256 = (await scene.show(job_id))["sha256"]
    # While it is there, no collection takes it.
    await scene.frontend.core.library.collect(older_than_s=0.0)
    assert await scene.frontend.core.library.has(sha256)
    assert (await scene.frontend.call("DELETE", f"{JOBS}/{job_id}"))[0] == 204
    assert not await scene.frontend.core.library.has(sha256)


@pytest.mark.behaviour("QUANT-5")
async def test_quantization_is_refused_before_a_fetch_if_no_node_has_the_disk(
    database_url: str, tmp_path: Path
) -> None:
    async with open_scene(database_url, tmp_path, available_disk=100_000) as scene:
        status, refused = await scene.start()
        assert (status, refused["error"]["code"]) == (422, "no_room"), refused
        assert "disk" in refused["error"]["message"]
        assert (await scene.frontend.call("GET", JOBS))[1]["jobs"] == []
        # A second node with room takes it, and the first one does not.
        roomy = await join_quantizer(scene.frontend, "node-2")
        status, made = await scene.start()
        assert status == 201, made
        await roomy.take(made["id"])


@pytest.mark.behaviour("QUANT-6")
async def test_percentage_never_goes_back_although_another_attempt_begins_again(scene: QuantizationScene) -> None:
    job_id = await scene.take()

    async def tell(phase: str, percent: object) -> float:
        await scene.worker.deliver(job_id, ("status", {"phase": phase, "percent": percent}))
        shown = await scene.show(job_id)
        return float(shown["progress_percent"])

    assert await tell("downloading", 20.0) == 20.0
    assert await tell("quantizing", 60.0) == 60.0
    assert await tell("downloading", 3.0) == 60.0
    # What a worker writes is not trusted to be a number.
    assert await tell("quantizing", "much") == 60.0
    assert await tell("uploading", 500.0) == 99.0


@pytest.mark.behaviour("QUANT-7")
async def test_quantization_of_another_owner_does_not_exist(scene: QuantizationScene) -> None:
    key = (await make_key(scene.frontend, "ann", scope="operate"))["key"]
    status, made = await scene.start(key=key)
    assert status == 201, made
    other = (await make_key(scene.frontend, "bob", scope="operate"))["key"]
    for verb, path in (("GET", ""), ("DELETE", ""), ("POST", "/stop"), ("GET", "/download"), ("GET", "/progress")):
        status, _ = await scene.frontend.call(verb, f"{JOBS}/{made['id']}{path}", key=other)
        assert status == 404, (verb, path)
    assert (await scene.frontend.call("GET", JOBS, key=other))[1]["jobs"] == []
    status, found = await scene.frontend.call("GET", f"{JOBS}?all_users=true", key=ADMIN_KEY)
    assert [job["id"] for job in found["jobs"]] == [made["id"]]


async def test_key_for_inference_alone_starts_no_quantization(scene: QuantizationScene) -> None:
    key = (await make_key(scene.frontend, "ann"))["key"]
    assert (await scene.start(key=key))[0] == 403


@pytest.mark.behaviour("QUANT-8")
async def test_worker_that_does_not_hold_the_run_reads_and_sends_nothing(
    scene: QuantizationScene, result: bytes
) -> None:
    job_id = await scene.take()
    stranger = await join_quantizer(scene.frontend, "node-2")
    stranger.jobs[job_id] = scene.worker.jobs[job_id]
    held, scene.worker = scene.worker, stranger
    assert (await scene.call_source(job_id))[0] == 409
    assert (await scene.send_file(job_id, result))[0] == 409
    assert (await scene.report(job_id, result))[0] == 409
    scene.worker = held
    assert (await scene.send_file(job_id, result, worker_job="another"))[0] == 409


@pytest.mark.behaviour("QUANT-8")
async def test_worker_sends_no_more_than_the_run_may_take(scene: QuantizationScene, result: bytes) -> None:
    job_id = await scene.take()
    status, refused = await scene.send_file(job_id, result, total=500 * GIB)
    assert (status, refused["error"]["code"]) == (413, "result_too_large"), refused


async def test_result_that_is_reported_twice_is_taken_once(scene: QuantizationScene, result: bytes) -> None:
    job_id = await scene.take(name="tiny-small")
    assert (await scene.send_file(job_id, result))[0] == 200
    first, second = await scene.report(job_id, result), await scene.report(job_id, result)
    assert first == second
    await scene.worker.end(job_id)
    _, revisions = await scene.frontend.call("GET", "/api/models/revisions/tiny-small")
    assert len(revisions) == 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"quantization_type": "q4_k_x"}, 400, "unknown_weight_type"),
        ({"quantization_type": "iq1_s"}, 400, "unknown_weight_type"),
        ({"model": "unknown"}, 404, "model_not_found"),
        ({"backend": "nothing"}, 404, "backend_not_found"),
        ({"name": "a\nb"}, 400, "bad_model_name"),
    ],
)
@pytest.mark.behaviour("QUANT-9")
async def test_bad_request_is_refused_with_a_reason(
    scene: QuantizationScene, body: dict[str, Any], status: int, code: str
) -> None:
    answered, refused = await scene.start(**body)
    assert (answered, refused["error"]["code"]) == (status, code), refused
    assert (await scene.frontend.call("GET", JOBS))[1]["jobs"] == []


@pytest.mark.behaviour("QUANT-9")
async def test_model_without_gguf_weights_is_refused_with_a_sentence(scene: QuantizationScene) -> None:
    files = [{"path": "voice.onnx", "uri": f"upload:{await upload(scene.frontend, b'no weights that we know')}"}]
    status, saved = await scene.frontend.call(
        "PUT", "/api/models/config/voice", {"backend": "piper", "files": files, "entry": "voice.onnx"}
    )
    assert status == 200, saved
    status, refused = await scene.start(model="voice")
    assert (status, refused["error"]["code"]) == (422, "not_quantizable"), refused
    assert refused["error"]["message"] == "voice has neither GGUF nor safetensors files."


@pytest.mark.behaviour("QUANT-10")
async def test_stopped_quantization_is_stopped_and_its_worker_gets_the_order(scene: QuantizationScene) -> None:
    job_id = await scene.take()
    status, stopped = await scene.frontend.call("POST", f"{JOBS}/{job_id}/stop")
    assert (status, stopped["status"]) == (200, "stopped")
    assert (await scene.worker.deliver(job_id))["must_stop"] is True
    status, refused = await scene.frontend.call("POST", f"{JOBS}/{job_id}/stop")
    assert (status, refused["error"]["code"]) == (409, "run_ended")


@pytest.mark.behaviour("QUANT-11")
async def test_progress_is_streamed_to_the_end_and_the_result_can_be_downloaded(
    scene: QuantizationScene, result: bytes
) -> None:
    job_id = await scene.take()
    await scene.worker.deliver(job_id, ("status", {"phase": "quantizing", "percent": 50.0}))
    await scene.finish(job_id, result)
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    async with scene.frontend.http.get(f"{scene.frontend.url}{JOBS}/{job_id}/progress", headers=headers) as answer:
        frames = [block.split("\n") for block in (await answer.text()).split("\n\n") if "event: " in block]
    names = [next(line[7:] for line in frame if line.startswith("event: ")) for frame in frames]
    assert (names[0], names[-1], "status" in names) == ("state", "done", True)
    done = json.loads(next(line[6:] for line in frames[-1] if line.startswith("data: ")))
    assert (done["status"], done["progress_percent"]) == ("completed", 100.0)
    url = f"{scene.frontend.url}{JOBS}/{job_id}/download"
    async with scene.frontend.http.get(url, headers=headers) as answer:
        assert answer.headers["Content-Disposition"] == 'attachment; filename="tiny.Q4_K_M.gguf"'
        assert await answer.read() == result


@pytest.mark.behaviour("QUANT-12")
async def test_one_node_quantizes_one_model_at_a_time(scene: QuantizationScene) -> None:
    first = await scene.take()
    status, second = await scene.start(quantization_type="q8_0")
    assert status == 201

    async def look() -> Any:
        job = await scene.show(second["id"])
        assert job["node_name"] == "", "it was given to the node beside the first one"
        return job["message"].startswith("Waiting for a free place")

    await eventually(look)
    await scene.worker.end(first, state="failed", error_code="x", error_text="No.")
    await scene.worker.take(second["id"])


@pytest.mark.behaviour("QUANT-13")
async def test_plan_shows_sizes_by_type_and_where_they_fit(scene: QuantizationScene) -> None:
    status, plan = await scene.frontend.call("GET", "/api/quantization/plan?model=tiny")
    assert status == 200, plan
    sizes = {one["quantization_type"]: one["size_bytes"] for one in plan["types"]}
    assert sizes["q2_k"] < sizes["q4_k_m"] < sizes["q8_0"] < sizes["f16"]
    assert plan["can_run_on"] == ["node-1"]
    assert all(one["fits_on"] == ["node-1"] for one in plan["types"])
    status, backends = await scene.frontend.call("GET", "/api/quantization/backends")
    assert [one["name"] for one in backends] == ["llama-cpp-quantization"]


@pytest.mark.behaviour("QUANT-9")
async def test_quantization_without_a_node_that_quantizes_is_refused(database_url: str, tmp_path: Path) -> None:
    async with open_scene(database_url, tmp_path) as scene:
        assert (await scene.frontend.call("DELETE", f"/api/nodes/{scene.worker.node.id}"))[0] in (200, 204)
        status, refused = await scene.start()
        assert (status, refused["error"]["code"]) == (503, "no_program_node")
