"""What was used: sums over the requests of an hour, of a key, of a model, of a kind of call, on a node."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

HOUR_S = 3600

# What requests are summed by: the hour in which they began (hours since the epoch), key, model, call, and the name that
# the node had (empty: none was reached). A plain tuple, because one is made for every request.
Bucket: TypeAlias = tuple[int, str, str, str, str]


@dataclass(slots=True, kw_only=True)
class Sums:
    requests: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    # Of the prompt tokens, those that the engine did not have to read again.
    cached_tokens: int = 0
    completion_tokens: int = 0
    # Of the completion tokens, those that were counted by events because the engine did not tell.
    estimated_tokens: int = 0

    def add(self, other: Sums) -> None:
        self.requests += other.requests
        self.errors += other.errors
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        self.completion_tokens += other.completion_tokens
        self.estimated_tokens += other.estimated_tokens


Buckets: TypeAlias = dict[Bucket, Sums]


def add_all(target: Buckets, more: Buckets) -> None:
    for bucket, sums in more.items():
        target.setdefault(bucket, Sums()).add(sums)


class By(StrEnum):
    """What usage is told by."""

    KEY = "key"
    MODEL = "model"
    USER = "user"
    CALL = "call"
    NODE = "node"
    DAY = "day"
    HOUR = "hour"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuestion:
    """`since` counts, `until` does not; both are rounded down to the hour, because usage is kept by the hour."""

    since: datetime
    # None: until now.
    until: datetime | None = None
    by: tuple[By, ...] = ()
    # Of this key alone, of this user alone.
    key_id: str | None = None
    user_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One line of an answer. What was not asked for is empty."""

    # The beginning of the day or the hour, in UTC.
    at: datetime | None = None
    key_id: str = ""
    key_name: str = ""
    user_name: str = ""
    model: str = ""
    call: str = ""
    node: str = ""
    sums: Sums
