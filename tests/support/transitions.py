"""Says which steps of an operation are allowed, as the trigger in the database does."""

from __future__ import annotations

from corral.domain.operation import TRANSITIONS, OperationState


def can_become(old: OperationState, new: OperationState, *, was_reaped: bool = False) -> bool:
    """Return whether this step is allowed. A failure is final unless only the reaper wrote it."""
    if old is OperationState.FAILED and not was_reaped:
        return False
    return new in TRANSITIONS[old]
