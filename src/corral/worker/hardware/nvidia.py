"""NVIDIA: cards, and chips whose GPU shares the machine's memory (Jetson, Thor, GB10).

Order of trust: NVML; the Jetson's own files, because older Jetsons have no NVML; nvidia-smi, for systems that hide the
library from the loader. NVML has no flag for shared memory: such chips are known by their files or by name, and for
them RAM is the truth whatever NVML says, since it answers "Not Supported" or the size of a window.
"""

from __future__ import annotations

import re

from corral.worker.hardware import drm, parse
from corral.worker.hardware.found import Found, vram
from corral.worker.hardware.machine import (
    Machine,
    NvmlAbsent,
    NvmlDevice,
    NvmlReading,
    ReadingFailed,
    read_text,
)
from corral.worker.hardware.reading import GpuReading, MemoryReading

_SHARED_MEMORY_CHIP = re.compile(r"\b(GB10|N1X?|Thor|Orin|Xavier|Tegra\w*)\b|\(nvgpu\)")
# Compute capability by system on chip, for Jetsons without NVML.
_TEGRA = {"tegra210": "5.3", "tegra186": "6.2", "tegra194": "7.2", "tegra234": "8.7", "tegra264": "11.0"}
_SMI = ("nvidia-smi", f"--query-gpu={parse.SMI_QUERY}", "--format=csv,noheader,nounits")
_NO_LIBRARY = ReadingFailed(
    "This machine has an NVIDIA GPU, but the driver's library libnvidia-ml.so.1 is missing, so the GPU is not used.",
    hint="Install NVIDIA's driver; in a container, start it with its GPUs (--gpus all).",
)


def detect_nvidia(machine: Machine, ram: MemoryReading) -> Found:
    """All NVIDIA GPUs that can be used now."""
    try:
        reading = machine.nvml()
    except NvmlAbsent:
        return _jetson(machine, ram) or _without_library(machine, ram)
    except ReadingFailed as failure:
        return _jetson(machine, ram) or Found(warnings=(failure.sentence,))
    if not reading.devices:
        return _jetson(machine, ram) or Found(warnings=reading.warnings)
    return _from_nvml(reading, ram)


def _from_nvml(reading: NvmlReading, ram: MemoryReading) -> Found:
    warnings = list(reading.warnings)
    gpus = []
    for device in reading.devices:
        gpu = _gpu(device, reading.driver_version, ram)
        if gpu.vram_bytes_total is None:
            reason = device.memory_failure or "the driver says 0 bytes"
            warnings.append(f"The memory of NVIDIA GPU {device.index} ({device.name}) is not known: {reason}.")
        gpus.append(gpu)
    major = parse.whole_number((reading.cuda_version or "").partition(".")[0])
    return Found(gpus=tuple(gpus), warnings=tuple(warnings), cuda_major=major)


def _gpu(device: NvmlDevice, driver: str | None, ram: MemoryReading) -> GpuReading:
    unified = _SHARED_MEMORY_CHIP.search(device.name) is not None
    total, available = vram(device.memory_bytes_total, device.memory_bytes_free)
    return GpuReading(
        vendor="nvidia",
        name=device.name,
        index=device.index,
        vram_bytes_total=ram.total_bytes if unified else total,
        vram_bytes_available=ram.available_bytes if unified else available,
        compute_capability=device.compute_capability,
        driver=driver,
        uuid=device.uuid,
        unified=unified,
    )


def _jetson(machine: Machine, ram: MemoryReading) -> Found | None:
    """The GPU of an NVIDIA system on chip, from the files that every Jetson has."""
    if machine.platform().architecture != "arm64":
        return None
    compatible = (read_text(machine, "/proc/device-tree/compatible") or "").split("\0")
    chip = next((word.removeprefix("nvidia,") for word in compatible if word.startswith("nvidia,tegra")), None)
    if chip is None and read_text(machine, "/sys/devices/soc0/family") != "Tegra":
        return None
    release = parse.l4t_release(read_text(machine, "/etc/nv_tegra_release"))
    gpu = GpuReading(
        vendor="nvidia",
        name=read_text(machine, "/proc/device-tree/model") or "NVIDIA Tegra",
        index=0,
        vram_bytes_total=ram.total_bytes,
        vram_bytes_available=ram.available_bytes,
        compute_capability=_TEGRA.get(chip or ""),
        driver=f"L4T {release}" if release else None,
        unified=True,
    )
    return Found(gpus=(gpu,))


def _without_library(machine: Machine, ram: MemoryReading) -> Found:
    """No library is the normal state of a machine without NVIDIA; with a card it is worth a question and a warning."""
    devices = machine.list_directory("/dev")
    if not ("nvidiactl" in devices or "dxg" in devices or drm.has_display_device(machine, drm.NVIDIA)):
        return Found()
    try:
        rows = parse.nvidia_smi_rows(machine.run(_SMI))
    except ReadingFailed:
        rows = ()
    if not rows:
        # /dev/dxg alone is Windows' graphics device, of any vendor.
        return Found() if _is_only_dxg(machine, devices) else Found(warnings=(_NO_LIBRARY.sentence,))
    reading = NvmlReading(
        driver_version=rows[0].driver_version, cuda_version=None, devices=tuple(map(_smi_device, rows))
    )
    return _from_nvml(reading, ram)


def _is_only_dxg(machine: Machine, devices: tuple[str, ...]) -> bool:
    return "nvidiactl" not in devices and not drm.has_display_device(machine, drm.NVIDIA)


def _smi_device(row: parse.SmiRow) -> NvmlDevice:
    return NvmlDevice(
        index=row.index,
        name=row.name,
        uuid=row.uuid,
        compute_capability=row.compute_capability,
        memory_bytes_total=row.memory_bytes_total,
        memory_bytes_free=row.memory_bytes_free,
        memory_failure=None if row.memory_bytes_total else "nvidia-smi does not say",
    )
