"""Backends: an engine as something that can be installed, and what a node should have of it.

gallery entry    what can be had: a *meta* (which concrete build for which hardware) or a *concrete* with versions
build            one version of one concrete, resolved for one node: everything its worker needs, gallery unseen
manifest         how to run it: data, so that a new engine is a YAML file and not code
assignment       what one node still owes: one row per node and backend, gone when it is satisfied
installed        what a node reports to have
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
# `Manifest.runs_on` of an engine that makes no use of a GPU.
PROCESSOR = "processor"


class SourceKind(StrEnum):
    PYPI = "pypi"  # packages of the Python index, in a virtual environment of their own
    URL = "url"  # a wheel or an archive, by address and sha256
    OCI = "oci"  # an artifact or an image of a registry, by digest
    DIRECTORY = "directory"  # a folder of the node itself
    BUNDLED = "bundled"  # comes with Corral


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    kind: SourceKind
    # url: the address; oci: registry/repository:tag or @sha256:…; directory: the path; bundled: its name.
    uri: str = ""
    mirrors: tuple[str, ...] = ()
    # Of the file at `uri`; absent means that nobody has promised anything.
    sha256: str = ""
    # pypi: what to install, as in a requirements file; hashes after each, or none at all.
    requirements: tuple[str, ...] = ()
    # pypi: which interpreters will do, such as ">=3.11".
    python: str = ""
    # What has to be fetched, roughly; the plan and the first progress bar use it.
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How to see that an engine is ready: a GET that answers 200."""

    path: str = "/health"
    timeout_s: float = 300.0


# What engines say when a machine or a card has no room for a model.
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
class Manifest:
    """How to run an engine. In `command`, `check` and `environment` these are replaced:

    {dir} its folder, {python} its interpreter, {launcher} the launcher's file, {host} {port} where to listen,
    {model} the model's path, {name} the model's public name, {threads}, {api_key}; {options} alone stands for the
    arguments that `options` make of the model's settings.
    """

    command: tuple[str, ...] = ()
    # The name of a launcher that comes with Corral; it is put beside the engine at installation.
    launcher: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    # Must end with 0 before the new version is taken into use.
    check: tuple[str, ...] = ()
    ready: Probe = field(default_factory=Probe)
    # "flag" or "environment": the engine checks {api_key} itself. "none": it listens on the loopback only.
    api_key: str = "none"
    # Which calls it answers: chat, completions, embeddings, transcriptions, translations, speech, rerank, images,
    # responses, and Anthropic's messages and count_tokens.
    serves: tuple[str, ...] = ()
    # Fields of requests that it accepts and leaves out without a word: they are refused instead.
    ignores: tuple[str, ...] = ()
    # Which model files it takes: gguf, safetensors, ctranslate2, onnx, piper.
    formats: tuple[str, ...] = ()
    # "processor": it keeps models in RAM and computes on the processor, whatever GPU the machine has. Empty: it uses
    # the GPU where there is one, unless the name of the build says `cpu`.
    runs_on: str = ""
    # A model's setting to the arguments that it becomes; {value} in them is its value.
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Where the engine tells its numbers, and what they are called there.
    metrics: Mapping[str, str] = field(default_factory=dict)
    # The code of a failure to what the engine says then: regular expressions, capitals do not matter.
    errors: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict(USUAL_SIGNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of a concrete backend."""

    version: str
    source: Source
    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Gallery:
    """Where an index is to be had: at its address, else at the mirrors in order."""

    name: str
    # Addresses may hold a password: they are not part of the printed form.
    url: str = field(repr=False)
    mirrors: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryEntry:
    """A meta has capabilities and no versions; a concrete has versions, newest first."""

    name: str
    gallery: str
    alias: str = ""
    description: str = ""
    license: str = ""
    icon: str = ""
    urls: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    # Nobody has run it on the machines that Corral is tested on.
    is_unverified: bool = False
    capabilities: Mapping[str, str] = field(default_factory=dict)
    versions: tuple[Version, ...] = ()

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
    """What one node is to install. `policy/gallery.py` writes it as JSON and reads it back."""

    # The concrete name: this is what is installed, assigned, locked and reported.
    name: str
    version: str
    source: Source
    manifest: Manifest
    # The meta through which it was asked for, and the name that it shares with its siblings.
    meta: str = ""
    alias: str = ""
    gallery: str = ""


class Desired(StrEnum):
    PRESENT = "present"  # have it; having it already is enough
    REPLACED = "replaced"  # fetch this build and put it in place of what is there: upgrade and reinstall
    ABSENT = "absent"
    ROLLED_BACK = "rolled_back"  # go back to what was there before


class AssignmentState(StrEnum):
    OPEN = "open"
    DEAD = "dead"  # put aside after too many real failures; an admin can revive it


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a node still owes. Generations grow over all of them: a command with an older one is refused."""

    node_id: NodeId
    backend: str
    desired: Desired
    generation: int
    operation_id: OperationId
    build: Mapping[str, Any] | None = None
    state: AssignmentState = AssignmentState.OPEN
    # Real failures only: silence and slowness are not among them.
    attempts: int = 0
    next_retry_at: datetime | None = None
    fault: Fault | None = None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledBackend:
    """What a node reports. `generation` is that of the assignment which put it there."""

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
    # Came with the machine; Corral neither upgrades nor removes it.
    is_system: bool = False
    installed_at: datetime | None = None

    def answers_to(self, name: str) -> bool:
        return name in (self.name, self.meta, self.alias)
