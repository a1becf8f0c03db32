"""The parts that jobs use, as protocols: an installer, model files, a process supervisor, and a progress listener.

The simulator has an installer and files without a disk and a supervisor without processes; everything else is the
product's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from corral.bus.messages import (
    BlobSource,
    DeleteModelReply,
    ModelFileItem,
    ReadLog,
    ReadLogReply,
    RunningProcess,
    StartBackend,
)
from corral.domain.backend import Build, InstalledBackend, Manifest
from corral.domain.operation import JobPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnableBackend:
    """An installed backend as a worker needs it to start an engine: folder, manifest and interpreter."""

    # The concrete name.
    name: str
    version: str
    # Its folder in the store; another folder, or the same path made again, is another installation.
    directory: Path
    manifest: Manifest
    # The interpreter that {python} stands for; empty if it has none.
    python: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbagePath:
    """An unused file or folder below a worker's engine backends folder, with its size; `name` is its path there."""

    name: str
    path: Path
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageReport:
    """Lists the unused files of engine backends that one garbage collection found or removed on a worker."""

    items: tuple[GarbagePath, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(item.size_bytes for item in self.items)


class JobProgressListener(Protocol):
    """Interface that receives a worker job's phase and bytes. Cheap enough to call for every chunk."""

    def on_phase(self, phase: JobPhase) -> None: ...

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        """Receive the bytes of this phase so far; an unknown total is None."""
        ...


class BackendInstaller(Protocol):
    """Interface that installs, upgrades, rolls back and removes backends on a worker.

    A cancelled call leaves the earlier build runnable.
    """

    async def tidy(self) -> None:
        """Finish or undo what a kill left half done, and remove staging folders that no job uses. Call after a
        start."""
        ...

    def list_installed(self) -> tuple[InstalledBackend, ...]: ...

    def list_removed(self) -> Mapping[str, int]:
        """Return removed backends, with the generation of their removal."""
        ...

    def resolve(self, name: str) -> str | None:
        """Return the concrete name that is installed under a name, or under a meta or an alias of which there is only
        one."""
        ...

    def find_runnable(self, name: str) -> RunnableBackend | None:
        """Return the backend that `resolve` finds under this name, with its folder and how to run it."""
        ...

    async def install(
        self,
        build: Build,
        *,
        generation: int,
        replaces: bool,
        before_swap: Callable[[], Awaitable[None]],
        progress: JobProgressListener,
    ) -> InstalledBackend:
        """Stage, verify, check, call `before_swap` (which ends the processes of the previous build), and swap.

        Without `replaces`, an installed backend is enough: nothing is fetched or stopped, only the generation is
        recorded.
        """
        ...

    async def roll_back(
        self, name: str, *, generation: int, before_swap: Callable[[], Awaitable[None]], progress: JobProgressListener
    ) -> InstalledBackend: ...

    async def remove(self, name: str, *, generation: int, progress: JobProgressListener) -> None:
        """Remove a backend. Idempotent. A system backend is refused."""
        ...

    async def discard(self, build: Build) -> None:
        """Delete what was downloaded for this build and not installed."""
        ...

    async def collect_garbage(self, *, dry_run: bool = False) -> GarbageReport:
        """Remove files that nothing points to and no job continues, or only list them with `dry_run`. Files that jobs
        use stay."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldModel:
    """A model whose files are all on this worker's node and verified."""

    name: str
    # The run hash that its files were last fetched for.
    revision: str
    files: tuple[ModelFileItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBlob:
    """A model file on this worker's node, known by sha256; of a file that is not whole, some chunks are verified."""

    sha256: str
    size_bytes: int
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFiles:
    """Lists the models and model files that are on this worker's node, for its report."""

    models: tuple[HeldModel, ...] = ()
    blobs: tuple[HeldBlob, ...] = ()


class ModelFiles(Protocol):
    """Interface that fetches, lists and deletes model files on a worker. A cancelled call keeps verified chunks."""

    # Called after every change that `list_holdings` would report, except for chunks.
    on_change: Callable[[], None]

    async def ensure_files(
        self,
        model: str,
        revision: str,
        files: tuple[ModelFileItem, ...],
        sources: tuple[BlobSource, ...],
        progress: JobProgressListener,
    ) -> Path:
        """Fetch what is missing; return the model's folder, in which every file is at its path and right.

        Without files there is nothing to fetch, and the folder may be empty. The bytes reported to `progress` are over
        all files, including those that were there. Calls for one model come one after the other; those for different
        models at the same time.
        """
        ...

    async def delete(self, model: str) -> DeleteModelReply:
        """Delete a model. Idempotent. Contents of other models stay; a name that leads out of the models folder is
        refused."""
        ...

    async def list_holdings(self) -> HeldFiles: ...

    async def collect_garbage(self, *, dry_run: bool = False) -> GarbageReport:
        """Remove contents that no model uses and no job continues, or only list them with `dry_run`."""
        ...


class ProcessSupervisor(Protocol):
    """Interface that starts, stops and lists a worker's engine processes, for its jobs and bus commands."""

    # Called after every change that `list_running` would report.
    on_change: Callable[[], None]

    async def start_backend(self, command: StartBackend, progress: JobProgressListener) -> RunningProcess:
        """Start an engine and return when it is ready. The error has the last lines of the engine's own output."""
        ...

    async def stop_backend(
        self, backend: str | None, *, force: bool = False
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """End the processes of one concrete backend, or of all with None; return the keys that ended and those that did
        not."""
        ...

    async def stop_process(self, key: str, *, expected_address: str = "", force: bool = False) -> tuple[bool, str]:
        """End a process; return whether it existed, and its address. Returns after the end, or raises."""
        ...

    def list_running(self) -> tuple[RunningProcess, ...]: ...

    async def measure_running(self) -> tuple[RunningProcess, ...]:
        """Return `list_running` with memory and processor use of each ready process, as of now."""
        ...

    async def read_log(self, query: ReadLog) -> ReadLogReply: ...
