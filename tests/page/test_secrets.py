"""Stored secrets in a browser: set, replaced and deleted, and never shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.page.run_scene import RunScene, run_scene
from tests.page.support import BackgroundLoop, BrowserErrors, axe, come_in, expect_fits, keep_toasts
from tests.support.databases import fresh_database
from tests.support.frontends import RunningFrontend, running_frontend

PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def yard(built_page: None, aside: BackgroundLoop, postgres: str) -> Iterator[RunScene]:
    with run_scene(aside, postgres) as scene:
        yield scene


@pytest.fixture
def page(context: BrowserContext, yard: RunScene) -> Page:
    come_in(context, yard.url)
    page = context.new_page()
    page.goto(f"{yard.url}/app/access?tab=secrets")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    return page


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("list", name="Secrets").get_by_role("listitem", name=name, exact=True)


def store(page: Page, name: str, value: str) -> None:
    page.get_by_role("button", name="New secret").first.click()
    page.get_by_label("Name").fill(name)
    page.get_by_role("textbox", name="Value").fill(value)
    page.get_by_role("button", name="Store secret").click()


def read(yard: RunScene, name: str, scope: str = "own") -> dict[str, str]:
    _, listed = yard.call("GET", f"/api/secrets?scope={scope}")
    (found,) = [secret for secret in listed if secret["name"] == name]
    return dict(found)


@asynccontextmanager
async def keyless_frontend(postgres: str) -> AsyncIterator[RunningFrontend]:
    """A frontend that has no key to seal secrets with."""
    async with fresh_database(postgres) as url, running_frontend(url) as frontend:
        yield frontend


@pytest.mark.behaviour("PAGE-195")
def test_secret_is_stored_replaced_and_deleted_and_its_value_is_never_shown(page: Page, yard: RunScene) -> None:
    keep_toasts(page)
    expect(page.get_by_text("You have no secrets yet.")).to_be_visible()
    store(page, "hub-token", "hf_first\nsecond line")
    expect(page.get_by_text("Stored hub-token. Configurations refer to it as secret:hub-token.")).to_be_visible()
    line = row(page, "hub-token")
    expect(line).to_contain_text("secret:hub-token")
    expect(line).to_contain_text("by admin")
    expect(line).to_contain_text("never")
    assert "hf_first" not in page.content()
    before = read(yard, "hub-token")["updated_at"]

    page.get_by_role("button", name="Replace the value of hub-token").click()
    expect(page.get_by_role("textbox", name="Value")).to_be_focused()
    assert axe(page) == []
    page.get_by_role("textbox", name="Value").fill("hf_other")
    page.get_by_role("button", name="Replace value").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert read(yard, "hub-token")["updated_at"] != before
    assert "hf_other" not in page.content()

    page.get_by_role("button", name="Actions for hub-token").click()
    page.get_by_role("menuitem", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("What refers to it fails from now on.")
    dialog.get_by_role("button", name="Delete hub-token").click()
    expect(line).to_have_count(0)
    assert yard.call("GET", "/api/secrets")[1] == []


def test_name_that_is_refused_is_shown_with_the_reason_and_the_form_stays(
    page: Page, yard: RunScene, watched: BrowserErrors
) -> None:
    watched.allow("status of 400")
    store(page, "two words", "x")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_be_visible()
    expect(dialog.get_by_role("textbox", name="Value")).to_have_value("x")
    assert yard.call("GET", "/api/secrets")[1] == []


def test_secret_that_another_user_sets_appears_at_once(page: Page, yard: RunScene) -> None:
    assert yard.call("PUT", "/api/secrets/elsewhere", {"value": "x"})[0] == 200
    expect(row(page, "elsewhere")).to_be_visible()
    assert yard.call("DELETE", "/api/secrets/elsewhere")[0] == 204
    expect(row(page, "elsewhere")).to_have_count(0)


@pytest.mark.behaviour("PAGE-195")
def test_secrets_of_the_cluster_are_changed_by_admins_and_seen_by_operators(
    page: Page, yard: RunScene, browser: Browser, watched: BrowserErrors
) -> None:
    page.locator("fieldset.segments label", has_text="Cluster").click()
    expect(page.get_by_text("The cluster has no secrets yet.")).to_be_visible()
    store(page, "shared", "s3cret")
    expect(row(page, "shared")).to_contain_text("cluster-secret:shared")
    assert read(yard, "shared", "cluster")["changed_by"] == "admin"
    operator, _ = yard.new_key("operator", "operate")
    other = browser.new_context()
    try:
        other.on("page", watched.watch)
        come_in(other, yard.url, operator)
        seen = other.new_page()
        seen.goto(f"{yard.url}/app/access?of=cluster")
        expect(seen.get_by_role("link", name="Secrets")).to_have_attribute("aria-current", "page")
        expect(row(seen, "shared")).to_be_visible()
        for name in ("New secret", "Replace the value of shared", "Actions for shared"):
            expect(seen.get_by_role("button", name=name)).to_have_count(0)
        expect(seen.locator("fieldset.segments label", has_text="Users")).to_have_count(0)
    finally:
        other.close()
    assert yard.call("DELETE", "/api/secrets/shared?scope=cluster")[0] == 204


@pytest.mark.behaviour("PAGE-195")
def test_caller_who_may_only_infer_keeps_secrets_of_their_own(
    browser: Browser, yard: RunScene, watched: BrowserErrors
) -> None:
    secret, _ = yard.new_key("app")
    context = browser.new_context(viewport=PHONE)  # type: ignore[arg-type]
    try:
        context.on("page", watched.watch)
        come_in(context, yard.url, secret)
        page = context.new_page()
        page.goto(f"{yard.url}/app/access")
        expect(page).to_have_title("Secrets · Corral")
        store(page, "own-token-with-a-name-that-is-rather-long-for-a-phone", "x")
        expect(row(page, "own-token-with-a-name-that-is-rather-long-for-a-phone")).to_be_visible()
        expect(page.get_by_role("group", name="Whose secrets")).to_have_count(0)
        expect_fits(page)
        assert axe(page) == []
    finally:
        context.close()
    assert yard.call("GET", "/api/secrets")[1] == []


def test_frontend_without_a_key_file_says_so_when_a_secret_is_stored(
    built_page: None, aside: BackgroundLoop, context: BrowserContext, watched: BrowserErrors, postgres: str
) -> None:
    watched.allow("status of 503")
    with aside.inside(keyless_frontend(postgres)) as frontend:
        come_in(context, frontend.url)
        page = context.new_page()
        page.goto(f"{frontend.url}/app/access?tab=secrets")
        store(page, "hub-token", "x")
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("key")
        page.close()
