"""Heartbeats per second of one frontend on one core, with 1,000 nodes over a real PostgreSQL, and their cost.

Baseline in the same run: the same framework, server and driver, with one transaction per heartbeat.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
import psutil

from bench.cluster import BenchCluster, free_port, run_cluster
from bench.load import HeartbeatLoad, SimulatedNode, send_heartbeats
from bench.report import ReportRow, format_table
from corral.access.secrets import hash_secret

NODES = 1000
CONNECTIONS = 64
SECONDS = 10.0
PATH = "/api/node/{id}/heartbeat"


def run() -> str:
    with run_cluster() as running:
        return asyncio.run(_measure(running))


async def _measure(running: BenchCluster) -> str:
    connection = await asyncpg.connect(running.database_url)
    try:
        nodes = await insert_nodes(connection)
        running.pin(0)
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {1})
        await send_heartbeats(
            running.port, nodes, path=PATH, connections=CONNECTIONS, seconds=8.0
        )  # until all nodes are known
        ours = await _one(running.port, running.frontend_pid, connection, nodes, "Corral: buffered, one statement")
        with _baseline(running.database_url) as (port, pid):
            theirs = await _one(port, pid, connection, nodes, "baseline: a transaction per heartbeat")
    finally:
        await connection.close()
    return format_table(
        f"Heartbeats, {NODES} nodes, {CONNECTIONS} connections, {SECONDS:g} s, server on one core",
        [ours, theirs],
        ratio_of=("heartbeats/s", "CPU µs per heartbeat", "transactions per heartbeat"),
    )


async def _one(port: int, pid: int, connection: asyncpg.Connection, nodes: list[SimulatedNode], name: str) -> ReportRow:
    before, cpu_before = await _transactions(connection), _cpu_s(pid)
    load: HeartbeatLoad = await send_heartbeats(port, nodes, path=PATH, connections=CONNECTIONS, seconds=SECONDS)
    cpu, after = _cpu_s(pid) - cpu_before, await _transactions(connection)
    assert load.failed == 0, f"{load.failed} heartbeats were refused"
    return ReportRow(
        name=name,
        values={
            "heartbeats/s": load.rate,
            "CPU µs per heartbeat": cpu / load.sent * 1e6,
            "transactions per heartbeat": (after - before) / load.sent,
        },
    )


async def insert_nodes(connection: asyncpg.Connection) -> list[SimulatedNode]:
    nodes = [
        SimulatedNode(str(uuid.uuid4()), f"cn_{uuid.uuid4().hex}{uuid.uuid4().hex}", "bench-boot") for _ in range(NODES)
    ]
    await connection.executemany(
        "INSERT INTO nodes (id, name, node_type, credential_hash, boot_id, liveness, lease_expires_at, approved_at,"
        " approved_by, address)"
        " VALUES ($1, $2, 'backend', $3, $4, 'alive', now() + interval '10 min', now(), 'bench', 'x:1')",
        [(node.id, f"bench-{number}", hash_secret(node.credential), node.boot_id) for number, node in enumerate(nodes)],
    )
    return nodes


async def _transactions(connection: asyncpg.Connection) -> int:
    # The statistics are collected with a delay of up to a second.
    await asyncio.sleep(1.2)
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    return int(await connection.fetchval("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"))


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


@contextmanager
def _baseline(url: str) -> Iterator[tuple[int, int]]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "bench.baseline_app", str(port), url])
    try:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(process.pid, {0})
        _wait_until_up(port)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(timeout=10)


def _wait_until_up(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the baseline did not start")
