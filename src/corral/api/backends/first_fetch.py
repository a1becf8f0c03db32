"""Galleries that a frontend has just been given: a request that names one of their entries waits for their first fetch.

The leader fetches galleries in the background. Without this, the first install of a script that has just started a
cluster would be told that there is no such backend. Limit: `WAIT_S`; a source that does not answer by then is left to
the leader, and the request is answered from what is known.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from corral.api.parts import Parts
from corral.backends.refresh import Refresher
from corral.runtime.guard import attempt

WAIT_S = 15.0


class GalleryReader(Protocol):
    """A catalog that reads the stored copies of galleries."""

    def unread(self) -> tuple[str, ...]: ...

    async def load(self) -> None: ...


async def wait_for_galleries(parts: Parts) -> None:
    """Return once each gallery has been fetched or has failed, or after `WAIT_S`. Costs nothing afterwards."""
    if parts.catalog.unread() or parts.models.unread():
        async with parts.gallery_wait:
            await attempt(lambda: _read(parts.catalog, parts.refresher))
            await attempt(lambda: _read(parts.models, parts.model_refresher))


async def _read(catalog: GalleryReader, refresher: Refresher) -> None:
    names = catalog.unread()
    if names:
        # Another frontend may have fetched them since this one looked.
        await catalog.load()
        names = catalog.unread()
    if names:
        async with asyncio.timeout(WAIT_S):
            await refresher.refresh(names)
        await catalog.load()
