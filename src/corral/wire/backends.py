"""Bodies about backends: what workers report, and what admins see and request."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from corral.domain.duration import find_seconds
from corral.wire.base import LenientModel, StrictModel
from corral.wire.nodes import Bytes, Name
from corral.wire.operations import CamelCaseModel

BackendName = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, StringConstraints(max_length=255, pattern=r"^[^\x00-\x1f\x7f]*$")]
Generation = Annotated[int, Field(ge=0, le=2**62)]


class InstalledBackendIn(LenientModel):
    """One backend (the software of an engine) that is installed on a node, in the report of the node's worker."""

    name: BackendName
    meta: Text = ""
    alias: Text = ""
    version: Annotated[str, StringConstraints(max_length=128)] = ""
    digest: Annotated[str, StringConstraints(max_length=128)] = ""
    uri: Annotated[str, StringConstraints(max_length=4096)] = ""
    gallery: Text = ""
    generation: Generation = 0
    size_bytes: Bytes | None = None
    previous_version: Annotated[str, StringConstraints(max_length=128)] = ""
    is_system: bool = False
    installed_at: datetime | None = None


class BackendsReportIn(LenientModel):
    """Body of `POST /api/node/{node_id}/backends`: a worker's report of all backends that its node has installed.

    A backend that is not listed is not installed.
    """

    boot_id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    backends: Annotated[list[InstalledBackendIn], Field(max_length=1000)]
    removed: Annotated[dict[BackendName, Generation], Field(max_length=1000)] = Field(
        default_factory=dict, description="Backends that were removed, with the generation of the removal."
    )


# --- what admins request ---

DURATION = r"^\d{1,9}(\.\d{1,3})?(ms|s|m|h|d)?$"
NODES_MAX = 10_000
Uri = Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]
VersionText = Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^([0-9a-fA-F]{64})?$")]
# Absent means all suitable nodes. An empty list is refused, because it could be read as "all".
NodeList = Annotated[list[Name], Field(min_length=1, max_length=NODES_MAX)]


def _check_duration(text: str) -> str:
    if not re.fullmatch(DURATION, text, re.ASCII):
        raise ValueError(f"{text[:40]!r} is not a duration such as 90s, 30m, 1h or 7d")
    return text


# The pattern is in the description; the error for a value that breaks it is a sentence.
Duration = Annotated[str, AfterValidator(_check_duration), WithJsonSchema({"type": "string", "pattern": DURATION})]


class StrategyIn(StrictModel):
    """The rollout of an operation over its nodes: how many change at a time, and what happens after a failure."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"waves": [1, 5], "stop_on_failure": True, "rollback": True, "deadline": "1h"}]}
    )

    waves: Annotated[list[Annotated[int, Field(ge=1, le=NODES_MAX)]], Field(max_length=100)] = Field(
        default_factory=list, description="Number of nodes in each wave; the last number repeats. Empty: all at once."
    )
    stop_on_failure: bool = Field(default=False, description="Start no further wave after a failure.")
    rollback: bool = Field(default=False, description="After a failure, roll changed nodes back.")
    deadline: Duration | None = Field(
        default=None,
        description="How long the change may stay pending on offline nodes: 90s, 30m, 1h, 7d. Absent: no limit.",
    )

    @property
    def deadline_s(self) -> float | None:
        return None if self.deadline is None else find_seconds(self.deadline)


class TargetsIn(StrictModel):
    """Body that selects the nodes of an engine backend operation, such as a removal, and how it rolls out over them."""

    nodes: NodeList | None = Field(
        default=None, description="Names or ids of nodes. Absent: all suitable nodes.", examples=[["gpu-a"]]
    )
    strategy: StrategyIn = Field(default_factory=StrategyIn)


class BackendChangeIn(TargetsIn):
    """Body that reinstalls or upgrades a backend: on which nodes, to which version, and whether hardware is ignored."""

    version: VersionText = Field(default="", description="Version; empty: the newest.")
    ignore_capability: bool = Field(
        default=False, description="Also install on nodes whose hardware the build is not for."
    )


class InstallBackendIn(BackendChangeIn):
    """Body of `POST /api/backends/install/{name}`: installs a backend of a gallery on nodes."""

    force: bool = Field(default=False, description="Download and install again where it is installed already.")


class ExternalBackendIn(BackendChangeIn):
    """Body of `POST /api/backends/install-external`: installs a backend from an address, without a gallery."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"uri": "https://example.com/engine-1.0.tar.gz", "name": "my-engine", "nodes": ["gpu-a"]}]
        }
    )

    uri: Uri = Field(min_length=1, description="Address of an archive, a wheel or an OCI artifact.")
    name: Text = Field(default="", description="Name of the backend; required for OCI artifacts.")
    alias: Text = ""
    sha256: Sha256 = Field(default="", description="SHA-256 of the file. Without it, the download is not verified.")


