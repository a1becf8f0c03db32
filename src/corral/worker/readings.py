"""The machine's figures for registrations and heartbeats.

Everything is detected once; later only what changes is read again. While something could not be read, detection is
repeated every few minutes: a driver may come up after the worker. Each warning is logged once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import structlog

from corral.ports.runtime import Clock
from corral.worker.hardware import HardwareReading, Machine, as_report, detect, read_disk, refresh

log = structlog.get_logger(__name__)

DETECT_AGAIN_S = 300.0


class Readings(Protocol):
    async def read(self) -> Mapping[str, object]:
        """The wire fields of this machine, now."""
        ...


class MachineReadings:
    """Reads in a thread: drivers and mounts may take seconds."""

    def __init__(self, machine: Machine, *, models_dir: Path, capability: str | None, clock: Clock) -> None:
        self._machine = machine
        self._models_dir = models_dir
        self._capability = capability
        self._clock = clock
        self._reading: HardwareReading | None = None
        self._detected_at = 0.0
        self._said: set[str] = set()

    async def read(self) -> Mapping[str, object]:
        report, warnings = await asyncio.to_thread(self._read)
        for warning in warnings:
            if warning not in self._said:
                self._said.add(warning)
                log.warning("hardware", problem=warning)
        return report

    def _read(self) -> tuple[dict[str, object], tuple[str, ...]]:
        now = self._clock.monotonic()
        known = self._reading
        is_due = known is not None and known.warnings and now - self._detected_at >= DETECT_AGAIN_S
        if known is None or is_due:
            reading = detect(self._machine, self._capability)
            self._detected_at = now
        else:
            reading = refresh(self._machine, known)
        self._reading = reading
        return as_report(reading, read_disk(self._models_dir)), reading.warnings
