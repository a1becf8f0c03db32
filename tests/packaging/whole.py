"""`make dist-test`: the wheel in an empty environment, a cluster out of it, and a worker that comes by `/join`.

Packages come from whatever index this machine's pip is set to.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.installed_corral import InstalledProgram
from tools.source import ROOT

JOINED_NAME = "second"


@pytest.fixture(scope="module")
def url(installed: InstalledProgram) -> Iterator[str]:
    """A cluster that was started with the installed program."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    installed.corral("up", "--detach", "--port", str(port))
    yield f"http://127.0.0.1:{port}"
    installed.corral("down")


def test_installed_wheel_tells_its_version(installed: InstalledProgram) -> None:
    assert "0.1.0" in installed.corral("--version")


def test_cluster_of_the_installed_wheel_serves_the_page(installed: InstalledProgram, url: str) -> None:
    assert "<html" in subprocess.run(["curl", "-fsS", f"{url}/app/"], capture_output=True, text=True, check=True).stdout
    # The machine of another test may have joined and left before this one: tests run in any order.
    assert {node["status"] for node in installed.nodes() if node["name"] != JOINED_NAME} == {"healthy"}


@pytest.mark.usefixtures("url")
def test_model_of_the_installed_cluster_answers(installed: InstalledProgram) -> None:
    """The engine that comes with Corral pretends to think: nothing is fetched."""
    answer = json.loads(installed.corral("try", "--model", "fake-chat", "--json", "Who is there?"))
    assert answer["content"]


def test_machine_joins_the_installed_cluster_by_the_printed_command(
    installed: InstalledProgram, url: str, tmp_path: Path
) -> None:
    made = json.loads(installed.corral("tokens", "create", "--approve", "--json"))
    assert made["join_command"].startswith(f"curl -fsSL {url}/join | sh -s -- --token cj_")
    environment = installed.environment | {"HOME": str(tmp_path), "CORRAL_PYTHON": sys.executable}
    command = f"{made['join_command']} --no-start --name {JOINED_NAME}"
    done = subprocess.run(["sh", "-c", command], env=environment, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    worker = subprocess.Popen(["sh", "-c", f"exec {done.stdout}"], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert worker.stderr is not None
        # It says so when the frontend has let it in.
        for line in worker.stderr:
            if "registered" in line or "joined" in line:
                break
        assert JOINED_NAME in {node["name"] for node in installed.nodes()}
    finally:
        worker.terminate()
        worker.communicate(timeout=60)


def test_wheel_installs_as_a_tool_of_uv(installed: InstalledProgram, tmp_path: Path) -> None:
    environment = installed.environment | {
        "UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
    }  # fmt: skip
    uv = str(Path(sys.executable).parent / "uv")
    constraints = str(ROOT / "requirements/run.txt")
    subprocess.run(
        [uv, "tool", "install", "--constraints", constraints, str(installed.wheel)], env=environment, check=True
    )
    assert "0.1.0" in subprocess.check_output([str(tmp_path / "bin/corral"), "--version"], text=True)
