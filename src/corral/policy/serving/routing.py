"""Chooses the replica that answers a request: the one with the least expected wait.

    expected seconds = (requests there + 1) / how many it works on at a time x seconds that a response takes there

The seconds are learnt from the replica's own responses; a replica without any is taken for an average one. Replicas
that are equal within 5 % take turns, and at their first turn the one with most free memory goes first.

Guarantee: requests that the caller has counted in its own memory between two picks are taken into account, so that a
burst is spread evenly however fast it comes. A replica outside the model's selector, on a node that is offline, or of
another revision is no candidate in the first place (`is_candidate`). Every pick can be explained by numbers
(`CandidateSnapshot`). Limit: seconds are those of whole responses. A replica that happened to get long requests looks
slow until it has answered a few others, or was idle for a while (`fade_average`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from typing import Protocol, TypeVar

from corral.domain.node import NodeId
from corral.policy.labels import matches_labels
from corral.policy.serving.circuit_breaker import BreakerState

# Expected seconds that differ by less count as equal.
TIE_RATIO = 1.05
# The expected wait of a replica that takes no requests now.
NEVER = math.inf
# The response time that is assumed until a replica of a model has answered.
UNKNOWN_S = 1.0
# The weight of one response in the average; about the last fifteen count.
LEARNING_RATE = 1 / 8
# A response from a cache takes no time, and a product with zero would make any load look free.
RESPONSE_S_MIN = 0.001
# After this many seconds without requests, half of a replica's difference from the others is forgotten.
FADING_HALF_S = 60.0
RETRY_AFTER_S = (1.0, 300.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutableNode:
    """What request routing knows of one node: whether it takes requests, its labels and its free memory."""

    id: NodeId
    name: str
    # Approved, not drained, and online. The bus does not matter, because requests do not travel on it.
    is_open: bool
    labels: Mapping[str, str]
    # Free memory for models; 0 if it is unknown.
    free_bytes: int = 0


def is_candidate(revision: str, desired_revision: str, node: RoutableNode | None, selector: Mapping[str, str]) -> bool:
    """Return whether a loaded replica may get requests."""
    return not explain_exclusion(revision, desired_revision, node, selector)


def explain_exclusion(
    revision: str, desired_revision: str, node: RoutableNode | None, selector: Mapping[str, str]
) -> str:
    """Return why a loaded replica is no candidate; empty if it is one."""
    if revision != desired_revision:
        return "it runs an older revision of the model"
    if node is None or not node.is_open:
        return "its node takes no requests: it is drained, not approved or offline"
    return "" if matches_labels(selector, node.labels) else "its node does not have the labels that the rule requires"


# Numbers


def compute_step_s(capacity: int, response_s: float) -> float:
    """Return how much longer each request makes the wait of the next one."""
    return (response_s if response_s > RESPONSE_S_MIN else RESPONSE_S_MIN) / capacity


def compute_allowed_in_flight(capacity: int, in_flight_elsewhere: int, other_frontends: int) -> int:
    """Return how many requests one frontend may have at a replica where `other_frontends` others have
    `in_flight_elsewhere`: what they leave, and never less than an equal share, so that no frontend is shut out by the
    earlier ones."""
    return max(capacity - in_flight_elsewhere, math.ceil(capacity / (other_frontends + 1)))


def update_average(average: float, measured: float) -> float:
    return average + (measured - average) * LEARNING_RATE


def fade_average(average: float, typical: float, quiet_s: float) -> float:
    """Return the average of a replica that was idle for `quiet_s`, moved closer to the typical value."""
    kept: float = 0.5 ** (quiet_s / FADING_HALF_S)
    return typical + (average - typical) * kept


def compute_typical_s(known: Iterable[float | None]) -> float:
    """Return the response time to assume for a replica that has not answered yet."""
    return median([one for one in known if one is not None] or [UNKNOWN_S])


def compute_retry_after_s(waiting: int, max_in_flight: int, response_s: float) -> int:
    """Return when a request behind `waiting` others may expect its turn, if `max_in_flight` are worked on at a time."""
    least, most = RETRY_AFTER_S
    return math.ceil(min(max((waiting + 1) / max(max_in_flight, 1) * response_s, least), most))


# The pick


class RouteCandidate(Protocol):
    """Interface of a replica that a `RoutePolicy` may pick for a request.

    Plain attributes: they are read for every replica at every request.
    """

    # NEVER if the replica takes no requests now.
    expected_s: float
    # Grows with every pick; 0: never picked.
    last_pick: int


def compute_preference(node: RoutableNode) -> int:
    """Return the sort key for replicas that are otherwise equal: most free memory first."""
    return -node.free_bytes


C = TypeVar("C", bound=RouteCandidate)
_EXPECTED_S = attrgetter("expected_s")


class RoutePolicy(Protocol):
    """Interface that picks the replica that answers an inference request."""

    def pick(self, candidates: Sequence[C]) -> C | None:
        """Return the replica to use; None if none takes requests now. Of equal candidates the first is taken, so pass
        them in the order of `compute_preference`."""
        ...


class LeastWaitPolicy:
    """Picks for each request the replica with the least expected wait; those that are about equal take turns."""

    def pick(self, candidates: Sequence[C]) -> C | None:
        lowest_s = min(map(_EXPECTED_S, candidates), default=NEVER)
        if lowest_s == NEVER:
            return None
        limit_s = lowest_s * TIE_RATIO
        chosen, turn = None, NEVER
        for one in candidates:
            if one.last_pick < turn and one.expected_s <= limit_s:
                chosen, turn = one, one.last_pick
        return chosen


class RoundRobinPolicy:
    """Picks the replicas of a model in turn for requests, whatever their expected wait."""

    def pick(self, candidates: Sequence[C]) -> C | None:
        free = [one for one in candidates if one.expected_s < NEVER]
        return min(free, key=lambda one: one.last_pick, default=None)


LEAST_WAIT = LeastWaitPolicy()
_POLICIES: Mapping[str, RoutePolicy] = {"round_robin": RoundRobinPolicy()}


def find_policy(name: str) -> RoutePolicy:
    """Return the policy with the name in a model's rule. An unknown name gives the default policy."""
    return _POLICIES.get(name, LEAST_WAIT)


