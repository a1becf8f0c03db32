"""The circuit breaker of one replica: judges its responses, and decides whether it gets requests.

    closed ──5 failures in a row, or more than half of the last 20──> open ──1 s, doubling to 30 s──> half open
      ^                                                                 ^                                │
      └──────────────────────── the trial request succeeds ─────────────┴────────────── or it fails ─────┘

Guarantee: half open, one request at a time is let through, and one that ends without a verdict (its client left) makes
way for the next. A breaker only advises: when all are open, the router may try the one that opens soonest, so that no
request is lost to breakers alone. Limit: a breaker knows what this frontend has seen, not what its peers have.
"""

from __future__ import annotations

from enum import StrEnum

IN_A_ROW_MAX = 5
RECENT = 20
RECENT_FAILURES_MAX = RECENT // 2
OPEN_S = 1.0
OPEN_MOST_S = 30.0
# Random extra time, so that replicas that failed together are not tried together.
JITTER = 0.2

_RECENT_BITS = (1 << RECENT) - 1


class BreakerState(StrEnum):
    """Names the states of a replica's circuit breaker: closed (requests pass), open (none), half open (one tries)."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class EngineVerdict(StrEnum):
    """Names what a response says about the health of its engine, for the circuit breaker."""

    WELL = "well"  # also when it refuses the client's request
    BUSY = "busy"  # overloaded: another replica may answer
    FAILED = "failed"
    NOT_OURS = "not_ours"  # another process than the one that our key is for
    NOT_LOADED = "not_loaded"  # the right process, without its model


_NOT_LOADED = (b"model_not_loaded", b"model not loaded", b"model is not loaded")
# An engine's refusal is short; text further on may be quoted and says nothing about the engine.
_CAUSE_BYTES_MAX = 4096


def judge_response(status: int, body: bytes = b"") -> EngineVerdict:
    """Judge an engine by the status of its response, and where that is ambiguous by the beginning of the body. A plain
    404 is about the request."""
    if status < 400:
        return EngineVerdict.WELL
    if status == 401:
        return EngineVerdict.NOT_OURS
    if status in (400, 503) and any(words in body[:_CAUSE_BYTES_MAX].lower() for words in _NOT_LOADED):
        return EngineVerdict.NOT_LOADED
    if status == 503:
        return EngineVerdict.BUSY
    return EngineVerdict.FAILED if status >= 500 else EngineVerdict.WELL


class CircuitBreaker:
    """Decides from a replica's failures whether the gateway sends requests to it.

    `now` is monotonic; `jitter` is a random number from 0 to 1 that spreads the retries.
    """

    __slots__ = ("_failures_in_a_row", "_recent", "_trials", "_trips", "open_until")

    def __init__(self) -> None:
        self._failures_in_a_row = 0
        # The last calls as bits, the newest lowest; 1 means failed.
        self._recent = 0
        self._trips = 0
        self._trials = 0
        # When the replica may be tried again; None while the breaker is closed.
        self.open_until: float | None = None

    def get_state(self, now: float) -> BreakerState:
        if self.open_until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self.open_until else BreakerState.HALF_OPEN

    def allows_trial(self, now: float) -> bool:
        """Return whether the breaker is half open and no trial request is under way."""
        return self.open_until is not None and now >= self.open_until and not self._trials

    def begin_trial(self) -> None:
        self._trials += 1

    def end_trial(self) -> None:
        self._trials -= 1
        assert self._trials >= 0, "a trial ended more often than it began"

    def record_success(self, *, is_trial: bool = False) -> None:
        """Record a success. Only a trial closes an open breaker: a call that began before it opened says nothing
        new."""
        if is_trial:
            self.open_until = None
            self._trips = 0
            self._recent = 0
        self._failures_in_a_row = 0
        self._recent = (self._recent << 1) & _RECENT_BITS

    def record_failure(self, now: float, jitter: float, *, is_trial: bool = False) -> None:
        self._failures_in_a_row += 1
        self._recent = (self._recent << 1 | 1) & _RECENT_BITS
        if self.open_until is not None:
            if is_trial:
                self.trip(now, jitter)
        elif self._failures_in_a_row >= IN_A_ROW_MAX or self._recent.bit_count() > RECENT_FAILURES_MAX:
            self.trip(now, jitter)

    def trip(self, now: float, jitter: float) -> None:
        """Open the breaker at once, for longer each time."""
        open_s = min(OPEN_S * 2.0 ** min(self._trips, 16), OPEN_MOST_S)
        self._trips += 1
        self.open_until = now + open_s * (1 + JITTER * jitter)
