"""The setting `run_timeout`: for which runs it counts, and what they have without it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agents.hand_worker import chat, create, join_worker
from tests.support.frontends import running_frontend

DOCS = {"remote": {"docs": {"url": "https://docs.example/mcp"}}}


@pytest.mark.behaviour("RUNS-19")
@pytest.mark.parametrize(("given_s", "turn_s", "job_s"), [(None, 300.0, 600.0), (1200.0, 1200.0, 1200.0)])
async def test_run_timeout_counts_for_runs_without_a_budget_of_their_own(
    database_url: str, given_s: float | None, turn_s: float, job_s: float
) -> None:
    options: dict[str, Any] = {} if given_s is None else {"run_timeout_s": given_s}
    async with running_frontend(database_url, **options) as frontend:
        worker = await join_worker(frontend)
        status, _ = await frontend.call("PUT", "/api/models/config/m", {"backend": "fake", "mcp": DOCS})
        assert status == 200
        await create(frontend, "free", budgets={"wall": ""})
        await create(frontend, "bound", budgets={"wall": "7m"})
        for name, budgets in (("free-task", {}), ("bound-task", {"wall_s": 90})):
            task = {"name": name, "model": "m", "prompt": "hello", "budgets": budgets}
            assert (await frontend.call("POST", "/api/agent/tasks", task))[0] == 201

        async def read_wall_s(run_id: str) -> float:
            spec: dict[str, Any] = await worker.answer(run_id)
            return float(spec["budgets"]["wall_s"])

        async def execute(task: str) -> str:
            return str((await frontend.call("POST", f"/api/agent/tasks/{task}/execute", {}))[1]["job_id"])

        assert await read_wall_s((await chat(frontend, "hello", name="free"))["run_id"]) == turn_s
        assert await read_wall_s((await chat(frontend, "hello", name="bound"))["run_id"]) == 420.0
        assert await read_wall_s(await execute("free-task")) == job_s
        assert await read_wall_s(await execute("bound-task")) == 90.0
        asking = asyncio.create_task(frontend.call("POST", "/v1/responses", {"model": "m", "input": "hello"}))
        [run_id] = await worker.wait_for_run()
        assert await read_wall_s(run_id) == turn_s
        assert (await asking)[0] == 200
