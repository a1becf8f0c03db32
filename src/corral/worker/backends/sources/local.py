"""Backends that need no network: a folder of the node itself, and what comes with Corral."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from corral.engines import launcher_file
from corral.transfer.faults import told_when_full
from corral.transfer.threads import Stop, in_thread
from corral.worker.backends.faults import InstallFailed
from corral.worker.backends.layout import size_of, walk
from corral.worker.backends.sources.source import Delivered, Job, Meter, Resolved

LAUNCHER = "launcher.py"
_CHUNK = 1024 * 1024


class DirectorySource:
    """A copy: what happens to the folder later does not touch the installed backend. Links are copied as they are,
    because a folder of the node is trusted."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._folder = Path(job.build.source.uri.removeprefix("file://"))
        self._size = 0

    async def resolve(self) -> Resolved:
        if not self._folder.is_absolute() or not self._folder.is_dir():
            raise InstallFailed(f"There is no folder {self._folder} on this node.", code="not_found")
        if self._job.downloads.is_relative_to(self._folder.resolve()):
            raise InstallFailed(f"{self._folder} holds the installed backends themselves.", code="bad_manifest")
        self._size = await in_thread(lambda _stop: size_of(self._folder))
        if not self._size and not await in_thread(lambda _stop: any(path.is_file() for path in walk(self._folder))):
            raise InstallFailed(f"The folder {self._folder} of this node holds no file.", code="not_found")
        return Resolved(digest=None, total_bytes=self._size, unpacked_factor=0.0)

    async def stage(self, folder: Path) -> Delivered:
        loop = asyncio.get_running_loop()
        moved = Meter(self._job.report, {self._folder.name: self._size}).of(self._folder.name)

        def tell(copied: int) -> None:
            # A report belongs to the event loop.
            loop.call_soon_threadsafe(moved, copied, self._size)

        digest = await in_thread(lambda stop: self._copy(folder, tell, stop))
        return Delivered(digest=f"sha256:{digest}", uri=str(self._folder))

    def _copy(self, target: Path, tell: Callable[[int], None], stop: Stop) -> str:
        tree, copied = hashlib.sha256(), 0
        for path in sorted(walk(self._folder)):
            stop.check()
            place = target / path.relative_to(self._folder)
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                place.mkdir(exist_ok=True)
                what = "folder"
            elif stat.S_ISLNK(mode):
                place.symlink_to(path.readlink())
                what = f"link {path.readlink()}"
            elif stat.S_ISREG(mode):
                what = f"file {mode & 0o111:o} {_copy_file(path, place, stop)}"
                copied += place.stat().st_size
                tell(copied)
            else:
                continue
            tree.update(f"{path.relative_to(self._folder)}\0{what}\n".encode(errors="surrogateescape"))
        return tree.hexdigest()


def _copy_file(source: Path, target: Path, stop: Stop) -> str:
    found = hashlib.sha256()
    with told_when_full("the folder was copied"), source.open("rb") as read, target.open("xb") as write:
        while chunk := read.read(_CHUNK):
            stop.check()
            found.update(chunk)
            write.write(chunk)
        os.fchmod(write.fileno(), (stat.S_IMODE(source.stat().st_mode) & 0o755) | 0o600)
    return found.hexdigest()


class BundledSource:
    """A launcher that is an engine by itself; it runs with the worker's own interpreter."""

    def __init__(self, job: Job) -> None:
        self._build = job.build
        self._file = find_launcher(job.build.source.uri)

    async def resolve(self) -> Resolved:
        text = f"bundled {self._build.source.uri} {self._build.version}\n".encode()
        digest = hashlib.sha256(text + self._file.read_bytes()).hexdigest()
        return Resolved(digest=f"sha256:{digest}", total_bytes=0)

    async def stage(self, folder: Path) -> Delivered:
        resolved = await self.resolve()
        assert resolved.digest is not None, "the file is here"
        shutil.copyfile(self._file, folder / LAUNCHER)
        return Delivered(digest=resolved.digest, uri=f"bundled:{self._build.source.uri}")


def find_launcher(name: str) -> Path:
    found = launcher_file(name)
    if found is None:
        raise InstallFailed(
            f"There is no launcher {name!r} in this version of Corral.",
            hint="The gallery may be newer than the worker: upgrade the worker.",
            code="bad_manifest",
        )
    return found
