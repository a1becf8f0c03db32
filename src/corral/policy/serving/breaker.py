"""How well one replica is: what its answers say, and whether it is given requests.

    closed ──5 failures in a row, or more than half of the last 20──> open ──1 s, doubling to 30 s──> half open
      ^                                                                 ^                                │
      └──────────────────────── the one that was let through is answered ┴─────────── or it fails ───────┘

Guarantee: half open, one request at a time is let through, and one that ends without a verdict (its client left) makes
way for the next. A breaker only says what it thinks: when all are open, whoever picks may try the one that opens
soonest, so that no request is lost to breakers alone. Limit: it knows what this frontend has seen, not what its peers
have.
"""

from __future__ import annotations

from enum import StrEnum

IN_A_ROW_MAX = 5
RECENT = 20
RECENT_FAILURES_MAX = RECENT // 2
OPEN_S = 1.0
OPEN_MOST_S = 30.0
# Replicas that failed together are not tried together: up to so much longer, by chance.
JITTER = 0.2

_RECENT_BITS = (1 << RECENT) - 1


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Verdict(StrEnum):
    """What an answer says about the engine that gave it."""

    WELL = "well"  # also when it refuses what the client asked for
    BUSY = "busy"  # not now: another replica may
    FAILED = "failed"
    NOT_OURS = "not_ours"  # another process than the one that our key is for
    NOT_LOADED = "not_loaded"  # the right process, without its model


_NOT_LOADED = (b"model_not_loaded", b"model not loaded", b"model is not loaded")
# The refusal of an engine is short; what is quoted further on says nothing about the engine.
_SAID_BYTES_MAX = 4096


def judge(status: int, body: bytes = b"") -> Verdict:
    """By the status, and where that leaves it open by the beginning of the body. A plain 404 is about the request."""
    if status < 400:
        return Verdict.WELL
    if status == 401:
        return Verdict.NOT_OURS
    if status in (400, 503) and any(words in body[:_SAID_BYTES_MAX].lower() for words in _NOT_LOADED):
        return Verdict.NOT_LOADED
    if status == 503:
        return Verdict.BUSY
    return Verdict.FAILED if status >= 500 else Verdict.WELL


class Breaker:
    """`now` is monotonic and comes from the caller, as does chance: `jitter` from 0 to 1."""

    __slots__ = ("_failures", "_opened", "_recent", "_trials", "until")

    def __init__(self) -> None:
        self._failures = 0
        # The last calls as bits, the newest lowest; 1: failed.
        self._recent = 0
        self._opened = 0
        self._trials = 0
        # None: closed. Otherwise when it may be tried again.
        self.until: float | None = None

    def state(self, now: float) -> BreakerState:
        if self.until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self.until else BreakerState.HALF_OPEN

    def lets_one_through(self, now: float) -> bool:
        """Half open, and nobody is trying yet."""
        return self.until is not None and now >= self.until and not self._trials

    def begin_trial(self) -> None:
        self._trials += 1

    def end_trial(self) -> None:
        self._trials -= 1
        assert self._trials >= 0, "a trial ended more often than it began"

    def succeeded(self, *, is_trial: bool = False) -> None:
        """A call that began before it opened says nothing new, so only a trial closes it."""
        if is_trial:
            self.until = None
            self._opened = 0
            self._recent = 0
        self._failures = 0
        self._recent = (self._recent << 1) & _RECENT_BITS

    def failed(self, now: float, jitter: float, *, is_trial: bool = False) -> None:
        self._failures += 1
        self._recent = (self._recent << 1 | 1) & _RECENT_BITS
        if self.until is not None:
            if is_trial:
                self.trip(now, jitter)
        elif self._failures >= IN_A_ROW_MAX or self._recent.bit_count() > RECENT_FAILURES_MAX:
            self.trip(now, jitter)

    def trip(self, now: float, jitter: float) -> None:
        """Open at once, longer each time."""
        open_s = min(OPEN_S * 2.0 ** min(self._opened, 16), OPEN_MOST_S)
        self._opened += 1
        self.until = now + open_s * (1 + JITTER * jitter)
