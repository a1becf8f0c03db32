"""Secrets that were rotated or revoked away stay away, also when a start is given one of them again."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.api.operations import assert_envelope
from tests.api.test_authentication import make_key
from tests.api.test_users import make_user
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend


async def _works(frontend: RunningFrontend, secret: str) -> bool:
    return (await frontend.call("GET", "/api/me", key=secret))[0] == 200


async def _own_id(frontend: RunningFrontend) -> str:
    return str((await frontend.call("GET", "/api/me"))[1]["key_id"])


@pytest.mark.behaviour("KEY-1")
@pytest.mark.parametrize("body", [None, {"grace_s": 3600}])
async def test_start_does_not_recreate_admin_key_that_was_rotated(
    database_url: str, body: dict[str, int] | None
) -> None:
    async with running_frontend(database_url) as first:
        status, made = await first.call("POST", f"/api/keys/{await _own_id(first)}/rotate", body)
        assert status == 201
        # A second rotation: the secret that the start knows is neither the present one nor the one before it.
        status, made = await first.call("POST", f"/api/keys/{made['id']}/rotate", key=made["key"])
        assert status == 201
    async with running_frontend(database_url, admin_key=ADMIN_KEY) as second:
        assert not await _works(second, ADMIN_KEY)
        assert await _works(second, made["key"])
        assert [key["state"] for key in (await second.call("GET", "/api/keys", key=made["key"]))[1]] == ["active"]


@pytest.mark.behaviour("KEY-1")
async def test_start_does_not_recreate_admin_key_that_was_revoked(database_url: str) -> None:
    async with running_frontend(database_url) as first:
        other = await make_key(first, scope="admin")
        assert (await first.call("DELETE", f"/api/keys/{await _own_id(first)}"))[0] == 200
    async with running_frontend(database_url, admin_key=ADMIN_KEY) as second:
        assert not await _works(second, ADMIN_KEY)
        assert await _works(second, other["key"])


@pytest.mark.behaviour("KEY-1")
async def test_start_does_not_recreate_key_that_went_with_its_user(database_url: str) -> None:
    async with running_frontend(database_url) as first:
        user = await make_user(first, scope="admin")
        of_user = await make_key(first, scope="admin", user="ada")
        assert (await first.call("DELETE", f"/api/users/{user['id']}"))[0] == 200
    async with running_frontend(database_url, admin_key=of_user["key"]) as second:
        assert not await _works(second, of_user["key"])


@pytest.mark.behaviour("KEY-1")
async def test_start_makes_admin_key_of_secret_that_was_never_used_before(database_url: str) -> None:
    """The way back for whoever decides about the settings of a frontend."""
    async with running_frontend(database_url) as first:
        assert (await first.call("DELETE", f"/api/keys/{await _own_id(first)}?last=true"))[0] == 200
    fresh = f"{ADMIN_KEY}-another"
    async with running_frontend(database_url, admin_key=fresh) as second:
        assert await _works(second, fresh)
        assert (await second.call("GET", "/api/keys", key=fresh))[0] == 200


@pytest.mark.behaviour("KEY-4")
async def test_start_records_in_the_audit_that_it_made_an_admin_key_of_the_settings(frontend: RunningFrontend) -> None:
    """`corral keys recover` on a cluster that is down leaves the making of its key to the next start."""
    key_id = await _own_id(frontend)
    _, audit = await frontend.call("GET", "/api/audit")
    made = [(entry["actor"], entry["action"]) for entry in audit["entries"] if entry["target"] == key_id]
    assert made == [("settings", "key.create")]


async def test_last_admin_key_is_revoked_only_when_the_call_says_so(frontend: RunningFrontend) -> None:
    key_id = await _own_id(frontend)
    status, answer = await frontend.call("DELETE", f"/api/keys/{key_id}")
    assert (status, assert_envelope(answer)["code"]) == (409, "last_key")
    assert "corral keys recover" in answer["error"]["hint"]
    assert "last=true" in answer["error"]["hint"]
    assert (await frontend.call("DELETE", f"/api/keys/{key_id}?last=true"))[0] == 200
    assert not await _works(frontend, ADMIN_KEY)


async def test_key_is_made_for_inference_unless_scope_is_named(frontend: RunningFrontend) -> None:
    status, made = await frontend.call("POST", "/api/keys", {"name": "laptop"})
    assert (status, made["scope"]) == (201, "infer")
    assert (await frontend.call("GET", "/api/nodes", key=made["key"]))[0] == 403
    assert (await make_key(frontend, scope="admin"))["scope"] == "admin"


@pytest.mark.behaviour("KEY-4")
async def test_recover_with_the_address_of_the_database_prints_an_admin_key_that_works(database_url: str) -> None:
    async with running_frontend(database_url) as frontend:
        key_id = await _own_id(frontend)
        assert (await frontend.call("DELETE", f"/api/keys/{key_id}?last=true"))[0] == 200
        command = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "corral", "keys", "recover", "--database-url", database_url),
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await command.communicate()
        made = printed.decode().strip()
        assert (command.returncode, made.startswith("ck_")) == (0, True)
        status, audit = await frontend.call("GET", "/api/audit", key=made)
        assert status == 200
        assert "recovery by" in str(audit)
