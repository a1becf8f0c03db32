"""A creating call that is sent twice happens once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import text

from tests.api.operations import assert_envelope
from tests.api.test_authentication import make_key
from tests.support.frontends import RunningFrontend, running_frontend

CREATING = [("/api/tokens", {"name": "t"}), ("/api/keys", {"name": "k"})]


async def _create(
    frontend: RunningFrontend, path: str, body: Any, idempotency_key: str, **more: Any
) -> tuple[int, Any]:
    return await frontend.call("POST", path, body, Idempotency_Key=idempotency_key, **more)


async def _count(frontend: RunningFrontend, path: str) -> int:
    return len((await frontend.call("GET", path))[1])


@pytest.mark.behaviour("API-11")
@pytest.mark.parametrize(("path", "body"), CREATING)
async def test_repeated_call_gets_the_same_response_with_its_secret_on_any_frontend(
    frontend: RunningFrontend, database_url: str, path: str, body: Any
) -> None:
    before = await _count(frontend, path)
    async with running_frontend(database_url) as other:
        first = await _create(frontend, path, body, "one")
        assert first[0] == 201
        assert await _create(other, path, body, "one") == first
        headers = {"Idempotency-Key": "one", "Authorization": "Bearer x"}
        async with frontend.http.post(f"{frontend.url}{path}", json=body, headers=headers) as stranger:
            assert stranger.status == 401
    assert await _count(frontend, path) == before + 1


@pytest.mark.behaviour("API-11")
async def test_rotating_again_with_the_same_key_does_not_rotate_again(frontend: RunningFrontend) -> None:
    made = await make_key(frontend)
    first = await _create(frontend, f"/api/keys/{made['id']}/rotate", None, "r")
    assert await _create(frontend, f"/api/keys/{made['id']}/rotate", None, "r") == first
    assert (await frontend.call("GET", "/api/nodes", key=first[1]["key"]))[0] == 200


@pytest.mark.behaviour("API-11")
@pytest.mark.parametrize(("path", "body"), CREATING)
async def test_idempotency_key_with_another_body_is_refused(frontend: RunningFrontend, path: str, body: Any) -> None:
    assert (await _create(frontend, path, body, "k"))[0] == 201
    status, answer = await _create(frontend, path, body | {"name": "other"}, "k")
    assert status == 422
    assert assert_envelope(answer, code="idempotency_key_reused")["hint"]


@pytest.mark.behaviour("API-11")
@pytest.mark.parametrize(("path", "body"), CREATING)
async def test_many_at_once_on_two_frontends_make_one(
    frontend: RunningFrontend, database_url: str, path: str, body: Any
) -> None:
    before = await _count(frontend, path)
    async with running_frontend(database_url) as other:
        async with asyncio.TaskGroup() as together:
            started = [
                together.create_task(_create(target, path, body, "race"))
                for target in (frontend, other)
                for _ in range(5)
            ]
        answers = [task.result() for task in started]
    assert {status for status, _ in answers} == {201}
    assert len({str(answer) for _, answer in answers}) == 1
    assert await _count(frontend, path) == before + 1


@pytest.mark.behaviour("API-11")
async def test_call_that_failed_may_be_sent_again_with_the_same_key(frontend: RunningFrontend) -> None:
    assert (await _create(frontend, "/api/keys", {"name": ""}, "again"))[0] == 400
    assert (await _create(frontend, "/api/keys", {"name": "k"}, "again"))[0] == 201


@pytest.mark.behaviour("API-11")
async def test_keys_of_two_callers_do_not_meet(frontend: RunningFrontend) -> None:
    other = (await make_key(frontend))["key"]
    mine = await _create(frontend, "/api/tokens", {"name": "t"}, "same")
    theirs = await _create(frontend, "/api/tokens", {"name": "t"}, "same", key=other)
    assert mine[0] == theirs[0] == 201
    assert mine[1]["token"] != theirs[1]["token"]


@pytest.mark.behaviour("API-11")
@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_idempotency_key_of_no_or_endless_length_is_refused(frontend: RunningFrontend, key: str) -> None:
    status, answer = await _create(frontend, "/api/tokens", {"name": "t"}, key)
    assert status == 400
    assert_envelope(answer, code="invalid_request")


@pytest.mark.behaviour("API-11")
async def test_stored_idempotent_response_is_encrypted(frontend: RunningFrontend) -> None:
    _, token = await _create(frontend, "/api/tokens", {"name": "t"}, "sealed-with-this")
    async with frontend.database.transaction() as tx:
        rows = (await tx.execute(text("SELECT * FROM idempotency_keys"))).all()
    assert len(rows) == 1
    everything = b" ".join(value if isinstance(value, bytes) else str(value).encode() for value in rows[0])
    for secret in (token["token"], token["token"][8:20], "sealed-with-this"):
        assert secret.encode() not in everything
