"""Backends as JSON: what a worker reports to have, and what admins see and ask for."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from corral.wire.base import Lenient, Strict
from corral.wire.nodes import Bytes, Name
from corral.wire.operations import Camel

BackendName = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, StringConstraints(max_length=255, pattern=r"^[^\x00-\x1f\x7f]*$")]
Generation = Annotated[int, Field(ge=0, le=2**62)]


class InstalledIn(Lenient):
    """One backend that a worker has."""

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


class BackendsReportIn(Lenient):
    """Everything that a worker has, at once: what is not in it is not there."""

    boot_id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    backends: Annotated[list[InstalledIn], Field(max_length=1000)]
    removed: Annotated[dict[BackendName, Generation], Field(max_length=1000)] = Field(
        default_factory=dict, description="Backends that were removed, with the generation of the removal."
    )


# --- what admins ask for ---

DURATION = r"^\d{1,9}(\.\d{1,3})?(ms|s|m|h|d)?$"
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
NODES_MAX = 10_000
Uri = Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]
VersionText = Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^([0-9a-fA-F]{64})?$")]
# Absent: every node that may have it. An empty list is refused: it never means "all".
NodeList = Annotated[list[Name], Field(min_length=1, max_length=NODES_MAX)]


def _check_duration(text: str) -> str:
    if not re.fullmatch(DURATION, text, re.ASCII):
        raise ValueError(f"{text[:40]!r} is not a duration such as 90s, 30m, 1h or 7d")
    return text


# The pattern stands in the description; whoever breaks it is told in words.
Duration = Annotated[str, AfterValidator(_check_duration), WithJsonSchema({"type": "string", "pattern": DURATION})]


class StrategyIn(Strict):
    """How a fan-out goes over its nodes."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"waves": [1, 5], "stop_on_failure": True, "rollback": True, "deadline": "1h"}]}
    )

    waves: Annotated[list[Annotated[int, Field(ge=1, le=NODES_MAX)]], Field(max_length=100)] = Field(
        default_factory=list, description="How many nodes each wave has; the last number repeats. Empty: all at once."
    )
    stop_on_failure: bool = Field(default=False, description="After a failure later waves are not begun.")
    rollback: bool = Field(default=False, description="After a failure changed nodes go back to what they had.")
    deadline: Duration | None = Field(
        default=None, description="How long an absent node may owe it: 90s, 30m, 1h, 7d. Absent: for ever."
    )

    @property
    def deadline_s(self) -> float | None:
        if self.deadline is None:
            return None
        number = self.deadline.rstrip("msdh")
        return float(number) * _UNIT_S[self.deadline[len(number) :]]


class TargetsIn(Strict):
    """On which nodes, and how over them."""

    nodes: NodeList | None = Field(
        default=None, description="Names or ids. Absent: every node that may have it.", examples=[["gpu-a"]]
    )
    strategy: StrategyIn = Field(default_factory=StrategyIn)


class WishIn(TargetsIn):
    version: VersionText = Field(default="", description="Empty: the newest.")
    ignore_capability: bool = Field(default=False, description="Also where the hardware does not ask for it.")


class InstallIn(WishIn):
    force: bool = Field(default=False, description="Fetch it again also where it is installed.")


class ExternalIn(WishIn):
    """A backend that is in no gallery."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"uri": "https://example.com/engine-1.0.tar.gz", "name": "my-engine", "nodes": ["gpu-a"]}]
        }
    )

    uri: Uri = Field(min_length=1, description="An archive, a wheel or an OCI artifact.")
    name: Text = Field(default="", description="What it is to be called; OCI artifacts need one.")
    alias: Text = ""
    sha256: Sha256 = Field(default="", description="Of the file. Without it nobody checks what arrives.")


class ApplyIn(InstallIn):
    """The ancestor's body of `POST /backends/apply`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "llama-cpp"}]})

    id: BackendName = Field(description="A name or gallery@name.")


class NodeInstallIn(Strict):
    """`backend` from a gallery, or a `uri` with a name."""

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
        default_factory=list, description="Of the ancestor. Galleries are a setting of the frontends; leave it empty."
    )
    strategy: StrategyIn = Field(default_factory=StrategyIn)


class NodeBackendIn(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"backend": "llama-cpp"}]})

    backend: BackendName
    version: VersionText = ""
    strategy: StrategyIn = Field(default_factory=StrategyIn)


