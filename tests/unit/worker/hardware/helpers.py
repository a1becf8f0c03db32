"""Recorded machines for the tests of hardware detection."""

from __future__ import annotations

import json
from pathlib import Path

from corral.worker.hardware.hardware_source import RecordedHardware

RECORDINGS = Path(__file__).parent / "recordings"
GIB = 1 << 30


def recorded(name: str) -> RecordedHardware:
    """A fresh copy, free to be changed."""
    return RecordedHardware.from_document(json.loads((RECORDINGS / f"{name}.json").read_text()))


def recorded_names() -> list[str]:
    return sorted(path.stem for path in RECORDINGS.glob("*.json"))
