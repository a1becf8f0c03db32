"""Keeping the copies of galleries up to date.

    due -> the primary, then the mirrors in order -> reads as an index? -> the copy in PostgreSQL -> gallery.changed

Guarantee: only a text that reads as an index with at least one good entry replaces a copy; an error page, half a file
or an empty list never does, and then the next source is asked. A source that failed is passed over for ten minutes,
unless all of them have failed. What is due is told by the database, so a new leader goes on where the old one was.
Limit: indexes are not signed; whoever holds the address of a gallery decides what is in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from corral.backends.crowd import at_once
from corral.backends.documents import TEXT_LIMIT_BYTES
from corral.backends.index import read_index
from corral.backends.shelf import all_galleries
from corral.backends.sources import shown
from corral.domain.backend import Gallery
from corral.domain.errors import CorralError, InvalidRequest, NotFound, Unavailable
from corral.ports.fetch import Fetcher, Wanted
from corral.ports.runtime import Clock
from corral.store import galleries as store
from corral.store.database import Database, Transaction

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    every_s: float = 3600.0
    timeout_s: float = ATTEMPT_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Galleries of backends or of models; `read` raises `InvalidRequest` for a text that is no index of that kind."""

    name: str
    read: Callable[[str, str], Awaitable[object]]


class Refresher:
    """`tick` is for the leader; `refresh` may be asked of any frontend, at any time."""

    def __init__(
        self,
        database: Database,
        fetcher: Fetcher,
        clock: Clock,
        galleries: Sequence[Gallery],
        *,
        pace: Pace | None = None,
        kind: Kind | None = None,
    ) -> None:
        self._database = database
        self._fetcher = fetcher
        self._clock = clock
        self._configured = tuple(galleries)
        self._pace = pace or Pace()
        self._kind = kind or Kind(name=store.BACKENDS, read=read_index)
        # Sources that failed, by address: until when they are passed over.
        self._resting: dict[str, float] = {}
        self.is_refreshing = False

    async def tick(self) -> tuple[Refreshed, ...]:
        """Fetch what is due, and forget galleries that are no longer set up."""
        async with self._database.transaction() as tx:
            galleries = await self._known(tx)
            await store.keep_only(tx, {one.name: shown(one.url) for one in galleries}, self._kind.name)
            if not galleries:
                return ()
            known = {copy.name for copy in await store.list_stamps(tx, self._kind.name)}
            due = await store.list_due(tx, self._pace.every_s, AFTER_PROBLEM_S, self._kind.name)
        return await self._all(one for one in galleries if one.name in due or one.name not in known)

    async def refresh(self, names: Iterable[str] | None = None) -> tuple[Refreshed, ...]:
        """Fetch now: all of them, or those that are named."""
        async with self._database.transaction() as tx:
            galleries = {one.name: one for one in await self._known(tx)}
        wanted = list(galleries if names is None else names)
        for name in wanted:
            if name not in galleries:
                raise NotFound(f"There is no gallery {name!r} to fetch.", code="gallery_not_found")
        return await self._all(galleries[name] for name in wanted)

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

    async def _known(self, tx: Transaction) -> tuple[Gallery, ...]:
        return all_galleries(self._configured, await store.list_galleries(tx, self._kind.name))

    async def _all(self, galleries: Iterable[Gallery]) -> tuple[Refreshed, ...]:
        return await at_once([partial(self._one, gallery) for gallery in galleries], AT_ONCE)

    async def _one(self, gallery: Gallery) -> Refreshed:
        url = shown(gallery.url)
        async with self._database.transaction() as tx:
            stamp = next(
                (one for one in await store.list_stamps(tx, self._kind.name) if one.name == gallery.name), None
            )
        etag = stamp.etag if stamp is not None and stamp.url == url and stamp.sha256 else ""
        try:
            text = await self._from_somewhere(gallery, etag)
        except CorralError as error:
            async with self._database.transaction() as tx:
                await store.note_problem(tx, gallery.name, url, error.message, self._kind.name)
            log.warning("gallery not fetched", gallery=gallery.name, problem=error.message)
            return Refreshed(name=gallery.name, problem=error.message)
        async with self._database.transaction() as tx:
            if text.content is None:
                await store.note_unchanged(tx, gallery.name, self._kind.name)
                return Refreshed(name=gallery.name)
            told = replace(gallery, url=url)
            is_changed = await store.put_copy(tx, told, text.content, text.etag, self._kind.name)
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
        wanted = Wanted(url=url, headers=headers, limit_bytes=TEXT_LIMIT_BYTES, timeout_s=self._pace.timeout_s)
        answer = await self._fetcher.fetch(wanted)
        if answer.status == 304 and etag:
            return _Text(content=None)
        if answer.status != 200:
            raise Unavailable(f"{shown(url)} answered {answer.status}.", code="source_unavailable")
        try:
            content = answer.body.decode()
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"{shown(url)} is not text.", code="bad_gallery") from error
        await self._kind.read(content, gallery)
        return _Text(content=content, etag=answer.headers.get("etag", "")[:1000])
