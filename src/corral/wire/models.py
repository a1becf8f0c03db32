"""Models as JSON: configurations with their revisions, pages of the galleries, a whole fleet.

A configuration travels as it is written, not as a type of its own: what is wrong with it is told by one reader,
whether it came as YAML, as JSON or from a gallery.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints

from corral.wire.base import Lenient, Strict
from corral.wire.nodes import Bytes
from corral.wire.operations import Camel

ModelName = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
Config = dict[str, Any]
_CONFIG_EXAMPLE: Config = {
    "name": "chat",
    "backend": "llama-cpp",
    "files": [{"path": "model.gguf", "uri": "https://host.example/model.gguf"}],
    "options": {"context_size": "8192"},
}


class StoredFileOut(Lenient):
    path: str
    sha256: str
    size_bytes: Bytes


class PlaceOut(Lenient):
    """A replica of a model."""

    node_id: str
    node_name: str
    node_status: str = ""
    index: int = 0
    state: str
    address: str = ""
    in_flight: int = 0
    version: str = ""
    is_current: bool = Field(default=True, description="False: of an older revision; it gets no requests.")
    loaded_at: datetime | None = None
    last_used_at: datetime | None = None
    vram_bytes: Bytes | None = None
    ram_bytes: Bytes | None = None
    stop_reason: str = ""
    stop_problem: str = ""


class ModelOut(Lenient):
    name: str
    revision: int
    run_hash: str = Field(description="What an engine notices of it; replicas with another one get no requests.")
    backend: str
    aliases: list[str] = Field(default_factory=list)
    description: str = ""
    enabled: bool = True
    pinned: bool = False
    gallery: str = Field(default="", description="The entry that it was made from.")
    variant: str = ""
    config: Config = Field(examples=[_CONFIG_EXAMPLE])
    files: list[StoredFileOut] | None = Field(default=None, description="null: they have not been fetched yet.")
    payload_bytes: Bytes | None = None
    facts: dict[str, Any] | None = Field(default=None, description="What the headers of its files say.")
    replicas: list[PlaceOut] = Field(default_factory=list)
    has_rule: bool = False
    load_error: str = Field(
        default="",
        description="Why the last load failed. Empty if it did not fail, or if the configuration has changed since.",
    )
    load_failed_at: datetime | None = None
    created_at: datetime
    updated_at: datetime


class SavedOut(Lenient):
    """What became of a model. The fields of the ancestor are `config_revision` and `pending_cleanup`."""

    name: str
    revision: int
    config_revision: str = Field(description="The run hash.")
    pending_cleanup: bool = Field(default=False, description="Replicas of the old revision are being ended.")
    stopped: int = Field(default=0, description="How many.")
    created: bool = False
    changes: list[str] = Field(default_factory=list, description="One line for each setting; none: no new revision.")
    warnings: list[str] = Field(default_factory=list)
    message: str = ""


class RevisionOut(Lenient):
    number: int
    run_hash: str
    config: Config
    created_by: str
    created_at: datetime
    note: str = ""
    changes: list[str] = Field(default_factory=list, description="Against the one before it.")


class DiffOut(Lenient):
    model: str
    old: int
    new: int
    changes: list[str]


class RollbackIn(Strict):
    revision: Annotated[int, Field(ge=1, le=2**31 - 1, examples=[3])]


class RenameIn(Strict):
    """Old names to new ones; all or none."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"names": {"chat": "chat-old", "chat-new": "chat"}}]})

    names: Annotated[dict[ModelName, ModelName], Field(min_length=1, max_length=100)]


class InstallModelIn(Strict):
    """How a gallery's entry becomes a model."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "chat", "variant": ""}]})

    name: Annotated[str, StringConstraints(max_length=255)] = Field(default="", description="Empty: as the entry.")
    variant: Annotated[str, StringConstraints(max_length=255)] = Field(
        default="", description="Empty: the one that suits the nodes."
    )
    overrides: dict[str, Any] = Field(default_factory=dict, description="Settings laid over those of the entry.")


class ApplyModelIn(Strict):
    """The ancestor's body of `POST /models/apply`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "corral@smollm2-135m", "name": "chat"}]})

    id: Annotated[str, StringConstraints(max_length=512)] = Field(default="", description="A name or gallery@name.")
    url: Annotated[str, StringConstraints(max_length=4096)] = ""
    config_url: Annotated[str, StringConstraints(max_length=4096)] = ""
    name: Annotated[str, StringConstraints(max_length=255)] = ""
    files: Annotated[list[dict[str, Any]], Field(max_length=1000)] = Field(default_factory=list)
    overrides: dict[str, Any] = Field(default_factory=dict)
    variant: Annotated[str, StringConstraints(max_length=255)] = ""


