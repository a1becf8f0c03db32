"""How long it takes from a node's last heartbeat until every watcher gets the event that it is offline.

Baseline, computed and not run: a threshold of 60 s checked every 15 s (LocalAI's constants), for
the same moments of the last heartbeats.
"""

from __future__ import annotations

import asyncio
import json
import random
import time

import aiohttp
import asyncpg

from bench.cluster import BenchCluster, run_cluster
from bench.heartbeats import PATH, insert_nodes
from bench.load import SimulatedNode, make_heartbeat_request
from bench.report import ReportRow, format_table

NODES = 30
LIMIT_S = 120.0
LOCALAI_THRESHOLD_S = 60.0
LOCALAI_TICK_S = 15.0


def run() -> str:
    with run_cluster() as running:
        return asyncio.run(_measure(running))


async def _measure(running: BenchCluster) -> str:
    connection = await asyncpg.connect(running.database_url)
    try:
        nodes = (await insert_nodes(connection))[:NODES]
        await connection.execute(
            "DELETE FROM nodes WHERE name LIKE 'bench-%' AND NOT id = ANY($1)", [n.id for n in nodes]
        )
    finally:
        await connection.close()
    # The leader declares nobody lost before it has watched for one lease; a fresh cluster has not.
    last = await _last_heartbeats(running, nodes)
    offline_at = await _watch(running, set(last))
    delays = sorted(offline_at[node_id] - last[node_id] for node_id in last)
    rng = random.Random(1)
    localai = sorted(LOCALAI_THRESHOLD_S + rng.uniform(0, LOCALAI_TICK_S) for _ in delays)
    return format_table(
        f"From the last heartbeat to *offline* on the event stream, {NODES} nodes",
        [_row("Corral", delays), _row("60 s threshold every 15 s (computed)", localai)],
        ratio_of=("median s", "longest s"),
    )


def _row(name: str, delays: list[float]) -> ReportRow:
    return ReportRow(name=name, values={"median s": delays[len(delays) // 2], "longest s": delays[-1]})


async def _last_heartbeats(running: BenchCluster, nodes: list[SimulatedNode]) -> dict[str, float]:
    """Send heartbeats for a minute, then stop them node by node at random moments. Return each node's last one."""
    rng, last = random.Random(2), {}
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    for round_number in range(6):
        is_last = round_number == 5
        for node in nodes:
            writer.write(make_heartbeat_request(node, PATH))
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            last[node.id] = time.monotonic()
            if is_last:
                await asyncio.sleep(rng.uniform(0, 10 / NODES))
        if not is_last:
            await asyncio.sleep(10)
    writer.close()
    return last


async def _watch(running: BenchCluster, node_ids: set[str]) -> dict[str, float]:
    offline_at: dict[str, float] = {}
    headers = {"Authorization": f"Bearer {running.admin_key}"}
    url = f"http://127.0.0.1:{running.port}/api/events?topics=node"
    async with (
        asyncio.timeout(LIMIT_S),
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers) as answer,
    ):
        async for line in answer.content:
            if line.startswith(b"data: ") and b"node.lost" in line:
                offline_at[json.loads(line[6:])["key"]] = time.monotonic()
            if node_ids <= offline_at.keys():
                return offline_at
    raise RuntimeError("the stream ended before every node was found lost")
