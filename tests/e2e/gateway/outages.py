"""PostgreSQL, NATS or both go away under traffic for as long as a test wants."""

from __future__ import annotations

from typing import Any

from tests.e2e.cluster import FrontendProcess
from tests.e2e.gateway.traffic import Traffic, traffic
from tests.e2e.models.scene import Models

ALL_WELL: dict[str, Any] = {"status": "ready", "degraded": []}


async def sentences(frontend: FrontendProcess) -> list[str]:
    status, readiness = await frontend.call("GET", "/readyz", key=None)
    assert status == 200, readiness
    return list(readiness["degraded"])


async def says(models: Models, frontend: FrontendProcess, *words: str) -> None:
    """Wait until a frontend's notices about outages have each of these words."""

    async def names_them() -> bool:
        degraded = await sentences(frontend)
        return all(any(word in sentence for sentence in degraded) for word in words)

    await models.look(names_them)


async def is_well(models: Models) -> None:
    """Wait until every frontend reports no outage and answers for the registry again."""
    for frontend in models.cluster.running():

        async def has_nothing_to_say(queried: FrontendProcess = frontend) -> bool:
            return not await sentences(queried) and (await queried.call("GET", "/api/nodes"))[0] == 200

        await models.look(has_nothing_to_say)


async def goes_away(models: Models, name: str, *, postgres: bool = False, nats: bool = False, away_s: float) -> None:
    """Check an outage under traffic: no request for a loaded model fails, nothing is loaded again, each is counted."""
    await models.put(name)
    await models.loaded(name, "worker-1")
    before = await models.process(name)
    cluster = models.cluster
    async with traffic(models, name) as going:
        if postgres:
            await cluster.postgres.kill()
        if nats:
            await cluster.nats.kill()
        for frontend in cluster.running():
            await says(models, frontend, *["PostgreSQL is away since"] * postgres, *["NATS is away since"] * nats)
        await going.more(50)
        await going.during(away_s)
        await _assert_overview_is_degraded(cluster.running()[0], postgres=postgres)
        if postgres:
            await cluster.postgres.start()
        if nats:
            await cluster.nats.start()
        await is_well(models)
        await cluster.become({"worker-1": "healthy"}, on_bus=True)
        await going.more(50)
    after = await models.process(name)
    assert (after["pid"], after["restarts"]) == (before["pid"], 0)
    await _is_counted(models, name, going)
    await models.forget(name)


async def _is_counted(models: Models, name: str, going: Traffic) -> None:
    """Wait until every answer is in PostgreSQL; no more than were sent, as clients gave up the last requests."""

    async def requests() -> int:
        usage = await models.cluster.running()[-1].get("/api/usage?by=model")
        return sum(row["requests"] for row in usage["rows"] if row["model"] == name)

    async def are_all_there() -> bool:
        return await requests() >= going.answers

    await models.look(are_all_there)
    assert going.answers <= await requests() <= going.requests


async def _assert_overview_is_degraded(frontend: FrontendProcess, *, postgres: bool) -> None:
    """Check that an admin sees the known state, and gets an error for what cannot be done."""
    overview = await frontend.get("/api/cluster")
    assert overview["degraded"]
    assert [node["name"] for node in overview["nodes"]] == ["worker-1"]
    status, answer = await frontend.call("GET", "/api/nodes")
    if postgres:
        assert (status, answer["error"]["code"]) == (503, "store_unavailable")
        assert overview["postgres"]["state"] == "down"
    else:
        assert status == 200
