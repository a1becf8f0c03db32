"""Reads files and folders of the frontend's own machine, below the folders that its settings name.

They are read where they lie and never changed. Sidecars with a digest (`X.sha256`, `X.sha256.target` beside a file X)
are not files of a model.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from corral.domain.model import FilePart
from corral.ports.files import OriginFile, ProgressCallback
from corral.transfer.downloader import DownloadRequest
from corral.transfer.faults import TransferFailed
from corral.transfer.files import StopFlag, run_in_thread
from corral.transfer.origins.file_origin import FILES_MAX, OriginDeps, make_address_error

_SIDECARS = (".sha256", ".sha256.target")


class PathOrigin:
    """Reads model files from folders of the frontend's own machine that its settings allow."""

    def __init__(self, deps: OriginDeps) -> None:
        self._deps = deps
        self._allowed = tuple(Path(os.path.realpath(folder)) for folder in deps.options.paths)

    async def resolve(self, part: FilePart) -> tuple[OriginFile, ...]:
        path = _parse_path(part.uri)
        return await run_in_thread(lambda stop: tuple(self._find(path, stop)))

    async def fetch(self, found: OriginFile, into: Path, on_progress: ProgressCallback) -> Path:
        path = _parse_path(found.address)
        size = await run_in_thread(lambda _stop: self._check_size(path))
        if found.sha256:
            request = DownloadRequest(url=found.address, file_name=path.name, sha256=found.sha256, size_bytes=size)
            await self._deps.make_downloader(into, self._deps.trusted_http).fetch(request, on_progress)
        on_progress(size, size)
        return path

    async def forget(self, found: OriginFile, into: Path) -> None:
        """Do nothing: no file was copied there."""

    def _find(self, path: Path, stop: StopFlag) -> Iterator[OriginFile]:
        self._check(path)
        if not path.is_dir():
            yield _make_file(path, path.name, self._check_size(path))
            return
        count = 0
        for file in _iterate_files(path, stop):
            count += 1
            if count > FILES_MAX:
                raise TransferFailed(f"{path} has more than {FILES_MAX} files.", code="unsupported")
            yield _make_file(file, file.relative_to(path).as_posix(), self._check_size(file))
        if not count:
            raise TransferFailed(f"There are no files in {path}.", code="not_found")

    def _check(self, path: Path) -> None:
        """Refuse a path outside the allowed folders, before its existence is disclosed."""
        real = Path(os.path.realpath(path))
        if not any(real.is_relative_to(folder) for folder in self._allowed):
            raise TransferFailed(
                f"{path} is not in a folder that models may be taken from.",
                hint="The setting model_paths of the frontend names these folders.",
                code="not_allowed",
            )

    def _check_size(self, path: Path) -> int:
        """Return the size of a file that may be read, wherever a link leads."""
        self._check(path)
        try:
            found = path.stat()
        except OSError as error:
            raise TransferFailed(f"{path} cannot be read: {error.strerror}.", code="not_found") from error
        if not stat.S_ISREG(found.st_mode):
            raise TransferFailed(f"{path} is neither a file nor a folder of files.", code="unsupported")
        return found.st_size


def _parse_path(uri: str) -> Path:
    text = uri
    if uri.startswith("file:"):
        parts = urlsplit(uri)
        if parts.netloc not in ("", "localhost"):
            raise make_address_error(uri, "file:///folder/file")
        text = unquote(parts.path)
    path = Path(text)
    if not path.is_absolute() or "\0" in text:
        raise make_address_error(uri, "/folder/file")
    return path


def _iterate_files(folder: Path, stop: StopFlag) -> Iterator[Path]:
    """Yield files sorted by path. Links to folders are not followed: they are yielded as links, and refused."""
    found = []
    for parent, folders, files in os.walk(folder, onerror=_raise_not_readable):
        stop.raise_if_set()
        names = set(files)
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        found += [Path(parent) / name for name in (*files, *links) if not _is_sidecar(name, names)]
    yield from sorted(found)


def _is_sidecar(name: str, names: set[str]) -> bool:
    return any(name.endswith(ending) and name.removesuffix(ending) in names for ending in _SIDECARS)


def _raise_not_readable(error: OSError) -> None:
    raise TransferFailed(f"{error.filename} cannot be read: {error.strerror}.", code="not_found") from error


def _make_file(path: Path, name: str, size: int) -> OriginFile:
    return OriginFile(path=name, address=path.as_uri(), size_bytes=size)
