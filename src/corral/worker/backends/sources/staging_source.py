"""The interface of all sources of backends: what they receive (`StagingJob`, with the installer's options and time
limits) and return (`ResolvedSource`, `SourceDelivery`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random  # noqa: TID251 - only the type; the generator is passed in
from typing import Protocol

from corral.domain.backend import Build
from corral.ports.files import ProgressCallback
from corral.ports.runtime import Clock
from corral.transfer.downloader import Downloader, PartialDownloads
from corral.transfer.files import free_bytes
from corral.transfer.http_client import TransferHttpClient, TransferOptions
from corral.worker.job_ports import JobProgressListener

GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallTimeouts(TransferOptions):
    """Time limits of installing a backend: transfers, resolving packages, unpacking and the backend's own check."""

    # For asking the package index which files a set of requirements means.
    resolve_s: float = 600.0
    # For unpacking packages into an environment.
    unpack_s: float = 1800.0
    # For a backend's own check.
    check_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallerOptions:
    """Tunables of a worker's backend installer: timeouts, spare disk space, integrity checks and package limits."""

    timeouts: InstallTimeouts = field(default_factory=InstallTimeouts)
    # Kept free on the disk, whatever is installed.
    headroom_bytes: int = GIB
    # Refuse builds without a promised digest. Signatures are not verified.
    require_integrity: bool = False
    # Backends that came with the machine: <root>/<name>/backend.yaml. They are only read.
    system_root: Path | None = None
    # Variables of the worker's environment: PATH, HOME, proxies, certificates, UV_* and PIP_*.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Registry host in lower case, to "user:password".
    registry_credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    # The interpreter that environments are made with where it fits the requirements.
    python: Path = field(default_factory=lambda: Path(sys.executable))
    free_bytes: Callable[[Path], int | None] = free_bytes
    # Limits of one unpacked package.
    unpacked_bytes_max: int = 64 * GIB
    unpacked_files_max: int = 500_000
    # Unfinished downloads that no job has continued for this long are garbage.
    download_age_s: float = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingJob:
    """One build of an engine backend to fetch into a folder on a worker, with the tools that its source needs.

    These are options, HTTP client, folders and progress.
    """

    build: Build
    options: InstallerOptions
    clock: Clock
    rng: Random
    http: TransferHttpClient
    progress: JobProgressListener
    # Folder of partial downloads, kept for the next attempt.
    downloads: Path
    # Scratch folder on the disk of the store, removed at the end.
    work: Path

    def make_downloader(self) -> Downloader:
        files = PartialDownloads(self.downloads, self.build.name)
        return Downloader(files, self.http, self.clock, self.rng, self.options.unpacked_bytes_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSource:
    """What a source of an engine backend will download: digest where known, size, and how much is here already."""

    digest: str | None
    total_bytes: int | None
    # The part of the size that is downloaded already.
    have_bytes: int = 0
    # The space that the unpacked build takes beside the download, as a multiple of the download.
    unpacked_factor: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDelivery:
    """Says what a source has downloaded into an engine backend's new folder: its digest, origin and interpreter."""

    digest: str
    uri: str
    # Path of the interpreter, relative to the folder; empty if the backend has none of its own.
    python: str = ""


class StagingSource(Protocol):
    """Interface of the sources (package index, registry, folder) of an engine backend's files for a worker."""

    async def resolve(self) -> ResolvedSource: ...

    async def stage(self, folder: Path) -> SourceDelivery:
        """Fetch, verify and unpack the build into an empty folder. Call after `resolve`."""
        ...


class DownloadMeter:
    """Sums up the bytes of several downloads, for the progress of one installation job."""

    def __init__(self, progress: JobProgressListener, sizes: dict[str, int | None]) -> None:
        self._progress = progress
        self._sizes = dict(sizes)
        self._current = dict.fromkeys(sizes, 0)

    def track_file(self, file_name: str) -> ProgressCallback:
        def on_file_progress(current: int, total: int | None) -> None:
            self._current[file_name] = current
            if total is not None:
                self._sizes[file_name] = total
            known = [size for size in self._sizes.values() if size is not None]
            whole = sum(known) if len(known) == len(self._sizes) else None
            self._progress.on_progress(sum(self._current.values()), whole, file_name)

        return on_file_progress
