"""Limits how many bytes of requests a frontend keeps at a time, in total and per key.

A body takes from the budget before it is kept, and is given back when it is no longer needed. Guarantee: taken bytes
are given back once, however often `release` is called. A key that has nothing under way may always take as much as one
body, so a small budget slows a key down and never shuts it out.
"""

from __future__ import annotations

from dataclasses import dataclass

from corral.domain.errors import LimitReached, Unavailable

RETRY_AFTER_S = 5
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteLimits:
    """Limits how many bytes of request bodies or uploads a frontend keeps in memory, in all and for one API key."""

    total_bytes: int
    # The limit of one key; bodies without a key count against the total only.
    key_bytes: int


class ByteBudget:
    """Counts the bytes that requests of each API key hold in a frontend's memory, and refuses more than the limits.

    `what` names the bytes in a sentence: *of request bodies*.
    """

    def __init__(self, limits: ByteLimits, what: str) -> None:
        self.limits = limits
        self._subject = what
        self._by_key: dict[str, int] = {}
        self.taken_bytes = 0

    def take(self, key_id: str, count: int) -> None:
        """Take bytes. Raises `LimitReached` (429) if it is too much for this key, `Unavailable` (503) if it is for this
        frontend."""
        of_key = self._by_key.get(key_id, 0)
        if key_id and of_key and of_key + count > self.limits.key_bytes:
            raise LimitReached(
                f"This key has {of_key // MIB} MiB {self._subject} under way at this frontend; more than "
                f"{self.limits.key_bytes // MIB} MiB are not taken at a time.",
                hint="Send the next request when one of these has ended.",
                code="too_many_bytes",
                details={"retry_after_s": RETRY_AFTER_S},
            )
        if self.taken_bytes and self.taken_bytes + count > self.limits.total_bytes:
            raise Unavailable(
                f"This frontend has {self.taken_bytes // MIB} MiB {self._subject} under way, which is its limit.",
                hint="Retry in some seconds, or on another frontend.",
                code="too_many_bytes",
            )
        self.taken_bytes += count
        if key_id:
            self._by_key[key_id] = of_key + count

    def give_back(self, key_id: str, count: int) -> None:
        self.taken_bytes -= count
        if key_id:
            left = self._by_key.pop(key_id) - count
            if left:
                self._by_key[key_id] = left


class ByteLease:
    """Bytes of a frontend's memory that one request has taken from a `ByteBudget`.

    `release` gives all of them back; calling it twice is harmless.
    """

    __slots__ = ("_budget", "_key_id", "_taken_bytes")

    def __init__(self, budget: ByteBudget, key_id: str = "") -> None:
        self._budget = budget
        self._key_id = key_id
        self._taken_bytes = 0

    def take(self, count: int) -> None:
        """Take more bytes. Raises as `ByteBudget.take` does."""
        self._budget.take(self._key_id, count)
        self._taken_bytes += count

    def grow_to(self, size_bytes: int, step_bytes: int) -> None:
        """Take as much as a body of `size_bytes` needs, in whole steps."""
        while self._taken_bytes < size_bytes:
            self.take(step_bytes)

    def close(self) -> None:
        self.release()

    def release(self) -> None:
        taken, self._taken_bytes = self._taken_bytes, 0
        if taken:
            self._budget.give_back(self._key_id, taken)
