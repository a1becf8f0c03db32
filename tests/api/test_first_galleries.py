"""Galleries that a frontend was given at its start: the first request for one of their entries waits for them."""

from __future__ import annotations

import asyncio

from aiohttp import web

from corral.domain.backend import Gallery
from tests.backends.sites import Site, site
from tests.backends.sites import fetcher as http_fetcher
from tests.support.frontends import running_frontend
from tests.support.nodes import join_node

BACKENDS = "- {name: mine, uri: 'https://files.example/one.zip', version: '1', manifest: {command: [run]}}\n"
MODELS = "- {name: small, backend: fake}\n"


class HeldSite:
    """A site that answers its index only once `release` is set."""

    def __init__(self, place: Site, path: str, text: str) -> None:
        self.release = asyncio.Event()
        self.gallery = Gallery(name="ours", url=f"{place.url}{path}")
        self._text = text
        place.answers[path] = self._answer

    async def _answer(self, _: web.Request) -> web.Response:
        await self.release.wait()
        return web.Response(text=self._text)


async def test_first_install_of_a_backend_waits_for_the_galleries_given_at_start(database_url: str) -> None:
    async with site() as place, http_fetcher() as fetcher:
        held = HeldSite(place, "/backends", BACKENDS)
        async with running_frontend(database_url, galleries=(held.gallery,), fetcher=fetcher) as frontend:
            await join_node(frontend)
            pending = asyncio.create_task(frontend.call("POST", "/api/backends/install/mine?plan=true"))
            await asyncio.wait({pending}, timeout=0.2)
            assert not pending.done()
            held.release.set()
            status, answer = await pending
    assert (status, answer["backend"]) == (200, "mine"), answer


async def test_first_install_of_a_model_waits_for_the_galleries_given_at_start(database_url: str) -> None:
    async with site() as place, http_fetcher() as fetcher:
        held = HeldSite(place, "/models", MODELS)
        async with running_frontend(database_url, model_galleries=(held.gallery,), fetcher=fetcher) as frontend:
            await join_node(frontend)
            pending = asyncio.create_task(frontend.call("POST", "/api/models/install/small"))
            await asyncio.wait({pending}, timeout=0.2)
            assert not pending.done()
            held.release.set()
            status, answer = await pending
    assert (status, answer["name"]) == (202, "small"), answer


async def test_install_of_an_unknown_backend_is_refused_when_a_gallery_cannot_be_fetched(database_url: str) -> None:
    async with site() as place, http_fetcher() as fetcher:
        missing = Gallery(name="ours", url=f"{place.url}/nothing")
        async with running_frontend(database_url, galleries=(missing,), fetcher=fetcher) as frontend:
            status, answer = await frontend.call("POST", "/api/backends/install/mine")
            assert (status, answer["error"]["code"]) == (404, "backend_not_found"), answer
