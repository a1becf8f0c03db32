"""Sessions of browsers: opened with a password, held by a cookie that other sites cannot use, ended at once."""

from __future__ import annotations

import asyncio
import json
from http.cookies import SimpleCookie
from typing import Any

import aiohttp
import pytest
from sqlalchemy import text

from corral.access.sessions import SESSIONS_OF_USER_MAX, WRONG_PASSWORDS_OF_ADDRESS_PER_MINUTE
from tests.api.operations import assert_envelope
from tests.api.test_users import PASSWORD, make_user
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.polling import eventually

OWN = {"x-corral-request": "1"}


async def log_in(frontend: RunningFrontend, name: str = "ada", password: str = PASSWORD) -> tuple[int, Any, str]:
    """Status, body, and the line that sets the cookie."""
    sent = {"name": name, "password": password}
    async with frontend.http.post(f"{frontend.url}/api/session", json=sent) as answer:
        return answer.status, await answer.json(), answer.headers.get("Set-Cookie", "")


def secret_of(line: str) -> str:
    return SimpleCookie(line)["corral_session"].value


async def as_browser(frontend: RunningFrontend, cookie: str, path: str, method: str = "GET", **more: Any) -> Any:
    headers = {"Cookie": f"corral_session={cookie}"} | more.pop("headers", {})
    # One without a jar: the cookie is what the test says.
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http,
        http.request(method, f"{frontend.url}{path}", headers=headers, **more) as answer,
    ):
        is_json = answer.content_type == "application/json"
        return answer.status, await answer.json() if is_json else await answer.text()


@pytest.fixture
async def cookie(frontend: RunningFrontend) -> str:
    """Of Ada, who operates the cluster."""
    await make_user(frontend, scope="operate")
    return secret_of((await log_in(frontend))[2])


@pytest.mark.behaviour("GW-124")
async def test_password_opens_a_session_that_may_what_its_user_may(frontend: RunningFrontend) -> None:
    ada = await make_user(frontend, scope="operate")
    status, me, line = await log_in(frontend, "ADA")
    assert (status, me["name"], me["scope"], me["key_id"], me["user_id"]) == (201, "ada", "operate", None, ada["id"])
    cookie = secret_of(line)
    assert (await as_browser(frontend, cookie, "/api/session"))[1] == me
    assert (await as_browser(frontend, cookie, "/api/me"))[1] == me
    assert (await as_browser(frontend, cookie, "/api/nodes"))[0] == 200
    assert (await as_browser(frontend, cookie, "/api/users"))[0] == 403
    assert (await as_browser(frontend, cookie, "/v1/models"))[0] == 200


@pytest.mark.behaviour("GW-124")
async def test_scripts_cannot_read_the_cookie_and_other_sites_cannot_send_it(frontend: RunningFrontend) -> None:
    await make_user(frontend)
    _, body, line = await log_in(frontend)
    attributes = {part.strip().lower() for part in line.split(";")[1:]}
    assert attributes == {"httponly", "samesite=strict", "path=/", "max-age=86400"}
    assert secret_of(line) not in str(body)


@pytest.mark.behaviour("GW-124")
async def test_over_https_the_cookie_stays_on_https(frontend: RunningFrontend) -> None:
    await make_user(frontend)
    frontend.core.api_deps.public_url = "https://corral.example.com"
    assert "; Secure" in (await log_in(frontend))[2]


@pytest.mark.behaviour("GW-124")
async def test_session_cookie_changes_nothing_without_the_header_of_our_own_page(
    frontend: RunningFrontend, cookie: str
) -> None:
    for method, path in (("POST", "/api/models/rename"), ("DELETE", "/api/session"), ("PUT", "/api/rules/m")):
        status, answer = await as_browser(frontend, cookie, path, method, json={})
        assert status == 403, path
        assert_envelope(answer, code="own_page_header_missing")
    status, _ = await as_browser(frontend, cookie, "/api/rules/m", "PUT", json={}, headers=OWN)
    assert status == 200


@pytest.mark.behaviour("GW-124")
async def test_session_is_no_key_and_a_key_goes_before_it(frontend: RunningFrontend, cookie: str) -> None:
    assert (await frontend.call("GET", "/api/me", key=cookie))[0] == 401
    status, answer = await as_browser(frontend, cookie, "/api/me", headers={"Authorization": "Bearer ck_wrong"})
    assert (status, assert_envelope(answer)["code"]) == (401, "not_authenticated")


@pytest.mark.behaviour("GW-122")
async def test_wrong_password_and_an_unknown_name_get_the_same_answer(frontend: RunningFrontend) -> None:
    await make_user(frontend)
    await frontend.call("POST", "/api/users", {"name": "bob"})
    refusals = [await log_in(frontend, name, "wrong password") for name in ("ada", "bob", "nobody")]
    assert {status for status, _, _ in refusals} == {401}
    assert {answer["error"]["message"] for _, answer, _ in refusals} == {"Name or password is wrong."}
    assert {line for _, _, line in refusals} == {""}


