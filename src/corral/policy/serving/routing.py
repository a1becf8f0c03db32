"""Which replica answers a request: the one with the least expected wait.

    expected seconds = (requests there + 1) / how many it works on at a time x seconds that an answer takes there

The seconds are learnt from its own answers; a replica of which nothing is known is taken for a middling one. Those that
are equal within 5 % take turns, and at their first turn the one with most memory free goes first.

Guarantee: what the caller has counted in its own memory between two picks is taken into account, so that a burst is
spread evenly however fast it comes. A replica outside the model's selector, on a node that is away, or of another
revision is no candidate in the first place (`is_candidate`). Every pick can be explained by numbers (`explain`).
Limit: seconds are those of whole answers. A replica that happened to be asked for long answers looks slow until it has
given a few others, or has not been asked for a while (`faded`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from typing import Protocol, TypeVar

from corral.domain.node import NodeId
from corral.policy.labels import matches
from corral.policy.serving.breaker import BreakerState

# Expected seconds that differ by less are the same.
ALIKE = 1.05
# Of a replica that takes no requests now.
NEVER = math.inf
# What is assumed as long as no replica of a model has answered.
UNKNOWN_S = 1.0
# How much one answer changes what is known; about the last fifteen count.
LEARNING = 1 / 8
# An answer from a cache takes no time; a product with zero would make any load look free.
SECONDS_LEAST = 0.001
# After so long without requests half of what a replica was apart from the others is forgotten.
FADING_HALF_S = 60.0
RETRY_AFTER_S = (1.0, 300.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node as routing sees it."""

    id: NodeId
    name: str
    # Approved, not drained, heard of. The bus is no matter: requests do not travel on it.
    is_open: bool
    labels: Mapping[str, str]
    # Memory that is free for models; 0 if it is unknown.
    free_bytes: int = 0


def is_candidate(revision: str, wanted_revision: str, place: Place | None, selector: Mapping[str, str]) -> bool:
    """Whether a loaded replica may be given requests."""
    return not why_not(revision, wanted_revision, place, selector)


def why_not(revision: str, wanted_revision: str, place: Place | None, selector: Mapping[str, str]) -> str:
    """Why a loaded replica is no candidate; empty: it is one."""
    if revision != wanted_revision:
        return "it runs an older revision of the model"
    if place is None or not place.is_open:
        return "its node takes no requests: it is drained, not approved or not heard of"
    return "" if matches(selector, place.labels) else "its node has not the labels that the rule wants"


# Numbers.


def step_s(capacity: int, seconds: float) -> float:
    """How much longer each request makes the wait of the next one."""
    return (seconds if seconds > SECONDS_LEAST else SECONDS_LEAST) / capacity


def expected_s(in_flight: int, capacity: int, seconds: float) -> float:
    """How long until one more request is answered by a replica that has so many."""
    return (in_flight + 1) * step_s(capacity, seconds)


def own_room(capacity: int, others: int, sharers: int) -> int:
    """How many requests one frontend may have at a replica when `sharers` others have `others` there: what they leave,
    and never less than an equal share, so that nobody is shut out by those who came first."""
    return max(capacity - others, math.ceil(capacity / (sharers + 1)))


def learnt(known: float, seen: float) -> float:
    return known + (seen - known) * LEARNING


def faded(known: float, typical: float, quiet_s: float) -> float:
    """A replica that was not asked for so long: what was learnt of it comes closer to what is usual."""
    kept: float = 0.5 ** (quiet_s / FADING_HALF_S)
    return typical + (known - typical) * kept


def typical_s(known: Iterable[float | None]) -> float:
    """Of a replica that has not answered yet."""
    return median([one for one in known if one is not None] or [UNKNOWN_S])


def retry_after_s(waiting: int, room: int, seconds: float) -> int:
    """When somebody who comes behind so many others may expect a turn, if `room` are worked on at a time."""
    least, most = RETRY_AFTER_S
    return math.ceil(min(max((waiting + 1) / max(room, 1) * seconds, least), most))


# The pick.


class Candidate(Protocol):
    """A replica that may be picked. Plain attributes: this is read for every replica at every request."""

    # NEVER: it takes none now.
    expected_s: float
    # Grows with every pick; 0: never picked.
    picked: int


def preference(place: Place) -> int:
    """What is ordered by when nothing else tells replicas apart: most free memory first."""
    return -place.free_bytes


C = TypeVar("C", bound=Candidate)
_EXPECTED_S = attrgetter("expected_s")


class RoutePolicy(Protocol):
    """A way to pick. The next one, which knows what a replica has in its cache, goes here."""

    def pick(self, candidates: Sequence[C]) -> C | None:
        """None if none of them takes requests now. Of those that are equal in everything else the first is taken, so
        they come in the order of `preference`."""
        ...


class LeastWait:
    def pick(self, candidates: Sequence[C]) -> C | None:
        lowest_s = min(map(_EXPECTED_S, candidates), default=NEVER)
        if lowest_s == NEVER:
            return None
        limit_s = lowest_s * ALIKE
        chosen, turn = None, NEVER
        for one in candidates:
            if one.picked < turn and one.expected_s <= limit_s:
                chosen, turn = one, one.picked
        return chosen


class RoundRobin:
    """In turn, whatever it takes."""

    def pick(self, candidates: Sequence[C]) -> C | None:
        free = [one for one in candidates if one.expected_s < NEVER]
        return min(free, key=lambda one: one.picked, default=None)


LEAST_WAIT = LeastWait()
_POLICIES: Mapping[str, RoutePolicy] = {"round_robin": RoundRobin()}


def policy_of(name: str) -> RoutePolicy:
    """By the word in a model's rule. One that is not there yet is the usual one."""
    return _POLICIES.get(name, LEAST_WAIT)


def policy_name(name: str) -> str:
    """The one that is really used for the word in a model's rule."""
    return name if name in _POLICIES else "least_wait"


# Why.


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """What a pick knows of one replica."""

    replica_id: str
    node_name: str
    in_flight: int
    capacity: int
    seconds: float
    # False: it has not answered yet, and the seconds are those of the others.
    is_learnt: bool
    # None: it takes no requests now.
    expected_s: float | None
    picked: int
    free_bytes: int
    breaker: BreakerState = BreakerState.CLOSED

    @property
    def sentence(self) -> str:
        if self.breaker is not BreakerState.CLOSED:
            return f"{self.node_name}: left alone, its last answers failed"
        if self.expected_s is None:
            return f"{self.node_name}: full, {self.in_flight} requests of {self.capacity}"
        learnt_from = "learnt" if self.is_learnt else "assumed"
        return (
            f"{self.node_name}: {self.expected_s:.3g} s expected, {self.in_flight} requests there, "
            f"{self.seconds:.3g} s for an answer ({learnt_from})"
        )


def explain(terms: Iterable[Term]) -> list[Term]:
    """In the order in which they would be picked."""
    known = list(terms)
    lowest_s = min((term.expected_s for term in known if term.expected_s is not None), default=NEVER)

    def order(term: Term) -> tuple[bool, float, int, int]:
        wait_s = NEVER if term.expected_s is None else term.expected_s
        is_alike = wait_s <= lowest_s * ALIKE
        return not is_alike, 0.0 if is_alike else wait_s, term.picked, -term.free_bytes

    return sorted(known, key=order)
