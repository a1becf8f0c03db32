"""Pure parsers of what kernels and vendor tools print.

They take any text: what does not parse is `None` or left out, never an exception and never a negative number.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass

# Twenty digits hold every 64-bit number; longer ones are damage.
_NUMBER = re.compile(r"[0-9]{1,20}", re.ASCII)
_COMPUTE_CAPABILITY = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}", re.ASCII)
_MIB = 1 << 20


def parse_whole_number(text: str | None) -> int | None:
    """Parse a non-negative decimal number that stands alone."""
    if text is None:
        return None
    word = text.strip()
    return int(word) if _NUMBER.fullmatch(word) else None


def parse_key_values(text: str | None, separator: str) -> dict[str, str]:
    """Parse `key<separator>value` lines; the first of equal keys counts."""
    found: dict[str, str] = {}
    for line in (text or "").splitlines():
        key, mark, value = line.partition(separator)
        if mark and key.strip():
            found.setdefault(key.strip(), value.strip())
    return found


def parse_cpu_model(cpuinfo: str | None) -> str | None:
    """Return the processor's name; ARM kernels often do not give it."""
    values = parse_key_values(cpuinfo, ":")
    return values.get("model name") or values.get("Model") or values.get("Hardware") or None


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupPath:
    """The control group of the worker process, which limits its memory: path and version of cgroups."""

    version: int
    path: str


def parse_memory_cgroup(text: str | None) -> CgroupPath | None:
    """Return the control group that bounds this process's memory, out of /proc/self/cgroup.

    On a mixed system the memory controller lives in version 1 when it has a line there.
    """
    unified: CgroupPath | None = None
    for line in (text or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        number, controllers, path = parts
        if "memory" in controllers.split(","):
            return CgroupPath(version=1, path=path)
        if number == "0" and not controllers:
            unified = CgroupPath(version=2, path=path)
    return unified


def list_cgroup_levels(path: str) -> tuple[str, ...]:
    """Return the group itself, then each one above it, up to "" for the root. `/..` leads out of our view: the root."""
    parts = [part for part in path.strip().split("/") if part not in {"", "."}]
    if ".." in parts:
        parts = []
    return tuple("".join(f"/{part}" for part in parts[:length]) for length in range(len(parts), -1, -1))


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaSmiRow:
    """One GPU in the output of NVIDIA's tool nvidia-smi; a value that it prints as [N/A] is None."""

    index: int
    name: str
    uuid: str | None
    memory_bytes_total: int | None
    memory_bytes_free: int | None
    compute_capability: str | None
    driver_version: str | None


SMI_QUERY = "index,name,uuid,memory.total,memory.free,compute_cap,driver_version"


def parse_nvidia_smi_rows(text: str) -> tuple[NvidiaSmiRow, ...]:
    """Parse the output of `nvidia-smi --query-gpu=… --format=csv,noheader,nounits`; sizes there are MiB."""
    return tuple(_iterate_smi_rows(text))


def _iterate_smi_rows(text: str) -> Iterator[NvidiaSmiRow]:
    for line in text.splitlines():
        try:
            cells = next(csv.reader([line], skipinitialspace=True), [])
        except csv.Error:
            continue
        index = parse_whole_number(cells[0]) if len(cells) == 7 else None
        if index is None:
            continue
        known = [None if not cell.strip() or cell.strip().startswith("[") else cell.strip() for cell in cells]
        total, free = _parse_mebibytes(known[3]), _parse_mebibytes(known[4])
        yield NvidiaSmiRow(
            index=index,
            name=known[1] or "NVIDIA GPU",
            uuid=known[2],
            memory_bytes_total=total,
            memory_bytes_free=free,
            compute_capability=parse_compute_capability(known[5]),
            driver_version=known[6],
        )


def _parse_mebibytes(text: str | None) -> int | None:
    number = parse_whole_number(text)
    return None if number is None else number * _MIB


def parse_compute_capability(text: str | None) -> str | None:
    """Return `major.minor`, or None."""
    return text if text is not None and _COMPUTE_CAPABILITY.fullmatch(text) else None


def parse_cuda_majors(names: tuple[str, ...]) -> frozenset[int]:
    """Return major versions of the CUDA toolkits among the names in /usr/local: cuda-13, cuda-12.4."""
    found = (re.fullmatch(r"cuda-([0-9]{1,3})(?:\.[0-9]{1,3})?", name, re.ASCII) for name in names)
    return frozenset(int(match[1]) for match in found if match)


@dataclass(frozen=True, slots=True, kw_only=True)
class VulkanDevice:
    """One GPU in the output of the tool vulkaninfo."""

    name: str
    device_type: str
    driver: str | None
    uuid: str | None


def parse_vulkan_devices(text: str) -> tuple[VulkanDevice, ...]:
    """Return real GPUs in `vulkaninfo --summary`; a software renderer is a CPU and no GPU."""
    blocks = re.split(r"^GPU[0-9]+:\s*$", text, flags=re.MULTILINE | re.ASCII)[1:]
    devices = []
    for block in blocks:
        values = parse_key_values(block, "=")
        device_type = values.get("deviceType", "").removeprefix("PHYSICAL_DEVICE_TYPE_")
        if device_type in {"DISCRETE_GPU", "INTEGRATED_GPU", "VIRTUAL_GPU"}:
            devices.append(
                VulkanDevice(
                    name=values.get("deviceName") or "Vulkan GPU",
                    device_type=device_type,
                    driver=values.get("driverInfo") or values.get("driverName") or None,
                    uuid=values.get("deviceUUID") or None,
                )
            )
    return tuple(devices)


def find_pci_device_name(database: str, vendor: str, device: str) -> str | None:
    """Return the name of a card in the text of pci.ids; both ids are four hexadecimal digits."""
    in_vendor = False
    for line in database.splitlines():
        if in_vendor and line.startswith(f"\t{device}  "):
            return line[len(device) + 3 :].strip() or None
        if line and line[0] not in "\t#":
            if in_vendor:
                return None
            in_vendor = line.startswith(f"{vendor}  ")
    return None


def parse_amd_metrics_revision(content: bytes | None) -> int | None:
    """Return `format_revision` of amdgpu's binary gpu_metrics: 1 on cards, 2 and 3 on processors with graphics."""
    return content[2] if content is not None and len(content) >= 4 else None


def parse_l4t_release(text: str | None) -> str | None:
    """Return the release, such as `36.4.3`, out of /etc/nv_tegra_release."""
    match = re.search(r"R([0-9]{1,4}) \(release\), REVISION: ([0-9.]{1,16})", text or "", re.ASCII)
    return f"{match[1]}.{match[2]}" if match else None
