"""What has not ended: requests under way, streams among them, and those that wait for a replica.

Counted when somebody asks, in one pass over what is open; a request pays nothing for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from corral.insight.tally import Place


class UnderWay(Protocol):
    """A request that has not ended."""

    @property
    def place(self) -> tuple[str, str, str]: ...

    @property
    def is_streaming(self) -> bool: ...

    @property
    def events(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Going:
    requests: int = 0
    streams: int = 0
    # By model, how many have no replica yet.
    waiting: Counter[str] = field(default_factory=Counter)
    # By replica, how many it is answering.
    in_flight: Counter[str] = field(default_factory=Counter)
    # How much has gone out of streams.
    events: Counter[Place] = field(default_factory=Counter)
    # All of them, by what each is about.
    places: Counter[Place] = field(default_factory=Counter)


def look(requests: Iterable[UnderWay]) -> Going:
    """Thousands may be open: the pass itself only counts, and what counts mean is worked out after it."""
    counts: Counter[tuple[str, str, str]] = Counter()
    events: Counter[tuple[str, str, str]] = Counter()
    streams = 0
    for request in requests:
        place = request.place
        counts[place] += 1
        if request.is_streaming:
            streams += 1
            events[place] += request.events
    waiting: Counter[str] = Counter()
    in_flight: Counter[str] = Counter()
    for (model, _, replica_id), count in counts.items():
        if replica_id:
            in_flight[replica_id] += count
        else:
            waiting[model] += count
    return Going(counts.total(), streams, waiting, in_flight, _known(events), _known(counts))


def _known(counts: Counter[tuple[str, str, str]]) -> Counter[Place]:
    return Counter({Place(*place): count for place, count in counts.items()})
