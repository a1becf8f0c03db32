"""One operation over 1,000 nodes, 100 operations at once, 200 watchers, and lists over 10,000 rows of record.

One frontend in its own process, pinned to one core; PostgreSQL, NATS and the pretend workers share the other. Baseline
in the same run: LocalAI's loop, which waits for each node in turn, on the same pretend workers, run for a few
of them and extrapolated.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from bench import counting, operations_lists
from bench.cluster import BenchCluster, run_cluster
from bench.pretend_fleet import SETTINGS, URI, FleetProcess, register_nodes, retire_real_worker, run_pretend_fleet
from bench.report import ReportRow, format_table, print_progress, silence_logs
from corral.adapters.nats.client import NatsBus
from corral.adapters.nats.connection import NatsEndpoint
from corral.adapters.nats.credentials import UserTokenIssuer
from corral.adapters.system import SystemClock
from corral.bus.messages import BackendCommand, JobEvent
from corral.bus.subjects import BACKEND_INSTALL, JOB_EVENT, BusRole
from corral.ports.bus import Delivery

NODES = 1000
WORK_S = 1.0
# So many operations at once, on as many nodes; in the second row each is for some of them.
MANY = 100
MANY_NODES = 10
SERIAL_NODES = 20
WATCHERS = 200
LIMIT_S = 120.0
FRONTEND_CORE, OTHER_CORE = 0, 1


def run() -> str:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder:
        counts = Path(folder) / "statements"
        environment = SETTINGS | counting.make_environment(counts)
        with run_cluster(("bench.counting", "up"), **environment) as running:
            return asyncio.run(_measure(running, counts))


@dataclass
class OperationsBench:
    """Holds what every part of the operations benchmark needs."""

    running: BenchCluster
    session: aiohttp.ClientSession
    database: asyncpg.Connection
    fleet: FleetProcess
    counts: Path
    nodes: list[dict[str, str]]
    retries: int = 0

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and return its answer. Retry while the frontend answers 503, and count the retries."""
        while True:
            async with self.session.request(method, f"{self.running.url}{path}", json=body) as answer:
                result = await answer.json()
            if answer.status != 503:
                assert answer.status < 300, result
                return result
            self.retries += 1
            await asyncio.sleep(0.2)

    async def install(self, name: str, nodes: Sequence[dict[str, str]] | None = None) -> str:
        """Start an installation on the whole fleet, or on some nodes, and return the operation's id."""
        chosen = {} if nodes is None else {"nodes": [node["id"] for node in nodes]}
        body = await self.call("POST", "/api/backends/install-external", {"uri": URI, "name": name} | chosen)
        return str(body["id"])

    async def wait_for_state(self, operation_ids: list[str], *, state: str = "completed") -> None:
        """Wait until all operations have this state. Read from PostgreSQL, so that the frontend does no work for the
        count."""
        count = "SELECT count(*) FROM operations WHERE id = ANY($1) AND state = $2"
        async with asyncio.timeout(LIMIT_S):
            while await self.database.fetchval(count, operation_ids, state) < len(operation_ids):
                await asyncio.sleep(0.02)


@dataclass(frozen=True)
class MeasuredCost:
    """Holds what a part of the run cost: time, processor time, statements and memory."""

    seconds: float
    cpu_s: float
    statements: int
    peak_mib: float


@asynccontextmanager
async def _cost(bench: OperationsBench) -> AsyncIterator[Callable[[], MeasuredCost]]:
    running = bench.running
    running.forget_peak()
    began, cpu, sent = time.monotonic(), running.frontend_cpu_s(), counting.read_statement_count(bench.counts)

    def so_far() -> MeasuredCost:
        return MeasuredCost(
            seconds=time.monotonic() - began,
            cpu_s=running.frontend_cpu_s() - cpu,
            statements=counting.read_statement_count(bench.counts) - sent,
            peak_mib=running.frontend_peak_mib(),
        )

    yield so_far


async def _measure(running: BenchCluster, counts: Path) -> str:
    silence_logs()
    running.pin(FRONTEND_CORE)
    with contextlib.suppress(AttributeError):
        os.sched_setaffinity(0, {OTHER_CORE})
    database = await asyncpg.connect(running.database_url)
    headers = {"Authorization": f"Bearer {running.admin_key}"}
    try:
        async with aiohttp.ClientSession(headers=headers) as session:
            await retire_real_worker(running, session)
            print_progress(f"registering {NODES:,} nodes")
            nodes = await register_nodes(running, session, NODES)
            async with run_pretend_fleet(running, nodes, OTHER_CORE) as fleet:
                bench = OperationsBench(running, session, database, fleet, counts, nodes)
                return await _tables(bench)
    finally:
        await database.close()


