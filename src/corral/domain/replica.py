"""A replica: one loaded copy of a model, known by node, model and index."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from corral.domain.node import NodeId


class ReplicaState(StrEnum):
    STAGING = "staging"
    LOADING = "loading"
    LOADED = "loaded"
    UNLOADING = "unloading"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    id: str
    node_id: NodeId
    model: str
    index: int
    state: ReplicaState
    address: str = ""
    revision: str = ""
    in_flight: int = 0
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What an admin wants of a model: where, and how many."""

    model: str
    selector: dict[str, str]
    min_replicas: int = 0
    max_replicas: int = 0
    unsatisfiable_until: datetime | None = None
    unsatisfiable_ticks: int = 0