class ApplyBackendIn(InstallBackendIn):
    """Body of `POST /backends/apply`, in LocalAI's form: installs a backend of a gallery."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "llama-cpp"}]})

    id: BackendName = Field(description="A name or gallery@name.")


class NodeBackendInstallIn(StrictModel):
    """Body that installs a backend on one node: a `backend` of a gallery, or a `uri` with a name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"backend": "llama-cpp"}]})

    backend: Text = ""
    uri: Uri = ""
    name: Text = ""
    alias: Text = ""
    sha256: Sha256 = ""
    version: VersionText = ""
    force: bool = False
    ignore_capability: bool = False
    backend_galleries: Annotated[list[dict[str, Any]], Field(max_length=100)] = Field(
        default_factory=list, description="Field of LocalAI. Galleries are a setting of the frontends; leave it empty."
    )
    strategy: StrategyIn = Field(default_factory=StrategyIn)


class NodeBackendChangeIn(StrictModel):
    """Body that upgrades, reinstalls, rolls back or deletes one backend on one node."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"backend": "llama-cpp"}]})

    backend: BackendName
    version: VersionText = ""
    strategy: StrategyIn = Field(default_factory=StrategyIn)


class BackendOperationOut(CamelCaseModel):
    """Response to a request for a change of an engine backend: the operation that makes it, with where to follow it."""

    id: str
    job_id: str = Field(description="The same as `id`.")
    uuid: str = Field(description="The same as `id`.")
    status_url: str = Field(examples=["/api/backends/job/<id>"])
    status_url_of_localai: str = Field(alias="status_url", description="The same as `statusUrl`.")
    message: str
    state: str
    deduplicated: bool = Field(description="True: the same change was requested already, and this is its operation.")


class PlannedNodeOut(LenientModel):
    """One node in a dry run of an engine backend operation: the change that the operation would make there."""

    node_id: str
    node_name: str
    node_status: str = Field(description="Status of the node; an offline node gets the change when it is back.")
    backend: str = Field(description="The build that is picked for its hardware.")
    version: str = ""
    desired: str
    previous_version: str = Field(default="", description="The version that the node has now.")
    has_it: bool = Field(default=False, description="The node already has this version; nothing changes there.")
    source: str = ""
    uri: str = ""
    wave: int = 0
    fetch_bytes: Bytes | None = Field(default=None, description="Estimated download size; null: not known.")


class SkippedNodeOut(LenientModel):
    """One node in a dry run of an engine backend operation that the operation would leave out, and why."""

    node_id: str
    node_name: str
    reason: str


class BackendPlanOut(LenientModel):
    """Response to a dry run of an engine backend operation: what it would do on which node. Nothing was changed."""

    plan: Literal[True] = True
    kind: str
    backend: str
    nodes: list[PlannedNodeOut]
    skipped: list[SkippedNodeOut] = Field(default_factory=list)
    fetch_bytes: Bytes | None = Field(default=None, description="Download size of all nodes; null if one is not known.")


class RefusedUpgradeOut(LenientModel):
    """A backend that `POST /api/backends/upgrades/apply` did not upgrade, and why."""

    backend: str
    code: str
    message: str


class AppliedUpgradesOut(LenientModel):
    """Response of `POST /api/backends/upgrades/apply`: one upgrade operation for each backend, and the refusals."""

    operations: list[BackendOperationOut]
    refused: list[RefusedUpgradeOut] = Field(default_factory=list)


class LocalAiJobOut(CamelCaseModel):
    """Response about one operation in the form of LocalAI's jobs, for LocalAI's clients that poll it."""

    progress: float
    message: str
    gallery_element_name: str
    processed: bool
    deletion: bool
    queued: bool
    error: str | None = None
    completed: bool | None = None
    cancelled: bool | None = None
    phase: str | None = None
    state: str = Field(description="State of the operation in Corral's words, which are more exact.")


# --- what admins see ---


class BackendInstallationOut(LenientModel):
    """One installation of a backend on one node, as the node's worker reported it."""

    node_id: str
    node_name: str
    node_status: str
    version: str = ""
    digest: str = ""
    uri: str = ""
    installed_at: datetime | None = None
    previous_version: str = ""
    size_bytes: Bytes | None = None
    drifts: bool = Field(default=False, description="The version differs from that of most nodes.")
    has_upgrade: bool = Field(default=False, description="There is an upgrade for this node.")
    upgrade_to: str = Field(default="", description="The version that this node would get; empty for images.")


