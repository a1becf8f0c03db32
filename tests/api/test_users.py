"""Users: made, changed, disabled, deleted; and what happens to their keys and sessions then."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from tests.api.operations import assert_envelope
from tests.api.test_authentication import make_key
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.polling import eventually

PASSWORD = "a good long password"


async def make_user(frontend: RunningFrontend, name: str = "ada", **more: Any) -> Any:
    status, made = await frontend.call("POST", "/api/users", {"name": name, "password": PASSWORD} | more)
    assert status == 201, made
    return made


async def _change(frontend: RunningFrontend, user: Any, **change: Any) -> Any:
    status, changed = await frontend.call("PATCH", f"/api/users/{user['id']}", change)
    assert status == 200, changed
    return changed


async def _status(frontend: RunningFrontend, key: str, path: str = "/api/me") -> int:
    return (await frontend.call("GET", path, key=key))[0]


async def test_user_is_made_listed_shown_and_deleted(frontend: RunningFrontend) -> None:
    ada = await make_user(frontend, "Ada@Example.com", scope="operate")
    assert (ada["name"], ada["scope"], ada["has_password"], ada["created_by"]) == (
        "ada@example.com",
        "operate",
        True,
        "admin",
    )
    bob = (await frontend.call("POST", "/api/users", {"name": "bob"}))[1]
    assert (bob["scope"], bob["has_password"]) == ("infer", False)
    assert (await frontend.call("GET", "/api/users"))[1] == [ada, bob]
    assert (await frontend.call("GET", f"/api/users/{ada['id']}"))[1] == ada
    assert (await frontend.call("DELETE", f"/api/users/{ada['id']}"))[1] == ada
    status, answer = await frontend.call("GET", f"/api/users/{ada['id']}")
    assert (status, assert_envelope(answer)["code"]) == (404, "user_not_found")


async def test_name_is_taken_whatever_its_capitals(frontend: RunningFrontend) -> None:
    await make_user(frontend, "ada")
    status, answer = await frontend.call("POST", "/api/users", {"name": "ADA"})
    assert (status, assert_envelope(answer)["code"]) == (409, "user_name_taken")


WRONG: list[Any] = [
    {"name": ""},
    {"name": "two words"},
    {"name": "-rf"},
    {"name": "ä"},
    {"name": "x" * 256},
    {"name": "u", "scope": "root"},
    {"name": "u", "password": "short"},
    {"name": "u", "password": "x" * 1025},
    {"name": "u", "is_admin": True},
]


async def test_user_that_makes_no_sense_is_not_made(frontend: RunningFrontend) -> None:
    for body in WRONG:
        status, answer = await frontend.call("POST", "/api/users", body)
        assert status == 400, f"{body}: {answer}"
        assert "short" not in str(answer), "a refusal repeats no password"
    assert (await frontend.call("GET", "/api/users"))[1] == []


@pytest.mark.behaviour("GW-122")
async def test_responses_and_tables_hold_no_password(frontend: RunningFrontend) -> None:
    made = await make_user(frontend)
    assert PASSWORD not in str(made)
    async with frontend.database.transaction() as tx:
        kept = (await tx.execute(text("SELECT password_hash FROM users"))).scalar_one()
        events = (await tx.execute(text("SELECT string_agg(o::text, '') FROM outbox o"))).scalar_one()
    assert kept.startswith("scrypt$32768$8$1$")
    assert PASSWORD not in kept
    assert kept not in str(made) + events


@pytest.mark.behaviour("GW-125")
async def test_disabled_user_stops_with_every_key_here_at_once_and_soon_everywhere(
    frontend: RunningFrontend, database_url: str
) -> None:
    async with running_frontend(database_url) as other:
        ada = await make_user(frontend, scope="operate")
        key = await make_key(frontend, user="ada", scope="operate")
        assert (key["user_id"], key["user_name"]) == (ada["id"], "ada")
        assert await _status(frontend, key["key"]) == await _status(other, key["key"]) == 200
        assert (await _change(frontend, ada, disabled=True))["disabled_at"]
        assert await _status(frontend, key["key"]) == 401
        assert (await frontend.call("GET", f"/api/keys/{key['id']}"))[1]["state"] == "disabled"

        async def is_refused_there() -> bool:
            return await _status(other, key["key"]) == 401

        await eventually(is_refused_there)
        await _change(frontend, ada, disabled=False)
        assert await _status(frontend, key["key"]) == 200


@pytest.mark.behaviour("GW-125")
async def test_key_can_do_no_more_than_its_user_may_now(frontend: RunningFrontend) -> None:
    ada = await make_user(frontend, scope="infer")
    key = (await make_key(frontend, user="ada", scope="admin"))["key"]
    assert (await frontend.call("GET", "/api/me", key=key))[1]["scope"] == "infer"
    assert await _status(frontend, key, "/api/nodes") == 403
    await _change(frontend, ada, scope="operate")
    assert await _status(frontend, key, "/api/nodes") == 200
    assert await _status(frontend, key, "/api/users") == 403


@pytest.mark.behaviour("GW-125")
async def test_deleting_a_user_deletes_their_keys(frontend: RunningFrontend) -> None:
    ada = await make_user(frontend)
    key = await make_key(frontend, user="ada", scope="infer")
    await frontend.call("DELETE", f"/api/users/{ada['id']}")
    assert await _status(frontend, key["key"]) == 401
    assert (await frontend.call("GET", f"/api/keys/{key['id']}"))[0] == 404


async def test_user_of_the_last_admin_key_stays(frontend: RunningFrontend) -> None:
    ada = await make_user(frontend, scope="admin")
    await make_key(frontend, user="ada", scope="admin")
    me = (await frontend.call("GET", "/api/me"))[1]
    ada_key = (await make_key(frontend, user="ada", scope="admin"))["key"]
    assert (await frontend.call("DELETE", f"/api/keys/{me['key_id']}"))[0] == 200
    for method, change in (("DELETE", None), ("PATCH", {"disabled": True}), ("PATCH", {"scope": "operate"})):
        status, answer = await frontend.call(method, f"/api/users/{ada['id']}", change, key=ada_key)
        assert (status, assert_envelope(answer)["code"]) == (409, "last_key"), method
    assert await _status(frontend, ada_key, "/api/users") == 200
    assert await _status(frontend, ADMIN_KEY) == 401


async def test_key_for_an_unknown_user_is_refused(frontend: RunningFrontend) -> None:
    status, answer = await frontend.call("POST", "/api/keys", {"name": "k", "user": "nobody"})
    assert (status, assert_envelope(answer)["code"]) == (404, "user_not_found")
