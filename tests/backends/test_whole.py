"""Galleries in whole frontends: fetched by the leader without being asked, seen by all."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from corral.app.core import World
from corral.domain.backend import Gallery
from tests.backends.sites import fetcher, site
from tests.support import frontends
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.waiting import eventually

INDEX = "- {name: one, uri: 'https://files.example/one.zip', tags: [fresh]}\n"


@pytest.mark.behaviour("GAL-12", "GAL-13")
async def test_the_leader_fetches_a_gallery_by_itself_and_every_frontend_shows_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site() as place, fetcher() as http:
        url = place.text("/index", INDEX)
        monkeypatch.setattr(frontends, "World", partial(World, fetcher=http))
        options: dict[str, Any] = {"galleries": (Gallery(name="mine", url=url),), "leader_lease_s": 1.0}
        async with running_frontend(database_url, **options) as one, running_frontend(database_url, **options) as other:
            for running in (one, other):
                # The loop rests for seconds; a test need not.
                await eventually(partial(_shows, running))
            assert len([path for path in place.paths() if path == "/index"]) == 1


async def _shows(running: RunningFrontend) -> bool:
    running.core.gallery_loop.wake()
    status, page = await running.call("GET", "/api/backends?tag=fresh")
    assert status == 200, page
    return [entry["id"] for entry in page["backends"]] == ["mine@one"]
