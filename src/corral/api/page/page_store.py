"""Holds the files of the built page in memory, in the encodings that browsers accept, or the reason why there are none.

Guarantee: requests are served from memory. A request makes the store check whether the folder has changed, at most once
a second, in a thread; the folder is read again if its stamp differs. A page that is built while the frontend runs
appears without a restart, and files of the previous build stay for browsers that still show it. A folder that
disappears, or is replaced while it is read, changes nothing.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from corral.ports.runtime import Clock

log = structlog.get_logger(__name__)
BUILT_FOLDER = Path(__file__).parent / "built"
REFRESH_INTERVAL_S = 1.0
_STATE_BYTES_MAX = 16 * 1024
# Inode, time and size of a file; None: the file does not exist.
_Mark = tuple[int, int, int] | None
INDEX = "index.html"
STAMP = "stamp.json"
STATE = "state.json"
# File names here contain a hash of the content, so the content of a name never changes.
IMMUTABLE_PREFIX = "assets/"
PLAIN = ""
# Best encoding first.
_ENCODED = {"br": ".br", "gzip": ".gz"}
_NOT_SERVED = frozenset({STAMP, STATE})
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".map": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".wasm": "application/wasm",
}
_TEXT = frozenset({".html", ".js", ".css", ".svg", ".json", ".webmanifest", ".map", ".txt"})
# Hexadecimal digits of the sha256 that are used: enough to tell two contents of one file apart.
_ETAG_DIGITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PageUnavailableReason:
    """Says why the web page is not available, and what to do."""

    sentence: str
    hint: str
    # The page is being built: the placeholder reloads until it is there.
    is_building: bool = False


NEVER_BUILT = PageUnavailableReason(
    sentence="The web page has not been built.",
    hint=(
        "In a clone of the source `make page` builds it, with Node 20.19 or newer; a wheel of `make dist` has it in it."
        " The API and the command line work without it."
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSnapshot:
    """The files that a frontend found in the folder of the built web page, or why there are none."""

    marks: tuple[_Mark, ...] = ()
    files: Mapping[str, PageAsset] = field(default_factory=dict)
    unavailable: PageUnavailableReason | None = NEVER_BUILT


class PageStore:
    """Serves the built web page from memory, and reads it again when its folder has changed."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._snapshot = PageSnapshot()
        # Files of the previous build.
        self._previous_files: Mapping[str, PageAsset] = {}
        self._looked_at: float | None = None
        self._read_lock = asyncio.Lock()

    async def find_unavailable_reason(self) -> PageUnavailableReason | None:
        """Return why there is no page, or None if there is one."""
        await self._refresh()
        return self._snapshot.unavailable

    async def find(self, name: str) -> PageAsset | None:
        """Return a file of the page, or None. Unknown names cost no more than known ones."""
        found = self._get_asset(name)
        if found is None or not found.is_forever:
            await self._refresh()
            found = self._get_asset(name)
        return found

    def _get_asset(self, name: str) -> PageAsset | None:
        found = self._snapshot.files.get(name)
        if found is None:
            old = self._previous_files.get(name)
            found = old if old is not None and old.is_forever else None
        return found

    async def _refresh(self) -> None:
        async with self._read_lock:
            now = self._clock.monotonic()
            if self._looked_at is not None and now - self._looked_at < REFRESH_INTERVAL_S:
                return
            self._looked_at = now
            read = await asyncio.to_thread(_read_page, self._folder, self._snapshot.marks)
            if read is None:
                return
            if read.unavailable is not None and self._snapshot.unavailable is None:
                # The loaded files stay valid: the folder is being rebuilt or was deleted.
                return
            if self._snapshot.unavailable is None:
                self._previous_files = self._snapshot.files
            self._snapshot = read
            if read.unavailable is None:
                log.info("page read", files=len(read.files))


def _read_page(folder: Path, known_marks: tuple[_Mark, ...]) -> PageSnapshot | None:
    """Read the folder. Return None if it has not changed, or cannot be read at the moment."""
    marks = _read_marks(folder)
    if marks == known_marks:
        return None
    if marks[0] is None:
        return PageSnapshot(marks=marks, unavailable=_read_unavailable_reason(folder))
    try:
        files = read_assets(folder)
    except OSError:
        return None
    # The folder was replaced while it was read: the files may belong to two builds.
    return (
        PageSnapshot(marks=marks, files=files, unavailable=None)
        if _read_marks(folder) == marks and INDEX in files
        else None
    )


def _read_marks(folder: Path) -> tuple[_Mark, ...]:
    """Return the marks of three files: the index (is there a page), the stamp (which build), the state (why there is
    none)."""
    return tuple(_read_mark(folder / name) for name in (INDEX, STAMP, STATE))


def _read_mark(path: Path) -> _Mark:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read_unavailable_reason(folder: Path) -> PageUnavailableReason:
    """Return the reason that the builder has written; see `tools/page.py`."""
    try:
        with (folder / STATE).open(encoding="utf-8") as file:
            state = json.loads(file.read(_STATE_BYTES_MAX))
        return PageUnavailableReason(
            sentence=str(state["sentence"]), hint=str(state["hint"]), is_building=state["state"] == "building"
        )
    except (OSError, ValueError, KeyError, TypeError):
        return NEVER_BUILT


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAsset:
    """Holds one file of the built web page in memory, in every encoding that it was built with."""

    content_type: str
    # Body by name of the encoding; `PLAIN` always exists.
    bodies: Mapping[str, bytes]
    digest: str
    is_forever: bool

    def choose_encoding(self, accept_encoding: str) -> str:
        """Return the best encoding that a client accepts, by its `Accept-Encoding`."""
        encodings = _parse_accepted(accept_encoding)
        return next((name for name in _ENCODED if name in self.bodies and name in encodings), PLAIN)

    def make_etag(self, encoding: str) -> str:
        """Return a strong ETag, so each encoding has its own."""
        return f'"{self.digest}-{encoding}"' if encoding else f'"{self.digest}"'


def read_assets(folder: Path) -> dict[str, PageAsset]:
    """Return every file by its path below the folder, with slashes. Raises OSError if the folder cannot be read, or is
    being replaced."""
    files = {path.relative_to(folder).as_posix(): path for path in _iter_files(folder)}
    beside = {name + ending for name in files for ending in _ENCODED.values()}
    return {
        name: _read_asset(name, path, files)
        for name, path in files.items()
        if name not in _NOT_SERVED and name not in beside and not name.startswith(".")
    }


def _iter_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if path.is_dir():
            yield from _iter_files(path)
        elif path.is_file():
            yield path


def _read_asset(name: str, path: Path, files: Mapping[str, Path]) -> PageAsset:
    body = path.read_bytes()
    bodies = {PLAIN: body}
    for encoding, ending in _ENCODED.items():
        if name + ending in files:
            bodies[encoding] = files[name + ending].read_bytes()
    if path.suffix in _TEXT and "gzip" not in bodies:
        bodies["gzip"] = gzip.compress(body, mtime=0)
    return PageAsset(
        content_type=_TYPES.get(path.suffix, "application/octet-stream"),
        bodies=bodies,
        digest=hashlib.sha256(body).hexdigest()[:_ETAG_DIGITS],
        is_forever=name.startswith(IMMUTABLE_PREFIX),
    )


def _parse_accepted(accept_encoding: str) -> set[str]:
    """Return the encodings that a client accepts, without those with a quality of 0."""
    encodings = set()
    for part in accept_encoding.lower().split(","):
        name, _, weight = part.partition(";")
        if weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            encodings.add(name.strip())
    return encodings
