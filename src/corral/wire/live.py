"""Bodies of live views (models, replicas, nodes, request rates and response times) and of one event of
`GET /api/events`, as in the SSE `data:` line.

The SSE `id:` is the position in the outbox: send it back as `Last-Event-ID` to resume. The event named `reset`
means that the position is too old: read the state again and continue from there.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from corral.wire.base import LenientModel


class EventOut(LenientModel):
    """One event of the stream `GET /api/stream`: what kind of change happened to which thing of the cluster."""

    id: str = Field(examples=["7351-42"])
    kind: str = Field(examples=["node.approved"])
    key: str = Field(description="The id of the thing that changed.")
    at: datetime
    data: dict[str, Any] = Field(default_factory=dict)


class QuantilePairOut(LenientModel):
    """Median and 95th percentile of a response time in seconds. Null: nothing was measured in the last minute."""

    p50: float | None = None
    p95: float | None = None


class RequestPaceOut(LenientModel):
    """Inference traffic through all frontends: request rates of the last ten seconds, response times of a minute."""

    requests_per_s: float = 0.0
    errors_per_s: float = Field(default=0.0, description="Errors that were not caused by the client.")
    prompt_tokens_per_s: float = 0.0
    tokens_per_s: float = Field(default=0.0, description="Output tokens, including those of responses in progress.")
    first_byte_s: QuantilePairOut = Field(default_factory=QuantilePairOut)
    inter_token_s: QuantilePairOut = Field(default_factory=QuantilePairOut)
    queue_s: QuantilePairOut = Field(default_factory=QuantilePairOut)


class LiveReplicaOut(LenientModel):
    """The present work of one replica of a model, such as its open requests, for live displays."""

    id: str
    node: str = Field(description="Name of the node.")
    index: int
    state: str = Field(examples=["loaded", "loading"])
    breaker: str = Field(default="closed", examples=["closed", "open", "half_open"])
    in_flight: int = Field(description="Requests in flight at this replica, from all frontends.")
    pace: RequestPaceOut = Field(default_factory=RequestPaceOut)


class LiveModelOut(LenientModel):
    """The present work of one model and of each of its replicas, for live displays."""

    name: str
    waiting: int = Field(description="Requests that wait for a replica, from all frontends.")
    in_flight: int
    pace: RequestPaceOut = Field(default_factory=RequestPaceOut)
    replicas: list[LiveReplicaOut]


class LiveOut(LenientModel):
    """Response of `GET /api/live`: the present work of the cluster, of each model and of each replica.

    In `GET /api/stream` values that are at their default are left out.
    """

    at: datetime
    answered_by: str = Field(description="Id of the frontend that responded.")
    frontends: int = Field(
        default=1, description="Number of frontends in these numbers; 1: only the one that responded."
    )
    requests_open: int = Field(description="Requests in progress.")
    streams_open: int = Field(description="Requests in progress that are streams.")
    pace: RequestPaceOut = Field(default_factory=RequestPaceOut)
    degraded: list[str] = Field(default_factory=list, description="What does not work at present, as sentences.")
    models: list[LiveModelOut] = Field(description="Models with replicas or requests, busiest first.")
    idle_models: int = Field(description="Number of models without replicas and requests.")


class LiveNodeOut(LenientModel):
    """The readings of a node that change while it works, such as free memory; named as in `NodeOut`."""

    id: str
    status: str
    status_reason: str
    schedulable: bool
    available_vram: int | None = None
    reported_available_vram: int | None = None
    reserved_vram: int = 0
    available_ram: int | None = None
    available_disk: int | None = None
    in_flight_count: int = 0
    model_count: int = 0
    last_heartbeat: datetime | None = None


class LiveNodesOut(LenientModel):
    """Data of an event in `GET /api/stream`: the nodes whose readings have changed."""

    nodes: list[LiveNodeOut]


class HistorySeriesOut(LenientModel):
    """Response of `GET /api/history`: measurements of the last hour as time series, to draw curves of.

    For each name there are as many values as there are times. Null: not known at that time.
    """

    step_s: float = Field(description="Approximate distance between two times, in seconds.")
    at: list[float] = Field(description="Unix times in seconds.")
    series: dict[str, list[float | None]]
