"""What a turn of an agent costs beside the plain library, 1,000 jobs on two agent workers, and 100 agents at once.

A turn is two calls of the model with one call of a tool between them. The model is the engine `fake`, which answers at
once, behind the gateway. Baseline in the same run, in turns with ours: pydantic-ai in this process, with the same
gateway, messages and model, and the tool as a function (ours is a program, so a message over a pipe is in our figures).
Limits: loopback, and everything shares the machine's cores. The
frontend counts its statements, those of its loops and of this benchmark's own requests included.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from bench import counting
from bench.cluster import BenchCluster, run_cluster
from bench.report import ReportRow, format_table, print_progress

TURNS = 40
WARM_UP = 5
JOBS = 1000
# Places of each of the two workers that share the jobs.
JOB_PLACES = 8
# How many jobs are sent at a time.
SENDERS = 20
CHATS = 100
MESSAGE = 'call calc__add {"a": 1, "b": 2}'
MODEL = "bench"
LIMIT_S = 900.0


def run() -> str:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder:
        counts = Path(folder) / "statements"
        with run_cluster(("bench.counting", "up"), **counting.make_environment(counts)) as running:
            return asyncio.run(_measure(running, Path(folder), counts))


@dataclass(frozen=True)
class TurnTimes:
    """Holds what one turn took: from the request to the first call of the model, and as a whole."""

    first_call_ms: float
    whole_ms: float


@dataclass(frozen=True)
class CpuTimes:
    """Holds CPU seconds: of the frontend, of agent workers, and of what drives the library (a runner, or the bench)."""

    frontend_s: float = 0.0
    worker_s: float = 0.0
    library_s: float = 0.0

    @property
    def whole_s(self) -> float:
        return self.frontend_s + self.worker_s + self.library_s

    def __add__(self, other: CpuTimes) -> CpuTimes:
        return CpuTimes(
            self.frontend_s + other.frontend_s, self.worker_s + other.worker_s, self.library_s + other.library_s
        )

    def __sub__(self, other: CpuTimes) -> CpuTimes:
        return CpuTimes(
            self.frontend_s - other.frontend_s, self.worker_s - other.worker_s, self.library_s - other.library_s
        )


class BusyFrontendError(Exception):
    """A frontend has refused a request with 503."""


class AgentBench:
    """Calls the admin API of the cluster, and starts agent workers beside it."""

    def __init__(self, running: BenchCluster, folder: Path, http: aiohttp.ClientSession, counts: Path) -> None:
        self.running = running
        # The file in which the frontend counts its statements.
        self.counts = counts
        self._folder = folder
        self._http = http
        # Set by `prepare`: the join token of agent workers.
        self.token = ""
        # How many messages were refused with 503 and sent again.
        self.refusals = 0

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.running.admin_key}"}
        async with self._http.request(method, f"{self.running.url}{path}", json=body, headers=headers) as response:
            answer = await response.json()
            if response.status == 503:
                raise BusyFrontendError(str(answer))
            assert response.status < 300, (path, answer)
            return answer

    async def prepare(self) -> None:
        """Make the model, the tool, the agents, a task and a join token."""
        token = {"name": "bench", "max_uses": 3, "approves": True}
        self.token = (await self.call("POST", "/api/tokens", token))["token"]
        options = {"tokens_per_s": "100000", "slots": "256"}
        await self.call("PUT", f"/api/models/config/{MODEL}", {"backend": "fake", "options": options})
        server = {"command": sys.executable, "args": [str(Path(__file__).parent / "agent_tools.py")]}
        await self.call("PUT", "/api/mcp/servers/calc", server)
        for number in range(CHATS):
            agent = {"name": f"agent-{number}", "model": MODEL, "mcp_stdio_servers": ["calc"]}
            await self.call("POST", "/api/agents", agent)
        await self.call("POST", "/api/agent/tasks", {"name": "job", "model": MODEL, "prompt": "Say {{ word }}."})

    @contextmanager
    def run_workers(self, *names: str, places: int) -> Iterator[list[psutil.Process]]:
        """Run agent workers; they have joined when `wait_workers` returns."""
        processes = []
        try:
            for name in names:
                environment = {key: value for key, value in os.environ.items() if not key.startswith("CORRAL_")}
                environment |= {
                    "CORRAL_JOIN": self.running.url,
                    "CORRAL_TOKEN": self.token,
                    "CORRAL_NAME": name,
                    "CORRAL_NODE_TYPE": "agent",
                    "CORRAL_MAX_RUNS": str(places),
                    "CORRAL_WORKER_HOME": str(self._folder / name),
                    # The tool is a program of this benchmark, and its interpreter may be this user's alone.
                    "CORRAL_RUN_USER": getpass.getuser(),
                }
                log = (self._folder / f"{name}.log").open("wb")
                with log:
                    command = [sys.executable, "-m", "corral", "worker"]
                    processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            yield [psutil.Process(process.pid) for process in processes]
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(timeout=30)

    async def wait_workers(self, *names: str) -> None:
        """Wait until these nodes take runs, and no other agent node does."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            nodes = await self.call("GET", "/api/nodes")
            healthy = {node["name"] for node in nodes if node["status"] == "healthy" and node["node_type"] == "agent"}
            if healthy == set(names):
                return
            await asyncio.sleep(0.2)
        raise TimeoutError(f"the workers {names} have not joined")

    async def chat(self, number: int = 0) -> str:
        """Send a message to an agent, again if the frontend is too busy, and return the id of the run."""
        path = f"/api/agents/agent-{number}/chat"
        while True:
            try:
                return str((await self.call("POST", path, {"message": MESSAGE}))["run_id"])
            except BusyFrontendError:
                self.refusals += 1
                await asyncio.sleep(0.5)

    async def wait_ended(self, run_id: str) -> dict[str, Any]:
        """Wait with the stream of the run, which costs the frontend less than polling, and return the run."""
        found: dict[str, Any] = {}
        headers = {"Authorization": f"Bearer {self.running.admin_key}"}
        async with asyncio.timeout(LIMIT_S):
            while found.get("finished_at") is None:
                url = f"{self.running.url}/api/runs/{run_id}/events"
                async with self._http.get(url, headers=headers) as stream:
                    async for _ in stream.content.iter_any():
                        pass
                with contextlib.suppress(BusyFrontendError):
                    found = await self.call("GET", f"/api/runs/{run_id}")
        assert found["state"] == "completed", found
        return found

    async def read_times(self, found: dict[str, Any]) -> TurnTimes:
        trace = (await self.call("GET", f"/api/runs/{found['id']}/trace"))["events"]
        begin = datetime.fromisoformat(found["created_at"])
        first = datetime.fromisoformat(next(event["at"] for event in trace if event["type"] == "step"))
        end = datetime.fromisoformat(found["finished_at"])
        return TurnTimes((first - begin).total_seconds() * 1000, (end - begin).total_seconds() * 1000)