class UriIn(Strict):
    """The ancestor's body of `POST /models/import-uri`."""

    uri: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    name: Annotated[str, StringConstraints(max_length=255)] = ""
    backend: Annotated[str, StringConstraints(max_length=255)] = ""


class AskedModelOut(Camel):
    """The model is written down, and what is to be done about it is an operation."""

    id: str
    job_id: str = Field(description="The same as `id`.")
    uuid: str = Field(description="The same as `id`.")
    status_url: str = Field(examples=["/api/models/job/<id>"])
    status: str = Field(description="The same as `statusUrl`.")
    name: str = Field(description="The model.")
    message: str
    state: str
    deduplicated: bool = False
    warnings: list[str] = Field(default_factory=list)


class ModelPlanOut(Lenient):
    """What an installation would make. Nothing was done."""

    plan: Literal[True] = True
    name: str
    variant: str = ""
    backend: str
    size_bytes: Bytes | None = None
    checked: bool = Field(default=False, description="The sources of its files were asked, and have them.")
    memory_bytes: Bytes | None = Field(default=None, description="About what a replica takes; null: not known.")
    fits_on: list[str] | None = Field(default=None, description="Nodes with room for it. null: not asked.")
    config: Config
    exists: bool = Field(description="There is a model of this name already; it would be changed.")
    changes: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class GalleryModelOut(Camel):
    """An entry of a gallery."""

    id: str
    name: str
    gallery: str
    description: str = ""
    icon: str = ""
    license: str = ""
    urls: list[str] = Field(default_factory=list)
    tags: list[str] = Field(default_factory=list)
    backend: str = ""
    size: str = Field(default="", description="For people.")
    size_bytes: Bytes | None = None
    serves: list[str] = Field(default_factory=list)
    is_unverified: bool = False
    installed: bool = False
    models: list[str] = Field(default_factory=list, description="Models that were made from it.")
    processing: bool = False
    job_id: str | None = None
    is_deletion: bool = False
    has_variants: bool | None = Field(default=None, alias="has_variants", description="Only there when true.")
    variants: list[str] = Field(default_factory=list)


class GalleryPageOut(Camel):
    models: list[GalleryModelOut]
    processing_models: dict[str, str] = Field(default_factory=dict)
    task_types: dict[str, str] = Field(default_factory=dict)
    available_models: int
    installed_models: int
    all_tags: list[str]
    all_backends: list[str]
    current_page: int
    total_pages: int


class LoadedOnOut(Lenient):
    node_id: str
    node_name: str
    state: str
    node_status: str


class CapabilitiesOut(Lenient):
    """One model as somebody who wants to use it sees it."""

    id: str
    name: str
    capabilities: list[str]
    backend: str = ""
    disabled: bool = False
    pinned: bool = False
    loaded_on: list[LoadedOnOut] = Field(default_factory=list)
    load_failed: bool = Field(default=False, description="The last load failed, and no replica is there.")
    source: str = Field(default="", description="registry-only: it runs, and nobody has its configuration any more.")


class CapabilitiesListOut(Lenient):
    data: list[CapabilitiesOut]


class VariantOut(Lenient):
    model: str
    backend: str
    memory_bytes: Bytes | None = None
    fits: bool
    fits_on: list[str] = Field(default_factory=list)
    is_base: bool
    reason: str = ""


class VariantsOut(Lenient):
    auto_selected: str
    variants: list[VariantOut]
    warnings: list[str] = Field(default_factory=list)


class EstimateOut(Lenient):
    """Empty, if nothing is known."""

    size_bytes: Bytes | None = None
    context: dict[str, int] = Field(default_factory=dict, description="Bytes of memory by context size.")
    is_observed: bool = False


class StepOut(Lenient):
    kind: str = Field(description="model, rule, labels, replica slots, VRAM budget, models gallery or backends gallery")
    name: str
    action: str = Field(description="create, change, remove or same")
    changes: list[str] = Field(default_factory=list)
    stopped: int = Field(default=0, description="Replicas that end because of it.")


class FleetOut(Lenient):
    """What applying a file did, or would do."""

    plan: bool
    steps: list[StepOut]
