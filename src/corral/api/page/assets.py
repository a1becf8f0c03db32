"""The files of the built page as they are sent: whole, in memory, each in the encodings that browsers take.

Limit: reading blocks; callers do it in a thread. A folder that is swapped meanwhile is noticed by them, not here.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

INDEX = "index.html"
STAMP = "stamp.json"
STATE = "state.json"
# Names with a hash of their content in them: they never mean anything else.
FOREVER = "assets/"
PLAIN = ""
# The best first.
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
# Of 16 that sha256 has: enough to tell two contents of one file apart.
_ETAG_DIGITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    content_type: str
    # By the name of the encoding; `PLAIN` is always there.
    bodies: Mapping[str, bytes]
    digest: str
    is_forever: bool

    def chosen(self, accepted: str) -> str:
        """The best encoding that a client takes, by its `Accept-Encoding`."""
        wanted = _wanted(accepted)
        return next((name for name in _ENCODED if name in self.bodies and name in wanted), PLAIN)

    def etag(self, encoding: str) -> str:
        """Strong, so each encoding has its own."""
        return f'"{self.digest}-{encoding}"' if encoding else f'"{self.digest}"'


def read_assets(folder: Path) -> dict[str, Asset]:
    """Every file by its path below the folder, with slashes. OSError: it cannot be read, or is being swapped."""
    files = {path.relative_to(folder).as_posix(): path for path in _files(folder)}
    beside = {name + ending for name in files for ending in _ENCODED.values()}
    return {
        name: _asset(name, path, files)
        for name, path in files.items()
        if name not in _NOT_SERVED and name not in beside and not name.startswith(".")
    }


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path


def _asset(name: str, path: Path, files: Mapping[str, Path]) -> Asset:
    body = path.read_bytes()
    bodies = {PLAIN: body}
    for encoding, ending in _ENCODED.items():
        if name + ending in files:
            bodies[encoding] = files[name + ending].read_bytes()
    if path.suffix in _TEXT and "gzip" not in bodies:
        bodies["gzip"] = gzip.compress(body, mtime=0)
    return Asset(
        content_type=_TYPES.get(path.suffix, "application/octet-stream"),
        bodies=bodies,
        digest=hashlib.sha256(body).hexdigest()[:_ETAG_DIGITS],
        is_forever=name.startswith(FOREVER),
    )


def _wanted(accepted: str) -> set[str]:
    """The encodings that a client names, without those that it names to refuse them."""
    wanted = set()
    for part in accepted.lower().split(","):
        name, _, weight = part.partition(";")
        if weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            wanted.add(name.strip())
    return wanted
