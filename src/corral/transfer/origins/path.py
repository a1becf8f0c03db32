"""Files and folders of the frontend's own machine, below the folders that its settings name.

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
from corral.ports.origin import Found, Moved
from corral.transfer.download import Wish
from corral.transfer.faults import TransferFailed
from corral.transfer.origins.origin import FILES_MAX, Means, bad_address
from corral.transfer.threads import Stop, in_thread

_SIDECARS = (".sha256", ".sha256.target")


class PathOrigin:
    def __init__(self, means: Means) -> None:
        self._means = means
        self._allowed = tuple(Path(os.path.realpath(folder)) for folder in means.options.paths)

    async def resolve(self, part: FilePart) -> tuple[Found, ...]:
        path = _path_of(part.uri)
        return await in_thread(lambda stop: tuple(self._find(path, stop)))

    async def fetch(self, found: Found, into: Path, moved: Moved) -> Path:
        path = _path_of(found.address)
        size = await in_thread(lambda _stop: self._size_of(path))
        if found.sha256:
            wish = Wish(url=found.address, file_name=path.name, sha256=found.sha256, size_bytes=size)
            await self._means.downloader(into, self._means.inside).fetch(wish, moved)
        moved(size, size)
        return path

    async def forget(self, found: Found, into: Path) -> None:
        """Nothing was put there."""

    def _find(self, path: Path, stop: Stop) -> Iterator[Found]:
        self._check(path)
        if not path.is_dir():
            yield _found(path, path.name, self._size_of(path))
            return
        count = 0
        for file in _files(path, stop):
            count += 1
            if count > FILES_MAX:
                raise TransferFailed(f"{path} has more than {FILES_MAX} files.", code="unsupported")
            yield _found(file, file.relative_to(path).as_posix(), self._size_of(file))
        if not count:
            raise TransferFailed(f"There are no files in {path}.", code="not_found")

    def _check(self, path: Path) -> None:
        """Before anything is said about it, also whether it is there."""
        real = Path(os.path.realpath(path))
        if not any(real.is_relative_to(folder) for folder in self._allowed):
            raise TransferFailed(
                f"{path} is not in a folder that models may be taken from.",
                hint="The setting model_paths of the frontend names these folders.",
                code="not_allowed",
            )

    def _size_of(self, path: Path) -> int:
        """Of a file that may be read, wherever a link leads."""
        self._check(path)
        try:
            found = path.stat()
        except OSError as error:
            raise TransferFailed(f"{path} cannot be read: {error.strerror}.", code="not_found") from error
        if not stat.S_ISREG(found.st_mode):
            raise TransferFailed(f"{path} is neither a file nor a folder of files.", code="unsupported")
        return found.st_size


def _path_of(uri: str) -> Path:
    text = uri
    if uri.startswith("file:"):
        parts = urlsplit(uri)
        if parts.netloc not in ("", "localhost"):
            raise bad_address(uri, "file:///folder/file")
        text = unquote(parts.path)
    path = Path(text)
    if not path.is_absolute() or "\0" in text:
        raise bad_address(uri, "/folder/file")
    return path


def _files(folder: Path, stop: Stop) -> Iterator[Path]:
    """Sorted by path. Links to folders are not followed: they come out as what they are, and are refused."""
    found = []
    for parent, folders, files in os.walk(folder, onerror=_not_readable):
        stop.check()
        names = set(files)
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        found += [Path(parent) / name for name in (*files, *links) if not _is_sidecar(name, names)]
    yield from sorted(found)


def _is_sidecar(name: str, names: set[str]) -> bool:
    return any(name.endswith(ending) and name.removesuffix(ending) in names for ending in _SIDECARS)


def _not_readable(error: OSError) -> None:
    raise TransferFailed(f"{error.filename} cannot be read: {error.strerror}.", code="not_found") from error


def _found(path: Path, name: str, size: int) -> Found:
    return Found(path=name, address=path.as_uri(), size_bytes=size)
