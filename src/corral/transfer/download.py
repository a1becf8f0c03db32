"""Files over HTTP that go on where they stopped, and are verified before anybody uses them.

Guarantee: `fetch` returns a file with the promised sha256, or raises. The bytes of an interrupted download stay in
`<key>.partial`; they are used again only if the server says that it still is the same file, or if a promised sha256
will tell. Without a promised sha256 `<key>.sums` has the sha256 of what had come after each MiB: bytes that another
program has changed since are fetched again. A file that turns out wrong is deleted. Owners do not share partial files:
two jobs never write one file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from random import Random  # noqa: TID251 - only the type; the generator is passed in
from urllib.parse import unquote, urlsplit

import aiohttp

from corral.ports.origin import Moved
from corral.ports.runtime import Clock
from corral.transfer.faults import SourceFailed, TransferFailed, told_when_full
from corral.transfer.files import PRIVATE_FILE, write_json
from corral.transfer.http import Http, refused, shown
from corral.transfer.threads import Stop, in_thread

_CHUNK = 1024 * 1024
# So often the sha256 of what has come is noted.
_SUM_BYTES = 1024 * 1024
# An attempt that brought less than this is counted as one that brought nothing.
_PROGRESS_BYTES = 64 * 1024
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")
_PAGE = re.compile(rb"\s*(?:<!doctype html|<html)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    url: str
    file_name: str
    # Empty: nobody has promised anything.
    sha256: str = ""
    size_bytes: int | None = None
    # The size is part of the promise, and not only what a server has said.
    is_size_promised: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    path: Path
    sha256: str
    size_bytes: int
    url: str


class Downloads:
    """The partial files of one owner: a backend, or a model."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder = folder
        self._owner = owner

    def path(self, wish: Wish) -> Path:
        # With a promised sha256, a mirror goes on with what another one has begun.
        what = f"{self._owner}\n{wish.sha256 or wish.url}"
        return self._folder / f"{hashlib.sha256(what.encode()).hexdigest()[:40]}.partial"

    def have_bytes(self, wish: Wish) -> int:
        try:
            return self.path(wish).stat().st_size
        except OSError:
            return 0

    def note(self, wish: Wish, etag: str) -> None:
        document = {"owner": self._owner, "url": wish.url, "etag": etag, "sha256": wish.sha256}
        write_json(self.path(wish).with_suffix(".json"), document)

    def known_etag(self, wish: Wish) -> str:
        """The strong validator of the bytes that are here, if they came from this very address."""
        note = _read_note(self.path(wish).with_suffix(".json"))
        etag = note.get("etag", "")
        return etag if note.get("url") == wish.url and not etag.startswith("W/") else ""

    def delete(self, wish: Wish) -> None:
        delete_partial(self.path(wish))

    def delete_all(self) -> None:
        """Everything that was fetched for this owner."""
        for note in list(self._folder.glob("*.json")):
            if owner_of(note) == self._owner:
                delete_partial(note.with_suffix(".partial"))


def files_beside(partial: Path) -> tuple[Path, Path]:
    """The note of a partial file, and its sums."""
    return partial.with_suffix(".json"), partial.with_suffix(".sums")


def delete_partial(partial: Path) -> None:
    for path in (partial, *files_beside(partial)):
        path.unlink(missing_ok=True)


def owner_of(note: Path) -> str:
    """Whom a note beside a partial file names."""
    return _read_note(note).get("owner", "")


