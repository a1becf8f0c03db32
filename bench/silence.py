"""How long it takes from a node's last heartbeat until every watcher is told that it is offline.

Baseline, computed and not run: a threshold of 60 s looked at every 15 s (the constants of Corral's ancestor), for
the same moments of the last heartbeats.
"""

from __future__ import annotations

import asyncio
import json
import random
import time

import aiohttp
import asyncpg

from bench.cluster import BenchCluster, cluster
from bench.heartbeats import PATH, insert_nodes
from bench.load import SimulatedNode, heartbeat_request
from bench.report import Row, table

NODES = 30
LIMIT_S = 120.0
ANCESTOR_THRESHOLD_S = 60.0
ANCESTOR_TICK_S = 15.0


def run() -> str:
    with cluster() as running:
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
    told = await _watch(running, set(last))
    delays = sorted(told[node_id] - last[node_id] for node_id in last)
    rng = random.Random(1)
    ancestor = sorted(ANCESTOR_THRESHOLD_S + rng.uniform(0, ANCESTOR_TICK_S) for _ in delays)
    return table(
        f"From the last heartbeat to *offline* on the event stream, {NODES} nodes",
        [_row("Corral", delays), _row("60 s threshold every 15 s (computed)", ancestor)],
        ratio_of=("median s", "longest s"),
    )


def _row(name: str, delays: list[float]) -> Row:
    return Row(name=name, values={"median s": delays[len(delays) // 2], "longest s": delays[-1]})


async def _last_heartbeats(running: BenchCluster, nodes: list[SimulatedNode]) -> dict[str, float]:
    """Heartbeats for a minute, then silence, node by node at moments of chance."""
    rng, last = random.Random(2), {}
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    for round_number in range(6):
        is_last = round_number == 5
        for node in nodes:
            writer.write(heartbeat_request(node, PATH))
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            last[node.id] = time.monotonic()
            if is_last:
                await asyncio.sleep(rng.uniform(0, 10 / NODES))
        if not is_last:
            await asyncio.sleep(10)
    writer.close()
    return last


async def _watch(running: BenchCluster, wanted: set[str]) -> dict[str, float]:
    told: dict[str, float] = {}
    headers = {"Authorization": f"Bearer {running.admin_key}"}
    url = f"http://127.0.0.1:{running.port}/api/events?topics=node"
    async with (
        asyncio.timeout(LIMIT_S),
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers) as answer,
    ):
        async for line in answer.content:
            if line.startswith(b"data: ") and b"node.lost" in line:
                told[json.loads(line[6:])["key"]] = time.monotonic()
            if wanted <= told.keys():
                return told
    raise RuntimeError("the stream ended before every node was found lost")
