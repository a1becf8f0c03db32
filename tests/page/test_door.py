"""Coming in and going out, in a real browser on a real fleet."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.page.support import COOKIE, BrowserErrors, Fleet, axe, come_in
from tests.support.frontends import ADMIN_KEY


def links(page: Page) -> Locator:
    """The navigation, once somebody has come in."""
    found = page.get_by_role("navigation").get_by_role("link")
    expect(found.filter(has_text="Playground")).to_be_visible()
    return found


def settings(page: Page) -> Locator:
    return links(page).filter(has_text="Settings")


@pytest.mark.behaviour("PAGE-18")
def test_login_link_signs_in_and_its_key_is_removed_from_the_address(
    visitor: Page, context: BrowserContext, fleet: Fleet
) -> None:
    visitor.goto(f"{fleet.url()}/app/nodes#key={ADMIN_KEY}")
    expect(settings(visitor)).to_be_visible()
    expect(visitor).to_have_url(f"{fleet.url()}/app/nodes")
    (cookie,) = [one for one in context.cookies() if one["name"] == COOKIE]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert ADMIN_KEY not in cookie["value"]
    assert ADMIN_KEY not in str(visitor.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])"))


@pytest.mark.behaviour("PAGE-18")
def test_link_logs_in_where_the_page_is_open_already_and_leaves_the_history(visitor: Page, fleet: Fleet) -> None:
    visitor.goto(f"{fleet.url()}/app/nodes")
    expect(visitor.locator("input[name=key]")).to_be_visible()
    # The same document with another hash, as a link that is pasted into the address bar.
    visitor.goto(f"{fleet.url()}/app/nodes#key={ADMIN_KEY}")
    expect(settings(visitor)).to_be_visible()
    expect(visitor).to_have_url(f"{fleet.url()}/app/nodes")
    visitor.go_back()
    expect(visitor).not_to_have_url(re.compile(re.escape(ADMIN_KEY)))


@pytest.mark.behaviour("PAGE-18")
def test_link_of_another_key_asks_before_it_replaces_a_session(
    context: BrowserContext, fleet: Fleet, watched: BrowserErrors
) -> None:
    # The page of nodes is still open when its reader may ask models alone.
    watched.allow("status of 403")
    other = fleet.new_key("infer", name="sent by somebody")
    come_in(context, fleet.url())
    page = context.new_page()
    page.goto(f"{fleet.url()}/app/nodes#key={other}")
    dialog = page.get_by_role("dialog", name="Sign in as sent by somebody?")
    expect(dialog).to_contain_text("You are signed in as admin")
    expect(page).to_have_url(f"{fleet.url()}/app/nodes")
    assert axe(page) == []
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    expect(settings(page)).to_be_visible()
    page.goto(f"{fleet.url()}/app/nodes#key={other}")
    dialog.get_by_role("button", name="Sign in as sent by somebody").click()
    expect(page.get_by_role("link", name="Settings")).to_be_hidden()
    page.goto(f"{fleet.url()}/app/playground")
    expect(links(page)).to_have_text(["Playground", "Agents", "Tasks and batches", "Runs", "Usage", "Secrets"])


@pytest.mark.behaviour("PAGE-18")
def test_link_of_the_same_key_changes_nothing_and_asks_nothing(context: BrowserContext, fleet: Fleet) -> None:
    come_in(context, fleet.url())
    (before,) = [one["value"] for one in context.cookies() if one["name"] == COOKIE]
    page = context.new_page()
    with page.expect_response(lambda answer: answer.url.endswith("/api/me") and answer.status == 200):
        page.goto(f"{fleet.url()}/app/nodes#key={ADMIN_KEY}")
    expect(settings(page)).to_be_visible()
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert [one["value"] for one in context.cookies() if one["name"] == COOKIE] == [before]


def test_sign_in_rejects_a_wrong_key_with_a_message_and_accepts_a_right_one(
    visitor: Page, fleet: Fleet, watched: BrowserErrors
) -> None:
    visitor.goto(f"{fleet.url()}/app/")
    assert axe(visitor) == []
    visitor.locator("input[name=key]").fill("ck_wrong")
    visitor.get_by_role("button", name="Sign in").click()
    expect(visitor.get_by_text("This API key is unknown, expired or revoked")).to_be_visible()
    visitor.locator("input[name=key]").fill(ADMIN_KEY)
    visitor.get_by_role("button", name="Sign in").click()
    expect(links(visitor).filter(has_text="Nodes")).to_be_visible()


def test_inference_key_sees_only_what_it_asks_and_owns(context: BrowserContext, fleet: Fleet) -> None:
    come_in(context, fleet.url(), fleet.new_key("infer"))
    page = context.new_page()
    page.goto(f"{fleet.url()}/app/playground")
    expect(links(page)).to_have_text(["Playground", "Agents", "Tasks and batches", "Runs", "Usage", "Secrets"])


def test_password_signs_in_and_sign_out_shows_the_form(visitor: Page, fleet: Fleet, watched: BrowserErrors) -> None:
    # Whatever is being asked when the session ends is refused.
    watched.allow("status of 401")
    body = {"name": "grace", "scope": "operate", "password": "correct horse"}
    status, grace = fleet.call("POST", "/api/users", body)
    assert status == 201
    visitor.goto(f"{fleet.url()}/app/nodes")
    visitor.locator("label", has_text="Password").click()
    visitor.get_by_label("Name").fill("grace")
    visitor.locator("input[name=password]").fill("wrong horse")
    visitor.get_by_role("button", name="Sign in").click()
    expect(visitor.get_by_role("alert")).to_contain_text("password")
    visitor.locator("input[name=password]").fill("correct horse")
    visitor.get_by_role("button", name="Sign in").click()
    expect(settings(visitor)).to_have_count(0)
    expect(visitor).to_have_url(f"{fleet.url()}/app/nodes")
    visitor.get_by_role("button", name="Sign out").click()
    expect(visitor.locator("input[name=key]")).to_be_visible()
    visitor.goto(f"{fleet.url()}/app/nodes")
    expect(visitor.locator("input[name=key]")).to_be_visible()
    assert fleet.call("DELETE", f"/api/users/{grace['id']}")[0] == 200
