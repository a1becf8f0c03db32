"""NVIDIA's management library, read once and let go.

Initialised and shut down for each reading, so that a worker never keeps the driver from being updated. A GPU that does
not answer costs a warning, not the other GPUs. The library is passed in: its types are ctypes and stay here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pynvml

from corral.worker.hardware.machine import NvmlAbsent, NvmlDevice, NvmlReading, ReadingFailed

_RELOAD = "Reboot, or reload the NVIDIA kernel modules, to use its GPUs."


def read_nvml(library: Any = pynvml) -> NvmlReading:
    """What NVML says; raises `NvmlAbsent` or `ReadingFailed`."""
    try:
        library.nvmlInit()
    except pynvml.NVMLError as error:
        raise _unusable(error) from error
    try:
        devices, warnings = _devices(library)
        cuda = _ask(library.nvmlSystemGetCudaDriverVersion_v2)
        return NvmlReading(
            driver_version=_text(_ask(library.nvmlSystemGetDriverVersion)),
            cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
            devices=devices,
            warnings=warnings,
        )
    except pynvml.NVMLError as error:
        raise _unusable(error) from error
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            library.nvmlShutdown()


def read_vram_of(pids: frozenset[int], library: Any = pynvml) -> int | None:
    """What these processes take of all GPUs together; None if the driver does not say.

    None also if it names none of them: in a container it may know them by other numbers. Raises as `read_nvml`.
    """
    try:
        library.nvmlInit()
    except pynvml.NVMLError as error:
        raise _unusable(error) from error
    try:
        sizes = [size for index in range(library.nvmlDeviceGetCount()) for size in _used_on(library, index, pids)]
        return None if not sizes or None in sizes else sum(size for size in sizes if size is not None)
    except pynvml.NVMLError as error:
        raise _unusable(error) from error
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            library.nvmlShutdown()


def _used_on(library: Any, index: int, pids: frozenset[int]) -> list[int | None]:
    handle = library.nvmlDeviceGetHandleByIndex(index)
    # The one list has programs that compute, the other those that draw; with Vulkan an engine is in the latter.
    lists = (library.nvmlDeviceGetComputeRunningProcesses, library.nvmlDeviceGetGraphicsRunningProcesses)
    found: dict[int, int | None] = {}
    for ask in lists:
        for process in _ask(partial(ask, handle)) or ():
            if process.pid in pids:
                found[process.pid] = process.usedGpuMemory
    return list(found.values())


def _devices(library: Any) -> tuple[tuple[NvmlDevice, ...], tuple[str, ...]]:
    devices, warnings = [], []
    for index in range(library.nvmlDeviceGetCount()):
        try:
            devices.append(_device(library, index))
        except pynvml.NVMLError as error:
            warnings.append(f"NVIDIA GPU {index} does not answer and is left out: {_words(error)}.")
    return tuple(devices), tuple(warnings)


def _device(library: Any, index: int) -> NvmlDevice:
    handle = library.nvmlDeviceGetHandleByIndex(index)
    capability = _ask(lambda: library.nvmlDeviceGetCudaComputeCapability(handle))
    total, free, failure = None, None, None
    try:
        memory = library.nvmlDeviceGetMemoryInfo(handle)
        total, free = int(memory.total), int(memory.free)
    except pynvml.NVMLError as error:
        failure = _words(error)
    return NvmlDevice(
        index=index,
        name=_text(_ask(lambda: library.nvmlDeviceGetName(handle))) or "NVIDIA GPU",
        uuid=_text(_ask(lambda: library.nvmlDeviceGetUUID(handle))),
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        memory_bytes_total=total,
        memory_bytes_free=free,
        memory_failure=failure,
    )


def _ask(question: Callable[[], Any]) -> Any:
    """An answer that is nice to have."""
    try:
        return question()
    except (pynvml.NVMLError, ValueError):
        return None


def _text(value: Any) -> str | None:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return text if isinstance(text, str) and text else None


def _words(error: pynvml.NVMLError) -> str:
    return str(error).rstrip(". ")


def _unusable(error: pynvml.NVMLError) -> ReadingFailed:
    match error.value:
        case pynvml.NVML_ERROR_LIBRARY_NOT_FOUND | pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            return NvmlAbsent()
        case pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            message = "The NVIDIA driver in the kernel and its library have different versions."
            return ReadingFailed(message, hint=_RELOAD)
        case pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
            return ReadingFailed("The NVIDIA driver is installed but not loaded.", hint=_RELOAD)
        case pynvml.NVML_ERROR_NO_PERMISSION:
            hint = "Let this user read and write /dev/nvidia*."
            return ReadingFailed("The NVIDIA driver refuses to answer this user.", hint=hint)
        case _:
            return ReadingFailed(f"The NVIDIA driver does not answer: {_words(error)}.", hint=_RELOAD)
