"""A cluster of real processes on one PostgreSQL and one NATS, with short leases so that faults show in seconds."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp

from tests.bus.nats_server import NatsServer
from tests.e2e.processes import PostgresServer, Program, corral
from tests.support.frontends import ADMIN_KEY
from tests.support.polling import eventually
from tests.support.ports import find_free_port

# A loaded machine may stand still for seconds; shorter leases would test its scheduler.
TIMES = {
    "CORRAL_NODE_LEASE": "5s",
    "CORRAL_HEARTBEAT_INTERVAL": "0.5s",
    "CORRAL_HEARTBEAT_FLUSH": "0.2s",
    "CORRAL_LIVENESS_INTERVAL": "0.5s",
    "CORRAL_LEADER_LEASE": "3s",
}
# Each look costs the processes that are looked at some work, and this machine has few cores.
SKEWED_WORKER = Path(__file__).parent / "programs" / "skewed_worker.py"
# Below the ports that the system gives to outgoing connections.
ENGINE_PORT_MIN = 20_000


def _engine_port(number: int) -> int:
    """Return where the engine ports of a cluster's worker begin: apart from those of the other workers, and of clusters
    that other test processes run at the same time. An engine that loses its port is started once more."""
    return ENGINE_PORT_MIN + os.getpid() % 120 * 100 + number % 5 * 20


@dataclass
class FrontendProcess:
    program: Program
    url: str
    id: str
    http: aiohttp.ClientSession

    async def call(self, method: str, path: str, body: Any = None, key: str | None = ADMIN_KEY) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with self.http.request(method, f"{self.url}{path}", json=body, headers=headers) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await (answer.json() if is_json else answer.text())

    async def get(self, path: str) -> Any:
        status, answer = await self.call("GET", path)
        assert status == 200, answer
        return answer

    async def is_ready(self) -> bool:
        assert self.program.exit_code is None, self.program.log
        try:
            return (await self.call("GET", "/readyz", key=None))[0] == 200
        except aiohttp.ClientError:
            return False

    async def statuses(self) -> dict[str, str]:
        """Return the status of each node by name; empty while no frontend answers."""
        try:
            status, nodes = await self.call("GET", "/api/nodes")
        except aiohttp.ClientError:
            return {}
        return {node["name"]: node["status"] for node in nodes} if status == 200 else {}

    async def node(self, name: str) -> Any:
        return await self.get(f"/api/nodes/{name}")


@dataclass
class Cluster:
    folder: Path
    postgres: PostgresServer
    nats: NatsServer
    http: aiohttp.ClientSession
    frontends: list[FrontendProcess] = field(default_factory=list)
    workers: dict[str, Program] = field(default_factory=dict)
    programs: list[Program] = field(default_factory=list)
    # Settings beside those that every cluster here has.
    frontend_settings: Mapping[str, str] = field(default_factory=dict)
    worker_settings: Mapping[str, str] = field(default_factory=dict)

    def new_frontend(self) -> FrontendProcess:
        """Make one more frontend with the cluster's settings. The test starts it."""
        number, port = len(self.frontends) + 1, find_free_port()
        authority = self.nats.authority
        environment = TIMES | {
            "CORRAL_DATABASE_URL": self.postgres.url,
            "CORRAL_NATS_URL": self.nats.url,
            "CORRAL_NATS_ACCOUNT_SEED": authority.account_seed,
            "CORRAL_NATS_OPERATOR_SEED": authority.operator_seed,
            "CORRAL_NATS_SYSTEM_SEED": authority.system_seed,
            "CORRAL_ADMIN_KEY": ADMIN_KEY,
            "CORRAL_PORT": str(port),
            "CORRAL_STATE_DIR": str(self.folder / "state"),
            "CORRAL_INSTANCE_ID": f"frontend-{number}",
            **self.frontend_settings,
        }
        program = Program(f"frontend-{number}", corral("serve"), self.folder / f"frontend-{number}.log", environment)
        frontend = FrontendProcess(program, f"http://127.0.0.1:{port}", f"frontend-{number}", self.http)
        self.frontends.append(frontend)
        self.programs.append(program)
        return frontend

    async def add_frontends(self, count: int) -> None:
        added = [self.new_frontend() for _ in range(count)]
        for frontend in added:
            await frontend.program.start()
        for frontend in added:
            await eventually(frontend.is_ready, within_s=90)

    async def token(self, **body: Any) -> str:
        status, made = await self.frontends[0].call("POST", "/api/tokens", {"name": "e2e"} | body)
        assert status == 201, made
        return str(made["token"])

    def new_worker(
        self, name: str, token: str | None, *, ahead_s: float | None = None, command: list[str] | None = None
    ) -> Program:
        """Make a worker that knows every frontend. The test starts it. `ahead_s`: how far its clock is wrong.

        `command` runs another program that is a worker in the end."""
        environment = {
            "CORRAL_JOIN": ",".join(frontend.url for frontend in self.frontends),
            "CORRAL_NAME": name,
            "CORRAL_WORKER_HOME": str(self.folder / name),
            "CORRAL_ENGINE_PORT": str(_engine_port(len(self.workers))),
            # Programs of MCP servers may take as long to start as a loaded machine needs.
            "CORRAL_RUN_MCP_GRACE": "60s",
            **({"CORRAL_TOKEN": token} if token else {}),
            **self.worker_settings,
        }
        command = command or corral("worker")
        if ahead_s is not None:
            command = [sys.executable, str(SKEWED_WORKER), str(ahead_s), "worker"]
        program = Program(name, command, self.folder / f"{name}.log", environment)
        self.workers[name] = program
        self.programs.append(program)
        return program

    async def join(self, *names: str, ahead_s: float | None = None, command: list[str] | None = None) -> None:
        """Start workers, and wait until they are approved and healthy."""
        token = await self.token(max_uses=len(names), approves=True)
        for name in names:
            await self.new_worker(name, token, ahead_s=ahead_s, command=command).start()
        await self.become(dict.fromkeys(names, "healthy"), on_bus=True)

    async def become(self, expected: dict[str, str], *, on_bus: bool = False) -> None:
        """Wait until every frontend that runs shows these statuses."""
        for frontend in self.running():
            await eventually(lambda f=frontend: self._shows(f, expected, on_bus=on_bus), within_s=60)  # type: ignore[misc]

    async def _shows(self, frontend: FrontendProcess, expected: dict[str, str], *, on_bus: bool) -> bool:
        shown = await frontend.statuses()
        if not expected.items() <= shown.items():
            return False
        if not on_bus:
            return True
        nodes = [await frontend.node(name) for name in expected]
        return all(fact["holds"] for node in nodes for fact in node["conditions"] if fact["name"] == "on_bus")

    async def all_statuses(self) -> dict[str, str]:
        """Return the status of each node as each running frontend shows it, by frontend and node."""
        return {
            f"{frontend.id} {name}": status
            for frontend in self.running()
            for name, status in (await frontend.statuses()).items()
        }

    async def later(self, seconds: float) -> Callable[[], Awaitable[bool]]:
        """Return a check of whether the registry's own time has moved on so far since now, judged by its heartbeats."""
        begin = await self._newest_heartbeat()

        async def has_passed() -> bool:
            return await self._newest_heartbeat() - begin > seconds

        return has_passed

    async def _newest_heartbeat(self) -> float:
        nodes = await self.running()[0].get("/api/nodes")
        return max(datetime.fromisoformat(node["last_heartbeat"]).timestamp() for node in nodes)

    def running(self) -> list[FrontendProcess]:
        return [frontend for frontend in self.frontends if frontend.program.exit_code is None]

    async def leader(self) -> tuple[FrontendProcess, int]:
        """Return the leader and its term, once every running frontend names the same ones."""

        async def agreed() -> tuple[FrontendProcess, int] | None:
            views = [(await frontend.get("/api/cluster"))["leader"] for frontend in self.running()]
            if len({(view["holder"], view["term"]) for view in views}) != 1:
                return None
            holder = next((f for f in self.running() if f.id == views[0]["holder"]), None)
            return None if holder is None else (holder, views[0]["term"])

        found = await eventually(agreed)
        assert found is not None
        return found


@asynccontextmanager
async def empty_cluster(folder: Path) -> AsyncIterator[Cluster]:
    """Make a PostgreSQL that is stopped and a NATS that runs. Everything that the test starts is ended."""
    postgres = PostgresServer(folder)
    await postgres.make()
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        nats = await stack.enter_async_context(NatsServer(folder))
        cluster = Cluster(folder=folder, postgres=postgres, nats=nats, http=http)
        stack.push_async_callback(postgres.stop)
        try:
            yield cluster
        finally:
            for program in cluster.programs:
                await program.kill()


@asynccontextmanager
async def cluster_of(folder: Path, *names: str, frontends: int = 2) -> AsyncIterator[Cluster]:
    """Run frontends side by side, and workers that are healthy."""
    async with empty_cluster(folder) as cluster:
        await cluster.postgres.start()
        await cluster.add_frontends(frontends)
        if names:
            await cluster.join(*names)
        yield cluster


class Record:
    """Collects what a looked-at thing was in between. `during` looks all the time."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    async def during(self, look: Callable[[], Awaitable[dict[str, str]]], until: Callable[[], Awaitable[bool]]) -> None:
        async def step() -> bool:
            self.seen |= set((await look()).values())
            return await until()

        await eventually(step, within_s=60)
