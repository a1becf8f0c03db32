"""What every kind of source is given and gives back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 - only the type; the generator is passed in
from typing import Protocol

from corral.domain.backend import Build
from corral.ports.origin import Moved
from corral.ports.runtime import Clock
from corral.transfer.download import Downloader, Downloads
from corral.transfer.http import Http
from corral.worker.backends.options import InstallerOptions
from corral.worker.work import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One build to be staged."""

    build: Build
    options: InstallerOptions
    clock: Clock
    rng: Random
    http: Http
    report: Report
    # Partial files, kept for the next time.
    downloads: Path
    # Scratch space on the disk of the store, removed at the end.
    work: Path

    def downloader(self) -> Downloader:
        files = Downloads(self.downloads, self.build.name)
        return Downloader(files, self.http, self.clock, self.rng, self.options.unpacked_bytes_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What will be fetched. The digest is None where only the bytes can tell it."""

    digest: str | None
    total_bytes: int | None
    # Of these, what is here already.
    have_bytes: int = 0
    # How much room it takes on the disk beside the download, as a multiple of it.
    unpacked_factor: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What is in the folder now, and where it really came from."""

    digest: str
    uri: str
    # The interpreter, relative to the folder; empty: none of its own.
    python: str = ""


class Source(Protocol):
    async def resolve(self) -> Resolved: ...

    async def stage(self, folder: Path) -> Delivered:
        """After `resolve`, into an empty folder."""
        ...


class Meter:
    """Adds the bytes of several files up for one report."""

    def __init__(self, report: Report, sizes: dict[str, int | None]) -> None:
        self._report = report
        self._sizes = dict(sizes)
        self._current = dict.fromkeys(sizes, 0)

    def of(self, file_name: str) -> Moved:
        def moved(current: int, total: int | None) -> None:
            self._current[file_name] = current
            if total is not None:
                self._sizes[file_name] = total
            known = [size for size in self._sizes.values() if size is not None]
            whole = sum(known) if len(known) == len(self._sizes) else None
            self._report.moved(sum(self._current.values()), whole, file_name)

        return moved
