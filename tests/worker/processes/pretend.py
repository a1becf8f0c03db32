"""Processes that exist only in memory, for what no test can wait for: a thousand crashes, survivors of SIGKILL."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from corral.domain.backend import Manifest, Probe
from corral.worker.processes.machine import Birth, Measured, Running, Spawn
from corral.worker.processes.options import SupervisorOptions
from corral.worker.processes.supervisor import Parts, Supervisor
from corral.worker.work import Runnable
from tests.simulation.chance import chance
from tests.simulation.clock import SimClock, SimIds
from tests.simulation.virtual_loop import VirtualLoop


class PretendProcess:
    def __init__(self, pid: int) -> None:
        self._birth = Birth(pid=pid, born_s=float(pid))
        self.exit: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    @property
    def birth(self) -> Birth:
        return self._birth

    def is_alive(self) -> bool:
        return not self.exit.done()

    async def ended(self) -> int | None:
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
        self.measured = Measured()
        # What is used between two looks at it.
        self.cpu_step_s = 0.0
        self.cpu_used_s = 0.0
        self.killed_for_memory: int | None = 0

    @property
    def last(self) -> PretendProcess:
        return self.spawned[-1]

    async def spawn(self, wish: Spawn) -> Running:
        self.ports.append(wish.command[1])
        self.spawned.append(PretendProcess(len(self.spawned) + 1))
        return self.last

    def find(self, birth: Birth) -> Running | None:
        return next((one for one in self.spawned if one.birth == birth and one.is_alive()), None)

    async def ask_to_end(self, birth: Birth, marker: str) -> None:
        return

    async def kill(self, birth: Birth | None, marker: str) -> None:
        if birth is not None and not self.is_immortal:
            self.spawned[birth.pid - 1].end(-9)

    async def is_any_left(self, birth: Birth | None, marker: str) -> bool:
        return birth is not None and self.spawned[birth.pid - 1].is_alive()

    async def markers(self, home: str) -> frozenset[str]:
        return frozenset()

    async def measure(self, birth: Birth, marker: str) -> Measured:
        return self.measured

    async def cpu_s(self, birth: Birth, marker: str) -> float | None:
        self.cpu_used_s += self.cpu_step_s
        return self.cpu_used_s

    async def listens(self, birth: Birth, marker: str, port: int) -> bool | None:
        return True

    def oom_kills(self) -> int | None:
        return self.killed_for_memory


def pretend_supervisor(
    loop: VirtualLoop, root: Path, machine: PretendMachine, **changes: Any
) -> tuple[Supervisor, SimClock]:
    """One backend `cpu-fake` is installed; engines are ready at once."""
    clock = SimClock(loop)
    directory = root / "backend"
    directory.mkdir()
    manifest = Manifest(command=("engine", "{port}"), ready=Probe(timeout_s=5))
    installed = {"cpu-fake": Runnable(name="cpu-fake", version="1", directory=directory, manifest=manifest)}

    async def is_ready(_url: str, _key: str) -> bool:
        return True

    parts = Parts(
        find=installed.get,
        clock=clock,
        ids=SimIds(chance(loop.seed, "ids"), clock),
        rng=random.Random(1),
        machine=machine,
        ready=is_ready,
        is_bindable=lambda _port: True,
    )
    return Supervisor(SupervisorOptions(root=root / "processes", **changes), parts), clock
