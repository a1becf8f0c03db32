"""Exports of fine-tunings: which models they become, names that are taken, and workers that send too little."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from corral.domain.model import ModelProvenance
from corral.store import models as model_store
from tests.fine_tuning.scene import FineTuneScene, add_base, open_scene
from tests.quantization.scene import add_model, upload
from tests.support.frontends import RunningFrontend
from tests.support.safetensors_model import make_safetensors
from tests.support.tiny_gguf import write_tiny_gguf
from tests.support.tiny_lora import write_peft_lora

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


async def train_adapter(scene: FineTuneScene, **body: Any) -> str:
    """Train as the worker, with an adapter as PEFT writes it, and return the job's id."""
    job_id = await scene.take(**body)
    folder = write_peft_lora(scene.folder / job_id)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert (await scene.send_files(job_id, "checkpoint-20", files))[0] == 200
    assert (await scene.call_node(job_id, "fine-tuning/checkpoint", step=20, epoch=1.0, loss=0.5))[0] == 200
    await scene.worker.end(job_id, result={"step": 20, "total": 20, "loss": 0.5})
    return job_id


async def add_gguf_of(frontend: RunningFrontend, name: str, source: str, weight_type: str, content: bytes) -> None:
    """Have a model that a quantisation has made of another one."""
    await add_model(frontend, name, content)
    made = ModelProvenance(
        run_id="", model=source, sources=[], source_sha256="", source_types=["f32"], weight_type=weight_type,
        is_requantized=False, tool="", sha256="", size_bytes=1,
    )  # fmt: skip
    async with frontend.database.transaction() as tx:
        await model_store.put_provenance(tx, name, made)


@pytest.mark.behaviour("TUNE-27")
async def test_exported_adapter_names_the_commands_that_make_it_answer(scene: FineTuneScene, tmp_path: Path) -> None:
    job_id = await train_adapter(scene)
    body = {"export_format": "lora", "name": "colors"}
    status, export = await scene.call("POST", f"{job_id}/export", body)
    assert (status, export["status"], export["model_name"]) == (202, "completed", "colors"), export
    assert "corral quantize tiny --type f16" in export["message"]
    assert export["message"].endswith("corral quantize colors --type f16 --base tiny-f16")
    # There are GGUF models of the base: the one that has lost least, and no other model's.
    content = write_tiny_gguf(tmp_path / "tiny.gguf").read_bytes()
    for name, source, kind in (("a-small", "tiny", "q4_k_m"), ("exact", "tiny", "f16"), ("a-other", "other", "f16")):
        await add_gguf_of(scene.frontend, name, source, kind, content)
    status, export = await scene.call("POST", f"{job_id}/export", body | {"name": "again"})
    assert export["message"] == (
        "The export is the model again. Put it on exact: corral quantize again --type f16 --base exact"
    )
    # The adapter of a model that judges cannot be converted, so no command is named.
    job_id = await train_adapter(scene, training_method="reward", dataset_source=await upload_pairs(scene))
    status, export = await scene.call("POST", f"{job_id}/export", body | {"name": "judge"})
    assert (status, export["message"]) == (202, "The export is the model judge."), export


async def upload_pairs(scene: FineTuneScene) -> str:
    content = b'{"prompt": "a", "chosen": "b", "rejected": "c"}\n' * 4
    status, made = await scene.upload_dataset(content, "pairs.jsonl")
    assert status == 201, made
    return str(made["id"])


@pytest.mark.behaviour("ADAPT-6")
async def test_adapter_that_names_no_base_is_not_loaded(scene: FineTuneScene) -> None:
    folder = write_peft_lora(scene.folder / "peft")
    files = [
        {"path": path.name, "uri": f"upload:{await upload(scene.frontend, path.read_bytes())}"}
        for path in folder.iterdir()
    ]
    status, saved = await scene.frontend.call("PUT", "/api/models/config/lone", {"backend": "vllm", "files": files})
    assert status == 200, saved
    status, refused = await scene.frontend.call("POST", "/api/models/lone/load", {})
    assert (status, refused["error"]["code"]) == (422, "base_missing"), refused
    assert "corral quantize lone --type f16 --base" in refused["error"]["hint"]
    question = {"model": "lone", "messages": [{"role": "user", "content": "Which color?"}]}
    status, refused = await scene.frontend.call("POST", "/v1/chat/completions", question)
    assert (status, refused["error"]["code"]) == (422, "base_missing"), refused


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
