"""What the tests of origins share: origins with a quick clock, and what their errors were."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from corral.domain.errors import CorralError
from corral.domain.model import FilePart
from corral.ports.files import OriginFile
from corral.transfer.http_client import TransferOptions
from corral.transfer.origins.file_origin import OriginOptions
from corral.transfer.origins.origin_router import OriginRouter
from tests.worker.backends.scene import QuickClock, plain_environment

# Nobody waits for minutes in a test; what is cut short here is only the waiting.
PATIENCE = TransferOptions(stall_s=30.0, header_s=30.0)


@dataclass
class Scene:
    origins: OriginRouter
    into: Path
    clock: QuickClock
    moved: list[tuple[int, int | None]] = field(default_factory=list)

    async def resolve(self, uri: str, sha256: str = "") -> tuple[OriginFile, ...]:
        return await self.origins.resolve(FilePart(uri=uri, sha256=sha256))

    async def one(self, uri: str, sha256: str = "") -> OriginFile:
        (found,) = await self.resolve(uri, sha256)
        return found

    async def fetch(self, found: OriginFile) -> Path:
        return await self.origins.fetch(found, self.into, lambda current, total: self.moved.append((current, total)))

    async def content(self, uri: str, sha256: str = "") -> bytes:
        return (await self.fetch(await self.one(uri, sha256))).read_bytes()

    async def refuses(self, uri: str, code: str, sha256: str = "") -> CorralError:
        """Either step; what it says."""
        with pytest.raises(CorralError) as caught:
            await self.content(uri, sha256)
        assert caught.value.slug == code, caught.value.message
        return caught.value

    @property
    def left(self) -> list[Path]:
        """What lies in the folder."""
        return sorted(self.into.rglob("*")) if self.into.exists() else []


@asynccontextmanager
async def scene_of(tmp_path: Path, **options: Any) -> AsyncIterator[Scene]:
    """Servers of tests are on the loopback, so private addresses are allowed unless a test says otherwise."""
    given = {"patience": PATIENCE, "allows_private": True, "environment": plain_environment(), **options}
    clock = QuickClock()
    origins = OriginRouter(OriginOptions(**given), clock, random.Random(1))
    try:
        yield Scene(origins=origins, into=tmp_path / "into", clock=clock)
    finally:
        await origins.close()
