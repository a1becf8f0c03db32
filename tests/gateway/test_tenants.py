"""Keys with lists and limits where models get requests: on the hot path, in the list of models, in another dialect."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.api.test_authentication import make_key
from tests.api.test_sessions import OWN, as_browser, log_in, secret_of
from tests.api.test_users import make_user
from tests.engines.engine_processes import Engine
from tests.serving.scene import an_engine, keep_only_the_feed, put_model, serve
from tests.support.frontends import RunningFrontend, running_frontend

CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hello"}]}
PATHS = [
    ("/v1/chat/completions", CHAT),
    ("/v1/completions", {"model": "chat", "prompt": "x"}),
    ("/v1/embeddings", {"model": "chat", "input": "x"}),
    ("/v1/messages", CHAT | {"max_tokens": 5}),
    ("/api/chat", CHAT | {"stream": False}),
]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with an_engine(tmp_path / "one") as running:
        yield running


@pytest.fixture
async def frontend(database_url: str, engine: Engine) -> AsyncIterator[RunningFrontend]:
    """With one loaded model, and one that nobody has loaded."""
    async with running_frontend(database_url) as running:
        await keep_only_the_feed(running)
        await put_model(running.database, "other", aliases=("alias-of-other",))
        await serve(running, engine)
        yield running


async def _ask(frontend: RunningFrontend, key: str, path: str = "/v1/chat/completions", body: Any = CHAT) -> Any:
    return await frontend.call("POST", path, body, key=key)


@pytest.mark.behaviour("GW-112")
@pytest.mark.parametrize(("path", "body"), PATHS, ids=[path for path, _ in PATHS])
async def test_model_outside_the_list_is_refused_in_every_dialect(
    frontend: RunningFrontend, path: str, body: Any
) -> None:
    key = (await make_key(frontend, scope="infer", models=["oth*"]))["key"]
    status, answer = await _ask(frontend, key, path, body)
    assert status == 404, answer
    assert "There is no model named 'chat' that this key may use." in str(answer)
    absent = (await _ask(frontend, key, path, body | {"model": "tach"}))[1]
    assert _sentence(absent).replace("tach", "chat") == _sentence(answer), "it tells whether the model exists"


@pytest.mark.behaviour("GW-112")
async def test_hints_name_only_models_of_the_list(frontend: RunningFrontend) -> None:
    key = (await make_key(frontend, scope="infer", models=["oth*"]))["key"]
    for status, answer in (await _ask(frontend, key, body=CHAT | {"model": "cha"}), await _look(frontend, key, "cha")):
        assert status == 404
        assert "chat" not in str(answer)
    for status, answer in (
        await _ask(frontend, key, body=CHAT | {"model": "othe"}),
        await _look(frontend, key, "othe"),
    ):
        assert status == 404
        assert "Did you mean other?" in str(answer)


@pytest.mark.behaviour("GW-112")
async def test_disabled_model_outside_the_list_is_answered_as_absent(frontend: RunningFrontend) -> None:
    key = (await make_key(frontend, scope="infer", models=["chat"]))["key"]
    await put_model(frontend.database, "other", enabled=False)
    await frontend.core.router.snapshot.refresh(["other"])
    status, answer = await _ask(frontend, key, body=CHAT | {"model": "other"})
    assert (status, answer["error"]["code"]) == (404, "model_not_found")


@pytest.mark.behaviour("GW-112")
async def test_capabilities_show_only_models_of_the_list(frontend: RunningFrontend) -> None:
    key = (await make_key(frontend, scope="infer", models=["oth*"]))["key"]
    status, answer = await frontend.call("GET", "/api/models/capabilities", key=key)
    assert (status, [model["name"] for model in answer["data"]]) == (200, ["other"])
    every = (await frontend.call("GET", "/api/models/capabilities"))[1]["data"]
    assert [model["name"] for model in every] == ["chat", "other"]


@pytest.mark.behaviour("GW-112")
async def test_load_status_of_model_outside_the_list_is_answered_as_absent(frontend: RunningFrontend) -> None:
    key = (await make_key(frontend, scope="infer", models=["chat"]))["key"]
    status, hidden = await frontend.call("GET", "/api/models/other/load-status", key=key)
    assert (status, hidden["error"]["code"]) == (404, "model_not_found")
    absent = (await frontend.call("GET", "/api/models/rehto/load-status", key=key))[1]
    assert absent["error"]["message"].replace("rehto", "other") == hidden["error"]["message"]
    assert (await frontend.call("GET", "/api/models/chat/load-status?quiet=true", key=key))[0] == 204


def _sentence(answer: Any) -> str:
    """Return the error of an envelope of OpenAI, Anthropic or Ollama, without the request's id."""
    error = answer["error"]
    return str(error) if isinstance(error, str) else str(error["message"])


