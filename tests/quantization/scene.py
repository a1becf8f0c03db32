"""Quantisations whose worker is the test: it asks for the files and sends the result over HTTP, as a worker does."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.agents.hand_worker import HandWorker
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import GIB, PretendNode, create_join_token
from tests.support.tiny_gguf import write_tiny_gguf

JOBS = "/api/quantization/jobs"
SOURCE_FIELDS = {"tool": "llama.cpp v0", "source_types": ["f32"], "is_requantized": False}
ROOM = {"available_disk": 100 * GIB, "total_disk": 200 * GIB, "available_ram": 8 * GIB, "total_ram": 16 * GIB}


def write_typed_gguf(path: Path, file_type: int, *, seed: int = 1) -> bytes:
    """Return a small model whose header claims to have this type of weights."""
    content = write_tiny_gguf(path, seed=seed).read_bytes()
    key = b"general.file_type" + (4).to_bytes(4, "little")
    at = content.index(key) + len(key)
    return content[:at] + file_type.to_bytes(4, "little") + content[at + 4 :]


@dataclass
class QuantizationScene:
    """A frontend with a library, a model `tiny` in it, and a backend node whose worker is the test."""

    frontend: RunningFrontend
    worker: HandWorker
    folder: Path

    async def start(self, *, key: str = ADMIN_KEY, **body: Any) -> tuple[int, Any]:
        return await self.frontend.call("POST", JOBS, {"model": "tiny", "quantization_type": "q4_k_m"} | body, key=key)

    async def take(self, **body: Any) -> str:
        """Start a quantisation, hold it as the worker, and return its id."""
        status, made = await self.start(**body)
        assert status == 201, made
        await self.worker.take(made["id"])
        return str(made["id"])

    async def show(self, job_id: str, *, key: str = ADMIN_KEY) -> Any:
        status, job = await self.frontend.call("GET", f"{JOBS}/{job_id}", key=key)
        assert status == 200, job
        return job

    async def call_source(self, job_id: str, operation_id: str = "") -> tuple[int, Any]:
        body = {"job_id": self.worker.jobs[job_id], "operation_id": operation_id}
        return await self.worker.node.call("POST", f"/runs/{job_id}/quantization/source", body)

    async def send_file(
        self, job_id: str, content: bytes, *, total: int | None = None, worker_job: str = ""
    ) -> tuple[int, Any]:
        sha256 = hashlib.sha256(content).hexdigest()
        job = worker_job or self.worker.jobs[job_id]
        url = f"{self.frontend.url}/api/files/results/{self.worker.node.id}/{job_id}/{sha256}?job_id={job}"
        headers = {"Authorization": f"Bearer {self.worker.node.credential}"}
        headers["Content-Range"] = f"bytes 0-{len(content) - 1}/{len(content) if total is None else total}"
        async with self.frontend.http.put(url, data=content, headers=headers) as answer:
            return answer.status, await answer.json() if answer.content_type == "application/json" else None

    async def report(self, job_id: str, content: bytes, **more: Any) -> tuple[int, Any]:
        fields = SOURCE_FIELDS | {"job_id": self.worker.jobs[job_id], "sha256": hashlib.sha256(content).hexdigest()}
        return await self.worker.node.call("POST", f"/runs/{job_id}/quantization/result", fields | more)

    async def finish(self, job_id: str, content: bytes, **more: Any) -> Any:
        """Send a result as the worker, end the run, and return the answer to the report."""
        assert (await self.send_file(job_id, content))[0] == 200
        status, answer = await self.report(job_id, content, **more)
        assert status == 200, answer
        await self.worker.end(job_id)
        return answer


async def upload(frontend: RunningFrontend, content: bytes) -> str:
    sha256 = hashlib.sha256(content).hexdigest()
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    async with frontend.http.put(f"{frontend.url}/api/files/{sha256}", data=content, headers=headers) as answer:
        assert answer.status == 200
    return sha256


async def add_model(frontend: RunningFrontend, name: str, content: bytes, **more: Any) -> None:
    files = [{"path": f"{name}.F32.gguf", "uri": f"upload:{await upload(frontend, content)}"}]
    config = {"backend": "llama-cpp", "files": files} | more
    status, saved = await frontend.call("PUT", f"/api/models/config/{name}", config)
    assert status == 200, saved


async def join_quantizer(frontend: RunningFrontend, name: str = "node-1", **hardware: Any) -> HandWorker:
    """Register a backend node that quantises, and return its worker."""
    node = PretendNode(frontend, name)
    token = await create_join_token(frontend, approves=True)
    values = ROOM | hardware
    status, answer = await node.register(token, node_type="backend", max_runs=0, run_kinds=["quantize"], **values)
    assert status == 201, answer
    return HandWorker(frontend, node)


@asynccontextmanager
async def open_scene(database_url: str, folder: Path, **hardware: Any) -> AsyncIterator[QuantizationScene]:
    async with running_frontend(database_url, library_dir=folder / "library") as frontend:
        await add_model(frontend, "tiny", write_tiny_gguf(folder / "tiny.gguf").read_bytes())
        yield QuantizationScene(frontend, await join_quantizer(frontend, **hardware), folder)