def resolve_policy_name(name: str) -> str:
    """Return the name of the policy that is really used for the name in a model's rule."""
    return name if name in _POLICIES else "least_wait"


# Explanations


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSnapshot:
    """What request routing knew of one replica when a replica was picked, to explain the pick to people."""

    replica_id: str
    node_name: str
    in_flight: int
    capacity: int
    response_s: float
    # False if the replica has not answered yet, so that the seconds are those of the others.
    is_learnt: bool
    # None if the replica takes no requests now.
    expected_s: float | None
    last_pick: int
    free_bytes: int
    breaker: BreakerState = BreakerState.CLOSED

    @property
    def sentence(self) -> str:
        if self.breaker is not BreakerState.CLOSED:
            return f"{self.node_name}: circuit breaker open, its last requests failed"
        if self.expected_s is None:
            return f"{self.node_name}: full, {self.in_flight} requests of {self.capacity}"
        learnt_from = "learnt" if self.is_learnt else "assumed"
        return (
            f"{self.node_name}: {self.expected_s:.3g} s expected, {self.in_flight} requests there, "
            f"{self.response_s:.3g} s per response ({learnt_from})"
        )


def order_candidates(candidates: Iterable[CandidateSnapshot]) -> list[CandidateSnapshot]:
    """Return the candidates in the order in which they would be picked."""
    known = list(candidates)
    lowest_s = min((term.expected_s for term in known if term.expected_s is not None), default=NEVER)

    def order(term: CandidateSnapshot) -> tuple[bool, float, int, int]:
        wait_s = NEVER if term.expected_s is None else term.expected_s
        is_alike = wait_s <= lowest_s * TIE_RATIO
        return not is_alike, 0.0 if is_alike else wait_s, term.last_pick, -term.free_bytes

    return sorted(known, key=order)
