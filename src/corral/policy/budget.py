"""Computes how much of a node's VRAM Corral may use.

Written as a person would: `80%`, `0.8`, `12GB` (decimal), `12GiB` (binary), bytes; empty or 0 means no cap. Resolved
against the raw total at reading time, so a changed budget or a changed card counts at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from corral.domain.errors import Conflict, InvalidRequest
from corral.domain.node import Node, NodeType

_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgtp", start=1)}
_UNITS |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgtp", start=1)}
_UNITS |= {letter: 1000**power for power, letter in enumerate("kmgtp", start=1)}
_FORM = re.compile(r"^(?P<number>[0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(?P<unit>%|[a-zA-Z]{0,3})$", re.ASCII)
_HINT = "Write it as 80%, 0.8, 12GB, 12GiB or a number of bytes; empty for no cap."


@dataclass(frozen=True, slots=True)
class VramBudget:
    """Caps the GPU memory that Corral may use on a node: a share or a number of bytes; neither means no cap."""

    fraction: float | None = None
    size_bytes: int | None = None

    def compute_ceiling(self, total: int | None) -> int | None:
        """Return the cap in bytes, never above the card; None means no cap, or a share of an unknown card."""
        if self.fraction is not None:
            # A float may round a huge total up.
            return None if total is None else min(total, int(total * self.fraction))
        if self.size_bytes is not None:
            return self.size_bytes if total is None else min(self.size_bytes, total)
        return None

    def cap(self, available: int | None, total: int | None, held: int = 0) -> int | None:
        """Return how much of the free memory may still be used, given that `held` bytes of the budget are in use."""
        ceiling = self.compute_ceiling(total)
        if available is None or ceiling is None:
            return available
        return min(available, max(0, ceiling - held))


NO_CAP = VramBudget()


def parse_budget(text: str) -> VramBudget:
    text = text.strip()
    if not text:
        return NO_CAP
    form = _FORM.match(text)
    if form is None:
        raise InvalidRequest(f"{text[:64]!r} is not a VRAM budget.", hint=_HINT, code="bad_budget")
    number, unit = float(form["number"]), form["unit"].lower()
    if unit == "%":
        return _make_share(number / 100, text)
    if unit not in _UNITS:
        raise InvalidRequest(f"{form['unit']!r} is not a unit of size.", hint=_HINT, code="bad_budget")
    if number == 0:
        return NO_CAP
    if unit == "" and number <= 1:
        return _make_share(number, text)
    if unit == "" and not number.is_integer():
        raise InvalidRequest(
            f"{text} is neither a share up to 1 nor a whole number of bytes.", hint=_HINT, code="bad_budget"
        )
    return VramBudget(size_bytes=min(int(number * _UNITS[unit]), 2**62))


def _make_share(fraction: float, text: str) -> VramBudget:
    if fraction > 1:
        raise InvalidRequest(f"{text} is more than the whole card.", hint="Use at most 100%.", code="bad_budget")
    return NO_CAP if fraction == 0 else VramBudget(fraction=fraction)


def parse_stored_budget(text: str) -> VramBudget:
    """Parse a stored budget: every input is checked, so an unreadable one must not stop the node."""
    try:
        return parse_budget(text)
    except InvalidRequest:
        return NO_CAP


def check_runs_engines(node: Node, what: str) -> None:
    """Raise Conflict for an agent node: it runs no engines, so a limit on them would do nothing."""
    if node.type is NodeType.AGENT:
        raise Conflict(
            f"Node {node.name} is an agent node and has no {what}.",
            hint="Name a backend node: `corral nodes list` shows the type of each.",
            code="node_is_agent",
        )
