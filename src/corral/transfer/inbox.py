"""Receives files into a folder, by key, piece by piece; without knowing which HTTP server it is behind.

    <root>/<key>                  files that are complete and right
    <root>/.inbox/<hash>.part     bytes that have arrived for a key; <hash>.json says of what
    <root>/.inbox/<hash>.sum      the sha256 of a complete file, with its size and time, so that it is computed once

Guarantee: a file appears under its key in one step, after it was verified and is on the disk; a key has one sender at a
time; an upload whose last response was lost is a success when it is repeated. No key leads out of the root.

probe      200 complete (X-Content-SHA256) or partial (X-Target-SHA256), with X-File-Size; 404; 400 for a folder
receive    200 complete; 308 so far good; 416 wrong offset; 409 other content than before; 400 wrong or short
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import Any

from corral.domain.errors import CorralError, InvalidRequest, NotAllowed, NotFound, TooLarge, Unavailable
from corral.runtime.disk import sync
from corral.transfer.chunks import check_sha256, compute_sha256
from corral.transfer.faults import translate_disk_full
from corral.transfer.files import PRIVATE_FILE, PRIVATE_FOLDER, run_in_thread, write_json

GIB = 1024**3
# No file system of ours takes a longer path.
KEY_CHARACTERS_MAX = 1024
# How long a second sender of a key waits for the first to end; a broken connection ends at once.
BUSY_S = 5.0
# Without a byte for this long an upload ends; the bytes that have arrived stay.
STALL_S = 60.0
# Bytes written at a time: large enough that the way into a thread and back costs little.
_WRITE_BYTES = 1024 * 1024
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_INBOX_FOLDER = ".inbox"

SIZE_HEADER = "X-File-Size"
CONTENT_HEADER = "X-Content-SHA256"
TARGET_HEADER = "X-Target-SHA256"
LOCAL_PATH_HEADER = "X-Local-Path"


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxUpload:
    """One PUT request with a model file, or a piece of one, for an inbox that receives uploads."""

    body: AsyncIterator[bytes]
    sha256: str = ""
    content_range: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxResponse:
    """Response of an inbox that receives uploads: status, headers and body, for any HTTP server."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    # None means no body.
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ContentRange:
    """The range of bytes that an upload carries, and the size of the whole."""

    start: int
    length: int
    total: int


def resolve_inside(root: Path, name: str) -> Path:
    """Return the path of a name below a folder that may have links in it; `NotAllowed` if it leads out.

    The last part of the path is no link when this returns, and everything before it really lies inside.
    """
    if not name or len(name) > KEY_CHARACTERS_MAX or any(ord(character) < 32 for character in name):
        raise InvalidRequest("This is not the name of a file.", code="bad_file_name")
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or PurePosixPath(name).is_absolute():
        raise make_outside_error(name)
    try:
        real_root = root.resolve()
        folder = real_root.joinpath(*parts[:-1]).resolve()
        path = folder / parts[-1]
        is_link = path.is_symlink()
    except (OSError, RuntimeError) as error:
        # A link that leads back to itself leads nowhere.
        raise make_outside_error(name) from error
    if is_link or real_root not in (folder, *folder.parents):
        raise make_outside_error(name)
    return path


def make_outside_error(name: str) -> NotAllowed:
    return NotAllowed(f"{name[:KEY_CHARACTERS_MAX]!r} leads out of its folder.", code="outside_folder")