@pytest.mark.behaviour("GW-123")
async def test_login_is_delayed_for_a_name_after_five_wrong_passwords(frontend: RunningFrontend) -> None:
    await make_user(frontend)
    await make_user(frontend, "bob")
    # All at once: what is counted after it was checked would let all of them through.
    tries = await asyncio.gather(*(log_in(frontend, "ada", f"wrong {number}") for number in range(12)))
    assert sorted(status for status, _, _ in tries) == [401] * 5 + [429] * 7
    async with frontend.http.post(f"{frontend.url}/api/session", json={"name": "Ada", "password": PASSWORD}) as answer:
        assert answer.status == 429
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
        assert_envelope(await answer.json(), code="rate_limit_exceeded")
    assert (await log_in(frontend, "bob"))[0] == 201


@pytest.mark.behaviour("GW-123")
async def test_wrong_passwords_from_one_address_do_not_lock_the_name_for_another(frontend: RunningFrontend) -> None:
    await make_user(frontend)
    stranger = aiohttp.TCPConnector(local_addr=("127.0.0.9", 0))
    async with aiohttp.ClientSession(connector=stranger) as http:
        for status in [401] * 5 + [429] * 2:
            async with http.post(f"{frontend.url}/api/session", json={"name": "ada", "password": "wrong"}) as answer:
                assert answer.status == status
    assert (await log_in(frontend))[0] == 201


@pytest.mark.behaviour("GW-123")
async def test_address_has_to_wait_after_twenty_wrong_passwords_for_different_names(frontend: RunningFrontend) -> None:
    """So one address never has more than twenty checks waiting, and the queue for them holds 128."""
    tries = await asyncio.gather(*(log_in(frontend, f"name-{number}", "wrong") for number in range(26)))
    most = WRONG_PASSWORDS_OF_ADDRESS_PER_MINUTE
    assert sorted(status for status, _, _ in tries) == [401] * most + [429] * (26 - most)


@pytest.mark.behaviour("GW-123")
async def test_right_passwords_are_never_throttled(frontend: RunningFrontend) -> None:
    await make_user(frontend)
    for _ in range(3):
        assert (await log_in(frontend, "ada", "wrong password"))[0] == 401
        assert (await log_in(frontend))[0] == 201


@pytest.mark.behaviour("GW-124")
async def test_sign_out_ends_the_session_here_at_once_and_elsewhere_soon(
    frontend: RunningFrontend, database_url: str, cookie: str
) -> None:
    async with running_frontend(database_url) as other:
        assert (await as_browser(other, cookie, "/api/me"))[0] == 200
        assert (await as_browser(frontend, cookie, "/api/session", "DELETE", headers=OWN))[0] == 204
        status, answer = await as_browser(frontend, cookie, "/api/me")
        assert (status, assert_envelope(answer)["code"]) == (401, "session_ended")

        async def is_out_there() -> bool:
            return bool((await as_browser(other, cookie, "/api/me"))[0] == 401)

        await eventually(is_out_there)


@pytest.mark.behaviour("GW-125")
@pytest.mark.parametrize("change", [{"disabled": True}, {"password": "another long password"}])
async def test_disabling_and_a_new_password_end_the_sessions(
    frontend: RunningFrontend, cookie: str, change: dict[str, Any]
) -> None:
    user = (await as_browser(frontend, cookie, "/api/me"))[1]
    assert (await frontend.call("PATCH", f"/api/users/{user['user_id']}", change))[0] == 200
    assert (await as_browser(frontend, cookie, "/api/me"))[0] == 401
    assert (await log_in(frontend))[0] == 401


@pytest.mark.behaviour("GW-125")
async def test_demoted_user_has_the_new_scope_in_the_open_session(frontend: RunningFrontend, cookie: str) -> None:
    user = (await as_browser(frontend, cookie, "/api/me"))[1]
    await frontend.call("PATCH", f"/api/users/{user['user_id']}", {"scope": "infer"})
    assert (await as_browser(frontend, cookie, "/api/nodes"))[0] == 403


@pytest.mark.behaviour("GW-124")
async def test_session_ends_by_itself(frontend: RunningFrontend, cookie: str) -> None:
    async with frontend.database.transaction() as tx:
        await tx.execute(text("UPDATE sessions SET expires_at = corral_now()"))
    await frontend.core.directory.load_sessions()
    assert (await as_browser(frontend, cookie, "/api/me"))[0] == 401


@pytest.mark.behaviour("GW-124")
async def test_user_has_so_many_sessions_and_the_newest_stay(frontend: RunningFrontend, cookie: str) -> None:
    newest = [secret_of((await log_in(frontend))[2]) for _ in range(SESSIONS_OF_USER_MAX)]
    assert (await as_browser(frontend, cookie, "/api/me"))[0] == 401
    assert (await as_browser(frontend, newest[0], "/api/me"))[0] == 200
    assert (await as_browser(frontend, newest[-1], "/api/me"))[0] == 200


@pytest.mark.behaviour("GW-124")
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
async def test_login_from_another_site_is_refused(frontend: RunningFrontend, kind: str | None) -> None:
    """These kinds a page may send anywhere without asking; JSON it may not."""
    await make_user(frontend)
    body = json.dumps({"name": "ada", "password": PASSWORD}).encode()
    headers = {"Content-Type": kind} if kind else {}
    skipped = () if kind else ("Content-Type",)
    async with frontend.http.post(
        f"{frontend.url}/api/session", data=body, headers=headers, skip_auto_headers=skipped
    ) as answer:
        assert answer.status == 400
        assert "Set-Cookie" not in answer.headers
