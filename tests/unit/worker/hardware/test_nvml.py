"""NVIDIA's library, with its own errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from corral.worker.hardware.hardware_source import HardwareUnreadable, NvmlNotInstalled
from corral.worker.hardware.nvidia import read_nvml, read_process_vram


class Library:
    """The functions of pynvml that are used; a failing one raises pynvml's own error."""

    def __init__(self, devices: int = 1, failures: dict[str, int] | None = None) -> None:
        self._devices = devices
        self._failures = failures or {}
        self.is_open = False
        self.processes: dict[int, list[SimpleNamespace]] = {}

    def _check(self, name: str) -> None:
        if name in self._failures:
            raise pynvml.NVMLError(self._failures[name])

    def nvmlInit(self) -> None:  # noqa: N802 the library's name
        self._check("nvmlInit")
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802 the library's name
        self.is_open = False

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Any] = {
            "nvmlSystemGetDriverVersion": lambda: "580.95.05",
            "nvmlSystemGetCudaDriverVersion_v2": lambda: 13000,
            "nvmlDeviceGetCount": lambda: self._devices,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetName": lambda handle: b"NVIDIA L4",
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
            "nvmlDeviceGetCudaComputeCapability": lambda handle: (8, 9),
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: self.processes.get(handle, []),
            "nvmlDeviceGetGraphicsRunningProcesses": lambda handle: self.processes.get(handle, [])[:1],
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=24152899584, free=0, used=24152899584),
        }

        def call(*arguments: Any) -> Any:
            self._check(name if not arguments else f"{name}:{arguments[0]}")
            return answers[name](*arguments)

        return call


def test_every_fact_is_read_and_the_library_is_let_go():
    library = Library(devices=2)

    reading = read_nvml(library)

    assert (reading.driver_version, reading.cuda_version, reading.warnings) == ("580.95.05", "13.0", ())
    assert [(device.index, device.name, device.uuid) for device in reading.devices] == [
        (0, "NVIDIA L4", "GPU-0"),
        (1, "NVIDIA L4", "GPU-1"),
    ]
    assert (reading.devices[0].memory_bytes_total, reading.devices[0].memory_bytes_free) == (24152899584, 0)
    assert reading.devices[0].compute_capability == "8.9"
    assert not library.is_open


def test_gpu_that_is_lost_costs_a_warning_and_not_its_neighbours():
    library = Library(devices=3, failures={"nvmlDeviceGetHandleByIndex:1": pynvml.NVML_ERROR_GPU_IS_LOST})

    reading = read_nvml(library)

    assert [device.index for device in reading.devices] == [0, 2]
    assert reading.warnings == ("NVIDIA GPU 1 does not respond and is left out: GPU is lost.",)
    assert not library.is_open


def test_memory_that_is_not_supported_is_unknown_with_the_reason():
    (device,) = read_nvml(Library(failures={"nvmlDeviceGetMemoryInfo:0": pynvml.NVML_ERROR_NOT_SUPPORTED})).devices

    assert (device.memory_bytes_total, device.memory_failure) == (None, "Not Supported")


def test_facts_that_are_nice_to_have_may_be_missing():
    failures = dict.fromkeys(
        (
            "nvmlSystemGetDriverVersion",
            "nvmlSystemGetCudaDriverVersion_v2",
            "nvmlDeviceGetName:0",
            "nvmlDeviceGetUUID:0",
            "nvmlDeviceGetCudaComputeCapability:0",
        ),
        pynvml.NVML_ERROR_NOT_SUPPORTED,
    )

    reading = read_nvml(Library(failures=failures))

    assert (reading.driver_version, reading.cuda_version) == (None, None)
    device = reading.devices[0]
    assert (device.name, device.uuid, device.compute_capability) == ("NVIDIA GPU", None, None)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "different versions. Reboot"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "not loaded. Reboot"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "/dev/nvidia*"),
        (pynvml.NVML_ERROR_UNKNOWN, "does not respond: Unknown Error. Reboot"),
    ],
)
def test_driver_that_fails_says_why_in_a_sentence(code, words):
    with pytest.raises(HardwareUnreadable) as caught:
        read_nvml(Library(failures={"nvmlInit": code}))

    assert words in caught.value.sentence
    assert not isinstance(caught.value, NvmlNotInstalled)


def test_failure_after_the_start_lets_the_library_go():
    library = Library(failures={"nvmlDeviceGetCount": pynvml.NVML_ERROR_UNKNOWN})

    with pytest.raises(HardwareUnreadable):
        read_nvml(library)

    assert not library.is_open


def test_missing_nvml_library_raises_its_own_error():
    with pytest.raises(NvmlNotInstalled):
        read_nvml(Library(failures={"nvmlInit": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND}))


def test_process_memory_is_summed_over_all_gpus():
    library = Library(devices=2)
    ours, other = SimpleNamespace(pid=7, usedGpuMemory=100), SimpleNamespace(pid=9, usedGpuMemory=5000)
    library.processes = {0: [ours, other], 1: [SimpleNamespace(pid=8, usedGpuMemory=30), other]}
    assert read_process_vram(frozenset({7, 8}), library) == 130
    assert not library.is_open
    # Known by other numbers, as in a container, or not told by the driver: that is unknown, and not nothing.
    assert read_process_vram(frozenset({1}), library) is None
    library.processes[1][0].usedGpuMemory = None
    assert read_process_vram(frozenset({7, 8}), library) is None


def test_machine_without_the_library_has_nothing_to_say_about_processes():
    with pytest.raises(NvmlNotInstalled):
        read_process_vram(frozenset({1}), Library(failures={"nvmlInit": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND}))
