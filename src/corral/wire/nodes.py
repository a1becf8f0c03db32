"""Bodies about nodes: what workers report, and what admins see and set."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

from corral.wire.base import LenientModel, StrictModel

# 2**62 bytes: far above any machine, far below what PostgreSQL's bigint overflows at.
BYTES_MAX = 2**62
Bytes = Annotated[int, Field(ge=0, le=BYTES_MAX)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
Address = Annotated[str, StringConstraints(max_length=255, pattern=r"^[^\x00-\x20\x7f]*$")]
Word = Annotated[str, StringConstraints(max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$")]


class GpuReport(LenientModel):
    """One GPU of a node, as the node's worker reads and reports it."""

    vendor: Word
    name: Annotated[str, StringConstraints(max_length=255)] = ""
    index: int = 0
    total_vram: Bytes | None = None
    available_vram: Bytes | None = None
    compute_capability: Word | None = None
    driver: Word | None = None
    uuid: Annotated[str, StringConstraints(max_length=128)] | None = None


class HardwareReport(LenientModel):
    """The hardware of a node, as its worker reads and reports it. Absent means unknown; zero is a real reading."""

    total_vram: Bytes | None = None
    available_vram: Bytes | None = None
    total_ram: Bytes | None = None
    available_ram: Bytes | None = None
    total_disk: Bytes | None = Field(default=None, description="The filesystem of the models directory.")
    available_disk: Bytes | None = None
    gpu_vendor: Word | None = None
    gpu_compute_capability: Word | None = None
    capability: Word | None = None
    cpu_cores: Annotated[int, Field(ge=0, le=65536)] | None = None
    cpu_threads: Annotated[int, Field(ge=0, le=65536)] | None = None
    architecture: Word | None = None
    system: Word | None = None
    unified_memory: bool | None = None
    gpus: Annotated[list[GpuReport], Field(max_length=64)] | None = None


_REGISTER_EXAMPLE: JsonDict = {
    "name": "gpu-a",
    "credential": "cn_made-by-the-worker-itself-0123456789abcdef",
    "boot_id": "01a1de68-9592-79f8-9ffb-5e7de31e71e1",
    "address": "10.0.0.7:50050",
    "labels": {"zone": "b"},
    "total_vram": 25_769_803_776,
    "available_vram": 24_000_000_000,
    "gpu_vendor": "nvidia",
    "capability": "nvidia-cuda-13",
}
_HEARTBEAT_EXAMPLE: JsonDict = {
    "boot_id": "01a1de68-9592-79f8-9ffb-5e7de31e71e1",
    "bus_ok": True,
    "available_vram": 9_000_000_000,
    "available_disk": 0,
}


