"""What the tests of runs with real processes share: frontends, an engine that answers slowly, and agent workers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.cluster import Cluster, empty_cluster
from tests.e2e.processes import Program
from tests.support.polling import eventually

ENGINES = "engines"
MODEL = "slow"
TASK = "greet"
# A run begins again after its worker was found to be lost, and the machine may have other work.
LONG_S = 120.0


@dataclass
class Runs:
    """Drives a cluster with a slow model, agent workers, and a task that calls the model."""

    cluster: Cluster
    agents: list[str] = field(default_factory=list)

    async def execute(self, who: str = "Ada", *, via: int = 0) -> str:
        """Execute the task at a frontend and return the id of the run."""
        frontend = self.cluster.frontends[via]
        status, made = await frontend.call("POST", f"/api/agent/tasks/{TASK}/execute", {"who": who})
        assert status == 201, made
        return str(made["job_id"])

    async def read(self, run_id: str, *, via: int = 0) -> Any:
        return await self.cluster.frontends[via].get(f"/api/runs/{run_id}")

    async def trace(self, run_id: str, *, via: int = 0) -> list[Any]:
        return list((await self.cluster.frontends[via].get(f"/api/runs/{run_id}/trace"))["events"])

    async def become(self, run_id: str, *states: str, via: int = 0) -> Any:
        """Wait until the run is in one of these states, and return it."""

        async def look() -> Any:
            run = await self.read(run_id, via=via)
            return run if run["state"] in states else None

        return await eventually(look, within_s=LONG_S)

    async def begin_to_answer(self, run_id: str) -> Any:
        """Wait until the first words of the answer are stored, and return the run."""

        async def look() -> Any:
            has_content = any(event["type"] == "content" for event in await self.trace(run_id))
            return await self.read(run_id) if has_content else None

        return await eventually(look, within_s=LONG_S)

    def worker_of(self, run: Any) -> Program:
        return self.cluster.workers[run["node"]]


def list_children(program: Program) -> list[psutil.Process]:
    """Return the processes that a worker has started, and what they have started."""
    return psutil.Process(program.pid).children(recursive=True)


async def are_gone(processes: list[psutil.Process]) -> bool:
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


@asynccontextmanager
async def runs_of(
    folder: Path, *agents: str, tokens_per_s: float = 3.0, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Runs]:
    """Run two frontends, a worker with a slow engine, and agent workers that are healthy. `settings` are further ones
    of the frontends."""
    async with empty_cluster(folder) as cluster:
        cluster.frontend_settings = {**cluster.frontend_settings, **(settings or {})}
        await cluster.postgres.start()
        await cluster.add_frontends(2)
        await cluster.join(ENGINES)
        cluster.worker_settings = {"CORRAL_NODE_TYPE": "agent", "CORRAL_MAX_RUNS": "4"}
        await cluster.join(*agents)
        first = cluster.frontends[0]
        options = {"tokens_per_s": str(tokens_per_s), "slots": "16"}
        status, answer = await first.call("PUT", f"/api/models/config/{MODEL}", {"backend": "fake", "options": options})
        assert status == 200, answer
        task = {"name": TASK, "model": MODEL, "prompt": "Say hello to {{ who }}."}
        status, answer = await first.call("POST", "/api/agent/tasks", task)
        assert status == 201, answer
        runs = Runs(cluster, list(agents))
        # The first run loads the model, so that the others begin at once.
        await runs.become(await runs.execute("nobody"), "completed")
        # Engines outlive their worker, so that the next one can adopt them.
        engines = list_children(cluster.workers[ENGINES])
        try:
            yield runs
        finally:
            for engine in engines:
                with contextlib.suppress(psutil.NoSuchProcess):
                    engine.kill()
