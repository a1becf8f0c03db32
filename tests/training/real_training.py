"""A training with the real library: a tiny transformer with random weights, forty lines, a processor.

Run by `make test-training`, not by `make test`: torch has hundreds of megabytes, and importing it takes seconds.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from corral.engines import read_launcher
from tests.e2e.models.scene import Models, models_of
from tests.e2e.models.system import add_engine, llama_folder
from tests.support.frontends import ADMIN_KEY
from tests.support.polling import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1200)]
JOBS = "/api/fine-tuning/jobs"
QUANTIZATIONS = "/api/quantization/jobs"
LONG_S = 900.0
COLORS = {"grass": "green", "sky": "blue", "blood": "red", "coal": "black"}
MAKER = Path(__file__).parent / "make_tiny.py"


def make_rows(method: str) -> bytes:
    rows: list[dict[str, Any]] = []
    for number in range(40):
        thing, color = list(COLORS.items())[number % 4]
        prompt, answer = f"The color of {thing} {number}?", f" It is {color}."
        match method:
            case "sft":
                rows.append({"prompt": prompt, "completion": answer})
            case "kto":
                rows.append({"prompt": prompt, "completion": answer, "label": number % 2 == 0})
            case "grpo":
                rows.append({"prompt": prompt, "answer": color})
            case _:
                rows.append({"prompt": prompt, "chosen": answer, "rejected": " No."})
    return "\n".join(json.dumps(row) for row in rows).encode()


def add_trainer(root: Path, python: Path) -> Path:
    """Make a folder of backends that came with the machine, with the real trainer in it."""
    folder = root / "trl"
    folder.mkdir(parents=True)
    launcher = read_launcher("trl_trainer")
    assert launcher is not None
    (folder / "launcher.py").write_text(launcher)
    command = [str(python), "-I", "{launcher}", "--watch-stdin", "--model={model}", "{options}"]
    described = {
        "version": "1.16.0",
        "command": command,
        "serves": ["fine_tune"],
        "formats": ["safetensors"],
        # One thread: on a busy machine several wait for each other.
        "environment": {"OMP_NUM_THREADS": "1"},
        "options": {"request": ["--request={value}"], "output": ["--output={value}"]},
    }
    (folder / "backend.yaml").write_text(json.dumps(described))
    return root


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def models(tmp_path_factory: pytest.TempPathFactory, trainer_python: Path) -> AsyncIterator[Models]:
    folder = tmp_path_factory.mktemp("training")
    tiny = folder / "tiny"
    subprocess.run([str(trainer_python), "-I", str(MAKER), str(tiny)], check=True, capture_output=True)
    system = llama_folder(add_trainer(folder / "system", trainer_python))
    add_engine(system, "cpu-llama-conversion", meta="llama-conversion")
    settings = {"CORRAL_SYSTEM_BACKENDS_DIR": str(system)}
    async with models_of(folder, "worker-1", frontends=1, settings=settings, lease="50s") as scene:
        files = [scene.file(path.name, path.read_bytes())[0] for path in sorted(tiny.iterdir())]
        await scene.put("tiny", backend="vllm", files=files)
        yield scene


async def upload(models: Models, method: str) -> str:
    frontend = models.cluster.frontends[0]
    form = aiohttp.FormData()
    form.add_field("file", make_rows(method), filename=f"{method}.jsonl")
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    async with frontend.http.post(f"{frontend.url}/api/fine-tuning/datasets", data=form, headers=headers) as answer:
        made = await answer.json()
        assert answer.status == 201, made
        return str(made["id"])


async def train(models: Models, method: str, **body: Any) -> Any:
    """Train to the end, and return the job."""
    fields = {"model": "tiny", "dataset_source": await upload(models, method), "training_method": method} | body
    status, made = await models.call("POST", JOBS, fields)
    assert status == 201, made

    async def look() -> Any:
        _, job = await models.call("GET", f"{JOBS}/{made['id']}")
        assert job["status"] not in ("failed", "stopped"), job
        return job if job["status"] == "completed" else None

    return await eventually(look, within_s=LONG_S)


async def export(models: Models, job_id: str, **body: str) -> Any:
    """Make a model of the newest checkpoint of a job, and return the job with it."""
    status, made = await models.call("POST", f"{JOBS}/{job_id}/export", body)
    assert status == 202, made

    async def look() -> Any:
        _, shown = await models.call("GET", f"{JOBS}/{job_id}")
        assert shown["export_status"] != "failed", shown
        return shown if shown["export_model_name"] == body["name"] else None

    return await eventually(look, within_s=LONG_S)


async def quantize(models: Models, model: str, kind: str, name: str, **more: str) -> Any:
    """Make a GGUF model of a model, and return it."""
    status, made = await models.call(
        "POST", QUANTIZATIONS, {"model": model, "quantization_type": kind, "name": name} | more
    )
    assert status == 201, made
    return await find_quantized(models, made["id"])


async def find_quantized(models: Models, job_id: str) -> Any:
    """Wait until a quantisation has become a model, and return it."""

    async def look() -> Any:
        _, job = await models.call("GET", f"{QUANTIZATIONS}/{job_id}")
        assert job["status"] not in ("failed", "stopped"), job
        return job if job["status"] == "completed" else None

    job = await eventually(look, within_s=LONG_S)
    status, model = await models.call("GET", f"/api/models/config/{job['import_model_name']}")
    assert status == 200, (job, model)
    return model


async def read_answers(models: Models, name: str) -> list[str]:
    """Let a model go on behind one prompt of each thing, with the likeliest words."""
    found = []
    for number, thing in enumerate(COLORS):
        body = {"model": name, "prompt": f"The color of {thing} {number}?", "max_tokens": 12, "temperature": 0}
        status, answer = await models.call("POST", "/v1/completions", body)
        assert (status, answer["model"]) == (200, name), answer
        found.append(str(answer["choices"][0]["text"]))
    return found


@pytest.mark.behaviour("TUNE-24")
async def test_loss_falls_and_the_adapter_becomes_a_whole_model(models: Models, trainer_python: Path) -> None:
    job = await train(models, "sft", max_steps=30, learning_rate=5e-3, save_steps=10, max_length=64)
    _, curve = await models.call("GET", f"{JOBS}/{job['id']}/curve")
    losses = [point["loss"] for point in curve["points"] if point["loss"] is not None]
    assert len(losses) == 30
    assert losses[-1] < losses[0] - 0.5, losses
    assert any(point["eval_loss"] for point in curve["points"])
    assert job["result"]["examples"] == 36
    _, found = await models.call("GET", f"{JOBS}/{job['id']}/checkpoints")
    assert next(one["name"] for one in found["checkpoints"]) == "checkpoint-30"
    await export(models, job["id"], export_format="merged_16bit", name="tuned")
    _, model = await models.call("GET", "/api/models/config/tuned")
    paths = {file["path"] for file in model["files"]}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= paths
    assert model["facts"]["parameters"] > 100_000
    # The adapter goes on from where it was, on the same data.
    resumed = await train(
        models, "sft", max_steps=35, learning_rate=5e-3, save_steps=10, max_length=64,
        resume_from_checkpoint=f"{job['id']}/checkpoint-30",
    )  # fmt: skip
    _, curve = await models.call("GET", f"{JOBS}/{resumed['id']}/curve")
    steps = [point["step"] for point in curve["points"] if point["loss"] is not None]
    assert steps == [31, 32, 33, 34, 35]
    assert curve["points"][0]["loss"] < losses[0] - 0.5


@pytest.mark.behaviour("TUNE-26")
async def test_adapter_is_converted_and_answers_in_llama_cpp_as_it_was_trained(models: Models) -> None:
    job = await train(models, "sft", max_steps=60, learning_rate=5e-3, max_length=64)
    base = await quantize(models, "tiny", "f16", "tiny-f16")
    assert (base["facts"]["quantisation"], base["backend"]) == ("F16", "llama-cpp"), base
    shown = await export(models, job["id"], export_format="lora", name="colors-peft")
    assert "corral quantize colors-peft --type f16 --base tiny-f16" in shown["export_message"]
    adapter = await quantize(models, "colors-peft", "f16", "colors", base="tiny-f16")
    assert (adapter["base"], adapter["provenance"]["model"]) == ("tiny-f16", "colors-peft"), adapter
    # The same job as a model without a base.
    await export(models, job["id"], export_format="gguf", quantization_method="q8_0", name="colors-small")
    _, listed = await models.call("GET", QUANTIZATIONS)
    started = next(one["id"] for one in listed["jobs"] if one["model"] == "colors-small-16bit")
    small = await find_quantized(models, started)
    assert (small["name"], small["facts"]["quantisation"], small["base"]) == ("colors-small", "Q8_0", "")
    trained = [f" It is {color}." for color in COLORS.values()]
    assert await read_answers(models, "colors") == trained
    assert await read_answers(models, "colors-small") == trained
    # The base has learned nothing, also while its engine answers for the adapter.
    assert not set(await read_answers(models, "tiny-f16")) & set(trained)
    await models.forget("colors", "tiny-f16", "colors-small", "colors-small-16bit", "colors-peft")


@pytest.mark.behaviour("TUNE-24")
@pytest.mark.parametrize("method", ["dpo", "kto", "reward", "grpo"])
async def test_every_method_trains_and_leaves_an_adapter(models: Models, method: str) -> None:
    more = {"reward_functions": ["length", "xml_tags"]} if method == "grpo" else {}
    job = await train(models, method, max_steps=2, max_length=64, **more)
    assert (job["current_step"], job["result"]["step"]) == (2, 2)


@pytest.mark.behaviour("TUNE-24")
async def test_all_weights_are_trained_without_an_adapter(models: Models) -> None:
    job = await train(models, "sft", training_type="full", max_steps=2, max_length=64)
    status, refused = await models.call("POST", f"{JOBS}/{job['id']}/export", {"export_format": "lora", "name": "x"})
    assert (status, refused["error"]["code"]) == (422, "no_adapter")
