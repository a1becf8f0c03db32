"""Reads the machine's figures for registrations and heartbeats.

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
from corral.worker.hardware import (
    HardwareReading,
    HardwareSource,
    detect_hardware,
    make_hardware_report,
    read_disk,
    refresh_hardware,
)

log = structlog.get_logger(__name__)

REDETECT_S = 300.0


class HardwareReader(Protocol):
    """Interface that reads the hardware values which a worker sends with registrations and heartbeats."""

    async def read(self) -> Mapping[str, object]:
        """Return the wire fields of this machine, as of now."""
        ...


class LocalHardwareReader:
    """Reads the worker's hardware in a thread: everything once, later only what changes, again after warnings."""

    def __init__(self, source: HardwareSource, *, models_dir: Path, capability: str | None, clock: Clock) -> None:
        self._source = source
        self._models_dir = models_dir
        self._capability = capability
        self._clock = clock
        self._reading: HardwareReading | None = None
        self._detected_at = 0.0
        self._logged_warnings: set[str] = set()

    async def read(self) -> Mapping[str, object]:
        report, warnings = await asyncio.to_thread(self._read)
        for warning in warnings:
            if warning not in self._logged_warnings:
                self._logged_warnings.add(warning)
                log.warning("hardware", problem=warning)
        return report

    def _read(self) -> tuple[dict[str, object], tuple[str, ...]]:
        now = self._clock.monotonic()
        known = self._reading
        is_due = known is not None and known.warnings and now - self._detected_at >= REDETECT_S
        if known is None or is_due:
            reading = detect_hardware(self._source, self._capability)
            self._detected_at = now
        else:
            reading = refresh_hardware(self._source, known)
        self._reading = reading
        return make_hardware_report(reading, read_disk(self._models_dir)), reading.warnings
