"""What the supervisor asks of the operating system, as a protocol: tests count a thousand crashes without a process.

A process is known by its pid, its birth and the marker in its environment: a pid alone is used again.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """One process to start, in a session of its own. What it prints goes into the two files, behind what is there."""

    command: tuple[str, ...] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    directory: Path
    stdout: Path
    stderr: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """A pid and when its process began, in seconds after the boot of the machine: a wall clock may be set."""

    pid: int
    born_s: float


class Running(Protocol):
    """One process that was spawned or adopted."""

    @property
    def birth(self) -> Birth: ...

    def is_alive(self) -> bool:
        """Not for a zombie, nor for a later process with the same pid."""
        ...

    async def ended(self) -> int | None:
        """Wait for its end: its exit code, or None where that cannot be known. May be cancelled and asked again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a process and all that descends from it takes of the machine; None is unknown."""

    ram_bytes: int | None = None
    vram_bytes: int | None = None


class Machine(Protocol):
    async def spawn(self, wish: Spawn) -> Running:
        """Raises OSError if there is no such program."""
        ...

    def find(self, birth: Birth) -> Running | None:
        """The very process, if it lives; it need not be our child."""
        ...

    async def ask_to_end(self, birth: Birth, marker: str) -> None:
        """SIGTERM for the process and all that descends from it."""
        ...

    async def kill(self, birth: Birth | None, marker: str) -> None:
        """SIGKILL for the process and all that descends from it, also what is left of it after its own end."""
        ...

    async def is_any_left(self, birth: Birth | None, marker: str) -> bool:
        """Whether anything of it lives."""
        ...

    async def markers(self, home: str) -> frozenset[str]:
        """The markers of all live processes that engines of this home are or descend from."""
        ...

    async def measure(self, birth: Birth, marker: str) -> Measured: ...

    async def cpu_s(self, birth: Birth, marker: str) -> float | None:
        """The processor time that it has used so far."""
        ...

    async def listens(self, birth: Birth, marker: str, port: int) -> bool | None:
        """Whether it, or what descends from it, is who listens at the port; False: a stranger does. None is unknown."""
        ...

    def oom_kills(self) -> int | None:
        """How many processes the kernel has ended for want of memory since the machine was started."""
        ...


# Whether the engine at this address is ready; the second is the key that it checks, or empty. Never raises.
Ready = Callable[[str, str], Awaitable[bool]]


def describe_exit(code: int | None) -> str:
    """`code` as `subprocess` tells it: negative for a signal, None where nobody could see it."""
    if code is None:
        return "ended, and nobody saw how"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"was ended by signal {-code}"
    # The usual reason for a SIGKILL that nobody sent.
    return f"was ended by {name}" + (", perhaps for want of memory" if -code == signal.SIGKILL else "")
