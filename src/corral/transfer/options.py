"""How long a source is waited for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Time is counted against silence, never against size."""

    attempts: int = 3
    # The pause before the second attempt; it doubles from there.
    retry_s: float = 2.0
    # No byte for this long ends an attempt.
    stall_s: float = 60.0
    # Until a connection is made, for each address of a host.
    connect_s: float = 10.0
    # Until an answer begins.
    header_s: float = 120.0
    redirects_max: int = 10
