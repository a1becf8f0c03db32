"""Many pretend workers beside a real frontend: registered by the product's own route, worked by `bench.fleet`."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from bench.cluster import BenchCluster

REGISTRATIONS_AT_ONCE = 16
# Nodes take part as they come, and a source may be a file.
SETTINGS = {"CORRAL_AUTO_APPROVE_NODES": "true", "CORRAL_ALLOW_PRIVATE_SOURCES": "true"}
# Nobody fetches it: the workers only wait.
URI = "file:///bench/engine"


class FleetProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def send_order(self, value: dict[str, Any]) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(value).encode() + b"\n")
        await stdin.drain()
        counts: dict[str, Any] = json.loads(await stdout.readline())
        return counts

    async def set_order(self, work_s: float, *, reports: bool = False) -> None:
        """Set how long each job takes from now on, and whether workers report their backends after it."""
        await self.send_order({"work_s": work_s, "reports": reports})

    async def wait_idle(self) -> dict[str, Any]:
        """Wait until no worker works, and return the counts since the last order."""
        return await self.send_order({})


async def retire_real_worker(running: BenchCluster, session: aiohttp.ClientSession) -> None:
    """Drain the cluster's own worker, because it would really fetch files."""
    async with session.get(f"{running.url}/api/nodes") as answer:
        for node in await answer.json():
            async with session.post(f"{running.url}/api/nodes/{node['id']}/drain") as drained:
                assert drained.status == 200, await drained.text()


async def register_nodes(running: BenchCluster, session: aiohttp.ClientSession, count: int) -> list[dict[str, str]]:
    """Register nodes by the product's own route; the setting approves them."""
    async with session.post(f"{running.url}/api/tokens", json={"name": "bench", "max_uses": count}) as answer:
        token = (await answer.json())["token"]
    slots = asyncio.Semaphore(REGISTRATIONS_AT_ONCE)

    async def one(number: int) -> dict[str, str]:
        node = {"credential": f"cn_{uuid.uuid4().hex}{uuid.uuid4().hex}", "boot_id": uuid.uuid4().hex}
        sent = node | {"name": f"bench-{number:04}", "address": "127.0.0.1:50051", "token": token}
        url = f"{running.url}/api/node/register"
        async with slots, session.post(url, json=sent, headers={"Authorization": f"Bearer {token}"}) as answer:
            body = await answer.json()
            assert answer.status == 201, body
            assert body["approved"], body
            return node | {"id": body["id"]}

    return list(await asyncio.gather(*(one(number) for number in range(count))))


@asynccontextmanager
async def run_pretend_fleet(
    running: BenchCluster, nodes: list[dict[str, str]], core: int
) -> AsyncIterator[FleetProcess]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.fleet",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=64 * 1024 * 1024,
    )
    fleet = FleetProcess(process)
    try:
        await fleet.send_order(
            {
                "nats_url": running.frontend_environment["CORRAL_NATS_URL"],
                "account_seed_file": running.frontend_environment["CORRAL_NATS_ACCOUNT_SEED_FILE"],
                "url": running.url,
                "port": running.port,
                "core": core,
                "workers": nodes,
            }
        )
        yield fleet
    finally:
        process.terminate()
        await process.wait()
