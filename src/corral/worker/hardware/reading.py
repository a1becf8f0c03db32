"""The hardware readings of a worker's machine: of single GPUs, summed up for the machine, and as a report.

`None` always means "not known" or "not there"; 0 available bytes is a real reading of a full card or disk.
Available never exceeds total. Sums over several GPUs count only the GPUs that one engine can use together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

# Best first: the order in which engines support them.
VENDORS = ("nvidia", "amd", "intel", "vulkan", "apple")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """What a worker read of one GPU; `index` counts within its vendor, as the vendor's own tools count."""

    vendor: str
    name: str
    index: int
    vram_bytes_total: int | None = None
    vram_bytes_available: int | None = None
    compute_capability: str | None = None
    driver: str | None = None
    uuid: str | None = None
    address: str | None = None
    # Whether the GPU has no memory of its own and uses RAM.
    unified: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareReading:
    """What a worker read of its whole machine: processor, memory, GPUs, capability and warnings."""

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
    # The part of `warnings` that came from the last refresh; the next refresh replaces it.
    passing_warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReading:
    """Total and available RAM that the worker process may use, within its container's limit."""

    total_bytes: int
    available_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskReading:
    """Total and available bytes of the filesystem behind the worker's models directory."""

    total_bytes: int
    available_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDetection:
    """The GPUs and warnings that the worker's detector of one vendor found."""

    gpus: tuple[GpuReading, ...] = ()
    warnings: tuple[str, ...] = ()
    # The newest major version of CUDA that the driver can run.
    cuda_major: int | None = None


def normalise_vram(total: int | None, free: int | None) -> tuple[int | None, int | None]:
    """Return total and available bytes in which nothing unknown looks like a number, and available is at most total."""
    if not total or total < 0:
        return None, None
    return total, None if free is None else min(max(free, 0), total)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableGpus:
    """Selects the GPUs of a machine that one engine can use together, and sums up their memory.

    These are the GPUs of the best vendor, and graphics inside a processor only where there is no card. A GPU whose
    memory is unknown does not make its neighbours unknown.
    """

    vendor: str | None
    gpus: tuple[GpuReading, ...]

    @classmethod
    def from_gpus(cls, gpus: tuple[GpuReading, ...]) -> UsableGpus:
        candidates = [gpu for gpu in gpus if not gpu.unified] or list(gpus)
        vendor = next((vendor for vendor in VENDORS if any(gpu.vendor == vendor for gpu in candidates)), None)
        return cls(vendor=vendor, gpus=tuple(gpu for gpu in candidates if gpu.vendor == vendor))

    @property
    def unified(self) -> bool:
        return any(gpu.unified for gpu in self.gpus)

    @property
    def total(self) -> int | None:
        return _sum_known(gpu.vram_bytes_total for gpu in self.gpus)

    @property
    def available(self) -> int | None:
        return _sum_known(gpu.vram_bytes_available for gpu in self.gpus)

    @property
    def compute_capability(self) -> str | None:
        known = [gpu.compute_capability for gpu in self.gpus if gpu.compute_capability is not None]
        return max(known, key=lambda text: tuple(int(part) for part in text.split(".")), default=None)


def with_gpus(reading: HardwareReading, gpus: tuple[GpuReading, ...]) -> HardwareReading:
    used = UsableGpus.from_gpus(gpus)
    return replace(
        reading,
        gpus=gpus,
        unified_memory=used.unified,
        gpu_vendor=used.vendor,
        gpu_compute_capability=used.compute_capability,
        vram_bytes_total=used.total,
        vram_bytes_available=used.available,
    )


def _sum_known(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def remove_duplicates(sentences: Iterable[str]) -> tuple[str, ...]:
    """Return each sentence once, in order."""
    return tuple(dict.fromkeys(sentences))


def make_hardware_report(reading: HardwareReading, disk: DiskReading | None) -> dict[str, object]:
    """Return the fields of registration and heartbeat messages. Absent is `None`; the caller leaves it out."""
    knows_memory = reading.ram_bytes_total > 0
    return {
        "total_vram": reading.vram_bytes_total,
        "available_vram": reading.vram_bytes_available,
        "total_ram": reading.ram_bytes_total if knows_memory else None,
        "available_ram": reading.ram_bytes_available if knows_memory else None,
        "total_disk": disk.total_bytes if disk else None,
        "available_disk": disk.available_bytes if disk else None,
        "gpu_vendor": reading.gpu_vendor,
        "gpu_compute_capability": reading.gpu_compute_capability,
        "capability": reading.capability,
        "cpu_cores": reading.cpu_cores,
        "cpu_threads": reading.cpu_threads,
        "architecture": reading.architecture,
        "system": reading.system,
        "gpus": [_make_gpu_report(gpu) for gpu in reading.gpus],
        "unified_memory": reading.unified_memory,
    }


def _make_gpu_report(gpu: GpuReading) -> dict[str, object]:
    return {
        "vendor": gpu.vendor,
        "name": gpu.name,
        "index": gpu.index,
        "total_vram": gpu.vram_bytes_total,
        "available_vram": gpu.vram_bytes_available,
        "compute_capability": gpu.compute_capability,
        "driver": gpu.driver,
        "uuid": gpu.uuid,
    }
