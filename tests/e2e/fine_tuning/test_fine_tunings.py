"""Fine-tunings with real workers: the program is a small one that speaks the trainer's lines, everything else is the
product's. The library that really trains is in `tests/training`."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
import pytest_asyncio

from tests.e2e.models.scene import Models, models_of
from tests.fine_tuning.scene import make_rows
from tests.support import fake_trainer
from tests.support.frontends import ADMIN_KEY
from tests.support.polling import eventually
from tests.support.safetensors_model import make_base_files

pytestmark = pytest.mark.asyncio(loop_scope="module")
JOBS = "/api/fine-tuning/jobs"
LONG_S = 120.0


class Tunings:
    """Fine-tunings of a cluster with two workers. Files in `marks` hold the trainer at a step, or make it fail."""

    def __init__(self, models: Models, marks: Path) -> None:
        self.models = models
        self.marks = marks

    async def start(self, **body: Any) -> str:
        fields = {"model": "base", "dataset_source": "colors.jsonl", "max_steps": 20, "save_steps": 5} | body
        status, made = await self.models.call("POST", JOBS, fields)
        assert status == 201, made
        return str(made["id"])

    async def show(self, job_id: str) -> Any:
        status, job = await self.models.call("GET", f"{JOBS}/{job_id}")
        assert status == 200, job
        return job

    async def wait_for(self, job_id: str, *statuses: str) -> Any:
        async def look() -> Any:
            job = await self.show(job_id)
            if job["status"] in ("completed", "failed", "stopped"):
                assert job["status"] in statuses, job
            return job if job["status"] in statuses else None

        return await eventually(look, within_s=LONG_S)

    async def wait_for_step(self, job_id: str, step: int) -> Any:
        async def look() -> Any:
            job = await self.show(job_id)
            assert job["status"] != "failed", job
            return job if job["current_step"] >= step else None

        return await eventually(look, within_s=LONG_S)

    async def wait_for_checkpoint(self, job_id: str, name: str) -> None:
        async def look() -> bool:
            _, found = await self.models.call("GET", f"{JOBS}/{job_id}/checkpoints")
            return name in [one["name"] for one in found["checkpoints"]]

        await eventually(look, within_s=LONG_S)

    async def read_steps(self, job_id: str) -> list[int]:
        _, curve = await self.models.call("GET", f"{JOBS}/{job_id}/curve")
        return [one["step"] for one in curve["points"]]

    def hold(self, step: int) -> Path:
        mark = self.marks / f"hold-{step}"
        mark.touch()
        return mark

    def find_programs(self) -> list[psutil.Process]:
        folder, found = str(self.models.cluster.folder), []
        for process in psutil.process_iter(["cmdline"]):
            line = " ".join(process.info["cmdline"] or ())
            if "fake_trainer" in line and folder in line:
                found.append(process)
        return found

    def list_left(self) -> list[Path]:
        """Return what programs have left on the disks of the workers."""
        return [path for name in self.models.cluster.workers for path in self._programs_dir(name).glob("*")]

    def _programs_dir(self, name: str) -> Path:
        return self.models.cluster.folder / name / "programs"


def add_fake_trainer(root: Path, marks: Path) -> Path:
    """Make a folder of backends that came with the machine, with a trainer in it."""
    folder = root / "trl"
    folder.mkdir(parents=True)
    program = [sys.executable, "-I", fake_trainer.__file__]
    command = [*program, "--watch-stdin", "--model={model}", f"--marks={marks}", "{options}"]
    described = {
        "version": "1.0",
        "command": command,
        "serves": ["fine_tune"],
        "formats": ["safetensors"],
        "options": {"request": ["--request={value}"], "output": ["--output={value}"]},
    }
    (folder / "backend.yaml").write_text(json.dumps(described))
    return root


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tunings(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tunings]:
    folder = tmp_path_factory.mktemp("fine_tuning")
    marks = folder / "marks"
    marks.mkdir()
    settings = {"CORRAL_SYSTEM_BACKENDS_DIR": str(add_fake_trainer(folder / "system", marks))}
    async with models_of(folder, "worker-1", "worker-2", frontends=2, settings=settings, lease="20s") as models:
        files = [models.file(name, content)[0] for name, content in make_base_files().items()]
        await models.put("base", backend="vllm", files=files)
        form = aiohttp.FormData()
        form.add_field("file", make_rows(), filename="colors.jsonl")
        frontend = models.cluster.frontends[0]
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        async with frontend.http.post(f"{frontend.url}/api/fine-tuning/datasets", data=form, headers=headers) as answer:
            assert answer.status == 201, await answer.text()
        yield Tunings(models, marks)


@pytest.mark.behaviour("TUNE-5")
@pytest.mark.behaviour("TUNE-1")
async def test_training_on_a_node_ends_with_curve_checkpoints_and_a_whole_model(tunings: Tunings) -> None:
    job_id = await tunings.start()
    job = await tunings.wait_for(job_id, "completed")
    assert (job["current_step"], job["result"]["examples"], job["progress_percent"]) == (20, 40, 100.0)
    assert await tunings.read_steps(job_id) == list(range(1, 21))
    _, found = await tunings.models.call("GET", f"{JOBS}/{job_id}/checkpoints")
    assert "checkpoint-20" in [one["name"] for one in found["checkpoints"]]
    body = {"export_format": "merged_16bit", "name": "colors"}
    status, export = await tunings.models.call("POST", f"{JOBS}/{job_id}/export", body)
    assert status == 202, export

    async def look() -> Any:
        shown = await tunings.show(job_id)
        assert shown["export_status"] != "failed", shown
        return shown["export_model_name"] or None

    assert await eventually(look, within_s=LONG_S) == "colors"
    status, model = await tunings.models.call("GET", "/api/models/config/colors")
    assert {file["path"] for file in model["files"]} == {"config.json", "model.safetensors", "tokenizer.json"}

    async def is_tidy() -> bool:
        return not tunings.list_left()

    await eventually(is_tidy, within_s=LONG_S)


@pytest.mark.behaviour("TUNE-7")
async def test_stopped_training_goes_on_elsewhere_from_its_step(tunings: Tunings) -> None:
    mark = tunings.hold(8)
    job_id = await tunings.start(save_steps=100)
    before = await tunings.wait_for_step(job_id, 7)
    status, stopping = await tunings.models.call("POST", f"{JOBS}/{job_id}/stop?save_checkpoint=true")
    assert (status, stopping["is_stopping"]) == (200, True)
    job = await tunings.wait_for(job_id, "stopped")
    mark.unlink()
    _, found = await tunings.models.call("GET", f"{JOBS}/{job_id}/checkpoints")
    assert [one["name"] for one in found["checkpoints"]] == ["checkpoint-8"]
    # The node that had it takes no more.
    status, drained = await tunings.models.call("POST", f"/api/nodes/{before['node_name']}/drain")
    assert status == 200, drained
    resumed = await tunings.start(save_steps=100, resume_from_checkpoint=job_id)
    ended = await tunings.wait_for(resumed, "completed")
    assert ended["node_name"] != job["node_name"]
    assert await tunings.read_steps(resumed) == list(range(9, 21))
    await tunings.models.call("POST", f"/api/nodes/{before['node_name']}/resume")


@pytest.mark.behaviour("TUNE-8")
@pytest.mark.parametrize(("step", "checkpoint"), [(1, ""), (8, "checkpoint-5"), (20, "checkpoint-15")])
async def test_training_whose_worker_is_killed_goes_on_from_its_last_checkpoint(
    tunings: Tunings, step: int, checkpoint: str
) -> None:
    mark = tunings.hold(step)
    job_id = await tunings.start()
    await (tunings.wait_for_step(job_id, step - 1) if step > 1 else tunings.wait_for(job_id, "training"))
    if checkpoint:
        await tunings.wait_for_checkpoint(job_id, checkpoint)

    async def find_program() -> Any:
        return next(iter(tunings.find_programs()), None)

    program = await eventually(find_program, within_s=LONG_S)
    worker = tunings.models.cluster.workers[(await tunings.show(job_id))["node_name"]]
    worker.send(signal.SIGKILL)
    await worker.wait()

    async def is_gone() -> bool:
        return not program.is_running() or program.status() == psutil.STATUS_ZOMBIE

    # The program notices by itself.
    await eventually(is_gone, within_s=LONG_S)
    mark.unlink()
    await worker.start()
    await tunings.wait_for(job_id, "completed")
    start = int(checkpoint.rpartition("-")[2] or 0)
    steps = await tunings.read_steps(job_id)
    assert steps == [*range(1, step), *range(start + 1, 21)] or steps == [*range(1, step + 1), *range(start + 1, 21)]


@pytest.mark.behaviour("TUNE-20")
async def test_training_whose_disk_is_full_at_the_end_fails_with_the_reason_and_keeps_its_checkpoint(
    tunings: Tunings,
) -> None:
    mark = tunings.marks / "fail-20"
    mark.touch()
    job_id = await tunings.start()
    job = await tunings.wait_for(job_id, "failed")
    mark.unlink()
    assert (job["error_code"], job["message"]) == ("disk_full", "The disk of the node is full.")
    _, found = await tunings.models.call("GET", f"{JOBS}/{job_id}/checkpoints")
    names = [one["name"] for one in found["checkpoints"]]
    assert set(names) <= {"checkpoint-15", "checkpoint-10", "checkpoint-5"}

    async def is_tidy() -> bool:
        return not tunings.list_left()

    await eventually(is_tidy, within_s=LONG_S)


@pytest.mark.behaviour("TUNE-21")
async def test_training_goes_on_while_all_frontends_are_restarted(tunings: Tunings) -> None:
    mark = tunings.hold(10)
    job_id = await tunings.start()
    await tunings.wait_for_step(job_id, 9)
    for frontend in tunings.models.cluster.frontends:
        frontend.program.send(signal.SIGKILL)
        await frontend.program.wait()
    for frontend in tunings.models.cluster.frontends:
        await frontend.program.start()
        await eventually(frontend.is_ready, within_s=LONG_S)

    async def look() -> Any:
        status, job = await tunings.models.call("GET", f"{JOBS}/{job_id}")
        return job if status == 200 and job["status"] == "training" else None

    job = await eventually(look, within_s=LONG_S)
    assert job["current_step"] >= 9
    mark.unlink()
    await tunings.wait_for(job_id, "completed")
    assert await tunings.read_steps(job_id) == list(range(1, 21))
