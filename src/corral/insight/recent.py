"""What is going on now: rates and times of the last seconds, from sums that only grow.

Every two seconds the sums are noted; a rate is the difference between now and the note of a while ago. A request costs
nothing for it. Long answers are seen while they are being written: what has gone out of them so far is asked for.
Limit: it is what passes through this frontend. Before the first note there are no rates.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add, sub

from corral.insight.histogram import QUEUE_BOUNDS, REQUEST_BOUNDS, TOKEN_BOUNDS, quantile
from corral.insight.tally import Place, Row, Tally
from corral.ports.runtime import Clock

INTERVAL_S = 2.0
# Rates follow what happens; times to the first byte need some requests before they say anything.
RATE_WINDOW_S = 10.0
TIME_WINDOW_S = 60.0
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
    """A row as it was at some moment, or the difference between two moments."""

    requests: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    written: int = 0
    first_byte: tuple[int, ...] = (0,) * (len(REQUEST_BOUNDS) + 1)
    inter_token: tuple[int, ...] = (0,) * (len(TOKEN_BOUNDS) + 1)
    queue: tuple[int, ...] = (0,) * (len(QUEUE_BOUNDS) + 1)

    @classmethod
    def of(cls, row: Row, open_events: int) -> Sums:
        return cls(
            requests=row.requests,
            errors=row.errors,
            prompt_tokens=row.prompt_tokens,
            written=row.written + open_events,
            first_byte=tuple(row.first_byte.counts),
            inter_token=tuple(row.inter_token.counts),
            queue=tuple(row.queue.counts),
        )

    def combined(self, other: Sums, how: Callable[[int, int], int]) -> Sums:
        """Added or subtracted, number by number."""
        return Sums(
            requests=how(self.requests, other.requests),
            errors=how(self.errors, other.errors),
            prompt_tokens=how(self.prompt_tokens, other.prompt_tokens),
            written=how(self.written, other.written),
            first_byte=tuple(map(how, self.first_byte, other.first_byte)),
            inter_token=tuple(map(how, self.inter_token, other.inter_token)),
            queue=tuple(map(how, self.queue, other.queue)),
        )


_NOTHING = Sums()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    at: float
    sums: Mapping[Place, Sums]

    def since(self, earlier: _Note, places: Iterable[Place]) -> Sums:
        """By how much these have grown together."""
        growth = (self.sums[place].combined(earlier.sums.get(place, _NOTHING), sub) for place in places)
        return reduce(lambda one, other: one.combined(other, add), growth, _NOTHING)


class Recent:
    def __init__(self, tally: Tally, clock: Clock, open_events: Callable[[], Mapping[Place, int]] = dict) -> None:
        """`open_events`: how many events have gone out of the streams that have not ended."""
        self._tally = tally
        self._clock = clock
        self._open_events = open_events
        self._notes: deque[_Note] = deque(maxlen=_NOTES)

    async def tick(self) -> int:
        """Note the sums; how many there are."""
        note = self._look(self._notes[-1].sums if self._notes else {})
        self._notes.append(note)
        return len(note.sums)

    def paces(self, group: Callable[[Place], str]) -> dict[str, Pace]:
        """By whatever the places are grouped by."""
        if not self._notes:
            return {}
        now = self._look({})
        fast, slow = self._note_before(now.at - RATE_WINDOW_S), self._note_before(now.at - TIME_WINDOW_S)
        groups: defaultdict[str, list[Place]] = defaultdict(list)
        for place in now.sums:
            groups[group(place)].append(place)
        return {
            name: _pace(now.since(fast, places), now.since(slow, places), now.at - fast.at)
            for name, places in groups.items()
        }

    def _look(self, before: Mapping[Place, Sums]) -> _Note:
        """Sums that have not changed are the very same object: a minute of a quiet cluster takes no room."""
        open_events = self._open_events()
        sums = {place: Sums.of(row, open_events.get(place, 0)) for place, row in self._tally.rows()}
        for place, events in open_events.items():
            # Nothing has ended there yet.
            sums.setdefault(place, Sums(written=events))
        kept = {place: old if (old := before.get(place)) == found else found for place, found in sums.items()}
        return _Note(at=self._clock.monotonic(), sums=kept)

    def _note_before(self, moment: float) -> _Note:
        """The youngest that is older; else the oldest that there is."""
        return next((note for note in reversed(self._notes) if note.at <= moment), self._notes[0])


def _pace(lately: Sums, longer: Sums, elapsed_s: float) -> Pace:
    def rate(count: int) -> float:
        # Less than nothing: an answer was cut, and what it had written is told otherwise at its end.
        return max(0, count) / elapsed_s if elapsed_s > 0 else 0.0

    return Pace(
        requests_per_s=rate(lately.requests),
        errors_per_s=rate(lately.errors),
        prompt_tokens_per_s=rate(lately.prompt_tokens),
        tokens_per_s=rate(lately.written),
        first_byte_s=_spread(REQUEST_BOUNDS, longer.first_byte),
        inter_token_s=_spread(TOKEN_BOUNDS, longer.inter_token),
        queue_s=_spread(QUEUE_BOUNDS, longer.queue),
    )


def _spread(bounds: tuple[float, ...], counts: tuple[int, ...]) -> Spread:
    return Spread(p50=quantile(bounds, counts, 0.5), p95=quantile(bounds, counts, 0.95))
