"""`/api/backends/galleries`: where backends come from, and fetching the indexes anew.

The answer to a refresh does not wait for it: the frontend that was asked fetches in its background, whether it leads or
not, one round at a time. What changes reaches the others through the feed.
"""

from __future__ import annotations

from fastapi import APIRouter, BackgroundTasks

from corral.api.parts import OperateIn, Parts, PartsIn
from corral.backends.shelf import GalleryState
from corral.domain.errors import StoreUnavailable
from corral.runtime.guard import attempt
from corral.store import galleries as store
from corral.wire.backends import GalleryOut, RefreshOut

router = APIRouter(tags=["backends"])


async def _list(parts: PartsIn, _: OperateIn) -> list[GalleryOut]:
    """The galleries of this cluster, with when each was fetched and what is wrong with one that could not be."""
    return await _galleries(parts)


async def _refresh(parts: PartsIn, _: OperateIn, later: BackgroundTasks) -> RefreshOut:
    """Fetch every gallery anew, and those that failed lately too. Answers with what is known now."""

    async def fetch() -> None:
        await attempt(parts.refresher.refresh_once)

    is_under_way = parts.refresher.is_refreshing
    later.add_task(fetch)
    message = "The galleries are being fetched already." if is_under_way else "The galleries are fetched now."
    return RefreshOut(message=message, galleries=await _galleries(parts))


for _prefix, _suffix in (("/api/backends", ""), ("/backends", "_as_ancestor")):
    router.get(f"{_prefix}/galleries", name=f"galleries{_suffix}")(_list)
router.post("/api/backends/galleries/refresh", name="refresh_galleries", status_code=202)(_refresh)


async def _galleries(parts: Parts) -> list[GalleryOut]:
    """Entries are those in this frontend's memory; what became of the last try is in PostgreSQL, while it is there."""
    try:
        async with parts.database.transaction() as tx:
            stamps = {(stamp.name, stamp.url): stamp for stamp in await store.list_stamps(tx)}
    except StoreUnavailable:
        stamps = {}
    return [gallery_out(state, stamps.get((state.name, state.url))) for state in parts.catalog.states]


def gallery_out(state: GalleryState, stamp: store.GalleryCopy | None) -> GalleryOut:
    return GalleryOut(
        name=state.name,
        url=state.url,
        entries=state.entries,
        fetched_at=stamp.fetched_at if stamp else None,
        problem=stamp.problem if stamp and state.is_readable else state.problem,
    )
