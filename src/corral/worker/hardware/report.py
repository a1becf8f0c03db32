"""The reading in the words of the registration and heartbeat messages. Absent is `None`; the caller leaves it out."""

from __future__ import annotations

from corral.worker.hardware.reading import DiskReading, GpuReading, HardwareReading


def as_report(reading: HardwareReading, disk: DiskReading | None) -> dict[str, object]:
    """The wire fields of one machine."""
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
        "gpus": [_gpu(gpu) for gpu in reading.gpus],
        "unified_memory": reading.unified_memory,
    }


def _gpu(gpu: GpuReading) -> dict[str, object]:
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