async def _look(frontend: RunningFrontend, key: str, name: str) -> tuple[int, Any]:
    return await frontend.call("GET", f"/v1/models/{name}", key=key)


@pytest.mark.behaviour("GW-112")
async def test_key_with_a_model_list_sees_and_uses_only_those_models(frontend: RunningFrontend) -> None:
    key = (await make_key(frontend, scope="infer", models=["ch?t"]))["key"]
    status, listed = await frontend.call("GET", "/v1/models", key=key)
    assert (status, [model["id"] for model in listed["data"]]) == (200, ["chat"])
    assert (await frontend.call("GET", "/v1/models/other", key=key))[0] == 404
    status, answer = await frontend.call("GET", "/v1/models/with%0Abreak", key=key)
    assert (status, answer["error"]["code"]) == (404, "model_not_found")
    assert (await _ask(frontend, key))[0] == 200
    status, answer = await _ask(frontend, key, body=CHAT | {"model": "alias-of-other"})
    assert (status, answer["error"]["code"]) == (404, "model_not_found")


@pytest.mark.behaviour("GW-112")
async def test_model_that_is_allowed_by_an_alias_is_allowed_and_capitals_count(frontend: RunningFrontend) -> None:
    key = (await make_key(frontend, scope="infer", models=["alias-*", "CHAT"]))["key"]
    listed = (await frontend.call("GET", "/v1/models", key=key))[1]
    assert [model["id"] for model in listed["data"]] == ["other"]
    assert (await _ask(frontend, key))[0] == 404


@pytest.mark.behaviour("GW-117")
async def test_request_above_the_rate_limit_raises_the_openai_clients_rate_limit_error(
    frontend: RunningFrontend,
) -> None:
    key = (await make_key(frontend, scope="infer", limits=[{"requests_per_minute": 2}]))["key"]
    client = AsyncOpenAI(base_url=f"{frontend.url}/v1", api_key=key, max_retries=0)
    for _ in range(2):
        await client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "hello"}])
    with pytest.raises(openai.RateLimitError) as caught:
        await client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "hello"}])
    assert caught.value.code == "rate_limit_exceeded"
    assert caught.value.type == "rate_limit_error"
    assert 1 <= int(caught.value.response.headers["Retry-After"]) <= 30
    await client.close()


@pytest.mark.behaviour("GW-117")
@pytest.mark.parametrize(("path", "body"), PATHS[1:], ids=[path for path, _ in PATHS[1:]])
async def test_limit_holds_in_every_dialect(frontend: RunningFrontend, path: str, body: Any) -> None:
    key = (await make_key(frontend, scope="infer", limits=[{"model": "chat", "requests_per_minute": 1}]))["key"]
    assert (await _ask(frontend, key))[0] == 200
    assert (await _ask(frontend, key, path, body))[0] == 429


@pytest.mark.behaviour("GW-120")
async def test_tokens_that_an_engine_tells_of_count_against_the_quota(frontend: RunningFrontend) -> None:
    key = (await make_key(frontend, scope="infer", limits=[{"tokens_per_day": 1}]))["key"]
    status, answer = await _ask(frontend, key)
    assert status == 200
    assert answer["usage"]["total_tokens"] >= 1
    status, answer = await _ask(frontend, key)
    assert (status, answer["error"]["code"]) == (429, "insufficient_quota")


async def test_raised_limit_lets_the_next_request_in(frontend: RunningFrontend) -> None:
    made = await make_key(frontend, scope="infer", limits=[{"tokens_per_day": 1}])
    assert [(await _ask(frontend, made["key"]))[0] for _ in range(2)] == [200, 429]
    change = {"limits": [{"tokens_per_day": 1_000_000}]}
    assert (await frontend.call("PATCH", f"/api/keys/{made['id']}", change))[0] == 200
    assert (await _ask(frontend, made["key"]))[0] == 200


