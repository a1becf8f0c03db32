"""`corral worker` as a process: signals, crashes, exit codes, secrets, and what it imports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.frontends import RunningFrontend
from tests.support.nodes import create_join_token
from tests.support.polling import eventually
from tests.support.ports import find_free_port
from tests.worker.conftest import StartProcess
from tests.worker.process import WorkerProcess

FORBIDDEN = ("sqlalchemy", "asyncpg", "alembic", "fastapi", "uvicorn", "starlette")


async def _node(cluster: RunningFrontend) -> Any:
    status, node = await cluster.call("GET", "/api/nodes/gpu-a")
    return node if status == 200 else None


def _facts(node: Any) -> dict[str, bool | None]:
    return {fact["name"]: fact["holds"] for fact in node["conditions"]}


async def _until_on_bus(cluster: RunningFrontend, boot_id: str | None = None) -> Any:
    """The node, seen on the bus in another life than the given one."""

    async def look() -> Any:
        node = await _node(cluster)
        return node if node and _facts(node)["on_bus"] and node["boot_id"] != boot_id else None

    return await eventually(look, within_s=60)


async def _get(node: Any, path: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(f"http://{node['http_address']}{path}") as answer:
        return answer.status


@pytest.mark.behaviour("WRK-10")
async def test_signal_ends_the_worker_well_and_the_node_has_left(cluster: RunningFrontend, start_process: StartProcess):
    worker = await start_process(token=await create_join_token(cluster, approves=True))
    node = await _until_on_bus(cluster)
    assert await _get(node, "/readyz") == 200
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 0, worker.output
    left = await _node(cluster)
    assert not _facts(left)["alive"]
    assert "stopped" in next(fact["reason"] for fact in left["conditions"] if fact["name"] == "alive")
    assert _facts(left)["approved"]


@pytest.mark.behaviour("WRK-2")
async def test_killed_worker_comes_back_as_the_same_node_in_a_new_life(
    cluster: RunningFrontend, start_process: StartProcess
):
    first = await start_process(token=await create_join_token(cluster, approves=True))
    before = await _until_on_bus(cluster)
    first.send(signal.SIGKILL)
    await first.ended()
    # Without a token: the machine is known by its own credential.
    await start_process()
    after = await _until_on_bus(cluster, boot_id=before["boot_id"])
    assert after["id"] == before["id"]
    assert len((await cluster.call("GET", "/api/nodes"))[1]) == 1


async def test_second_worker_on_one_home_is_refused(cluster: RunningFrontend, start_process: StartProcess):
    first = await start_process(token=await create_join_token(cluster, approves=True))
    await _until_on_bus(cluster)
    second = await start_process(name="gpu-b")
    assert await second.ended() == 1
    assert f"A worker already runs on {_home(first)} (process {first.process.pid})." in second.output
    assert _is_alive(await _node(cluster))


def _home(worker: WorkerProcess) -> str:
    return worker.environment["CORRAL_WORKER_HOME"]


def _is_alive(node: Any) -> bool:
    return bool(_facts(node)["alive"])


async def test_copied_home_ends_the_first_process_with_a_sentence(
    cluster: RunningFrontend, start_process: StartProcess, tmp_path: Path
):
    first = await start_process(token=await create_join_token(cluster, approves=True))
    before = await _until_on_bus(cluster)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "identity.json").write_bytes(Path(_home(first), "identity.json").read_bytes())
    await start_process(worker_home=str(copy))
    assert await first.ended() == 1
    assert "A newer worker process of node gpu-a has registered" in first.output
    after = await _until_on_bus(cluster, boot_id=before["boot_id"])
    assert _is_alive(after)


@pytest.mark.behaviour("WRK-4")
async def test_taken_name_is_an_error_with_a_hint_and_exit_code_one(
    cluster: RunningFrontend, start_process: StartProcess, tmp_path: Path
):
    token = await create_join_token(cluster, max_uses=5)
    await start_process(token=token)
    await eventually(lambda: _node(cluster), within_s=60)
    second = await start_process(token=token, worker_home=str(tmp_path / "other"))
    assert await second.ended() == 1
    assert "error: Another machine is registered as 'gpu-a'" in second.output
    assert "hint: Choose another --name" in second.output


async def test_damaged_identity_is_an_error_and_stays_as_it_is(start_process: StartProcess, tmp_path: Path):
    home = tmp_path / "damaged"
    home.mkdir()
    (home / "identity.json").write_text("{")
    worker = await start_process(worker_home=str(home))
    assert await worker.ended() == 1
    assert "cannot be used: it is not JSON" in worker.output
    assert (home / "identity.json").read_text() == "{"


@pytest.mark.behaviour("JOIN-6")
async def test_worker_whose_runner_lacks_a_module_takes_no_runs_and_its_log_names_the_module(
    cluster: RunningFrontend, start_process: StartProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['pydantic_ai'] = None")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    worker = await start_process(token=await create_join_token(cluster, approves=True), node_type="agent", max_runs="3")

    async def is_healthy() -> Any:
        node = await _node(cluster)
        return node if node and node["status"] == "healthy" else None

    node = await eventually(is_healthy, within_s=60)
    assert node["max_runs"] == 0
    (line,) = worker.logged("this worker takes no runs: modules of the runner are not installed")
    assert line["missing"] == "pydantic_ai"
    assert "`agents`" in line["hint"]


@pytest.mark.behaviour("WRK-6")
async def test_worker_without_a_frontend_goes_on_trying_until_it_is_stopped(start_process: StartProcess):
    worker = await start_process(join=f"http://127.0.0.1:{find_free_port()}")

    async def is_logged() -> bool:
        return bool(worker.logged("failed"))

    await eventually(is_logged)
    assert worker.process.returncode is None
    worker.send(signal.SIGINT)
    assert await worker.ended() == 0


async def test_secrets_are_absent_from_the_logs_and_the_command_line(
    cluster: RunningFrontend, start_process: StartProcess
):
    token = await create_join_token(cluster, approves=True)
    worker = await start_process(token=token, log_level="debug")
    await _until_on_bus(cluster)
    identity = json.loads(Path(_home(worker), "identity.json").read_text())
    command_line = Path(f"/proc/{worker.process.pid}/cmdline")
    shown = command_line.read_text() if command_line.exists() else ""
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 0
    for secret in (token, identity["credential"], identity["bus_seed"], "eyJ"):
        assert secret not in worker.output
        assert secret not in shown
    assert Path(_home(worker), "identity.json").stat().st_mode & 0o777 == 0o600


def test_worker_needs_no_library_of_the_registry_or_the_api():
    code = f"import sys, corral.app.worker; print([name for name in {FORBIDDEN!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