class SurvivingEngineIn(LenientModel):
    """An engine process that outlived the worker process which started it, reported at the next registration."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    replica: Annotated[int, Field(ge=0, le=2**31 - 1)]
    address: Annotated[str, StringConstraints(max_length=512)]
    revision: Annotated[str, StringConstraints(max_length=512)] = Field(description="The run hash of its load.")


# More than a machine runs. Engines beyond the limit are adopted with the first holdings report.
SURVIVORS_MAX = 1_000
# Far above what one runner process can serve.
MAX_RUNS_MAX = 1_000


class RegisterIn(HardwareReport):
    """Body of `POST /api/node/register`: a worker registers its machine as a node, first and after every start."""

    model_config = ConfigDict(json_schema_extra={"examples": [_REGISTER_EXAMPLE]})

    name: Name
    node_type: str = "backend"
    credential: Annotated[str, StringConstraints(min_length=32, max_length=128)] = Field(
        description="The secret that the worker generated; only its hash is stored."
    )
    boot_id: Annotated[str, StringConstraints(min_length=8, max_length=64)]
    bus_public_key: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        default=None, description="The worker's public nkey; the seed never leaves the machine."
    )
    token: Annotated[str, StringConstraints(max_length=128)] | None = Field(
        default=None, description="A join token, if it is not sent as a bearer token."
    )
    address: Address = ""
    http_address: Address = ""
    labels: dict[str, str] = Field(default_factory=dict, max_length=64)
    max_replicas_per_model: int = 1
    max_runs: Annotated[int, Field(ge=0, le=MAX_RUNS_MAX)] | None = Field(
        default=None, description="Runs that the worker executes at the same time; absent or 0: none."
    )
    run_kinds: Annotated[list[Word], Field(max_length=100)] | None = Field(
        default=None,
        description="Kinds of runs that the worker executes; it is given no others. Absent: those of the first version "
        "with runs.",
    )
    vram_budget: Annotated[str, StringConstraints(max_length=64)] | None = None
    version: Word = ""
    running: Annotated[list[SurvivingEngineIn], Field(max_length=SURVIVORS_MAX)] = Field(
        default_factory=list,
        description="Engines of an earlier process of this worker that are ready: they keep serving.",
    )
    is_running_known: bool = Field(
        default=True,
        description="False while the worker still checks the engines of its earlier process: no replica is removed "
        "before its first holdings report.",
    )


class RegisterOut(LenientModel):
    """Response of `POST /api/node/register`: the registered node, and its bus credential if it is approved."""

    id: str
    name: str
    node_type: str
    status: str
    approved: bool
    created_at: datetime
    max_replicas_per_model: int
    heartbeat_interval_s: float
    nats_url: str | None = Field(default=None, description="Address of the bus; absent while the node is pending.")
    nats_jwt: str | None = None
    nats_jwt_expires_in_s: float | None = None
    ticket_key: str | None = Field(
        default=None, description="The public key that tickets of other nodes are checked with."
    )
    api_token: str | None = Field(default=None, description="For agent nodes: an API key, sent only once.")


class HeartbeatIn(HardwareReport):
    """Body of `POST /api/node/{node_id}/heartbeat`: a worker's sign of life with fresh hardware readings.

    A field that is absent keeps its last value.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_HEARTBEAT_EXAMPLE]})

    boot_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    bus_ok: bool | None = Field(default=None, description="Whether the worker is on the bus.")


class WorkerBootIn(LenientModel):
    """Body of a worker's request to drain, resume or remove its own node: identifies the worker process."""

    boot_id: Annotated[str, StringConstraints(max_length=64)] | None = None


class HeartbeatOut(LenientModel):
    """Response of `POST /api/node/{node_id}/heartbeat`: whether the node is approved or draining.

    It also says when the worker sends the next heartbeat.
    """

    message: str = "ok"
    approved: bool
    draining: bool
    heartbeat_interval_s: float


class BusCredentialsIn(LenientModel):
    """Body of `POST /api/node/{node_id}/credentials`: the public key for which a worker requests a NATS credential."""

    bus_public_key: Annotated[str, StringConstraints(max_length=64)]


class BusCredentialsOut(LenientModel):
    """Response of `POST /api/node/{node_id}/credentials`: a worker's NATS credential, and the server's addresses."""

    nats_url: str
    nats_jwt: str
    nats_jwt_expires_in_s: float
    ticket_key: str = Field(default="", description="The public key that tickets of other nodes are checked with.")


class NodeConditionOut(LenientModel):
    """One condition of a node, such as being unreachable, with since when it holds and why."""

    name: str = Field(examples=["approved", "alive", "on_bus", "draining"])
    holds: bool | None = Field(description="Whether the condition holds; null: not known yet.")
    since: datetime | None = None
    reason: str = ""


