"""Detects AMD and Intel GPUs from the files of the kernel's graphics drivers (DRM).

Cards with a driver are found under /sys/class/drm; PCI devices of the display class also without a driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from corral.worker.hardware import parsers
from corral.worker.hardware.hardware_source import HardwareSource, read_text
from corral.worker.hardware.reading import GpuDetection, GpuReading, MemoryReading, normalise_vram

NVIDIA = "0x10de"
AMD = "0x1002"
INTEL = "0x8086"
_PCI_IDS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")
# Graphics inside an Intel processor always sit here.
_INTEGRATED_ADDRESS = "0000:00:02.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrmCard:
    """One graphics card as the Linux kernel lists it under /sys/class/drm."""

    directory: str
    vendor_id: str
    device_id: str
    driver: str | None
    address: str | None

    @property
    def device(self) -> str:
        return f"{self.directory}/device"


def list_cards(machine: HardwareSource, vendor_id: str) -> tuple[DrmCard, ...]:
    """Return the cards of one vendor in the order of their PCI addresses, which is the order that engines number them
    in."""
    cards = []
    for name in machine.list_directory("/sys/class/drm"):
        directory = f"/sys/class/drm/{name}"
        if not re.fullmatch(r"card[0-9]+", name) or read_text(machine, f"{directory}/device/vendor") != vendor_id:
            continue
        event = parsers.parse_key_values(read_text(machine, f"{directory}/device/uevent"), "=")
        cards.append(
            DrmCard(
                directory=directory,
                vendor_id=vendor_id,
                device_id=read_text(machine, f"{directory}/device/device") or "",
                driver=event.get("DRIVER"),
                address=event.get("PCI_SLOT_NAME"),
            )
        )
    return tuple(sorted(cards, key=lambda card: (card.address or "", card.directory)))


def is_reachable(machine: HardwareSource, card: DrmCard) -> bool:
    """Return whether engines can open the card. A container sees the host's sysfs, but only the devices that it was
    given."""
    given = {name for name in machine.list_directory("/dev/dri") if name.startswith("renderD")}
    nodes = {name for name in machine.list_directory(f"{card.device}/drm") if name.startswith("renderD")}
    return bool(given & nodes) if nodes else bool(given)


def describe_unreachable(card: DrmCard, brand: str, devices: str) -> str:
    """Return a sentence on why a card is left out, and what to do."""
    return (
        f"The {brand} GPU at {card.address or card.directory} is not used: this process has no device file for it. "
        f"In a container, pass {devices} to it."
    )


def has_display_device(machine: HardwareSource, vendor_id: str) -> bool:
    """Return whether a PCI device of the display class (0x03) exists, with or without a driver."""
    for name in machine.list_directory("/sys/bus/pci/devices"):
        directory = f"/sys/bus/pci/devices/{name}"
        if read_text(machine, f"{directory}/vendor") != vendor_id:
            continue
        if (read_text(machine, f"{directory}/class") or "").startswith("0x03"):
            return True
    return False


def find_card_name(machine: HardwareSource, card: DrmCard, brand: str) -> str:
    """Return the card's name: its own, else the one in the PCI database, else its device id."""
    own = read_text(machine, f"{card.device}/product_name")
    if own:
        return own
    vendor, device = card.vendor_id.removeprefix("0x"), card.device_id.removeprefix("0x")
    for path in _PCI_IDS:
        database = read_text(machine, path)
        known = parsers.find_pci_device_name(database, vendor, device) if database else None
        if known:
            return f"{brand} {known}"
    return f"{brand} GPU {device}".strip()


def detect_amd(machine: HardwareSource, ram: MemoryReading) -> GpuDetection:
    """Return all AMD GPUs that the amdgpu driver runs.

    A processor's graphics use a part of RAM that the firmware set aside and, beyond it, ordinary RAM through the GTT;
    the driver takes either, so both count. The part set aside is not in the machine's RAM total, the GTT is.
    """
    return _read_amd_gpus(machine, ram, lambda card: find_card_name(machine, card, "AMD"))


def refresh_amd(machine: HardwareSource, ram: MemoryReading) -> GpuDetection:
    """Return the same GPUs without names, which would need the PCI database."""
    return _read_amd_gpus(machine, ram, lambda _card: "")


