"""What is going on now, as JSON: models, their replicas, and how fast each of them answers."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from corral.wire.base import Lenient


class SpreadOut(Lenient):
    """Seconds. Null: nothing of the kind happened in the last minute."""

    p50: float | None = None
    p95: float | None = None


class PaceOut(Lenient):
    """How fast something goes, through all frontends: rates of the last ten seconds, times of the last minute."""

    requests_per_s: float = 0.0
    errors_per_s: float = Field(default=0.0, description="Those that the client is not to blame for.")
    prompt_tokens_per_s: float = 0.0
    tokens_per_s: float = Field(default=0.0, description="Tokens as they are written, also of answers under way.")
    first_byte_s: SpreadOut = Field(default_factory=SpreadOut)
    inter_token_s: SpreadOut = Field(default_factory=SpreadOut)
    queue_s: SpreadOut = Field(default_factory=SpreadOut)


class LiveReplica(Lenient):
    id: str
    node: str = Field(description="Name of its node.")
    index: int
    state: str = Field(examples=["loaded", "loading"])
    breaker: str = Field(default="closed", examples=["closed", "open", "half_open"])
    in_flight: int = Field(description="Requests that it answers now, of all frontends.")
    pace: PaceOut = Field(default_factory=PaceOut)


class LiveModel(Lenient):
    name: str
    waiting: int = Field(description="Requests that have no replica yet, of all frontends.")
    in_flight: int
    pace: PaceOut = Field(default_factory=PaceOut)
    replicas: list[LiveReplica]


class LiveOut(Lenient):
    """In `GET /api/stream` what is at its default is left out, and an absent pace is one of zeros."""

    at: datetime
    answered_by: str = Field(description="The frontend that has answered.")
    frontends: int = Field(
        default=1, description="How many frontends are in these numbers; one: those of the frontend that answers only."
    )
    requests_open: int = Field(description="Requests that have not ended.")
    streams_open: int = Field(description="How many of them are streams.")
    pace: PaceOut = Field(default_factory=PaceOut)
    degraded: list[str] = Field(default_factory=list, description="What does not work now, as sentences.")
    models: list[LiveModel] = Field(description="Those with replicas or requests; the busiest first.")
    idle_models: int = Field(description="Models that nobody asks for and that are not loaded.")


class NodeLive(Lenient):
    """What changes of a node while it works; the same names as in a node."""

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


class NodesLive(Lenient):
    """`nodes` of `GET /api/stream`: those of which something has changed."""

    nodes: list[NodeLive]


class PastOut(Lenient):
    """Curves: as many values for each name as there are times. Null: not known at that time."""

    step_s: float = Field(description="How far the times are apart, about.")
    at: list[float] = Field(description="Seconds since 1970.")
    series: dict[str, list[float | None]]
