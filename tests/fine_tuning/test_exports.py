"""Exports of fine-tunings: which models they become, names that are taken, and workers that send too little."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fine_tuning.scene import FineTuneScene, add_base, open_scene
from tests.support.safetensors_model import make_safetensors

WHOLE = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": make_safetensors(7)}


@pytest.fixture
async def scene(database_url: str, tmp_path: Path) -> AsyncIterator[FineTuneScene]:
    async with open_scene(database_url, tmp_path) as opened:
        yield opened


async def send_whole(scene: FineTuneScene, run_id: str, files: dict[str, bytes] | None = None) -> tuple[int, Any]:
    assert (await scene.send_files(run_id, "export", files or WHOLE))[0] == 200
    return await scene.call_node(run_id, "fine-tuning/export")


@pytest.mark.behaviour("TUNE-18")
async def test_whole_model_of_a_checkpoint_becomes_a_model_of_the_catalog(scene: FineTuneScene) -> None:
    job_id = await scene.train()
    status, export = await scene.call("POST", f"{job_id}/export", {"export_format": "merged_16bit", "name": "colors"})
    assert (status, export["status"], export["checkpoint"]) == (202, "exporting", "checkpoint-20"), export
    # The job is busy with it.
    status, refused = await scene.call("DELETE", job_id)
    assert (status, refused["error"]["code"]) == (409, "fine_tune_active")
    spec = await scene.worker.take(export["run_id"])
    assert (spec["extra"]["parameters"]["action"], spec["extra"]["build"]["name"]) == ("export", "trl")
    status, source = await scene.call_node(export["run_id"], "fine-tuning/source")
    assert len(source["checkpoint_files"]) == 4, source
    status, answer = await send_whole(scene, export["run_id"])
    assert (status, answer["model"]) == (200, "colors"), answer
    # Delivered twice, it is taken once.
    assert await scene.call_node(export["run_id"], "fine-tuning/export") == (status, answer)
    await scene.worker.end(export["run_id"])
    job = await scene.show(job_id)
    assert (job["export_status"], job["export_model_name"]) == ("completed", "colors")
    status, model = await scene.frontend.call("GET", "/api/models/config/colors")
    assert (status, model["backend"]) == (200, "vllm"), model
    assert sorted(file["path"] for file in model["files"]) == sorted(WHOLE)
    # Deleting the job leaves the model with its files.
    assert (await scene.call("DELETE", job_id))[0] == 204
    await scene.frontend.core.library.collect(older_than_s=0.0)
    for file in model["files"]:
        assert await scene.frontend.core.library.has(file["sha256"])


@pytest.mark.behaviour("TUNE-19")
async def test_of_two_exports_with_one_name_one_is_refused(scene: FineTuneScene) -> None:
    job_id = await scene.train()
    body = {"export_format": "merged_16bit", "name": "colors"}
    answers = await asyncio.gather(*(scene.call("POST", f"{job_id}/export", body) for _ in range(2)))
    assert sorted(status for status, _ in answers) == [202, 409], answers
    status, refused = await scene.call("POST", f"{job_id}/export", {"export_format": "merged_16bit", "name": "tiny"})
    assert (status, refused["error"]["code"]) == (409, "model_name_taken")


@pytest.mark.behaviour("TUNE-19")
async def test_name_that_is_taken_meanwhile_fails_the_export_with_a_sentence(scene: FineTuneScene) -> None:
    job_id = await scene.train()
    _, export = await scene.call("POST", f"{job_id}/export", {"export_format": "merged_16bit", "name": "colors"})
    await scene.worker.take(export["run_id"])
    await add_base(scene.frontend, "colors")
    status, answer = await send_whole(scene, export["run_id"])
    assert (status, answer["model"], "taken" in answer["problem"]) == (200, "", True)
    job = await scene.show(job_id)
    assert (job["export_status"], "taken" in job["export_message"]) == ("failed", True)


@pytest.mark.behaviour("TUNE-18")
async def test_export_without_a_whole_model_makes_none_and_fails_with_its_run(scene: FineTuneScene) -> None:
    job_id = await scene.train()
    _, export = await scene.call("POST", f"{job_id}/export", {"export_format": "merged_16bit", "name": "colors"})
    await scene.worker.take(export["run_id"])
    status, refused = await send_whole(scene, export["run_id"], {"config.json": b"{}"})
    assert (status, refused["error"]["code"]) == (422, "incomplete_export")
    end = {"state": "failed", "error_code": "disk_full", "error_text": "The disk of the node is full."}
    await scene.worker.end(export["run_id"], **end)
    job = await scene.show(job_id)
    assert (job["export_status"], job["export_message"]) == ("failed", "The disk of the node is full.")
    assert (await scene.frontend.call("GET", "/api/models/config/colors"))[0] == 404
    # The name is free again.
    status, _ = await scene.call("POST", f"{job_id}/export", {"export_format": "merged_16bit", "name": "colors"})
    assert status == 202


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"export_format": "merged_4bit"}, 400, "bad_setting"),
        ({"export_format": "zip"}, 400, "bad_setting"),
        ({"export_format": "gguf", "quantization_method": "q9_x"}, 400, "unknown_weight_type"),
        ({"export_format": "merged_16bit", "checkpoint_path": "checkpoint-3"}, 404, "no_checkpoint"),
        ({"export_format": "merged_16bit", "checkpoint_path": "../etc"}, 400, "bad_checkpoint"),
        ({"export_format": "merged_16bit", "name": "a\nb"}, 400, "bad_model_name"),
    ],
)
@pytest.mark.behaviour("TUNE-3")
async def test_bad_export_is_refused_with_a_reason(
    scene: FineTuneScene, body: dict[str, Any], status: int, code: str
) -> None:
    job_id = await scene.train()
    answered, refused = await scene.call("POST", f"{job_id}/export", body)
    assert (answered, refused["error"]["code"]) == (status, code), refused


@pytest.mark.behaviour("TUNE-18")
async def test_job_without_a_checkpoint_cannot_be_exported(scene: FineTuneScene) -> None:
    job_id = await scene.take()
    status, refused = await scene.call("POST", f"{job_id}/export", {"export_format": "merged_16bit"})
    assert (status, refused["error"]["code"]) == (404, "no_checkpoint"), refused


@pytest.mark.behaviour("TUNE-18")
async def test_adapter_of_a_checkpoint_becomes_a_model_with_its_base(scene: FineTuneScene) -> None:
    job_id = await scene.train()
    status, export = await scene.call("POST", f"{job_id}/export", {"export_format": "lora", "name": "colors"})
    assert (status, export["status"], export["model_name"]) == (202, "completed", "colors"), export
    status, model = await scene.frontend.call("GET", "/api/models/config/colors")
    assert (status, model["config"]["base"]) == (200, "tiny"), model
    assert {file["path"] for file in model["config"]["files"]} == {"adapter_config.json", "adapter_model.safetensors"}
