"""Downloads files over HTTP, resumes partial ones, and verifies them before they are used.

Guarantee: `fetch` returns a file with the promised sha256, or raises. The bytes of an interrupted download stay in
`<key>.partial`; they are used again only if the server says that it still is the same file, or if a promised sha256
will verify them. Without a promised sha256 `<key>.sums` has the sha256 of the bytes after each MiB: bytes that another
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

from corral.ports.files import ProgressCallback
from corral.ports.runtime import Clock
from corral.transfer.faults import SourceFailed, TransferFailed, translate_disk_full
from corral.transfer.files import PRIVATE_FILE, StopFlag, run_in_thread, write_json
from corral.transfer.http_client import TransferHttpClient, make_refusal, redact_url

_CHUNK = 1024 * 1024
# After this many bytes the sha256 so far is noted.
_SUM_BYTES = 1024 * 1024
# An attempt with fewer new bytes than this counts as one without any.
_PROGRESS_BYTES = 64 * 1024
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")
_HTML_START = re.compile(rb"\s*(?:<!doctype html|<html)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadRequest:
    """One file to download from a source: its address, name, and the promised sha256 and size where known."""

    url: str
    file_name: str
    # Empty if no hash was promised.
    sha256: str = ""
    size_bytes: int | None = None
    # Whether the size is part of the promise, and not only what a server reports.
    is_size_promised: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadedFile:
    """One file that was downloaded from a source and verified: its path, sha256, size and address."""

    path: Path
    sha256: str
    size_bytes: int
    url: str


class PartialDownloads:
    """Finds, notes and deletes unfinished downloads on disk that belong to one engine backend or model."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder = folder
        self._owner = owner

    def get_path(self, request: DownloadRequest) -> Path:
        # With a promised sha256, a mirror continues what another one has begun.
        identity = f"{self._owner}\n{request.sha256 or request.url}"
        return self._folder / f"{hashlib.sha256(identity.encode()).hexdigest()[:40]}.partial"

    def count_bytes(self, request: DownloadRequest) -> int:
        try:
            return self.get_path(request).stat().st_size
        except OSError:
            return 0

    def write_note(self, request: DownloadRequest, etag: str) -> None:
        document = {"owner": self._owner, "url": request.url, "etag": etag, "sha256": request.sha256}
        write_json(self.get_path(request).with_suffix(".json"), document)

    def read_etag(self, request: DownloadRequest) -> str:
        """Return the strong validator of the bytes that are here, if they came from this very address."""
        note = _read_note(self.get_path(request).with_suffix(".json"))
        etag = note.get("etag", "")
        return etag if note.get("url") == request.url and not etag.startswith("W/") else ""

    def delete(self, request: DownloadRequest) -> None:
        delete_partial(self.get_path(request))

    def delete_all(self) -> None:
        """Delete everything that was downloaded for this owner."""
        for note in list(self._folder.glob("*.json")):
            if read_owner(note) == self._owner:
                delete_partial(note.with_suffix(".partial"))


def list_sidecar_paths(partial: Path) -> tuple[Path, Path]:
    """Return the paths of a partial file's note and of its sums."""
    return partial.with_suffix(".json"), partial.with_suffix(".sums")


def delete_partial(partial: Path) -> None:
    for path in (partial, *list_sidecar_paths(partial)):
        path.unlink(missing_ok=True)


def read_owner(note: Path) -> str:
    """Return the owner that a note beside a partial file names."""
    return _read_note(note).get("owner", "")


