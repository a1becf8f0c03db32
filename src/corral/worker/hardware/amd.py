"""AMD: cards and processors with graphics, from the files of the amdgpu driver.

A processor's graphics use a part of RAM that the firmware set aside and, beyond it, ordinary RAM through the GTT; the
driver takes either, so both count. The part set aside is not in the machine's RAM total, the GTT is.
"""

from __future__ import annotations

from collections.abc import Callable

from corral.worker.hardware import drm, parse
from corral.worker.hardware.found import Found, vram
from corral.worker.hardware.machine import Machine, read_text
from corral.worker.hardware.reading import GpuReading, MemoryReading


def detect_amd(machine: Machine, ram: MemoryReading) -> Found:
    """All AMD GPUs that the amdgpu driver runs."""
    return _read(machine, ram, lambda card: drm.card_name(machine, card, "AMD"))


def refresh_amd(machine: Machine, ram: MemoryReading) -> Found:
    """The same without names: those need the PCI database."""
    return _read(machine, ram, lambda _card: "")


def _read(machine: Machine, ram: MemoryReading, name_of: Callable[[drm.DrmCard], str]) -> Found:
    gpus: list[GpuReading] = []
    warnings: list[str] = []
    for card in drm.list_cards(machine, drm.AMD):
        if not drm.is_reachable(machine, card):
            warnings.append(drm.unreachable_sentence(card, "AMD", "/dev/kfd and /dev/dri"))
            continue
        index = len(gpus)
        total, available, unified = _memory(machine, card, ram)
        if total is None:
            driver = card.driver or "none"
            warnings.append(f"The memory of AMD GPU {index} is not known: its driver ({driver}) does not say.")
        gpus.append(
            GpuReading(
                vendor="amd",
                name=name_of(card),
                index=index,
                vram_bytes_total=total,
                vram_bytes_available=available,
                driver=read_text(machine, "/sys/module/amdgpu/version") or card.driver,
                uuid=read_text(machine, f"{card.device}/unique_id") or None,
                address=card.address,
                unified=unified,
            )
        )
    return Found(gpus=tuple(gpus), warnings=tuple(warnings))


def _memory(machine: Machine, card: drm.DrmCard, ram: MemoryReading) -> tuple[int | None, int | None, bool]:
    own_total, own_available = _pool(machine, card, "vram")
    revision = parse.amd_metrics_revision(machine.read(f"{card.device}/gpu_metrics"))
    if revision is None or revision < 2:
        return own_total, own_available, False
    shared_total, shared_available = _pool(machine, card, "gtt")
    if shared_total is None:
        return own_total, own_available, True
    total = (own_total or 0) + min(shared_total, ram.total_bytes)
    if shared_available is None or (own_total is not None and own_available is None):
        return total, None, True
    available = (own_available or 0) + min(shared_available, ram.available_bytes)
    return total, min(available, total), True


def _pool(machine: Machine, card: drm.DrmCard, pool: str) -> tuple[int | None, int | None]:
    total = parse.whole_number(read_text(machine, f"{card.device}/mem_info_{pool}_total"))
    used = parse.whole_number(read_text(machine, f"{card.device}/mem_info_{pool}_used"))
    return vram(total, None if total is None or used is None else total - used)