class AdmittedOut(Camel):
    """The operation is written down; ask for it, follow it, or come back later."""

    id: str
    job_id: str = Field(description="The same as `id`.")
    uuid: str = Field(description="The same as `id`.")
    status_url: str = Field(examples=["/api/backends/job/<id>"])
    status_url_of_ancestor: str = Field(alias="status_url", description="The same as `statusUrl`.")
    message: str
    state: str
    deduplicated: bool = Field(description="True: the same was asked for already, and this is that operation.")


class PlannedNodeOut(Lenient):
    node_id: str
    node_name: str
    node_status: str = Field(description="An offline node gets it when it is back.")
    backend: str = Field(description="The concrete build that its hardware gets.")
    version: str = ""
    desired: str
    previous_version: str = Field(default="", description="The version that the node has now.")
    has_it: bool = Field(default=False, description="The node has what is asked for; nothing changes there.")
    source: str = ""
    uri: str = ""
    wave: int = 0
    fetch_bytes: Bytes | None = Field(default=None, description="About how much it has to fetch; null: not known.")


class SkippedOut(Lenient):
    node_id: str
    node_name: str
    reason: str


class PlanOut(Lenient):
    """What would be done. Nothing was."""

    plan: Literal[True] = True
    kind: str
    backend: str
    nodes: list[PlannedNodeOut]
    skipped: list[SkippedOut] = Field(default_factory=list)
    fetch_bytes: Bytes | None = Field(default=None, description="Over all nodes; null when one is not known.")


class RefusedOut(Lenient):
    backend: str
    code: str
    message: str


class UpgradesAppliedOut(Lenient):
    """One operation for each backend that had an upgrade."""

    operations: list[AdmittedOut]
    refused: list[RefusedOut] = Field(default_factory=list)


class JobOut(Camel):
    """The ancestor's view of an operation."""

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
    state: str = Field(description="Ours, and more exact.")


# --- what admins see ---


class InstalledOn(Lenient):
    """One backend on one node, as its worker reported it."""

    node_id: str
    node_name: str
    node_status: str
    version: str = ""
    digest: str = ""
    uri: str = ""
    installed_at: datetime | None = None
    previous_version: str = ""
    size_bytes: Bytes | None = None
    drifts: bool = Field(default=False, description="Not what most nodes have.")
    has_upgrade: bool = Field(default=False, description="This node is behind.")
    upgrade_to: str = Field(default="", description="The version that this node would get; empty for images.")


class InstalledBackendOut(Lenient):
    """A backend that some node has. `Name`, `IsSystem`, `IsMeta` and `Nodes` are the ancestor's spelling."""

    model_config = ConfigDict(populate_by_name=True)

    name: str = Field(alias="Name")
    is_system: bool = Field(alias="IsSystem")
    is_meta: bool = Field(default=False, alias="IsMeta", description="Never: what is installed is concrete.")
    meta: str = ""
    alias: str = ""
    gallery: str = ""
    version: str = Field(default="", description="What most nodes have.")
    available_version: str = Field(default="", description="What it could be upgraded to.")
    has_upgrade: bool = False
    upgrade_summary: str = Field(
        default="", description="Which version is the newest, and which nodes have another one."
    )
    nodes: list[InstalledOn] = Field(alias="Nodes")


class NodeBackendOut(Lenient):
    """One backend of one node."""

    name: str
    meta: str = ""
    alias: str = ""
    version: str = ""
    digest: str = ""
    uri: str = ""
    gallery: str = ""
    gallery_url: str = Field(default="", description="The ancestor's name for `gallery`.")
    is_system: bool = False
    is_meta: bool = False
    previous_version: str = ""
    size_bytes: Bytes | None = None
    installed_at: datetime | None = None
    generation: int = 0


class CatalogEntryOut(Camel):
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
    is_unverified: bool = Field(default=False, description="Nobody has run it on the machines Corral is tested on.")
    capabilities: dict[str, str] = Field(default_factory=dict, description="Hardware to concrete; of a meta only.")
    runs_on: list[str] = Field(default_factory=list, description="Capabilities of present nodes that can run it.")
    versions: list[str] = Field(default_factory=list, description="Newest first.")
    meta_backend_for: str | None = Field(default=None, description="The meta that a concrete belongs to.")
    installed: bool = Field(description="On at least one node.")
    version: str = Field(default="", description="The installed one, or the newest there is.")
    processing: bool = Field(default=False, description="An operation about it is under way.")
    job_id: str | None = None
    is_deletion: bool = False
    nodes: list[InstalledOn] = Field(default_factory=list)


