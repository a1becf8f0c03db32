"""Bodies of workers about their node: running processes, stored files, and the prefetch list."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from corral.domain.model import PREFETCH_MAX
from corral.wire.base import LenientModel
from corral.wire.nodes import Bytes

# A body has at most one megabyte: these limits fit into it together, with the longest usual names.
PROCESSES_MAX = 200
FILES_MAX = 2_500
BLOBS_MAX = 2_500

_Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]
_Text = Annotated[str, StringConstraints(max_length=512)]
_Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_PrefetchNames = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=255)]], Field(max_length=PREFETCH_MAX)
]
_Count = Annotated[int, Field(ge=0, le=2**31)]


class RunningProcessIn(LenientModel):
    """One running engine process, in the report that its worker sends to a frontend."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=1024)] = Field(description="model#replica")
    model: _Name
    replica: _Count
    backend: _Name
    version: _Text = ""
    address: _Text = ""
    pid: _Count = 0
    state: _Text = Field("ready", description="starting, ready, unhealthy or backing_off.")
    restarts: _Count = 0
    revision: _Text = Field("", description="Run hash of its load; empty if it was started by hand.")
    operation_id: _Text = ""
    threads: _Count = 1
    vram_bytes: Bytes | None = None
    ram_bytes: Bytes | None = None
    engine_key: Annotated[str, StringConstraints(max_length=512)] = Field("", repr=False)
    ticket: Annotated[str, StringConstraints(max_length=4096)] = Field(
        "", repr=False, description="The ticket of its load; an unregistered process without one is stopped."
    )


class HeldFileIn(LenientModel):
    """One file of a model on a node's disk, in the report that the node's worker sends."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    sha256: _Sha256
    size_bytes: Bytes


class HeldModelIn(LenientModel):
    """A model whose files are all on a node's disk, in the report that the node's worker sends."""

    name: _Name
    revision: _Text = ""
    files: Annotated[list[HeldFileIn], Field(max_length=FILES_MAX)] = Field(default_factory=list)


class HeldBlobIn(LenientModel):
    """A model file on a node's disk, whole or in verified chunks, in the report that the node's worker sends."""

    sha256: _Sha256
    size_bytes: Bytes
    is_whole: bool = True


class HoldingsIn(LenientModel):
    """Body of `POST /api/node/{node_id}/holdings`: a worker's report of its engine processes and model files.

    A process that is not listed does not run.
    """

    boot_id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    processes: Annotated[list[RunningProcessIn], Field(max_length=PROCESSES_MAX)] = Field(default_factory=list)
    models: Annotated[list[HeldModelIn], Field(max_length=FILES_MAX)] = Field(default_factory=list)
    blobs: Annotated[list[HeldBlobIn], Field(max_length=BLOBS_MAX)] = Field(default_factory=list)
    are_files_complete: bool = Field(
        default=True, description="Whether models and blobs are complete. If not, absent ones may still exist."
    )


class PrefetchIn(LenientModel):
    """Body of `POST /api/node/{node_id}/prefetch`: backends and models that a worker wants on its disk in advance."""

    boot_id: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    backends: _PrefetchNames = Field(
        default_factory=list, description="Names of the catalog: a meta, a build, gallery@name."
    )
    models: _PrefetchNames = Field(default_factory=list, description="Models of the cluster, by name or alias.")


class PrefetchEntryOut(LenientModel):
    """What a frontend does about one engine backend or model that a worker wants on its disk in advance."""

    kind: str = Field(description="backend or model.")
    name: str
    state: str = Field(description="present, requested or refused. A refused entry may be requested again later.")
    message: str = ""
    operation_id: str | None = Field(
        default=None, description="The operation that installs or downloads it, if there is one."
    )


class PrefetchOut(LenientModel):
    """Response of `POST /api/node/{node_id}/prefetch`: the state of each backend and model that the worker listed."""

    entries: list[PrefetchEntryOut]
