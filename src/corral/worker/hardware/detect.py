"""Detection of everything, once.

May block for a few seconds: call it in a thread. It never raises because of what a machine is or lacks; what could not
be read is a sentence in `warnings`.
"""

from __future__ import annotations

from collections.abc import Callable

from corral.worker.hardware import parse
from corral.worker.hardware.amd import detect_amd
from corral.worker.hardware.capability import CAPABILITY_FILE, CapabilityFacts, Override, decide_capability
from corral.worker.hardware.found import Found
from corral.worker.hardware.intel import detect_intel
from corral.worker.hardware.machine import Machine, PlatformFacts, ReadingFailed, read_text
from corral.worker.hardware.memory import read_memory
from corral.worker.hardware.nvidia import detect_nvidia
from corral.worker.hardware.others import detect_apple, detect_vulkan, mac_cpu_model
from corral.worker.hardware.reading import HardwareReading, MemoryReading
from corral.worker.hardware.totals import Usable, distinct, with_gpus


def detect(
    machine: Machine, forced_capability: str | None, *, capability_file: str = CAPABILITY_FILE
) -> HardwareReading:
    """Read the whole machine."""
    platform = machine.platform()
    ram, memory_warnings = _memory(machine)
    cpu_model = _cpu_model(machine, platform)
    found = _gpus(machine, platform, ram, cpu_model)
    used = Usable.of(found.gpus)
    capability, capability_warnings = decide_capability(
        CapabilityFacts(
            system=platform.system,
            architecture=platform.architecture,
            gpu_vendor=used.vendor,
            vram_bytes_total=used.total,
            unified_memory=used.unified,
            cuda_toolkits=parse.cuda_majors(machine.list_directory("/usr/local")),
            cuda_driver=found.cuda_major,
        ),
        (
            Override(text=forced_capability, origin="the settings"),
            Override(text=read_text(machine, capability_file), origin=capability_file),
        ),
    )
    cpu = machine.cpu()
    threads = max(cpu.logical or 1, 1)
    reading = HardwareReading(
        cpu_model=cpu_model,
        cpu_cores=max(cpu.physical or threads, 1),
        cpu_threads=threads,
        architecture=platform.architecture,
        system=platform.system,
        ram_bytes_total=ram.total_bytes,
        ram_bytes_available=ram.available_bytes,
        capability=capability,
        warnings=distinct((*memory_warnings, *found.warnings, *capability_warnings)),
    )
    return with_gpus(reading, found.gpus)


def _memory(machine: Machine) -> tuple[MemoryReading, tuple[str, ...]]:
    try:
        return read_memory(machine), ()
    except ReadingFailed as failure:
        # Nothing fits into 0 bytes: such a machine gets no work, and says why.
        return MemoryReading(total_bytes=0, available_bytes=0), (failure.sentence,)


def _cpu_model(machine: Machine, platform: PlatformFacts) -> str | None:
    if platform.system == "darwin":
        return mac_cpu_model(machine)
    return parse.cpu_model(read_text(machine, "/proc/cpuinfo"))


def _gpus(machine: Machine, platform: PlatformFacts, ram: MemoryReading, cpu_model: str | None) -> Found:
    if platform.system == "darwin":
        return detect_apple(ram, cpu_model) if platform.architecture == "arm64" else Found()
    found = _join(
        _guarded(lambda: detect_nvidia(machine, ram)),
        _guarded(lambda: detect_amd(machine, ram)),
        _guarded(lambda: detect_intel(machine)),
    )
    return found if found.gpus else _join(found, _guarded(lambda: detect_vulkan(machine)))


def _guarded(detector: Callable[[], Found]) -> Found:
    try:
        return detector()
    except ReadingFailed as failure:
        return Found(warnings=(failure.sentence,))


def _join(*parts: Found) -> Found:
    return Found(
        gpus=tuple(gpu for part in parts for gpu in part.gpus),
        warnings=tuple(warning for part in parts for warning in part.warnings),
        cuda_major=next((part.cuda_major for part in parts if part.cuda_major is not None), None),
    )
