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
    # host:port of the engine, as frontends reach it; empty until it is known.
    address: str = ""
    # The model's run hash at the time of the load.
    revision: str = ""
    # What to show to the engine; empty if it checks nothing.
    engine_key: str = field(default="", repr=False)
    backend: str = ""
    version: str = ""
    # The load that made it.
    operation_id: str | None = None
    # What it takes: estimated while it loads, as observed afterwards.
    vram_bytes: int | None = None
    ram_bytes: int | None = None
    threads: int = 1
    # How long it took from the command until it was ready: what it costs to bring it back.
    load_s: float | None = None
    loaded_at: datetime | None = None
    # Sums over the frontends' unexpired leases.
    in_flight: int = 0
    last_used_at: datetime | None = None
    # Why it is being unloaded, and what has kept it so far.
    stop_reason: str = ""
    stop_attempts: int = 0
    stop_problem: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def process_key(self) -> str:
        return f"{self.model}#{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A time of the week in which a rule asks for more. `cron` is when it begins, in the rule's time zone."""

    cron: str
    duration_s: float
    min_replicas: int
    max_replicas: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What an admin wants of a model: where, and how many. `max_replicas` 0 is no limit."""

    model: str
    selector: dict[str, str]
    min_replicas: int = 0
    max_replicas: int = 0
    # One replica on every node that matches; excludes a minimum and a maximum.
    spreads: bool = False
    windows: tuple[Window, ...] = ()
    time_zone: str = "UTC"
    route_policy: str = ""
    unsatisfiable_until: datetime | None = None
    unsatisfiable_ticks: int = 0
