"""Fixtures: a built page, a fleet and a browser. Each is made once and shared; a test cleans up what it changes.

Playwright's plain interface keeps an event loop open in this thread for as long as it lives, and other tests of the
same process have loops of their own. So its loop is put aside except while a test of the page runs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.page.support import EXPECT_MS, BackgroundLoop, BrowserErrors, Fleet, come_in, fleet_of
from tools.browser import find_browser, list_arguments
from tools.page import PageFolders, PageProblem, build_page

# The first one may have to wait for the page to be built, and for a fleet.
LIMIT_S = 400
VIEWPORT = {"width": 1280, "height": 800}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "built_page" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(LIMIT_S))
    # In whichever order, those that share a fleet come one after the other: it is made once, and does not stay.
    shared = [item for item in items if _shares_the_fleet(item)]
    if shared:
        place = items.index(shared[0])
        rest = [item for item in items[place:] if not _shares_the_fleet(item)]
        items[place:] = [*shared, *rest]


def _shares_the_fleet(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and "fleet" in item.fixturenames and not hasattr(item.module, "fleet")


class LentBrowser:
    """Lends Playwright's browser to one test at a time, and stores its event loop in between."""

    def __init__(self, browser: Browser, loop: asyncio.AbstractEventLoop) -> None:
        self.browser = browser
        self._loop = loop

    @contextmanager
    def use(self) -> Iterator[Browser]:
        asyncio._set_running_loop(self._loop)
        try:
            yield self.browser
        finally:
            asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def lent_browser() -> Iterator[LentBrowser]:
    found = find_browser()
    if found is None:
        assert not os.environ.get("CI"), "there is no Chromium: python -m tools.browser"
        pytest.skip("there is no Chromium: python -m tools.browser")
    expect.set_options(timeout=EXPECT_MS)
    playwright = sync_playwright().start()
    loop = asyncio._get_running_loop()
    assert loop is not None, "Playwright's loop is open"
    browser = playwright.chromium.launch(executable_path=found, args=list_arguments())
    asyncio._set_running_loop(None)
    lent = LentBrowser(browser, loop)
    yield lent
    with lent.use():
        browser.close()
        playwright.stop()


@pytest.fixture(scope="session")
def built_page() -> None:
    """Build the real page. The first test process builds it, and the others wait."""
    try:
        build_page(PageFolders())
    except PageProblem as problem:
        if problem.state == "failed" or os.environ.get("CI"):
            pytest.fail(f"{problem.sentence} {problem.hint}")
        pytest.skip(problem.sentence)


@pytest.fixture(scope="session")
def aside() -> Iterator[BackgroundLoop]:
    loop = BackgroundLoop()
    yield loop
    loop.close()


@pytest.fixture(scope="package")
def fleet(built_page: None, aside: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Yield one frontend and two workers, shared by all modules that have no fleet of their own."""
    with fleet_of(aside, tmp_path_factory.mktemp("fleet"), "worker-1", "worker-2") as made:
        yield made


@pytest.fixture(scope="module")
def pair(built_page: None, aside: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Yield two frontends and one worker, shared by all tests of a module."""
    with fleet_of(aside, tmp_path_factory.mktemp("pair"), "worker-1", frontends=2) as made:
        yield made


@pytest.fixture
def browser(lent_browser: LentBrowser) -> Iterator[Browser]:
    with lent_browser.use() as browser:
        yield browser


@pytest.fixture
def watched(browser: Browser) -> Iterator[BrowserErrors]:
    """Fail the test on any error of the browser that the test has not allowed."""
    watched = BrowserErrors()
    yield watched
    assert watched.bad() == []


@pytest.fixture
def context(browser: Browser, watched: BrowserErrors) -> Iterator[BrowserContext]:
    """Yield a browser context without a session, whose pages are watched for errors."""
    context = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")  # type: ignore[arg-type]
    context.set_default_timeout(EXPECT_MS)
    context.on("page", watched.watch)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, fleet: Fleet) -> Page:
    """Return a page that is signed in as an admin of `fleet` and has opened no address yet."""
    come_in(context, fleet.url())
    return context.new_page()


@pytest.fixture
def visitor(context: BrowserContext, fleet: Fleet, watched: BrowserErrors) -> Page:
    """Return a blank page without a session."""
    # The page asks who it is; browsers note every such answer as an error.
    watched.allow(r"status of 401 .*/api/(session|me)\)")
    del fleet
    return context.new_page()