async def _measure(running: BenchCluster, folder: Path, counts: Path) -> str:
    async with aiohttp.ClientSession() as http:
        bench = AgentBench(running, folder, http, counts)
        await bench.prepare()
        with bench.run_workers("agents", places=CHATS) as [worker]:
            await bench.wait_workers("agents")
            turns = await _measure_turns(bench, worker)
            print_progress(turns)
            chats = await _measure_chats(bench)
            print_progress(chats)
        await bench.wait_workers()
        with bench.run_workers("jobs-1", "jobs-2", places=JOB_PLACES) as workers:
            await bench.wait_workers("jobs-1", "jobs-2")
            jobs = await _measure_jobs(bench, workers)
        return f"{turns}\n{jobs}\n{chats}"


# --- a turn beside the library ---


async def _measure_turns(bench: AgentBench, worker: psutil.Process) -> str:
    print_progress("turns beside the plain library")
    agent = _make_plain_agent(bench)
    ours: list[TurnTimes] = []
    theirs: list[float] = []
    cpu_ours, cpu_theirs = CpuTimes(), CpuTimes()
    statements = 0
    for number in range(WARM_UP + TURNS):
        before, sent = _count_cpu(bench, worker), counting.read_statement_count(bench.counts)
        times = await bench.read_times(await bench.wait_ended(await bench.chat()))
        between, sent = _count_cpu(bench, worker), counting.read_statement_count(bench.counts) - sent
        began, own = time.perf_counter(), time.process_time()
        result = await agent.run(MESSAGE)
        assert "3" in result.output, result.output
        took_ms = (time.perf_counter() - began) * 1000
        library = CpuTimes(library_s=time.process_time() - own)
        after = _count_cpu(bench, worker)
        if number >= WARM_UP:
            ours.append(times)
            statements += sent
            theirs.append(took_ms)
            cpu_ours += between - before
            cpu_theirs += after - between + library
    whole = statistics.median(times.whole_ms for times in ours)
    plain = statistics.median(theirs)
    first = statistics.median(times.first_call_ms for times in ours)
    rows = [
        ReportRow(
            "a turn of an agent",
            {**_make_turn_values(first, whole, cpu_ours), "statements": statements / TURNS},
        ),
        ReportRow("pydantic-ai alone", _make_turn_values(0.0, plain, cpu_theirs)),
        ReportRow(
            "added",
            {
                **_make_turn_values(first, whole - plain, cpu_ours - cpu_theirs),
                "each further step ms": (whole - plain - first) / 2,
            },
        ),
    ]
    return format_table(f"A turn with one tool call, median of {TURNS}", rows)