class Inbox:
    """Receives uploads of model files piece by piece into a folder.

    Shows them only when they are complete and verified.
    """

    def __init__(self, root: Path, *, limit_bytes: int = 50 * GIB, shows_paths: bool = False) -> None:
        """`shows_paths`: say where a file lies on this machine, to those who may send it there."""
        self._root = root
        self._limit_bytes = limit_bytes
        self._shows_paths = shows_paths
        self._locks: dict[str, _KeyLock] = {}

    def find_file(self, key: str) -> Path:
        """Return the complete file under a key; `NotFound` if there is none."""
        path = self._locate(key).path
        if not path.is_file():
            raise NotFound(f"There is no file {key!r} here.", code="file_not_found")
        return path

    async def delete(self, key: str) -> bool:
        """Delete a file and the bytes that have arrived for it; return whether there was anything."""
        async with self._lock_key(key):
            file = self._locate(key)
            existed = file.path.is_file() or file.part_path.exists()
            if file.path.is_file():
                file.path.unlink()
            file.discard()
            file.sum_path.unlink(missing_ok=True)
            return existed

    async def collect_garbage(self, older_than: float, *, dry_run: bool = False) -> list[tuple[Path, int]]:
        """Remove parts that were not continued since `older_than`, in seconds since 1970, or only list them; return
        the paths and the bytes of each."""
        return await asyncio.to_thread(self._collect_garbage, older_than, dry_run=dry_run)

    def _collect_garbage(self, older_than: float, *, dry_run: bool) -> list[tuple[Path, int]]:
        old: list[tuple[Path, int]] = []
        for part in (self._root / _INBOX_FOLDER).glob("*.part"):
            with contextlib.suppress(FileNotFoundError):
                found = part.stat()
                if found.st_mtime < older_than:
                    old.append((part, found.st_size))
                    if not dry_run:
                        part.unlink()
                        part.with_suffix(".json").unlink(missing_ok=True)
        return old

    async def probe(self, key: str, expected_sha256: str = "") -> InboxResponse:
        """Return what is stored under a key. `expected_sha256` is the sender's: a part of it is reported before another
        whole."""
        file = self._locate(key)
        if file.path.is_dir():
            return _make_failure(HTTPStatus.BAD_REQUEST, "is_a_folder", f"{key!r} is a folder.")
        async with self._lock_key(key):
            await self._finish_if_full(file)
            note = file.read_note()
            found = await _get_sum(file)
        if note is not None and (found is None or (found != expected_sha256 and note["sha256"] == expected_sha256)):
            return InboxResponse(
                status=HTTPStatus.OK, headers={SIZE_HEADER: str(file.count_part_bytes()), TARGET_HEADER: note["sha256"]}
            )
        if found is None:
            return _make_failure(HTTPStatus.NOT_FOUND, "file_not_found", f"There is no file {key!r} here.")
        return self._make_complete_response(file, found)

    async def receive(self, key: str, upload: InboxUpload) -> InboxResponse:
        file = self._locate(key)
        if file.path.is_dir():
            return _make_failure(HTTPStatus.BAD_REQUEST, "is_a_folder", f"{key!r} is a folder.")
        sha256 = check_sha256(upload.sha256) if upload.sha256 else ""
        async with self._lock_key(key):
            file.make_folder()
            if not upload.content_range:
                return await self._receive_whole(file, upload, sha256)
            return await self._receive_piece(file, upload, sha256, _parse_range(upload.content_range))

    async def _receive_whole(self, file: _InboxFile, upload: InboxUpload, sha256: str) -> InboxResponse:
        file.discard()
        found = hashlib.sha256()
        try:
            await self._write(file, upload.body, 0, self._limit_bytes, found)
        except BaseException:
            # Without a note it is unknown what the rest of the part would have been.
            file.discard()
            raise
        return await self._finish(file, found.hexdigest(), sha256 or found.hexdigest())

    async def _receive_piece(
        self, file: _InboxFile, upload: InboxUpload, sha256: str, content_range: _ContentRange
    ) -> InboxResponse:
        if not sha256:
            raise InvalidRequest(f"A piece needs {CONTENT_HEADER} of the whole.", code="no_sha256")
        if content_range.total > self._limit_bytes:
            raise TooLarge(f"A file may have {self._limit_bytes} bytes here.")
        answer = await self._answer_early(file, sha256, content_range)
        if answer is not None:
            return answer
        have = await self._write(file, upload.body, content_range.start, content_range.length)
        if have < content_range.start + content_range.length:
            return _make_failure(
                HTTPStatus.BAD_REQUEST, "short_body", "The body ended too early.", {SIZE_HEADER: str(have)}
            )
        if have < content_range.total:
            return InboxResponse(
                status=HTTPStatus.PERMANENT_REDIRECT, headers={SIZE_HEADER: str(have), TARGET_HEADER: sha256}
            )
        return await self._finish(file, await _hash_file(file.part_path), sha256)

    async def _answer_early(self, file: _InboxFile, sha256: str, content_range: _ContentRange) -> InboxResponse | None:
        """Return the response that needs no look at the body; None if the body is to be appended."""
        if await _get_sum(file) == sha256:
            # The file is complete: a response was lost, or another sender has sent it.
            return self._make_complete_response(file, sha256)
        note = file.read_note()
        if note is not None and (note["sha256"], note["size"]) != (sha256, content_range.total):
            file.discard()
            if content_range.start:
                sentence = "The content is another than before; begin again."
                return _make_failure(HTTPStatus.CONFLICT, "content_changed", sentence)
            note = None
        have = file.count_part_bytes() if note else 0
        if note and have == content_range.total:
            return await self._finish(file, await _hash_file(file.part_path), sha256)
        if content_range.start != have:
            status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
            return _make_failure(status, "wrong_offset", f"{have} bytes are here.", {SIZE_HEADER: str(have)})
        if note is None:
            await asyncio.to_thread(file.begin, sha256, content_range.total)
        return None

    async def _write(
        self, file: _InboxFile, body: AsyncIterator[bytes], start: int, limit: int, hasher: Any = None
    ) -> int:
        """Append; return the size of the part now. A body that is too long is refused, and none of it stays."""
        descriptor = os.open(file.part_path, os.O_WRONLY | os.O_CREAT, PRIVATE_FILE)
        writer = _BufferedWriter(descriptor, start, hasher)
        try:
            async for piece in _iterate_timely(body):
                if writer.end + len(piece) > start + limit:
                    writer.discard()
                    raise TooLarge("The body is longer than it may be.")
                await writer.add(piece)
        finally:
            # Also keep what arrived before a broken connection.
            writer.flush()
            os.close(descriptor)
        return writer.end

    async def _finish_if_full(self, file: _InboxFile) -> None:
        """Complete a part that has all its bytes, and was left by a kill before it became a file."""
        note = file.read_note()
        if note is not None and file.count_part_bytes() == note["size"]:
            await self._finish(file, await _hash_file(file.part_path), note["sha256"])

    async def _finish(self, file: _InboxFile, actual_sha256: str, expected_sha256: str) -> InboxResponse:
        if actual_sha256 != expected_sha256:
            file.discard()
            return _make_failure(
                HTTPStatus.BAD_REQUEST, "digest_mismatch", "The received bytes do not match the promised sha256."
            )
        await asyncio.to_thread(file.publish, actual_sha256)
        return self._make_complete_response(file, actual_sha256)

    def _make_complete_response(self, file: _InboxFile, sha256: str) -> InboxResponse:
        headers = {SIZE_HEADER: str(file.path.stat().st_size), CONTENT_HEADER: sha256, "Accept-Ranges": "bytes"}
        body: dict[str, Any] = {"sha256": sha256}
        if self._shows_paths:
            # A header takes no other characters.
            headers[LOCAL_PATH_HEADER] = str(file.path).encode("ascii", "backslashreplace").decode()
            body["local_path"] = str(file.path)
        return InboxResponse(status=HTTPStatus.OK, headers=headers, body=body)

    def _locate(self, key: str) -> _InboxFile:
        path = resolve_inside(self._root, key)
        own = self._root.resolve() / _INBOX_FOLDER
        if own in (path, *path.parents):
            raise make_outside_error(key)
        nearest = next(folder for folder in path.parents if folder.exists())
        if not nearest.is_dir():
            raise InvalidRequest(f"A part of {key!r} is a file.", code="is_a_file")
        return _InboxFile(path=path, own=own, name=hashlib.sha256(key.encode()).hexdigest())

    @contextlib.asynccontextmanager
    async def _lock_key(self, key: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, _KeyLock())
        lock.users += 1
        try:
            try:
                async with asyncio.timeout(BUSY_S):
                    await lock.lock.acquire()
            except TimeoutError as error:
                raise Unavailable("Another sender is sending this file.", code="upload_busy") from error
            try:
                yield
            finally:
                lock.lock.release()
        finally:
            lock.users -= 1
            if not lock.users:
                self._locks.pop(key, None)


