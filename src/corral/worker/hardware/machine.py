"""The seam between the detectors and the world.

Detectors read a `Machine` and nothing else, so each of them runs on recorded readings of machines that nobody has on
the desk. A method either answers, says "not there" (`None`, an empty tuple), or raises `ReadingFailed` with a
sentence; it never raises anything else and never waits longer than a few seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from corral.domain.errors import CorralError


class ReadingFailed(CorralError):
    """A part of this machine could not be read."""

    code = "hardware_unreadable"
    retryable = True

    @property
    def sentence(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class NvmlAbsent(ReadingFailed):
    """NVIDIA's management library is not installed."""

    code = "nvml_absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformFacts:
    system: str
    architecture: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuFacts:
    physical: int | None
    logical: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    total_bytes: int
    available_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlDevice:
    index: int
    name: str
    uuid: str | None = None
    compute_capability: str | None = None
    memory_bytes_total: int | None = None
    memory_bytes_free: int | None = None
    # NVML's own words when it would not tell the memory.
    memory_failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlReading:
    driver_version: str | None
    cuda_version: str | None
    devices: tuple[NvmlDevice, ...] = ()
    warnings: tuple[str, ...] = ()


class Machine(Protocol):
    """Everything that detection may ask of the world."""

    def platform(self) -> PlatformFacts: ...

    def cpu(self) -> CpuFacts: ...

    def memory(self) -> MemoryFacts: ...

    def nvml(self) -> NvmlReading:
        """Raises `NvmlAbsent` where there is no library, `ReadingFailed` where it does not work."""
        ...

    def read(self, path: str) -> bytes | None:
        """The start of a file, or `None` when it is not there or cannot be read."""
        ...

    def list_directory(self, path: str) -> tuple[str, ...]:
        """Names in a directory, sorted; empty when it is not there."""
        ...

    def run(self, command: tuple[str, ...]) -> str:
        """What a vendor's tool printed. The last resort: slow, and its format may change."""
        ...


def read_text(machine: Machine, path: str) -> str | None:
    """A small text file without the blanks and NUL bytes that sysfs and the device tree end with."""
    content = machine.read(path)
    return None if content is None else content.decode("utf-8", "replace").strip(" \t\r\n\0")
