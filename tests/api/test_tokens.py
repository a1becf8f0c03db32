"""Join tokens: how often, how long, and what each refusal says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.operations import assert_envelope
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import PretendNode, create_join_token, join_node
from tests.support.polling import eventually


async def _tokens(frontend: RunningFrontend) -> list[Any]:
    status, tokens = await frontend.call("GET", "/api/tokens")
    assert status == 200
    return list(tokens)


async def _refusal(frontend: RunningFrontend, token: str | None, name: str = "late") -> tuple[str, str]:
    """Code and sentence with which a registration is refused."""
    status, answer = await PretendNode(frontend, name).register(token)
    assert status == 401, answer
    error = assert_envelope(answer, kind="node_error")
    assert error["hint"]
    return error["code"], error["message"]


@pytest.mark.behaviour("API-9")
async def test_two_machines_race_for_the_last_use_of_a_token_and_exactly_one_joins(
    frontend: RunningFrontend, database_url: str
) -> None:
    async with running_frontend(database_url) as other:
        for round_number in range(4):
            token = await create_join_token(frontend, max_uses=3)
            racers = [PretendNode((frontend, other)[n % 2], f"r{round_number}-{n}") for n in range(8)]
            async with asyncio.TaskGroup() as together:
                started = [together.create_task(racer.register(token)) for racer in racers]
            answers = [task.result() for task in started]
            assert sorted(status for status, _ in answers) == [201] * 3 + [401] * 5
            assert {a["error"]["code"] for status, a in answers if status == 401} == {"join_token_used_up"}
            shown = (await _tokens(other))[-1]
            assert (shown["uses"], shown["state"]) == (3, "used_up")


@pytest.mark.behaviour("API-9")
async def test_each_refusal_of_a_token_has_its_own_sentence(frontend: RunningFrontend) -> None:
    used = await create_join_token(frontend)
    assert (await PretendNode(frontend, "first").register(used))[0] == 201
    revoked = await create_join_token(frontend)
    revoked_id = (await _tokens(frontend))[-1]["id"]
    status, answer = await frontend.call("DELETE", f"/api/tokens/{revoked_id}")
    assert (status, answer["state"]) == (200, "revoked")
    expired = await create_join_token(frontend, expires_in_s=0.05)

    async def has_expired() -> bool:
        return bool((await _tokens(frontend))[-1]["state"] == "expired")

    await eventually(has_expired)
    refusals = {
        "join_token_used_up": await _refusal(frontend, used),
        "join_token_revoked": await _refusal(frontend, revoked),
        "join_token_expired": await _refusal(frontend, expired),
        "join_token_missing": await _refusal(frontend, None),
        "join_token_unknown": await _refusal(frontend, "cj_nobody-made-this"),
    }
    assert {code: given[0] for code, given in refusals.items()} == {code: code for code in refusals}
    assert len({sentence for _, sentence in refusals.values()}) == len(refusals)
    assert "not a join token" in (await _refusal(frontend, ADMIN_KEY))[1]


@pytest.mark.behaviour("API-9")
async def test_registration_that_is_refused_for_another_reason_costs_no_use(frontend: RunningFrontend) -> None:
    await join_node(frontend, "taken")
    token = await create_join_token(frontend)
    status, answer = await PretendNode(frontend, "taken").register(token)
    assert (status, answer["error"]["code"]) == (409, "name_taken")
    for wrong in ({"labels": {"": "x"}}, {"node_type": "toaster"}, {"bus_public_key": "not a key"}):
        status, answer = await PretendNode(frontend, "wrong").register(token, **wrong)
        assert status == 400, answer
    assert (await _tokens(frontend))[-1]["uses"] == 0
    assert (await PretendNode(frontend, "right").register(token))[0] == 201


@pytest.mark.behaviour("API-9")
async def test_node_that_comes_back_needs_no_token_and_spends_none(frontend: RunningFrontend) -> None:
    token = await create_join_token(frontend, max_uses=2)
    node = PretendNode(frontend, "n")
    assert (await node.register(token))[0] == 201
    for again in (token, None, "cj_gone"):
        node.reboot()
        before = node.id
        assert (await node.register(again))[0] == 201
        assert node.id == before
    assert (await _tokens(frontend))[-1]["uses"] == 1


@pytest.mark.behaviour("API-9")
async def test_join_token_in_the_body_registers_and_approves(frontend: RunningFrontend) -> None:
    token = await create_join_token(frontend, approves=True, max_uses=None, expires_in_s=None)
    for name in ("a", "b", "c"):
        node = PretendNode(frontend, name)
        body = {"name": name, "credential": node.credential, "boot_id": node.boot_id, "address": "h:1", "token": token}
        status, answer = await frontend.call("POST", "/api/node/register", body, key=None)
        assert (status, answer["approved"], answer["status"]) == (201, True, "healthy")


WRONG: list[Any] = [
    {"name": ""},
    {"name": "x" * 101},
    {"name": "bell\a"},
    {"max_uses": 0},
    {"max_uses": -1},
    {"max_uses": 2**63},
    {"max_uses": 1.5},
    {"max_uses": "many"},
    {"expires_in_s": 0},
    {"expires_in_s": -3},
    {"expires_in_s": 1e30},
    {"approves": "perhaps"},
    {"max_use": 3},
    {"uses": 0},
    {"token": "cj_mine"},
    b'{"expires_in_s": NaN}',
    b'{"expires_in_s": -Infinity}',
]


async def test_token_that_makes_no_sense_is_not_made(frontend: RunningFrontend) -> None:
    for body in WRONG:
        status, answer = await frontend.call("POST", "/api/tokens", body, Content_Type="application/json")
        assert status == 400, f"{body}: {answer}"
        error = assert_envelope(answer, code="invalid_request")
        assert error["details"]["problems"][0]["field"] in str(body)
    assert await _tokens(frontend) == []
