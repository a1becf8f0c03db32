"""Which replica answers a request: the least busy, then the one whose turn it is, then the one with most room.

Guarantee: what the caller has counted in its own memory between two picks is taken into account, so that a burst is
spread evenly however fast it comes. A replica outside the model's selector, on a node that is away, or of another
revision is no candidate in the first place (`candidates`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from corral.domain.node import NodeId
from corral.policy.labels import matches


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A replica that may be picked."""

    id: str
    # Requests that it answers now, over all frontends as far as is known.
    in_flight: int = 0
    # Grows with every pick; 0: never picked.
    picked: int = 0
    free_bytes: int = 0


def is_candidate(revision: str, wanted_revision: str, place: Place | None, selector: Mapping[str, str]) -> bool:
    """Whether a loaded replica may be given requests."""
    return revision == wanted_revision and place is not None and place.is_open and matches(selector, place.labels)


def pick(
    choices: Iterable[Choice], *, without: Collection[str] = (), preferred: Callable[[Choice], bool] | None = None
) -> Choice | None:
    """The replica for one request; None if there is none. A preferred one that is there goes before all others."""
    left = [choice for choice in choices if choice.id not in without]
    if preferred is not None:
        left = [choice for choice in left if preferred(choice)] or left
    return min(left, key=_order, default=None)


def _order(choice: Choice) -> tuple[int, int, int, str]:
    return choice.in_flight, choice.picked, -choice.free_bytes, choice.id