class NodeOut(HardwareReport):
    """A node as admins see it in `GET /api/nodes`. `status` is computed from the conditions and not stored."""

    id: str
    name: str
    node_type: str
    status: str = Field(examples=["pending", "joining", "healthy", "unhealthy", "offline", "draining"])
    status_reason: str = Field(examples=["Heartbeats arrive, but the node is not on the bus."])
    schedulable: bool
    conditions: list[NodeConditionOut]
    address: str
    http_address: str
    seen_address: str = Field(default="", description="The host that the last registration came from.")
    address_note: str = Field(
        default="",
        description="A sentence if the node registered another host than it connected from; otherwise empty.",
    )
    reported_available_vram: Bytes | None = Field(default=None, description="Total VRAM before the budget is applied.")
    reserved_vram: Bytes = 0
    max_replicas_per_model: int
    max_replicas_per_model_manually_set: bool
    max_runs: int | None = Field(
        default=None, description="Runs that the node executes at the same time; null or 0: none."
    )
    vram_budget: str
    vram_budget_bytes: Bytes | None = None
    vram_budget_manually_set: bool
    labels: dict[str, str]
    label_sources: dict[str, str] = Field(description="Source of each label by key: auto, worker or admin.")
    proposed_labels: dict[str, str] = Field(
        default_factory=dict,
        description="Labels from the worker that no admin has approved: they are ignored by selectors and rules.",
    )
    held_threads: int = Field(
        default=0, description="Threads assigned to the replicas on this node, out of `cpu_threads`."
    )
    model_count: int = Field(default=0, description="Number of loaded replicas.")
    in_flight_count: int = Field(
        default=0,
        description="Requests in flight at its replicas, from all frontends. At most one second old while live views "
        "are open, otherwise at most two seconds.",
    )
    boot_id: str
    version: str
    last_heartbeat: datetime | None
    created_at: datetime
    updated_at: datetime


class ApproveNodeIn(StrictModel):
    """Body of `POST /api/nodes/{node}/approve`: the proposed labels that the admin saw; only these are approved."""

    labels: Annotated[dict[str, str], Field(max_length=64)] | None = Field(
        default=None, description="Only these pairs of `proposed_labels` are approved; absent: all of them."
    )


class ApprovedNodeOut(LenientModel):
    """Response of `POST /api/nodes/{node}/approve`: the node, and the labels that count from now on."""

    id: str
    name: str
    node_type: str
    status: str
    message: str
    api_token: str | None = None
    labels: dict[str, str] = Field(default_factory=dict, description="Labels of the worker that are approved now.")
    address_note: str = ""


class ReplicaOut(LenientModel):
    """An item of `GET /api/nodes/{node}/models`: a replica of a model on a node, with LocalAI's field names."""

    id: str
    node_id: str
    model_name: str
    replica_index: int
    address: str
    state: str
    in_flight: int
    last_used: datetime | None
    config_revision: str
    backend_type: str = Field(default="", description="The backend of its engine.")
    loading_by: str = Field(default="", description="The operation that is loading it; empty once it is loaded.")
    created_at: datetime | None = None
    updated_at: datetime | None = None


class MessageOut(LenientModel):
    """Response that is only a sentence for people, which says what was done."""

    message: str


class NodeProbeOut(LenientModel):
    """Response of `POST /api/nodes/{node}/probe`: what the node's worker replied over NATS.

    The reply says which worker process runs there, since when, and on which hardware.
    """

    node_id: str
    boot_id: str
    name: str
    version: str
    uptime_s: float
    hardware: dict[str, Any] = Field(default_factory=dict)


class ReplicaSlotsIn(StrictModel):
    """Body of `PUT /api/nodes/{node}/max-replicas-per-model`: how many replicas of one model the node may hold."""

    value: Annotated[int, Field(ge=1, le=1024, examples=[4])]


class ReplicaSlotsOut(LenientModel):
    """Response to a change of how many replicas of one model a node may hold: the number that counts now."""

    max_replicas_per_model: int
    reset: bool = False


class VramBudgetIn(StrictModel):
    """Body of `PUT /api/nodes/{node}/vram-budget`: how much of the node's GPU memory Corral may use."""

    value: Annotated[str, StringConstraints(max_length=64)] = Field(examples=["80%", "12GB", ""])


class VramBudgetOut(LenientModel):
    """Response to a change of how much of a node's GPU memory Corral may use: the amount that counts now."""

    vram_budget: str
    vram_budget_bytes: Bytes | None = None
    reset: bool = False
