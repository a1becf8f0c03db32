"""Tasks and jobs for the tests of the page, on the frontend of `run_scene`: the test plays the worker of each job."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from corral.domain.run import RunTrigger
from corral.tasks.service import ExecutionRequest
from tests.loading.scene import put_model
from tests.page.run_scene import HeldRun, RunScene, ids
from tests.support.frontends import ADMIN_KEY

MODEL = "llama"


def put_models(scene: RunScene) -> None:
    scene.run(put_model(scene.frontend.database, MODEL, serves=("chat",)))


def new_task(scene: RunScene, name: str, *, key: str = ADMIN_KEY, **more: Any) -> str:
    """Create a task over the API and return its id."""
    body = {"name": name, "model": MODEL, "prompt": "Feed {{ herd }}."} | more
    status, made = scene.call("POST", "/api/agent/tasks", body, key=key)
    assert status == 201, made
    return str(made["id"])


def read_task(scene: RunScene, task_id: str) -> Any:
    status, task = scene.call("GET", f"/api/agent/tasks/{task_id}?all_users=true")
    assert status == 200, task
    return task


def read_job(scene: RunScene, job_id: str) -> Any:
    status, job = scene.call("GET", f"/api/agent/jobs/{job_id}?all_users=true")
    assert status == 200, job
    return job


def start_job(
    scene: RunScene, task_id: str, *, trigger: RunTrigger = RunTrigger.API, key: str = ADMIN_KEY, **parameters: Any
) -> HeldRun:
    """Start a job that no dispatcher drives."""

    async def start() -> str:
        caller = await scene.frontend.core.directory.authenticate_key(key)
        tasks = scene.frontend.core.tasks.service
        request = ExecutionRequest(parameters=parameters, trigger=trigger)
        prepared = await tasks.prepare(task_id, caller, request)
        async with scene.frontend.database.transaction() as tx:
            run_id = await tasks.admit(tx, prepared)
            await tx.execute(text("UPDATE operations SET due_at = NULL WHERE id = CAST(:id AS uuid)"), {"id": run_id})
        return run_id

    return HeldRun(scene, scene.run(start()), ids.new_id())


def forget_tasks(scene: RunScene) -> None:
    """Delete every task and every job."""
    scene.forget_all()
    _, listed = scene.call("GET", "/api/agent/tasks?all_users=true")
    for task in listed:
        scene.call("DELETE", f"/api/agent/tasks/{task['id']}?all_users=true")
