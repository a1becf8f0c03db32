"""Bodies about models: configurations with their revisions, pages of the galleries, rules, a whole fleet.

A configuration travels as it is written, not as a type of its own: one parser reports what is wrong with
it, whether it came as YAML, as JSON or from a gallery.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints

from corral.wire.base import LenientModel, StrictModel
from corral.wire.nodes import Bytes
from corral.wire.operations import CamelCaseModel

ModelName = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
Config = dict[str, Any]
_CONFIG_EXAMPLE: Config = {
    "name": "chat",
    "backend": "llama-cpp",
    "files": [{"path": "model.gguf", "uri": "https://host.example/model.gguf"}],
    "options": {"context_size": "8192"},
}


class StoredFileOut(LenientModel):
    """One file of a model that was fetched into the cluster, with its checksum and size."""

    path: str
    sha256: str
    size_bytes: Bytes


class ModelReplicaOut(LenientModel):
    """One replica of a model (a copy that an engine has loaded), with its node and state."""

    node_id: str
    node_name: str
    node_status: str = ""
    index: int = 0
    state: str
    address: str = ""
    in_flight: int = 0
    version: str = ""
    is_current: bool = Field(default=True, description="False: the replica has an older revision and gets no requests.")
    loaded_at: datetime | None = None
    last_used_at: datetime | None = None
    vram_bytes: Bytes | None = None
    ram_bytes: Bytes | None = None
    stop_reason: str = ""
    stop_problem: str = ""


class ModelProvenanceOut(LenientModel):
    """Says what a model was made from by a quantisation: the model, its weights, the tool and the file."""

    run_id: str
    model: str = Field(description="The model that was quantised, as it was named then.")
    sources: list[str] = Field(default_factory=list, description="Where the files of that model came from.")
    source_sha256: str
    source_types: list[str] = Field(default_factory=list, description="Types of the weights that were read.")
    weight_type: str
    is_requantized: bool = Field(
        description="True if the weights had been quantised before: they lost precision twice."
    )
    tool: str
    sha256: str
    size_bytes: int
    source_bytes: int | None = None


class ModelOut(LenientModel):
    """A model with its configuration, files and replicas, as `GET /api/models/config/{name}` responds."""

    name: str
    revision: int
    run_hash: str = Field(
        description="Hash of the settings that an engine depends on; replicas with another hash get no requests."
    )
    backend: str
    aliases: list[str] = Field(default_factory=list)
    description: str = ""
    enabled: bool = True
    pinned: bool = False
    gallery: str = Field(default="", description="The gallery entry that the model was made from.")
    variant: str = ""
    config: Config = Field(examples=[_CONFIG_EXAMPLE])
    files: list[StoredFileOut] | None = Field(
        default=None, description="Files of the model; null: they have not been downloaded yet."
    )
    payload_bytes: Bytes | None = None
    facts: dict[str, Any] | None = Field(default=None, description="Facts from the headers of its files.")
    base: str = Field(default="", description="Of a LoRA adapter: the model whose engines load it.")
    adapters: list[str] = Field(default_factory=list, description="The LoRA adapters that its engines load.")
    provenance: ModelProvenanceOut | None = Field(
        default=None, description="What the model was made from, if a quantisation has made it."
    )
    replicas: list[ModelReplicaOut] = Field(default_factory=list)
    has_rule: bool = False
    load_error: str = Field(
        default="",
        description="Why the last load failed. Empty if it did not fail, or if the configuration has changed since.",
    )
    load_failed_at: datetime | None = None
    created_at: datetime
    updated_at: datetime


class SavedModelOut(LenientModel):
    """Response to saving or deleting a model's configuration: what changed.

    `config_revision` and `pending_cleanup` are LocalAI's fields.
    """

    name: str
    revision: int
    config_revision: str = Field(description="Run hash of the configuration.")
    pending_cleanup: bool = Field(default=False, description="Replicas of the old revision are being stopped.")
    stopped: int = Field(default=0, description="Number of replicas that are stopped.")
    created: bool = False
    changes: list[str] = Field(
        default_factory=list, description="One line for each changed setting; none: no new revision."
    )
    warnings: list[str] = Field(default_factory=list)
    message: str = ""


class RevisionOut(LenientModel):
    """An item of `GET /api/models/revisions/{name}`: one saved version of a model's configuration."""

    number: int
    run_hash: str
    config: Config
    created_by: str
    created_at: datetime
    note: str = ""
    changes: list[str] = Field(default_factory=list, description="Changes against the previous revision.")


