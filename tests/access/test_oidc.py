"""Coming in by a provider of identities, with a real one on the loopback, and every way to come in without right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from http.cookies import SimpleCookie
from typing import Any

import aiohttp
import pytest

from corral.access.oidc import KEYS_REFRESH_MIN_S, OidcClient, OidcOptions, PendingLogin
from corral.adapters.http import HttpFetcher
from corral.adapters.system import SystemIdGenerator
from corral.domain.access import Scope
from tests.access.provider import CLIENT_ID, CLIENT_SECRET, Change, Provider, new_key, running_provider
from tests.api.operations import assert_envelope
from tests.api.test_users import make_user
from tests.support.frontends import RunningFrontend
from tests.support.hand_clock import HandClock

START, BACK = "/api/session/oidc", "/api/session/oidc/callback"
SCOPES = {"corral-admins": Scope.ADMIN, "operators": Scope.OPERATE, "everybody": Scope.INFER}


class Browser:
    """Keeps cookies and follows redirects one by one."""

    def __init__(self, frontend: RunningFrontend) -> None:
        self._frontend = frontend
        self.http = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def get(self, url: str) -> tuple[int, Any, aiohttp.ClientResponse]:
        url = url if url.startswith("http") else f"{self._frontend.url}{url}"
        async with self.http.get(url, allow_redirects=False) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await answer.json() if is_json else await answer.text(), answer

    async def to_provider(self) -> str:
        """Begin, be let in by the provider; the address that leads back."""
        status, _, answer = await self.get(START)
        assert status == 303
        status, _, answer = await self.get(answer.headers["Location"])
        assert status == 302
        return answer.headers["Location"]

    async def log_in(self) -> tuple[int, Any]:
        status, body, _ = await self.get(await self.to_provider())
        return status, body


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with running_provider() as running:
        yield running


@pytest.fixture
async def oidc(frontend: RunningFrontend, provider: Provider, clock: HandClock) -> AsyncIterator[OidcClient]:
    """The frontend's own, which knows the provider."""
    provider.person["groups"] = ["operators", "something else"]
    fetcher = HttpFetcher(uses_proxies=False)
    options = OidcOptions(issuer=provider.url, client_id=CLIENT_ID, client_secret=CLIENT_SECRET, scopes=SCOPES)
    made = frontend.core.api_deps.sessions.oidc = OidcClient(options, fetcher, clock, SystemIdGenerator())
    yield made
    await fetcher.stop()


@pytest.fixture
async def browser(frontend: RunningFrontend, oidc: OidcClient) -> AsyncIterator[Browser]:
    made = Browser(frontend)
    yield made
    await made.http.close()


def refused(status: int, answer: Any) -> bool:
    return bool(status == 401 and assert_envelope(answer)["code"] == "oidc_refused")


@pytest.mark.behaviour("GW-126")
async def test_provider_login_opens_a_session_and_creates_the_user(
    frontend: RunningFrontend, provider: Provider, browser: Browser
) -> None:
    status, _ = await browser.log_in()
    assert status == 303
    me = (await browser.get("/api/me"))[1]
    assert (me["name"], me["scope"]) == ("ada", "operate")
    (ada,) = (await frontend.call("GET", "/api/users"))[1]
    assert (ada["name"], ada["issuer"], ada["has_password"], ada["id"]) == ("ada", provider.url, False, me["user_id"])
    assert (await frontend.call("GET", "/api/session/ways", key=None))[1] == {
        "password": True,
        "provider": provider.url,
    }


@pytest.mark.behaviour("GW-126")
async def test_second_provider_login_updates_the_same_user(
    frontend: RunningFrontend, provider: Provider, browser: Browser
) -> None:
    await browser.log_in()
    first = (await browser.get("/api/me"))[1]
    provider.person |= {"groups": ["everybody", "corral-admins"], "preferred_username": "ada.l"}
    await browser.log_in()
    second = (await browser.get("/api/me"))[1]
    assert (second["user_id"], second["name"], second["scope"]) == (first["user_id"], "ada", "admin")


@pytest.mark.behaviour("GW-126")
async def test_login_cookie_is_http_only_and_deleted_after_the_login(
    browser: Browser,
) -> None:
    _, _, answer = await browser.get(START)
    line = answer.headers["Set-Cookie"].lower()
    assert "httponly" in line
    assert "samesite=lax" in line
    assert f"path={START}" in line
    back = await browser.to_provider()
    _, _, answer = await browser.get(back)
    lines = answer.headers.getall("Set-Cookie")
    assert any(line.startswith('corral_login=""') for line in lines)
    assert any("samesite=strict" in line.lower() for line in lines if line.startswith("corral_session=cs_"))


