"""From a request to the first token of a small real model: everything missing, then the files there, then loaded.

Baseline in the same run: the same request to the loaded model. The phases are what the operations say of themselves;
fetching goes over the network and is as fast as that.
"""

from __future__ import annotations

import asyncio
import json
import time
from datetime import datetime
from statistics import median
from typing import Any

import aiohttp

from bench.cluster import BenchCluster, run_cluster
from bench.report import ReportRow, format_table

MODEL = "smollm2-135m"
ROUNDS = 3
LIMIT_S = 300.0


def run() -> str:
    with run_cluster() as running:
        first, again, warm = asyncio.run(_measure(running))
    rows = [
        ReportRow("nothing installed", first),
        ReportRow(f"engine and files on the node, median of {ROUNDS}", again),
        ReportRow(f"loaded, median of {ROUNDS}", warm),
    ]
    return format_table(f"Cold start of {MODEL}: seconds to the first token, by phase", rows)


async def _measure(running: BenchCluster) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    headers = {"Authorization": f"Bearer {running.admin_key}"}
    limit = aiohttp.ClientTimeout(total=LIMIT_S)
    async with aiohttp.ClientSession(running.url, headers=headers, timeout=limit) as http:
        engine = await _operation(http, "POST", "/api/backends/install/llama-cpp")
        files = await _operation(http, "POST", f"/api/models/install/{MODEL}")
        cold = await _ask(http)
        load = await _last_load(http)
        first = {
            "engine s": engine,
            "fetch s": files,
            "place, stage, start s": load,
            "first token s": cold,
            "whole s": engine + files + cold,
        }
        rounds = [await _again(http) for _ in range(ROUNDS)]
        again = {key: median(one[key] for one in rounds) for key in rounds[0]}
        warm = [await _ask(http) for _ in range(ROUNDS)]
    return first, again, {"first token s": median(warm), "whole s": median(warm)}


async def _again(http: aiohttp.ClientSession) -> dict[str, float]:
    await _operation(http, "POST", f"/api/models/{MODEL}/unload")
    cold = await _ask(http)
    return {"place, stage, start s": await _last_load(http), "first token s": cold, "whole s": cold}


async def _ask(http: aiohttp.ClientSession) -> float:
    """Return the seconds from the request to the first token."""
    body = {
        "model": MODEL,
        "stream": True,
        "max_tokens": 8,
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
    }
    began = time.perf_counter()
    async with http.post("/v1/chat/completions", json=body) as answer:
        assert answer.status == 200, await answer.text()
        async for line in answer.content:
            if line.startswith(b"data: {") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                took = time.perf_counter() - began
                await answer.read()
                return took
    raise AssertionError("the answer had no token")


async def _operation(http: aiohttp.ClientSession, method: str, path: str) -> float:
    """Start an operation, wait for its end, and return the seconds that it reports."""
    async with http.request(method, path, json={}) as answer:
        assert answer.status in (200, 202), await answer.text()
        key = (await answer.json())["jobID"]
    while True:
        shown = await _get(http, f"/api/operations/{key}")
        if shown["state"] in ("completed", "failed", "cancelled"):
            assert shown["state"] == "completed", shown
            return _took(shown)
        await asyncio.sleep(0.05)


async def _last_load(http: aiohttp.ClientSession) -> float:
    history = await _get(http, "/api/operations/history?limit=20")
    newest = next(one for one in history["operations"] if one["kind"] == "model_load")
    return _took(await _get(http, f"/api/operations/{newest['id']}"))


async def _get(http: aiohttp.ClientSession, path: str) -> Any:
    async with http.get(path) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


def _took(operation: dict[str, Any]) -> float:
    begin, end = (datetime.fromisoformat(operation[key]) for key in ("startedAt", "finishedAt"))
    return (end - begin).total_seconds()
