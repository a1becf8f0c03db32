"""`corral fine-tune`: datasets, start, resume, list, show, stop and export."""

from __future__ import annotations

import json

from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import json_answer, refusal

JOBS = "/api/fine-tuning/jobs"
DATASETS = "/api/fine-tuning/datasets"
JOB_ID = "01a1eda5-a3fd-783e-83d6-08912054e399"
DATASET = {
    "id": "01a1eda5-0000-783e-83d6-08912054e399", "name": "colors.jsonl", "format": "jsonl", "rows": 40,
    "columns": ["completion", "prompt"], "size_bytes": 2048, "sha256": "0" * 64, "created_at": "2026-01-02T12:00:00Z",
}  # fmt: skip


def an_export(**changes):
    return {
        "id": JOB_ID, "export_format": "lora", "name": "colors", "checkpoint": "checkpoint-20", "status": "completed",
        "message": "The export is the model colors.", "model_name": "colors", "created_at": "2026-01-02T12:00:00Z",
    } | changes  # fmt: skip


def a_job(**changes):
    return {
        "id": JOB_ID, "user_id": "ann", "model": "tiny", "backend": "trl", "training_type": "lora",
        "training_method": "sft", "status": "training", "message": "Runs on node-1.", "dataset_source": "colors.jsonl",
        "dataset_id": DATASET["id"], "created_at": "2026-01-02T12:00:00Z", "progress_percent": 63.4,
        "current_step": 7, "total_steps": 20, "loss": 2.5, "phase": "training", "is_stopping": False, "run_id": JOB_ID,
        "node_name": "node-1", "parameters": {"adapter_rank": 16, "max_steps": 20}, "result": {}, "exports": [],
    } | changes  # fmt: skip


def test_dataset_is_uploaded_and_the_training_started_with_its_settings(corral, frontend, tmp_path):
    frontend.on(f"POST {DATASETS}", json_answer(DATASET, status=201))
    frontend.on(f"POST {JOBS}", json_answer(a_job(status="queued"), status=201))
    file = tmp_path / "colors.jsonl"
    file.write_text('{"prompt": "a", "completion": "b"}')
    made = corral("fine-tune", "start", "tiny", str(file), "--steps", "20", "-s", "learning_rate=1e-4", "--detach")
    assert made.out == f"{JOB_ID}\n", made.err
    assert bodies(frontend, f"POST {JOBS}")[-1] == {
        "model": "tiny", "training_method": "sft", "training_type": "lora", "backend": "", "max_steps": 20,
        "learning_rate": 1e-4, "dataset_source": DATASET["id"],
    }  # fmt: skip
    corral("fine-tune", "start", "tiny", "colors", "--full", "-m", "grpo", "--reward", "length", "-d")
    last = bodies(frontend, f"POST {JOBS}")[-1]
    assert (last["dataset_source"], last["training_type"], last["reward_functions"]) == ("colors", "full", ["length"])
    assert corral("fine-tune", "start", "tiny", "colors", "-s", "nothing", "-d").code == 1


def test_resumed_training_has_the_settings_of_the_earlier_one(corral, frontend):
    frontend.on(f"GET {JOBS}/{JOB_ID}", json_answer(a_job(status="stopped")))
    frontend.on(f"POST {JOBS}", json_answer(a_job(status="queued"), status=201))
    corral("fine-tune", "resume", JOB_ID, "--checkpoint", "checkpoint-7", "-d")
    last = bodies(frontend, f"POST {JOBS}")[-1]
    assert (last["resume_from_checkpoint"], last["max_steps"]) == (f"{JOB_ID}/checkpoint-7", 20)
    assert last["dataset_source"] == DATASET["id"]


def test_fine_tunings_are_listed_and_shown_with_checkpoints_and_exports(corral, frontend):
    checkpoint = {
        "name": "checkpoint-20", "path": "", "step": 20, "epoch": 1.0, "loss": 1.5, "size_bytes": 2048,
        "is_inherited": False, "created_at": "2026-01-02T12:00:00Z",
    }  # fmt: skip
    frontend.on(f"GET {JOBS}", json_answer({"jobs": [a_job()]}))
    frontend.on(f"GET {JOBS}/{JOB_ID}", json_answer(a_job(exports=[an_export()])))
    frontend.on(f"GET {JOBS}/{JOB_ID}/checkpoints", json_answer({"checkpoints": [checkpoint]}))
    lines = corral("fine-tune", "list").out.splitlines()
    assert lines[0].split() == ["ID", "MODEL", "TRAINING", "STATUS", "DONE", "LOSS", "BECAME", "AGE"]
    assert "2.5000" in lines[1]
    shown = corral("fine-tune", "show", JOB_ID[:8]).out
    assert "7 of 20" in shown
    assert "checkpoint-20" in shown
    assert "The export is the model colors." in shown
    assert json.loads(corral("fine-tune", "show", JOB_ID, "--json").out)["checkpoints"][0]["step"] == 20
    frontend.on(f"GET {JOBS}", json_answer({"jobs": []}))
    assert "corral fine-tune start" in corral("fine-tune", "list").err


def test_curve_is_a_table_of_steps(corral, frontend):
    points = [{"step": 1, "loss": 5.0}, {"step": 1, "eval_loss": 4.5}]
    frontend.on(f"GET {JOBS}/{JOB_ID}/curve", json_answer({"points": points}))
    lines = corral("fine-tune", "curve", JOB_ID).out.splitlines()
    assert lines[0].split() == ["STEP", "LOSS", "HELD", "OUT"]
    assert lines[1].split() == ["1", "5.0000", "-"]
    assert json.loads(corral("fine-tune", "curve", JOB_ID, "--json").out)[1]["eval_loss"] == 4.5


def test_stop_says_how_to_go_on(corral, frontend):
    frontend.on(f"POST {JOBS}/{JOB_ID}/stop", json_answer(a_job(is_stopping=True)))
    assert f"corral fine-tune resume {JOB_ID}" in corral("fine-tune", "stop", JOB_ID).err
    frontend.on(f"POST {JOBS}/{JOB_ID}/stop", json_answer(a_job(status="stopped")))
    assert "Stopped the fine-tuning of tiny." in corral("fine-tune", "stop", JOB_ID, "--no-save").err


def test_export_prints_the_model_and_fails_with_the_reason(corral, frontend):
    frontend.on(f"POST {JOBS}/{JOB_ID}/export", json_answer(an_export(), status=202))
    made = corral("fine-tune", "export", JOB_ID, "--format", "lora", "--name", "colors")
    assert (made.code, made.out) == (0, "colors\n")
    failed = an_export(status="failed", message="The disk is full.", model_name="")
    frontend.on(f"POST {JOBS}/{JOB_ID}/export", json_answer(failed, status=202))
    made = corral("fine-tune", "export", JOB_ID)
    assert (made.code, "The disk is full." in made.err) == (1, True)


def test_broken_dataset_fails_with_its_lines(corral, frontend, tmp_path):
    file = tmp_path / "bad.jsonl"
    file.write_text("x")
    frontend.on(f"POST {DATASETS}", refusal(400, "broken_dataset", "The dataset is broken in line 1: it is no JSON."))
    failed = corral("fine-tune", "datasets", "upload", str(file))
    assert (failed.code, "line 1" in failed.err) == (1, True)
    frontend.on(f"GET {DATASETS}", json_answer({"datasets": [DATASET]}))
    assert "colors.jsonl" in corral("fine-tune", "datasets", "list").out
