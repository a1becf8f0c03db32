"""The real processes of this machine.

Guarantee: a signal reaches only processes that carry the marker of the engine in their environment, or that are in the
session which the engine's first process leads. Both hold for what an engine forks, and for nobody else's processes.
The look at all processes reads files of the kernel; it is done in a thread, and only when something starts or ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil

from corral.ports.runtime import Clock
from corral.worker.hardware.machine import ReadingFailed
from corral.worker.hardware.nvml import read_vram_of
from corral.worker.hardware.patience import Patience
from corral.worker.processes.launch import MARKER
from corral.worker.processes.machine import Birth, Measured, Running, Spawn

# The kernel tells the boot in whole seconds, which may jump by one; a pid does not come round within this.
BIRTH_TOLERANCE_S = 1.5
# Nobody tells us about the end of a process that is not our child.
ADOPTED_POLL_S = 0.25
# A driver that hangs must not keep an engine from being ready.
NVML_LIMIT_S = 3.0
# The first is for the whole machine; in a container it may be hidden, and the second is for the container.
_OOM_COUNTERS = (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events"))
_PRIVATE = 0o600


class SystemMachine:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._patience = Patience(NVML_LIMIT_S)

    async def spawn(self, wish: Spawn) -> Running:
        with contextlib.ExitStack() as files:
            stdout = files.enter_context(_append_to(wish.stdout))
            stderr = files.enter_context(_append_to(wish.stderr))
            process = await asyncio.create_subprocess_exec(
                *wish.command,
                env=dict(wish.environment),
                cwd=str(wish.directory),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        born_s = _born_s(process.pid)
        # Gone already and reaped: any birth will do, nothing can be mistaken for it.
        return _Spawned(process, Birth(pid=process.pid, born_s=-1.0 if born_s is None else born_s))

    def find(self, birth: Birth) -> Running | None:
        return _Adopted(birth, self._clock) if _is_alive(birth) else None

    async def ask_to_end(self, birth: Birth, marker: str) -> None:
        await asyncio.to_thread(_signal_all, birth, marker, signal.SIGTERM)

    async def kill(self, birth: Birth | None, marker: str) -> None:
        await asyncio.to_thread(_signal_all, birth, marker, signal.SIGKILL)

    async def is_any_left(self, birth: Birth | None, marker: str) -> bool:
        return bool(await asyncio.to_thread(_members, birth, marker))

    async def markers(self, home: str) -> frozenset[str]:
        return await asyncio.to_thread(_markers, home)

    async def measure(self, birth: Birth, marker: str) -> Measured:
        return await asyncio.to_thread(_measure, birth, marker, self._patience)

    async def cpu_s(self, birth: Birth, marker: str) -> float | None:
        return await asyncio.to_thread(_cpu_s, birth, marker)

    async def listens(self, birth: Birth, marker: str, port: int) -> bool | None:
        return await asyncio.to_thread(_listens, birth, marker, port)

    def oom_kills(self) -> int | None:
        for path in _OOM_COUNTERS:
            with contextlib.suppress(OSError, ValueError):
                for line in path.read_text(encoding="ascii").splitlines():
                    name, _, count = line.partition(" ")
                    if name == "oom_kill":
                        return int(count)
        return None


class _Spawned:
    def __init__(self, process: asyncio.subprocess.Process, birth: Birth) -> None:
        self._process = process
        self._birth = birth

    @property
    def birth(self) -> Birth:
        return self._birth

    def is_alive(self) -> bool:
        return self._process.returncode is None and _is_alive(self._birth)

    async def ended(self) -> int | None:
        return await self._process.wait()


class _Adopted:
    def __init__(self, birth: Birth, clock: Clock) -> None:
        self._birth = birth
        self._clock = clock

    @property
    def birth(self) -> Birth:
        return self._birth

    def is_alive(self) -> bool:
        return _is_alive(self._birth)

    async def ended(self) -> int | None:
        while self.is_alive():
            await self._clock.sleep(ADOPTED_POLL_S)
        return None


@contextlib.contextmanager
def _append_to(path: Path) -> Iterator[int]:
    """The copier of the output cuts the file when it has read it; whoever appends goes on at its new end."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _PRIVATE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _born_s(pid: int) -> float | None:
    try:
        return psutil.Process(pid).create_time() - psutil.boot_time()
    except psutil.Error:
        return None


def _is_alive(birth: Birth) -> bool:
    born_s = _born_s(birth.pid)
    if born_s is None or abs(born_s - birth.born_s) > BIRTH_TOLERANCE_S:
        return False
    try:
        return psutil.Process(birth.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _signal_all(birth: Birth | None, marker: str, number: signal.Signals) -> None:
    for process in _members(birth, marker):
        # psutil compares the birth again before it signals.
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def _members(birth: Birth | None, marker: str) -> list[psutil.Process]:
    """The engine's processes that live. A session keeps the pid of its leader from being used again."""
    session = birth.pid if birth is not None and _leads_still(birth) else None
    return [process for process in _processes() if _belongs(process, session, marker)]


def _processes() -> Iterator[psutil.Process]:
    """Not `process_iter`: what it remembers of a pid may be of the process that had it before."""
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error):
            yield psutil.Process(pid)


def _leads_still(birth: Birth) -> bool:
    """The pid is that of our process, or of nobody: another process with it leads another session."""
    born_s = _born_s(birth.pid)
    return born_s is None or abs(born_s - birth.born_s) <= BIRTH_TOLERANCE_S


def _belongs(process: psutil.Process, session: int | None, marker: str) -> bool:
    if process.pid == os.getpid():
        return False
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if session is not None and os.getsid(process.pid) == session:
            return True
        return process.environ().get(MARKER) == marker
    except (psutil.Error, OSError, ValueError):
        # Somebody else's process, or one that ended while we looked.
        return False


def _measure(birth: Birth, marker: str, patience: Patience) -> Measured:
    members = _members(birth, marker)
    sizes = []
    for process in members:
        with contextlib.suppress(psutil.Error):
            sizes.append(int(process.memory_info().rss))
    pids = frozenset(process.pid for process in members)
    try:
        vram_bytes = patience.call("the memory of engines on NVIDIA GPUs", lambda: read_vram_of(pids))
    except ReadingFailed:
        # No such card, or a driver in trouble: the readings of the hardware tell that.
        vram_bytes = None
    return Measured(ram_bytes=sum(sizes) if sizes else None, vram_bytes=vram_bytes)


def _cpu_s(birth: Birth, marker: str) -> float | None:
    used = []
    for process in _members(birth, marker):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            used.append(times.user + times.system)
    return sum(used) if used else None


def _listens(birth: Birth, marker: str, port: int) -> bool | None:
    try:
        sockets = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        # Some systems show this to their administrator only.
        return None
    owners = {one.pid for one in sockets if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port}
    members = {process.pid for process in _members(birth, marker)}
    if owners & members:
        return True
    # A socket of somebody else's process has no pid for us.
    return None if not owners or None in owners else False


def _markers(home: str) -> frozenset[str]:
    found = set()
    for process in _processes():
        with contextlib.suppress(psutil.Error, OSError, ValueError):
            marker = process.environ().get(MARKER, "")
            if marker.endswith(f"@{home}") and process.status() != psutil.STATUS_ZOMBIE:
                found.add(marker)
    return frozenset(found)
