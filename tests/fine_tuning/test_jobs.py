"""Fine-tunings through the API: what is refused, what workers fetch and send, and what becomes of checkpoints."""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.hand_worker import make_key
from tests.fine_tuning.scene import JOBS, FineTuneScene, join_trainer, make_rows, open_scene
from tests.support.frontends import ADMIN_KEY
from tests.support.nodes import GIB
from tests.support.polling import eventually


@pytest.fixture
async def scene(database_url: str, tmp_path: Path) -> AsyncIterator[FineTuneScene]:
    async with open_scene(database_url, tmp_path) as opened:
        yield opened


@pytest.mark.behaviour("TUNE-1")
async def test_fine_tuning_that_is_not_watched_completes_with_its_curve_on_record(scene: FineTuneScene) -> None:
    job_id = await scene.take()
    for step in (1, 2, 3):
        await scene.send_point(job_id, step, loss=5.0 / step, learning_rate=1e-4)
    await scene.send_point(job_id, 3, eval_loss=1.25)
    await scene.finish(job_id)
    job = await scene.show(job_id)
    assert (job["status"], job["progress_percent"], job["result"]["loss"]) == ("completed", 100.0, 1.5)
    for _ in range(2):
        status, curve = await scene.call("GET", f"{job_id}/curve")
        assert (status, [point["step"] for point in curve["points"]]) == (200, [1, 2, 3, 3])
        assert [point["loss"] for point in curve["points"]] == [5.0, 2.5, 5.0 / 3, None]
        assert curve["points"][-1]["eval_loss"] == 1.25


@pytest.mark.behaviour("TUNE-1")
async def test_progress_is_streamed_to_the_end_with_the_points_of_the_curve(scene: FineTuneScene) -> None:
    job_id = await scene.take()
    await scene.send_point(job_id, 2, loss=2.5)
    await scene.finish(job_id)
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    async with scene.frontend.http.get(f"{scene.frontend.url}{JOBS}/{job_id}/progress", headers=headers) as answer:
        blocks = [block.split("\n") for block in (await answer.text()).split("\n\n") if "event: " in block]
    names = [next(line[7:] for line in block if line.startswith("event: ")) for block in blocks]
    assert (names[0], names[-1]) == ("state", "done")
    entries = [json.loads(next(line[6:] for line in block if line.startswith("data: "))) for block in blocks]
    points = [one["data"] for one in entries if "loss" in (one.get("data") or {})]
    assert [(one["step"], one["loss"]) for one in points] == [(2, 2.5)]


@pytest.mark.behaviour("TUNE-2")
async def test_defaults_of_a_training_are_those_that_are_documented(scene: FineTuneScene) -> None:
    status, made = await scene.start()
    assert status == 201, made
    shown = made["parameters"]
    expected = {
        "adapter_rank": 16, "adapter_alpha": 16, "adapter_dropout": 0.0, "learning_rate": 2e-4, "num_epochs": 3.0,
        "batch_size": 2, "gradient_accumulation_steps": 4, "warmup_steps": 5, "weight_decay": 0.01,
        "save_steps": 500, "seed": 3407, "optimizer": "adamw_torch", "max_length": 512, "eval_split": 0.1,
        "training_method": "sft", "training_type": "lora", "target_modules": [],
    }  # fmt: skip
    assert {name: shown[name] for name in expected} == expected
    assert made["status"] in ("queued", "loading_model")


@pytest.mark.behaviour("TUNE-3")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "unknown"}, 404, "model_not_found"),
        ({"dataset_source": "unknown.jsonl"}, 404, "dataset_not_found"),
        ({"backend": "nothing"}, 404, "backend_not_found"),
        ({"training_method": "magic"}, 400, "bad_setting"),
        ({"training_method": "orpo"}, 400, "bad_setting"),
        ({"training_method": "dpo"}, 400, "unsuited_dataset"),
        ({"training_type": "lokr"}, 400, "bad_setting"),
        ({"learning_rate": -1.0}, 400, "bad_setting"),
        ({"extra_options": {"batch_size": "many"}}, 400, "bad_setting"),
        ({"resume_from_checkpoint": "00000000-0000-4000-8000-000000000000"}, 404, "fine_tune_not_found"),
        ({"resume_from_checkpoint": "x/step"}, 400, "bad_checkpoint"),
    ],
)
async def test_bad_request_is_refused_with_a_reason_and_nothing_is_stored(
    scene: FineTuneScene, body: dict[str, Any], status: int, code: str
) -> None:
    answered, refused = await scene.start(**body)
    assert (answered, refused["error"]["code"]) == (status, code), refused
    assert (await scene.frontend.call("GET", JOBS))[1]["jobs"] == []


