"""What one detector found, in the form that all of them share."""

from __future__ import annotations

from dataclasses import dataclass

from corral.worker.hardware.reading import GpuReading


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    gpus: tuple[GpuReading, ...] = ()
    warnings: tuple[str, ...] = ()
    # Major version of CUDA that the driver can run at most.
    cuda_major: int | None = None


def vram(total: int | None, free: int | None) -> tuple[int | None, int | None]:
    """A reading in which nothing unknown looks like a number, and available is at most total."""
    if not total or total < 0:
        return None, None
    return total, None if free is None else min(max(free, 0), total)
