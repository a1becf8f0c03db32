"""API keys: made, listed, rotated, revoked, expired; and never all of them gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.operations import assert_envelope
from tests.api.test_authentication import make_key
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.polling import eventually


async def _keys(frontend: RunningFrontend) -> dict[str, Any]:
    status, keys = await frontend.call("GET", "/api/keys")
    assert status == 200
    return {key["id"]: key for key in keys}


async def _works(frontend: RunningFrontend, secret: str) -> bool:
    return (await frontend.call("GET", "/api/nodes", key=secret))[0] == 200


@pytest.mark.behaviour("API-7")
async def test_new_key_works_at_once_on_this_and_on_every_other_frontend(
    frontend: RunningFrontend, database_url: str
) -> None:
    async with running_frontend(database_url) as other:
        made = await make_key(frontend, name="ci")
        assert await _works(frontend, made["key"])
        assert await _works(other, made["key"])
        listed = (await _keys(other))[made["id"]]
        assert listed["state"] == "active"
        assert listed["name"] == "ci"
        assert listed["created_by"] == "admin"
        assert made["key"].startswith(listed["prefix"])
        assert len(listed["prefix"]) < 12


@pytest.mark.behaviour("API-7")
async def test_rotated_key_keeps_its_id_and_its_old_secret_is_dead_when_the_answer_comes(
    frontend: RunningFrontend,
) -> None:
    made = await make_key(frontend)
    assert await _works(frontend, made["key"])
    status, rotated = await frontend.call("POST", f"/api/keys/{made['id']}/rotate")
    assert status == 201
    assert rotated["id"] == made["id"]
    assert rotated["key"] != made["key"]
    assert not await _works(frontend, made["key"])
    assert await _works(frontend, rotated["key"])


@pytest.mark.behaviour("API-7")
async def test_revoked_key_is_dead_when_the_answer_comes_and_soon_everywhere(
    frontend: RunningFrontend, database_url: str
) -> None:
    async with running_frontend(database_url) as other:
        made = await make_key(frontend)
        assert await _works(frontend, made["key"])
        assert await _works(other, made["key"])
        status, revoked = await frontend.call("DELETE", f"/api/keys/{made['id']}")
        assert (status, revoked["state"]) == (200, "revoked")
        assert not await _works(frontend, made["key"])

        async def is_dead_there() -> bool:
            return not await _works(other, made["key"])

        await eventually(is_dead_there)


@pytest.mark.behaviour("API-7")
async def test_revoked_key_stays_revoked(frontend: RunningFrontend) -> None:
    made = await make_key(frontend)
    await frontend.call("DELETE", f"/api/keys/{made['id']}")
    first = (await _keys(frontend))[made["id"]]["revoked_at"]
    status, answer = await frontend.call("POST", f"/api/keys/{made['id']}/rotate")
    assert status == 409
    assert_envelope(answer, code="key_revoked")
    assert (await frontend.call("DELETE", f"/api/keys/{made['id']}"))[0] == 200
    assert (await _keys(frontend))[made["id"]]["revoked_at"] == first


@pytest.mark.behaviour("API-7")
async def test_key_ends_at_its_expiry(frontend: RunningFrontend) -> None:
    made = await make_key(frontend, expires_in_s=0.3)

    async def is_dead() -> bool:
        return not await _works(frontend, made["key"])

    await eventually(is_dead)
    assert (await _keys(frontend))[made["id"]]["state"] == "expired"


async def test_last_key_cannot_be_revoked(frontend: RunningFrontend) -> None:
    (only,) = await _keys(frontend)
    status, answer = await frontend.call("DELETE", f"/api/keys/{only}")
    assert status == 409
    assert assert_envelope(answer, code="last_key")["hint"]
    assert await _works(frontend, ADMIN_KEY)


async def test_last_two_admin_keys_revoked_at_once_leave_one(frontend: RunningFrontend, database_url: str) -> None:
    async with running_frontend(database_url) as other:
        for _ in range(5):
            keys = [key for key, shown in (await _keys(frontend)).items() if shown["state"] == "active"]
            made = await make_key(frontend)
            async with asyncio.TaskGroup() as together:
                together.create_task(frontend.call("DELETE", f"/api/keys/{keys[0]}"))
                together.create_task(other.call("DELETE", f"/api/keys/{made['id']}"))
            left = [key for key, shown in (await _all_keys(frontend)).items() if shown == "active"]
            assert len(left) == 1
            await _restore(frontend)


async def _all_keys(frontend: RunningFrontend) -> dict[str, str]:
    """Straight from the registry: by now the tests' own key may be the one that is gone."""
    from corral.store import access  # noqa: PLC0415 - only here

    async with frontend.database.transaction() as tx:
        return {key.id: str(key.state) for key in await access.list_keys(tx)}


async def _restore(frontend: RunningFrontend) -> None:
    """Only the key of the tests is active again."""
    from sqlalchemy import text  # noqa: PLC0415 - only here

    async with frontend.database.transaction() as tx:
        await tx.execute(text("DELETE FROM api_keys WHERE name <> 'admin'"))
        await tx.execute(text("UPDATE api_keys SET revoked_at = NULL"))
    await frontend.core.directory.load()


