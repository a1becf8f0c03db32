"""From single GPUs to the figures of a machine.

Only GPUs that one engine can use together are counted: those of the best vendor, and graphics inside a processor only
where there is no card. A GPU whose memory is unknown does not make its neighbours unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from corral.worker.hardware.reading import GpuReading, HardwareReading

# Best first: the order in which engines support them.
VENDORS = ("nvidia", "amd", "intel", "vulkan", "apple")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usable:
    """The GPUs that one engine can use together."""

    vendor: str | None
    gpus: tuple[GpuReading, ...]

    @classmethod
    def of(cls, gpus: tuple[GpuReading, ...]) -> Usable:
        candidates = [gpu for gpu in gpus if not gpu.unified] or list(gpus)
        vendor = next((vendor for vendor in VENDORS if any(gpu.vendor == vendor for gpu in candidates)), None)
        return cls(vendor=vendor, gpus=tuple(gpu for gpu in candidates if gpu.vendor == vendor))

    @property
    def unified(self) -> bool:
        return any(gpu.unified for gpu in self.gpus)

    @property
    def total(self) -> int | None:
        return _sum(gpu.vram_bytes_total for gpu in self.gpus)

    @property
    def available(self) -> int | None:
        return _sum(gpu.vram_bytes_available for gpu in self.gpus)

    @property
    def compute_capability(self) -> str | None:
        known = [gpu.compute_capability for gpu in self.gpus if gpu.compute_capability is not None]
        return max(known, key=lambda text: tuple(int(part) for part in text.split(".")), default=None)


def with_gpus(reading: HardwareReading, gpus: tuple[GpuReading, ...]) -> HardwareReading:
    used = Usable.of(gpus)
    return replace(
        reading,
        gpus=gpus,
        unified_memory=used.unified,
        gpu_vendor=used.vendor,
        gpu_compute_capability=used.compute_capability,
        vram_bytes_total=used.total,
        vram_bytes_available=used.available,
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def distinct(sentences: Iterable[str]) -> tuple[str, ...]:
    """Each sentence once, in order."""
    return tuple(dict.fromkeys(sentences))
