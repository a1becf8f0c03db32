"""Settings in a browser: the cluster, its configuration, galleries, join tokens, and who did what."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.page.support import BrowserErrors, Fleet, axe
from tests.support.frontends import ADMIN_KEY


def choose(page: Page, name: str) -> None:
    page.locator("fieldset.segments label", has_text=name).click()


@pytest.mark.behaviour("PAGE-129")
def test_cluster_its_configuration_and_its_galleries(page: Page, fleet: Fleet) -> None:
    page.goto(f"{fleet.url()}/app/")
    page.get_by_role("link", name="Settings").click()
    line = page.get_by_role("listitem").filter(has_text="frontend-1")
    expect(line).to_contain_text("alive")
    expect(line).to_contain_text("serving this page")
    expect(line).to_contain_text(str(fleet.get("/api/cluster")["version"]))
    expect(page.get_by_text("no leader")).to_have_count(0)

    choose(page, "Configuration")
    page.get_by_role("searchbox", name="Search settings").fill("admin_key")
    expect(page.get_by_text("set, not shown")).to_be_visible()
    expect(page.get_by_text("environment CORRAL_ADMIN_KEY")).to_be_visible()
    assert ADMIN_KEY not in page.content()
    page.get_by_role("searchbox").fill("node_lease")
    expect(page.get_by_role("definition")).to_contain_text("5s")
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value("node_lease")
    expect(page.get_by_role("definition")).to_have_count(1)

    choose(page, "Galleries")
    panel = page.get_by_role("region", name="Galleries of models")
    expect(panel.get_by_role("listitem").first).to_contain_text("entries")
    panel.get_by_role("button", name="Refresh: galleries of models").click()
    expect(panel.get_by_role("status")).to_contain_text("fetched")


@pytest.mark.behaviour("SET-20")
def test_live_setting_is_changed_and_reset_on_the_page(page: Page, fleet: Fleet, watched: BrowserErrors) -> None:
    watched.allow(r"status of 400 .*/api/settings")
    page.goto(f"{fleet.url()}/app/settings?tab=configuration&q=model_idle")
    field = page.get_by_role("textbox", name="model_idle")
    field.fill("soon")
    page.get_by_role("button", name="Save model_idle").click()
    expect(page.get_by_role("alert")).to_contain_text("is not a duration")
    field.fill("2h")
    page.get_by_role("button", name="Save model_idle").click()
    expect(page.get_by_role("definition")).to_contain_text("cluster, changed by")
    page.get_by_role("button", name="Reset model_idle").click()
    expect(page.get_by_role("definition")).not_to_contain_text("cluster")


def test_origin_of_a_setting_is_shown_whole_however_long_it_is(page: Page, fleet: Fleet) -> None:
    page.goto(f"{fleet.url()}/app/settings?tab=configuration&set=true")
    origins = page.get_by_role("definition").locator(".tag")
    expect(origins.first).to_be_visible()
    page.set_viewport_size({"width": 960, "height": 800})
    longest = origins.first
    longest.evaluate(
        "tag => { tag.textContent = 'environment CORRAL_NATS_ACCOUNT_SEED_FILE (' + '/srv/corral'.repeat(8) + ')' }"
    )
    assert longest.evaluate("tag => tag.scrollWidth <= tag.clientWidth")
    assert longest.evaluate(
        "tag => tag.getBoundingClientRect().right <= tag.closest('dl').getBoundingClientRect().right"
    )
    assert origins.nth(1).get_attribute("title") == origins.nth(1).inner_text()


@pytest.mark.behaviour("PAGE-129")
def test_tokens_are_made_and_revoked_and_the_audit_log_has_it(page: Page, fleet: Fleet) -> None:
    for number in range(60):
        status, _ = fleet.call("POST", "/api/tokens", {"name": f"old {number}", "max_uses": 1})
        assert status == 201
    page.goto(f"{fleet.url()}/app/settings?tab=tokens")
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name").fill("rack 2")
    page.get_by_label("Maximum uses").fill("4")
    page.get_by_role("button", name="Create token").click()
    command = re.compile(re.escape(f"curl -fsSL {fleet.url()}/join | sh -s -- --token cj_"))
    expect(page.get_by_role("dialog").locator("pre").first).to_have_text(command)
    page.get_by_role("button", name="Done, I saved it").click()
    line = page.get_by_role("listitem", name="rack 2")
    expect(line).to_contain_text("used 0 of 4")
    line.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke rack 2").click()
    expect(line).to_have_count(0)
    page.get_by_label("Show expired and revoked").check()
    expect(line).to_contain_text("revoked")
    assert axe(page) == []

    choose(page, "Audit log")
    lines = page.get_by_role("row").filter(has_text="token.")
    expect(lines.first).to_contain_text("token.revoke")
    expect(lines).to_have_count(50)
    page.get_by_role("button", name="Load more").click()
    expect(page.get_by_role("row").filter(has_text="old 0")).to_have_count(1)
    page.get_by_role("searchbox", name="Filter loaded entries").fill("token.revoke")
    expect(page.get_by_role("row").filter(has_text="rack 2")).to_have_count(1)
    expect(page.get_by_role("row")).to_have_count(2)
    assert axe(page) == []