@pytest.mark.behaviour("TUNE-3")
async def test_model_without_safetensors_is_refused_with_a_sentence(scene: FineTuneScene) -> None:
    from tests.quantization.scene import add_model  # noqa: PLC0415
    from tests.support.tiny_gguf import write_tiny_gguf  # noqa: PLC0415

    await add_model(scene.frontend, "small", write_tiny_gguf(scene.folder / "small.gguf").read_bytes())
    status, refused = await scene.start(model="small")
    assert (status, refused["error"]["code"]) == (422, "not_trainable"), refused
    assert "GGUF" in refused["error"]["message"]


@pytest.mark.behaviour("TUNE-4")
@pytest.mark.parametrize("name", ["hf_token", "hub_token", "api_key", "wandb_secret"])
async def test_access_token_is_refused_and_appears_nowhere(scene: FineTuneScene, name: str) -> None:
    for body in ({name: "hf_verysecret"}, {"extra_options": {name: "hf_verysecret"}}):
        status, refused = await scene.start(**body)
        assert (status, refused["error"]["code"]) == (400, "token_refused")
        assert "hf_verysecret" not in json.dumps(refused)
    assert "hf_verysecret" not in json.dumps((await scene.frontend.call("GET", JOBS))[1])


@pytest.mark.behaviour("TUNE-5")
async def test_worker_gets_model_dataset_and_settings_by_hash(scene: FineTuneScene) -> None:
    status, made = await scene.start(max_steps=7)
    assert status == 201, made
    spec = await scene.worker.take(made["id"])
    extra = spec["extra"]
    assert (extra["parameters"]["max_steps"], extra["model"], extra["checkpoint"]) == (7, "tiny", "")
    assert extra["build"]["name"] == "trl"
    status, source = await scene.call_node(made["id"], "fine-tuning/source")
    assert status == 200, source
    assert sorted(one["path"] for one in source["files"]) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert (source["folder"], source["checkpoint_files"]) == (".", [])
    path = f"/runs/{made['id']}/fine-tuning/dataset?job_id={scene.worker.jobs[made['id']]}&start="
    status, piece = await scene.worker.node.call("GET", f"{path}0")
    assert base64.b64decode(piece["content"]) == make_rows()
    status, rest = await scene.worker.node.call("GET", f"{path}{len(make_rows()) - 3}")
    assert base64.b64decode(rest["content"]) == make_rows()[-3:]


@pytest.mark.behaviour("TUNE-6")
async def test_checkpoint_counts_once_whole_and_only_the_newest_are_kept(scene: FineTuneScene) -> None:
    job_id = await scene.take()
    status, refused = await scene.call_node(job_id, "fine-tuning/checkpoint", step=5)
    assert (status, refused["error"]["code"]) == (400, "empty_checkpoint")
    for step in (5, 10, 15, 20):
        await scene.send_checkpoint(job_id, step)
        # Repeating it changes nothing.
        await scene.send_checkpoint(job_id, step)
    assert await scene.list_checkpoints(job_id) == ["checkpoint-20", "checkpoint-15", "checkpoint-10"]
    status, source = await scene.call_node(job_id, "fine-tuning/source")
    assert [one["path"] for one in source["checkpoint_files"]] == [
        "adapter_config.json", "adapter_model.safetensors", "optimizer.pt", "trainer_state.json",
    ]  # fmt: skip


@pytest.mark.behaviour("TUNE-6")
async def test_files_of_checkpoints_stay_until_the_job_is_deleted(scene: FineTuneScene) -> None:
    job_id = await scene.train()
    library = scene.frontend.core.library
    status, source = await scene.call("GET", f"{job_id}/checkpoints")
    assert status == 200, source
    async with scene.frontend.database.transaction() as tx:
        from corral.store import run_files  # noqa: PLC0415

        hashes = await run_files.list_hashes(tx, [job_id])
    await library.collect(older_than_s=0.0)
    assert len(hashes) == 4
    assert all([await library.has(sha256) for sha256 in hashes])
    assert (await scene.call("DELETE", job_id))[0] == 204
    assert not any([await library.has(sha256) for sha256 in hashes])


