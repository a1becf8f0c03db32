"""Web pages of other origins call models where the setting names them, also on the hot path, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corral.policy.serving.cors import CorsPolicy
from tests.serving.scene import an_engine, keep_only_the_feed, serve
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend

PAGE = "https://chat.example.com"
OTHER = "https://other.example.com"
CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
ASKS = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
ALLOWED = "Access-Control-Allow-Origin"


@pytest.fixture
async def opened(database_url: str, tmp_path: Path) -> AsyncIterator[RunningFrontend]:
    """A frontend that lets pages of one origin in, with a model."""
    async with running_frontend(database_url, cors_policy=CorsPolicy((PAGE,))) as frontend:
        await keep_only_the_feed(frontend)
        with an_engine(tmp_path) as engine:
            await serve(frontend, engine)
            yield frontend


async def call(
    frontend: RunningFrontend, method: str, path: str, origin: str, **more: str
) -> tuple[int, dict[str, str]]:
    headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Origin": origin} | more
    body = CHAT if method == "POST" else None
    async with frontend.http.request(method, frontend.url + path, json=body, headers=headers) as answer:
        await answer.read()
        return answer.status, dict(answer.headers)


@pytest.mark.behaviour("GW-224")
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/api/tags"), ("GET", "/health")],
)
async def test_page_reads_answers_of_models_when_its_origin_is_set(
    opened: RunningFrontend, method: str, path: str
) -> None:
    for _ in range(2):
        status, headers = await call(opened, method, path, PAGE)
        assert (status, headers[ALLOWED], headers["Vary"]) == (200, PAGE, "origin")
        assert "Access-Control-Allow-Credentials" not in headers
    status, headers = await call(opened, method, path, OTHER)
    assert (status, ALLOWED in headers) == (200, False)


@pytest.mark.behaviour("GW-224")
async def test_preflight_is_answered_without_a_key_when_the_origin_is_set(opened: RunningFrontend) -> None:
    for path in ("/v1/chat/completions", "/v1/messages", "/api/chat"):
        headers = {"Origin": PAGE} | ASKS
        async with opened.http.options(opened.url + path, headers=headers) as answer:
            assert (answer.status, answer.headers[ALLOWED]) == (204, PAGE)
            assert answer.headers["Access-Control-Allow-Headers"] == "authorization,content-type"
            assert "POST" in answer.headers["Access-Control-Allow-Methods"]


@pytest.mark.behaviour("GW-224")
async def test_preflight_is_refused_with_the_name_of_the_setting_when_the_origin_is_not_set(
    opened: RunningFrontend,
) -> None:
    async with opened.http.options(f"{opened.url}/v1/models", headers={"Origin": OTHER} | ASKS) as answer:
        error = (await answer.json())["error"]
        assert (answer.status, error["code"], ALLOWED in answer.headers) == (403, "origin_not_allowed", False)
        assert "cors_origins" in error["message"]


@pytest.mark.behaviour("GW-224")
async def test_management_stays_closed_to_pages_when_their_origin_is_set(opened: RunningFrontend) -> None:
    status, headers = await call(opened, "GET", "/api/nodes", PAGE)
    assert (status, ALLOWED in headers) == (200, False)
    async with opened.http.options(f"{opened.url}/api/nodes", headers={"Origin": PAGE} | ASKS) as answer:
        assert (answer.status, ALLOWED in answer.headers) == (405, False)


@pytest.mark.behaviour("GW-224")
@pytest.mark.parametrize(
    "path",
    [
        "/v1/files", "/v1/files/file-1/content", "/v1/batches", "/v1/batches/b/cancel", "/v1/mcp/servers/chat",
        "/v1/mcp/prompts/chat/greet", "/v1/mcp/resources/chat/read", "/api/agents", "/api/tasks", "/mcp",
    ],
)  # fmt: skip
async def test_what_no_model_answers_stays_closed_to_pages_when_their_origin_is_set(
    opened: RunningFrontend, path: str
) -> None:
    _, headers = await call(opened, "GET", path, PAGE)
    assert ALLOWED not in headers
    async with opened.http.options(opened.url + path, headers={"Origin": PAGE} | ASKS) as answer:
        assert answer.status != 204
        assert ALLOWED not in answer.headers


@pytest.mark.behaviour("GW-224")
async def test_chat_with_the_mcp_servers_of_a_model_is_a_call_of_a_model_for_pages(opened: RunningFrontend) -> None:
    path = "/v1/mcp/chat/completions"
    async with opened.http.options(opened.url + path, headers={"Origin": PAGE} | ASKS) as answer:
        assert (answer.status, answer.headers[ALLOWED]) == (204, PAGE)


@pytest.mark.behaviour("GW-224")
async def test_cors_allows_no_origin_when_none_is_set(database_url: str) -> None:
    async with running_frontend(database_url) as frontend:
        status, headers = await call(frontend, "GET", "/v1/models", PAGE)
        assert (status, ALLOWED in headers) == (200, False)


@pytest.mark.behaviour("GW-224")
async def test_cors_allows_any_origin_when_a_star_is_set(database_url: str) -> None:
    async with running_frontend(database_url, cors_policy=CorsPolicy(("*",))) as frontend:
        assert (await call(frontend, "GET", "/v1/models", OTHER))[1][ALLOWED] == OTHER


@pytest.mark.parametrize("path", ["/health", "/healthz", "/api/version"])
async def test_health_and_version_are_answered_without_a_key(database_url: str, path: str) -> None:
    async with running_frontend(database_url) as frontend, frontend.http.get(frontend.url + path) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/chat/completions", "ends with /v1: use /v1/chat/completions"),
        ("/models", "ends with /v1: use /v1/models"),
        ("/v1/v1/messages", "Remove it"),
        ("/v1/nothing", "openapi.json"),
    ],
)
async def test_wrong_base_address_gets_a_hint(database_url: str, path: str, hint: str) -> None:
    async with running_frontend(database_url) as frontend:
        status, answer = await frontend.call("POST", path, {})
        assert status in (404, 405)
        assert hint in answer["error"]["hint"]
