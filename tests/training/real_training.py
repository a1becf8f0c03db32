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
from tests.support.frontends import ADMIN_KEY
from tests.support.polling import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1200)]
JOBS = "/api/fine-tuning/jobs"
LONG_S = 900.0
COLORS = ("red", "green", "blue", "black")
MAKER = Path(__file__).parent / "make_tiny.py"


def make_rows(method: str) -> bytes:
    rows: list[dict[str, Any]] = []
    for number in range(40):
        prompt, answer = f"The color of thing {number}?", f" It is {COLORS[number % 4]}."
        match method:
            case "sft":
                rows.append({"prompt": prompt, "completion": answer})
            case "kto":
                rows.append({"prompt": prompt, "completion": answer, "label": number % 2 == 0})
            case "grpo":
                rows.append({"prompt": prompt, "answer": COLORS[number % 4]})
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
    settings = {"CORRAL_SYSTEM_BACKENDS_DIR": str(add_trainer(folder / "system", trainer_python))}
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


@pytest.mark.behaviour("TUNE-24")
async def test_loss_falls_and_the_adapter_becomes_a_whole_model(models: Models, trainer_python: Path) -> None:
    job = await train(models, "sft", max_steps=30, learning_rate=5e-3, save_steps=10, max_length=64)
    status, curve = await models.call("GET", f"{JOBS}/{job['id']}/curve")
    losses = [point["loss"] for point in curve["points"] if point["loss"] is not None]
    assert len(losses) == 30
    assert losses[-1] < losses[0] - 0.5, losses
    assert any(point["eval_loss"] for point in curve["points"])
    assert job["result"]["examples"] == 36
    status, found = await models.call("GET", f"{JOBS}/{job['id']}/checkpoints")
    assert next(one["name"] for one in found["checkpoints"]) == "checkpoint-30"
    body = {"export_format": "merged_16bit", "name": "tuned"}
    status, export = await models.call("POST", f"{JOBS}/{job['id']}/export", body)
    assert status == 202, export

    async def look() -> Any:
        _, shown = await models.call("GET", f"{JOBS}/{job['id']}")
        assert shown["export_status"] != "failed", shown
        return shown["export_model_name"] or None

    assert await eventually(look, within_s=LONG_S) == "tuned"
    status, model = await models.call("GET", "/api/models/config/tuned")
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
