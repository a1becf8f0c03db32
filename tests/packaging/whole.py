"""`make dist-test`: the wheel in an empty environment, a cluster out of it, and a worker that comes by `/join`.

Packages come from whatever index this machine's pip is set to.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.dist import build, read_commit_time
from tools.source import ROOT


class Installed:
    """A Corral that was installed from the wheel, with a home of its own."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.wheel = wheel
        self.environment = os.environ | {"HOME": str(folder), "CORRAL_HOME": str(folder / "home"), "LC_ALL": "C"}
        self._bin = folder / "environment/bin"
        venv.create(folder / "environment", with_pip=True)
        pip = [str(self._bin / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "-r", str(ROOT / "requirements/run.txt")], check=True)
        subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)

    def corral(self, *words: str) -> str:
        command = [str(self._bin / "corral"), *words]
        done = subprocess.run(
            command, env=self.environment, cwd="/", capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.corral("nodes", "list", "--json"))
        return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = build(ROOT, folder / "dist", read_commit_time(ROOT), ("wheel",))
    return Installed(folder, wheel)


@pytest.fixture(scope="module")
def url(installed: Installed) -> Iterator[str]:
    """A cluster that was started with the installed program."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    installed.corral("up", "--detach", "--port", str(port))
    yield f"http://127.0.0.1:{port}"
    installed.corral("down")


def test_installed_wheel_tells_its_version(installed: Installed) -> None:
    assert "0.1.0" in installed.corral("--version")


def test_cluster_of_the_installed_wheel_serves_the_page(installed: Installed, url: str) -> None:
    assert "<html" in subprocess.run(["curl", "-fsS", f"{url}/app/"], capture_output=True, text=True, check=True).stdout
    assert [node["status"] for node in installed.nodes()] == ["healthy"]


def test_machine_joins_the_installed_cluster_by_the_printed_command(
    installed: Installed, url: str, tmp_path: Path
) -> None:
    made = json.loads(installed.corral("tokens", "create", "--approve", "--json"))
    assert made["join_command"].startswith(f"curl -fsSL {url}/join | sh -s -- --token cj_")
    environment = installed.environment | {"HOME": str(tmp_path), "CORRAL_PYTHON": sys.executable}
    command = f"{made['join_command']} --no-start --name second"
    done = subprocess.run(["sh", "-c", command], env=environment, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    worker = subprocess.Popen(["sh", "-c", f"exec {done.stdout}"], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert worker.stderr is not None
        # It says so when the frontend has let it in.
        for line in worker.stderr:
            if "registered" in line or "joined" in line:
                break
        assert "second" in {node["name"] for node in installed.nodes()}
    finally:
        worker.terminate()
        worker.communicate(timeout=60)


def test_wheel_installs_as_a_tool_of_uv(installed: Installed, tmp_path: Path) -> None:
    environment = installed.environment | {
        "UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
    }  # fmt: skip
    uv = str(Path(sys.executable).parent / "uv")
    constraints = str(ROOT / "requirements/run.txt")
    subprocess.run(
        [uv, "tool", "install", "--constraints", constraints, str(installed.wheel)], env=environment, check=True
    )
    assert "0.1.0" in subprocess.check_output([str(tmp_path / "bin/corral"), "--version"], text=True)