@pytest.mark.behaviour("TUNE-7")
async def test_stop_with_a_checkpoint_reaches_the_worker_and_the_job_goes_on_elsewhere(
    scene: FineTuneScene,
) -> None:
    job_id = await scene.take()
    await scene.send_point(job_id, 1, loss=5.0)
    assert (await scene.call_node(job_id, "fine-tuning/state"))[1] == {"must_stop": False}
    status, stopping = await scene.call("POST", f"{job_id}/stop?save_checkpoint=true")
    assert (status, stopping["is_stopping"]) == (200, True)
    assert (await scene.call_node(job_id, "fine-tuning/state"))[1] == {"must_stop": True}
    await scene.send_checkpoint(job_id, 7)
    await scene.worker.end(job_id, state="cancelled", reason="cancelled", result={"step": 7, "is_stopped": True})
    job = await scene.show(job_id)
    assert (job["status"], job["is_stopping"]) == ("stopped", False)
    # The first node is full of work; another one goes on.
    await scene.take(max_steps=1)
    other = await join_trainer(scene.frontend, "node-2")
    status, resumed = await scene.start(resume_from_checkpoint=job_id)
    assert status == 201, resumed
    spec = await other.take(resumed["id"])
    assert (spec["extra"]["checkpoint"], resumed["resumed_from"]) == ("checkpoint-7", f"{job_id}/checkpoint-7")
    # It has the files itself, so the first job may go.
    assert (await scene.call("DELETE", job_id))[0] == 204
    await scene.frontend.core.library.collect(older_than_s=0.0)
    status, source = await scene.call_node(resumed["id"], "fine-tuning/source", other)
    assert len(source["checkpoint_files"]) == 4
    for file in source["checkpoint_files"]:
        assert await scene.frontend.core.library.has(file["sha256"])


@pytest.mark.behaviour("TUNE-7")
async def test_checkpoint_of_another_training_is_refused(scene: FineTuneScene) -> None:
    job_id = await scene.train()
    status, refused = await scene.start(resume_from_checkpoint=job_id, adapter_rank=8)
    assert (status, refused["error"]["code"]) == (400, "other_training"), refused
    status, refused = await scene.start(resume_from_checkpoint=f"{job_id}/checkpoint-3")
    assert (status, refused["error"]["code"]) == (404, "no_checkpoint"), refused


@pytest.mark.behaviour("TUNE-7")
async def test_stop_at_once_cancels_and_gives_the_worker_the_order(scene: FineTuneScene) -> None:
    job_id = await scene.take()
    status, stopped = await scene.call("POST", f"{job_id}/stop")
    assert (status, stopped["status"]) == (200, "stopped")
    assert (await scene.worker.deliver(job_id))["must_stop"] is True
    status, refused = await scene.call("POST", f"{job_id}/stop")
    assert (status, refused["error"]["code"]) == (409, "run_ended")


@pytest.mark.behaviour("TUNE-8")
async def test_lost_worker_lets_the_next_attempt_go_on_from_the_last_checkpoint(scene: FineTuneScene) -> None:
    job_id = await scene.take()
    await scene.send_checkpoint(job_id, 10)
    first, scene.worker = scene.worker, await join_trainer(scene.frontend, "node-2")
    lost = {"state": "failed", "error_code": "worker_stopping", "error_text": "The worker was stopped."}
    await first.deliver(job_id, ("end", lost))
    spec = await scene.worker.take(job_id)
    assert spec["extra"]["checkpoint"] == "checkpoint-10"
    await scene.finish(job_id)
    assert (await scene.show(job_id))["status"] == "completed"


@pytest.mark.behaviour("TUNE-9")
async def test_training_is_refused_before_a_fetch_if_no_node_has_the_disk(database_url: str, tmp_path: Path) -> None:
    async with open_scene(database_url, tmp_path, available_disk=100_000) as scene:
        status, refused = await scene.start()
        assert (status, refused["error"]["code"]) == (422, "no_room"), refused
        roomy = await join_trainer(scene.frontend, "node-2")
        status, made = await scene.start()
        assert status == 201, made
        await roomy.take(made["id"])


@pytest.mark.behaviour("TUNE-9")
async def test_training_needs_the_gpu_of_a_node_that_has_one(database_url: str, tmp_path: Path) -> None:
    async with open_scene(database_url, tmp_path, total_vram=24 * GIB, available_vram=1000) as scene:
        status, refused = await scene.start()
        assert (status, refused["error"]["code"]) == (422, "no_room"), refused
        assert "GPU" in refused["error"]["message"]


@pytest.mark.behaviour("TUNE-10")
async def test_one_node_trains_one_model_at_a_time_and_others_wait_with_a_position(scene: FineTuneScene) -> None:
    first = await scene.take()
    _, second = await scene.start()
    _, third = await scene.start()

    async def look() -> Any:
        job = await scene.show(third["id"])
        assert job["node_name"] == ""
        return job["message"] == "Waiting for a free place; 1 before it."

    await eventually(look)
    await scene.worker.end(first, state="failed", error_code="x", error_text="No.")
    await scene.worker.take(second["id"])


@pytest.mark.behaviour("TUNE-11")
async def test_active_job_is_not_deleted_and_an_ended_one_leaves_its_model(scene: FineTuneScene) -> None:
    job_id = await scene.take()
    status, refused = await scene.call("DELETE", job_id)
    assert (status, refused["error"]["code"]) == (409, "fine_tune_active")
    await scene.finish(job_id)
    assert (await scene.call("DELETE", job_id))[0] == 204
    assert (await scene.call("GET", job_id))[0] == 404


