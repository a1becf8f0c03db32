"""Processes that exist only in memory, for what no test can wait for: a thousand crashes, survivors of SIGKILL."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from corral.domain.backend import Manifest, ReadyProbe
from corral.runtime.processes import ProcessBirth, SpawnRequest
from corral.worker.job_ports import RunnableBackend
from corral.worker.processes.engine_process import EngineSupervisorOptions
from corral.worker.processes.process_control import ProcessHandle, ProcessUsage
from corral.worker.processes.supervisor import EngineSupervisor, EngineSupervisorDeps
from tests.simulation.chance import chance
from tests.simulation.clock import SimClock, SimIds
from tests.simulation.virtual_loop import VirtualLoop


class PretendProcess:
    def __init__(self, pid: int) -> None:
        self._birth = ProcessBirth(pid=pid, born_s=float(pid))
        self.exit: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    @property
    def birth(self) -> ProcessBirth:
        return self._birth

    def is_alive(self) -> bool:
        return not self.exit.done()

    async def wait_ended(self) -> int | None:
        return await asyncio.shield(self.exit)

    def end(self, code: int) -> None:
        if not self.exit.done():
            self.exit.set_result(code)


class PretendMachine:
    """`is_immortal`: SIGKILL does nothing, as for a process that hangs in the kernel."""

    def __init__(self) -> None:
        self.spawned: list[PretendProcess] = []
        self.is_immortal = False
        self.ports: list[str] = []
        self.measured = ProcessUsage()
        # What is used between two looks at it.
        self.cpu_step_s = 0.0
        self.cpu_used_s = 0.0
        self.killed_for_memory: int | None = 0

    @property
    def last(self) -> PretendProcess:
        return self.spawned[-1]

    async def spawn(self, request: SpawnRequest) -> ProcessHandle:
        self.ports.append(request.command[1])
        self.spawned.append(PretendProcess(len(self.spawned) + 1))
        return self.last

    def find(self, birth: ProcessBirth) -> ProcessHandle | None:
        return next((one for one in self.spawned if one.birth == birth and one.is_alive()), None)

    async def terminate(self, birth: ProcessBirth, marker: str) -> None:
        return

    async def kill(self, birth: ProcessBirth | None, marker: str) -> None:
        if birth is not None and not self.is_immortal:
            self.spawned[birth.pid - 1].end(-9)

    async def is_any_left(self, birth: ProcessBirth | None, marker: str) -> bool:
        return birth is not None and self.spawned[birth.pid - 1].is_alive()

    async def list_markers(self, home: str) -> frozenset[str]:
        return frozenset()

    async def measure(self, birth: ProcessBirth, marker: str) -> ProcessUsage:
        return self.measured

    async def read_cpu_s(self, birth: ProcessBirth, marker: str) -> float | None:
        self.cpu_used_s += self.cpu_step_s
        return self.cpu_used_s

    async def check_listening(self, birth: ProcessBirth, marker: str, port: int) -> bool | None:
        return True

    def count_oom_kills(self) -> int | None:
        return self.killed_for_memory


def pretend_supervisor(
    loop: VirtualLoop, root: Path, machine: PretendMachine, **changes: Any
) -> tuple[EngineSupervisor, SimClock]:
    """One backend `cpu-fake` is installed; engines are ready at once."""
    clock = SimClock(loop)
    directory = root / "backend"
    directory.mkdir()
    manifest = Manifest(command=("engine", "{port}"), ready=ReadyProbe(timeout_s=5))
    installed = {"cpu-fake": RunnableBackend(name="cpu-fake", version="1", directory=directory, manifest=manifest)}

    async def is_ready(_url: str, _key: str) -> bool:
        return True

    parts = EngineSupervisorDeps(
        find_runnable=installed.get,
        clock=clock,
        ids=SimIds(chance(loop.seed, "ids"), clock),
        rng=random.Random(1),
        process_control=machine,
        check_ready=is_ready,
        is_bindable=lambda _port: True,
    )
    return EngineSupervisor(EngineSupervisorOptions(root=root / "processes", **changes), parts), clock