class RevisionDiffOut(LenientModel):
    """Response of `GET /api/models/diff/{name}`: how two saved versions of a model's configuration differ."""

    model: str
    old: int
    new: int
    changes: list[str]


class RollbackIn(StrictModel):
    """Body of `POST /api/models/rollback/{name}`: the earlier version of the model's configuration to restore."""

    revision: Annotated[int, Field(ge=1, le=2**31 - 1, examples=[3])]


class RenameIn(StrictModel):
    """Body of `POST /api/models/rename`: models to rename, from old names to new ones; all of them or none."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"names": {"chat": "chat-old", "chat-new": "chat"}}]})

    names: Annotated[dict[ModelName, ModelName], Field(min_length=1, max_length=100)]


class InstallModelIn(StrictModel):
    """Body of `POST /api/models/install/{name}`: the gallery entry to make a model of, with variant and overrides."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "chat", "variant": ""}]})

    name: Annotated[str, StringConstraints(max_length=255)] = Field(
        default="", description="Name of the model; empty: that of the entry."
    )
    variant: Annotated[str, StringConstraints(max_length=255)] = Field(
        default="", description="Variant; empty: the one that fits the nodes."
    )
    overrides: dict[str, Any] = Field(default_factory=dict, description="Settings that override those of the entry.")


class ApplyModelIn(StrictModel):
    """Body of `POST /models/apply`, in LocalAI's form: installs a model of a gallery."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "corral@smollm2-135m", "name": "chat"}]})

    id: Annotated[str, StringConstraints(max_length=512)] = Field(default="", description="A name or gallery@name.")
    url: Annotated[str, StringConstraints(max_length=4096)] = ""
    config_url: Annotated[str, StringConstraints(max_length=4096)] = ""
    name: Annotated[str, StringConstraints(max_length=255)] = ""
    files: Annotated[list[dict[str, Any]], Field(max_length=1000)] = Field(default_factory=list)
    overrides: dict[str, Any] = Field(default_factory=dict)
    variant: Annotated[str, StringConstraints(max_length=255)] = ""


class ImportUriIn(StrictModel):
    """Body of `POST /models/import-uri`, in LocalAI's form: makes a model of the file at an address."""

    uri: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    name: Annotated[str, StringConstraints(max_length=255)] = ""
    backend: Annotated[str, StringConstraints(max_length=255)] = ""


class ModelOperationOut(CamelCaseModel):
    """Response to a request for a change of a model: the operation that makes it, with where to follow it."""

    id: str
    job_id: str = Field(description="The same as `id`.")
    uuid: str = Field(description="The same as `id`.")
    status_url: str = Field(examples=["/api/models/job/<id>"])
    status: str = Field(description="The same as `statusUrl`.")
    name: str = Field(description="Name of the model.")
    message: str
    state: str
    deduplicated: bool = False
    warnings: list[str] = Field(default_factory=list)


class ModelPlanOut(LenientModel):
    """Response to a dry run of an installation: the model that it would create. Nothing was changed."""

    plan: Literal[True] = True
    name: str
    variant: str = ""
    backend: str
    size_bytes: Bytes | None = None
    checked: bool = Field(default=False, description="Whether the sources of its files were checked and have them.")
    memory_bytes: Bytes | None = Field(default=None, description="Estimated memory of a replica; null: not known.")
    fits_on: list[str] | None = Field(default=None, description="Nodes with room for it; null: not checked.")
    config: Config
    exists: bool = Field(description="Whether a model of this name exists; it would be changed.")
    changes: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class GalleryModelOut(CamelCaseModel):
    """One model that the model galleries offer for installation."""

    id: str
    name: str
    gallery: str
    description: str = ""
    icon: str = ""
    license: str = ""
    urls: list[str] = Field(default_factory=list)
    tags: list[str] = Field(default_factory=list)
    backend: str = ""
    size: str = Field(default="", description="Name for display.")
    size_bytes: Bytes | None = None
    serves: list[str] = Field(default_factory=list)
    is_unverified: bool = False
    installed: bool = False
    models: list[str] = Field(default_factory=list, description="Models that were made from this entry.")
    processing: bool = False
    job_id: str | None = None
    is_deletion: bool = False
    has_variants: bool | None = Field(default=None, alias="has_variants", description="Only present if true.")
    variants: list[str] = Field(default_factory=list)


