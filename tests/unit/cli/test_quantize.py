"""`corral quantize MODEL`: start and follow a quantisation, list, show, cancel and register."""

from __future__ import annotations

import json

from tests.unit.cli.conftest import bodies
from tests.unit.client.standin import json_answer, refusal

JOBS = "/api/quantization/jobs"
JOB_ID = "01a1eda5-a3fd-783e-83d6-08912054e399"


def a_job(**changes):
    made = {
        "id": JOB_ID, "user_id": "ann", "model": "smol", "backend": "llama-cpp-quantization",
        "quantization_type": "q4_k_m", "status": "quantizing", "message": "Runs on node-1.",
        "created_at": "2026-01-02T12:00:00Z", "progress_percent": 63.4, "phase": "quantizing", "run_id": JOB_ID,
        "node_name": "node-1", "name": "smol-small",
    }  # fmt: skip
    return made | changes


def a_provenance(**changes):
    return {
        "run_id": JOB_ID, "model": "smol", "source_sha256": "0" * 64, "source_types": ["q4_1"], "weight_type": "q4_k_m",
        "is_requantized": True, "tool": "llama.cpp v0.5.0", "sha256": "1" * 64, "size_bytes": 1024,
    } | changes  # fmt: skip


def test_quantization_is_started_without_naming_the_command(corral, frontend):
    frontend.on(f"POST {JOBS}", json_answer(a_job(status="queued"), status=201))
    made = corral("quantize", "smol", "--type", "q4_k_m", "--detach")
    assert made.out == f"{JOB_ID}\n"
    assert bodies(frontend, f"POST {JOBS}")[-1] == {
        "model": "smol", "quantization_type": "q4_k_m", "name": "smol-q4_k_m", "backend": "",
    }  # fmt: skip
    corral("quantize", "smol", "-t", "Q8_0", "--no-register", "-d")
    assert bodies(frontend, f"POST {JOBS}")[-1]["name"] == ""


def test_quantization_whose_name_is_taken_fails_with_the_hint(corral, frontend):
    frontend.on(f"POST {JOBS}", refusal(409, "model_name_taken", "The name 'smol' is taken."))
    failed = corral("quantize", "smol", "--name", "smol")
    assert failed.code == 1
    assert "is taken" in failed.err


def test_quantizations_are_listed_and_shown_with_what_they_became(corral, frontend):
    done = a_job(
        status="completed", progress_percent=100.0, output_file="smol.Q4_K_M.gguf", size_bytes=1024,
        import_model_name="smol-small", provenance=a_provenance(),
    )  # fmt: skip
    frontend.on(f"GET {JOBS}", json_answer({"jobs": [done, a_job()]}))
    frontend.on(f"GET {JOBS}/{JOB_ID}", json_answer(done))
    lines = corral("quantize", "list").out.splitlines()
    assert lines[0].split() == ["ID", "MODEL", "TYPE", "STATUS", "DONE", "BECAME", "AGE"]
    assert "smol-small" in lines[1]
    assert "63 %" in lines[2]
    shown = corral("quantize", "show", JOB_ID).out
    assert "q4_1, requantised" in shown
    assert json.loads(corral("quantize", "list", "--json").out)[1]["phase"] == "quantizing"
    frontend.on(f"GET {JOBS}", json_answer({"jobs": []}))
    assert "corral quantize MODEL" in corral("quantize", "list").err


def test_quantization_is_cancelled_and_its_result_is_registered(corral, frontend):
    frontend.on(f"POST {JOBS}/{JOB_ID}/stop", json_answer(a_job(status="stopped")))
    assert "Cancelled the quantisation of smol." in corral("quantize", "cancel", JOB_ID).err
    frontend.on(
        f"POST {JOBS}/{JOB_ID}/import", json_answer({"message": "The result is the model other.", "name": "other"})
    )
    assert "other" in corral("quantize", "register", JOB_ID, "--name", "other").err


def test_plan_shows_each_type_with_its_size(corral, frontend):
    types = [{"quantization_type": "q4_k_m", "bits_per_weight": 4.9, "size_bytes": 1024**3, "fits_on": ["node-1"]}]
    plan = {
        "model": "smol", "quantization_type": "Q4_1", "size_bytes": 2048, "is_requantized": True,
        "can_run_on": ["node-1"], "types": types,
    }  # fmt: skip
    frontend.on("GET /api/quantization/plan", json_answer(plan))
    shown = corral("quantize", "plan", "smol")
    assert "node-1" in shown.out
    assert "costs precision twice" in shown.err
