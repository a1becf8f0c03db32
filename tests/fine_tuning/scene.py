"""Fine-tunings whose worker is the test: it asks for the work and sends checkpoints over HTTP, as a worker does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.agents.hand_worker import HandWorker
from tests.quantization.scene import ROOM, upload
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import PretendNode, create_join_token
from tests.support.safetensors_model import make_base_files

JOBS = "/api/fine-tuning/jobs"
DATASETS = "/api/fine-tuning/datasets"
KINDS = ("fine_tune", "fine_tune_export")


def make_rows(count: int = 40) -> bytes:
    rows = [{"prompt": f"Color {number}?", "completion": f"Red {number}."} for number in range(count)]
    return "\n".join(json.dumps(row) for row in rows).encode()


def make_checkpoint(step: int) -> dict[str, bytes]:
    return {
        "adapter_model.safetensors": f"weights behind step {step}".encode(),
        "adapter_config.json": b'{"peft_type": "LORA"}',
        "optimizer.pt": f"moments behind step {step}".encode(),
        "trainer_state.json": f"step {step}".encode(),
    }


@dataclass
class FineTuneScene:
    """A frontend with a library, a base model `tiny` in it, and a backend node whose worker is the test."""

    frontend: RunningFrontend
    worker: HandWorker
    folder: Path

    async def upload_dataset(
        self, content: bytes, name: str = "colors.jsonl", *, key: str = ADMIN_KEY
    ) -> tuple[int, Any]:
        form = aiohttp.FormData()
        form.add_field("file", content, filename=name)
        headers = {"Authorization": f"Bearer {key}"}
        async with self.frontend.http.post(f"{self.frontend.url}{DATASETS}", data=form, headers=headers) as answer:
            return answer.status, await answer.json()

    async def start(self, *, key: str = ADMIN_KEY, **body: Any) -> tuple[int, Any]:
        fields = {"model": "tiny", "dataset_source": "colors.jsonl"} | body
        return await self.frontend.call("POST", JOBS, fields, key=key)

    async def take(self, **body: Any) -> str:
        """Start a fine-tuning, hold it as the worker, and return its id."""
        status, made = await self.start(**body)
        assert status == 201, made
        await self.worker.take(made["id"])
        return str(made["id"])

    async def show(self, job_id: str, *, key: str = ADMIN_KEY) -> Any:
        status, job = await self.frontend.call("GET", f"{JOBS}/{job_id}", key=key)
        assert status == 200, job
        return job

    async def call(self, verb: str, path: str, body: Any = None, *, key: str = ADMIN_KEY) -> tuple[int, Any]:
        return await self.frontend.call(verb, f"{JOBS}/{path}", body, key=key)

    async def call_node(self, job_id: str, part: str, worker: HandWorker | None = None, **body: Any) -> tuple[int, Any]:
        worker = worker or self.worker
        fields = {"job_id": worker.jobs[job_id]} | body
        return await worker.node.call("POST", f"/runs/{job_id}/{part}", fields)

    async def send_point(self, job_id: str, step: int, total: int = 20, **values: Any) -> None:
        data = {"phase": "training", "percent": 100.0 * step / total, "step": step, "total": total, **values}
        await self.worker.deliver(job_id, ("status", data))

    async def send_files(self, run_id: str, folder: str, files: Mapping[str, bytes]) -> tuple[int, Any]:
        """Send files as the worker of a run, and return the last answer."""
        answer: tuple[int, Any] = (0, None)
        for path, content in files.items():
            sha256 = hashlib.sha256(content).hexdigest()
            worker = self.worker
            url = f"{self.frontend.url}/api/files/results/{worker.node.id}/{run_id}/{sha256}"
            headers = {"Authorization": f"Bearer {worker.node.credential}"}
            headers["Content-Range"] = f"bytes 0-{len(content) - 1}/{len(content)}"
            address = f"{url}?job_id={worker.jobs[run_id]}"
            async with self.frontend.http.put(address, data=content, headers=headers) as sent:
                if sent.status != 200:
                    return sent.status, await sent.json()
            answer = await self.call_node(run_id, "result-files", folder=folder, path=path, sha256=sha256)
        return answer

    async def send_checkpoint(self, job_id: str, step: int) -> None:
        status, answer = await self.send_files(job_id, f"checkpoint-{step}", make_checkpoint(step))
        assert status == 200, answer
        status, answer = await self.call_node(job_id, "fine-tuning/checkpoint", step=step, epoch=1.0, loss=5.0 / step)
        assert status == 200, answer

    async def list_checkpoints(self, job_id: str) -> list[str]:
        status, found = await self.call("GET", f"{job_id}/checkpoints")
        assert status == 200, found
        return [one["name"] for one in found["checkpoints"]]

    async def finish(self, job_id: str, *, step: int = 20) -> None:
        """Send a checkpoint as the worker, and end the run."""
        await self.send_checkpoint(job_id, step)
        await self.worker.end(job_id, result={"step": step, "total": step, "loss": 1.5})

    async def train(self, **body: Any) -> str:
        job_id = await self.take(**body)
        await self.finish(job_id)
        return job_id


async def join_trainer(frontend: RunningFrontend, name: str = "node-1", **hardware: Any) -> HandWorker:
    """Register a backend node that trains, and return its worker."""
    node = PretendNode(frontend, name)
    token = await create_join_token(frontend, approves=True)
    values = ROOM | hardware
    status, answer = await node.register(token, node_type="backend", max_runs=0, run_kinds=list(KINDS), **values)
    assert status == 201, answer
    return HandWorker(frontend, node)


async def add_base(frontend: RunningFrontend, name: str = "tiny") -> None:
    files = [
        {"path": path, "uri": f"upload:{await upload(frontend, content)}"}
        for path, content in make_base_files().items()
    ]
    status, saved = await frontend.call("PUT", f"/api/models/config/{name}", {"backend": "vllm", "files": files})
    assert status == 200, saved


@asynccontextmanager
async def open_scene(
    database_url: str, folder: Path, *, options: Mapping[str, Any] | None = None, **hardware: Any
) -> AsyncIterator[FineTuneScene]:
    async with running_frontend(database_url, library_dir=folder / "library", **(options or {})) as frontend:
        await add_base(frontend)
        scene = FineTuneScene(frontend, await join_trainer(frontend, **hardware), folder)
        status, made = await scene.upload_dataset(make_rows())
        assert status == 201, made
        yield scene