WRONG: list[Any] = [
    {},
    {"name": ""},
    {"name": "x" * 101},
    {"name": "line\nbreak"},
    {"name": "nul\x00"},
    {"name": 7},
    {"name": None},
    {"name": "k", "expires_in_s": 0},
    {"name": "k", "expires_in_s": -1},
    {"name": "k", "expires_in_s": 1e300},
    {"name": "k", "expires_in_s": "soon"},
    {"name": "k", "expires": 5},
    {"name": "k", "is_admin": True},
    b'{"name": "k", "expires_in_s": NaN}',
    b'{"name": "k", "expires_in_s": Infinity}',
    b'{"name": "half \\ud800"}',
]


async def test_key_that_makes_no_sense_is_not_made(frontend: RunningFrontend) -> None:
    for body in WRONG:
        status, answer = await frontend.call("POST", "/api/keys", body, Content_Type="application/json")
        assert status == 400, f"{body}: {answer}"
        assert_envelope(answer)
    assert len(await _keys(frontend)) == 1


async def _last_used(frontend: RunningFrontend, key_id: str) -> str | None:
    await frontend.core.directory.write_uses()
    found: str | None = (await frontend.call("GET", f"/api/keys/{key_id}"))[1]["last_used_at"]
    return found


async def test_last_use_of_key_counts_calls_that_ask_no_model(frontend: RunningFrontend) -> None:
    made = await make_key(frontend, scope="operate")
    assert await _last_used(frontend, made["id"]) is None
    assert (await frontend.call("GET", "/api/nodes", key=made["key"]))[0] == 200
    assert await _last_used(frontend, made["id"]) is not None


async def test_last_use_of_key_counts_calls_of_its_session(frontend: RunningFrontend) -> None:
    made = await make_key(frontend, scope="operate")
    async with frontend.http.post(f"{frontend.url}/api/session", json={"key": made["key"]}) as answer:
        cookie = answer.cookies["corral_session"].value
    assert await _last_used(frontend, made["id"]) is None
    assert (await frontend.call("GET", "/api/nodes", key=None, Cookie=f"corral_session={cookie}"))[0] == 200
    assert await _last_used(frontend, made["id"]) is not None


async def test_uses_of_key_are_written_together_and_once_a_minute(frontend: RunningFrontend) -> None:
    made = await make_key(frontend, scope="operate")
    for _ in range(5):
        await frontend.call("GET", "/api/me", key=made["key"])
    first = await _last_used(frontend, made["id"])
    assert first is not None
    await frontend.call("GET", "/api/me", key=made["key"])
    assert await _last_used(frontend, made["id"]) == first


async def _create(frontend: RunningFrontend, **body: Any) -> tuple[int, str]:
    status, answer = await frontend.call("POST", "/api/keys", body)
    return status, assert_envelope(answer)["code"] if status != 201 else ""


@pytest.mark.behaviour("KEY-5")
async def test_name_of_a_working_key_is_refused_for_another(frontend: RunningFrontend) -> None:
    first = await make_key(frontend, name="laptop")
    assert await _create(frontend, name="laptop") == (409, "key_name_taken")
    await frontend.call("POST", f"/api/keys/{first['id']}/rotate")
    assert await _create(frontend, name="laptop") == (409, "key_name_taken")


@pytest.mark.behaviour("KEY-5")
async def test_name_of_a_revoked_key_can_be_used_again(frontend: RunningFrontend) -> None:
    first = await make_key(frontend, name="laptop")
    assert (await frontend.call("DELETE", f"/api/keys/{first['id']}"))[0] == 200
    assert await _create(frontend, name="laptop") == (201, "")


@pytest.mark.behaviour("KEY-5")
async def test_keys_of_different_users_may_share_a_name(frontend: RunningFrontend) -> None:
    assert (await frontend.call("POST", "/api/users", {"name": "ada", "password": "long enough for ada"}))[0] == 201
    await make_key(frontend, name="laptop")
    assert await _create(frontend, name="laptop", user="ada") == (201, "")


@pytest.mark.behaviour("KEY-5")
async def test_key_is_not_renamed_to_the_name_of_a_working_one(frontend: RunningFrontend) -> None:
    await make_key(frontend, name="laptop")
    other = await make_key(frontend, name="shop")
    status, answer = await frontend.call("PATCH", f"/api/keys/{other['id']}", {"name": "laptop"})
    assert (status, assert_envelope(answer)["code"]) == (409, "key_name_taken")
    assert (await frontend.call("PATCH", f"/api/keys/{other['id']}", {"name": "shop"}))[0] == 200


@pytest.mark.behaviour("KEY-5")
async def test_concurrent_keys_of_one_name_create_only_one(frontend: RunningFrontend) -> None:
    made = await asyncio.gather(*(_create(frontend, name="laptop") for _ in range(6)))
    assert sorted(status for status, _ in made) == [201, 409, 409, 409, 409, 409]
