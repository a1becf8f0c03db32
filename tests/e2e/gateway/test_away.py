"""Parts go away under traffic: no request for a loaded model fails, and the frontends say what is wrong."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.cluster import FrontendProcess
from tests.e2e.gateway.outages import goes_away, is_well, says
from tests.e2e.gateway.traffic import traffic
from tests.e2e.models.scene import Models

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

SECONDS_S = 4.0


@pytest.mark.behaviour("GW-153")
async def test_postgresql_goes_away_under_traffic(models: Models) -> None:
    await goes_away(models, "no-postgresql", postgres=True, away_s=SECONDS_S)


@pytest.mark.behaviour("GW-153")
async def test_nats_goes_away_under_traffic(models: Models) -> None:
    await goes_away(models, "no-nats", nats=True, away_s=SECONDS_S)


@pytest.mark.behaviour("GW-153")
async def test_postgresql_and_nats_go_away_under_traffic(models: Models) -> None:
    await goes_away(models, "neither", postgres=True, nats=True, away_s=SECONDS_S)


@pytest.mark.behaviour("GW-154")
async def test_leader_is_killed_under_traffic_and_another_one_leads(models: Models) -> None:
    await models.put("leaderless")
    await models.loaded("leaderless", "worker-1")
    leader, term = await models.cluster.leader()
    other = next(place for place, one in enumerate(models.cluster.frontends[:2]) if one is not leader)
    async with traffic(models, "leaderless", via=[other]) as going:
        await leader.program.kill()

        async def another_leads() -> bool:
            found = (await models.cluster.frontends[other].get("/api/cluster"))["leader"]
            return bool(found["holder"] == models.cluster.frontends[other].id and found["term"] > term)

        await models.look(another_leads)
        await going.more(50)
        await leader.program.start()
        await models.look(leader.is_ready)
        await going.more(20)
    await models.forget("leaderless")


async def _restart_with_a_stream_open(models: Models, frontend: FrontendProcess) -> None:
    """Restart a frontend that never completed its start, and check that an open stream ends as it should."""
    async with models.stream("kept", via=1, max_tokens=40) as stream:
        assert await stream.next() is not None
        ending = asyncio.create_task(frontend.program.end())
        assert (await stream.rest())[-1] == "[DONE]"
        assert await ending == 0
    await frontend.program.start()
    await models.look(frontend.is_ready)


async def test_frontend_that_is_started_while_postgresql_is_away_serves_and_becomes_whole(models: Models) -> None:
    await models.put("kept", options={"tokens_per_s": "20"})
    await models.loaded("kept", "worker-1")
    frontend = models.cluster.frontends[1]
    await models.wait_saved_on_disk("kept")
    await frontend.program.kill()
    await models.cluster.postgres.kill()
    await models.cluster.nats.kill()
    await frontend.program.start()
    await models.look(frontend.is_ready)
    await says(models, frontend, "serving from memory as of", "NATS is away")
    assert (await models.answers("kept", via=1)).node == "worker-1"
    status, answer = await frontend.call("GET", "/api/models/config")
    assert (status, answer["error"]["code"]) == (503, "store_unavailable")
    await _restart_with_a_stream_open(models, frontend)
    async with traffic(models, "kept") as going:
        await models.cluster.postgres.start()
        await models.cluster.nats.start()
        await is_well(models)
        await going.more(20)
    await models.forget("kept")
