"""Galleries in whole frontends: fetched by the leader on its own, seen by all."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from corral.app.core import CoreDeps
from corral.domain.backend import Gallery
from tests.backends.sites import Site, fetcher, site
from tests.support import frontends
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.polling import eventually

INDEX = "- {name: one, uri: 'https://files.example/one.zip', tags: [fresh]}\n"


async def test_leader_fetches_a_gallery_by_itself_and_every_frontend_shows_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site() as place, fetcher() as http:
        url = place.text("/index", INDEX)
        monkeypatch.setattr(frontends, "CoreDeps", partial(CoreDeps, fetcher=http))
        options: dict[str, Any] = {"galleries": (Gallery(name="mine", url=url),), "leader_lease_s": 1.0}
        async with running_frontend(database_url, **options) as one, running_frontend(database_url, **options) as other:
            for running in (one, other):
                # The loop rests for seconds; a test need not.
                await eventually(partial(_shows, running))
            assert len([path for path in place.paths() if path == "/index"]) == 1


async def _shows(running: RunningFrontend) -> bool:
    running.core.loops["galleries"].wake()
    status, page = await running.call("GET", "/api/backends?tag=fresh")
    assert status == 200, page
    return [entry["id"] for entry in page["backends"]] == ["mine@one"]


async def test_any_frontend_refreshes_galleries_on_request_and_reports_the_result(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site() as place, fetcher() as http:
        url = place.text("/index", "it is broken", status=500).replace("http://", "http://me:hunter22@")
        monkeypatch.setattr(frontends, "CoreDeps", partial(CoreDeps, fetcher=http))
        options: dict[str, Any] = {"galleries": (Gallery(name="mine", url=url),)}
        async with running_frontend(database_url, **options) as leader:
            await eventually(partial(_says, leader, "returned 500"))
            async with running_frontend(database_url, **options) as follower:
                assert not follower.core.leader.is_leader()
                assert await _says(follower, "returned 500")
                place.text("/index", INDEX)
                status, answer = await follower.call("POST", "/api/backends/galleries/refresh")
                assert (status, [one["name"] for one in answer["galleries"]]) == (202, ["corral", "mine"])
                for running in (follower, leader):
                    await eventually(partial(_has_one, running))
                assert (await follower.call("POST", "/api/backends/galleries/refresh", key=None))[0] == 401


async def _says(running: RunningFrontend, problem: str) -> bool:
    running.core.loops["galleries"].wake()
    for path in ("/api/backends/galleries", "/backends/galleries"):
        status, found = await running.call("GET", path)
        assert status == 200, found
        assert "hunter22" not in str(found)
        if problem not in found[1]["problem"]:
            return False
        assert (found[1]["entries"], found[1].get("fetched_at")) == (0, None)
    return True


async def _has_one(running: RunningFrontend) -> bool:
    _, found = await running.call("GET", "/api/backends/galleries")
    mine = found[1]
    return mine["entries"] == 1 and mine["problem"] == "" and mine["fetched_at"] is not None


async def test_galleries_are_fetched_by_one_round_at_a_time(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = asyncio.Event()

    async def wait(_: web.Request) -> web.Response:
        await go_on.wait()
        return web.Response(text=INDEX)

    async with site() as place, fetcher() as http:
        url = place.text("/index", INDEX)
        monkeypatch.setattr(frontends, "CoreDeps", partial(CoreDeps, fetcher=http))
        async with running_frontend(database_url, galleries=(Gallery(name="mine", url=url),)) as running:
            await eventually(partial(_has_one, running))
            place.answers["/index"] = wait
            before = len(place.requests)
            refresh = running.core.refresher.refresh_once
            async with asyncio.TaskGroup() as group:
                first = group.create_task(refresh())
                await eventually(partial(_has_requests, place, before + 1))
                answer = (await running.call("POST", "/api/backends/galleries/refresh"))[1]
                assert "already" in answer["message"]
                assert await refresh() == ()
                go_on.set()
            assert [one.name for one in first.result()] == ["mine"]
            assert len(place.requests) == before + 1


async def _has_requests(place: Site, times: int) -> bool:
    return len(place.requests) >= times
