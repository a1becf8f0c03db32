"""Who is let in, on every route that the description lists."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.api.operations import Operation, assert_envelope, operations
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.nodes import PretendNode, create_join_token, join_node
from tests.support.polling import eventually

ADMIN = [operation for operation in operations() if operation.is_for_admins]
NODE = [operation for operation in operations() if operation.is_for_nodes and operation.names_a_node]


_NUMBERS = itertools.count(1)


async def make_key(frontend: RunningFrontend, **body: Any) -> Any:
    name = f"made-{next(_NUMBERS)}"
    status, made = await frontend.call("POST", "/api/keys", {"name": name, "scope": "admin"} | body)
    assert status == 201, made
    return made


async def _nothing(frontend: RunningFrontend) -> str | None:
    return None


async def _unknown(frontend: RunningFrontend) -> str | None:
    return "ck_nobody-made-this-one-0123456789abcdefghij"


async def _revoked(frontend: RunningFrontend) -> str | None:
    made = await make_key(frontend)
    assert (await frontend.call("DELETE", f"/api/keys/{made['id']}"))[0] == 200
    return str(made["key"])


async def _rotated(frontend: RunningFrontend) -> str | None:
    made = await make_key(frontend)
    assert (await frontend.call("POST", f"/api/keys/{made['id']}/rotate"))[0] == 201
    return str(made["key"])


async def _expired(frontend: RunningFrontend) -> str | None:
    made = await make_key(frontend, expires_in_s=0.05)

    async def is_refused() -> bool:
        return (await frontend.call("GET", "/api/nodes", key=made["key"]))[0] == 401

    await eventually(is_refused)
    return str(made["key"])


async def _credential_of_a_node(frontend: RunningFrontend) -> str | None:
    return (await join_node(frontend)).credential


async def _join_token(frontend: RunningFrontend) -> str | None:
    return await create_join_token(frontend)


REFUSED = [_nothing, _unknown, _revoked, _rotated, _expired, _credential_of_a_node, _join_token]


@pytest.mark.behaviour("API-4")
@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make.__name__.strip("_"))
async def test_admin_routes_refuse_invalid_credentials(
    frontend: RunningFrontend, make: Callable[[RunningFrontend], Awaitable[str | None]]
) -> None:
    secret = await make(frontend)
    assert len(ADMIN) > 20
    for operation in ADMIN:
        status, answer = await frontend.call(operation.method, operation.path(), operation.body, key=secret)
        assert status == 401, f"{operation}: {answer}"
        error = assert_envelope(answer, code="not_authenticated")
        assert error["hint"], operation
        assert secret is None or secret not in str(answer)


@pytest.mark.behaviour("API-4")
async def test_unauthorised_answer_names_the_bearer_scheme_and_other_schemes_do_not_work(
    frontend: RunningFrontend,
) -> None:
    for sent in ("", f"Basic {ADMIN_KEY}", ADMIN_KEY, "Bearer "):
        async with frontend.http.get(f"{frontend.url}/api/nodes", headers={"Authorization": sent}) as answer:
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.behaviour("API-4")
@pytest.mark.parametrize("sent", [{"Authorization": f"bearer {ADMIN_KEY}"}, {"X-Api-Key": ADMIN_KEY}])
async def test_key_is_accepted_as_bearer_or_x_api_key(frontend: RunningFrontend, sent: dict[str, str]) -> None:
    async with frontend.http.get(f"{frontend.url}/api/nodes", headers=sent) as answer:
        assert answer.status == 200


@pytest.mark.behaviour("API-4")
async def test_key_in_the_address_is_not_looked_at(frontend: RunningFrontend) -> None:
    """Addresses end up in the logs of proxies."""
    query = "&".join(f"{name}={ADMIN_KEY}" for name in ("key", "api_key", "token", "access_token"))
    status, _ = await frontend.call("GET", f"/api/nodes?{query}", key=None)
    assert status == 401


@pytest.mark.behaviour("API-4")
async def test_key_of_strange_characters_is_refused_like_any_other(frontend: RunningFrontend) -> None:
    for key in ("é" * 40, "ck_" + "x" * 7000, " ", "ck_\t1"):
        async with frontend.http.get(f"{frontend.url}/api/nodes", headers={"X-Api-Key": key}) as answer:
            assert answer.status == 401, key
            assert_envelope(await answer.json(), code="not_authenticated")


async def _agent(frontend: RunningFrontend) -> tuple[PretendNode, str]:
    agent = PretendNode(frontend, "agent-1")
    status, answer = await agent.register(
        await create_join_token(frontend, approves=True), node_type="agent", address=""
    )
    assert status == 201, answer
    return agent, answer["api_token"]


async def test_key_of_an_agent_node_administers_nothing(frontend: RunningFrontend) -> None:
    agent, key = await _agent(frontend)
    for operation in ADMIN:
        path = operation.path(node=agent.id)
        status, answer = await frontend.call(operation.method, path, operation.body, key=key)
        assert status == 403, f"{operation}: {answer}"
        assert_envelope(answer, code="not_allowed")


async def test_key_of_an_agent_node_goes_with_the_node(frontend: RunningFrontend) -> None:
    agent, key = await _agent(frontend)
    assert (await frontend.call("GET", "/api/nodes", key=key))[0] == 403
    assert (await agent.call_as_admin("DELETE", ""))[0] == 200

    async def is_unknown() -> bool:
        return (await frontend.call("GET", "/api/nodes", key=key))[0] == 401

    await eventually(is_unknown)


@pytest.mark.behaviour("API-6")
async def test_node_route_takes_the_credential_of_that_node_and_no_other(frontend: RunningFrontend) -> None:
    node, other = await join_node(frontend, "a"), await join_node(frontend, "b")
    nearly = node.credential[:-1], node.credential + "x"
    wrong = (None, other.credential, ADMIN_KEY, await create_join_token(frontend), *nearly, node.boot_id)
    for operation in NODE:
        for secret in wrong:
            status, answer = await _as(frontend, operation, node, secret)
            assert status == 401, f"{operation} with {secret}: {answer}"
            assert_envelope(answer, code="node_credential_wrong", kind="node_error")
    assert (await node.heartbeat(bus_ok=True))[0] == 200
    assert (await node.read_as_admin())["status"] == "healthy"


@pytest.mark.behaviour("API-6")
async def test_refusal_that_is_remembered_does_not_lock_the_rightful_node_out(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    for _ in range(3):
        assert (await _as(frontend, Operation("POST", "/api/node/{node_id}/heartbeat"), node, "wrong"))[0] == 401
        assert (await node.heartbeat())[0] == 200


async def _as(
    frontend: RunningFrontend, operation: Operation, node: PretendNode, secret: str | None
) -> tuple[int, Any]:
    return await frontend.call(operation.method, operation.path(node_id=node.id), operation.body, key=secret)
