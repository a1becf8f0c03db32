"""Somebody's transaction on the PostgreSQL server stays open after a write: no event can be read in its order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from sqlalchemy import text

from corral.store.database import Database
from tests.api.test_sessions import as_browser, log_in, secret_of
from tests.api.test_users import make_user
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import join_node
from tests.support.polling import eventually


@asynccontextmanager
async def open_transaction(database_url: str) -> AsyncIterator[None]:
    """A transaction that has written, and ends with this."""
    database = Database(database_url)
    try:
        async with database.transaction() as tx:
            # Ours would be ended by the server; those of other programs are not.
            await tx.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            await tx.execute(text("SELECT pg_current_xact_id()"))
            yield
    finally:
        await database.close()


async def make_key(frontend: RunningFrontend) -> tuple[str, str]:
    status, made = await frontend.call("POST", "/api/keys", {"name": "to-be-revoked"})
    assert status == 201, made
    return made["id"], made["key"]


async def accepts(frontend: RunningFrontend, key: str) -> bool:
    return (await frontend.call("GET", "/v1/models", key=key))[0] == 200


@pytest.mark.behaviour("FLT-70")
async def test_key_revoked_while_events_are_held_up_is_refused_at_the_other_frontend(database_url: str) -> None:
    async with running_frontend(database_url) as first, running_frontend(database_url) as second:
        key_id, key = await make_key(first)

        async def is_in_memory() -> bool:
            return second.core.directory.find_known_principal(key) is not None

        await eventually(is_in_memory)
        assert await accepts(second, key)
        async with open_transaction(database_url):
            status, answer = await first.call("DELETE", f"/api/keys/{key_id}")
            assert status < 300, answer

            async def is_refused() -> bool:
                return not await accepts(second, key)

            await eventually(is_refused, within_s=20)


@pytest.mark.behaviour("FLT-70")
async def test_user_disabled_and_node_removed_while_events_are_held_up_are_refused_at_the_other_frontend(
    database_url: str,
) -> None:
    async with running_frontend(database_url) as first, running_frontend(database_url) as second:
        user = await make_user(first, scope="operate")
        cookie = secret_of((await log_in(first))[2])
        node = replace(await join_node(first), frontend=second)

        async def session_status() -> int:
            return int((await as_browser(second, cookie, "/api/me"))[0])

        async def node_status() -> int:
            return (await node.heartbeat())[0]

        async def are_known() -> bool:
            return (await session_status(), await node_status()) == (200, 200)

        await eventually(are_known)
        async with open_transaction(database_url):
            assert (await first.call("PATCH", f"/api/users/{user['id']}", {"disabled": True}))[0] == 200
            assert (await first.call("DELETE", f"/api/nodes/{node.id}"))[0] < 300

            async def are_refused() -> bool:
                return await session_status() == 401 and await node_status() >= 400

            await eventually(are_refused, within_s=20)


@pytest.mark.behaviour("FLT-70")
async def test_age_of_held_up_events_is_in_degraded_until_the_transaction_ends(database_url: str) -> None:
    async with running_frontend(database_url) as frontend:

        async def is_reported() -> bool:
            _, answer = await frontend.call("GET", "/readyz", key=None)
            return any(one.startswith("A transaction that is open on the Post") for one in answer["degraded"])

        async with open_transaction(database_url):
            await make_key(frontend)
            async with frontend.database.transaction() as tx:
                await tx.execute(text("UPDATE outbox SET at = at - interval '1 minute' WHERE kind LIKE 'key.%'"))
            await eventually(is_reported)

        async def is_over() -> bool:
            return not await is_reported()

        await eventually(is_over)
