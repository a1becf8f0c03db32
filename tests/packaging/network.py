"""`make dist-test`: a second machine joins over a network by the printed command, and answers with a model.

A network namespace of Linux stands in for the machine: a virtual cable leads to the first machine and to nobody else,
and no loopback is shared. So its packages come from a folder that the first machine has filled. Needs root.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.cluster import eventually
from tests.packaging.installed_corral import InstalledProgram
from tools.source import ROOT

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None,
    reason="A network of its own needs Linux, root and the program `ip` (Debian: iproute2).",
)
# Addresses for tests of network devices (RFC 2544): no network of anybody has them. Another run has others.
_BLOCK = f"198.18.{os.getpid() // 64 % 256}"
FIRST, SECOND = f"{_BLOCK}.{os.getpid() % 64 * 4 + 1}", f"{_BLOCK}.{os.getpid() % 64 * 4 + 2}"
# A download of all packages, and a machine that does other things.
JOIN_LIMIT_S = 300.0


@dataclass(frozen=True)
class NetworkMachine:
    """The second machine: commands that run there see its network only."""

    namespace: str

    def command(self, *words: str) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *words]

    def processes(self) -> list[int]:
        """Return the ids of the processes that run there."""
        listed = subprocess.run(["ip", "netns", "pids", self.namespace], check=True, capture_output=True, text=True)
        return [int(word) for word in listed.stdout.split()]


@contextmanager
def _cable(namespace: str) -> Iterator[NetworkMachine]:
    ours, theirs = f"cr{os.getpid()}a", f"cr{os.getpid()}b"
    _ip("netns", "add", namespace)
    try:
        _ip("link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", namespace)
        _ip("address", "add", f"{FIRST}/30", "dev", ours)
        _ip("link", "set", ours, "up")
        _ip("-netns", namespace, "address", "add", f"{SECOND}/30", "dev", theirs)
        _ip("-netns", namespace, "link", "set", theirs, "up")
        _ip("-netns", namespace, "link", "set", "lo", "up")
        yield NetworkMachine(namespace)
    finally:
        # The cable goes with one of its ends.
        _ip("netns", "delete", namespace)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture(scope="module")
def second() -> Iterator[NetworkMachine]:
    with _cable(f"corral-{os.getpid()}") as machine:
        yield machine


@pytest.fixture(scope="module")
def first(
    installed: InstalledProgram, second: NetworkMachine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InstalledProgram]:
    """A cluster that listens on the first machine's end of the cable."""
    program = installed.with_home(tmp_path_factory.mktemp("first"))
    program.corral("up", "--detach", "--host", FIRST, "--port", "0")
    yield program
    program.corral("down")


@pytest.fixture(scope="module")
def packages(installed: InstalledProgram, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the second machine installs from, as it reaches no index."""
    folder = tmp_path_factory.mktemp("packages")
    locked = str(ROOT / "src/corral/api/join/requirements.txt")
    installed.run_pip("download", "--require-hashes", "--dest", str(folder), "-r", locked)
    # One of them has no wheel, and is built on the machine.
    installed.run_pip("download", "--dest", str(folder), "setuptools", "wheel")
    return folder


@contextmanager
def _joined(
    first: InstalledProgram, second: NetworkMachine, packages: Path, home: Path
) -> Iterator[subprocess.Popen[str]]:
    """Run the printed command on the second machine, until the block ends."""
    made = json.loads(first.corral("tokens", "create", "--approve", "--json"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "CORRAL_"))}
    environment |= {"HOME": str(home), "CORRAL_PYTHON": sys.executable, "LC_ALL": "C"}
    environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(packages)}
    command = second.command("sh", "-c", f"{made['join_command']} --name second")
    with (home / "log").open("w", encoding="utf-8") as log:
        worker = subprocess.Popen(command, env=environment, cwd="/", stdout=log, stderr=log, text=True)
    try:
        yield worker
    finally:
        _end_processes(second)
        worker.wait(timeout=60)


def _end_processes(machine: NetworkMachine) -> None:
    """End everything that runs on the second machine: the command is a pipe of several processes."""
    for ending in (signal.SIGTERM, signal.SIGKILL):
        for process in machine.processes():
            with suppress(ProcessLookupError):
                os.kill(process, ending)
        with suppress(AssertionError):
            eventually(lambda: not machine.processes(), limit_s=30.0)


def _ask_on_second(first: InstalledProgram) -> dict[str, Any]:
    """Load a model on the second machine only, ask it, and return the answer."""
    first.corral("models", "install", "fake-chat")
    first.corral("models", "load", "fake-chat", "--node", "second")
    found: dict[str, Any] = json.loads(first.corral("run", "fake-chat", "--json", "Who is there?"))
    return found


def test_machine_on_another_network_joins_and_its_model_answers(
    first: InstalledProgram, second: NetworkMachine, packages: Path, tmp_path: Path
) -> None:
    with _joined(first, second, packages, tmp_path) as worker:

        def is_healthy() -> dict[str, Any] | None:
            assert worker.poll() is None, (tmp_path / "log").read_text(encoding="utf-8")
            nodes = [node for node in first.nodes() if node["name"] == "second"]
            return nodes[0] if nodes and nodes[0]["status"] == "healthy" else None

        node = eventually(is_healthy, limit_s=JOIN_LIMIT_S)
        assert node["address"].startswith(f"{SECOND}:")
        answer = _ask_on_second(first)
        assert (answer["node"], bool(answer["content"])) == ("second", True)
        (engine,) = json.loads(first.corral("backends", "processes", "--node", "second", "--json"))
        assert (engine["model"], engine["address"].rpartition(":")[0]) == ("fake-chat", SECOND)