async def _tables(bench: OperationsBench) -> str:
    before = _steal()
    # The first operation also fills pools and caches, and finds out who is on the bus.
    await _one_operation(bench, "warm-up", reports=True)
    parts = [
        await _fan_out(bench),
        await _at_once(bench),
        await _watched(bench),
        await operations_lists.measure(bench.running, bench.session, bench.database),
    ]
    return "\n".join([*parts, f"Steal during the run: {_steal_share(before, _steal()):.1f} %"]) + "\n"


# --- one operation over all nodes, and the loop that it replaces ---


async def _fan_out(bench: OperationsBench) -> str:
    rows = [
        await _one_operation(bench, "engine-1", reports=True),
        await _one_operation(bench, "engine-2", reports=False),
    ]
    serial = await _serial(bench)
    return "\n".join(
        [
            format_table(f"One operation over {NODES:,} nodes that take {WORK_S:g} s each", rows),
            format_table(
                f"Against a loop over the nodes ({SERIAL_NODES} measured, the rest extrapolated)",
                [
                    ReportRow("Corral", {"all done s": rows[0].values["all done s"]}),
                    ReportRow("one node after the other", {"all done s": serial}),
                ],
                ratio_of=("all done s",),
            ),
        ]
    )


async def _one_operation(bench: OperationsBench, name: str, *, reports: bool) -> ReportRow:
    print_progress(f"one operation: {name}")
    await bench.fleet.set_order(WORK_S, reports=reports)
    async with _cost(bench) as cost:
        began = time.monotonic()
        operation_id = await bench.install(name)
        await bench.wait_for_state([operation_id])
        done = cost()
        seen = await bench.fleet.wait_idle()
        # Reports that come after the end are part of what it costs.
        whole = cost()
    _check(seen, NODES)
    taking_s = seen["last_done_at"] - began
    return ReportRow(
        "with reports of what is installed" if reports else "commands and events alone",
        {
            "all accepted s": seen["last_accepted_at"] - began,
            "last node done s": taking_s,
            "all done s": done.seconds,
            "statements per node": whole.statements / NODES,
            "CPU s": whole.cpu_s,
            "CPU ms per node": whole.cpu_s / NODES * 1000,
            "events/s": seen["events"] / taking_s,
            "peak MiB": whole.peak_mib,
        },
    )


def _check(counts: dict[str, Any], jobs: int) -> None:
    assert counts["accepted"] == jobs, f"{counts['accepted']} of {jobs} were accepted"
    assert counts["failed_reports"] == 0, f"{counts['failed_reports']} reports were refused"
    if counts["job_queries"]:
        print(f"note: {counts['job_queries']} jobs were queried", file=sys.stderr)


async def _serial(bench: OperationsBench) -> float:
    """Work as LocalAI does: send a command to one node, wait until it is done, then go on to the next."""
    print_progress(f"{SERIAL_NODES} nodes one after the other")
    await bench.fleet.set_order(WORK_S)
    clock, environment = SystemClock(), bench.running.frontend_environment
    minter = UserTokenIssuer(Path(environment["CORRAL_NATS_ACCOUNT_SEED_FILE"]).read_text().strip())
    bus = NatsBus(
        NatsEndpoint(urls=(environment["CORRAL_NATS_URL"],), client_name="bench loop"),
        minter.make_provider(BusRole.FRONTEND, subject_id="bench-loop", name="bench-loop", ttl_s=3600, clock=clock),
        clock=clock,
        rng=random.Random(1),
    )
    ended: asyncio.Queue[str] = asyncio.Queue()

    async def on_job_event(delivery: Delivery[JobEvent]) -> None:
        if delivery.message.state == "done":
            ended.put_nowait(delivery.message.job_id)

    await bus.start()
    await bus.subscribe(JOB_EVENT, on_job_event)
    while not bus.is_connected:
        await asyncio.sleep(0.01)
    began = time.monotonic()
    for node in bench.nodes[:SERIAL_NODES]:
        command = BackendCommand(job_id=str(uuid.uuid4()), generation=1, backend="serial")
        await bus.request(BACKEND_INSTALL, command, node=node["id"])
        while await ended.get() != command.job_id:
            pass
    took = time.monotonic() - began
    await bus.stop()
    return took / SERIAL_NODES * NODES


