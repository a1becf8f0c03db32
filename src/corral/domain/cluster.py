"""The control plane itself: its frontends, leases, and the events of the outbox."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import total_ordering
from typing import Any

from corral.domain.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontend:
    """Describes one frontend process (`corral serve`) of the cluster, and whether it was seen lately."""

    id: str
    host: str
    port: int
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Describes one frontend's time-bound ownership, such as leadership of the cluster.

    `term` grows with each new holder, and guarded writes carry it.

    `unbroken_since` is when the chain of holders last had a gap, before which no leader may have been watching.
    """

    name: str
    holder: str
    term: int
    acquired_at: datetime
    expires_at: datetime
    unbroken_since: datetime


@total_ordering
@dataclass(frozen=True, slots=True)
class OutboxPosition:
    """Marks how far a reader has read the event outbox in PostgreSQL, so that it can resume there.

    Numbers from a sequence become visible out of order, because transactions commit out of order. The pair of
    transaction id and number is safe to resume from, as long as a reader stops before the oldest transaction
    that is still running (`store/outbox.py` does).
    """

    transaction: int
    number: int

    def __lt__(self, other: OutboxPosition) -> bool:
        return (self.transaction, self.number) < (other.transaction, other.number)

    def __str__(self) -> str:
        return f"{self.transaction}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> OutboxPosition:
        left, dash, right = text.strip().partition("-")
        if not (dash and left.isascii() and right.isascii() and left.isdigit() and right.isdigit()):
            raise InvalidRequest(
                f"{text[:60]!r} is not an event id.",
                hint="Send the id of the last received event unchanged, or leave Last-Event-ID out.",
                code="bad_event_id",
            )
        if len(left) > 19 or len(right) > 18:
            raise InvalidRequest("The event id is out of range.", code="bad_event_id")
        return cls(int(left), int(right))


ORIGIN = OutboxPosition(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEvent:
    """Holds one event of the outbox in PostgreSQL: what kind of change happened to which key, and its data."""

    position: OutboxPosition
    kind: str
    key: str
    at: datetime
    data: dict[str, Any]
