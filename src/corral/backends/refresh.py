"""Keeps the copies of galleries up to date.

due -> the primary, then the mirrors in order -> reads as an index? -> the copy in PostgreSQL -> gallery.changed

Guarantee: only a text that reads as an index with at least one valid entry replaces a copy; an error page, half a
file or an empty list never does, and then the next source is tried. A source that failed is skipped for ten minutes,
unless all of them have failed. The database says what is due, so a new leader continues where the old one was.
Limit: indexes are not signed; the owner of a gallery's address decides what is in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import structlog

from corral.backends.documents import TEXT_LIMIT_BYTES
from corral.backends.index import read_index
from corral.backends.index_cache import merge_galleries
from corral.backends.sources import redact_url
from corral.domain.backend import Gallery
from corral.domain.errors import CorralError, InvalidRequest, NotFound, Unavailable
from corral.ports.files import Fetcher, FetchRequest
from corral.ports.runtime import Clock
from corral.runtime.attempt import AttemptFailure, AttemptSuccess, attempt
from corral.store import galleries as store
from corral.store.database import Database, Transaction

log = structlog.get_logger(__name__)

# How often the leader checks what is due; the interval of the galleries themselves is a setting.
LOOK_INTERVAL_S = 10.0
ATTEMPT_TIMEOUT_S = 120.0
COOLDOWN_S = 600.0
AFTER_PROBLEM_S = 300.0
# Galleries that are fetched at the same time.
AT_ONCE = 4
_ACCEPT = "application/yaml, text/yaml, text/plain, */*;q=0.5"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshResult:
    """Says what became of fetching one gallery's index again.

    No problem and not changed: the copy is up to date.
    """

    name: str
    is_changed: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _FetchedIndex:
    """Holds the text of a readable index; None if the source says that it has not changed."""

    content: str | None
    etag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshOptions:
    """Tunables of fetching gallery indexes again: how often, and the timeout of one attempt."""

    interval_s: float = 3600.0
    timeout_s: float = ATTEMPT_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryKind:
    """Describes one kind of galleries, those of backends or those of models, with the parser of its indexes."""

    name: str
    read: Callable[[str, str], Awaitable[object]]


class GalleryRefresher:
    """Fetches gallery indexes from their sources and stores the readable ones in PostgreSQL.

    `tick` runs on the leader only.
    """

    def __init__(
        self,
        database: Database,
        fetcher: Fetcher,
        clock: Clock,
        galleries: Sequence[Gallery],
        *,
        options: RefreshOptions | None = None,
        kind: GalleryKind | None = None,
    ) -> None:
        self._database = database
        self._fetcher = fetcher
        self._clock = clock
        self._configured = tuple(galleries)
        self._options = options or RefreshOptions()
        self._kind = kind or GalleryKind(name=store.BACKENDS, read=read_index)
        # Sources that failed, by address: until when they are skipped.
        self._cooling_down: dict[str, float] = {}
        self.is_refreshing = False

    async def tick(self) -> tuple[RefreshResult, ...]:
        """Fetch the due galleries, and delete copies of galleries that are no longer configured."""
        async with self._database.transaction() as tx:
            galleries = await self._list_galleries(tx)
            await store.delete_copies_except(tx, {one.name: redact_url(one.url) for one in galleries}, self._kind.name)
            if not galleries:
                return ()
            known = {copy.name for copy in await store.list_stamps(tx, self._kind.name)}
            due = await store.list_due(tx, self._options.interval_s, AFTER_PROBLEM_S, self._kind.name)
        return await self._refresh_all(one for one in galleries if one.name in due or one.name not in known)

    async def refresh(self, names: Iterable[str] | None = None) -> tuple[RefreshResult, ...]:
        """Fetch galleries now: all of them, or the named ones."""
        async with self._database.transaction() as tx:
            galleries = {one.name: one for one in await self._list_galleries(tx)}
        selected = list(galleries if names is None else names)
        for name in selected:
            if name not in galleries:
                raise NotFound(f"There is no gallery {name!r} to fetch.", code="gallery_not_found")
        return await self._refresh_all(galleries[name] for name in selected)

    async def refresh_once(self) -> tuple[RefreshResult, ...]:
        """Fetch all galleries now, also from sources that failed lately; does nothing if that is running already."""
        if self.is_refreshing:
            return ()
        self.is_refreshing = True
        try:
            self._cooling_down.clear()
            return await self.refresh()
        finally:
            self.is_refreshing = False

    async def _list_galleries(self, tx: Transaction) -> tuple[Gallery, ...]:
        return merge_galleries(self._configured, await store.list_galleries(tx, self._kind.name))

    async def _refresh_all(self, galleries: Iterable[Gallery]) -> tuple[RefreshResult, ...]:
        return await gather_limited([partial(self._refresh_one, gallery) for gallery in galleries], AT_ONCE)

    async def _refresh_one(self, gallery: Gallery) -> RefreshResult:
        url = redact_url(gallery.url)
        async with self._database.transaction() as tx:
            stamp = next(
                (one for one in await store.list_stamps(tx, self._kind.name) if one.name == gallery.name), None
            )
        etag = stamp.etag if stamp is not None and stamp.url == url and stamp.sha256 else ""
        try:
            text = await self._fetch_from_any_source(gallery, etag)
        except CorralError as error:
            async with self._database.transaction() as tx:
                await store.note_problem(tx, gallery.name, url, error.message, self._kind.name)
            log.warning("gallery not fetched", gallery=gallery.name, problem=error.message)
            return RefreshResult(name=gallery.name, problem=error.message)
        async with self._database.transaction() as tx:
            if text.content is None:
                await store.note_unchanged(tx, gallery.name, self._kind.name)
                return RefreshResult(name=gallery.name)
            stored_gallery = replace(gallery, url=url)
            is_changed = await store.put_copy(tx, stored_gallery, text.content, text.etag, self._kind.name)
        if is_changed:
            log.info("gallery changed", gallery=gallery.name)
        return RefreshResult(name=gallery.name, is_changed=is_changed)

    async def _fetch_from_any_source(self, gallery: Gallery, etag: str) -> _FetchedIndex:
        problems: list[str] = []
        for url in self._order_sources(gallery):
            # The validators of a mirror are its own: only the primary gets a conditional request.
            known = etag if url == gallery.url else ""
            try:
                text = await self._fetch_from(url, gallery.name, known)
            except (Unavailable, InvalidRequest) as error:
                self._cooling_down[url] = self._clock.monotonic() + COOLDOWN_S
                problems.append(error.message)
                continue
            self._cooling_down.pop(url, None)
            return text if url == gallery.url else _FetchedIndex(content=text.content)
        raise Unavailable(" ".join(problems), code="source_unavailable")

    def _order_sources(self, gallery: Gallery) -> list[str]:
        sources = list(dict.fromkeys((gallery.url, *gallery.mirrors)))
        now = self._clock.monotonic()
        ready = [url for url in sources if self._cooling_down.get(url, now) <= now]
        return ready or sources

    async def _fetch_from(self, url: str, gallery: str, etag: str) -> _FetchedIndex:
        headers = {"Accept": _ACCEPT} | ({"If-None-Match": etag} if etag else {})
        request = FetchRequest(
            url=url, headers=headers, limit_bytes=TEXT_LIMIT_BYTES, timeout_s=self._options.timeout_s
        )
        answer = await self._fetcher.fetch(request)
        if answer.status == 304 and etag:
            return _FetchedIndex(content=None)
        if answer.status != 200:
            raise Unavailable(f"{redact_url(url)} returned {answer.status}.", code="source_unavailable")
        try:
            content = answer.body.decode()
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"{redact_url(url)} is not text.", code="bad_gallery") from error
        await self._kind.read(content, gallery)
        return _FetchedIndex(content=content, etag=answer.headers.get("etag", "")[:1000])


async def gather_limited(calls: Sequence[Callable[[], Awaitable[T]]], limit: int) -> tuple[T, ...]:
    """Return the results, in the order of the calls."""
    semaphore = asyncio.Semaphore(limit)

    async def one(work: Callable[[], Awaitable[T]]) -> AttemptSuccess[T] | AttemptFailure:
        async with semaphore:
            return await attempt(work)

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one(work)) for work in calls]
    results: list[T] = []
    for task in running:
        outcome = task.result()
        if isinstance(outcome, AttemptFailure):
            raise outcome.error
        results.append(outcome.value)
    return tuple(results)