def _read_amd_gpus(machine: HardwareSource, ram: MemoryReading, get_name: Callable[[DrmCard], str]) -> GpuDetection:
    gpus: list[GpuReading] = []
    warnings: list[str] = []
    for card in list_cards(machine, AMD):
        if not is_reachable(machine, card):
            warnings.append(describe_unreachable(card, "AMD", "/dev/kfd and /dev/dri"))
            continue
        index = len(gpus)
        total, available, unified = _read_amd_memory(machine, card, ram)
        if total is None:
            driver = card.driver or "none"
            warnings.append(f"The memory of AMD GPU {index} is not known: its driver ({driver}) does not say.")
        gpus.append(
            GpuReading(
                vendor="amd",
                name=get_name(card),
                index=index,
                vram_bytes_total=total,
                vram_bytes_available=available,
                driver=read_text(machine, "/sys/module/amdgpu/version") or card.driver,
                uuid=read_text(machine, f"{card.device}/unique_id") or None,
                address=card.address,
                unified=unified,
            )
        )
    return GpuDetection(gpus=tuple(gpus), warnings=tuple(warnings))


def _read_amd_memory(machine: HardwareSource, card: DrmCard, ram: MemoryReading) -> tuple[int | None, int | None, bool]:
    own_total, own_available = _read_amd_pool(machine, card, "vram")
    revision = parsers.parse_amd_metrics_revision(machine.read_file(f"{card.device}/gpu_metrics"))
    if revision is None or revision < 2:
        return own_total, own_available, False
    shared_total, shared_available = _read_amd_pool(machine, card, "gtt")
    if shared_total is None:
        return own_total, own_available, True
    total = (own_total or 0) + min(shared_total, ram.total_bytes)
    if shared_available is None or (own_total is not None and own_available is None):
        return total, None, True
    available = (own_available or 0) + min(shared_available, ram.available_bytes)
    return total, min(available, total), True


def _read_amd_pool(machine: HardwareSource, card: DrmCard, pool: str) -> tuple[int | None, int | None]:
    total = parsers.parse_whole_number(read_text(machine, f"{card.device}/mem_info_{pool}_total"))
    used = parsers.parse_whole_number(read_text(machine, f"{card.device}/mem_info_{pool}_used"))
    return normalise_vram(total, None if total is None or used is None else total - used)


def detect_intel(machine: HardwareSource) -> GpuDetection:
    """Return all Intel GPUs that a driver runs: Arc and data-centre cards, and graphics inside processors.

    The xe driver gives a card's memory (slightly more than is usable) but not what is free; Intel's own build of i915
    gives both; i915 of the mainline kernel gives neither. Graphics inside a processor have no memory of their own.
    """
    return _read_intel_gpus(machine, lambda card: find_card_name(machine, card, "Intel"))


def refresh_intel(machine: HardwareSource) -> GpuDetection:
    """Return the same GPUs without names, which would need the PCI database."""
    return _read_intel_gpus(machine, lambda _card: "")


def _read_intel_gpus(machine: HardwareSource, get_name: Callable[[DrmCard], str]) -> GpuDetection:
    gpus: list[GpuReading] = []
    warnings: list[str] = []
    for card in list_cards(machine, INTEL):
        if not is_reachable(machine, card):
            # Servers have such graphics for their console; a container does not need them.
            if card.address != _INTEGRATED_ADDRESS:
                warnings.append(describe_unreachable(card, "Intel", "/dev/dri"))
            continue
        index = len(gpus)
        total, available = _read_intel_memory(machine, card)
        unified = total is None and card.address == _INTEGRATED_ADDRESS
        if total is None and not unified:
            warnings.append(
                f"The memory of Intel GPU {index} is not known: its driver ({card.driver or 'none'}) does not say. "
                "The xe driver does."
            )
        gpus.append(
            GpuReading(
                vendor="intel",
                name=get_name(card),
                index=index,
                vram_bytes_total=total,
                vram_bytes_available=available,
                driver=card.driver,
                address=card.address,
                unified=unified,
            )
        )
    return GpuDetection(gpus=tuple(gpus), warnings=tuple(warnings))


def _read_intel_memory(machine: HardwareSource, card: DrmCard) -> tuple[int | None, int | None]:
    total = parsers.parse_whole_number(read_text(machine, f"{card.directory}/lmem_total_bytes"))
    if total is not None:
        return normalise_vram(
            total, parsers.parse_whole_number(read_text(machine, f"{card.directory}/lmem_avail_bytes"))
        )
    tiles = [name for name in machine.list_directory(card.device) if re.fullmatch(r"tile[0-9]+", name)]
    paths = (f"{card.device}/{tile}/physical_vram_size_bytes" for tile in tiles)
    return normalise_vram(sum(parsers.parse_whole_number(read_text(machine, path)) or 0 for path in paths), None)
