"""Intel: Arc and data-centre cards, and graphics inside processors.

The xe driver tells a card's memory (slightly more than is usable) but not what is free; Intel's own build of i915 tells
both; i915 of the mainline kernel tells neither. Graphics inside a processor have no memory of their own to report.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from corral.worker.hardware import drm, parse
from corral.worker.hardware.found import Found, vram
from corral.worker.hardware.machine import Machine, read_text
from corral.worker.hardware.reading import GpuReading

# Graphics inside an Intel processor always sit here.
_INTEGRATED_ADDRESS = "0000:00:02.0"


def detect_intel(machine: Machine) -> Found:
    """All Intel GPUs that a driver runs."""
    return _read(machine, lambda card: drm.card_name(machine, card, "Intel"))


def refresh_intel(machine: Machine) -> Found:
    """The same without names: those need the PCI database."""
    return _read(machine, lambda _card: "")


def _read(machine: Machine, name_of: Callable[[drm.DrmCard], str]) -> Found:
    gpus: list[GpuReading] = []
    warnings: list[str] = []
    for card in drm.list_cards(machine, drm.INTEL):
        if not drm.is_reachable(machine, card):
            # Servers have such graphics for their console; nobody misses them in a container.
            if card.address != _INTEGRATED_ADDRESS:
                warnings.append(drm.unreachable_sentence(card, "Intel", "/dev/dri"))
            continue
        index = len(gpus)
        total, available = _memory(machine, card)
        unified = total is None and card.address == _INTEGRATED_ADDRESS
        if total is None and not unified:
            warnings.append(
                f"The memory of Intel GPU {index} is not known: its driver ({card.driver or 'none'}) does not say. "
                "The xe driver does."
            )
        gpus.append(
            GpuReading(
                vendor="intel",
                name=name_of(card),
                index=index,
                vram_bytes_total=total,
                vram_bytes_available=available,
                driver=card.driver,
                address=card.address,
                unified=unified,
            )
        )
    return Found(gpus=tuple(gpus), warnings=tuple(warnings))


def _memory(machine: Machine, card: drm.DrmCard) -> tuple[int | None, int | None]:
    total = parse.whole_number(read_text(machine, f"{card.directory}/lmem_total_bytes"))
    if total is not None:
        return vram(total, parse.whole_number(read_text(machine, f"{card.directory}/lmem_avail_bytes")))
    tiles = [name for name in machine.list_directory(card.device) if re.fullmatch(r"tile[0-9]+", name)]
    paths = (f"{card.device}/{tile}/physical_vram_size_bytes" for tile in tiles)
    return vram(sum(parse.whole_number(read_text(machine, path)) or 0 for path in paths), None)