# --- many operations at once ---


async def _at_once(bench: OperationsBench) -> str:
    rows = []
    for label, nodes in (("one node each", 1), (f"{MANY_NODES} nodes each", MANY_NODES)):
        print_progress(f"{MANY} operations, {label}")
        await bench.fleet.set_order(WORK_S, reports=False)
        async with _cost(bench) as cost:
            began = time.monotonic()
            ids = await asyncio.gather(
                *(bench.install(f"many-{nodes}-{number}", _share(bench, number, nodes)) for number in range(MANY))
            )
            admitted_s = time.monotonic() - began
            if bench.retries:
                print_progress(f"{bench.retries} requests were sent again after a 503")
            await bench.wait_for_state(list(ids))
            whole = cost()
        seen = await bench.fleet.wait_idle()
        _check(seen, MANY * nodes)
        rows.append(
            ReportRow(
                label,
                {
                    "targets": MANY * nodes,
                    "all admitted s": admitted_s,
                    "all accepted s": seen["last_accepted_at"] - began,
                    "all done s": whole.seconds,
                    "statements per target": whole.statements / (MANY * nodes),
                    "CPU s": whole.cpu_s,
                    "events/s": seen["events"] / (seen["last_done_at"] - began),
                    "peak MiB": whole.peak_mib,
                },
            )
        )
    return format_table(f"{MANY} operations at once on {MANY} nodes, {WORK_S:g} s each on a node", rows)


def _share(bench: OperationsBench, number: int, count: int) -> list[dict[str, str]]:
    """Return `count` nodes for one operation, others for each, all of them equally often."""
    return [bench.nodes[(number * count + offset) % MANY] for offset in range(count)]


# --- watchers ---


async def _watched(bench: OperationsBench) -> str:
    rows = []
    for count in (WATCHERS, 1):
        print_progress(f"watchers: {count}")
        await bench.fleet.set_order(WORK_S)
        with _watchers(bench.running, count) as seen_by:
            async with _cost(bench) as cost:
                await bench.wait_for_state([await bench.install(f"watched-{count}")])
                whole = cost()
            # The last report arrives within a third of a second.
            await asyncio.sleep(1.0)
            seen = seen_by()
        _check(await bench.fleet.wait_idle(), NODES)
        assert seen["broken"] == 0, f"{seen['broken']} streams broke"
        behind, deltas = seen["behind"], seen["progress"]
        rows.append(
            ReportRow(
                f"{count} watchers" if count > 1 else "1 watcher",
                {
                    "all done s": whole.seconds,
                    "deltas sent": seen["deltas"],
                    "fewest for a watcher": min(deltas),
                    "MB to each": seen["bytes"] / count / 1e6,
                    "behind the first, p50 ms": behind[len(behind) // 2] * 1000,
                    "p99 ms": behind[int(len(behind) * 0.99)] * 1000,
                    "CPU s": whole.cpu_s,
                    "peak MiB": whole.peak_mib,
                },
            )
        )
    return format_table(
        f"Watchers of one operation over {NODES:,} nodes", rows, ratio_of=("all done s", "CPU s", "peak MiB")
    )


@contextmanager
def _watchers(running: BenchCluster, count: int) -> Iterator[Callable[[], dict[str, Any]]]:
    command = [sys.executable, "-m", "bench.watchers", str(running.port), running.admin_key, str(count)]
    with subprocess.Popen(
        [*command, str(OTHER_CORE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout
        try:
            assert stdout.readline() == "ready\n", "the watchers did not get through"

            def seen() -> dict[str, Any]:
                stdin.write("\n")
                stdin.flush()
                counts: dict[str, Any] = json.loads(stdout.readline())
                return counts

            yield seen
        finally:
            process.terminate()


def _steal() -> tuple[int, int]:
    """Return the ticks that other machines took from this one, and all ticks."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0, 1
    ticks = [int(tick) for tick in stat.read_text().splitlines()[0].split()[1:]]
    return ticks[7], sum(ticks[:8])


def _steal_share(previous: tuple[int, int], after: tuple[int, int]) -> float:
    return 100 * (after[0] - previous[0]) / max(1, after[1] - previous[1])
