"""Protocol of the operating system's calls that the supervisor needs, and the errors of engines that jobs report.

Tests count a thousand crashes without a process.

A process is identified by its pid, its birth and the marker in its environment: a pid alone is used again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from corral.domain.errors import Conflict, CorralError, Unprocessable
from corral.runtime.processes import ProcessBirth, SpawnRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTarget:
    """Identifies one engine process for a health probe: its address, birth and marker."""

    url: str
    birth: ProcessBirth
    marker: str


class ProcessHandle(Protocol):
    """Interface to one operating-system process that a worker spawned or adopted: whether it lives, and its end."""

    @property
    def birth(self) -> ProcessBirth: ...

    def is_alive(self) -> bool:
        """Return whether the process lives. False for a zombie, and for a later process with the same pid."""
        ...

    async def wait_ended(self) -> int | None:
        """Wait for the end; return the exit code, or None where it cannot be known. May be cancelled and called
        again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUsage:
    """Memory that an engine process and its descendants use on a node; None is unknown."""

    ram_bytes: int | None = None
    vram_bytes: int | None = None


class ProcessControl(Protocol):
    """Interface by which a worker's supervisor spawns, finds, measures and signals operating-system processes."""

    async def spawn(self, request: SpawnRequest) -> ProcessHandle:
        """Start a process. Raises OSError if there is no such program."""
        ...

    def find(self, birth: ProcessBirth) -> ProcessHandle | None:
        """Return a handle to exactly this process, if it lives; it need not be our child."""
        ...

    async def terminate(self, birth: ProcessBirth, marker: str) -> None:
        """Send SIGTERM to the process and all of its descendants."""
        ...

    async def kill(self, birth: ProcessBirth | None, marker: str) -> None:
        """Send SIGKILL to the process and all of its descendants, also to those left after its own end."""
        ...

    async def is_any_left(self, birth: ProcessBirth | None, marker: str) -> bool:
        """Return whether the process or any descendant lives."""
        ...

    async def list_markers(self, home: str) -> frozenset[str]:
        """Return the markers of all live processes that engines of this home are or descend from."""
        ...

    async def measure(self, birth: ProcessBirth, marker: str) -> ProcessUsage: ...

    async def read_cpu_s(self, birth: ProcessBirth, marker: str) -> float | None:
        """Return the processor time that the process has used so far."""
        ...

    async def check_listening(self, birth: ProcessBirth, marker: str, port: int) -> bool | None:
        """Return whether the process or a descendant listens at the port; False if a stranger does. None is unknown."""
        ...

    def count_oom_kills(self) -> int | None:
        """Return how many processes the kernel has killed for lack of memory since the machine was started."""
        ...


# Whether the engine at this address is ready; the second argument is the key that it checks, or empty. Never raises.
ReadinessCheck = Callable[[str, str], Awaitable[bool]]


class EngineStartFailed(Unprocessable):
    """The engine process did not become ready on its worker."""

    code = "engine_failed"


class ProcessBeingStopped(Conflict):
    """The engine process is being stopped by its worker."""

    code = "process_stopping"


class AddressMismatch(Conflict):
    """The engine process listens at another address than the command to its worker expected."""

    code = "address_mismatch"


class ProcessStopFailed(CorralError):
    """The worker could not end the engine process."""

    code = "stop_failed"


class BadManifest(Unprocessable):
    """The backend's manifest cannot be run as an engine."""

    code = "bad_manifest"


class NoFreePort(Conflict):
    """Every TCP port of the worker's range for engines is taken."""

    code = "no_free_port"
