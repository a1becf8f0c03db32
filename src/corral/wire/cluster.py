"""Bodies about the cluster: frontends, leader, PostgreSQL and NATS; which replica a request is routed to and why; and
the settings that a frontend runs with, in which secrets are masked.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from corral.wire.base import LenientModel, StrictModel

# Far above the number of settings, so that a mistake does not lead to a long response.
CHANGES_MAX = 50
_Name = Annotated[str, StringConstraints(min_length=1, max_length=64)]
_Value = Annotated[str, StringConstraints(max_length=1000)] | bool | int | float | None
SettingChangesIn = Annotated[dict[_Name, _Value], Field(min_length=1, max_length=CHANGES_MAX)]


class FrontendOut(LenientModel):
    """One frontend process of the cluster (`corral serve`), as `GET /api/cluster` lists it."""

    id: str
    host: str
    port: int
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    alive: bool
    leader: bool


class LeaderOut(LenientModel):
    """The leading frontend, which runs the loops that must run once, and the lease by which it leads."""

    holder: str | None = Field(description="The frontend that runs the singleton loops.")
    term: int = Field(description="Increases with each change of leader; guarded writes carry it.")
    acquired_at: datetime | None
    expires_at: datetime | None


class DependencyOut(LenientModel):
    """Whether PostgreSQL or NATS works, as the frontend that responds sees it."""

    state: str = Field(examples=["up", "down"])
    detail: str = ""


class ClusterNodeOut(LenientModel):
    """A node in the overview of the cluster: only its name and status."""

    id: str
    name: str
    status: str
    status_reason: str


class ClusterOut(LenientModel):
    """Response of `GET /api/cluster`: an overview of frontends, leader, nodes, PostgreSQL and NATS."""

    version: str
    answered_by: str
    postgres: DependencyOut
    nats: DependencyOut
    degraded: list[str] = Field(default_factory=list, description="What does not work at present, as sentences.")
    leader: LeaderOut
    frontends: list[FrontendOut]
    nodes: list[ClusterNodeOut]


class ExplainRoutingIn(StrictModel):
    """Body of `POST /api/explain`: the model whose request routing is to be explained."""

    model: str = Field(min_length=1, max_length=255, description="A model's name or one of its aliases.")


class RouteCandidateOut(LenientModel):
    """A replica of a model that may get requests, with the numbers by which the frontend picks one."""

    replica_id: str
    node: str = Field(description="Name of the node.")
    is_picked: bool = Field(description="Whether it would get the next request.")
    expected_s: float | None = Field(
        description="Seconds until it would have served one more request; null: it takes no requests now."
    )
    in_flight: int = Field(description="Requests in flight at the replica, from all frontends.")
    capacity: int = Field(description="Number of requests that it works on at the same time.")
    seconds: float = Field(description="Duration of a response in seconds.")
    is_learnt: bool = Field(
        description="Whether the duration was measured; otherwise it is that of other replicas, or one second."
    )
    breaker: str = Field(examples=["closed", "open", "half_open"])
    free_bytes: int = Field(description="Free memory of its node; the most free memory wins a tie.")
    sentence: str


class ExcludedReplicaOut(LenientModel):
    """A replica of a model that is loaded and gets no requests, and why."""

    replica_id: str
    node: str
    sentence: str


class RoutingExplanationOut(LenientModel):
    """Response of `POST /api/explain`: the replica that would answer a request for the model now, and why."""

    model: str
    answered_by: str = Field(description="The frontend that responded. Each frontend decides by its own numbers.")
    policy: str = Field(examples=["least_wait", "round_robin"])
    picked: str | None = Field(
        description="Id of the replica; null: the request would wait for its turn or for a load."
    )
    waiting: int = Field(description="Requests that already wait for this model at this frontend.")
    message: str = Field(description="The decision as a sentence.")
    candidates: list[RouteCandidateOut] = Field(description="Replicas, in the order in which they would be picked.")
    left_out: list[ExcludedReplicaOut] = Field(default_factory=list)


class SettingOut(LenientModel):
    """One setting of a frontend with its value, where the value came from, and secrets masked."""

    name: str = Field(examples=["node_lease"])
    value: str | None = Field(description="Value as it would be written; null: not set, and there is no default.")
    source: str = Field(description="Source of the value.", examples=["default", "environment CORRAL_NODE_LEASE"])
    section: str = Field(description="Section of the setting.", examples=["nodes"])
    sentence: str = Field(description="Description of the setting.")
    is_secret: bool = Field(description="The value is a secret and never shown.")
    is_live: bool = Field(
        default=False,
        description="Whether it can be changed while frontends run: `POST /api/settings`, unless `source` wins.",
    )


class SettingsOut(LenientModel):
    """Response of `GET /api/settings`: all settings that the responding frontend runs with."""

    answered_by: str = Field(
        description="The frontend that these settings belong to; other frontends may have different ones."
    )
    settings: list[SettingOut]