class CatalogPageOut(Camel):
    backends: list[CatalogEntryOut]
    processing_backends: dict[str, str] = Field(description="Name to operation.")
    task_types: dict[str, str] = Field(description="Name to what is being done.")
    available_backends: int
    installed_backends: int
    system_capability: str = Field(description="Capabilities of the present nodes, with commas.")
    prefer_development_backends: bool = False
    all_tags: list[str]
    current_page: int
    total_pages: int


class DriftOut(Lenient):
    node_id: str
    node_name: str
    version: str = ""
    digest: str = ""


class NodeUpgradeOut(Lenient):
    """What an upgrade would change on one node."""

    node_id: str
    node_name: str
    from_version: str = ""
    to_version: str = ""


class UpgradeOut(Lenient):
    backend_name: str
    installed_version: str = Field(default="", description="What most nodes have.")
    available_version: str = ""
    installed_digest: str = ""
    available_digest: str = ""
    node_drift: list[DriftOut] = Field(default_factory=list)
    nodes: list[NodeUpgradeOut] = Field(
        default_factory=list, description="Nodes that are behind. None: nodes differ, and no gallery has more."
    )
    summary: str = Field(default="", description="Which version is the newest, and which nodes have another one.")


class KnownOut(Lenient):
    """For a choice of backends."""

    name: str
    description: str = ""
    installed: bool = False
    serves: list[str] = Field(default_factory=list)
    formats: list[str] = Field(default_factory=list)


class GalleryOut(Lenient):
    name: str
    url: str = Field(default="", description="Without a password. The built-in gallery has none.")
    entries: int = 0
    fetched_at: datetime | None = Field(default=None, description="When its source last gave, or confirmed, the copy.")
    problem: str = Field(default="", description="What was wrong with the last try; the copy before stays in use.")


class RefreshOut(Lenient):
    message: str
    galleries: list[GalleryOut] = Field(description="As they are known now; look again in a moment.")


# --- processes on a node ---


class StartIn(Strict):
    """Run an engine on a node. Without a model it is only tried out."""

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


class StartedOut(Camel):
    """The worker has the job; `state` is where it is."""

    job_id: str
    key: str = Field(description="The name of the process: model#replica.")
    state: str
    message: str


class StopIn(Strict):
    """Exactly one of the three."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"key": "tiny#0"}]})

    backend: Text = Field(default="", description="All processes of this backend.")
    key: Text = Field(default="", description="One process: model#replica.")
    all: bool = Field(default=False, description="Everything that runs there.")
    force: bool = False


class StoppedOut(Lenient):
    stopped: list[str] = Field(description="Have ended.")
    survivors: list[str] = Field(default_factory=list, description="Could not be ended and go on running.")
    message: str


class CollectedItemOut(Lenient):
    name: str = Field(description="Below the node's folder of backends.")
    size_bytes: int


class CollectedOut(Lenient):
    """What was thrown away on a node, or would be."""

    items: list[CollectedItemOut] = Field(description="The largest ones.")
    count: int = Field(description="How many there are in all.")
    freed_bytes: int
    dry_run: bool = False
    message: str


class ProcessOut(Lenient):
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
    cpu_percent: float | None = Field(default=None, description="Use of the processors just now; 100 is one of them.")


class MonitoredProcessOut(ProcessOut):
    """One engine process with its node."""

    node_id: str
    node_name: str


class MemoryInfoOut(Lenient):
    rss: int = Field(description="Resident memory in bytes.")


class MonitorOut(Lenient):
    """Memory and processor of a model's engines: in all, as LocalAI tells them, and one by one."""

    model: str = ""
    memory_info: MemoryInfoOut
    memory_percent: float = Field(description="Of the memory of the nodes that run them.")
    cpu_percent: float = Field(description="100 is one processor.")
    processes: list[MonitoredProcessOut] = Field(default_factory=list)
    unreachable: dict[str, str] = Field(default_factory=dict, description="Nodes that did not answer, and why.")


class LoadedModelOut(Lenient):
    id: str
    backend: str = ""
    node_id: str
    node_name: str
    replica_index: int
    ram_bytes: Bytes | None = None
    vram_bytes: Bytes | None = None


class SystemOut(Lenient):
    """What is installed and loaded in this cluster."""

    backends: list[str] = Field(description="Names of the backends that a node has.")
    loaded_models: list[LoadedModelOut]


class LogLineOut(Lenient):
    number: int
    at: str
    stream: str
    text: str


class LogOut(Lenient):
    key: str
    lines: list[LogLineOut]
    first: int = Field(description="The oldest line that is still there.")
    next: int = Field(description="Ask for lines after this one.")
