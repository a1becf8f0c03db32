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


def look(requests: Iterable[UnderWay]) -> Going:
    waiting: Counter[str] = Counter()
    in_flight: Counter[str] = Counter()
    events: Counter[Place] = Counter()
    count = streams = 0
    for request in requests:
        place = Place(*request.place)
        count += 1
        if place.replica_id:
            in_flight[place.replica_id] += 1
        else:
            waiting[place.model] += 1
        if request.is_streaming:
            streams += 1
            events[place] += request.events
    return Going(count, streams, waiting, in_flight, events)
