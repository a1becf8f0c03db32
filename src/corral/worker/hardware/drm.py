"""Graphics cards as the kernel lists them.

Lists cards with a driver under /sys/class/drm, and PCI devices of the display class whether or not a driver took them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from corral.worker.hardware import parse
from corral.worker.hardware.machine import Machine, read_text

NVIDIA = "0x10de"
AMD = "0x1002"
INTEL = "0x8086"
_PCI_IDS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrmCard:
    directory: str
    vendor_id: str
    device_id: str
    driver: str | None
    address: str | None

    @property
    def device(self) -> str:
        return f"{self.directory}/device"


def list_cards(machine: Machine, vendor_id: str) -> tuple[DrmCard, ...]:
    """Cards of one vendor in the order of their PCI addresses, which is the order that engines number them in."""
    cards = []
    for name in machine.list_directory("/sys/class/drm"):
        directory = f"/sys/class/drm/{name}"
        if not re.fullmatch(r"card[0-9]+", name) or read_text(machine, f"{directory}/device/vendor") != vendor_id:
            continue
        event = parse.key_values(read_text(machine, f"{directory}/device/uevent"), "=")
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


def is_reachable(machine: Machine, card: DrmCard) -> bool:
    """Whether engines can open the card. A container sees the host's sysfs, but only the devices that it was given."""
    given = {name for name in machine.list_directory("/dev/dri") if name.startswith("renderD")}
    nodes = {name for name in machine.list_directory(f"{card.device}/drm") if name.startswith("renderD")}
    return bool(given & nodes) if nodes else bool(given)


def unreachable_sentence(card: DrmCard, brand: str, devices: str) -> str:
    """Why a card is left out, and what to do."""
    return (
        f"The {brand} GPU at {card.address or card.directory} is not used: this process has no device file for it. "
        f"In a container, pass {devices} to it."
    )


def has_display_device(machine: Machine, vendor_id: str) -> bool:
    """Whether a PCI device of the display class (0x03) is there, driver or not."""
    for name in machine.list_directory("/sys/bus/pci/devices"):
        directory = f"/sys/bus/pci/devices/{name}"
        if read_text(machine, f"{directory}/vendor") != vendor_id:
            continue
        if (read_text(machine, f"{directory}/class") or "").startswith("0x03"):
            return True
    return False


def card_name(machine: Machine, card: DrmCard, brand: str) -> str:
    """The card's name: its own, else the one in the PCI database, else the number that it is sold under."""
    own = read_text(machine, f"{card.device}/product_name")
    if own:
        return own
    vendor, device = card.vendor_id.removeprefix("0x"), card.device_id.removeprefix("0x")
    for path in _PCI_IDS:
        database = read_text(machine, path)
        known = parse.pci_device_name(database, vendor, device) if database else None
        if known:
            return f"{brand} {known}"
    return f"{brand} GPU {device}".strip()
