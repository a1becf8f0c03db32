"""What a worker says about its machine.

`None` always means "not known" or "not there"; 0 available bytes is a real reading of a full card or disk.
Available never exceeds total. Sums over several GPUs count only the GPUs that one engine can use together.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU. `index` counts within its vendor, in the order in which the vendor's own tools count."""

    vendor: str
    name: str
    index: int
    vram_bytes_total: int | None = None
    vram_bytes_available: int | None = None
    compute_capability: str | None = None
    driver: str | None = None
    uuid: str | None = None
    address: str | None = None
    # The GPU has no memory of its own: what it takes is missing in RAM.
    unified: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareReading:
    """One machine, as detected and last refreshed."""

    cpu_model: str | None
    cpu_cores: int
    cpu_threads: int
    architecture: str
    system: str
    ram_bytes_total: int
    ram_bytes_available: int
    gpus: tuple[GpuReading, ...] = ()
    unified_memory: bool = False
    gpu_vendor: str | None = None
    gpu_compute_capability: str | None = None
    capability: str
    vram_bytes_total: int | None = None
    vram_bytes_available: int | None = None
    # Sentences for people: everything that could not be read, and what to do about it.
    warnings: tuple[str, ...] = ()
    # The part of `warnings` that came from the last refresh; the next refresh forms its own opinion.
    passing_warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReading:
    """RAM that this process may use: the machine's, or its container's share of it."""

    total_bytes: int
    available_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskReading:
    """The filesystem behind the models directory."""

    total_bytes: int
    available_bytes: int
