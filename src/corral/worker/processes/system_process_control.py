"""Controls the real processes of this machine.

Guarantee: a signal reaches only processes that carry the marker of the engine in their environment, or that are in the
session which the engine's first process leads. Both hold for what an engine forks, and for no other processes.
Listing all processes reads files of the kernel; it is done in a thread, and only when something starts or ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import psutil

from corral.ports.runtime import Clock
from corral.runtime.processes import (
    ProcessBirth,
    SpawnRequest,
    identify_process,
    is_alive,
    is_same_birth,
    iterate_live_processes,
    read_marker,
    signal_processes,
    spawn_process,
)
from corral.worker.hardware.hardware_source import HardwareUnreadable
from corral.worker.hardware.local_hardware import CallTimeLimiter
from corral.worker.hardware.nvidia import read_process_vram
from corral.worker.processes.launch import MARKER
from corral.worker.processes.process_control import ProcessHandle, ProcessUsage

# The end of a process that is not our child has to be polled.
ADOPTED_POLL_S = 0.25
# A driver that hangs must not keep an engine from being ready.
NVML_LIMIT_S = 3.0
# The first file is for the whole machine; in a container it may be hidden, and the second is for the container.
_OOM_COUNTERS = (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events"))


class SystemProcessControl:
    """Controls real operating-system processes of a worker's machine. Implements `ProcessControl`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._limiter = CallTimeLimiter(NVML_LIMIT_S)
        # What was killed, by marker and pid. On its way out a process has no environment any more and lives on for a
        # moment, so the marker alone would not find it. Entries are dropped when nothing of a marker is left.
        self._killed: dict[str, dict[int, ProcessBirth]] = {}

    async def spawn(self, request: SpawnRequest) -> ProcessHandle:
        return await spawn_process(request)

    def find(self, birth: ProcessBirth) -> ProcessHandle | None:
        return _AdoptedProcess(birth, self._clock) if is_alive(birth) else None

    async def terminate(self, birth: ProcessBirth, marker: str) -> None:
        await asyncio.to_thread(_signal_all, birth, marker, signal.SIGTERM)

    async def kill(self, birth: ProcessBirth | None, marker: str) -> None:
        killed = await asyncio.to_thread(_signal_all, birth, marker, signal.SIGKILL)
        self._killed.setdefault(marker, {}).update({each.pid: each for each in killed})

    async def is_any_left(self, birth: ProcessBirth | None, marker: str) -> bool:
        killed = list(self._killed.get(marker, {}).values())
        if await asyncio.to_thread(_is_any_left, birth, marker, killed):
            return True
        self._killed.pop(marker, None)
        return False

    async def list_markers(self, home: str) -> frozenset[str]:
        return await asyncio.to_thread(_list_markers, home)

    async def measure(self, birth: ProcessBirth, marker: str) -> ProcessUsage:
        return await asyncio.to_thread(_measure, birth, marker, self._limiter)

    async def read_cpu_s(self, birth: ProcessBirth, marker: str) -> float | None:
        return await asyncio.to_thread(_read_cpu_s, birth, marker)

    async def check_listening(self, birth: ProcessBirth, marker: str, port: int) -> bool | None:
        return await asyncio.to_thread(_check_listening, birth, marker, port)

    def count_oom_kills(self) -> int | None:
        for path in _OOM_COUNTERS:
            with contextlib.suppress(OSError, ValueError):
                for line in path.read_text(encoding="ascii").splitlines():
                    name, _, count = line.partition(" ")
                    if name == "oom_kill":
                        return int(count)
        return None


class _AdoptedProcess:
    """Refers to a process that an earlier worker has started, and polls for its end."""

    def __init__(self, birth: ProcessBirth, clock: Clock) -> None:
        self._birth = birth
        self._clock = clock

    @property
    def birth(self) -> ProcessBirth:
        return self._birth

    def is_alive(self) -> bool:
        return is_alive(self._birth)

    async def wait_ended(self) -> int | None:
        while self.is_alive():
            await self._clock.sleep(ADOPTED_POLL_S)
        return None


def _signal_all(birth: ProcessBirth | None, marker: str, number: signal.Signals) -> list[ProcessBirth]:
    """Signal the engine's live processes; return their births."""
    members = _list_members(birth, marker)
    births = [known for process in members if (known := identify_process(process.pid)) is not None]
    signal_processes(members, number)
    return births


def _is_any_left(birth: ProcessBirth | None, marker: str, killed: Sequence[ProcessBirth]) -> bool:
    return any(is_alive(each) for each in killed) or bool(_list_members(birth, marker))


def _list_members(birth: ProcessBirth | None, marker: str) -> list[psutil.Process]:
    """Return the engine's live processes. A session keeps the pid of its leader from being used again."""
    session = birth.pid if birth is not None and _is_still_leader(birth) else None
    return [process for process in iterate_live_processes() if _is_member(process, session, marker)]


def _is_still_leader(birth: ProcessBirth) -> bool:
    """Return whether the pid is that of our process, or is unused: another process with it leads another session."""
    now = identify_process(birth.pid)
    return now is None or is_same_birth(now, birth)


def _is_member(process: psutil.Process, session: int | None, marker: str) -> bool:
    if process.pid == os.getpid():
        return False
    # A process that has ended meanwhile has no session any more.
    with contextlib.suppress(OSError):
        if session is not None and os.getsid(process.pid) == session:
            return True
    return read_marker(process, MARKER) == marker


def _measure(birth: ProcessBirth, marker: str, limiter: CallTimeLimiter) -> ProcessUsage:
    members = _list_members(birth, marker)
    sizes = []
    for process in members:
        with contextlib.suppress(psutil.Error):
            sizes.append(int(process.memory_info().rss))
    pids = frozenset(process.pid for process in members)
    try:
        vram_bytes = limiter.call("the memory of engines on NVIDIA GPUs", lambda: read_process_vram(pids))
    except HardwareUnreadable:
        # There is no such card, or its driver fails: the hardware readings report that.
        vram_bytes = None
    return ProcessUsage(ram_bytes=sum(sizes) if sizes else None, vram_bytes=vram_bytes)


def _read_cpu_s(birth: ProcessBirth, marker: str) -> float | None:
    used = []
    for process in _list_members(birth, marker):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            used.append(times.user + times.system)
    return sum(used) if used else None


def _check_listening(birth: ProcessBirth, marker: str, port: int) -> bool | None:
    try:
        sockets = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        # Some systems show connections to their administrator only.
        return None
    owners = {one.pid for one in sockets if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port}
    members = {process.pid for process in _list_members(birth, marker)}
    if owners & members:
        return True
    # A socket of another user's process has no pid for us.
    return None if not owners or None in owners else False


def _list_markers(home: str) -> frozenset[str]:
    markers = (read_marker(process, MARKER) for process in iterate_live_processes())
    return frozenset(marker for marker in markers if marker is not None and marker.endswith(f"@{home}"))