class Downloader:
    """`limit_bytes` is for files whose size nobody has promised."""

    def __init__(self, files: Downloads, http: Http, clock: Clock, rng: Random, limit_bytes: int) -> None:
        self.files = files
        self._http = http
        self._clock = clock
        self._rng = rng
        self._limit_bytes = limit_bytes

    async def size_of(self, wish: Wish) -> int | None:
        """What its server says; None if it does not."""
        if is_local(wish.url):
            return None
        try:
            async with self._http.ask(wish.url, method="HEAD", headers=wish.headers) as response:
                return response.content_length if response.status == HTTPStatus.OK else None
        except (SourceFailed, TransferFailed):
            # The download itself will tell.
            return None

    async def fetch(self, wish: Wish, moved: Moved) -> Fetched:
        """Trouble of the moment is tried again; only attempts that bring nothing new are counted."""
        if is_local(wish.url):
            taken = await in_thread(lambda stop: _take_local(wish, stop))
            moved(taken.size_bytes, taken.size_bytes)
            return taken
        patience = self._http.patience
        failures, best = 0, self.files.have_bytes(wish)
        while True:
            try:
                fetched = await self._once(wish, moved)
            except SourceFailed as error:
                have = self.files.have_bytes(wish)
                failures = 1 if have >= best + _PROGRESS_BYTES else failures + 1
                best = max(best, have)
                if error.slug == "bad_answer" or failures >= patience.attempts:
                    raise
                pause = patience.retry_s * 2 ** (failures - 1)
                await self._clock.sleep(pause * self._rng.uniform(0.75, 1.25))
                continue
            if fetched is not None:
                return fetched

    async def _once(self, wish: Wish, moved: Moved) -> Fetched | None:
        """None: what was here before did not fit to the rest; it is gone, and everything begins again."""
        with _PartialFile(self.files.path(wish), is_promised=bool(wish.sha256)) as partial:
            await in_thread(partial.read_all)
            before = partial.size
            if not before or partial.sha256 != wish.sha256:
                await self._receive(wish, partial, moved)
            moved(partial.size, partial.size)
            got = Fetched(path=partial.path, sha256=partial.sha256, size_bytes=partial.size, url=wish.url)
            was_continued = partial.kept >= before > 0
        if not wish.sha256 or got.sha256 == wish.sha256:
            return got
        self.files.delete(wish)
        if was_continued:
            return None
        raise _not_as_promised(wish, got.sha256)

    async def _receive(self, wish: Wish, partial: _PartialFile, moved: Moved) -> None:
        etag = self.files.known_etag(wish)
        if partial.size and not (etag or wish.sha256):
            partial.restart()
        headers = dict(wish.headers)
        if partial.size:
            headers["Range"] = f"bytes={partial.size}-"
            if etag:
                headers["If-Range"] = etag
        async with self._http.ask(wish.url, headers=headers) as response:
            if response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and _is_all(response, partial):
                return
            _fit(wish, response, partial, etag)
            self.files.note(wish, response.headers.get("ETag", ""))
            total = wish.size_bytes
            if response.content_length is not None:
                total = partial.size + response.content_length
            await self._copy(wish, response, partial, moved, total)
        if total is not None and partial.size < total:
            raise SourceFailed(
                f"{shown(wish.url)} ended after {partial.size} of {total} bytes.", code="source_unavailable"
            )

    async def _copy(
        self, wish: Wish, response: aiohttp.ClientResponse, partial: _PartialFile, moved: Moved, total: int | None
    ) -> None:
        promised = wish.size_bytes if wish.is_size_promised else None
        limit = self._limit_bytes if promised is None else promised
        async for chunk in self._http.chunks(wish.url, response):
            if not partial.size and _PAGE.match(chunk):
                raise _a_page(wish.url)
            with told_when_full(f"{wish.file_name} was fetched"):
                partial.append(chunk)
            if partial.size > limit:
                partial.restart()
                raise TransferFailed(
                    f"{shown(wish.url)} is larger than {limit} bytes, which is all that it may be.",
                    code="digest_mismatch",
                )
            moved(partial.size, total)


def is_local(url: str) -> bool:
    """An index may be a folder of this machine."""
    return url.startswith("file:")


def _take_local(wish: Wish, stop: Stop) -> Fetched:
    path = Path(unquote(urlsplit(wish.url).path))
    found, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                stop.check()
                found.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise TransferFailed(f"{path} cannot be read: {error.strerror}.", code="not_found") from error
    if wish.sha256 and found.hexdigest() != wish.sha256:
        raise _not_as_promised(wish, found.hexdigest())
    return Fetched(path=path, sha256=found.hexdigest(), size_bytes=size, url=wish.url)


def _not_as_promised(wish: Wish, found: str) -> TransferFailed:
    return TransferFailed(
        f"{shown(wish.url)} is not what was promised: its sha256 is {found}, not {wish.sha256}.",
        hint="Either the promise is wrong or somebody has changed the file. Do not use it until that is clear.",
        code="digest_mismatch",
    )