class InstalledBackendOut(LenientModel):
    """An item of `GET /backends`: one backend with the nodes that have it installed.

    `Name`, `IsSystem`, `IsMeta` and `Nodes` are LocalAI's spelling.
    """

    model_config = ConfigDict(populate_by_name=True)

    name: str = Field(alias="Name")
    is_system: bool = Field(alias="IsSystem")
    is_meta: bool = Field(default=False, alias="IsMeta", description="Always false: an installed backend is a build.")
    meta: str = ""
    alias: str = ""
    gallery: str = ""
    version: str = Field(default="", description="The version that most nodes have.")
    available_version: str = Field(default="", description="The version that it can be upgraded to.")
    has_upgrade: bool = False
    upgrade_summary: str = Field(
        default="", description="Which version is the newest, and which nodes have another one."
    )
    nodes: list[BackendInstallationOut] = Field(alias="Nodes")


class NodeBackendOut(LenientModel):
    """An item of `GET /api/nodes/{node}/backends`: one backend that is installed on that node."""

    name: str
    meta: str = ""
    alias: str = ""
    version: str = ""
    digest: str = ""
    uri: str = ""
    gallery: str = ""
    gallery_url: str = Field(default="", description="LocalAI's name for `gallery`.")
    is_system: bool = False
    is_meta: bool = False
    previous_version: str = ""
    size_bytes: Bytes | None = None
    installed_at: datetime | None = None
    generation: int = 0


class CatalogEntryOut(CamelCaseModel):
    """One backend that the galleries offer, with the nodes on which it is installed."""

    id: str = Field(examples=["corral@llama-cpp"])
    name: str
    gallery: str
    description: str = ""
    icon: str = ""
    license: str = ""
    urls: list[str] = Field(default_factory=list)
    tags: list[str] = Field(default_factory=list)
    alias: str = ""
    is_meta: bool
    is_alias: bool = False
    is_development: bool = False
    is_unverified: bool = Field(
        default=False, description="It has not been run on the machines that Corral is tested on."
    )
    capabilities: dict[str, str] = Field(
        default_factory=dict, description="Build for each kind of hardware; only of a meta backend."
    )
    runs_on: list[str] = Field(default_factory=list, description="Capabilities of current nodes that can run it.")
    versions: list[str] = Field(default_factory=list, description="Versions, newest first.")
    meta_backend_for: str | None = Field(default=None, description="The meta backend that a build belongs to.")
    installed: bool = Field(description="Whether it is installed on at least one node.")
    version: str = Field(default="", description="The installed version, or the newest one.")
    processing: bool = Field(default=False, description="An operation about it is running.")
    job_id: str | None = None
    is_deletion: bool = False
    nodes: list[BackendInstallationOut] = Field(default_factory=list)


