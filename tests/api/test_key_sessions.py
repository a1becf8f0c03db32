"""Sessions that are opened with a key: they may what it may, and end with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from corral.access.sessions import SESSIONS_OF_USER_MAX, WRONG_KEYS_PER_MINUTE
from tests.api.operations import assert_envelope
from tests.api.test_sessions import OWN, as_browser, secret_of
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.polling import eventually


async def show(frontend: RunningFrontend, body: Any) -> tuple[int, Any, str, str | None]:
    """Status, body, the line that sets the cookie, and the time to wait."""
    async with frontend.http.post(f"{frontend.url}/api/session", json=body) as answer:
        after = answer.headers.get("Retry-After")
        return answer.status, await answer.json(), answer.headers.get("Set-Cookie", ""), after


async def make_key(frontend: RunningFrontend, **body: Any) -> Any:
    status, made = await frontend.call("POST", "/api/keys", {"name": "of the tests"} | body)
    assert status == 201, made
    return made


@pytest.mark.behaviour("PAGE-9")
async def test_key_opens_a_session_with_its_rights(frontend: RunningFrontend) -> None:
    status, me, line, _ = await show(frontend, {"key": ADMIN_KEY})
    assert (status, me["scope"], me["key_id"] is not None) == (201, "admin", True)
    attributes = {part.strip().lower() for part in line.split(";")[1:]}
    assert attributes == {"httponly", "samesite=strict", "path=/", "max-age=86400"}
    cookie = secret_of(line)
    assert (await as_browser(frontend, cookie, "/api/session"))[1] == me
    assert (await as_browser(frontend, cookie, "/api/users"))[0] == 200
    assert ADMIN_KEY not in str(me)


@pytest.mark.behaviour("PAGE-9")
async def test_key_that_may_only_ask_models_opens_a_session_that_may_no_more(frontend: RunningFrontend) -> None:
    key = (await make_key(frontend, scope="infer"))["key"]
    status, me, line, _ = await show(frontend, {"key": f"  {key}\n"})
    assert (status, me["scope"]) == (201, "infer")
    cookie = secret_of(line)
    assert (await as_browser(frontend, cookie, "/v1/models"))[0] == 200
    assert (await as_browser(frontend, cookie, "/api/nodes"))[0] == 403


@pytest.mark.behaviour("PAGE-9")
async def test_session_cookie_without_the_page_header_changes_nothing(frontend: RunningFrontend) -> None:
    cookie = secret_of((await show(frontend, {"key": ADMIN_KEY}))[2])
    status, answer = await as_browser(frontend, cookie, "/api/rules/m", "PUT", json={})
    assert (status, assert_envelope(answer)["code"]) == (403, "own_page_header_missing")
    assert (await as_browser(frontend, cookie, "/api/rules/m", "PUT", json={}, headers=OWN))[0] == 200


@pytest.mark.behaviour("PAGE-9")
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/models/none"])
async def test_inference_routes_accept_a_session_cookie_with_the_header(frontend: RunningFrontend, path: str) -> None:
    """Whether a session is signed in: such a caller gets a 404 for an unknown model."""
    cookie = secret_of((await show(frontend, {"key": ADMIN_KEY}))[2])
    method = "GET" if path.endswith("none") else "POST"
    body: Any = {"model": "none", "max_tokens": 1, "messages": [{"role": "user", "content": "Who goes there?"}]}
    more = {} if method == "GET" else {"json": body}
    assert (await as_browser(frontend, cookie, path, method, headers=OWN, **more))[0] == 404
    if method == "POST":
        assert (await as_browser(frontend, cookie, path, method, **more))[0] == 403
    assert (await as_browser(frontend, "ck_wrong", path, method, headers=OWN, **more))[0] == 401


@pytest.mark.behaviour("PAGE-9")
async def test_revoking_the_key_ends_the_session_here_at_once_and_soon_everywhere(
    frontend: RunningFrontend, database_url: str
) -> None:
    made = await make_key(frontend, scope="operate")
    cookie = secret_of((await show(frontend, {"key": made["key"]}))[2])
    async with running_frontend(database_url) as other:
        assert (await as_browser(other, cookie, "/api/session"))[0] == 200
        assert (await frontend.call("DELETE", f"/api/keys/{made['id']}"))[0] in (200, 204)
        status, answer = await as_browser(frontend, cookie, "/api/session")
        assert (status, assert_envelope(answer)["code"]) == (401, "session_ended")

        async def is_out_there() -> bool:
            return bool((await as_browser(other, cookie, "/api/session"))[0] == 401)

        await eventually(is_out_there)


@pytest.mark.behaviour("PAGE-9")
async def test_logout_ends_session_of_key_everywhere_and_key_still_works(
    frontend: RunningFrontend, database_url: str
) -> None:
    cookie = secret_of((await show(frontend, {"key": ADMIN_KEY}))[2])
    async with running_frontend(database_url) as other:
        assert (await as_browser(other, cookie, "/api/session"))[0] == 200
        assert (await as_browser(frontend, cookie, "/api/session", "DELETE", headers=OWN))[0] == 204
        status, answer = await as_browser(frontend, cookie, "/api/session")
        assert (status, assert_envelope(answer)["code"]) == (401, "session_ended")
        assert (await frontend.call("GET", "/api/me"))[0] == 200

        async def is_out_there() -> bool:
            return bool((await as_browser(other, cookie, "/api/session"))[0] == 401)

        await eventually(is_out_there)


@pytest.mark.behaviour("PAGE-9")
async def test_cookie_of_key_login_is_no_key(frontend: RunningFrontend) -> None:
    cookie = secret_of((await show(frontend, {"key": ADMIN_KEY}))[2])
    assert ADMIN_KEY not in cookie
    assert (await frontend.call("GET", "/api/me", key=cookie))[0] == 401
    assert (await as_browser(frontend, ADMIN_KEY, "/api/session"))[0] == 401


@pytest.mark.behaviour("PAGE-9")
async def test_session_of_key_follows_a_changed_scope_of_the_key(frontend: RunningFrontend) -> None:
    made = await make_key(frontend, scope="operate")
    cookie = secret_of((await show(frontend, {"key": made["key"]}))[2])
    assert (await as_browser(frontend, cookie, "/api/nodes"))[0] == 200
    assert (await frontend.call("PATCH", f"/api/keys/{made['id']}", {"scope": "infer"}))[0] == 200
    assert (await as_browser(frontend, cookie, "/api/nodes"))[0] == 403


@pytest.mark.behaviour("PAGE-9")
async def test_session_of_key_ends_when_the_key_expires(frontend: RunningFrontend) -> None:
    made = await make_key(frontend, scope="operate")
    cookie = secret_of((await show(frontend, {"key": made["key"]}))[2])
    assert (await frontend.call("PATCH", f"/api/keys/{made['id']}", {"expires_in_s": 0.2}))[0] == 200

    async def is_over() -> bool:
        return bool((await as_browser(frontend, cookie, "/api/session"))[0] == 401)

    await eventually(is_over)


@pytest.mark.behaviour("PAGE-9")
async def test_rotation_without_grace_ends_sessions_of_the_key_on_every_frontend(
    frontend: RunningFrontend, database_url: str
) -> None:
    made = await make_key(frontend, scope="operate")
    cookie = secret_of((await show(frontend, {"key": made["key"]}))[2])
    async with running_frontend(database_url) as other:
        assert (await as_browser(other, cookie, "/api/session"))[0] == 200
        assert (await frontend.call("POST", f"/api/keys/{made['id']}/rotate"))[0] == 201
        assert (await as_browser(frontend, cookie, "/api/session"))[0] == 401

        async def is_out_there() -> bool:
            return bool((await as_browser(other, cookie, "/api/session"))[0] == 401)

        await eventually(is_out_there)


@pytest.mark.behaviour("PAGE-9")
async def test_rotation_with_grace_keeps_sessions_of_the_key_for_so_long(frontend: RunningFrontend) -> None:
    made = await make_key(frontend, scope="operate")
    cookie = secret_of((await show(frontend, {"key": made["key"]}))[2])
    body = {"grace_s": 3600}
    assert (await frontend.call("POST", f"/api/keys/{made['id']}/rotate", body))[0] == 201
    assert (await as_browser(frontend, cookie, "/api/session"))[0] == 200
    assert (await frontend.call("POST", f"/api/keys/{made['id']}/rotate", {"grace_s": 0.2}))[0] == 201

    async def is_over() -> bool:
        return bool((await as_browser(frontend, cookie, "/api/session"))[0] == 401)

    await eventually(is_over)


@pytest.mark.behaviour("PAGE-9")
async def test_key_has_so_many_sessions_and_the_newest_stay(frontend: RunningFrontend) -> None:
    made = await make_key(frontend, scope="infer")
    cookies = [secret_of((await show(frontend, {"key": made["key"]}))[2]) for _ in range(SESSIONS_OF_USER_MAX + 1)]
    statuses = [(await as_browser(frontend, cookie, "/api/session"))[0] for cookie in cookies]
    assert statuses == [401] + [200] * SESSIONS_OF_USER_MAX


@pytest.mark.behaviour("PAGE-10")
async def test_address_is_throttled_after_five_wrong_keys_except_for_valid_ones(frontend: RunningFrontend) -> None:
    tries = await asyncio.gather(*(show(frontend, {"key": f"ck_wrong-{number}"}) for number in range(9)))
    assert sorted(status for status, *_ in tries) == [401] * WRONG_KEYS_PER_MINUTE + [429] * 4
    assert {line for _, _, line, _ in tries} == {""}
    refused = next(one for one in tries if one[0] == 429)
    assert 1 <= int(refused[3] or 0) <= 60
    assert_envelope(refused[1], code="rate_limit_exceeded")
    assert (await show(frontend, {"key": ADMIN_KEY}))[0] == 201


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "ada"},
        {"password": "long enough"},
        {"key": ""},
        {"key": "ck_x", "name": "ada"},
        {"key": "ck_x", "name": "ada", "password": "long enough"},
    ],
)
async def test_sign_in_requires_either_name_and_password_or_a_key(frontend: RunningFrontend, body: Any) -> None:
    status, answer, line, _ = await show(frontend, body)
    assert (status, line) == (400, "")
    assert "ck_x" not in str(answer)