@pytest.mark.behaviour("TUNE-12")
async def test_checkpoint_is_downloaded_as_an_archive_without_the_state_of_the_trainer(scene: FineTuneScene) -> None:
    job_id = await scene.train()
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    async with scene.frontend.http.get(f"{scene.frontend.url}{JOBS}/{job_id}/download", headers=headers) as answer:
        assert answer.status == 200
        assert "tiny-checkpoint-20.tar.gz" in answer.headers["Content-Disposition"]
        content = gzip.decompress(await answer.read())
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        found = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}  # type: ignore[union-attr]
    assert sorted(found) == ["adapter_config.json", "adapter_model.safetensors"]
    assert found["adapter_model.safetensors"] == b"weights behind step 20"


@pytest.mark.behaviour("TUNE-13")
async def test_fine_tuning_of_another_owner_does_not_exist(scene: FineTuneScene) -> None:
    job_id = await scene.train()
    other = (await make_key(scene.frontend, "bob", scope="operate"))["key"]
    for verb, path, body in (
        ("GET", "", None), ("DELETE", "", None), ("POST", "/stop", None), ("GET", "/checkpoints", None),
        ("GET", "/curve", None), ("GET", "/download", None), ("GET", "/progress", None), ("POST", "/export", {}),
    ):  # fmt: skip
        status, _ = await scene.call(verb, f"{job_id}{path}", body, key=other)
        assert status == 404, (verb, path)
    assert (await scene.frontend.call("GET", JOBS, key=other))[1]["jobs"] == []
    # Neither does the dataset.
    status, refused = await scene.start(key=other)
    assert (status, refused["error"]["code"]) == (404, "dataset_not_found")
    assert (await scene.start(key=other, resume_from_checkpoint=job_id))[0] == 404


async def test_key_for_inference_alone_starts_no_fine_tuning(scene: FineTuneScene) -> None:
    key = (await make_key(scene.frontend, "ann"))["key"]
    assert (await scene.start(key=key))[0] == 403


@pytest.mark.behaviour("TUNE-14")
async def test_worker_that_does_not_hold_the_run_reads_and_sends_nothing(scene: FineTuneScene) -> None:
    job_id = await scene.take()
    stranger = await join_trainer(scene.frontend, "node-2")
    stranger.jobs[job_id] = scene.worker.jobs[job_id]
    for part in ("fine-tuning/source", "fine-tuning/state", "fine-tuning/checkpoint", "fine-tuning/export"):
        status, _ = await scene.call_node(job_id, part, stranger)
        assert status == 409, part
    path = f"/runs/{job_id}/fine-tuning/dataset?job_id={scene.worker.jobs[job_id]}"
    assert (await stranger.node.call("GET", path))[0] == 409
    held, scene.worker = scene.worker, stranger
    assert (await scene.send_files(job_id, "checkpoint-1", {"a.txt": b"a"}))[0] == 409
    scene.worker = held


@pytest.mark.behaviour("TUNE-15")
async def test_inline_reward_is_refused_unless_the_operator_allows_it(database_url: str, tmp_path: Path) -> None:
    inline = {"type": "inline", "name": "mine", "code": "def reward(completions, **columns):\n    return [1.0]"}
    body: dict[str, Any] = {"training_method": "grpo", "reward_functions": [inline]}
    async with open_scene(database_url, tmp_path) as scene:
        status, refused = await scene.start(**body)
        assert (status, refused["error"]["code"]) == (403, "inline_rewards_off"), refused
        status, refused = await scene.start(training_method="grpo", reward_functions=["unknown"])
        assert (status, refused["error"]["code"]) == (400, "unknown_reward")
        status, made = await scene.start(training_method="grpo", reward_functions=["length_reward", {"name": "format"}])
        assert (status, made["parameters"]["reward_functions"]) == (201, [{"name": "length"}, {"name": "format"}])


@pytest.mark.behaviour("TUNE-15")
async def test_inline_reward_reaches_the_worker_if_the_operator_allows_it(database_url: str, tmp_path: Path) -> None:
    inline = {"type": "inline", "name": "mine", "code": "def reward(completions, **columns):\n    return [1.0]"}
    async with open_scene(database_url, tmp_path, options={"allows_inline_rewards": True}) as scene:
        status, made = await scene.start(training_method="grpo", reward_functions=[inline])
        assert status == 201, made
        assert (await scene.worker.take(made["id"]))["extra"]["parameters"]["reward_functions"] == [inline]
        broken = inline | {"code": "def reward(:"}
        status, refused = await scene.start(training_method="grpo", reward_functions=[broken])
        assert (status, refused["error"]["code"]) == (400, "bad_setting")
