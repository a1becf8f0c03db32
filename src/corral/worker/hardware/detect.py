"""Detects the whole hardware of a machine once, and refreshes the figures that change for each heartbeat.

NVIDIA, AMD and Intel have detectors of their own; Apple's chips, and GPUs that only Vulkan knows, are detected here.
May block for a few seconds: call it in a thread. Detection never raises because of what a machine is or lacks; a part
that could not be read becomes a sentence in `warnings`.

One word says what a machine can run (`decide_capability`, pure: the first match wins); backends name the words that
they are built for.

    1 the setting            4 Linux on ARM with NVIDIA: nvidia-l4t…   7 NVIDIA: nvidia-cuda-13, -12
    2 the capability file    5 no GPU: default                         8 the vendor's word
    3 macOS                  6 at most 4 GiB of VRAM: default
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from corral.worker.hardware import parsers
from corral.worker.hardware.drm import detect_amd, detect_intel, refresh_amd, refresh_intel
from corral.worker.hardware.hardware_source import HardwareSource, HardwareUnreadable, PlatformFacts, read_text
from corral.worker.hardware.nvidia import detect_nvidia
from corral.worker.hardware.reading import (
    VENDORS,
    GpuDetection,
    GpuReading,
    HardwareReading,
    MemoryReading,
    UsableGpus,
    remove_duplicates,
    with_gpus,
)

CAPABILITY_FILE = "/run/corral/capability"
# A GPU below this holds no useful model beside its own buffers; the CPU build serves better.
SMALL_VRAM_BYTES = 4 << 30
_CUDA_MAJORS = (13, 12)
# The registry's column holds 64 characters.
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityFacts:
    """Facts from which a worker decides its machine's capability, such as `nvidia-cuda-12`, which selects builds.

    These are system, architecture, GPU, memory and CUDA versions.
    """

    system: str
    architecture: str
    gpu_vendor: str | None
    vram_bytes_total: int | None
    unified_memory: bool
    # Majors of the CUDA toolkits that are installed, and the newest major that the driver runs.
    cuda_toolkits: frozenset[int]
    cuda_driver: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityOverride:
    """A capability that an admin has set for a machine instead of the detected one, and where it was set."""

    text: str | None
    origin: str


def decide_capability(facts: CapabilityFacts, overrides: tuple[CapabilityOverride, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the capability, and a warning for each override that is not one word and was therefore ignored."""
    warnings: list[str] = []
    for override in overrides:  # 1, 2
        word = (override.text or "").strip()
        if _WORD.fullmatch(word):
            return word, tuple(warnings)
        if word:
            warnings.append(f"The capability in {override.origin} is not one plain word and is ignored.")
    return _detect_capability(facts), tuple(warnings)


def _detect_capability(facts: CapabilityFacts) -> str:
    if facts.system == "darwin":  # 3
        return "metal" if facts.architecture == "arm64" else "darwin-x86"
    if facts.system == "linux" and facts.architecture == "arm64" and facts.gpu_vendor == "nvidia":  # 4
        newest = next((major for major in _CUDA_MAJORS if major in facts.cuda_toolkits), None)
        return f"nvidia-l4t-cuda-{newest}" if newest else "nvidia-l4t"
    if facts.gpu_vendor is None or _is_small(facts):  # 5, 6
        return "default"
    if facts.gpu_vendor == "nvidia":  # 7
        cuda = _choose_cuda_major(facts)
        return f"nvidia-cuda-{cuda}" if cuda else "nvidia"
    return facts.gpu_vendor  # 8


def _is_small(facts: CapabilityFacts) -> bool:
    """Return whether the GPU is too small. Unknown memory is not small, except where the GPU has no memory of its own
    at all."""
    if facts.vram_bytes_total is None:
        return facts.unified_memory
    return facts.vram_bytes_total <= SMALL_VRAM_BYTES


def _choose_cuda_major(facts: CapabilityFacts) -> int | None:
    """Return the newest installed toolkit that the driver can run; without one, the driver's own version.

    A driver runs everything older than itself, and nothing newer.
    """
    limit = facts.cuda_driver if facts.cuda_driver is not None else max(_CUDA_MAJORS)
    runnable = [major for major in _CUDA_MAJORS if major <= limit]
    installed = [major for major in runnable if major in facts.cuda_toolkits]
    if installed:
        return installed[0]
    return runnable[0] if runnable and facts.cuda_driver is not None else None


_SYSCTL = ("sysctl", "-n", "machdep.cpu.brand_string")
_VULKANINFO = ("vulkaninfo", "--summary")


@dataclass(frozen=True, slots=True, kw_only=True)
class _CgroupFiles:
    """Names the files that hold the memory limits in one version of cgroups."""

    root: str
    limit: str
    usage: str
    cache: str


