"""A secret that is taken away at the very moment in which somebody shows it does not come back by another door."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import text

from corral.access.keys import rotate_key
from corral.access.users import change_user
from corral.adapters.system import SystemIdGenerator
from corral.store.database import Database
from tests.api.test_users import make_user
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.polling import eventually

# Somebody who waits for a lock of the test, except for those who write when keys were last used.
WAITS = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    " AND query NOT LIKE '%last_used_at%'"
)
LEFT_S = "SELECT extract(epoch FROM max(expires_at) - corral_now()) FROM sessions"
PASSWORD = "a long password"


async def read(database: Database, statement: str) -> Any:
    async with database.transaction() as tx:
        return (await tx.execute(text(statement))).scalar()


async def wait_for_lock(database: Database, task: asyncio.Task[Any] | None = None) -> None:
    """Wait until a transaction waits for a lock, or the task is over without one."""

    async def is_waiting() -> bool:
        return (task is not None and task.done()) or bool(await read(database, WAITS))

    await eventually(is_waiting)


async def key_id_of(frontend: RunningFrontend) -> str:
    return str((await frontend.call("GET", "/api/me"))[1]["key_id"])


@pytest.mark.behaviour("KEY-1")
async def test_start_during_a_rotation_does_not_recreate_the_admin_key(database_url: str) -> None:
    async with running_frontend(database_url) as first:
        key_id = await key_id_of(first)
        async with first.database.transaction() as tx:
            await rotate_key(tx, SystemIdGenerator(), key_id, "a test")
            starting = running_frontend(database_url, admin_key=ADMIN_KEY, waits=False)
            second = await starting.__aenter__()
            await wait_for_lock(first.database)
        try:

            async def is_ready() -> bool:
                return second.core.get_not_ready_reason() is None

            await eventually(is_ready)
            assert (await second.call("GET", "/api/me", key=ADMIN_KEY))[0] == 401
            assert await read(first.database, "SELECT count(*) FROM api_keys") == 1
        finally:
            await starting.__aexit__(None, None, None)


@pytest.mark.behaviour("KEY-9")
async def test_key_opens_no_session_while_its_secret_is_rotated(frontend: RunningFrontend) -> None:
    key_id = await key_id_of(frontend)
    async with frontend.database.transaction() as tx:
        await rotate_key(tx, SystemIdGenerator(), key_id, "a test")
        login = asyncio.create_task(frontend.call("POST", "/api/session", {"key": ADMIN_KEY}, key=None))
        await wait_for_lock(frontend.database, login)
    assert (await login)[0] == 401
    assert await read(frontend.database, "SELECT count(*) FROM sessions") == 0


@pytest.mark.behaviour("KEY-9")
async def test_session_of_a_rotated_secret_ends_with_its_grace(frontend: RunningFrontend) -> None:
    status, _ = await frontend.call("POST", f"/api/keys/{await key_id_of(frontend)}/rotate", {"grace_s": 3600})
    assert status == 201
    assert (await frontend.call("POST", "/api/session", {"key": ADMIN_KEY}, key=None))[0] == 201
    assert 0 < await read(frontend.database, LEFT_S) <= 3600


@pytest.mark.behaviour("KEY-9")
async def test_old_password_opens_no_session_while_it_is_changed(frontend: RunningFrontend) -> None:
    user = await make_user(frontend, password=PASSWORD)
    body = {"name": user["name"], "password": PASSWORD}
    assert (await frontend.call("POST", "/api/session", body, key=None))[0] == 201
    changed = await frontend.core.api_deps.sessions.passwords.hash_password("another long password")
    async with frontend.database.transaction() as tx:
        await change_user(tx, user["id"], {"password_hash": changed}, "a test")
        login = asyncio.create_task(frontend.call("POST", "/api/session", body, key=None))
        await wait_for_lock(frontend.database, login)
    assert (await login)[0] == 401
    assert await read(frontend.database, "SELECT count(*) FROM sessions") == 0


@pytest.mark.behaviour("KEY-11")
async def test_two_frontends_that_start_on_an_empty_database_make_one_admin_key(database_url: str) -> None:
    database = Database(database_url)
    starting = [running_frontend(database_url, admin_key=None, waits=False) for _ in range(2)]
    frontends: list[RunningFrontend] = []
    try:
        async with database.transaction() as tx:
            # Keys can be read and not written: nobody sees a key of the other while both are on their way.
            await tx.execute(text("LOCK TABLE api_keys IN SHARE MODE"))
            frontends.extend([await one.__aenter__() for one in starting])

            async def are_both_waiting() -> bool:
                return int(await read(database, WAITS)) == 2

            await eventually(are_both_waiting)

        async def are_ready() -> bool:
            return all(one.core.get_not_ready_reason() is None for one in frontends)

        await eventually(are_ready)
        made = [one.core.first_key for one in frontends if one.core.first_key is not None]
        assert len(made) == 1
        for each in frontends:
            status, keys = await each.call("GET", "/api/keys", key=made[0])
            assert (status, [key["name"] for key in keys]) == (200, ["admin"])
    finally:
        for one in starting[: len(frontends)]:
            await one.__aexit__(None, None, None)
        await database.close()
