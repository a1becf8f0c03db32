"""A fetcher and origins that reach nothing: for frontends without a way out, and for the simulator."""

from __future__ import annotations

from pathlib import Path

from corral.domain.errors import Unavailable
from corral.domain.model import FilePart
from corral.ports.fetch import Fetched, Wanted
from corral.ports.origin import Found, Moved


class NoNetwork:
    async def fetch(self, wanted: Wanted) -> Fetched:
        raise Unavailable(f"There is no way to {wanted.url.partition('?')[0][:200]}.", code="source_unavailable")

    async def addresses(self, host: str) -> tuple[str, ...]:
        del host
        return ()


class NoOrigins:
    async def resolve(self, part: FilePart) -> tuple[Found, ...]:
        raise Unavailable(f"There is no way to {part.uri.partition('?')[0][:200]}.", code="source_unavailable")

    async def fetch(self, found: Found, into: Path, moved: Moved) -> Path:
        del into, moved
        raise Unavailable(f"There is no way to {found.path}.", code="source_unavailable")

    async def forget(self, found: Found, into: Path) -> None:
        del found, into
