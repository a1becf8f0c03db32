"""Collections with real processes: a document is uploaded, read by a worker, found at another frontend, and cited."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.e2e.runs.scene import LONG_S, MODEL, Runs, are_gone, list_children, runs_of
from tests.support.frontends import ADMIN_KEY
from tests.support.polling import eventually

pytestmark = pytest.mark.timeout(420)
BASE = "/api/agents/collections"
GUIDE = "\n\n".join(["# Pump", *(f"Part {number} of the pump is made of brass." for number in range(300))])


async def upload(runs: Runs, name: str, content: str) -> str:
    frontend = runs.cluster.frontends[0]
    form = aiohttp.FormData()
    form.add_field("file", content.encode(), filename=name)
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{frontend.url}{BASE}/manuals/upload", data=form, headers=headers) as answer,
    ):
        made = await answer.json()
        assert answer.status == 201, made
    return str(made["entry"]["run_id"])


async def wait_until_ready(runs: Runs, name: str) -> Any:
    async def look() -> Any:
        found = await runs.cluster.frontends[1].get(f"{BASE}/manuals/entries")
        entry = next(one for one in found["items"] if one["name"] == name)
        assert entry["state"] != "failed", entry
        return entry if entry["state"] == "ready" else None

    return await eventually(look, within_s=LONG_S)


@pytest.mark.behaviour("KNOW-1")
async def test_document_is_read_although_its_runner_is_killed_and_an_agent_answers_from_it(tmp_path: Path) -> None:
    async with runs_of(tmp_path, "agent-1", tokens_per_s=50.0) as runs:
        first, second = runs.cluster.frontends
        status, made = await first.call("POST", BASE, {"name": "manuals", "embedding_model": MODEL, "chunk_size": 60})
        assert status == 201, made
        run_id = await upload(runs, "pump.md", GUIDE)
        await runs.become(run_id, "running", "completed")
        processes = list_children(runs.cluster.workers["agent-1"])
        [runner] = [one for one in processes if "corral.runner" in one.cmdline()]
        os.kill(runner.pid, signal.SIGKILL)
        # Also the process that reads the document, if it has begun.
        assert await eventually(lambda: are_gone(processes))
        entry = await wait_until_ready(runs, "pump.md")
        assert entry["chunks"] > 100
        body = {"query": "Part 250 of the pump is made of brass.", "max_results": 3}
        status, found = await second.call("POST", f"{BASE}/manuals/search", body)
        assert status == 200, found
        assert "Part 250 of the pump" in found["results"][0]["content"]
        agent = {"name": "mechanic", "model": MODEL, "enable_kb": True, "collection": "manuals"}
        status, made = await second.call("POST", "/api/agents", agent)
        assert status == 201, made
        status, chatted = await second.call("POST", "/api/agents/mechanic/chat", {"message": "What is part 250?"})
        assert status == 202, chatted
        run = await runs.become(chatted["run_id"], "completed", "failed")
        assert run["state"] == "completed", run
        link = "1. [pump.md](/api/agents/collections/manuals/entries-raw/pump.md)"
        assert run["content"].endswith(f"\n\nSources:\n{link}")
        assert (await second.get(link.partition("(")[2].rstrip(")"))) == GUIDE
