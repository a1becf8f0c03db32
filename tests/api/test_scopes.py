"""What each scope may call, on every route that the application has. A route that is in no line here fails."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pytest
from starlette.routing import BaseRoute, Route

from corral.api.application import create_app
from corral.api.metrics import FrontendMetrics
from corral.domain.access import Scope
from tests.api.operations import FOR_EVERYBODY, SOME_ID, assert_envelope
from tests.api.test_authentication import make_key
from tests.support.frontends import RunningFrontend

OPEN = (
    *("/health", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/app", "/join", "/api/version"),
    "/favicon.ico",
)
# They show a credential of another kind, or none: a browser's session, a node's credential.
OTHERS = ("/api/session", "/api/node/", "/api/files/results/")
FOR_ADMINS = ("/api/audit", "/api/join", "/api/keys", "/api/settings", "/api/tokens", "/api/users")
# OpenAI's and Anthropic's, Ollama's, and what every holder of a key may know.
FOR_ASKING = (
    "/v1/",
    # What a tool may do depends on the key, which each call of a tool shows again.
    "/mcp",
    # Their own runs, tasks and jobs.
    "/api/runs",
    "/api/agent",
    *(f"/api/{call}" for call in ("chat", "generate", "embed", "embeddings", "tags", "show", "ps")),
    # Their own secrets, runs, tasks and agents, and the MCP servers that they may choose.
    "/api/secrets",
    "/api/runs",
    "/api/agent",
    "/api/agents",
    # Refused with a sentence: Ollama's way to change models is not ours.
    *(f"/api/{call}" for call in ("copy", "create", "delete", "pull", "push")),
)
FOR_OPERATING = (
    "/api/backend-intents",
    "/api/backends",
    "/api/cluster",
    "/api/events",
    "/api/explain",
    "/api/files",
    "/api/fine-tuning",
    "/api/fleet",
    "/api/history",
    "/api/live",
    "/api/models",
    "/api/nodes",
    "/api/operations",
    "/api/plan",
    "/api/quantization",
    "/api/rules",
    "/api/stream",
    "/api/usage",
    "/backend",
    "/backends",
    "/models",
    "/system",
)


def _begins(path: str, beginnings: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(one if one.endswith("/") else f"{one}/") for one in beginnings)


# Everybody may choose them, and admins declare them.
DECLARED_BY_ADMINS = "/api/mcp/servers"


def _get_required_scope(method: str, path: str) -> Scope:
    if _begins(path, (DECLARED_BY_ADMINS,)):
        return Scope.INFER if method == "GET" else Scope.ADMIN
    if path in FOR_EVERYBODY or _begins(path, FOR_ASKING):
        return Scope.INFER
    if _begins(path, FOR_ADMINS):
        return Scope.ADMIN
    assert _begins(path, FOR_OPERATING), f"{path} is in no line of this test: who may call it?"
    return Scope.OPERATE


def _routes(routes: Iterable[BaseRoute]) -> Iterator[Route]:
    for route in routes:
        if isinstance(route, Route):
            yield route
        else:
            # The framework keeps a router that was included as one thing.
            yield from _routes(route.original_router.routes)  # type: ignore[attr-defined] # its name is not public


def _calls() -> Iterator[tuple[str, str, Scope]]:
    """Method, path and scope of everything that takes a key."""
    for route in _routes(create_app(None, FrontendMetrics()).routes):
        if route.path == "/" or _begins(route.path, OPEN) or _begins(route.path, OTHERS):
            continue
        # What stands in braces; a converter such as `:path` has no place in an address.
        path = re.sub(r"\{\w+(:\w+)?\}", SOME_ID, route.path)
        for method in sorted(route.methods or ()):
            if method not in ("HEAD", "OPTIONS"):
                yield method, path, _get_required_scope(method, re.sub(r":\w+\}", "}", route.path))


async def _status(frontend: RunningFrontend, method: str, path: str, key: str | None) -> int:
    """Without a body and without reading the answer: some never end."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with frontend.http.request(method, f"{frontend.url}{path}", headers=headers) as answer:
        return answer.status


@pytest.mark.behaviour("GW-111")
@pytest.mark.parametrize("held", list(Scope))
async def test_key_may_call_what_its_scope_covers_and_nothing_else(frontend: RunningFrontend, held: Scope) -> None:
    key = (await make_key(frontend, scope=held))["key"]
    calls = list(_calls())
    assert {required for _, _, required in calls} == set(Scope)
    assert len(calls) > 100
    for method, path, required in calls:
        status = await _status(frontend, method, path, key)
        if held.covers(required):
            assert status not in (401, 403), f"{method} {path} with {held}: {status}"
        else:
            assert status == 403, f"{method} {path} with {held}: {status}"


@pytest.mark.behaviour("GW-111")
async def test_scoped_routes_refuse_callers_without_a_key(frontend: RunningFrontend) -> None:
    for method, path, _ in _calls():
        assert await _status(frontend, method, path, None) == 401, f"{method} {path}"


@pytest.mark.behaviour("GW-111")
async def test_refusal_names_the_scope_of_the_key_and_the_required_one(frontend: RunningFrontend) -> None:
    key = (await make_key(frontend, name="shop", scope="infer"))["key"]
    status, answer = await frontend.call("GET", "/api/nodes", key=key)
    assert status == 403
    error = assert_envelope(answer, code="not_allowed")
    assert error["message"] == "shop may only ask models."
    assert "--scope operate" in error["hint"]


def test_wider_scope_covers_the_narrower_ones_and_not_the_other_way_round() -> None:
    assert [[one.covers(other) for other in Scope] for one in Scope] == [
        [True, True, True],
        [False, True, True],
        [False, False, True],
    ]
    assert Scope.ADMIN.narrow_to(Scope.INFER) is Scope.INFER
    assert Scope.INFER.narrow_to(Scope.ADMIN) is Scope.INFER