# "max" in version 2 is no number; version 1 writes a number near 2^63 instead, far above any physical memory.
_CGROUP_FILES = {
    1: _CgroupFiles(
        root="/sys/fs/cgroup/memory",
        limit="memory.limit_in_bytes",
        usage="memory.usage_in_bytes",
        cache="total_inactive_file",
    ),
    2: _CgroupFiles(root="/sys/fs/cgroup", limit="memory.max", usage="memory.current", cache="inactive_file"),
}


def read_memory(machine: HardwareSource) -> MemoryReading:
    """Return total and available RAM; raise `HardwareUnreadable` when the machine's memory cannot be read.

    A container's limit is as real as the end of the physical memory: total is the smallest limit on the way from our
    control group to the root, and available leaves room for what the group already uses, except for file cache that
    the kernel would drop first. `memory.high` and swap are not counted, and cgroups are expected in their usual place.
    """
    facts = machine.read_memory()
    total = max(facts.total_bytes, 0)
    available = max(facts.available_bytes, 0)
    if machine.read_platform().system == "linux":
        for limit, used in _iterate_limits(machine, facts.total_bytes):
            total = min(total, limit)
            available = min(available, max(limit - used, 0))
    return MemoryReading(total_bytes=total, available_bytes=min(available, total))


def _iterate_limits(machine: HardwareSource, physical_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield each limit below the physical memory, with the bytes used of it."""
    group = parsers.parse_memory_cgroup(read_text(machine, "/proc/self/cgroup"))
    if group is None:
        return
    files = _CGROUP_FILES[group.version]
    for level in parsers.list_cgroup_levels(group.path):
        directory = f"{files.root}{level}"
        limit = parsers.parse_whole_number(read_text(machine, f"{directory}/{files.limit}"))
        if limit is None or limit >= physical_bytes:
            continue
        usage = parsers.parse_whole_number(read_text(machine, f"{directory}/{files.usage}")) or 0
        statistics = read_text(machine, f"{directory}/memory.stat")
        cache = parsers.parse_whole_number(parsers.parse_key_values(statistics, " ").get(files.cache)) or 0
        yield limit, max(usage - cache, 0)


def detect_hardware(
    machine: HardwareSource, forced_capability: str | None, *, capability_file: str = CAPABILITY_FILE
) -> HardwareReading:
    """Read the whole machine."""
    platform = machine.read_platform()
    ram, memory_warnings = _try_read_memory(machine)
    cpu_model = _read_cpu_model(machine, platform)
    found = _detect_gpus(machine, platform, ram, cpu_model)
    used = UsableGpus.from_gpus(found.gpus)
    capability, capability_warnings = decide_capability(
        CapabilityFacts(
            system=platform.system,
            architecture=platform.architecture,
            gpu_vendor=used.vendor,
            vram_bytes_total=used.total,
            unified_memory=used.unified,
            cuda_toolkits=parsers.parse_cuda_majors(machine.list_directory("/usr/local")),
            cuda_driver=found.cuda_major,
        ),
        (
            CapabilityOverride(text=forced_capability, origin="the settings"),
            CapabilityOverride(text=read_text(machine, capability_file), origin=capability_file),
        ),
    )
    cpu = machine.read_cpu()
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
        warnings=remove_duplicates((*memory_warnings, *found.warnings, *capability_warnings)),
    )
    return with_gpus(reading, found.gpus)


def _try_read_memory(machine: HardwareSource) -> tuple[MemoryReading, tuple[str, ...]]:
    try:
        return read_memory(machine), ()
    except HardwareUnreadable as failure:
        # Nothing fits into 0 bytes: such a machine gets no work, and says why.
        return MemoryReading(total_bytes=0, available_bytes=0), (failure.sentence,)


def _read_cpu_model(machine: HardwareSource, platform: PlatformFacts) -> str | None:
    if platform.system == "darwin":
        return read_mac_cpu_model(machine)
    return parsers.parse_cpu_model(read_text(machine, "/proc/cpuinfo"))


def _detect_gpus(
    machine: HardwareSource, platform: PlatformFacts, ram: MemoryReading, cpu_model: str | None
) -> GpuDetection:
    if platform.system == "darwin":
        return detect_apple(ram, cpu_model) if platform.architecture == "arm64" else GpuDetection()
    found = _merge_detections(
        _run_detector(lambda: detect_nvidia(machine, ram)),
        _run_detector(lambda: detect_amd(machine, ram)),
        _run_detector(lambda: detect_intel(machine)),
    )
    return found if found.gpus else _merge_detections(found, _run_detector(lambda: detect_vulkan(machine)))


def _run_detector(detector: Callable[[], GpuDetection]) -> GpuDetection:
    try:
        return detector()
    except HardwareUnreadable as failure:
        return GpuDetection(warnings=(failure.sentence,))


def _merge_detections(*parts: GpuDetection) -> GpuDetection:
    return GpuDetection(
        gpus=tuple(gpu for part in parts for gpu in part.gpus),
        warnings=tuple(warning for part in parts for warning in part.warnings),
        cuda_major=next((part.cuda_major for part in parts if part.cuda_major is not None), None),
    )


def refresh_hardware(machine: HardwareSource, previous: HardwareReading) -> HardwareReading:
    """Read again, cheaply, what changes while engines run: free RAM and VRAM. Vendors and the capability stay.

    Only the drivers of detected GPUs are read. A GPU that does not respond this time becomes unknown: an outdated
    number could let a model be placed on it.
    """
    try:
        ram, passing = read_memory(machine), []
    except HardwareUnreadable as failure:
        ram = MemoryReading(total_bytes=previous.ram_bytes_total, available_bytes=previous.ram_bytes_available)
        passing = [failure.sentence]
    gpus: list[GpuReading] = []
    for vendor in VENDORS:
        known = [gpu for gpu in previous.gpus if gpu.vendor == vendor]
        if known:
            refreshed, warnings = _refresh_gpus(machine, vendor, ram, known)
            gpus.extend(refreshed)
            passing.extend(warnings)
    lasting = [warning for warning in previous.warnings if warning not in previous.passing_warnings]
    new_warnings = tuple(warning for warning in remove_duplicates(passing) if warning not in lasting)
    reading = replace(
        previous,
        ram_bytes_total=ram.total_bytes,
        ram_bytes_available=ram.available_bytes,
        warnings=(*lasting, *new_warnings),
        passing_warnings=new_warnings,
    )
    return with_gpus(reading, tuple(gpus))


def _refresh_gpus(
    machine: HardwareSource, vendor: str, ram: MemoryReading, known: list[GpuReading]
) -> tuple[list[GpuReading], tuple[str, ...]]:
    """Return the same GPUs with fresh memory. One that does not respond keeps its place, with unknown memory."""
    if all(gpu.unified for gpu in known) and vendor in {"nvidia", "apple"}:
        total, available = ram.total_bytes, ram.available_bytes
        return [replace(gpu, vram_bytes_total=total, vram_bytes_available=available) for gpu in known], ()
    readers: dict[str, Callable[[], GpuDetection]] = {
        "nvidia": lambda: detect_nvidia(machine, ram),
        "amd": lambda: refresh_amd(machine, ram),
        "intel": lambda: refresh_intel(machine),
    }
    reader = readers.get(vendor)
    if reader is None:
        return known, ()
    try:
        found = reader()
    except HardwareUnreadable as failure:
        found = GpuDetection(warnings=(failure.sentence,))
    if not found.gpus and found.warnings:
        return [replace(gpu, vram_bytes_available=None) for gpu in known], found.warnings
    fresh = {_get_identity(gpu): gpu for gpu in found.gpus}
    lost = [gpu for gpu in known if _get_identity(gpu) not in fresh]
    warnings = (f"GPU {gpu.index} ({gpu.name}) is no longer reported by its driver." for gpu in lost)
    return [_update_memory(gpu, fresh.get(_get_identity(gpu))) for gpu in known], (*found.warnings, *warnings)


def _update_memory(known: GpuReading, fresh: GpuReading | None) -> GpuReading:
    return replace(
        known,
        vram_bytes_total=fresh.vram_bytes_total if fresh else None,
        vram_bytes_available=fresh.vram_bytes_available if fresh else None,
    )


def _get_identity(gpu: GpuReading) -> str:
    return gpu.address or gpu.uuid or str(gpu.index)


def read_mac_cpu_model(machine: HardwareSource) -> str | None:
    """Return the processor's name, such as `Apple M2 Pro`."""
    try:
        return machine.run_tool(_SYSCTL).strip() or None
    except HardwareUnreadable:
        return None


def detect_apple(ram: MemoryReading, cpu_model: str | None) -> GpuDetection:
    """Return the GPU of an Apple chip, which shares all RAM. Metal lets one program have a smaller share; the engine
    finds out."""
    gpu = GpuReading(
        vendor="apple",
        name=f"{cpu_model or 'Apple'} GPU",
        index=0,
        vram_bytes_total=ram.total_bytes,
        vram_bytes_available=ram.available_bytes,
        driver="Metal",
        unified=True,
    )
    return GpuDetection(gpus=(gpu,))


def detect_vulkan(machine: HardwareSource) -> GpuDetection:
    """Return the GPUs that only Vulkan knows: it proves a GPU, but does not say what is free.

    Nothing is run where the kernel has no render node.
    """
    if not any(name.startswith("renderD") for name in machine.list_directory("/dev/dri")):
        return GpuDetection()
    try:
        devices = parsers.parse_vulkan_devices(machine.run_tool(_VULKANINFO))
    except HardwareUnreadable:
        # vulkaninfo is rarely installed; its absence says nothing about the machine.
        return GpuDetection()
    return GpuDetection(
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