class Downloader:
    """Downloads files of models and engine backends over HTTP: resumes partial ones, retries, verifies checksums."""

    def __init__(
        self, files: PartialDownloads, http: TransferHttpClient, clock: Clock, rng: Random, limit_bytes: int
    ) -> None:
        self.files = files
        self._http = http
        self._clock = clock
        self._rng = rng
        self._limit_bytes = limit_bytes

    async def fetch_size(self, request: DownloadRequest) -> int | None:
        """Return the size that the server gives; None if it does not."""
        if is_local(request.url):
            return None
        try:
            async with self._http.request(request.url, method="HEAD", headers=request.headers) as response:
                return response.content_length if response.status == HTTPStatus.OK else None
        except (SourceFailed, TransferFailed):
            # The download itself will report the failure.
            return None

    async def fetch(self, request: DownloadRequest, on_progress: ProgressCallback) -> DownloadedFile:
        """Download and verify a file. Temporary failures are retried; only attempts without new bytes are counted."""
        if is_local(request.url):
            taken = await run_in_thread(lambda stop: _read_local(request, stop))
            on_progress(taken.size_bytes, taken.size_bytes)
            return taken
        options = self._http.options
        failures, best = 0, self.files.count_bytes(request)
        while True:
            try:
                fetched = await self._attempt(request, on_progress)
            except SourceFailed as error:
                have = self.files.count_bytes(request)
                failures = 1 if have >= best + _PROGRESS_BYTES else failures + 1
                best = max(best, have)
                if error.slug == "bad_answer" or failures >= options.attempts:
                    raise
                pause = options.retry_s * 2 ** (failures - 1)
                await self._clock.sleep(pause * self._rng.uniform(0.75, 1.25))
                continue
            if fetched is not None:
                return fetched

    async def _attempt(self, request: DownloadRequest, on_progress: ProgressCallback) -> DownloadedFile | None:
        """Make one attempt; None if the existing bytes did not fit the rest: they are deleted, and the download begins
        again."""
        with _PartialFile(self.files.get_path(request), is_promised=bool(request.sha256)) as partial:
            await run_in_thread(partial.read_all)
            previous_size = partial.size
            if not previous_size or partial.sha256 != request.sha256:
                await self._receive(request, partial, on_progress)
            on_progress(partial.size, partial.size)
            downloaded = DownloadedFile(
                path=partial.path, sha256=partial.sha256, size_bytes=partial.size, url=request.url
            )
            was_continued = partial.kept >= previous_size > 0
        if not request.sha256 or downloaded.sha256 == request.sha256:
            return downloaded
        self.files.delete(request)
        if was_continued:
            return None
        raise _make_digest_error(request, downloaded.sha256)

    async def _receive(self, request: DownloadRequest, partial: _PartialFile, on_progress: ProgressCallback) -> None:
        etag = self.files.read_etag(request)
        if partial.size and not (etag or request.sha256):
            partial.restart()
        headers = dict(request.headers)
        if partial.size:
            headers["Range"] = f"bytes={partial.size}-"
            if etag:
                headers["If-Range"] = etag
        async with self._http.request(request.url, headers=headers) as response:
            if response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and _is_complete(response, partial):
                return
            _check_continuation(request, response, partial, etag)
            self.files.write_note(request, response.headers.get("ETag", ""))
            total = request.size_bytes
            if response.content_length is not None:
                total = partial.size + response.content_length
            await self._copy(request, response, partial, on_progress, total)
        if total is not None and partial.size < total:
            raise SourceFailed(
                f"{redact_url(request.url)} ended after {partial.size} of {total} bytes.", code="source_unavailable"
            )

    async def _copy(
        self,
        request: DownloadRequest,
        response: aiohttp.ClientResponse,
        partial: _PartialFile,
        on_progress: ProgressCallback,
        total: int | None,
    ) -> None:
        promised = request.size_bytes if request.is_size_promised else None
        limit = self._limit_bytes if promised is None else promised
        async for chunk in self._http.iterate_chunks(request.url, response):
            if not partial.size and _HTML_START.match(chunk):
                raise _make_web_page_error(request.url)
            with translate_disk_full(f"{request.file_name} was fetched"):
                partial.append(chunk)
            if partial.size > limit:
                partial.restart()
                raise TransferFailed(
                    f"{redact_url(request.url)} is larger than {limit} bytes, the limit for this file.",
                    code="digest_mismatch",
                )
            on_progress(partial.size, total)


def is_local(url: str) -> bool:
    """Return whether an address is a path of this machine: an index may be a local folder."""
    return url.startswith("file:")


def _read_local(request: DownloadRequest, stop: StopFlag) -> DownloadedFile:
    path = Path(unquote(urlsplit(request.url).path))
    found, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                stop.raise_if_set()
                found.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise TransferFailed(f"{path} cannot be read: {error.strerror}.", code="not_found") from error
    if request.sha256 and found.hexdigest() != request.sha256:
        raise _make_digest_error(request, found.hexdigest())
    return DownloadedFile(path=path, sha256=found.hexdigest(), size_bytes=size, url=request.url)