@dataclass(slots=True)
class _KeyLock:
    """Holds the lock of one key, and how many wait for it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _InboxFile:
    """Names the files of one key, and reads and writes what is noted about them."""

    path: Path
    own: Path
    name: str

    @property
    def part_path(self) -> Path:
        return self.own / f"{self.name}.part"

    @property
    def sum_path(self) -> Path:
        return self.own / f"{self.name}.sum"

    @property
    def note_path(self) -> Path:
        return self.own / f"{self.name}.json"

    def make_folder(self) -> None:
        self.own.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)

    def read_note(self) -> dict[str, Any] | None:
        """Return the note that says what the part is of; without a note there is no part worth keeping."""
        note = _read_json(self.note_path)
        if not isinstance(note.get("sha256"), str) or not isinstance(note.get("size"), int):
            return None
        return note

    def count_part_bytes(self) -> int:
        try:
            return self.part_path.stat().st_size
        except OSError:
            return 0

    def begin(self, sha256: str, size_bytes: int) -> None:
        self.part_path.unlink(missing_ok=True)
        write_json(self.note_path, {"sha256": sha256, "size": size_bytes})

    def discard(self) -> None:
        self.part_path.unlink(missing_ok=True)
        self.note_path.unlink(missing_ok=True)

    def publish(self, sha256: str) -> None:
        """Turn the part into the file: flushed to the disk first, then renamed."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        descriptor = os.open(self.part_path, os.O_RDONLY | os.O_CREAT, PRIVATE_FILE)
        try:
            with translate_disk_full("a file was received"):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.part_path.replace(self.path)
        sync(self.path.parent)
        self.write_sum(sha256)
        self.note_path.unlink(missing_ok=True)

    def write_sum(self, sha256: str) -> None:
        self.make_folder()
        found = self.path.stat()
        write_json(self.sum_path, {"sha256": sha256, "size": found.st_size, "mtime_ns": found.st_mtime_ns})

    def read_sum(self) -> str | None:
        note, found = _read_json(self.sum_path), self.path.stat()
        if (note.get("size"), note.get("mtime_ns")) != (found.st_size, found.st_mtime_ns):
            return None
        return str(note.get("sha256"))