class CatalogPageOut(CamelCaseModel):
    """Response of `GET /api/backends`: a page of the backends that the galleries offer."""

    backends: list[CatalogEntryOut]
    processing_backends: dict[str, str] = Field(description="Id of the running operation by backend name.")
    task_types: dict[str, str] = Field(description="Kind of the running operation by backend name.")
    available_backends: int
    installed_backends: int
    system_capability: str = Field(description="Capabilities of the current nodes, separated by commas.")
    prefer_development_backends: bool = False
    all_tags: list[str]
    current_page: int
    total_pages: int


class NodeDriftOut(LenientModel):
    """A node whose installed version of a backend differs from that of most nodes."""

    node_id: str
    node_name: str
    version: str = ""
    digest: str = ""


class NodeUpgradeOut(LenientModel):
    """One node that is behind, with its present version of a backend and the version that an upgrade would install."""

    node_id: str
    node_name: str
    from_version: str = ""
    to_version: str = ""


class BackendUpgradeOut(LenientModel):
    """An item of `GET /api/backends/upgrades`: a backend with an upgrade, and the nodes that are behind or differ."""

    backend_name: str
    installed_version: str = Field(default="", description="The version that most nodes have.")
    available_version: str = ""
    installed_digest: str = ""
    available_digest: str = ""
    node_drift: list[NodeDriftOut] = Field(default_factory=list)
    nodes: list[NodeUpgradeOut] = Field(
        default_factory=list,
        description="Nodes with an upgrade. Empty: versions differ between nodes, but no gallery has a newer one.",
    )
    summary: str = Field(default="", description="Which version is the newest, and which nodes have another one.")


class KnownBackendOut(LenientModel):
    """An item of `GET /backends/known`: a backend that a model may choose, with its API calls and file formats."""

    name: str
    description: str = ""
    installed: bool = False
    serves: list[str] = Field(default_factory=list)
    formats: list[str] = Field(default_factory=list)


class GalleryOut(LenientModel):
    """A gallery (an index of backends or models to install), with when it was last fetched and what went wrong."""

    name: str
    url: str = Field(default="", description="Address without a password. The built-in gallery has none.")
    entries: int = 0
    fetched_at: datetime | None = Field(default=None, description="When the copy was last fetched or confirmed.")
    problem: str = Field(default="", description="Error of the last fetch; the previous copy stays in use.")


class GalleryRefreshOut(LenientModel):
    """Response to a request to fetch galleries again: their present state, while the refresh runs in the background."""

    message: str
    galleries: list[GalleryOut] = Field(description="The galleries as they are known now; read them again in a moment.")


# --- processes on a node ---


class StartEngineIn(StrictModel):
    """Body of `POST /api/nodes/{node}/backends/start`: an engine process to start on that node.

    Without a model the engine is only started to see whether its backend works.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"backend": "llama-cpp", "model": "tiny", "model_path": "tiny.gguf"}]}
    )

    backend: BackendName
    model: Text = ""
    replica: Annotated[int, Field(ge=0, le=1023)] = 0
    model_path: Annotated[str, StringConstraints(max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    threads: Annotated[int, Field(ge=1, le=65536)] | None = None
    options: Annotated[dict[Name, Annotated[str, StringConstraints(max_length=4096)]], Field(max_length=200)] = Field(
        default_factory=dict
    )


class StartedEngineOut(CamelCaseModel):
    """Response of `POST /api/nodes/{node}/backends/start`: the worker's job that starts the engine process."""

    job_id: str
    key: str = Field(description="The name of the process: model#replica.")
    state: str
    message: str