def _make_digest_error(request: DownloadRequest, found: str) -> TransferFailed:
    return TransferFailed(
        f"{redact_url(request.url)} is not what was promised: its sha256 is {found}, not {request.sha256}.",
        hint="Either the expected sha256 is wrong or the file was changed. Do not use it until that is clear.",
        code="digest_mismatch",
    )


def _check_continuation(
    request: DownloadRequest, response: aiohttp.ClientResponse, partial: _PartialFile, etag: str
) -> None:
    """Make sure that the response continues where the file ends, or start over."""
    if response.status == HTTPStatus.OK:
        if response.content_type == "text/html":
            raise _make_web_page_error(request.url)
        partial.restart()
        return
    if response.status not in (HTTPStatus.PARTIAL_CONTENT, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE):
        raise make_refusal(request.url, response.status)
    found = _RANGE.match(response.headers.get("Content-Range", ""))
    now = response.headers.get("ETag", "")
    is_next = response.status == HTTPStatus.PARTIAL_CONTENT and found and found[1] == str(partial.size)
    if not is_next or (etag and now and now != etag):
        partial.restart()
        raise SourceFailed(f"{redact_url(request.url)} is not the file that it was before.", code="source_unavailable")


def _is_complete(response: aiohttp.ClientResponse, partial: _PartialFile) -> bool:
    """Return whether the server has no bytes behind the end of the partial file."""
    found = _RANGE.match(response.headers.get("Content-Range", ""))
    return bool(found) and found[2] == str(partial.size)  # type: ignore[index]  # a match, as `found` is true


def _make_web_page_error(url: str) -> SourceFailed:
    return SourceFailed(
        f"{redact_url(url)} returned a web page instead of a file.",
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
    """A growing file and the sha256 of what it holds; `is_promised`: the sha256 of the whole will be compared."""

    def __init__(self, path: Path, *, is_promised: bool) -> None:
        self.path = path
        self.size = 0
        # How many of the bytes found at the beginning are still in use.
        self.kept = 0
        self._hash = hashlib.sha256()
        self._sums = None if is_promised else list_sidecar_paths(path)[1]
        self._summed_bytes = 0
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)

    def __enter__(self) -> _PartialFile:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        # Nothing has arrived, and there is nothing to continue: perhaps no attempt follows.
        is_of_use = error is None or os.fstat(self._descriptor).st_size > 0
        os.close(self._descriptor)
        if not is_of_use:
            delete_partial(self.path)
        elif self.size > self._summed_bytes:
            self._add_sum()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def read_all(self, stop: StopFlag) -> None:
        """Hash the existing bytes. Without a promise, only as many as match the sums that were noted when they
        arrived."""
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
        if self.size - self._summed_bytes >= _SUM_BYTES:
            self._add_sum()

    def restart(self) -> None:
        if self._sums is not None:
            self._sums.unlink(missing_ok=True)
        os.ftruncate(self._descriptor, 0)
        self.size = self.kept = self._summed_bytes = 0
        self._hash = hashlib.sha256()

    def _read_until(self, end: int | None, stop: StopFlag) -> None:
        while chunk := os.pread(self._descriptor, _CHUNK if end is None else min(_CHUNK, end - self.size), self.size):
            stop.raise_if_set()
            self._hash.update(chunk)
            self.size += len(chunk)

    def _read_summed(self, sums: list[tuple[int, str]], stop: StopFlag) -> None:
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
        self._hash, self.size, self._summed_bytes = good, good_size, good_size

    def _add_sum(self) -> None:
        """Note the sha256 so far. Not synced: a lost sum costs bytes that are fetched again."""
        self._summed_bytes = self.size
        if self._sums is not None:
            with contextlib.suppress(OSError), self._sums.open("a", encoding="ascii") as file:
                file.write(f"{self.size} {self.sha256}\n")


def _read_sums(path: Path) -> list[tuple[int, str]]:
    """Return growing sizes, each with a sha256; an invalid line ends the list."""
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
