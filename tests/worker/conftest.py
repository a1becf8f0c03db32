"""Fixtures of the worker's tests: a real cluster, workers inside the test and workers as processes."""

from __future__ import annotations

import os
import pwd
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from corral.app.settings import WorkerSettings
from corral.app.worker import ComposedWorker, compose_worker
from tests.bus.nats_server import NatsServer
from tests.support.frontends import RunningFrontend, running_frontend
from tests.worker.process import WorkerProcess

StartWorker = Callable[..., Awaitable[ComposedWorker]]
StartProcess = Callable[..., Awaitable[WorkerProcess]]
# Tests do not want to wait ten seconds for a heartbeat.
QUICK: dict[str, Any] = {"heartbeat_interval_s": 0.2, "heartbeat_flush_s": 0.05}
# Programs of MCP servers write into folders of the tests, which are for the user of the tests alone. They may take as
# long to start as a loaded machine needs.
OWN_USER: dict[str, Any] = {"run_user": pwd.getpwuid(os.geteuid()).pw_name, "run_mcp_grace_s": 60.0}


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path) as running:
        yield running


@pytest.fixture
async def cluster(nats: NatsServer, database_url: str) -> AsyncIterator[RunningFrontend]:
    """A frontend on a real PostgreSQL and a real NATS."""
    async with running_frontend(database_url, authority=nats.authority, nats_url=nats.url, **QUICK) as running:
        yield running


@pytest.fixture
async def start_worker(cluster: RunningFrontend, tmp_path: Path) -> AsyncIterator[StartWorker]:
    """`await start_worker(token=…)`: a worker in this process; fields of WorkerSettings can be given.

    With `is_started=False` the test runs its services itself.
    """
    started: list[ComposedWorker] = []

    async def start(*, is_started: bool = True, **changes: Any) -> ComposedWorker:
        home = tmp_path / "worker"
        home.mkdir(exist_ok=True)
        values: dict[str, Any] = {"join": cluster.url, "name": "gpu-a", "worker_home": home}
        worker = compose_worker(WorkerSettings(**(values | changes)))
        started.append(worker)
        if is_started:
            await worker.services.start()
        return worker

    yield start
    for worker in started:
        await worker.services.stop()


@pytest.fixture
async def start_process(cluster: RunningFrontend, tmp_path: Path) -> AsyncIterator[StartProcess]:
    """`await start_process(token=…)`: a worker as a process, configured by variables."""
    async with AsyncExitStack() as stack:

        async def start(**settings: str) -> WorkerProcess:
            given = {"join": cluster.url, "name": "gpu-a", "worker_home": str(tmp_path / "process-home")} | settings
            inherited = {name: value for name, value in os.environ.items() if not name.startswith("CORRAL_")}
            variables = {f"CORRAL_{name.upper()}": value for name, value in given.items()}
            return await stack.enter_async_context(WorkerProcess(inherited | variables))

        yield start
