"""The folder of a library.

    blobs/ab/<sha256>     contents that are complete and right
    blobs/ab/<sha256>.json  the size and time that a content had when it was last hashed
    incoming/<name>/      what is being fetched: bytes that survive a crash, and are gone on with
    uploads/              what admins are sending

Guarantee: a file appears under its sha256 in one step, after it was hashed and is on the disk. Nothing is changed
afterwards. Everything here is slow work for a thread, except `path`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corral.domain.errors import InvalidRequest, Unavailable, Unprocessable
from corral.domain.model import Blob
from corral.runtime.disk import sync
from corral.transfer.chunks import ChunkHasher, check_sha256
from corral.transfer.faults import told_when_full
from corral.transfer.files import PRIVATE_FILE, PRIVATE_FOLDER, write_json
from corral.transfer.threads import Stop

READ_BYTES = 1024 * 1024
# What nobody has gone on with for so long is thrown away.
INCOMING_LIFE_S = 7 * 86400.0
_JOINED = "joined.new"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnShelf:
    sha256: str
    size_bytes: int
    # When it came here, in seconds since 1970.
    changed_s: float


def disk_free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


class Shelf:
    def __init__(
        self, folder: Path, *, free_bytes: Callable[[Path], int] = disk_free, is_open_to_workers: bool = False
    ) -> None:
        """`is_open_to_workers`: workers of this machine, or of one that mounts the folder, read it themselves."""
        self._folder = folder
        self._free_bytes = free_bytes
        self._folder_mode = 0o755 if is_open_to_workers else PRIVATE_FOLDER
        self._file_mode = 0o644 if is_open_to_workers else PRIVATE_FILE
        self._noted: dict[str, tuple[int, int] | None] = {}

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def uploads(self) -> Path:
        return self._folder / "uploads"

    @property
    def _blobs(self) -> Path:
        return self._folder / "blobs"

    @property
    def _incoming(self) -> Path:
        return self._folder / "incoming"

    def path(self, sha256: str) -> Path | None:
        """The file of a content; None if it is not here."""
        path = self._place(sha256)
        return path if path.is_file() else None

    def incoming(self, name: str) -> Path:
        """A folder for what is being fetched under this name."""
        folder = self._incoming / name
        self._make(folder)
        return folder

    def prepare(self) -> None:
        """Make the folders; `Unavailable` (library_unusable) if that is not possible."""
        try:
            for folder in (self._folder, self._blobs, self._incoming, self.uploads):
                self._make(folder)
        except OSError as error:
            raise Unavailable(
                f"The library's folder {self._folder} cannot be used: {error.strerror}.",
                hint="Set library_dir to a folder that this user may write to.",
                code="library_unusable",
            ) from error

    def free_bytes(self) -> int:
        return self._free_bytes(self._folder)

    def arrived_bytes(self, name: str) -> int:
        """What has come for this name so far."""
        folder = self._incoming / name
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0

    def take(
        self,
        sources: Sequence[Path],
        name: str,
        wanted: str,
        stop: Stop,
        moved: Callable[[int], None] = lambda _: None,
    ) -> Blob:
        """Make one content of these files, joined in order, in one pass over their bytes.

        A single one that was fetched or sent is moved; others are copied and stay as they are. With another
        sha256 than `wanted` (empty: any) it is `Unprocessable` (digest_mismatch), and nothing of `name` is left.
        """
        folder = self.incoming(name)
        only = sources[0] if len(sources) == 1 and {folder, self.uploads} & set(sources[0].parents) else None
        target = None if only else folder / _JOINED
        with told_when_full("a model's file was put into the library"):
            blob = _pass_over(sources, target, stop, moved)
            if wanted and blob.sha256 != wanted:
                self.forget_incoming(name)
                raise Unprocessable(
                    f"The file has the sha256 {blob.sha256}, and {wanted} was promised.",
                    hint="Either the source has changed, or the promise is wrong.",
                    code="digest_mismatch",
                )
            self._keep(only or folder / _JOINED, blob.sha256)
        self.forget_incoming(name)
        return blob

    def hash(self, sha256: str, stop: Stop) -> Blob | None:
        """What lies under this sha256, looked at anew; if it is something else it is thrown away."""
        path = self.path(sha256)
        if path is None:
            return None
        blob = _pass_over([path], None, stop, lambda _: None)
        if blob.sha256 == sha256:
            self.note(sha256)
            return blob
        self.remove(sha256)
        return None

    def verify(self, blob: Blob, stop: Stop) -> bool:
        """Hash the copy of a content as it lies here. A wrong one is thrown away."""
        path = self._place(blob.sha256)
        try:
            is_right = path.stat().st_size == blob.size_bytes and self.hash(blob.sha256, stop) is not None
        except FileNotFoundError:
            return False
        if not is_right:
            self.remove(blob.sha256)
        return is_right

    def is_as_noted(self, sha256: str, size_bytes: int) -> bool:
        """Whether a content lies here with the size and time of its note."""
        found = self._stamp(sha256)
        if found is None or found[0] != size_bytes:
            return False
        if self._noted.get(sha256) != found:
            # Another frontend may have written the note of a shared folder.
            self._noted[sha256] = self._read_note(sha256)
        return self._noted[sha256] == found

    def has_note(self, sha256: str) -> bool:
        return self._note(sha256).exists()

    def note(self, sha256: str) -> None:
        """Write down the size and time of a content that is right."""
        found = self._stamp(sha256)
        if found is not None:
            self._noted[sha256] = found
            path = self._note(sha256)
            write_json(path, {"size": found[0], "mtime_ns": found[1]})
            path.chmod(self._file_mode)

    def remove(self, sha256: str) -> int:
        """How many bytes that gave back."""
        path = self._place(sha256)
        self._noted.pop(sha256, None)
        self._note(sha256).unlink(missing_ok=True)
        try:
            size = path.stat().st_size
            path.unlink()
        except FileNotFoundError:
            return 0
        with contextlib.suppress(OSError):
            path.parent.rmdir()
        return size

    def forget_incoming(self, name: str) -> None:
        shutil.rmtree(self._incoming / name, ignore_errors=True)

    def contents(self) -> Iterator[OnShelf]:
        """Everything that is here, by name and size; what has no sha256 for a name is passed over."""
        for entry in sorted(self._blobs.glob("??/*")):
            with contextlib.suppress(InvalidRequest, OSError):
                sha256, found = check_sha256(entry.name), entry.stat()
                yield OnShelf(sha256=sha256, size_bytes=found.st_size, changed_s=found.st_ctime)

    def tidy(self, now_s: float) -> int:
        """Throw away what was being fetched and nobody went on with; how many of those there were."""
        gone = 0
        for folder in self._incoming.iterdir():
            (folder / _JOINED).unlink(missing_ok=True)
            if now_s - _last_change(folder) > INCOMING_LIFE_S:
                shutil.rmtree(folder, ignore_errors=True)
                gone += 1
        return gone

    def _keep(self, path: Path, sha256: str) -> None:
        target = self._place(sha256)
        self._make(target.parent)
        path.chmod(self._file_mode)
        sync(path)
        path.replace(target)
        sync(target.parent)
        self.note(sha256)

    def _stamp(self, sha256: str) -> tuple[int, int] | None:
        try:
            found = self._place(sha256).stat()
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns

    def _read_note(self, sha256: str) -> tuple[int, int] | None:
        try:
            note = json.loads(self._note(sha256).read_text(encoding="utf-8"))
            return int(note["size"]), int(note["mtime_ns"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _note(self, sha256: str) -> Path:
        place = self._place(sha256)
        return place.with_name(f"{place.name}.json")

    def _place(self, sha256: str) -> Path:
        name = check_sha256(sha256)
        return self._blobs / name[:2] / name

    def _make(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=self._folder_mode)


def _pass_over(sources: Sequence[Path], target: Path | None, stop: Stop, moved: Callable[[int], None]) -> Blob:
    hasher = ChunkHasher()
    buffer = bytearray(READ_BYTES)
    view = memoryview(buffer)
    with contextlib.ExitStack() as opened:
        copy = opened.enter_context(target.open("wb", buffering=0)) if target else None
        for source in sources:
            with source.open("rb", buffering=0) as file:
                while count := file.readinto(buffer):
                    stop.check()
                    hasher.update(view[:count])
                    if copy is not None:
                        _write_all(copy.fileno(), view[:count])
                    moved(hasher.size_bytes)
    return hasher.finish()


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _last_change(folder: Path) -> float:
    times = [folder.stat().st_mtime]
    times += [path.stat().st_mtime for path in folder.rglob("*") if path.is_file()]
    return max(times)
