"""Records of requests that have ended, and what stands in for a fleet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from corral.domain.usage import RequestRecord
from corral.insight.request_monitor import BreakerStatus, OpenRequest

BEGAN_AT = 1_790_000_000.0


def record(**changes: Any) -> RequestRecord:
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
    return RequestRecord(**(usual | changes))


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

    tally_key: tuple[str, str, str]
    is_streaming: bool = False
    events: int = 0


@dataclass
class SmallFleet:
    names: set[str] = field(default_factory=lambda: {"chat"})
    replicas: dict[str, BreakerStatus] = field(
        default_factory=lambda: {"replica-1": BreakerStatus(model="chat", state="closed")}
    )
    requests: list[OpenRequest] = field(default_factory=list)

    def list_models(self) -> Collection[str]:
        return self.names

    def list_breakers(self) -> Mapping[str, BreakerStatus]:
        return self.replicas

    def list_open_requests(self) -> Iterable[OpenRequest]:
        return self.requests

    def is_leader(self) -> bool:
        return True
