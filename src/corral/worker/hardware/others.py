"""Apple's chips, and whatever else speaks Vulkan.

On Apple silicon the GPU shares all RAM; the share that Metal lets one program have is smaller and is the engine's
business. Vulkan is asked only when no vendor's driver was found: it proves a GPU, but does not say what is free.
"""

from __future__ import annotations

from corral.worker.hardware import parse
from corral.worker.hardware.found import Found
from corral.worker.hardware.machine import Machine, ReadingFailed
from corral.worker.hardware.reading import GpuReading, MemoryReading

_SYSCTL = ("sysctl", "-n", "machdep.cpu.brand_string")
_VULKANINFO = ("vulkaninfo", "--summary")


def mac_cpu_model(machine: Machine) -> str | None:
    """`Apple M2 Pro`, or what an Intel Mac has."""
    try:
        return machine.run(_SYSCTL).strip() or None
    except ReadingFailed:
        return None


def detect_apple(ram: MemoryReading, cpu_model: str | None) -> Found:
    """The GPU of an Apple chip."""
    gpu = GpuReading(
        vendor="apple",
        name=f"{cpu_model or 'Apple'} GPU",
        index=0,
        vram_bytes_total=ram.total_bytes,
        vram_bytes_available=ram.available_bytes,
        driver="Metal",
        unified=True,
    )
    return Found(gpus=(gpu,))


def detect_vulkan(machine: Machine) -> Found:
    """GPUs that only Vulkan knows. Nothing is run where the kernel has no render node."""
    if not any(name.startswith("renderD") for name in machine.list_directory("/dev/dri")):
        return Found()
    try:
        devices = parse.vulkan_devices(machine.run(_VULKANINFO))
    except ReadingFailed:
        # vulkaninfo is rarely installed; its absence says nothing about the machine.
        return Found()
    return Found(
        gpus=tuple(
            GpuReading(
                vendor="vulkan",
                name=device.name,
                index=index,
                driver=device.driver,
                uuid=device.uuid,
                unified=device.device_type == "INTEGRATED_GPU",
            )
            for index, device in enumerate(devices)
        )
    )
