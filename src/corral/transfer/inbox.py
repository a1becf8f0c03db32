"""A folder that others put files into, by key, piece by piece; without knowing which HTTP server it is behind.

    <root>/<key>                  files that are complete and right
    <root>/.inbox/<hash>.part     bytes that have arrived for a key; <hash>.json says of what
    <root>/.inbox/<hash>.sum      the sha256 of a complete file, with its size and time, so that it is computed once

Guarantee: a file appears under its key in one step, after it was verified and is on the disk; a key has one sender at a
time; an upload whose last answer was lost is a success when it is asked for again. No key leads out of the root.

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
from corral.transfer.chunks import check_sha256, sha256_of
from corral.transfer.faults import told_when_full
from corral.transfer.files import PRIVATE_FILE, PRIVATE_FOLDER, write_json
from corral.transfer.threads import in_thread

GIB = 1024**3
# No file system of ours takes a longer path.
KEY_CHARACTERS_MAX = 1024
# How long a second sender of a key waits for the first to end; a broken connection ends at once.
BUSY_S = 5.0
# No byte for this long ends an upload; what has arrived stays.
STALL_S = 60.0
# Written at a time: large enough that the way into a thread and back costs little.
_WRITE_BYTES = 1024 * 1024
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_OWN = ".inbox"

SIZE = "X-File-Size"
CONTENT = "X-Content-SHA256"
TARGET = "X-Target-SHA256"
LOCAL_PATH = "X-Local-Path"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """One PUT. `content_range` is the header, or empty for a body that is all of it."""

    body: AsyncIterator[bytes]
    sha256: str = ""
    content_range: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    # Absent: no body.
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    start: int
    length: int
    total: int


def inside(root: Path, name: str) -> Path:
    """The path of a name below a folder that may have links in it; `NotAllowed` if it leads out.

    The last part of it is no link when this returns, and everything before it lies really inside.
    """
    if not name or len(name) > KEY_CHARACTERS_MAX or any(ord(character) < 32 for character in name):
        raise InvalidRequest("This is not the name of a file.", code="bad_file_name")
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or PurePosixPath(name).is_absolute():
        raise outside(name)
    try:
        real_root = root.resolve()
        folder = real_root.joinpath(*parts[:-1]).resolve()
        path = folder / parts[-1]
        is_link = path.is_symlink()
    except (OSError, RuntimeError) as error:
        # A link that leads back to itself leads nowhere.
        raise outside(name) from error
    if is_link or real_root not in (folder, *folder.parents):
        raise outside(name)
    return path


def outside(name: str) -> NotAllowed:
    return NotAllowed(f"{name[:KEY_CHARACTERS_MAX]!r} leads out of its folder.", code="outside_folder")


class Inbox:
    def __init__(self, root: Path, *, limit_bytes: int = 50 * GIB, shows_paths: bool = False) -> None:
        """`shows_paths`: tell where a file lies on this machine, to those who may send it there."""
        self._root = root
        self._limit_bytes = limit_bytes
        self._shows_paths = shows_paths
        self._locks: dict[str, _Lock] = {}

    def path(self, key: str) -> Path:
        """The complete file under a key; `NotFound` if there is none."""
        path = self._place(key).path
        if not path.is_file():
            raise NotFound(f"There is no file {key!r} here.", code="file_not_found")
        return path

    async def delete(self, key: str) -> bool:
        """The file and what has arrived for it; whether there was anything."""
        async with self._held(key):
            place = self._place(key)
            there = place.path.is_file() or place.part.exists()
            if place.path.is_file():
                place.path.unlink()
            place.discard()
            place.sum.unlink(missing_ok=True)
            return there

    async def collect(self, older_than: float, *, dry_run: bool = False) -> list[tuple[Path, int]]:
        """Throw away what nobody has gone on with since that moment, in seconds since 1970, or only look; what that
        is, and how many bytes each takes."""
        return await asyncio.to_thread(self._collect, older_than, dry_run=dry_run)

    def _collect(self, older_than: float, *, dry_run: bool) -> list[tuple[Path, int]]:
        old: list[tuple[Path, int]] = []
        for part in (self._root / _OWN).glob("*.part"):
            with contextlib.suppress(FileNotFoundError):
                found = part.stat()
                if found.st_mtime < older_than:
                    old.append((part, found.st_size))
                    if not dry_run:
                        part.unlink()
                        part.with_suffix(".json").unlink(missing_ok=True)
        return old

    async def probe(self, key: str, wanted: str = "") -> Answer:
        """What is there. `wanted` is the sha256 that the asker has: a part of it is told before another whole."""
        place = self._place(key)
        if place.path.is_dir():
            return _failed(HTTPStatus.BAD_REQUEST, "is_a_folder", f"{key!r} is a folder.")
        async with self._held(key):
            await self._finish_if_full(place)
            note = place.note()
            found = await _sum_of(place)
        if note is not None and (found is None or (found != wanted and note["sha256"] == wanted)):
            return Answer(status=HTTPStatus.OK, headers={SIZE: str(place.part_bytes()), TARGET: note["sha256"]})
        if found is None:
            return _failed(HTTPStatus.NOT_FOUND, "file_not_found", f"There is no file {key!r} here.")
        return self._complete(place, found)

    async def receive(self, key: str, upload: Upload) -> Answer:
        place = self._place(key)
        if place.path.is_dir():
            return _failed(HTTPStatus.BAD_REQUEST, "is_a_folder", f"{key!r} is a folder.")
        sha256 = check_sha256(upload.sha256) if upload.sha256 else ""
        async with self._held(key):
            place.make()
            if not upload.content_range:
                return await self._take_all(place, upload, sha256)
            return await self._take_piece(place, upload, sha256, _read_range(upload.content_range))

    async def _take_all(self, place: _Place, upload: Upload, sha256: str) -> Answer:
        place.discard()
        found = hashlib.sha256()
        try:
            await self._write(place, upload.body, 0, self._limit_bytes, found)
        except BaseException:
            # Nobody knows what the rest of it would have been.
            place.discard()
            raise
        return await self._finish(place, found.hexdigest(), sha256 or found.hexdigest())

    async def _take_piece(self, place: _Place, upload: Upload, sha256: str, wanted: _Range) -> Answer:
        if not sha256:
            raise InvalidRequest(f"A piece needs {CONTENT} of the whole.", code="no_sha256")
        if wanted.total > self._limit_bytes:
            raise TooLarge(f"A file may have {self._limit_bytes} bytes here.")
        answer = await self._before(place, sha256, wanted)
        if answer is not None:
            return answer
        have = await self._write(place, upload.body, wanted.start, wanted.length)
        if have < wanted.start + wanted.length:
            return _failed(HTTPStatus.BAD_REQUEST, "short_body", "The body ended too early.", {SIZE: str(have)})
        if have < wanted.total:
            return Answer(status=HTTPStatus.PERMANENT_REDIRECT, headers={SIZE: str(have), TARGET: sha256})
        return await self._finish(place, await _hashed(place.part), sha256)

    async def _before(self, place: _Place, sha256: str, wanted: _Range) -> Answer | None:
        """What is to be said without looking at the body; None: it is to be appended."""
        if await _sum_of(place) == sha256:
            # All of it is here: an answer was lost, or somebody else has sent it.
            return self._complete(place, sha256)
        note = place.note()
        if note is not None and (note["sha256"], note["size"]) != (sha256, wanted.total):
            place.discard()
            if wanted.start:
                sentence = "The content is another than before; begin again."
                return _failed(HTTPStatus.CONFLICT, "content_changed", sentence)
            note = None
        have = place.part_bytes() if note else 0
        if note and have == wanted.total:
            return await self._finish(place, await _hashed(place.part), sha256)
        if wanted.start != have:
            status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
            return _failed(status, "wrong_offset", f"{have} bytes are here.", {SIZE: str(have)})
        if note is None:
            await asyncio.to_thread(place.begin, sha256, wanted.total)
        return None

    async def _write(
        self, place: _Place, body: AsyncIterator[bytes], start: int, limit: int, hasher: Any = None
    ) -> int:
        """Append; how large the part is now. A body that is too long is refused, and none of it stays."""
        descriptor = os.open(place.part, os.O_WRONLY | os.O_CREAT, PRIVATE_FILE)
        writer = _Writer(descriptor, start, hasher)
        try:
            async for piece in _timely(body):
                if writer.end + len(piece) > start + limit:
                    writer.drop()
                    raise TooLarge("The body is longer than it may be.")
                await writer.add(piece)
        finally:
            # Also what came before a broken connection.
            writer.flush()
            os.close(descriptor)
        return writer.end

    async def _finish_if_full(self, place: _Place) -> None:
        """A part that has all its bytes, and was left by a kill before it was made a file."""
        note = place.note()
        if note is not None and place.part_bytes() == note["size"]:
            await self._finish(place, await _hashed(place.part), note["sha256"])

    async def _finish(self, place: _Place, found: str, wanted: str) -> Answer:
        if found != wanted:
            place.discard()
            return _failed(HTTPStatus.BAD_REQUEST, "digest_mismatch", "What has arrived is not what was promised.")
        await asyncio.to_thread(place.publish, found)
        return self._complete(place, found)

    def _complete(self, place: _Place, sha256: str) -> Answer:
        headers = {SIZE: str(place.path.stat().st_size), CONTENT: sha256, "Accept-Ranges": "bytes"}
        body: dict[str, Any] = {"sha256": sha256}
        if self._shows_paths:
            # A header takes no other characters.
            headers[LOCAL_PATH] = str(place.path).encode("ascii", "backslashreplace").decode()
            body["local_path"] = str(place.path)
        return Answer(status=HTTPStatus.OK, headers=headers, body=body)

    def _place(self, key: str) -> _Place:
        path = inside(self._root, key)
        own = self._root.resolve() / _OWN
        if own in (path, *path.parents):
            raise outside(key)
        there = next(folder for folder in path.parents if folder.exists())
        if not there.is_dir():
            raise InvalidRequest(f"A part of {key!r} is a file.", code="is_a_file")
        return _Place(path=path, own=own, name=hashlib.sha256(key.encode()).hexdigest())

    @contextlib.asynccontextmanager
    async def _held(self, key: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, _Lock())
        lock.users += 1
        try:
            try:
                async with asyncio.timeout(BUSY_S):
                    await lock.lock.acquire()
            except TimeoutError as error:
                raise Unavailable("Somebody else is sending this file.", code="upload_busy") from error
            try:
                yield
            finally:
                lock.lock.release()
        finally:
            lock.users -= 1
            if not lock.users:
                self._locks.pop(key, None)


@dataclass(slots=True)
class _Lock:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The files of one key."""

    path: Path
    own: Path
    name: str

    @property
    def part(self) -> Path:
        return self.own / f"{self.name}.part"

    @property
    def sum(self) -> Path:
        return self.own / f"{self.name}.sum"

    @property
    def _note(self) -> Path:
        return self.own / f"{self.name}.json"

    def make(self) -> None:
        self.own.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)

    def note(self) -> dict[str, Any] | None:
        """What the part is of; without a note there is no part worth keeping."""
        note = _read_json(self._note)
        if not isinstance(note.get("sha256"), str) or not isinstance(note.get("size"), int):
            return None
        return note

    def part_bytes(self) -> int:
        try:
            return self.part.stat().st_size
        except OSError:
            return 0

    def begin(self, sha256: str, size_bytes: int) -> None:
        self.part.unlink(missing_ok=True)
        write_json(self._note, {"sha256": sha256, "size": size_bytes})

    def discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def publish(self, sha256: str) -> None:
        """The part becomes the file: on the disk first, then under its name."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        descriptor = os.open(self.part, os.O_RDONLY | os.O_CREAT, PRIVATE_FILE)
        try:
            with told_when_full("a file was received"):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.part.replace(self.path)
        sync(self.path.parent)
        self.note_sum(sha256)
        self._note.unlink(missing_ok=True)

    def note_sum(self, sha256: str) -> None:
        self.make()
        found = self.path.stat()
        write_json(self.sum, {"sha256": sha256, "size": found.st_size, "mtime_ns": found.st_mtime_ns})

    def known_sum(self) -> str | None:
        note, found = _read_json(self.sum), self.path.stat()
        if (note.get("size"), note.get("mtime_ns")) != (found.st_size, found.st_mtime_ns):
            return None
        return str(note.get("sha256"))


class _Writer:
    """Gathers pieces, so that a thread is worth its while."""

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
            await in_thread(lambda _stop: self.flush())

    def drop(self) -> None:
        """As if nothing had come."""
        self._pending.clear()
        os.ftruncate(self._descriptor, self._start)

    def flush(self) -> None:
        if not self._pending:
            return
        data = bytes(self._pending)
        with told_when_full("a file was received"):
            written = 0
            while written < len(data):
                written += os.pwrite(self._descriptor, data[written:], self._written + written)
        if self._hasher is not None:
            self._hasher.update(data)
        self._written += len(data)
        self._pending.clear()


async def _timely(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    while True:
        try:
            async with asyncio.timeout(STALL_S):
                piece = await anext(body)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            raise Unavailable("Nothing more has come for too long.", code="upload_stalled") from error
        yield piece


async def _sum_of(place: _Place) -> str | None:
    """The sha256 of the complete file; None if there is none."""
    if not place.path.is_file():
        return None
    known = place.known_sum()
    if known is None:
        known = await _hashed(place.path)
        with contextlib.suppress(OSError):
            await asyncio.to_thread(place.note_sum, known)
    return known


async def _hashed(path: Path) -> str:
    return await in_thread(lambda stop: sha256_of(path, stop))


def _read_range(text: str) -> _Range:
    found = _RANGE.fullmatch(text.strip())
    if found is not None:
        start, last, total = (int(number) for number in found.groups())
        if start <= last < total:
            return _Range(start=start, length=last - start + 1, total=total)
    raise InvalidRequest("Content-Range makes no sense.", hint="Write bytes first-last/total.", code="bad_range")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _failed(status: int, code: str, sentence: str, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status=status, headers=headers or {}, body={"error": {"code": code, "message": sentence}})


def failed_answer(error: CorralError) -> Answer:
    """An error of ours, for servers that have no rendering of their own."""
    headers = {"Retry-After": "1"} if error.retryable else {}
    return _failed(error.status, error.slug, error.message, headers)