def _make_turn_values(first_ms: float, whole_ms: float, cpu: CpuTimes) -> dict[str, float]:
    return {
        "to the first model call ms": first_ms,
        "whole turn ms": whole_ms,
        "frontend CPU ms": cpu.frontend_s / TURNS * 1000,
        "worker CPU ms": cpu.worker_s / TURNS * 1000,
        "library CPU ms": cpu.library_s / TURNS * 1000,
    }


def _make_plain_agent(bench: AgentBench) -> Agent[None, str]:
    provider = OpenAIProvider(base_url=f"{bench.running.url}/v1", api_key=bench.running.admin_key)
    agent: Agent[None, str] = Agent(OpenAIChatModel(MODEL, provider=provider))

    @agent.tool_plain
    def calc__add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    return agent


def _count_cpu(bench: AgentBench, *workers: psutil.Process) -> CpuTimes:
    """Return the CPU times of the frontend, of agent workers, and of their runners with the tools."""
    runners = [child for worker in workers for child in worker.children(recursive=True)]
    return CpuTimes(
        frontend_s=bench.running.frontend_cpu_s(),
        worker_s=sum(map(_read_cpu_s, workers)),
        library_s=sum(map(_read_cpu_s, runners)),
    )


def _read_cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


# --- many jobs ---


async def _measure_jobs(bench: AgentBench, workers: Sequence[psutil.Process]) -> str:
    print_progress(f"{JOBS} jobs on two workers")
    first = await bench.call("POST", "/api/agent/tasks/job/execute", {"word": "warm"})
    one = await bench.read_times(await bench.wait_ended(first["job_id"]))
    cpu, sent = _count_cpu(bench, *workers), counting.read_statement_count(bench.counts)
    began = time.monotonic()
    path = "/api/agent/tasks/job/execute"
    slots = asyncio.Semaphore(SENDERS)

    async def send(number: int) -> str:
        async with slots:
            return str((await bench.call("POST", path, {"word": f"w{number}"}))["job_id"])

    ids = await asyncio.gather(*(send(number) for number in range(JOBS)))
    queued_s = time.monotonic() - began
    ended = [await bench.wait_ended(run_id) for run_id in ids]
    whole_s = time.monotonic() - began
    begun = sum(run["attempt"] for run in ended)
    assert len({run["id"] for run in ended}) == JOBS
    row = ReportRow(
        "jobs",
        {
            "jobs": JOBS,
            "completed": len(ended),
            "begun": begun,
            "admitted in s": queued_s,
            "all ended after s": whole_s,
            "ms per job": whole_s / JOBS * 1000,
            "CPU ms per job": (_count_cpu(bench, *workers) - cpu).whole_s / JOBS * 1000,
            "statements per job": (counting.read_statement_count(bench.counts) - sent) / JOBS,
            "one job alone ms": one.whole_ms,
        },
    )
    return format_table(f"Jobs on two agent workers with {JOB_PLACES} places each", [row])


# --- many agents at once ---


async def _measure_chats(bench: AgentBench) -> str:
    print_progress(f"{CHATS} agents at once")
    began = time.monotonic()
    ids = await asyncio.gather(*(bench.chat(number) for number in range(CHATS)))
    accepted_s = time.monotonic() - began
    ended = [await bench.wait_ended(run_id) for run_id in ids]
    whole_s = time.monotonic() - began
    times = [await bench.read_times(run) for run in ended]
    ordered = sorted(time.whole_ms for time in times)
    row = ReportRow(
        "agents",
        {
            "agents": CHATS,
            "refused at first (503)": bench.refusals,
            "all accepted after s": accepted_s,
            "all answered after s": whole_s,
            "p50 ms to the first model call": statistics.median(time.first_call_ms for time in times),
            "p50 ms": statistics.median(ordered),
            "p95 ms": ordered[int(len(ordered) * 0.95)],
        },
    )
    return format_table("Agents that chat at once on one frontend and one agent worker", [row])
