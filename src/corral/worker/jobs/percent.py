"""How far a job is, as one number: bytes are most of it, the rest is steps. Only the end is a hundred."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from corral.domain.operation import Phase

# From where to where the bytes of a phase move the bar. Fetching and verifying take turns, file by file.
_BYTES: Mapping[Phase, tuple[float, float]] = MappingProxyType(
    {
        Phase.DOWNLOADING: (0.0, 90.0),
        Phase.VERIFYING: (0.0, 90.0),
        Phase.EXTRACTING: (90.0, 95.0),
        Phase.REMOVING: (10.0, 99.0),
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
    }
)


def percent_of(phase: Phase, current_bytes: int | None, total_bytes: int | None) -> float:
    """The least that this means; the bar itself never goes back."""
    if phase in _BYTES and current_bytes is not None and total_bytes:
        low, high = _BYTES[phase]
        return low + (high - low) * min(1.0, max(0.0, current_bytes / total_bytes))
    return _STEPS.get(phase, 0.0)
