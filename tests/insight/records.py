"""Records of requests that have ended, and what stands in for a fleet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from corral.domain.answered import Answered
from corral.insight.going import UnderWay
from corral.insight.insight import Breaker

BEGAN_AT = 1_790_000_000.0


def record(**changes: Any) -> Answered:
    """A stream of 201 events that went well: 10 ms in the queue, 100 ms to its first byte, 2.1 s in all."""
    usual: dict[str, Any] = {
        "request_id": "request-1",
        "key_id": "key-1",
        "model": "chat",
        "call": "chat",
        "status": 200,
        "replica_id": "replica-1",
        "node_name": "node-1",
        "began_at": BEGAN_AT,
        "queue_s": 0.01,
        "first_byte_s": 0.1,
        "total_s": 2.1,
        "is_stream": True,
        "events": 201,
        "prompt_tokens": 30,
        "cached_tokens": 20,
        "completion_tokens": 200,
    }
    return Answered(**(usual | changes))


@dataclass
class HandClock:
    """Time that moves when the test says so."""

    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> datetime:
        return datetime(2026, 11, 15, tzinfo=UTC) + timedelta(seconds=self.now)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass(frozen=True)
class Request:
    """A request that has not ended."""

    place: tuple[str, str, str]
    is_streaming: bool = False
    events: int = 0


@dataclass
class SmallFleet:
    names: set[str] = field(default_factory=lambda: {"chat"})
    replicas: dict[str, Breaker] = field(default_factory=lambda: {"replica-1": Breaker(model="chat", state="closed")})
    requests: list[UnderWay] = field(default_factory=list)

    def models(self) -> Collection[str]:
        return self.names

    def breakers(self) -> Mapping[str, Breaker]:
        return self.replicas

    def under_way(self) -> Iterable[UnderWay]:
        return self.requests

    def leads(self) -> bool:
        return True
