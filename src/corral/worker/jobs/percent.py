"""How far a job is, as one number: bytes are most of it, the rest is steps. Only the end is a hundred.

A load has three parts: an engine to fetch perhaps, files to fetch perhaps, a process to start. Each moves the bar
within a window of its own, as wide as its share of the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from corral.domain.operation import Phase

# From where to where the bytes of a phase move the bar. Fetching and verifying take turns, file by file.
_BYTES: Mapping[Phase, tuple[float, float]] = MappingProxyType(
    {
        Phase.DOWNLOADING: (0.0, 90.0),
        Phase.VERIFYING: (0.0, 90.0),
        Phase.EXTRACTING: (90.0, 95.0),
        Phase.REMOVING: (10.0, 99.0),
        Phase.STAGING: (0.0, 99.0),
    }
)
_STEPS: Mapping[Phase, float] = MappingProxyType(
    {
        Phase.EXTRACTING: 90.0,
        Phase.CHECKING: 96.0,
        Phase.STOPPING: 0.0,
        Phase.COMMITTING: 99.0,
        Phase.REMOVING: 10.0,
        Phase.STARTING: 10.0,
        Phase.LOADING: 20.0,
    }
)

Window = tuple[float, float]
WHOLE: Window = (0.0, 100.0)
# What the start of a process is of a load that has to fetch something.
START_SHARE = 10.0
# Of an engine whose size nobody has told.
SOME_BYTES = 200 * 1024 * 1024


def percent_of(phase: Phase, current_bytes: int | None, total_bytes: int | None) -> float:
    """The least that this means; the bar itself never goes back."""
    if phase in _BYTES and current_bytes is not None and total_bytes:
        return within(_BYTES[phase], 100.0 * min(1.0, max(0.0, current_bytes / total_bytes)))
    return _STEPS.get(phase, 0.0)


def within(window: Window, percent: float) -> float:
    low, high = window
    return low + (high - low) * percent / 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWindows:
    installing: Window
    staging: Window
    starting: Window


def load_windows(engine_bytes: int, files_bytes: int) -> LoadWindows:
    """With 0 for what is there already, or not needed."""
    total = engine_bytes + files_bytes
    fetched = 100.0 - START_SHARE if total else 0.0
    engine = fetched * engine_bytes / total if total else 0.0
    return LoadWindows(installing=(0.0, engine), staging=(engine, fetched), starting=(fetched, 100.0))
