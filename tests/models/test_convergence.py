"""What is written at one frontend is seen at the other, once, and what was not written is seen nowhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import text

from corral.store.database import Database
from tests.bus.nats_server import NatsServer
from tests.loading.scene import put_model
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.polling import eventually


def _temperature(frontend: RunningFrontend) -> Any:
    served = frontend.core.router.snapshot.find("chat")
    return None if served is None else served.defaults.get("temperature")


async def _events(database: Database) -> int:
    async with database.transaction() as tx:
        return int((await tx.execute(text("SELECT count(*) FROM outbox WHERE kind = 'model.changed'"))).scalar_one())


async def _patch(frontend: RunningFrontend, value: float, **headers: str) -> int:
    status, _ = await frontend.call("PATCH", "/api/models/config/chat", {"defaults": {"temperature": value}}, **headers)
    return status


@pytest.mark.behaviour("NODE-137")
async def test_edit_at_one_frontend_is_seen_at_the_other_and_writes_one_event(
    database: Database, database_url: str, tmp_path: Any
) -> None:
    async with (
        NatsServer(tmp_path) as server,
        running_frontend(database_url, authority=server.authority, nats_url=server.url) as one,
        running_frontend(database_url, authority=server.authority, nats_url=server.url) as two,
    ):
        await put_model(database)
        before = await _events(database)
        assert await _patch(one, 0.5) == 200

        async def is_seen() -> bool:
            return bool(_temperature(one) == _temperature(two) == 0.5)

        await eventually(is_seen)
        assert await _events(database) == before + 1, "whoever hears of it tells nobody"


@pytest.mark.behaviour("NODE-138")
async def test_write_that_fails_is_seen_nowhere_and_concurrent_ones_converge(
    database: Database, database_url: str
) -> None:
    async with running_frontend(database_url) as one, running_frontend(database_url) as two:
        await put_model(database)
        assert await _patch(one, 0.25) == 200

        async def is_first() -> bool:
            return bool(_temperature(one) == _temperature(two) == 0.25)

        await eventually(is_first)
        assert await _patch(two, 0.75, If_Match="1") == 409
        assert (_temperature(one), _temperature(two)) == (0.25, 0.25)
        async with asyncio.TaskGroup() as group:
            for number in range(10):
                group.create_task(_patch((one, two)[number % 2], number / 10))

        async def is_settled() -> bool:
            async with database.transaction() as tx:
                config = (await tx.execute(text("SELECT config FROM models WHERE name = 'chat'"))).scalar_one()
            return bool(_temperature(one) == _temperature(two) == config["defaults"]["temperature"])

        await eventually(is_settled)