@pytest.mark.behaviour("GW-126")
@pytest.mark.parametrize("ways", [None, ["client_secret_post"], ["client_secret_basic", "client_secret_post"]])
async def test_client_shows_its_secret_in_the_way_that_the_provider_takes(
    provider: Provider, browser: Browser, ways: list[str] | None
) -> None:
    provider.auth_methods = ways
    assert (await browser.log_in())[0] == 303


async def test_login_that_was_not_begun_in_this_browser_is_refused(frontend: RunningFrontend, browser: Browser) -> None:
    back = await browser.to_provider()
    victim = Browser(frontend)
    status, answer, _ = await victim.get(back)
    assert refused(status, answer)
    await victim.get(START)
    status, answer, _ = await victim.get(back)
    assert refused(status, answer), "with a login of its own under way, too"
    await victim.http.close()


@pytest.mark.parametrize("state", ["", "another", "é"])
async def test_way_back_with_another_state_is_refused_even_if_all_else_is_right(browser: Browser, state: str) -> None:
    back = await browser.to_provider()
    address, _, _ = back.partition("&state=")
    status, answer, _ = await browser.get(f"{address}&state={state}")
    assert refused(status, answer)
    assert (await browser.get("/api/me"))[0] == 401


async def test_way_back_works_once(browser: Browser, frontend: RunningFrontend) -> None:
    back = await browser.to_provider()
    begun = {cookie.key: cookie.value for cookie in browser.http.cookie_jar}["corral_login"]
    assert (await browser.get(back))[0] == 303
    status, answer, _ = await browser.get(back)
    assert refused(status, answer)
    # Whoever has copied the cookie as well: the provider gives nothing for a code twice.
    async with frontend.http.get(back, headers={"Cookie": f"corral_login={begun}"}, allow_redirects=False) as again:
        assert refused(again.status, await again.json())
        assert "corral_session" not in SimpleCookie(again.headers.get("Set-Cookie", ""))


async def test_code_is_useless_without_the_verifier_of_its_login(browser: Browser, frontend: RunningFrontend) -> None:
    back = await browser.to_provider()
    begun = PendingLogin.from_text({cookie.key: cookie.value for cookie in browser.http.cookie_jar}["corral_login"])
    assert begun is not None
    stolen = replace(begun, verifier="x" * 43).to_text()
    async with frontend.http.get(back, headers={"Cookie": f"corral_login={stolen}"}, allow_redirects=False) as answer:
        assert refused(answer.status, await answer.json())


BENT: dict[str, Change] = {
    "for another program": lambda claims: claims.update(aud="other"),
    "for several, and used by another": lambda claims: claims.update(aud=[CLIENT_ID, "other"], azp="other"),
    "for several, and nobody says by whom": lambda claims: claims.update(aud=[CLIENT_ID, "other"]),
    "by another provider": lambda claims: claims.update(iss="http://127.0.0.1:1"),
    "expired": lambda claims: claims.update(exp=claims["iat"] - 120),
    "without an end": lambda claims: claims.pop("exp"),
    "from the future": lambda claims: claims.update(iat=claims["iat"] + 3600),
    "of another login": lambda claims: claims.update(nonce="another"),
    "of no login": lambda claims: claims.pop("nonce"),
    "about nobody": lambda claims: claims.pop("sub"),
}


@pytest.mark.parametrize("how", BENT)
async def test_token_that_does_not_hold_is_refused(
    frontend: RunningFrontend, provider: Provider, browser: Browser, how: str
) -> None:
    provider.bend = BENT[how]
    status, answer = await browser.log_in()
    assert refused(status, answer)
    assert (await browser.get("/api/me"))[0] == 401
    assert (await frontend.call("GET", "/api/users"))[1] == []


SIGNED: dict[str, dict[str, Any]] = {
    "by a key of somebody else under the right name": {"signs_with": new_key()},
    "by a key that is not published": {"signs_with": new_key(), "kid": "unknown"},
    "by nobody": {"signs_with": "", "algorithm": "none"},
    "by what both sides know": {"signs_with": CLIENT_SECRET * 2, "algorithm": "HS256"},
}


@pytest.mark.parametrize("how", SIGNED)
async def test_token_that_the_provider_has_not_signed_is_refused(
    provider: Provider, browser: Browser, how: str
) -> None:
    for name, value in SIGNED[how].items():
        setattr(provider, name, value)
    assert refused(*await browser.log_in())