class _BufferedWriter:
    """Gathers pieces of an upload and writes them in larger ones."""

    def __init__(self, descriptor: int, start: int, hasher: Any) -> None:
        self._descriptor = descriptor
        self._start = self._written = start
        self._hasher = hasher
        self._pending = bytearray()

    @property
    def end(self) -> int:
        return self._written + len(self._pending)

    async def add(self, piece: bytes) -> None:
        self._pending += piece
        if len(self._pending) >= _WRITE_BYTES:
            await run_in_thread(lambda _stop: self.flush())

    def discard(self) -> None:
        """Drop the gathered bytes, as if nothing had arrived."""
        self._pending.clear()
        os.ftruncate(self._descriptor, self._start)

    def flush(self) -> None:
        if not self._pending:
            return
        data = bytes(self._pending)
        with translate_disk_full("a file was received"):
            written = 0
            while written < len(data):
                written += os.pwrite(self._descriptor, data[written:], self._written + written)
        if self._hasher is not None:
            self._hasher.update(data)
        self._written += len(data)
        self._pending.clear()


async def _iterate_timely(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    while True:
        try:
            async with asyncio.timeout(STALL_S):
                piece = await anext(body)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            raise Unavailable("No data arrived for too long.", code="upload_stalled") from error
        yield piece


async def _get_sum(file: _InboxFile) -> str | None:
    """Return the sha256 of the complete file; None if there is none."""
    if not file.path.is_file():
        return None
    known = file.read_sum()
    if known is None:
        known = await _hash_file(file.path)
        with contextlib.suppress(OSError):
            await asyncio.to_thread(file.write_sum, known)
    return known


async def _hash_file(path: Path) -> str:
    return await run_in_thread(lambda stop: compute_sha256(path, stop))


def parse_total_bytes(content_range: str) -> int:
    """Return how many bytes the whole file of an upload has. Raises `InvalidRequest` if the header does not say."""
    return _parse_range(content_range).total


def _parse_range(text: str) -> _ContentRange:
    found = _RANGE.fullmatch(text.strip())
    if found is not None:
        start, last, total = (int(number) for number in found.groups())
        if start <= last < total:
            return _ContentRange(start=start, length=last - start + 1, total=total)
    raise InvalidRequest("The Content-Range header is invalid.", hint="Write bytes first-last/total.", code="bad_range")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _make_failure(status: int, code: str, sentence: str, headers: Mapping[str, str] | None = None) -> InboxResponse:
    return InboxResponse(status=status, headers=headers or {}, body={"error": {"code": code, "message": sentence}})


def make_failure_response(error: CorralError) -> InboxResponse:
    """Render one of our errors, for servers that have no rendering of their own."""
    headers = {"Retry-After": "1"} if error.retryable else {}
    return _make_failure(error.status, error.slug, error.message, headers)
