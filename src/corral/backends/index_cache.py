"""Caches the indexes of galleries in memory: the built-in one, and the stored copies of the others.

The catalogs of backends and of models use it. An unreadable index does not affect the others, and its previous
content stays. A gallery of the settings wins over one of the same name that came with a fleet file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import structlog

from corral.backends.sources import redact_url
from corral.domain.backend import BUILT_IN_GALLERY, Gallery
from corral.domain.errors import InvalidRequest
from corral.store import galleries as store
from corral.store.database import Database

log = structlog.get_logger(__name__)

NOT_FETCHED = "not fetched yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryState:
    """State of one gallery as operators see it: its address, number of entries, last problem and warnings."""

    name: str
    url: str
    entries: int
    problem: str = ""
    # False: there is a copy, and this frontend cannot read it.
    is_readable: bool = True
    warnings: tuple[str, ...] = ()


class GalleryIndex(Protocol):
    """Interface of one gallery's parsed index: entries (backends or models) and warnings."""

    @property
    def entries(self) -> Sequence[object]: ...

    @property
    def warnings(self) -> tuple[str, ...]: ...


I = TypeVar("I", bound=GalleryIndex)  # noqa: E741 - an index


def merge_galleries(configured: Iterable[Gallery], stored: Iterable[Gallery]) -> tuple[Gallery, ...]:
    """Return all galleries in order: those of the settings, then the stored ones."""
    chosen = {gallery.name.lower(): gallery for gallery in configured}
    for gallery in stored:
        chosen.setdefault(gallery.name.lower(), gallery)
    return tuple(chosen.values())


class GalleryIndexCache(Generic[I]):
    """Caches the indexes of all galleries in memory: the built-in one and the stored copies of the others."""

    def __init__(
        self, kind: str, configured: Sequence[Gallery], built_in: I, read: Callable[[str, str], Awaitable[I]]
    ) -> None:
        self._kind = kind
        self._configured = tuple(configured)
        self._galleries = self._configured
        self.built_in = built_in
        self._read_text = read
        # By gallery: the digest of the text that was read last, and its index.
        self._read: dict[str, tuple[str, I]] = {}
        self.states: tuple[GalleryState, ...] = (self._make_built_in_state(),)

    def list_indexes(self) -> list[I]:
        """Return the indexes, the built-in one first."""
        return [self.built_in, *(self._read[one.name][1] for one in self._galleries if one.name in self._read)]

    def list_unread(self) -> tuple[str, ...]:
        """Return the galleries that have neither been fetched yet nor failed to be."""
        known = {state.name for state in self.states if state.problem != NOT_FETCHED}
        return tuple(gallery.name for gallery in self._galleries if gallery.name not in known)

    async def load(self, database: Database) -> None:
        """Read the stored copies of all galleries again."""
        async with database.transaction() as tx:
            copies = {copy.name: copy for copy in await store.list_copies(tx, self._kind)}
            self._galleries = merge_galleries(self._configured, await store.list_galleries(tx, self._kind))
        states = [await self._load_one(gallery, copies.get(gallery.name)) for gallery in self._galleries]
        self.states = (self._make_built_in_state(), *states)

    def _make_built_in_state(self) -> GalleryState:
        own = self.built_in
        return GalleryState(name=BUILT_IN_GALLERY, url="", entries=len(own.entries), warnings=own.warnings)

    async def _load_one(self, gallery: Gallery, copy: store.GalleryCopy | None) -> GalleryState:
        url = redact_url(gallery.url)
        if copy is None or not copy.content or copy.url != url:
            self._read.pop(gallery.name, None)
            problem = copy.problem if copy is not None and copy.url == url else ""
            return GalleryState(name=gallery.name, url=url, entries=0, problem=problem or NOT_FETCHED)
        known = self._read.get(gallery.name)
        if known is None or known[0] != copy.sha256:
            try:
                index = await self._read_text(copy.content, gallery.name)
            except InvalidRequest as error:
                # The copy was valid when it was stored: an older or newer frontend has other rules.
                kept = len(known[1].entries) if known is not None else 0
                return GalleryState(name=gallery.name, url=url, entries=kept, problem=error.message, is_readable=False)
            for warning in index.warnings:
                log.warning("gallery entry left out", gallery=gallery.name, problem=warning)
            self._read[gallery.name] = (copy.sha256, index)
        index = self._read[gallery.name][1]
        return GalleryState(
            name=gallery.name, url=url, entries=len(index.entries), problem=copy.problem, warnings=index.warnings
        )
