"""The interface between the detectors and the machine.

Detectors read a `HardwareSource` and nothing else, so each of them runs on recorded readings of machines that are not
at hand. A method either answers, says "not there" (`None`, an empty tuple), or raises `HardwareUnreadable` with
a sentence; it never raises anything else and never waits longer than a few seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from corral.domain.errors import CorralError


class HardwareUnreadable(CorralError):
    """A part of this machine's hardware could not be read."""

    code = "hardware_unreadable"
    retryable = True

    @property
    def sentence(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class NvmlNotInstalled(HardwareUnreadable):
    """NVIDIA's management library is not installed."""

    code = "nvml_absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformFacts:
    """Holds the operating system and processor architecture of a machine."""

    system: str
    architecture: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuFacts:
    """Holds how many physical and logical processors a machine has; None is unknown."""

    physical: int | None
    logical: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """Holds the total and available RAM of a machine in bytes, without limits of containers."""

    total_bytes: int
    available_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlDevice:
    """One NVIDIA GPU as NVML describes it."""

    index: int
    name: str
    uuid: str | None = None
    compute_capability: str | None = None
    memory_bytes_total: int | None = None
    memory_bytes_free: int | None = None
    # NVML's own words when it refused to give the memory.
    memory_failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlReading:
    """Holds what NVML says in one reading: versions, devices and warnings."""

    driver_version: str | None
    cuda_version: str | None
    devices: tuple[NvmlDevice, ...] = ()
    warnings: tuple[str, ...] = ()


class HardwareSource(Protocol):
    """Gives the detectors access to the machine: platform, processor, memory, NVML, files and vendor tools."""

    def read_platform(self) -> PlatformFacts: ...

    def read_cpu(self) -> CpuFacts: ...

    def read_memory(self) -> MemoryFacts: ...

    def read_nvml(self) -> NvmlReading:
        """Return a reading of NVML; raise `NvmlNotInstalled` without the library, `HardwareUnreadable` if it does not
        work."""
        ...

    def read_file(self, path: str) -> bytes | None:
        """Return the start of a file, or `None` when it does not exist or cannot be read."""
        ...

    def list_directory(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory, sorted; empty when it does not exist."""
        ...

    def run_tool(self, command: tuple[str, ...]) -> str:
        """Return the output of a vendor's tool. The last resort: slow, and its format may change."""
        ...


def read_text(machine: HardwareSource, path: str) -> str | None:
    """Return a small text file without the blanks and NUL bytes that sysfs and the device tree end with."""
    content = machine.read_file(path)
    return None if content is None else content.decode("utf-8", "replace").strip(" \t\r\n\0")
