"""A replica: one loaded copy of a model, known by node, model and index; and the rules that ask for replicas.

    staging ──files are there──> loading ──ready──> loaded ──evicted, edited, unloaded, idle──> unloading ──> (gone)
       └──────────── a failure: (gone) ───────────────┘

Only `loaded` with the model's present run hash is given requests. `unloading` goes when the worker has acknowledged
that the process has ended, and not before; until then it keeps its index and takes no slot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from corral.domain.node import NodeId


class ReplicaState(StrEnum):
    """Names the state of a model's replica on a node, from staging its files to unloading."""

    STAGING = "staging"
    LOADING = "loading"
    LOADED = "loaded"
    UNLOADING = "unloading"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """Describes one copy of a model that an engine on a node has loaded or is loading."""

    id: str
    node_id: NodeId
    model: str
    index: int
    state: ReplicaState
    # host:port of the engine, as frontends reach it; empty until it is known.
    address: str = ""
    # The model's run hash at the time of the load.
    revision: str = ""
    # The key to send to the engine; empty if it checks nothing.
    engine_key: str = field(default="", repr=False)
    backend: str = ""
    version: str = ""
    # The load that created the replica.
    operation_id: str | None = None
    # The memory of the replica: estimated while it loads, measured afterwards.
    vram_bytes: int | None = None
    ram_bytes: int | None = None
    threads: int = 1
    # How long the load took from the command until it was ready: the cost of bringing it back.
    load_s: float | None = None
    loaded_at: datetime | None = None
    # Sums over the frontends' unexpired leases.
    in_flight: int = 0
    last_used_at: datetime | None = None
    # Why the replica is being unloaded, and the last problem.
    stop_reason: str = ""
    stop_attempts: int = 0
    stop_problem: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def process_key(self) -> str:
        return f"{self.model}#{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWindow:
    """Describes a time of the week in which a model's rule asks for more replicas; `cron` says when it begins."""

    cron: str
    duration_s: float
    min_replicas: int
    max_replicas: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Says on which nodes a model may run, and how many replicas the model is to have.

    `max_replicas` 0 is no limit.
    """

    model: str
    selector: dict[str, str]
    min_replicas: int = 0
    max_replicas: int = 0
    # One replica on every node that matches; excludes a minimum and a maximum.
    spreads: bool = False
    windows: tuple[RuleWindow, ...] = ()
    time_zone: str = "UTC"
    route_policy: str = ""
    unsatisfiable_until: datetime | None = None
    unsatisfiable_ticks: int = 0
