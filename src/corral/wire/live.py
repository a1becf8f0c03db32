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
    """How fast something goes, through the frontend that answers: rates of the last ten seconds, times of the last
    minute."""

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
    at: datetime
    answered_by: str = Field(description="The frontend that has answered; rates and times are its own.")
    requests_open: int = Field(description="Through this frontend.")
    streams_open: int = Field(description="Through this frontend.")
    pace: PaceOut = Field(default_factory=PaceOut)
    degraded: list[str] = Field(default_factory=list, description="What does not work now, as sentences.")
    models: list[LiveModel] = Field(description="Those with replicas or requests; the busiest first.")
    idle_models: int = Field(description="Models that nobody asks for and that are not loaded.")
