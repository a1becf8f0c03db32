"""Sources of backends that need no network: a folder of the node itself, and launchers that come with Corral."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from corral.engines import read_launcher
from corral.transfer.faults import translate_disk_full
from corral.transfer.files import StopFlag, run_in_thread
from corral.worker.backends.layout import InstallFailed, iterate_tree, measure_size
from corral.worker.backends.sources.staging_source import DownloadMeter, ResolvedSource, SourceDelivery, StagingJob

LAUNCHER = "launcher.py"
_CHUNK = 1024 * 1024


class DirectorySource:
    """Copies a backend from a folder of the node, to be installed; later changes to that folder have no effect."""

    def __init__(self, job: StagingJob) -> None:
        self._job = job
        self._folder = Path(job.build.source.uri.removeprefix("file://"))
        self._size = 0

    async def resolve(self) -> ResolvedSource:
        if not self._folder.is_absolute() or not self._folder.is_dir():
            raise InstallFailed(f"There is no folder {self._folder} on this node.", code="not_found")
        if self._job.downloads.is_relative_to(self._folder.resolve()):
            raise InstallFailed(f"{self._folder} holds the installed backends themselves.", code="bad_manifest")
        self._size = await run_in_thread(lambda _stop: measure_size(self._folder))
        if not self._size and not await run_in_thread(
            lambda _stop: any(path.is_file() for path in iterate_tree(self._folder))
        ):
            raise InstallFailed(f"The folder {self._folder} of this node holds no file.", code="not_found")
        return ResolvedSource(digest=None, total_bytes=self._size, unpacked_factor=0.0)

    async def stage(self, folder: Path) -> SourceDelivery:
        loop = asyncio.get_running_loop()
        moved = DownloadMeter(self._job.progress, {self._folder.name: self._size}).track_file(self._folder.name)

        def tell(copied: int) -> None:
            # Progress must be reported from the event loop.
            loop.call_soon_threadsafe(moved, copied, self._size)

        digest = await run_in_thread(lambda stop: self._copy(folder, tell, stop))
        return SourceDelivery(digest=f"sha256:{digest}", uri=str(self._folder))

    def _copy(self, target: Path, on_progress: Callable[[int], None], stop: StopFlag) -> str:
        tree, copied = hashlib.sha256(), 0
        for path in sorted(iterate_tree(self._folder)):
            stop.raise_if_set()
            copy = target / path.relative_to(self._folder)
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                copy.mkdir(exist_ok=True)
                description = "folder"
            elif stat.S_ISLNK(mode):
                copy.symlink_to(path.readlink())
                description = f"link {path.readlink()}"
            elif stat.S_ISREG(mode):
                description = f"file {mode & 0o111:o} {_copy_file(path, copy, stop)}"
                copied += copy.stat().st_size
                on_progress(copied)
            else:
                continue
            tree.update(f"{path.relative_to(self._folder)}\0{description}\n".encode(errors="surrogateescape"))
        return tree.hexdigest()


def _copy_file(source: Path, target: Path, stop: StopFlag) -> str:
    found = hashlib.sha256()
    with translate_disk_full("the folder was copied"), source.open("rb") as read, target.open("xb") as write:
        while chunk := read.read(_CHUNK):
            stop.raise_if_set()
            found.update(chunk)
            write.write(chunk)
        os.fchmod(write.fileno(), (stat.S_IMODE(source.stat().st_mode) & 0o755) | 0o600)
    return found.hexdigest()


class BundledSource:
    """Provides a backend that comes with Corral: an engine that the worker's own Python interpreter runs."""

    def __init__(self, job: StagingJob) -> None:
        self._build = job.build
        self._launcher = make_launcher(job.build.source.uri)

    async def resolve(self) -> ResolvedSource:
        text = f"bundled {self._build.source.uri} {self._build.version}\n".encode()
        digest = hashlib.sha256(text + self._launcher).hexdigest()
        return ResolvedSource(digest=f"sha256:{digest}", total_bytes=0)

    async def stage(self, folder: Path) -> SourceDelivery:
        resolved = await self.resolve()
        assert resolved.digest is not None, "the file is here"
        (folder / LAUNCHER).write_bytes(self._launcher)
        return SourceDelivery(digest=resolved.digest, uri=f"bundled:{self._build.source.uri}")


def make_launcher(name: str) -> bytes:
    """Return the program of a launcher of this version of Corral; raise `InstallFailed` if there is none."""
    found = read_launcher(name)
    if found is None:
        raise InstallFailed(
            f"There is no launcher {name!r} in this version of Corral.",
            hint="The gallery may be newer than the worker: upgrade the worker.",
            code="bad_manifest",
        )
    return found.encode()
