"""What runs and what lies on a node, as its worker reports it, and what it wants to lie there."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from corral.domain.prefetch import PREFETCH_MAX
from corral.wire.base import Lenient
from corral.wire.nodes import Bytes

# A body has a megabyte at most: so much of each fits into it together, with the longest names that are usual.
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


class ProcessIn(Lenient):
    """One engine that runs; as `bus.messages.RunningProcess`."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=1024)] = Field(description="model#replica")
    model: _Name
    replica: _Count
    backend: _Name
    version: _Text = ""
    address: _Text = ""
    pid: _Count = 0
    state: _Text = Field("ready", description="starting, ready, unhealthy or backing_off.")
    restarts: _Count = 0
    revision: _Text = Field("", description="The run hash that it was loaded with; empty if it was started by hand.")
    operation_id: _Text = ""
    threads: _Count = 1
    vram_bytes: Bytes | None = None
    ram_bytes: Bytes | None = None
    engine_key: Annotated[str, StringConstraints(max_length=512)] = Field("", repr=False)
    ticket: Annotated[str, StringConstraints(max_length=4096)] = Field(
        "", repr=False, description="The ticket of its load; without one, a process that is not registered is ended."
    )


class HeldFileIn(Lenient):
    """A file of a model, as content."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    sha256: _Sha256
    size_bytes: Bytes


class HeldModelIn(Lenient):
    """A model whose files are all there."""

    name: _Name
    revision: _Text = ""
    files: Annotated[list[HeldFileIn], Field(max_length=FILES_MAX)] = Field(default_factory=list)


class HeldBlobIn(Lenient):
    """A content; of one that is not whole, some chunks are there and verified."""

    sha256: _Sha256
    size_bytes: Bytes
    is_whole: bool = True


class HoldingsIn(Lenient):
    """Everything that a worker runs and holds, at once: a process that is not in it does not run."""

    boot_id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    processes: Annotated[list[ProcessIn], Field(max_length=PROCESSES_MAX)] = Field(default_factory=list)
    models: Annotated[list[HeldModelIn], Field(max_length=FILES_MAX)] = Field(default_factory=list)
    blobs: Annotated[list[HeldBlobIn], Field(max_length=BLOBS_MAX)] = Field(default_factory=list)
    are_files_complete: bool = Field(
        default=True, description="Whether models and blobs are all there are. If not, what is absent says nothing."
    )


class PrefetchIn(Lenient):
    """What a worker wants on the disk of its own machine."""

    boot_id: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    backends: _PrefetchNames = Field(
        default_factory=list, description="Names of the catalog: a meta, a build, gallery@name."
    )
    models: _PrefetchNames = Field(default_factory=list, description="Models of the cluster, by name or alias.")


class PrefetchEntryOut(Lenient):
    kind: str = Field(description="backend or model.")
    name: str
    state: str = Field(description="present, requested or refused. What is refused may be asked for again later.")
    message: str = ""
    operation_id: str | None = Field(default=None, description="The operation that brings it, if there is one.")


class PrefetchOut(Lenient):
    entries: list[PrefetchEntryOut]
