"""Where files come from, in a test: contents by address, with counted bytes, that can be slow, break off or be gone."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from corral.domain.errors import NotFound, Unavailable
from corral.domain.model import FilePart
from corral.ports.files import OriginFile, ProgressCallback

PIECE = 64 * 1024


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class PretendOrigins:
    """`folders` are addresses that mean several files. Partial bytes survive, as the port says."""

    contents: dict[str, bytes] = field(default_factory=dict)
    folders: dict[str, dict[str, str]] = field(default_factory=dict)
    # Addresses whose size and sha256 the source tells.
    tells: bool = True
    # After so many bytes of an address the connection breaks, once.
    breaks_after: dict[str, int] = field(default_factory=dict)
    # Whoever fetches waits here.
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    moved_bytes: Counter[str] = field(default_factory=Counter)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    local: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gate.set()

    async def resolve(self, part: FilePart) -> tuple[OriginFile, ...]:
        if part.uri in self.folders:
            return tuple(self._found(path, uri) for path, uri in sorted(self.folders[part.uri].items()))
        return (self._found(part.uri.rpartition("/")[2], part.uri, part.sha256),)

    def _found(self, path: str, uri: str, sha256: str = "") -> OriginFile:
        if uri in self.local:
            return OriginFile(path=path, address=uri, size_bytes=self.local[uri].stat().st_size)
        if uri not in self.contents:
            raise NotFound(f"There is nothing at {uri}.", code="not_found")
        content = self.contents[uri]
        if not self.tells:
            return OriginFile(path=path, address=uri, sha256=sha256)
        return OriginFile(path=path, address=uri, sha256=sha256 or sha256_of(content), size_bytes=len(content))

    async def fetch(self, found: OriginFile, into: Path, moved: ProgressCallback) -> Path:
        if found.address in self.local:
            return self.local[found.address]
        content, path = self.contents[found.address], into / "fetched"
        have = path.stat().st_size if path.exists() else 0
        self.begun.set()
        with path.open("ab") as file:
            while have < len(content):
                await self.gate.wait()
                await asyncio.sleep(0)
                if have >= self.breaks_after.get(found.address, len(content) + 1):
                    del self.breaks_after[found.address]
                    raise Unavailable("The connection broke.", code="source_unavailable")
                piece = content[have : have + PIECE]
                file.write(piece)
                file.flush()
                have += len(piece)
                self.moved_bytes[found.address] += len(piece)
                moved(have, found.size_bytes)
        return path

    async def forget(self, found: OriginFile, into: Path) -> None:
        (into / "fetched").unlink(missing_ok=True)


@dataclass
class RecordingProgress:
    """A report that remembers."""

    reported: list[tuple[int, int | None, str]] = field(default_factory=list)

    def on_progress(self, current_bytes: int, total_bytes: int | None, file_name: str = "") -> None:
        self.reported.append((current_bytes, total_bytes, file_name))
