"""Many tabs of one browser: they share one stream, and those that nobody sees keep no connection open."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.page.support import Fleet, come_in

TABS = 8


def live(page: Page) -> None:
    expect(page.get_by_role("status").filter(has_text="Live")).to_be_visible()


@pytest.mark.behaviour("PAGE-150")
def test_eight_tabs_of_one_browser_load_navigate_and_follow_changes(context: BrowserContext, fleet: Fleet) -> None:
    come_in(context, fleet.url())
    tabs = [context.new_page() for _ in range(TABS)]
    for tab in tabs:
        tab.goto(f"{fleet.url()}/app/nodes")
        expect(tab.get_by_role("list", name="Nodes").get_by_role("listitem", name="worker-1")).to_be_visible()
        live(tab)
    for tab in tabs:
        tab.bring_to_front()
        tab.get_by_role("link", name="worker-1", exact=True).first.click()
        expect(tab.get_by_role("heading", name="worker-1", level=1)).to_be_visible()
    for tab in tabs:
        tab.bring_to_front()
        tab.get_by_role("link", name="Keys and users", exact=True).click()
        expect(tab.get_by_role("list", name="Keys")).to_be_visible()
    fleet.new_key("infer", name="seen by eight tabs")
    for tab in tabs:
        expect(tab.get_by_role("listitem", name="seen by eight tabs", exact=True)).to_be_visible()
