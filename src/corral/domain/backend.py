"""Backends: an engine that can be installed, and what a node should have of it.

gallery entry    an installable backend: a *meta* (which concrete build for which hardware) or a *concrete* with
versions
build            one version of one concrete, resolved for one node: all that its worker needs, without the gallery
manifest         how to run it: data, so that a new engine is a YAML file and not code
assignment       a pending change of one node: one row per node and backend, deleted when it is satisfied
installed        a backend that a node reports as installed
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from corral.domain.node import NodeId
from corral.domain.operation import Fault, OperationId

DEVELOPMENT_SUFFIX = "-development"
# The gallery that comes with the program; no other has this name.
BUILT_IN_GALLERY = "corral"
# The value of `Manifest.runs_on` for an engine that makes no use of a GPU.
PROCESSOR = "processor"


class SourceKind(StrEnum):
    """Names the kind of source that a backend (an engine's software) is fetched from."""

    PYPI = "pypi"  # packages of the Python index, in a virtual environment of their own
    URL = "url"  # a wheel or an archive, by address and sha256
    OCI = "oci"  # an artifact or an image of a registry, by digest
    DIRECTORY = "directory"  # a folder of the node itself
    BUNDLED = "bundled"  # comes with Corral


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSource:
    """Says where the package of one engine backend version is fetched from, and how it is verified."""

    kind: SourceKind
    # url: the address, or npm:@scope/name@version for a package of the npm registry.
    # oci: registry/repository:tag or @sha256:…; directory: the path; bundled: its name.
    uri: str = ""
    mirrors: tuple[str, ...] = ()
    # The sha256 of the file at `uri`; empty: not verified.
    sha256: str = ""
    # pypi: what to install, as in a requirements file; hashes after each, or none at all.
    requirements: tuple[str, ...] = ()
    # pypi: the required Python versions, such as ">=3.11".
    python: str = ""
    # The approximate download size; the plan and the first progress bar use it.
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyProbe:
    """Says how a worker checks that an engine is ready: a GET that answers 200."""

    path: str = "/health"
    timeout_s: float = 300.0


# What engines print when a machine or a card has no room for a model.
USUAL_SIGNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "out_of_memory": (
            r"out of (device |host |gpu )?memory",
            r"outof(device|host)?memory",
            r"(failed|unable|cannot|could not) to allocate|cannot allocate memory",
            r"(cuda|hip)_?malloc\w* failed|bad_alloc|\bMemoryError\b",
        )
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSupport:
    """Says how an engine takes LoRA adapters with its model. Without `select` it takes none.

    `enable` are arguments that come once, `each` those of every adapter, with {adapter_name} and {adapter_path}.
    """

    # "number": a request names the adapter by its place in the list. "name": by the name of its model.
    select: str = ""
    enable: tuple[str, ...] = ()
    each: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Says how a worker runs an engine. In `command`, `check` and `environment` these are replaced:

    {dir} its folder, {python} its interpreter, {launcher} the launcher's file, {host} {port} where to listen,
    {model} the model's path, {name} the model's public name, {threads}, {api_key}; {options} alone stands for the
    arguments that `options` make of the model's settings.
    """

    command: tuple[str, ...] = ()
    # The name of a launcher that comes with Corral; it is put beside the engine at installation.
    launcher: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    # A command that must exit with 0 before the new version is taken into use.
    check: tuple[str, ...] = ()
    ready: ReadyProbe = field(default_factory=ReadyProbe)
    # "flag" or "environment": the engine checks {api_key} itself. "none": it listens on the loopback only.
    api_key: str = "none"
    # The calls that the engine answers: chat, completions, embeddings, transcriptions, translations, speech, rerank,
    # images, responses, and Anthropic's messages and count_tokens.
    serves: tuple[str, ...] = ()
    # Fields of requests that the engine silently ignores: such requests are refused instead.
    ignores: tuple[str, ...] = ()
    # The formats of model files: gguf, safetensors, ctranslate2, onnx, piper.
    formats: tuple[str, ...] = ()
    # "processor": the engine keeps models in RAM and computes on the CPU, whatever GPU the machine has. Empty: it uses
    # the GPU where there is one, unless the name of the build says `cpu`.
    runs_on: str = ""
    # A model's setting to the arguments that it becomes; {value} in them is its value.
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # How the engine takes LoRA adapters.
    adapters: AdapterSupport = field(default_factory=AdapterSupport)
    # Where the engine exposes its metrics, and their names there.
    metrics: Mapping[str, str] = field(default_factory=dict)
    # The code of a failure to the engine's output: regular expressions, case-insensitive.
    errors: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict(USUAL_SIGNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendVersion:
    """Describes one version of a backend (an engine's software): its source and how to run it."""

    version: str
    source: BackendSource
    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Gallery:
    """Describes a gallery, an index of backends or models to install: its address and mirrors, in order of use."""

    name: str
    # Addresses may hold a password: they are not part of the printed form.
    url: str = field(repr=False)
    mirrors: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryEntry:
    """Describes a backend that a gallery offers: a general name with builds for kinds of hardware, or one build."""

    name: str
    gallery: str
    alias: str = ""
    description: str = ""
    license: str = ""
    icon: str = ""
    urls: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    # True if it was never run on the machines that Corral is tested on.
    is_unverified: bool = False
    capabilities: Mapping[str, str] = field(default_factory=dict)
    versions: tuple[BackendVersion, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.gallery}@{self.name}"

    @property
    def is_meta(self) -> bool:
        return bool(self.capabilities) and not self.versions

    @property
    def is_development(self) -> bool:
        return self.name.endswith(DEVELOPMENT_SUFFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Holds everything that a worker needs to install one version of one backend, chosen for the node's hardware."""

    # The concrete name: this is what is installed, assigned, locked and reported.
    name: str
    version: str
    source: BackendSource
    manifest: Manifest
    # The meta through which the build was requested, and the name that it shares with its siblings.
    meta: str = ""
    alias: str = ""
    gallery: str = ""


class DesiredState(StrEnum):
    """Names the state that a pending change requests for an engine backend on a node, such as present or absent."""

    PRESENT = "present"  # have the backend; an installed one is enough
    REPLACED = "replaced"  # fetch this build and replace the installed one: upgrade and reinstall
    ABSENT = "absent"
    ROLLED_BACK = "rolled_back"  # return to the previous version


class AssignmentState(StrEnum):
    """Names whether a pending change of an engine backend on a node is still tried or has failed."""

    OPEN = "open"
    DEAD = "dead"  # failed too often, and not tried again; an admin can retry it


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Holds a pending change of one engine backend on one node. A worker refuses a command with an older generation."""

    node_id: NodeId
    backend: str
    desired: DesiredState
    generation: int
    operation_id: OperationId
    build: Mapping[str, Any] | None = None
    state: AssignmentState = AssignmentState.OPEN
    # Real failures only: silence and slowness do not count.
    attempts: int = 0
    next_retry_at: datetime | None = None
    fault: Fault | None = None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledBackend:
    """Describes a backend that a worker reports as installed, with the generation of the change that installed it."""

    name: str
    meta: str = ""
    alias: str = ""
    version: str = ""
    digest: str = ""
    uri: str = ""
    gallery: str = ""
    generation: int = 0
    size_bytes: int | None = None
    previous_version: str = ""
    # True if it came with the machine; Corral neither upgrades nor removes it.
    is_system: bool = False
    installed_at: datetime | None = None

    def answers_to(self, name: str) -> bool:
        return name in (self.name, self.meta, self.alias)
