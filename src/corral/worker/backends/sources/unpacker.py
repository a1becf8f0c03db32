"""Unpacks archives without trusting them.

Guarantee: nothing is written outside the folder, whatever names and links the archive has; no devices and pipes, no
set-id bits; bounded in bytes and files. Layers of an image may delete what layers below have brought, nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import IO

from corral.transfer.faults import translate_disk_full
from corral.transfer.files import PRIVATE_FOLDER, StopFlag
from corral.worker.backends.layout import InstallFailed, delete_tree, iterate_tree
from corral.worker.backends.sources.staging_source import InstallerOptions

_CHUNK = 1024 * 1024
# The longest path that a system accepts; a link's target is read before its size is known to be honest.
LINK_BYTES_MAX = 4096
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_MODE = 0o755
_DAMAGE_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    gzip.BadGzipFile,
    UnicodeError,
    # zipfile raises these for encrypted files and for a compression that it does not know.
    RuntimeError,
)

# Errors of the system for names and links that make no sense; every other error is the disk's fault.
_BAD_NAME_ERRNOS = frozenset(
    {errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EEXIST}
)


class ArchiveKind(Enum):
    """Kinds of archives that a worker unpacks, recognised by the first bytes of a file."""

    TAR = "tar"
    ZIP = "zip"
    ZSTD = "zstd"


def detect_archive_kind(path: Path) -> ArchiveKind | None:
    """Return the kind of archive by the first bytes of the file; names and content types that servers give are
    ignored."""
    with path.open("rb") as file:
        head = file.read(512)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return ArchiveKind.ZIP
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return ArchiveKind.ZSTD
    if head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")) or head[257:262] == b"ustar":
        return ArchiveKind.TAR
    return None


class ArchiveUnpacker:
    """Unpacks untrusted archives of an engine backend into one folder, within limits.

    One after the other. Runs in a thread.
    """

    def __init__(self, folder: Path, options: InstallerOptions, stop: StopFlag) -> None:
        self._folder = folder.resolve()
        self._bytes_left = options.unpacked_bytes_max
        self._files_left = options.unpacked_files_max
        self._stop = stop
        # Paths that the present layer has written.
        self._created_paths: set[Path] = set()

    def unpack_archive(self, path: Path, what: str) -> None:
        kind = detect_archive_kind(path)
        if kind is ArchiveKind.ZIP:
            self.unpack_zip(path, what)
        elif kind is ArchiveKind.TAR:
            self.unpack_tar(path, what)
        elif kind is ArchiveKind.ZSTD:
            raise InstallFailed(
                f"{what} is compressed with zstd, which this worker cannot read.",
                hint="Publish it with gzip.",
                code="unsupported",
            )
        else:
            raise InstallFailed(f"{what} is neither a tar nor a zip archive.", code="bad_package")

    def unpack_tar(self, path: Path, what: str, *, is_layer: bool = False) -> None:
        self._created_paths = set()
        with _translate_damage(what), tarfile.open(path) as archive:
            for member in archive:
                self._stop.raise_if_set()
                self._unpack_member(archive, member, is_layer=is_layer)

    def unpack_zip(self, path: Path, what: str) -> None:
        self._created_paths = set()
        with _translate_damage(what), zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                self._stop.raise_if_set()
                mode = info.external_attr >> 16
                place = self._resolve_path(info.filename)
                if place is None:
                    continue
                if info.is_dir():
                    self._make_folder(place)
                elif stat.S_ISLNK(mode):
                    with archive.open(info) as content:
                        target = content.read(LINK_BYTES_MAX + 1)
                    if len(target) > LINK_BYTES_MAX:
                        raise InstallFailed(f"The link {info.filename} in the package is too long.", code="bad_package")
                    self._make_link(place, target.decode())
                else:
                    with archive.open(info) as content:
                        self._make_file(place, content, mode or 0o644)

    def add_file(self, source: Path, name: str) -> None:
        """Copy one file that is not an archive into the folder."""
        place = self._resolve_path(name)
        if place is None:
            raise InstallFailed(f"{name!r} is not the name of a file.", code="bad_package")
        with source.open("rb") as content:
            self._make_file(place, content, 0o755)

    def check_links(self) -> None:
        """Refuse links that were harmless when they were made and lead out of the folder now."""
        for path in iterate_tree(self._folder):
            if path.is_symlink() and not self._is_inside(path):
                name = path.relative_to(self._folder)
                raise InstallFailed(f"The link {name} in the package leads out of its folder.", code="bad_package")

    def _unpack_member(self, archive: tarfile.TarFile, member: tarfile.TarInfo, *, is_layer: bool) -> None:
        place = self._resolve_path(member.name)
        if place is None:
            return
        if is_layer and place.name.startswith(_WHITEOUT):
            self._apply_whiteout(place)
        elif member.isdir():
            self._make_folder(place)
        elif member.issym():
            self._make_link(place, member.linkname)
        elif member.islnk():
            self._make_hard_link(place, member.linkname)
        elif member.isreg():
            content = archive.extractfile(member)
            assert content is not None, "a regular file has content"
            with content:
                self._make_file(place, content, member.mode)
        else:
            raise InstallFailed(f"{member.name!r} in the package is a device or a pipe.", code="bad_package")

    def _resolve_path(self, name: str) -> Path | None:
        """Return where a member goes and make its parent folders; None for the folder itself."""
        parts = PurePosixPath(name).parts
        if "\0" in name or name.startswith("/") or ".." in parts:
            raise InstallFailed(f"{name!r} in the package leads out of its folder.", code="bad_package")
        if not parts:
            return None
        self._files_left -= 1
        if self._files_left < 0:
            raise InstallFailed("The package has too many files.", code="bad_package")
        place = self._folder.joinpath(*parts)
        if not self._is_inside(place.parent):
            raise InstallFailed(f"{name!r} in the package leads out of its folder.", code="bad_package")
        if not place.parent.is_dir():
            self._make_parents(place.parent)
        return place

    def _make_parents(self, folder: Path) -> None:
        for parent in (*reversed(folder.parents), folder):
            if parent != self._folder and parent.is_relative_to(self._folder) and not parent.is_dir():
                self._make_folder(parent)

    def _is_inside(self, path: Path) -> bool:
        """Return whether a path lies inside the folder, following links as far as they lead, also dangling ones."""
        return Path(os.path.realpath(path)).is_relative_to(self._folder)

    def _make_folder(self, place: Path) -> None:
        if place.is_symlink() or not place.is_dir():
            delete_tree(place)
            place.mkdir(mode=PRIVATE_FOLDER)
        self._created_paths.add(place)

    def _make_link(self, place: Path, target: str) -> None:
        if target.startswith("/") or not self._is_inside(place.parent / target):
            name = place.relative_to(self._folder)
            raise InstallFailed(f"The link {name} in the package leads out of its folder.", code="bad_package")
        delete_tree(place)
        place.symlink_to(target)
        self._created_paths.add(place)

    def _make_hard_link(self, place: Path, target: str) -> None:
        first = self._resolve_path(target)
        if first is None or first.is_symlink() or not first.is_file():
            raise InstallFailed(f"{target!r} is linked to in the package and is not there.", code="bad_package")
        delete_tree(place)
        place.hardlink_to(first)
        self._created_paths.add(place)

    def _make_file(self, place: Path, content: IO[bytes], mode: int) -> None:
        delete_tree(place)
        final_mode = (mode & _MODE) | 0o600
        with translate_disk_full("the package was unpacked"):
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                while chunk := content.read(_CHUNK):
                    self._stop.raise_if_set()
                    self._bytes_left -= len(chunk)
                    if self._bytes_left < 0:
                        raise InstallFailed("The package is too large when it is unpacked.", code="bad_package")
                    file.write(chunk)
            place.chmod(final_mode)
        self._created_paths.add(place)

    def _apply_whiteout(self, place: Path) -> None:
        """Delete what lower layers have written there, and nothing that the present layer has."""
        if place.name == _OPAQUE:
            for path in list(place.parent.iterdir()):
                if not any(made.is_relative_to(path) for made in self._created_paths):
                    delete_tree(path)
            return
        name = place.name.removeprefix(_WHITEOUT)
        if name and "/" not in name and name not in (".", ".."):
            delete_tree(place.parent / name)


@contextlib.contextmanager
def _translate_damage(what: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE_ERRORS as error:
        raise InstallFailed(f"{what} is damaged: {error}.", code="bad_package") from error
    except OSError as error:
        if error.errno not in _BAD_NAME_ERRNOS:
            raise
        raise InstallFailed(f"{what} has a name that cannot be: {error.strerror}.", code="bad_package") from error
