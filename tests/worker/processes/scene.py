"""A worker's engines on real processes: what is installed, a supervisor on it, and a look at what is left."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.bus.messages import RunningProcess, StartBackend
from corral.domain.backend import Manifest, ReadyProbe
from corral.domain.operation import JobPhase
from corral.worker.job_ports import RunnableBackend
from corral.worker.processes.engine_process import EngineSupervisorOptions
from corral.worker.processes.supervisor import EngineSupervisor, EngineSupervisorDeps
from corral.worker.processes.system_process_control import SystemProcessControl
from tests.support.ports import find_free_port

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
        self.last: JobPhase | None = None

    def on_phase(self, phase: JobPhase) -> None:
        self.last = phase

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        raise AssertionError("starting a process moves no bytes")


@dataclass(slots=True)
class Scene:
    root: Path
    installed: dict[str, RunnableBackend] = field(default_factory=dict)
    supervisors: list[EngineSupervisor] = field(default_factory=list)

    def install(self, name: str = "cpu-fake", version: str = "1.0", **changes: Any) -> RunnableBackend:
        """Put a backend in place; one that is there is replaced by a new folder at the same path."""
        directory = self.root / "backends" / name
        staged = directory.with_suffix(".staged")
        staged.mkdir(parents=True)
        if directory.exists():
            directory.rename(directory.with_suffix(".old"))
        staged.rename(directory)
        shutil.rmtree(directory.with_suffix(".old"), ignore_errors=True)
        values: dict[str, Any] = {"command": COMMAND, "options": OPTIONS, "ready": ReadyProbe(timeout_s=30)} | changes
        made = RunnableBackend(
            name=name, version=version, directory=directory, manifest=Manifest(**values), python=sys.executable
        )
        self.installed[name] = made
        return made

    def remove(self, name: str = "cpu-fake") -> None:
        shutil.rmtree(self.installed.pop(name).directory)

    def make(self, **changes: Any) -> EngineSupervisor:
        values: dict[str, Any] = {
            "root": self.root / "processes",
            "environment": {"PATH": "/usr/bin:/bin"},
            "port_base": find_free_port(),
            "threads": 4,
        }
        parts = EngineSupervisorDeps(
            find_runnable=self.installed.get, clock=SystemClock(), ids=SystemIdGenerator(), rng=random.Random(1)
        )
        made = EngineSupervisor(EngineSupervisorOptions(**(values | changes)), parts)
        self.supervisors.append(made)
        return made

    async def start(self, **changes: Any) -> EngineSupervisor:
        made = self.make(**changes)
        await made.start()
        return made

    async def leftovers(self) -> frozenset[str]:
        return await SystemProcessControl(SystemClock()).list_markers(str(self.root / "processes"))


def make_command(
    model: str = "llama", *, backend: str = "cpu-fake", replica: int = 0, threads: int | None = None, **options: str
) -> StartBackend:
    return StartBackend(job_id="j1", backend=backend, model=model, replica=replica, threads=threads, options=options)


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
