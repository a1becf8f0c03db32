"""Decides when a scheduled start that has failed is tried again."""

from __future__ import annotations

from datetime import datetime, timedelta

# At first a passing fault may be over within seconds. At the latest: who repairs something sees soon that it works.
PAUSE_MIN = timedelta(seconds=5)
PAUSE_MAX = timedelta(seconds=30)


def compute_next_look(due_at: datetime, now: datetime) -> datetime:
    """Return when a start that was due at a time and has failed now is tried again: after as long as it is late."""
    return now + min(max(now - due_at, PAUSE_MIN), PAUSE_MAX)
