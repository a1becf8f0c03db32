"""What is going on now: rates and times of the last seconds, from sums that only grow.

Every two seconds the sums are noted; a rate is the difference between now and the note of a while ago. A request pays
nothing for it, and neither does a replica that nobody asks. Long answers are seen while they are being written: what
has gone out of them so far is told by whoever looks.
Limit: it is what passes through this frontend. Before the first note there are no rates.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add, sub
from typing import TypeVar

from corral.insight.histogram import QUEUE_BOUNDS, REQUEST_BOUNDS, TOKEN_BOUNDS, quantile
from corral.insight.tally import Place, Row, Tally
from corral.ports.runtime import Clock

INTERVAL_S = 2.0
# Rates follow what happens; times to the first byte need some requests before they say anything.
RATE_WINDOW_S = 10.0
TIME_WINDOW_S = 60.0
Group = TypeVar("Group")
_NOTES = int(TIME_WINDOW_S / INTERVAL_S) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Half of the values are below the first, nineteen of twenty below the second. None: there were none."""

    p50: float | None = None
    p95: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast something goes."""

    requests_per_s: float = 0.0
    errors_per_s: float = 0.0
    prompt_tokens_per_s: float = 0.0
    # As they are written, also those of answers that have not ended.
    tokens_per_s: float = 0.0
    first_byte_s: Spread = field(default_factory=Spread)
    inter_token_s: Spread = field(default_factory=Spread)
    queue_s: Spread = field(default_factory=Spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """A row as it was at some moment."""

    requests: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    written: int = 0
    first_byte: Sequence[int] = (0,) * (len(REQUEST_BOUNDS) + 1)
    inter_token: Sequence[int] = (0,) * (len(TOKEN_BOUNDS) + 1)
    queue: Sequence[int] = (0,) * (len(QUEUE_BOUNDS) + 1)

    @classmethod
    def of(cls, row: Row, written: int) -> Sums:
        return cls(
            requests=row.requests,
            errors=row.errors,
            prompt_tokens=row.prompt_tokens,
            written=written,
            first_byte=tuple(row.first_byte.counts),
            inter_token=tuple(row.inter_token.counts),
            queue=tuple(row.queue.counts),
        )


_NOTHING = Sums()


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What a pace is made of, in a form that can be added up: rates, and how often times were how long.

    Half of the values of two frontends are not below the middle of their halves, so buckets are added, and quantiles
    are worked out from the sum.
    """

    requests_per_s: float = 0.0
    errors_per_s: float = 0.0
    prompt_tokens_per_s: float = 0.0
    tokens_per_s: float = 0.0
    first_byte: Sequence[int] = _NOTHING.first_byte
    inter_token: Sequence[int] = _NOTHING.inter_token
    queue: Sequence[int] = _NOTHING.queue

    def pace(self) -> Pace:
        return Pace(
            requests_per_s=self.requests_per_s,
            errors_per_s=self.errors_per_s,
            prompt_tokens_per_s=self.prompt_tokens_per_s,
            tokens_per_s=self.tokens_per_s,
            first_byte_s=_spread(REQUEST_BOUNDS, self.first_byte),
            inter_token_s=_spread(TOKEN_BOUNDS, self.inter_token),
            queue_s=_spread(QUEUE_BOUNDS, self.queue),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    at: float
    sums: Mapping[Place, Sums]


class Recent:
    """Whoever notes or looks says how many events have gone out of the streams that have not ended, by place."""

    def __init__(self, tally: Tally, clock: Clock) -> None:
        self._tally = tally
        self._clock = clock
        self._notes: deque[_Note] = deque(maxlen=_NOTES)

    def note(self, open_events: Mapping[Place, int]) -> int:
        """Keep the sums as they are now; how many there are."""
        self._notes.append(self._now(open_events))
        return len(self._notes[-1].sums)

    def look(self, open_events: Mapping[Place, int]) -> Look:
        now = self._now(open_events)
        return Look(now, self._before(now.at - RATE_WINDOW_S, now), self._before(now.at - TIME_WINDOW_S, now))

    def _now(self, open_events: Mapping[Place, int]) -> _Note:
        """A row that has not changed since the last note is the very same object: it takes neither room nor time."""
        last = self._notes[-1].sums if self._notes else {}
        sums: dict[Place, Sums] = {}
        for place, row in self._tally.rows():
            known, written = last.get(place), row.written + open_events.get(place, 0)
            is_same = known is not None and known.requests == row.requests and known.written == written
            sums[place] = known if known is not None and is_same else Sums.of(row, written)
        for place, events in open_events.items():
            # Nothing has ended there yet.
            sums.setdefault(place, Sums(written=events))
        return _Note(at=self._clock.monotonic(), sums=sums)

    def _before(self, moment: float, now: _Note) -> _Note:
        """The youngest note that is older; else the oldest that there is."""
        return next(
            (note for note in reversed(self._notes) if note.at <= moment), self._notes[0] if self._notes else now
        )


class Look:
    """One moment beside an earlier one for rates, and one that is longer ago for times."""

    def __init__(self, now: _Note, lately: _Note, longer: _Note) -> None:
        self._now = now
        self._lately = lately
        self._longer = longer

    def paces(self, group: Callable[[Place], str]) -> dict[str, Pace]:
        """By whatever places are grouped by. A group in which nothing happens is not there."""
        return {name: flow.pace() for name, flow in self.flows(group).items()}

    def flows(self, group: Callable[[Place], Group]) -> dict[Group, Flow]:
        growths: defaultdict[Group, _Growth] = defaultdict(_Growth)
        for place, sums in self._now.sums.items():
            lately, longer = self._lately.sums.get(place, _NOTHING), self._longer.sums.get(place, _NOTHING)
            if longer is not sums:
                growths[group(place)].take(sums, lately, longer)
        elapsed_s = self._now.at - self._lately.at
        return {name: growth.flow(elapsed_s) for name, growth in growths.items()}


class _Growth:
    """By how much several places have grown together: numbers lately, times for longer."""

    def __init__(self) -> None:
        self.requests = self.errors = self.prompt_tokens = self.written = 0
        self.first_byte, self.inter_token, self.queue = _NOTHING.first_byte, _NOTHING.inter_token, _NOTHING.queue

    def take(self, now: Sums, lately: Sums, longer: Sums) -> None:
        self.requests += now.requests - lately.requests
        self.errors += now.errors - lately.errors
        self.prompt_tokens += now.prompt_tokens - lately.prompt_tokens
        self.written += now.written - lately.written
        self.first_byte = _grown(self.first_byte, now.first_byte, longer.first_byte)
        self.inter_token = _grown(self.inter_token, now.inter_token, longer.inter_token)
        self.queue = _grown(self.queue, now.queue, longer.queue)

    def flow(self, elapsed_s: float) -> Flow:
        def rate(count: int) -> float:
            # Less than nothing: an answer was cut, and what it had written is told otherwise at its end.
            return max(0, count) / elapsed_s if elapsed_s > 0 else 0.0

        return Flow(
            requests_per_s=rate(self.requests),
            errors_per_s=rate(self.errors),
            prompt_tokens_per_s=rate(self.prompt_tokens),
            tokens_per_s=rate(self.written),
            first_byte=self.first_byte,
            inter_token=self.inter_token,
            queue=self.queue,
        )


def _grown(sums: Sequence[int], now: Sequence[int], then: Sequence[int]) -> Sequence[int]:
    # All are of one length. A busy frontend does this for thousands of places a second, so it is done without a loop.
    return list(map(add, sums, map(sub, now, then)))


def _spread(bounds: Sequence[float], counts: Sequence[int]) -> Spread:
    return Spread(p50=quantile(bounds, counts, 0.5), p95=quantile(bounds, counts, 0.95))
