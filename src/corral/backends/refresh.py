"""Keeping the copies of galleries up to date.

    due -> the primary, then the mirrors in order -> reads as an index? -> the copy in PostgreSQL -> gallery.changed

Guarantee: only a text that reads as an index with at least one good entry replaces a copy; an error page, half a file
or an empty list never does, and then the next source is asked. A source that failed is passed over for ten minutes,
unless all of them have failed. What is due is told by the database, so a new leader goes on where the old one was.
Limit: indexes are not signed; whoever holds the address of a gallery decides what is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from corral.backends.crowd import at_once
from corral.backends.index import TEXT_LIMIT_BYTES, read_index
from corral.backends.sources import shown
from corral.domain.backend import Gallery
from corral.domain.errors import CorralError, InvalidRequest, NotFound, Unavailable
from corral.ports.fetch import Fetcher, Wanted
from corral.ports.runtime import Clock
from corral.store import galleries as store
from corral.store.database import Database

log = structlog.get_logger(__name__)

# How often the leader looks whether something is due; the interval of the galleries themselves is a setting.
LOOK_INTERVAL_S = 10.0
ATTEMPT_TIMEOUT_S = 120.0
COOLDOWN_S = 600.0
AFTER_PROBLEM_S = 300.0
# Galleries that are fetched at the same time.
AT_ONCE = 4
_ACCEPT = "application/yaml, text/yaml, text/plain, */*;q=0.5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """What became of one gallery. No problem and not changed: the copy is what its source has."""

    name: str
    is_changed: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """A good index; None: the source says that it has not changed."""

    content: str | None
    etag: str = ""


class Refresher:
    """`tick` is for the leader; `refresh` may be asked of any frontend, at any time."""

    def __init__(
        self,
        database: Database,
        fetcher: Fetcher,
        clock: Clock,
        galleries: Sequence[Gallery],
        *,
        every_s: float = 3600.0,
        timeout_s: float = ATTEMPT_TIMEOUT_S,
    ) -> None:
        self._database = database
        self._fetcher = fetcher
        self._clock = clock
        self._galleries = {gallery.name: gallery for gallery in galleries}
        self._every_s = every_s
        self._timeout_s = timeout_s
        # Sources that failed, by address: until when they are passed over.
        self._resting: dict[str, float] = {}
        self.is_refreshing = False

    async def tick(self) -> tuple[Refreshed, ...]:
        """Fetch what is due, and forget galleries that are no longer set up."""
        urls = {name: shown(gallery.url) for name, gallery in self._galleries.items()}
        async with self._database.transaction() as tx:
            await store.keep_only(tx, urls)
            if not urls:
                return ()
            known = {copy.name for copy in await store.list_stamps(tx)}
            due = await store.list_due(tx, self._every_s, AFTER_PROBLEM_S)
        return await self._all(name for name in urls if name in due or name not in known)

    async def refresh(self, names: Iterable[str] | None = None) -> tuple[Refreshed, ...]:
        """Fetch now: all of them, or those that are named."""
        wanted = list(self._galleries if names is None else names)
        for name in wanted:
            if name not in self._galleries:
                raise NotFound(f"There is no gallery {name!r} to fetch.", code="gallery_not_found")
        return await self._all(wanted)

    async def refresh_once(self) -> tuple[Refreshed, ...]:
        """Fetch all of them now, sources that failed lately too; nothing, if that is being done already."""
        if self.is_refreshing:
            return ()
        self.is_refreshing = True
        try:
            self._resting.clear()
            return await self.refresh()
        finally:
            self.is_refreshing = False

    async def _all(self, names: Iterable[str]) -> tuple[Refreshed, ...]:
        return await at_once([partial(self._one, self._galleries[name]) for name in names], AT_ONCE)

    async def _one(self, gallery: Gallery) -> Refreshed:
        url = shown(gallery.url)
        async with self._database.transaction() as tx:
            stamp = next((one for one in await store.list_stamps(tx) if one.name == gallery.name), None)
        etag = stamp.etag if stamp is not None and stamp.url == url and stamp.sha256 else ""
        try:
            text = await self._from_somewhere(gallery, etag)
        except CorralError as error:
            async with self._database.transaction() as tx:
                await store.note_problem(tx, gallery.name, url, error.message)
            log.warning("gallery not fetched", gallery=gallery.name, problem=error.message)
            return Refreshed(name=gallery.name, problem=error.message)
        async with self._database.transaction() as tx:
            if text.content is None:
                await store.note_unchanged(tx, gallery.name)
                return Refreshed(name=gallery.name)
            is_changed = await store.put_copy(tx, gallery.name, url, text.content, text.etag)
        if is_changed:
            log.info("gallery changed", gallery=gallery.name)
        return Refreshed(name=gallery.name, is_changed=is_changed)

    async def _from_somewhere(self, gallery: Gallery, etag: str) -> _Text:
        problems: list[str] = []
        for url in self._order(gallery):
            # A mirror's marks are its own: only the primary is asked whether it has changed.
            known = etag if url == gallery.url else ""
            try:
                text = await self._from(url, gallery.name, known)
            except (Unavailable, InvalidRequest) as error:
                self._resting[url] = self._clock.monotonic() + COOLDOWN_S
                problems.append(error.message)
                continue
            self._resting.pop(url, None)
            return text if url == gallery.url else _Text(content=text.content)
        raise Unavailable(" ".join(problems), code="source_unavailable")

    def _order(self, gallery: Gallery) -> list[str]:
        sources = list(dict.fromkeys((gallery.url, *gallery.mirrors)))
        now = self._clock.monotonic()
        rested = [url for url in sources if self._resting.get(url, now) <= now]
        return rested or sources

    async def _from(self, url: str, gallery: str, etag: str) -> _Text:
        headers = {"Accept": _ACCEPT} | ({"If-None-Match": etag} if etag else {})
        wanted = Wanted(url=url, headers=headers, limit_bytes=TEXT_LIMIT_BYTES, timeout_s=self._timeout_s)
        answer = await self._fetcher.fetch(wanted)
        if answer.status == 304 and etag:
            return _Text(content=None)
        if answer.status != 200:
            raise Unavailable(f"{shown(url)} answered {answer.status}.", code="source_unavailable")
        try:
            content = answer.body.decode()
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"{shown(url)} is not text.", code="bad_gallery") from error
        await read_index(content, gallery)
        return _Text(content=content, etag=answer.headers.get("etag", "")[:1000])
