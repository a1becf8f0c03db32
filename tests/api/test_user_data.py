"""What a user has made goes with the user: agents, threads, tasks, runs, files, batches, webhooks and secrets."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from tests.access.test_secret_sealer import FIRST
from tests.agents.hand_worker import HandWorker, chat, create, join_worker
from tests.api.test_users import make_user
from tests.batches.scene import create_batch, make_line, render_lines, upload_input
from tests.serving.scene import put_model
from tests.support.frontends import RunningFrontend, running_frontend

# Stands in every text that the user sends.
CANARY = "canary-5f2c"
# What people did stays on record, with the names of agents and tasks as they were.
KEPT = {"audit"}


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    async with running_frontend(database_url, sealing_keys=(FIRST,)) as running:
        yield running


async def find_canary(frontend: RunningFrontend) -> dict[str, int]:
    """Return the tables in which the canary stands, with the number of rows."""
    found = {}
    async with frontend.database.transaction() as tx:
        tables = await tx.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))
        for table in tables.scalars().all():
            # Bytes are searched as text.
            row = "to_jsonb(t)::text"
            query = text(f"SELECT count(*) FROM {table} AS t WHERE {row} LIKE :plain OR {row} LIKE :hex")
            rows = await tx.execute(query, {"plain": f"%{CANARY}%", "hex": f"%{CANARY.encode().hex()}%"})
            if count := rows.scalar_one():
                found[table] = count
    return found


@pytest.mark.behaviour("RUNS-13")
async def test_nothing_that_a_user_has_sent_or_been_answered_is_left_when_the_user_is_deleted(
    frontend: RunningFrontend,
) -> None:
    worker: HandWorker = await join_worker(frontend)
    await put_model(frontend.database, "chat")
    user = await make_user(frontend)
    _, made = await frontend.call("POST", "/api/keys", {"name": "k", "scope": "infer", "user": user["name"]})
    key = made["key"]
    assert (await frontend.call("PUT", f"/api/secrets/{CANARY}", {"value": f"{CANARY} value"}, key=key))[0] in (
        200,
        201,
    )
    await create(frontend, key=key, model="chat", system_prompt=CANARY)
    sent = await chat(frontend, CANARY, key=key)
    run_id = sent["run_id"]
    await worker.take(run_id)
    file = {"name": "made.txt", "media_type": "text/plain", "content": base64.b64encode(CANARY.encode()).decode()}
    status, stored = await worker.node.call("POST", f"/runs/{run_id}/files", file | {"job_id": worker.jobs[run_id]})
    assert status == 200, stored
    await worker.deliver(run_id, ("step", {}), ("content", {"text": CANARY}))
    await worker.end(run_id, CANARY)
    task = {"name": CANARY, "model": "chat", "prompt": CANARY, "webhooks": [{"url": f"https://x.example/{CANARY}"}]}
    assert (await frontend.call("POST", "/api/agent/tasks", task, key=key))[0] == 201
    picture = "data:image/png;base64," + base64.b64encode(CANARY.encode()).decode()
    status, job = await frontend.call(
        "POST", "/api/agent/jobs/execute", {"task_id": CANARY, "images": [picture]}, key=key
    )
    assert status == 201, job
    await worker.take(job["job_id"])
    file_id = await upload_input(frontend, key, render_lines([make_line("r0", text=CANARY)]))
    status, batch = await create_batch(frontend, key, file_id, metadata={"note": CANARY})
    assert status == 200, batch
    await worker.take(batch["run_id"])

    before = await find_canary(frontend)
    assert {
        "agents", "threads", "thread_messages", "tasks", "runs", "run_events", "artifact_chunks", "secrets",
        "webhook_deliveries",
    } <= before.keys(), before  # fmt: skip
    assert (await frontend.call("DELETE", f"/api/users/{user['id']}"))[0] == 200
    left = await find_canary(frontend)
    assert {table: count for table, count in left.items() if table not in KEPT} == {}, json.dumps(left)
    # The workers of the open runs are told to stop.
    for open_run in (job["job_id"], batch["run_id"]):
        assert (await worker.deliver(open_run))["must_stop"] is True
