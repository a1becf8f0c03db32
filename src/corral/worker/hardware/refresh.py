"""A cheap second look for each heartbeat: free RAM and VRAM.

Asks only the drivers of GPUs that were detected. What does not answer this time becomes unknown, not old: a stale
number would let somebody place a model on it. May block for a few seconds: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from corral.worker.hardware.amd import refresh_amd
from corral.worker.hardware.found import Found
from corral.worker.hardware.intel import refresh_intel
from corral.worker.hardware.machine import Machine, ReadingFailed
from corral.worker.hardware.memory import read_memory
from corral.worker.hardware.nvidia import detect_nvidia
from corral.worker.hardware.reading import GpuReading, HardwareReading, MemoryReading
from corral.worker.hardware.totals import VENDORS, distinct, with_gpus


def refresh(machine: Machine, previous: HardwareReading) -> HardwareReading:
    """Read again what changes while engines run: free RAM and VRAM. Vendors and the capability stay."""
    try:
        ram, passing = read_memory(machine), []
    except ReadingFailed as failure:
        ram = MemoryReading(total_bytes=previous.ram_bytes_total, available_bytes=previous.ram_bytes_available)
        passing = [failure.sentence]
    gpus: list[GpuReading] = []
    for vendor in VENDORS:
        known = [gpu for gpu in previous.gpus if gpu.vendor == vendor]
        if known:
            again, warnings = _again(machine, vendor, ram, known)
            gpus.extend(again)
            passing.extend(warnings)
    lasting = [warning for warning in previous.warnings if warning not in previous.passing_warnings]
    news = tuple(warning for warning in distinct(passing) if warning not in lasting)
    reading = replace(
        previous,
        ram_bytes_total=ram.total_bytes,
        ram_bytes_available=ram.available_bytes,
        warnings=(*lasting, *news),
        passing_warnings=news,
    )
    return with_gpus(reading, tuple(gpus))


def _again(
    machine: Machine, vendor: str, ram: MemoryReading, known: list[GpuReading]
) -> tuple[list[GpuReading], tuple[str, ...]]:
    """The same GPUs with fresh memory. One that does not answer keeps its place, with nothing known of its memory."""
    if all(gpu.unified for gpu in known) and vendor in {"nvidia", "apple"}:
        total, available = ram.total_bytes, ram.available_bytes
        return [replace(gpu, vram_bytes_total=total, vram_bytes_available=available) for gpu in known], ()
    readers: dict[str, Callable[[], Found]] = {
        "nvidia": lambda: detect_nvidia(machine, ram),
        "amd": lambda: refresh_amd(machine, ram),
        "intel": lambda: refresh_intel(machine),
    }
    reader = readers.get(vendor)
    if reader is None:
        return known, ()
    try:
        found = reader()
    except ReadingFailed as failure:
        found = Found(warnings=(failure.sentence,))
    if not found.gpus and found.warnings:
        return [replace(gpu, vram_bytes_available=None) for gpu in known], found.warnings
    fresh = {_identity(gpu): gpu for gpu in found.gpus}
    lost = [gpu for gpu in known if _identity(gpu) not in fresh]
    warnings = (f"GPU {gpu.index} ({gpu.name}) is no longer reported by its driver." for gpu in lost)
    return [_renewed(gpu, fresh.get(_identity(gpu))) for gpu in known], (*found.warnings, *warnings)


def _renewed(known: GpuReading, fresh: GpuReading | None) -> GpuReading:
    return replace(
        known,
        vram_bytes_total=fresh.vram_bytes_total if fresh else None,
        vram_bytes_available=fresh.vram_bytes_available if fresh else None,
    )


def _identity(gpu: GpuReading) -> str:
    return gpu.address or gpu.uuid or str(gpu.index)
