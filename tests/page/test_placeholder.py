"""The page that stands in for the page, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from corral.adapters.system import SystemClock
from corral.api.page.page_store import PageStore
from tests.page.fake import write_built, write_state
from tests.page.support import BackgroundLoop, BrowserErrors
from tests.support.frontends import running_frontend

NO_DATABASE = "postgresql://nobody@127.0.0.1:1/none"


@pytest.mark.behaviour("PAGE-8")
def test_placeholder_becomes_the_page_when_it_is_built(
    context: BrowserContext, watched: BrowserErrors, aside: BackgroundLoop, tmp_path: Path
) -> None:
    """On a frontend that is still starting, too."""
    built = tmp_path / "built"
    write_state(built, "building", "The web page is being built.", "It opens here by itself: `make page`.")
    watched.allow(r"status of 503")
    with aside.inside(running_frontend(NO_DATABASE, waits=False)) as frontend:
        frontend.core.api_deps.page = PageStore(built, SystemClock())
        page = context.new_page()
        page.goto(f"{frontend.url}/")
        expect(page).to_have_url(f"{frontend.url}/app/")
        # It loads itself anew every second: whatever is read of it is read again until it is there.
        text = "The web page is being built. It opens here by itself: make page."
        expect(page.locator("body")).to_have_text(text, use_inner_text=True)
        # Its own style is let through by the hash of it.
        expect(page.locator("main")).to_have_css("border-top-width", "2px")
        write_built(built)
        expect(page.locator("p")).to_have_text("A page.")