def _fit(wish: Wish, response: aiohttp.ClientResponse, partial: _PartialFile, etag: str) -> None:
    """Make sure that the answer goes on where the file ends, or begin anew."""
    if response.status == HTTPStatus.OK:
        if response.content_type == "text/html":
            raise _a_page(wish.url)
        partial.restart()
        return
    if response.status not in (HTTPStatus.PARTIAL_CONTENT, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE):
        raise refused(wish.url, response.status)
    found = _RANGE.match(response.headers.get("Content-Range", ""))
    now = response.headers.get("ETag", "")
    is_next = response.status == HTTPStatus.PARTIAL_CONTENT and found and found[1] == str(partial.size)
    if not is_next or (etag and now and now != etag):
        partial.restart()
        raise SourceFailed(f"{shown(wish.url)} is not the file that it was before.", code="source_unavailable")


def _is_all(response: aiohttp.ClientResponse, partial: _PartialFile) -> bool:
    """There is nothing behind the end of what is here."""
    found = _RANGE.match(response.headers.get("Content-Range", ""))
    return bool(found) and found[2] == str(partial.size)  # type: ignore[index]  # a match, as `found` is true


def _a_page(url: str) -> SourceFailed:
    return SourceFailed(
        f"{shown(url)} answers with a web page instead of a file.",
        hint="A proxy or a login page may stand in between.",
        code="bad_answer",
    )


def _read_note(path: Path) -> dict[str, str]:
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in note.items()} if isinstance(note, dict) else {}


class _PartialFile:
    """A growing file and the sha256 of what it holds. `is_promised`: somebody will compare the sha256 of the whole."""

    def __init__(self, path: Path, *, is_promised: bool) -> None:
        self.path = path
        self.size = 0
        # How much of what was here at the beginning is still in use.
        self.kept = 0
        self._hash = hashlib.sha256()
        self._sums = None if is_promised else files_beside(path)[1]
        self._summed = 0
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)

    def __enter__(self) -> _PartialFile:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        # Nothing has come, and there is nothing to go on from: perhaps nobody ever tries again.
        is_of_use = error is None or os.fstat(self._descriptor).st_size > 0
        os.close(self._descriptor)
        if not is_of_use:
            delete_partial(self.path)
        elif self.size > self._summed:
            self._add_sum()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def read_all(self, stop: Stop) -> None:
        """Hash what is here. Without a promise, only as much as has the sums that were noted when it came."""
        if self._sums is None:
            self._read_until(None, stop)
        else:
            self._read_summed(_read_sums(self._sums), stop)
        self.kept = self.size

    def append(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        written = 0
        while written < len(view):
            written += os.pwrite(self._descriptor, view[written:], self.size + written)
        self._hash.update(chunk)
        self.size += len(chunk)
        if self.size - self._summed >= _SUM_BYTES:
            self._add_sum()

    def restart(self) -> None:
        if self._sums is not None:
            self._sums.unlink(missing_ok=True)
        os.ftruncate(self._descriptor, 0)
        self.size = self.kept = self._summed = 0
        self._hash = hashlib.sha256()

    def _read_until(self, end: int | None, stop: Stop) -> None:
        while chunk := os.pread(self._descriptor, _CHUNK if end is None else min(_CHUNK, end - self.size), self.size):
            stop.check()
            self._hash.update(chunk)
            self.size += len(chunk)

    def _read_summed(self, sums: list[tuple[int, str]], stop: Stop) -> None:
        good, good_size = self._hash.copy(), 0
        for end, sha256 in sums:
            self._read_until(end, stop)
            if (self.size, self.sha256) != (end, sha256):
                break
            good, good_size = self._hash.copy(), end
        if not good_size:
            self.restart()
            return
        os.ftruncate(self._descriptor, good_size)
        self._hash, self.size, self._summed = good, good_size, good_size

    def _add_sum(self) -> None:
        """Not synced: one that is lost costs bytes that are fetched again."""
        self._summed = self.size
        if self._sums is not None:
            with contextlib.suppress(OSError), self._sums.open("a", encoding="ascii") as file:
                file.write(f"{self.size} {self.sha256}\n")


def _read_sums(path: Path) -> list[tuple[int, str]]:
    """Sizes that grow, each with a sha256; what makes no sense ends the list."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return []
    sums: list[tuple[int, str]] = []
    for line in lines:
        size, _, sha256 = line.partition(" ")
        if not size.isdecimal() or len(size) > 18 or int(size) <= (sums[-1][0] if sums else 0):
            break
        sums.append((int(size), sha256))
    return sums
