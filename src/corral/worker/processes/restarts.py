"""How long to wait before an engine that crashed is started again. Pure.

The pause doubles with each crash in a row, up to a ceiling, and starts over after a long time of health. There is no
last attempt: an engine that comes back after an hour is better than one that somebody has to remember.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    first_s: float = 1.0
    ceiling_s: float = 60.0
    reset_after_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """`total` is what people see; `in_a_row` sets the pause."""

    total: int = 0
    in_a_row: int = 0

    def after_crash(self, healthy_s: float, patience: Patience) -> Restarts:
        in_a_row = 1 if healthy_s >= patience.reset_after_s else self.in_a_row + 1
        return replace(self, total=self.total + 1, in_a_row=in_a_row)

    def pause_s(self, patience: Patience) -> float:
        # The exponent is bounded: after a thousand crashes the power would be a number of a thousand bits.
        doubled = patience.first_s * 2 ** min(max(0, self.in_a_row - 1), 16)
        return float(min(patience.ceiling_s, doubled))
