"""A node: a registered machine. Its facts are separate and never merged into one column.

    approval   an admin's decision          approved_at
    drain      an admin's intent            drained_at        (self_drained_at: the worker's own)
    liveness   an observation               alive | lost | left
    bus        an observation               bus_ok: True | False | None (not known yet)

The status that people see is computed from these (`policy/status.py`) and stored nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

NodeId = NewType("NodeId", str)


class NodeType(StrEnum):
    """Names what a node is for: running engines, or only executing the work of LLM agents."""

    BACKEND = "backend"  # runs engines
    AGENT = "agent"  # runs agent work only; never gets a backend or a model


class Liveness(StrEnum):
    """Names whether heartbeats of a node's worker arrive: alive, lost, or left on its own."""

    ALIVE = "alive"  # its lease is being renewed by heartbeats
    LOST = "lost"  # the lease ran out; the next heartbeat brings it back
    LEFT = "left"  # its worker signed off; only a new start brings it back


class NodeStatus(StrEnum):
    """Names the status of a node that people see, computed from stored facts such as liveness and approval."""

    PENDING = "pending"  # not approved yet
    DRAINING = "draining"  # taken out of service on purpose
    OFFLINE = "offline"  # lost, or left
    JOINING = "joining"  # just approved, and not on the bus yet
    UNHEALTHY = "unhealthy"  # heartbeats arrive, commands do not
    HEALTHY = "healthy"  # approved, alive, on the bus, not drained


class LabelSource(StrEnum):
    """Names who gave a node a label for placement: the machine, its worker's settings, or an admin."""

    AUTO = "auto"  # derived from the machine
    WORKER = "worker"  # sent by the worker at registration; counts once an admin has approved it
    ADMIN = "admin"  # set by an admin; outlives registrations


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Hardware readings that a node's worker last reported. None is unknown; zero is a reading."""

    total_vram: int | None = None
    available_vram: int | None = None
    total_ram: int | None = None
    available_ram: int | None = None
    total_disk: int | None = None
    available_disk: int | None = None
    gpu_vendor: str | None = None
    gpu_compute_capability: str | None = None
    capability: str | None = None
    cpu_cores: int | None = None
    cpu_threads: int | None = None
    architecture: str | None = None
    system: str | None = None
    unified_memory: bool | None = None
    gpus: tuple[dict[str, Any], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Holds one label of a node, by which models are placed, and who gave it."""

    key: str
    value: str
    source: LabelSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Describes a node, a machine that a worker registered: identity, hardware, approval, drain, liveness, labels."""

    id: NodeId
    name: str
    type: NodeType
    credential_hash: str
    boot_id: str
    version: str = ""
    address: str = ""
    http_address: str = ""
    # The host that the last registration came from; behind a proxy, the proxy's.
    seen_address: str = ""
    bus_public_key: str | None = None
    hardware: Hardware = field(default_factory=Hardware)

    approved_at: datetime | None = None
    approved_by: str | None = None
    drained_at: datetime | None = None
    drained_by: str | None = None
    self_drained_at: datetime | None = None
    liveness: Liveness = Liveness.ALIVE
    liveness_since: datetime
    bus_ok: bool | None = None
    bus_since: datetime | None = None
    # When the node was first on the bus after its approval.
    bus_joined_at: datetime | None = None
    last_heartbeat_at: datetime | None = None

    # Policy, apart from observations: the worker's flag and the admin's override, which wins.
    slots_reported: int = 1
    slots_override: int | None = None
    budget_reported: str | None = None
    budget_override: str | None = None  # "": the admin has set no cap
    # How many runs its worker executes at the same time. None: the worker is too old for runs.
    max_runs: int | None = None
    # The kinds of runs that its worker executes, by the words that it knows. None: the worker does not say.
    run_kinds: frozenset[str] | None = None

    # When the node last reported its backends. None: never, which is not the same as having none.
    backends_at: datetime | None = None
    # The same for its processes and files.
    holdings_at: datetime | None = None

    created_at: datetime
    updated_at: datetime

    # The labels that count for selectors.
    labels: tuple[Label, ...] = ()
    # Pairs of the worker that an admin has approved, whether the worker still sends them or not.
    approved_labels: Mapping[str, str] = field(default_factory=dict)
    # Labels that the worker sends and no admin has approved yet: they have no effect.
    proposed_labels: Mapping[str, str] = field(default_factory=dict)
    # Reserved for running loads.
    reserved_vram: int = 0
    reserved_ram: int = 0
    reserved_disk: int = 0
    # Allotted to the replicas on the node, whatever their state.
    held_threads: int = 0
    # VRAM of the replicas that run here; loads in progress count as reserved instead.
    held_vram: int = 0
    # The number of loaded replicas.
    model_count: int = 0
    in_flight_count: int = 0

    @property
    def slots(self) -> int:
        return self.slots_reported if self.slots_override is None else self.slots_override

    @property
    def budget(self) -> str:
        chosen = self.budget_reported if self.budget_override is None else self.budget_override
        return chosen or ""

    @property
    def label_map(self) -> dict[str, str]:
        return {label.key: label.value for label in self.labels}
