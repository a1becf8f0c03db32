"""Copies of galleries: real servers, a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiohttp import web
from sqlalchemy import text

from corral.adapters.http import HttpFetcher
from corral.backends.catalog import BackendCatalog
from corral.backends.refresh import AFTER_PROBLEM_S, COOLDOWN_S, GalleryRefresher, RefreshOptions, RefreshResult
from corral.domain.backend import Gallery
from corral.domain.errors import NotFound
from corral.events.feed import Feed
from corral.store import galleries as store
from corral.store.database import Database
from tests.backends.entries import parsed
from tests.backends.sites import HTML, HandClock, Site, fetcher, site

ONE = "- {name: one, uri: 'https://files.example/one.zip'}\n"
TWO = ONE + "- {name: two, uri: 'https://files.example/two.zip'}\n"


@dataclass
class RefreshScene:
    """One gallery called mine, at /index with mirrors /m1 and /m2 of one site."""

    database: Database
    place: Site
    http: HttpFetcher
    clock: HandClock

    @property
    def gallery(self) -> Gallery:
        url = self.place.url
        return Gallery(name="mine", url=f"{url}/index", mirrors=(f"{url}/m1", f"{url}/m2"))

    def refresher(self, *galleries: Gallery, timeout_s: float = 20.0) -> GalleryRefresher:
        chosen = galleries or (self.gallery,)
        return GalleryRefresher(
            self.database, self.http, self.clock, chosen, options=RefreshOptions(timeout_s=timeout_s)
        )

    async def copy(self, name: str = "mine") -> store.GalleryCopy:
        async with self.database.transaction() as tx:
            return next(copy for copy in await store.list_copies(tx) if copy.name == name)

    async def age(self, seconds: float) -> None:
        """Let the last try lie this long in the past."""
        async with self.database.transaction() as tx:
            await tx.execute(
                text("UPDATE gallery_copies SET tried_at = tried_at - make_interval(secs => :s)"), {"s": seconds}
            )

    async def events(self) -> list[str]:
        async with self.database.transaction() as tx:
            rows = await tx.execute(text("SELECT key FROM outbox WHERE kind = 'gallery.changed' ORDER BY number"))
            return [row.key for row in rows]


@pytest.fixture
async def bench(database: Database) -> AsyncIterator[RefreshScene]:
    async with site() as place, fetcher() as http:
        yield RefreshScene(database=database, place=place, http=http, clock=HandClock())


@pytest.mark.behaviour("OPS-99")
async def test_gallery_refresh_fetches_the_primary_source_first_and_keeps_its_text(bench: RefreshScene) -> None:
    bench.place.text("/index", ONE)
    bench.place.text("/m1", TWO)
    assert await bench.refresher().refresh() == (RefreshResult(name="mine", is_changed=True),)
    assert bench.place.paths() == ["/index"]
    copy = await bench.copy()
    assert (copy.content, copy.problem, copy.url) == (ONE, "", bench.gallery.url)


@pytest.mark.behaviour("OPS-99")
@pytest.mark.parametrize("failure", ["refused", 404, 500, "html", "empty", "broken", "binary", "huge", "silent"])
async def test_bad_primary_falls_back_to_the_mirrors_in_order(bench: RefreshScene, failure: str | int) -> None:
    await _break(bench.place, failure)
    bench.place.text("/m1", HTML)
    bench.place.text("/m2", TWO)
    gallery = bench.gallery
    if failure == "refused":
        gallery = Gallery(name="mine", url="http://127.0.0.1:1/index", mirrors=gallery.mirrors)
    result = await bench.refresher(gallery, timeout_s=0.5 if failure == "silent" else 20.0).refresh()
    assert result == (RefreshResult(name="mine", is_changed=True),)
    assert bench.place.paths()[-2:] == ["/m1", "/m2"]
    assert (await bench.copy()).content == TWO


async def _break(place: Site, failure: str | int) -> None:
    async def silent(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def binary(_: web.Request) -> web.Response:
        return web.Response(body=b"\xff\xfe\x00")

    texts = {"html": HTML, "empty": "[]", "broken": ONE + " - x: [", "huge": "#" * (5 << 20) + "\n" + ONE}
    if isinstance(failure, int):
        place.text("/index", ONE, status=failure)
    elif failure in texts:
        place.text("/index", texts[failure])
    else:
        place.answers["/index"] = {"silent": silent, "binary": binary}.get(failure, silent)


@pytest.mark.behaviour("OPS-99")
@pytest.mark.parametrize("later", [(200, HTML), (200, ""), (200, "[]"), (500, TWO), (200, TWO[:-20])])
async def test_invalid_index_does_not_replace_the_stored_copy(bench: RefreshScene, later: tuple[int, str]) -> None:
    bench.place.text("/index", ONE)
    await bench.refresher().refresh()
    status, body = later
    for path in ("/index", "/m1", "/m2"):
        bench.place.text(path, body, status=status)
    (result,) = await bench.refresher().refresh()
    assert result.problem
    assert not result.is_changed
    copy = await bench.copy()
    assert (copy.content, copy.problem) == (ONE, result.problem)
    assert await bench.events() == ["mine"]
    catalog = BackendCatalog(bench.database, [bench.gallery], built_in=parsed())
    await catalog.load()
    assert catalog.find("mine@one").name == "one"
    assert catalog.states[1].problem == result.problem


async def test_failed_source_is_passed_over_for_ten_minutes(bench: RefreshScene) -> None:
    refresher = bench.refresher()
    bench.place.text("/index", "", status=500)
    bench.place.text("/m1", ONE)
    await refresher.refresh()
    bench.place.text("/index", TWO)
    bench.clock.now_s += COOLDOWN_S - 1
    await refresher.refresh()
    assert bench.place.paths() == ["/index", "/m1", "/m1"]
    bench.clock.now_s += 2
    await refresher.refresh()
    assert bench.place.paths()[3:] == ["/index"]
    assert (await bench.copy()).content == TWO


async def test_gallery_refresh_tries_all_sources_again_after_all_have_failed(bench: RefreshScene) -> None:
    refresher = bench.refresher()
    (result,) = await refresher.refresh()
    assert result.problem.count("returned 404") == 3
    bench.place.text("/m2", ONE)
    assert await refresher.refresh() == (RefreshResult(name="mine", is_changed=True),)
    assert bench.place.paths() == ["/index", "/m1", "/m2"] * 2


async def test_fetch_that_the_caller_gives_up_does_not_count_against_the_source(bench: RefreshScene) -> None:
    arrived = asyncio.Event()

    async def silent(_: web.Request) -> web.Response:
        arrived.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    refresher = bench.refresher()
    bench.place.answers["/index"] = silent
    asking = asyncio.create_task(refresher.refresh())
    await arrived.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    bench.place.text("/index", ONE)
    await refresher.refresh()
    assert bench.place.paths() == ["/index", "/index"]


async def test_gallery_is_fetched_when_it_is_due_and_not_before(bench: RefreshScene) -> None:
    bench.place.text("/index", ONE)
    assert await bench.refresher().tick() == (RefreshResult(name="mine", is_changed=True),)
    # Another leader, which knows only what the database knows.
    assert await bench.refresher().tick() == ()
    await bench.age(3500)
    assert await bench.refresher().tick() == ()
    await bench.age(200)
    assert await bench.refresher().tick() == (RefreshResult(name="mine"),)
    assert len(bench.place.requests) == 2
    # The same text is no change, and nobody is told of one.
    assert await bench.events() == ["mine"]


async def test_gallery_that_could_not_be_fetched_is_tried_sooner(bench: RefreshScene) -> None:
    assert [one.problem != "" for one in await bench.refresher().tick()] == [True]
    assert await bench.refresher().tick() == ()
    await bench.age(AFTER_PROBLEM_S + 1)
    bench.place.text("/index", ONE)
    assert await bench.refresher().tick() == (RefreshResult(name="mine", is_changed=True),)
    assert (await bench.copy()).problem == ""


async def test_unchanged_index_is_not_sent_again(bench: RefreshScene) -> None:
    answers = []

    async def marked(request: web.Request) -> web.Response:
        is_known = request.headers.get("If-None-Match") == '"v1"'
        answers.append(304 if is_known else 200)
        return web.Response(status=304) if is_known else web.Response(text=ONE, headers={"ETag": '"v1"'})

    bench.place.answers["/index"] = marked
    await bench.refresher().refresh()
    before = await bench.copy()
    assert await bench.refresher().refresh() == (RefreshResult(name="mine"),)
    after = await bench.copy()
    assert answers == [200, 304]
    assert after.content == ONE
    assert before.fetched_at is not None
    assert after.fetched_at is not None
    assert after.fetched_at > before.fetched_at
    assert await bench.events() == ["mine"]


async def test_mark_of_a_mirror_is_not_taken_for_that_of_the_primary(bench: RefreshScene) -> None:
    bench.place.text("/m1", ONE, ETag='"mirror"')
    await bench.refresher().refresh()
    bench.place.text("/index", TWO, ETag='"primary"')
    await bench.refresher().refresh()
    assert all("If-None-Match" not in request.headers for request in bench.place.requests)
    assert (await bench.copy()).etag == '"primary"'


async def test_unexpected_304_of_a_source_is_refused(bench: RefreshScene) -> None:
    bench.place.text("/index", "", status=304)
    bench.place.text("/m1", ONE)
    await bench.refresher().refresh()
    assert (await bench.copy()).content == ONE


async def test_change_reaches_the_other_frontends_through_the_feed(bench: RefreshScene) -> None:
    other = BackendCatalog(bench.database, [bench.gallery], built_in=parsed())
    feed = Feed(bench.database, other.follow, other.load)
    await feed.begin()
    await other.load()
    assert other.states[1].problem == "not fetched yet"
    bench.place.text("/index", ONE)
    await bench.refresher().refresh()
    await feed.tick()
    assert other.find("one").id == "mine@one"
    bench.place.text("/index", TWO)
    await bench.refresher().refresh()
    await feed.tick()
    assert other.find("two").id == "mine@two"
    assert (other.states[1].entries, other.states[1].problem) == (2, "")


async def test_gallery_that_is_gone_or_moved_is_forgotten(bench: RefreshScene) -> None:
    bench.place.text("/index", ONE)
    bench.place.text("/other", ONE)
    kept = Gallery(name="kept", url=f"{bench.place.url}/other")
    await bench.refresher(bench.gallery, kept).tick()
    moved = Gallery(name="mine", url=f"{bench.place.url}/moved")
    # Also before the leader has noticed: what came from another address is not used.
    catalog = BackendCatalog(bench.database, [moved, kept], built_in=parsed())
    await catalog.load()
    assert catalog.get("mine@one") is None
    assert catalog.get("kept@one") is not None
    await bench.refresher(moved, kept).tick()
    assert (await bench.copy()).content == ""
    await bench.refresher(kept).tick()
    async with bench.database.transaction() as tx:
        assert [copy.name for copy in await store.list_copies(tx)] == ["kept"]


async def test_password_in_a_gallery_url_is_neither_stored_nor_reported(bench: RefreshScene) -> None:
    secret = bench.place.url.replace("://", "://u:hunter22@") + "/index?token=hunter22"
    (result,) = await bench.refresher(Gallery(name="mine", url=secret)).refresh()
    bench.place.text("/index", ONE)
    assert "hunter22" not in result.problem
    await bench.refresher(Gallery(name="mine", url=secret)).refresh()
    assert "hunter22" not in repr(await bench.copy())
    assert bench.place.requests[-1].query["token"] == "hunter22"
    assert bench.place.requests[-1].headers["Authorization"].startswith("Basic ")
    catalog = BackendCatalog(bench.database, [Gallery(name="mine", url=secret)], built_in=parsed())
    await catalog.load()
    assert catalog.get("mine@one") is not None


async def test_gallery_that_is_added_does_not_change_what_a_plain_name_means(bench: RefreshScene) -> None:
    bench.place.text("/index", "- {name: Brain, uri: /opt/brain}\n- {name: own, uri: /opt/own}\n")
    bench.place.text("/other", "- {name: own, uri: /opt/other}\n")
    galleries = [bench.gallery, Gallery(name="other", url=f"{bench.place.url}/other")]
    await bench.refresher(*galleries).refresh()
    catalog = BackendCatalog(bench.database, galleries, built_in=parsed())
    await catalog.load()
    assert catalog.find("brain").id == "corral@brain"
    assert catalog.find("mine@brain").id == "mine@Brain"
    assert catalog.find("own").id == "mine@own"
    assert catalog.resolve("other@own", "default").source.uri == "/opt/other"


async def test_gallery_refresh_takes_one_gallery_and_refuses_an_unknown_one(bench: RefreshScene) -> None:
    bench.place.text("/other", ONE)
    refresher = bench.refresher(bench.gallery, Gallery(name="other", url=f"{bench.place.url}/other"))
    assert await refresher.refresh(["other"]) == (RefreshResult(name="other", is_changed=True),)
    with pytest.raises(NotFound):
        await refresher.refresh(["nobody"])


def test_gallery_that_comes_with_corral_is_good() -> None:
    from corral.backends.catalog import read_built_in  # noqa: PLC0415
    from corral.engines import list_gallery_files  # noqa: PLC0415

    if list_gallery_files():
        index = read_built_in()
        assert index.warnings == ()
        assert index.entries