class GalleryPageOut(CamelCaseModel):
    """Response of `GET /api/models`: a page of the models that the galleries offer for installation."""

    models: list[GalleryModelOut]
    processing_models: dict[str, str] = Field(default_factory=dict)
    task_types: dict[str, str] = Field(default_factory=dict)
    available_models: int
    installed_models: int
    all_tags: list[str]
    all_backends: list[str]
    current_page: int
    total_pages: int


class ModelNodeOut(LenientModel):
    """A node on which a model is loaded; part of `GET /api/models/capabilities`."""

    node_id: str
    node_name: str
    state: str
    node_status: str


class ModelCapabilitiesOut(LenientModel):
    """One model that the caller may use: which API calls it answers and on which nodes it is loaded."""

    id: str
    name: str
    capabilities: list[str]
    backend: str = ""
    disabled: bool = False
    pinned: bool = False
    loaded_on: list[ModelNodeOut] = Field(default_factory=list)
    load_failed: bool = Field(default=False, description="The last load failed, and there are no replicas.")
    source: str = Field(
        default="", description="registry-only: the model runs, but its configuration no longer exists."
    )


class ModelCapabilitiesListOut(LenientModel):
    """Response of `GET /api/models/capabilities`: the models that the caller may use, and what each can do."""

    data: list[ModelCapabilitiesOut]


class VariantOut(LenientModel):
    """A variant of a model in a gallery, such as a quantisation, with whether it fits on the nodes."""

    model: str
    backend: str
    memory_bytes: Bytes | None = None
    fits: bool
    fits_on: list[str] = Field(default_factory=list)
    is_base: bool
    reason: str = ""


class VariantsOut(LenientModel):
    """Response of `GET /api/models/variants/{name}`: a gallery model's variants, and the one to be chosen."""

    auto_selected: str
    variants: list[VariantOut]
    warnings: list[str] = Field(default_factory=list)


class MemoryEstimateOut(LenientModel):
    """Response of `GET /api/models/estimate/{name}`: memory that a replica would take; empty if unknown."""

    size_bytes: Bytes | None = None
    context: dict[str, int] = Field(default_factory=dict, description="Bytes of memory by context size.")
    is_observed: bool = False


class FleetChangeOut(LenientModel):
    """One change that applying a fleet file (the configuration of a whole cluster) makes, or would make."""

    kind: str = Field(description="model, rule, labels, replica slots, VRAM budget, models gallery or backends gallery")
    name: str
    action: str = Field(description="create, change, remove or same")
    changes: list[str] = Field(default_factory=list)
    stopped: int = Field(default=0, description="Number of replicas that are stopped by the change.")


class FleetChangesOut(LenientModel):
    """Response of `POST /api/fleet`: the changes that applying a fleet file made, or would make."""

    plan: bool
    steps: list[FleetChangeOut]


class RuleOut(LenientModel):
    """A rule for one model in responses: on which nodes its replicas may run, and how many there are to be.

    `model_name`, `node_selector` and `spread_all` are LocalAI's field names.
    """

    model: str
    model_name: str
    selector: dict[str, str]
    node_selector: dict[str, str]
    min_replicas: int
    max_replicas: int = Field(description="Maximum number of replicas; 0: no limit.")
    spread_all: bool = Field(description="One replica on every matching node.")
    windows: list[dict[str, Any]] = Field(default_factory=list)
    time_zone: str = "UTC"
    route_policy: str = ""
    warnings: list[str] = Field(
        default_factory=list, description="Parts of the rule that are stored and have no effect yet."
    )
    unsatisfiable_until: datetime | None = Field(
        default=None, description="The rule cannot be met and is not retried before this time; read only."
    )
    unsatisfiable_ticks: int = 0
    model_exists: bool = Field(default=True, description="False: there is no model of this name yet.")
