"""NVIDIA: cards, and chips whose GPU shares the machine's memory (Jetson, Thor, GB10).

Order of trust: NVML; the Jetson's own files, because older Jetsons have no NVML; nvidia-smi, for systems that hide the
library from the loader. NVML has no flag for shared memory: such chips are known by their files or by name, and for
them RAM is the truth whatever NVML says, since it answers "Not Supported" or the size of a window.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pynvml

from corral.worker.hardware import drm, parsers
from corral.worker.hardware.hardware_source import (
    HardwareSource,
    HardwareUnreadable,
    NvmlDevice,
    NvmlNotInstalled,
    NvmlReading,
    read_text,
)
from corral.worker.hardware.reading import GpuDetection, GpuReading, MemoryReading, normalise_vram

_SHARED_MEMORY_CHIP = re.compile(r"\b(GB10|N1X?|Thor|Orin|Xavier|Tegra\w*)\b|\(nvgpu\)")
# Compute capability by system on chip, for Jetsons without NVML.
_TEGRA = {"tegra210": "5.3", "tegra186": "6.2", "tegra194": "7.2", "tegra234": "8.7", "tegra264": "11.0"}
_SMI = ("nvidia-smi", f"--query-gpu={parsers.SMI_QUERY}", "--format=csv,noheader,nounits")
_NO_LIBRARY = HardwareUnreadable(
    "This machine has an NVIDIA GPU, but the driver's library libnvidia-ml.so.1 is missing, so the GPU is not used.",
    hint="Install NVIDIA's driver; in a container, start it with its GPUs (--gpus all).",
)
_RELOAD = "Reboot, or reload the NVIDIA kernel modules, to use its GPUs."


def detect_nvidia(machine: HardwareSource, ram: MemoryReading) -> GpuDetection:
    """Return all NVIDIA GPUs that can be used now."""
    try:
        reading = machine.read_nvml()
    except NvmlNotInstalled:
        return _detect_jetson(machine, ram) or _detect_without_library(machine, ram)
    except HardwareUnreadable as failure:
        return _detect_jetson(machine, ram) or GpuDetection(warnings=(failure.sentence,))
    if not reading.devices:
        return _detect_jetson(machine, ram) or GpuDetection(warnings=reading.warnings)
    return _convert_nvml(reading, ram)


def _convert_nvml(reading: NvmlReading, ram: MemoryReading) -> GpuDetection:
    warnings = list(reading.warnings)
    gpus = []
    for device in reading.devices:
        gpu = _make_gpu(device, reading.driver_version, ram)
        if gpu.vram_bytes_total is None:
            reason = device.memory_failure or "the driver says 0 bytes"
            warnings.append(f"The memory of NVIDIA GPU {device.index} ({device.name}) is not known: {reason}.")
        gpus.append(gpu)
    major = parsers.parse_whole_number((reading.cuda_version or "").partition(".")[0])
    return GpuDetection(gpus=tuple(gpus), warnings=tuple(warnings), cuda_major=major)


def _make_gpu(device: NvmlDevice, driver: str | None, ram: MemoryReading) -> GpuReading:
    unified = _SHARED_MEMORY_CHIP.search(device.name) is not None
    total, available = normalise_vram(device.memory_bytes_total, device.memory_bytes_free)
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


def _detect_jetson(machine: HardwareSource, ram: MemoryReading) -> GpuDetection | None:
    """Return the GPU of an NVIDIA system on chip, from the files that every Jetson has."""
    if machine.read_platform().architecture != "arm64":
        return None
    compatible = (read_text(machine, "/proc/device-tree/compatible") or "").split("\0")
    chip = next((word.removeprefix("nvidia,") for word in compatible if word.startswith("nvidia,tegra")), None)
    if chip is None and read_text(machine, "/sys/devices/soc0/family") != "Tegra":
        return None
    release = parsers.parse_l4t_release(read_text(machine, "/etc/nv_tegra_release"))
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
    return GpuDetection(gpus=(gpu,))


def _detect_without_library(machine: HardwareSource, ram: MemoryReading) -> GpuDetection:
    """Detect without NVML, which is normal on a machine without NVIDIA; with a card, try nvidia-smi and warn."""
    devices = machine.list_directory("/dev")
    if not ("nvidiactl" in devices or "dxg" in devices or drm.has_display_device(machine, drm.NVIDIA)):
        return GpuDetection()
    try:
        rows = parsers.parse_nvidia_smi_rows(machine.run_tool(_SMI))
    except HardwareUnreadable:
        rows = ()
    if not rows:
        # /dev/dxg alone is Windows' graphics device, of any vendor.
        return GpuDetection() if _is_only_dxg(machine, devices) else GpuDetection(warnings=(_NO_LIBRARY.sentence,))
    reading = NvmlReading(
        driver_version=rows[0].driver_version, cuda_version=None, devices=tuple(map(_make_device, rows))
    )
    return _convert_nvml(reading, ram)


def _is_only_dxg(machine: HardwareSource, devices: tuple[str, ...]) -> bool:
    return "nvidiactl" not in devices and not drm.has_display_device(machine, drm.NVIDIA)


def _make_device(row: parsers.NvidiaSmiRow) -> NvmlDevice:
    return NvmlDevice(
        index=row.index,
        name=row.name,
        uuid=row.uuid,
        compute_capability=row.compute_capability,
        memory_bytes_total=row.memory_bytes_total,
        memory_bytes_free=row.memory_bytes_free,
        memory_failure=None if row.memory_bytes_total else "nvidia-smi does not say",
    )


def read_nvml(library: Any = pynvml) -> NvmlReading:
    """Read NVIDIA's management library once and release it; raise `NvmlNotInstalled` or `HardwareUnreadable`.

    Initialised and shut down for each reading, so that a worker never keeps the driver from being updated. A GPU that
    does not answer costs a warning, not the other GPUs. The library's types are ctypes and do not leave this module.
    """
    try:
        library.nvmlInit()
    except pynvml.NVMLError as error:
        raise _make_nvml_error(error) from error
    try:
        devices, warnings = _read_devices(library)
        cuda = _try_read(library.nvmlSystemGetCudaDriverVersion_v2)
        return NvmlReading(
            driver_version=_to_text(_try_read(library.nvmlSystemGetDriverVersion)),
            cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
            devices=devices,
            warnings=warnings,
        )
    except pynvml.NVMLError as error:
        raise _make_nvml_error(error) from error
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            library.nvmlShutdown()


def read_process_vram(pids: frozenset[int], library: Any = pynvml) -> int | None:
    """Return the VRAM that these processes use on all GPUs together; None if the driver does not say.

    None also if the driver names none of them: in a container it may know them by other numbers. Raises as `read_nvml`.
    """
    try:
        library.nvmlInit()
    except pynvml.NVMLError as error:
        raise _make_nvml_error(error) from error
    try:
        sizes = [
            size for index in range(library.nvmlDeviceGetCount()) for size in _list_used_vram(library, index, pids)
        ]
        return None if not sizes or None in sizes else sum(size for size in sizes if size is not None)
    except pynvml.NVMLError as error:
        raise _make_nvml_error(error) from error
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            library.nvmlShutdown()


def _list_used_vram(library: Any, index: int, pids: frozenset[int]) -> list[int | None]:
    handle = library.nvmlDeviceGetHandleByIndex(index)
    # One list has programs that compute, the other those that draw; with Vulkan an engine is in the latter.
    lists = (library.nvmlDeviceGetComputeRunningProcesses, library.nvmlDeviceGetGraphicsRunningProcesses)
    found: dict[int, int | None] = {}
    for list_processes in lists:
        for process in _try_read(partial(list_processes, handle)) or ():
            if process.pid in pids:
                found[process.pid] = process.usedGpuMemory
    return list(found.values())


def _read_devices(library: Any) -> tuple[tuple[NvmlDevice, ...], tuple[str, ...]]:
    devices, warnings = [], []
    for index in range(library.nvmlDeviceGetCount()):
        try:
            devices.append(_read_device(library, index))
        except pynvml.NVMLError as error:
            warnings.append(f"NVIDIA GPU {index} does not respond and is left out: {_describe_error(error)}.")
    return tuple(devices), tuple(warnings)


def _read_device(library: Any, index: int) -> NvmlDevice:
    handle = library.nvmlDeviceGetHandleByIndex(index)
    capability = _try_read(lambda: library.nvmlDeviceGetCudaComputeCapability(handle))
    total, free, failure = None, None, None
    try:
        memory = library.nvmlDeviceGetMemoryInfo(handle)
        total, free = int(memory.total), int(memory.free)
    except pynvml.NVMLError as error:
        failure = _describe_error(error)
    return NvmlDevice(
        index=index,
        name=_to_text(_try_read(lambda: library.nvmlDeviceGetName(handle))) or "NVIDIA GPU",
        uuid=_to_text(_try_read(lambda: library.nvmlDeviceGetUUID(handle))),
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        memory_bytes_total=total,
        memory_bytes_free=free,
        memory_failure=failure,
    )


def _try_read(read: Callable[[], Any]) -> Any:
    """Return an optional reading, or None if NVML refuses it."""
    try:
        return read()
    except (pynvml.NVMLError, ValueError):
        return None


def _to_text(value: Any) -> str | None:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return text if isinstance(text, str) and text else None


def _describe_error(error: pynvml.NVMLError) -> str:
    return str(error).rstrip(". ")


def _make_nvml_error(error: pynvml.NVMLError) -> HardwareUnreadable:
    match error.value:
        case pynvml.NVML_ERROR_LIBRARY_NOT_FOUND | pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            return NvmlNotInstalled()
        case pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            message = "The NVIDIA driver in the kernel and its library have different versions."
            return HardwareUnreadable(message, hint=_RELOAD)
        case pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
            return HardwareUnreadable("The NVIDIA driver is installed but not loaded.", hint=_RELOAD)
        case pynvml.NVML_ERROR_NO_PERMISSION:
            hint = "Let this user read and write /dev/nvidia*."
            return HardwareUnreadable("The NVIDIA driver refuses requests of this user.", hint=hint)
        case _:
            return HardwareUnreadable(f"The NVIDIA driver does not respond: {_describe_error(error)}.", hint=_RELOAD)
