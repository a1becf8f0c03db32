"""The cluster as JSON: its frontends, who leads, and the parts that all of them stand on."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from corral.wire.base import Lenient


class FrontendOut(Lenient):
    id: str
    host: str
    port: int
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    alive: bool
    leader: bool


class LeaderOut(Lenient):
    holder: str | None = Field(description="The frontend that runs the singleton loops.")
    term: int = Field(description="Grows with each change of leader; guarded writes carry it.")
    acquired_at: datetime | None
    expires_at: datetime | None


class PartOut(Lenient):
    state: str = Field(examples=["up", "down"])
    detail: str = ""


class ClusterNode(Lenient):
    id: str
    name: str
    status: str
    status_reason: str


class ClusterOut(Lenient):
    version: str
    answered_by: str
    postgres: PartOut
    nats: PartOut
    degraded: list[str] = Field(default_factory=list, description="What does not work now, as sentences.")
    leader: LeaderOut
    frontends: list[FrontendOut]
    nodes: list[ClusterNode]
