"""A worker's engines on real processes: what is installed, a supervisor on it, and a look at what is left."""

from __future__ import annotations

import random
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from corral.adapters.system import SystemClock, SystemIds
from corral.bus.messages import RunningProcess, StartBackend
from corral.domain.backend import Manifest, Probe
from corral.domain.operation import Phase
from corral.worker.processes.options import SupervisorOptions
from corral.worker.processes.supervisor import Parts, Supervisor
from corral.worker.processes.system import SystemMachine
from corral.worker.work import Runnable

ENGINE = Path(__file__).parent / "programs" / "engine.py"
COMMAND = ("{python}", "-I", str(ENGINE), "--host", "{host}", "--port", "{port}", "{options}")
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "say": ("--say", "{value}"),
    "fail": ("--fail", "{value}"),
    "last_words": ("--last-words={value}",),
    "never_ready": ("--never-ready",),
    "ready_when": ("--ready-when={value}",),
    "ignore_term": ("--ignore-term",),
    "fork": ("--fork",),
    "fork_away": ("--fork-away",),
    "fork_clean": ("--fork-clean",),
    "context": ("--context={value}",),
    "dawdle_s": ("--dawdle-s={value}",),
}


class NoReport:
    """Nobody listens; the last phase can be looked at."""

    def __init__(self) -> None:
        self.last: Phase | None = None

    def phase(self, phase: Phase) -> None:
        self.last = phase

    def moved(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        raise AssertionError("starting a process moves no bytes")


@dataclass(slots=True)
class Scene:
    root: Path
    installed: dict[str, Runnable] = field(default_factory=dict)
    supervisors: list[Supervisor] = field(default_factory=list)

    def install(self, name: str = "cpu-fake", version: str = "1.0", **changes: Any) -> Runnable:
        """Put a backend in place; one that is there is replaced by a new folder at the same path."""
        directory = self.root / "backends" / name
        staged = directory.with_suffix(".staged")
        staged.mkdir(parents=True)
        if directory.exists():
            directory.rename(directory.with_suffix(".old"))
        staged.rename(directory)
        shutil.rmtree(directory.with_suffix(".old"), ignore_errors=True)
        values: dict[str, Any] = {"command": COMMAND, "options": OPTIONS, "ready": Probe(timeout_s=30)} | changes
        made = Runnable(
            name=name, version=version, directory=directory, manifest=Manifest(**values), python=sys.executable
        )
        self.installed[name] = made
        return made

    def remove(self, name: str = "cpu-fake") -> None:
        shutil.rmtree(self.installed.pop(name).directory)

    def make(self, **changes: Any) -> Supervisor:
        values: dict[str, Any] = {
            "root": self.root / "processes",
            "environment": {"PATH": "/usr/bin:/bin"},
            "port_base": free_port(),
            "threads": 4,
        }
        parts = Parts(find=self.installed.get, clock=SystemClock(), ids=SystemIds(), rng=random.Random(1))
        made = Supervisor(SupervisorOptions(**(values | changes)), parts)
        self.supervisors.append(made)
        return made

    async def start(self, **changes: Any) -> Supervisor:
        made = self.make(**changes)
        await made.start()
        return made

    async def leftovers(self) -> frozenset[str]:
        return await SystemMachine(SystemClock()).markers(str(self.root / "processes"))


def wish(
    model: str = "llama", *, backend: str = "cpu-fake", replica: int = 0, threads: int | None = None, **options: str
) -> StartBackend:
    return StartBackend(job_id="j1", backend=backend, model=model, replica=replica, threads=threads, options=options)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    # Room for a few more above it.
    return min(port, 65_000)


async def ask(process: RunningProcess, path: str = "/") -> dict[str, Any]:
    """What the engine answers."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{process.address}{path}") as answer,
    ):
        found: dict[str, Any] = await answer.json(content_type=None)
        return found


async def crash(process: RunningProcess, code: int = 7) -> None:
    try:
        await ask(process, f"/crash?code={code}")
    except aiohttp.ClientError:
        return
    raise AssertionError("it answered instead of crashing")