@pytest.mark.behaviour("GW-124")
@pytest.mark.parametrize(("path", "body"), PATHS, ids=[path for path, _ in PATHS])
async def test_browser_session_calls_models_from_the_own_page_only(
    frontend: RunningFrontend, path: str, body: Any
) -> None:
    await make_user(frontend)
    cookie = secret_of((await log_in(frontend))[2])
    assert (await as_browser(frontend, cookie, path, "POST", json=body, headers=OWN))[0] == 200
    assert (await as_browser(frontend, cookie, path, "POST", json=body))[0] == 403
    assert (await as_browser(frontend, "cs_wrong", path, "POST", json=body, headers=OWN))[0] == 401


@pytest.mark.behaviour("GW-132")
async def test_key_with_limits_gets_rate_limit_headers(frontend: RunningFrontend) -> None:
    limit = {"requests_per_minute": 2, "tokens_per_minute": 6000}
    key = (await make_key(frontend, scope="infer", limits=[limit]))["key"]
    client = AsyncOpenAI(base_url=f"{frontend.url}/v1", api_key=key, max_retries=0)
    body: Any = {"model": "chat", "messages": [{"role": "user", "content": "hello"}]}
    response = await client.chat.completions.with_raw_response.create(**body)
    answer = response.parse()
    assert response.headers["x-ratelimit-limit-requests"] == "2"
    assert response.headers["x-ratelimit-remaining-requests"] == "1"
    assert response.headers["x-ratelimit-reset-requests"].endswith("s")
    assert response.headers["x-ratelimit-limit-tokens"] == "6000"
    # The tokens of this answer are counted already; the bucket fills all the time.
    assert 6000 - answer.usage.total_tokens <= int(response.headers["x-ratelimit-remaining-tokens"]) <= 6000
    async with client.chat.completions.with_streaming_response.create(stream=True, **body) as stream:
        assert stream.headers["x-ratelimit-remaining-requests"] == "0"
    with pytest.raises(openai.RateLimitError) as caught:
        await client.chat.completions.create(**body)
    assert caught.value.response.headers["x-ratelimit-remaining-requests"] == "0"
    assert "retry-after" in caught.value.response.headers
    await client.close()


@pytest.mark.behaviour("GW-132")
@pytest.mark.parametrize("more", [{}, {"stream": True}], ids=["whole", "stream"])
async def test_messages_route_sends_anthropic_rate_limit_headers(
    frontend: RunningFrontend, more: dict[str, Any]
) -> None:
    key = (await make_key(frontend, scope="infer", limits=[{"requests_per_minute": 1, "tokens_per_day": 900}]))["key"]
    body, headers = CHAT | {"max_tokens": 5} | more, {"Authorization": f"Bearer {key}"}
    for status, remaining in ((200, "0"), (429, "0")):
        async with frontend.http.post(f"{frontend.url}/v1/messages", json=body, headers=headers) as response:
            assert response.status == status
            assert response.headers["anthropic-ratelimit-requests-limit"] == "1"
            assert response.headers["anthropic-ratelimit-requests-remaining"] == remaining
            assert datetime.fromisoformat(response.headers["anthropic-ratelimit-requests-reset"]).tzinfo is not None
            assert response.headers["anthropic-ratelimit-tokens-limit"] == "900"
            assert not [name for name in response.headers if name.lower().startswith("x-ratelimit")]
            await response.read()


@pytest.mark.behaviour("GW-132")
@pytest.mark.parametrize(("path", "body"), PATHS, ids=[path for path, _ in PATHS])
async def test_key_without_limits_gets_no_rate_limit_headers(frontend: RunningFrontend, path: str, body: Any) -> None:
    key = (await make_key(frontend, scope="infer"))["key"]
    async with frontend.http.post(
        f"{frontend.url}{path}", json=body, headers={"Authorization": f"Bearer {key}"}
    ) as response:
        assert not [name for name in response.headers if "ratelimit" in name.lower()]
