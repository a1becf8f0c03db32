"""What jobs are made of: an installer, files of models, a supervisor of processes, and a way to tell how far one is.

The simulator has an installer and files without a disk and a supervisor without processes; everything else is the
product's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from corral.bus.messages import BlobPlace, FileItem, Log, ModelDeleted, ReadLog, RunningProcess, StartBackend
from corral.domain.backend import Build, InstalledBackend, Manifest
from corral.domain.operation import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Runnable:
    """An installed backend as whoever starts it needs it."""

    # The concrete name.
    name: str
    version: str
    # Its folder in the store; another one, or the same path made anew, is another installation.
    directory: Path
    manifest: Manifest
    # The interpreter that {python} stands for; empty if it has none.
    python: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """A file or folder that takes room and is of no use; `name` is its path below the backends folder."""

    name: str
    path: Path
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    items: tuple[Garbage, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(item.size_bytes for item in self.items)


class Report(Protocol):
    """How the work tells where it is. Cheap enough to call for every chunk: it debounces by itself."""

    def phase(self, phase: Phase) -> None: ...

    def moved(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        """Bytes of this phase so far; a total that is not known is None."""
        ...


class Installer(Protocol):
    """One installer for install, upgrade, reinstall and rollback. All methods may be cancelled at any await: what was
    there before stays runnable, partial downloads stay for the next time, and `discard` throws them away."""

    async def tidy(self) -> None:
        """After a start: finish or undo what a kill left half done; remove staging folders nobody works on."""
        ...

    def installed(self) -> tuple[InstalledBackend, ...]: ...

    def removed(self) -> Mapping[str, int]:
        """Backends that are gone, with the generation of their removal."""
        ...

    def resolve(self, name: str) -> str | None:
        """The concrete name of what is installed under a name, a meta or an alias of which there is only one."""
        ...

    def runnable(self, name: str) -> Runnable | None:
        """What `resolve` finds under this name, with its folder and how to run it."""
        ...

    async def install(
        self,
        build: Build,
        *,
        generation: int,
        replaces: bool,
        before_swap: Callable[[], Awaitable[None]],
        report: Report,
    ) -> InstalledBackend:
        """Stage, verify, check, `before_swap` (which ends the processes of the old one), swap.

        Without `replaces`, having this backend already is enough: nothing is fetched or stopped, the generation is
        written down."""
        ...

    async def roll_back(
        self, name: str, *, generation: int, before_swap: Callable[[], Awaitable[None]], report: Report
    ) -> InstalledBackend: ...

    async def remove(self, name: str, *, generation: int, report: Report) -> None:
        """Idempotent. A system backend is refused."""
        ...

    async def discard(self, build: Build) -> None:
        """Throw away what was fetched for this build and not installed."""
        ...

    async def collect(self, *, dry_run: bool = False) -> Collected:
        """Remove what nothing points to and nobody continues, or only tell what that would be. What jobs are at is
        none of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldModel:
    """A model whose files are all here, and right."""

    name: str
    # The run hash that its files were last fetched for.
    revision: str
    files: tuple[FileItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBlob:
    """A content. Of one that is not whole, some chunks are here and verified."""

    sha256: str
    size_bytes: int
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFiles:
    models: tuple[HeldModel, ...] = ()
    blobs: tuple[HeldBlob, ...] = ()


class Files(Protocol):
    """The files of models on this machine. All methods may be cancelled at any await; verified chunks stay."""

    # Called after everything that `holdings` would tell differently, except for chunks.
    changed: Callable[[], None]

    async def have(
        self,
        model: str,
        revision: str,
        files: tuple[FileItem, ...],
        places: tuple[BlobPlace, ...],
        report: Report,
    ) -> Path:
        """Fetch what is missing; the model's folder, in which every file is at its path and right.

        Without files there is nothing to fetch, and the folder may be empty. The bytes that are told to `report` are
        over all files, those that were there included. Calls for one model come one after the other; those for
        different models at the same time.
        """
        ...

    async def delete(self, model: str) -> ModelDeleted:
        """Idempotent. Contents that another model uses stay; a name that leads out of the models folder is refused."""
        ...

    async def holdings(self) -> HeldFiles: ...

    async def collect(self, *, dry_run: bool = False) -> Collected:
        """Remove contents that no model uses and nobody continues, or only tell what that would be."""
        ...


class Processes(Protocol):
    """The supervisor as jobs and commands see it."""

    # Called after everything that `running` would tell differently.
    changed: Callable[[], None]

    async def start_backend(self, wish: StartBackend, report: Report) -> RunningProcess:
        """Ready when this returns. The error has the last lines of the engine's own output."""
        ...

    async def stop_backend(
        self, backend: str | None, *, force: bool = False
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """End the processes of one concrete backend, or of all with None: the keys that ended, those that did not."""
        ...

    async def stop_exactly(self, key: str, *, expected_address: str = "", force: bool = False) -> tuple[bool, str]:
        """Whether there was such a process, and its address; returns after it has ended, or raises."""
        ...

    def running(self) -> tuple[RunningProcess, ...]: ...

    async def measure_running(self) -> tuple[RunningProcess, ...]:
        """Return `running` with memory and processor use of each process that is ready, as of now."""
        ...

    async def read_log(self, wish: ReadLog) -> Log: ...
