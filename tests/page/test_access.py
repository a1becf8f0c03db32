"""Keys and users in a browser: made, used, changed, and taken away."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.page.support import BackgroundLoop, BrowserErrors, Fleet, axe, come_in, keep_toasts, leave
from tests.support.databases import fresh_database
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.polling import eventually

OWN_PAGE = {"X-Corral-Request": "1"}


def choose(page: Page, name: str) -> None:
    """One of a few that are all in sight."""
    page.locator("fieldset.segments label", has_text=name).click()


def ask(page: Page, about: str, what: str) -> None:
    page.get_by_role("button", name=f"Actions for {about}").click()
    page.get_by_role("menuitem", name=what).click()


def row(page: Page, name: str) -> Any:
    return page.get_by_role("listitem", name=name, exact=True)


def status_with(fleet: Fleet, key: str) -> int:
    return fleet.run(fleet.models.cluster.frontends[0].call("GET", "/api/me", key=key))[0]


def run_command(fleet: Fleet, command: str) -> Any:
    """What a shell would do with it."""
    words = shlex.split(command)
    assert words[0] == "curl"
    headers = dict(words[place + 1].split(": ", 1) for place, word in enumerate(words) if word == "-H")
    body = words[words.index("-d") + 1]

    async def post() -> Any:
        async with fleet.models.cluster.http.post(words[1], data=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    return fleet.run(post())


@asynccontextmanager
async def lone_frontend(postgres: str) -> AsyncIterator[RunningFrontend]:
    """A frontend with a registry of its own, which may lose its keys."""
    async with fresh_database(postgres) as url, running_frontend(url) as frontend:
        yield frontend


@pytest.mark.behaviour("PAGE-125")
def test_key_is_made_used_changed_rotated_and_revoked(page: Page, fleet: Fleet) -> None:
    fleet.run(fleet.models.put("herd"))
    page.goto(f"{fleet.url()}/app/")
    page.get_by_role("link", name="Keys and users").click()
    page.get_by_role("button", name="New key").click()
    expect(page.get_by_label("Name")).to_be_focused()
    assert axe(page) == []
    page.get_by_label("Name").fill("shop")
    page.get_by_label("Allowed models").fill("herd*")
    page.get_by_label("Requests per minute").fill("60")
    page.get_by_label("Tokens per day").fill("1000")
    page.get_by_role("button", name="Create key").click()
    shown = page.get_by_role("dialog", name="Secret of shop")
    expect(shown).to_contain_text('"model":"herd"')
    secret, command = shown.locator("pre").all_inner_texts()
    assert run_command(fleet, command)["model"] == "herd"
    page.get_by_role("button", name="Done, I saved it").click()
    expect(shown).to_have_count(0)
    assert secret not in page.content()
    line = row(page, "shop")
    expect(line).to_contain_text("herd*")
    expect(line).to_contain_text("60 requests per minute")

    page.get_by_role("button", name="Edit shop").click()
    page.get_by_label("Tokens per day").fill("2000")
    page.get_by_label("Expires").select_option(label="in 30 days")
    page.get_by_role("button", name="Save").click()
    expect(line).to_contain_text("2,000 tokens per day")
    expect(line).to_contain_text("in 29 days")
    (changed,) = [key for key in fleet.get("/api/keys") if key["name"] == "shop"]
    assert (changed["scope"], changed["models"]) == ("infer", ["herd*"])

    ask(page, "shop", "Rotate")
    page.get_by_label("Old secret").select_option(label="Expires in one hour")
    page.get_by_role("button", name="Rotate shop").click()
    rotated = page.get_by_role("dialog", name="Secret of shop").locator("pre").first.inner_text()
    page.get_by_role("button", name="Done, I saved it").click()
    assert rotated != secret
    assert (status_with(fleet, secret), status_with(fleet, rotated)) == (200, 200)
    expect(line).to_contain_text("Old secret works until")

    ask(page, "shop", "Revoke")
    page.get_by_role("button", name="Revoke shop").click()
    expect(line).to_have_count(0)
    assert (status_with(fleet, secret), status_with(fleet, rotated)) == (401, 401)
    choose(page, "All")
    expect(line).to_contain_text("revoked")
    assert axe(page) == []

    async def is_counted() -> bool:
        status, keys = await fleet.models.call("GET", "/api/keys")
        return status == 200 and any(key["name"] == "shop" and key["last_used_at"] for key in keys)

    fleet.run(eventually(is_counted, within_s=60))
    page.reload()
    used = line.locator("dl > div", has_text="Last used")
    expect(used.locator("time")).to_be_visible()
    expect(used).not_to_contain_text("never")
    leave(page)
    fleet.run(fleet.models.forget("herd"))


@pytest.mark.behaviour("PAGE-125")
def test_last_key_stays_and_the_dialog_says_why(page: Page, fleet: Fleet, watched: Any) -> None:
    watched.allow("status of 409")
    page.goto(f"{fleet.url()}/app/access")
    own = page.get_by_role("listitem").filter(has_text="signed in with this key")
    name = own.get_attribute("aria-label")
    ask(page, str(name), "Revoke")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Revoking it signs you out")
    dialog.get_by_role("button", name=f"Revoke {name}").click()
    expect(dialog).to_contain_text("is the last active admin key")
    expect(dialog).to_contain_text("corral keys recover, which creates a new admin key")
    assert axe(page) == []
    dialog.get_by_role("button", name="Cancel").click()
    expect(own).to_contain_text("active")


def test_last_admin_key_is_revoked_after_a_second_confirmation_that_names_the_way_back(
    built_page: None, aside: BackgroundLoop, context: BrowserContext, watched: BrowserErrors, postgres: str
) -> None:
    watched.allow(r"status of (409|401)")
    with aside.inside(lone_frontend(postgres)) as frontend:
        come_in(context, frontend.url)
        page = context.new_page()
        page.goto(f"{frontend.url}/app/access")
        ask(page, "admin", "Revoke")
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Revoke admin").click()
        dialog.get_by_role("button", name="Revoke the last admin key").click()
        expect(page.locator("input[name=key]")).to_be_visible()
        assert aside.run(frontend.call("GET", "/api/me", key=ADMIN_KEY))[0] == 401
        page.close()


def test_rotating_the_key_of_the_settings_says_which_file_it_leaves_behind(page: Page, fleet: Fleet) -> None:
    fleet.new_key("admin", name="of nobody's home")
    page.goto(f"{fleet.url()}/app/access")
    ask(page, "of nobody's home", "Rotate")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("gets a new secret.")
    expect(dialog).not_to_contain_text("admin.key")
    dialog.get_by_role("button", name="Cancel").click()
    ask(page, "admin", "Rotate")
    expect(dialog).to_contain_text("Rotating it here does not change the file admin.key")
    expect(dialog).to_contain_text("corral keys rotate admin")
    assert axe(page) == []
    (made,) = [key for key in fleet.get("/api/keys") if key["name"] == "of nobody's home"]
    fleet.call("DELETE", f"/api/keys/{made['id']}")


def test_user_is_created_signs_in_and_is_deleted(page: Page, fleet: Fleet) -> None:
    def comes_in(password: str) -> int:
        body = {"name": "ada", "password": password}

        async def login() -> int:
            url = f"{fleet.url()}/api/session"
            async with fleet.models.cluster.http.post(url, json=body, headers=OWN_PAGE) as answer:
                return answer.status

        return fleet.run(login())

    page.goto(f"{fleet.url()}/app/access?tab=users")
    keep_toasts(page)
    page.get_by_role("button", name="New user").click()
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill("correct horse")
    page.get_by_role("button", name="Create user").click()
    line = row(page, "ada")
    expect(line).to_contain_text("password")
    assert comes_in("correct horse") == 201

    ask(page, "ada", "Change scope")
    page.get_by_label("Scope", exact=True).select_option("operate")
    page.get_by_role("button", name="Save").click()
    expect(line).to_contain_text("operate")
    ask(page, "ada", "New password")
    page.get_by_label("New password", exact=True).fill("battery staple")
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_text("Changed the password of ada.")).to_be_visible()
    assert (comes_in("correct horse"), comes_in("battery staple")) == (401, 201)

    ask(page, "ada", "Disable")
    page.get_by_role("button", name="Disable ada").click()
    expect(line).to_contain_text("disabled")
    assert comes_in("battery staple") == 401
    assert axe(page) == []
    ask(page, "ada", "Remove")
    page.get_by_role("button", name="Remove ada").click()
    expect(line).to_have_count(0)
    expect(page.get_by_text("No users yet.")).to_be_visible()
