"""Frontends and PostgreSQL are killed under traffic: what PostgreSQL says was used is what clients have got."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import aiohttp
import pytest

from tests.e2e.cluster import FrontendProcess
from tests.e2e.models.scene import Models

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

CLIENTS = 4
PER_CLIENT = 15


@dataclass
class ClientResults:
    """Counts what clients have got, and the requests that broke, so that it is unknown whether they were answered."""

    answers: int = 0
    tokens: int = 0
    broken: int = 0

    async def ask(self, models: Models, name: str, *, times: int) -> None:
        for _ in range(times):
            try:
                answer = await models.chat(name, max_tokens=4)
            except (aiohttp.ClientError, OSError):
                self.broken += 1
                return
            assert answer.status == 200, answer.body
            self.answers += 1
            self.tokens += answer.body["usage"]["completion_tokens"]

    async def ask_together(self, models: Models, name: str, *, times: int = PER_CLIENT) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self.ask(models, name, times=times))


async def _restart(models: Models, frontend: FrontendProcess) -> None:
    await frontend.program.start()
    await models.look(frontend.is_ready)


async def _counted(models: Models, name: str) -> tuple[int, int]:
    """Return the requests and tokens that PostgreSQL has, once no record waits on the disk any more."""
    state = models.cluster.folder / "state" / "usage"

    async def all_is_shipped() -> bool:
        folders = [path for path in state.glob("*/*") if path.is_dir()]
        has_lines = any(path.stat().st_size for folder in folders for path in folder.glob("*.lines"))
        return len(folders) == len(models.cluster.running()) and not has_lines

    await models.look(all_is_shipped)
    usage = await models.cluster.running()[-1].get("/api/usage?by=model")
    (row,) = [row for row in usage["rows"] if row["model"] == name]
    return row["requests"], row["completion_tokens"]


@pytest.mark.behaviour("GW-161")
async def test_frontend_that_is_killed_again_and_again_has_every_answer_counted_once(models: Models) -> None:
    await models.put("counted")
    await models.loaded("counted", "worker-1")
    got, frontend = ClientResults(), models.cluster.frontends[0]
    for _ in range(2):
        asking = asyncio.create_task(got.ask_together(models, "counted", times=1000))
        expected = got.answers + 60

        async def enough(expected: int = expected) -> bool:
            return got.answers >= expected

        await models.look(enough)
        await frontend.program.kill()
        await asking
        await _restart(models, frontend)
    requests, tokens = await _counted(models, "counted")
    # A request that the kill has cut was counted, if its answer was on its way already.
    assert got.answers <= requests <= got.answers + got.broken
    assert got.broken <= 2 * CLIENTS
    # Now nobody asks while it dies: to the last request and token.
    calm = ClientResults()
    await calm.ask_together(models, "counted")
    await frontend.program.kill()
    await _restart(models, frontend)
    assert calm.broken == 0
    assert await _counted(models, "counted") == (requests + calm.answers, tokens + calm.tokens)
    await models.forget("counted")


async def test_usage_is_complete_after_postgresql_was_away_and_the_frontend_was_killed_meanwhile(
    models: Models,
) -> None:
    await models.put("away")
    await models.loaded("away", "worker-1")
    await models.wait_saved_on_disk("away")
    got, cluster = ClientResults(), models.cluster
    frontend = cluster.frontends[0]
    await got.ask_together(models, "away")
    await cluster.postgres.kill()
    await got.ask_together(models, "away")
    await frontend.program.kill()
    # It serves from what was kept on disk.
    await _restart(models, frontend)
    await got.ask_together(models, "away")

    async def says_so() -> bool:
        readiness = (await frontend.call("GET", "/readyz", key=None))[1]
        return any(
            f"the usage of {CLIENTS * PER_CLIENT} requests is waiting" in sentence for sentence in readiness["degraded"]
        )

    await models.look(says_so)
    await cluster.postgres.start()

    async def is_back() -> bool:
        return (await cluster.frontends[-1].call("GET", "/api/usage"))[0] == 200

    await models.look(is_back)
    assert got.broken == 0
    assert await _counted(models, "away") == (got.answers, got.tokens)
    await models.forget("away")