async def test_new_key_of_the_provider_is_found_and_strange_ones_do_not_make_us_ask_all_the_time(
    provider: Provider, browser: Browser, clock: HandClock
) -> None:
    assert (await browser.log_in())[0] == 303
    provider.keys = {"two": new_key()}
    provider.kid = "two"
    for _ in range(3):
        assert refused(*await browser.log_in())
    assert provider.jwks_reads == 1
    clock.now += KEYS_REFRESH_MIN_S + 1
    assert (await browser.log_in())[0] == 303
    assert provider.jwks_reads == 2


@pytest.mark.behaviour("GW-126")
async def test_provider_with_one_key_need_not_name_it(provider: Provider, browser: Browser) -> None:
    provider.kid = None
    assert (await browser.log_in())[0] == 303


async def test_provider_login_without_a_mapped_group_is_refused_unless_there_is_a_default_scope(
    frontend: RunningFrontend, provider: Provider, browser: Browser, oidc: OidcClient
) -> None:
    for groups in (None, [], ["others"], "others", {"a": 1}):
        provider.person["groups"] = groups
        status, answer = await browser.log_in()
        assert (status, assert_envelope(answer)["code"]) == (403, "oidc_no_scope")
    assert (await frontend.call("GET", "/api/users"))[1] == []
    oidc.options = replace(oidc.options, default_scope=Scope.INFER)
    assert (await browser.log_in())[0] == 303
    assert (await browser.get("/api/me"))[1]["scope"] == "infer"


async def test_claim_may_lie_deep_and_be_a_word(provider: Provider, browser: Browser, oidc: OidcClient) -> None:
    oidc.options = replace(oidc.options, scope_claim="realm_access.roles")
    provider.person["realm_access"] = {"roles": "corral-admins"}
    assert (await browser.log_in())[0] == 303
    assert (await browser.get("/api/me"))[1]["scope"] == "admin"


async def test_disabled_user_cannot_sign_in_through_the_provider(frontend: RunningFrontend, browser: Browser) -> None:
    await browser.log_in()
    me = (await browser.get("/api/me"))[1]
    await frontend.call("PATCH", f"/api/users/{me['user_id']}", {"disabled": True})
    assert (await browser.get("/api/me"))[0] == 401
    status, answer = await browser.log_in()
    assert (status, assert_envelope(answer)["code"]) == (403, "user_disabled")


async def test_provider_login_with_the_name_of_a_local_user_does_not_get_their_account(
    frontend: RunningFrontend, browser: Browser
) -> None:
    await make_user(frontend, "ada", scope="admin")
    status, answer = await browser.log_in()
    assert (status, assert_envelope(answer)["code"]) == (409, "user_name_taken")
    assert (await browser.get("/api/me"))[0] == 401


async def test_name_that_cannot_be_one_here_is_replaced(provider: Provider, browser: Browser) -> None:
    provider.person |= {"preferred_username": "Ada Lovelace", "email": "Ada@example.com"}
    await browser.log_in()
    assert (await browser.get("/api/me"))[1]["name"] == "ada@example.com"
    provider.person |= {"email": None, "sub": "a b|c"}
    await browser.log_in()
    assert (await browser.get("/api/me"))[1]["name"].startswith("oidc-")


async def test_callback_error_from_the_address_is_not_repeated(provider: Provider, browser: Browser) -> None:
    provider.refuses = "access_denied<script>"
    status, answer = await browser.log_in()
    assert refused(status, answer)
    assert answer["error"]["message"] == "The provider refused the login: access_deniedscript."


async def test_login_reports_a_provider_that_is_unreachable_or_has_another_issuer(
    frontend: RunningFrontend, provider: Provider, browser: Browser, oidc: OidcClient
) -> None:
    provider.claimed_issuer = "http://127.0.0.1:1"
    status, answer, _ = await browser.get(START)
    assert (status, assert_envelope(answer)["code"]) == (503, "oidc_unavailable")
    oidc.options = replace(oidc.options, issuer="http://127.0.0.1:1")
    status, answer, _ = await browser.get(START)
    assert (status, assert_envelope(answer)["code"]) == (503, "source_unavailable")
    frontend.core.api_deps.sessions.oidc = None
    status, answer, _ = await browser.get(START)
    assert (status, assert_envelope(answer)["code"]) == (404, "oidc_not_set")


@pytest.mark.behaviour("GW-126")
async def test_two_first_logins_at_once_are_one_user(frontend: RunningFrontend, browser: Browser) -> None:
    other = Browser(frontend)
    backs = [await browser.to_provider(), await other.to_provider()]
    answers = await asyncio.gather(browser.get(backs[0]), other.get(backs[1]))
    await other.http.close()
    assert {status for status, _, _ in answers} <= {303, 409}
    assert 303 in {status for status, _, _ in answers}
    assert len((await frontend.call("GET", "/api/users"))[1]) == 1
