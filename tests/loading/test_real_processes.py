"""The whole way with real processes: frontends, a worker, its engines, files that move, and a worker that dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, FrontendProcess, empty_cluster
from tests.support.polling import eventually


async def completed(frontend: FrontendProcess, operation_id: str) -> Any:
    async def look() -> Any:
        operation = await frontend.get(f"/api/operations/{operation_id}")
        assert operation["state"] != "failed", operation
        return operation if operation["state"] == "completed" else None

    return await eventually(look, within_s=120)


async def ask(frontend: FrontendProcess, path: str, body: Any = None) -> Any:
    status, answer = await frontend.call("POST", path, body)
    assert status in (200, 202), answer
    return answer


async def replicas(frontend: FrontendProcess, model: str) -> list[Any]:
    found = await frontend.get(f"/api/models/config/{model}")
    return list(found["replicas"])


async def started(cluster: Cluster, folder: Path, frontends: int) -> FrontendProcess:
    cluster.frontend_settings = {
        "CORRAL_MODEL_PATHS": str(folder),
        "CORRAL_LIBRARY_DIR": str(folder / "library"),
        "CORRAL_SHARED_MODELS": "false",
    }
    await cluster.postgres.start()
    await cluster.add_frontends(frontends)
    return cluster.frontends[0]


async def chat(frontend: FrontendProcess, model: str) -> tuple[int, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
    return await frontend.call("POST", "/v1/chat/completions", body)


@pytest.mark.behaviour("LOAD-6")
async def test_cold_model_is_fetched_staged_loaded_and_answers_and_outlives_its_worker(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "weights.bin").write_bytes(b"weights " * 100_000)
    async with empty_cluster(tmp_path) as cluster:
        frontend = await started(cluster, files, 1)
        await cluster.join("one")
        config = {"backend": "fake", "files": [{"path": "weights.bin", "uri": f"file://{files}/weights.bin"}]}
        status, made = await frontend.call("PUT", "/api/models/config/chat", config)
        assert status in (200, 201), made

        status, answer = await chat(frontend, "chat")
        assert status == 200, answer
        (replica,) = await replicas(frontend, "chat")
        assert replica["state"] == "loaded"

        # The worker dies, its engine goes on, and the next worker keeps it.
        program = cluster.workers["one"]
        await program.kill()
        await program.start()

        async def is_back() -> bool:
            found = await replicas(frontend, "chat")
            return [one["state"] for one in found] == ["loaded"] and (await chat(frontend, "chat"))[0] == 200

        await cluster.become({"one": "healthy"}, on_bus=True)
        await eventually(is_back, within_s=60)

        unloading = await ask(frontend, "/api/models/chat/unload")
        await completed(frontend, unloading["id"])
        left = await replicas(frontend, "chat")
        assert left == []

        deleting = await ask(frontend, "/api/models/delete/chat")
        await completed(frontend, deleting["id"])
        status, _ = await frontend.call("GET", "/api/models/config/chat")
        assert status == 404