class StopEnginesIn(StrictModel):
    """Body of `POST /api/nodes/{node}/backends/stop`: which engine processes to stop.

    Exactly one of `backend`, `key` and `all` is set.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"key": "tiny#0"}]})

    backend: Text = Field(default="", description="All processes of this backend.")
    key: Text = Field(default="", description="One process: model#replica.")
    all: bool = Field(default=False, description="Stop all engines on the node.")
    force: bool = False


class StoppedEnginesOut(LenientModel):
    """Response of `POST /api/nodes/{node}/backends/stop`: the engine processes that ended, and those that could not."""

    stopped: list[str] = Field(description="Processes that have ended.")
    survivors: list[str] = Field(default_factory=list, description="Processes that could not be stopped and still run.")
    message: str


class BackendGarbageItemOut(LenientModel):
    """One file or folder on a node's disk that no installed backend uses."""

    name: str = Field(description="Path below the node's folder of backends.")
    size_bytes: int


class BackendGarbageOut(LenientModel):
    """Response of `POST /api/nodes/{node}/backends/collect`: unused backend files that were removed, or would be."""

    items: list[BackendGarbageItemOut] = Field(description="The largest items.")
    count: int = Field(description="Total number of items.")
    freed_bytes: int
    dry_run: bool = False
    message: str


class EngineProcessOut(LenientModel):
    """One engine process of a node (a program that serves a model), with its memory and processor use."""

    key: str
    model: str
    replica: int
    backend: str
    version: str
    address: str
    pid: int
    state: str
    restarts: int = 0
    ram_bytes: Bytes | None = Field(default=None, description="Resident memory of the process and its children.")
    vram_bytes: Bytes | None = None
    cpu_percent: float | None = Field(default=None, description="Current processor use; 100 is one processor.")


class NodeEngineProcessOut(EngineProcessOut):
    """One engine process of the cluster, with the node on which it runs."""

    node_id: str
    node_name: str


class EngineMemoryOut(LenientModel):
    """Resident memory of all engine processes of one model, in the form of LocalAI."""

    rss: int = Field(description="Resident memory in bytes.")


class EngineMonitorOut(LenientModel):
    """Response of `GET /backend/monitor`: memory and processor use of one model's engine processes.

    In total, as LocalAI reports it, and for each process.
    """

    model: str = ""
    memory_info: EngineMemoryOut
    memory_percent: float = Field(description="Share of the memory of the nodes that run them, in percent.")
    cpu_percent: float = Field(description="100 is one processor.")
    processes: list[NodeEngineProcessOut] = Field(default_factory=list)
    unreachable: dict[str, str] = Field(default_factory=dict, description="Nodes that did not respond, and why.")


class LoadedReplicaOut(LenientModel):
    """One replica of a model that is loaded in an engine, with the memory that it took; part of `GET /system`."""

    id: str
    backend: str = ""
    node_id: str
    node_name: str
    replica_index: int
    ram_bytes: Bytes | None = None
    vram_bytes: Bytes | None = None


class InstalledSystemOut(LenientModel):
    """Response of `GET /system`: the backends that are installed and the model replicas that are loaded."""

    backends: list[str] = Field(description="Names of the backends that are installed on a node.")
    loaded_models: list[LoadedReplicaOut]


class EngineLogLineOut(LenientModel):
    """One line that an engine process has printed, with its number and time."""

    number: int
    at: str
    stream: str
    text: str


class EngineLogOut(LenientModel):
    """Response of `GET /api/nodes/{node}/backend-logs/{key}`: the last lines that an engine process printed."""

    key: str
    lines: list[EngineLogLineOut]
    first: int = Field(description="Number of the oldest line that is still stored.")
    next: int = Field(description="Send this as `after` to get the following lines.")
