"""What belongs to no single page: cuts, two frontends, addresses, keyboards, phones, and the weight of it all."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Response, expect

from tests.page.support import LONG_MS, BrowserErrors, Fleet, axe_by_day_and_night, come_in, expect_fits
from tests.support.frontends import ADMIN_KEY
from tests.worker.relay import Relay

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 800}
TABS_MAX = 60
FIRST_SCRIPT_BYTES = 124 * 1024
PAGES = ("/", "/playground", "/models", "/nodes", "/backends", "/operations", "/runs", "/usage", "/access", "/settings")
PARTS = (
    "/nodes/worker-1",
    "/models?view=catalog",
    "/backends?view=catalog",
    "/access?tab=users",
    "/access?new=true",
    "/access?tab=secrets",
    "/access?tab=secrets&new=true",
    "/settings?tab=configuration",
    "/settings?tab=galleries",
    "/settings?tab=audit",
)
CHOSEN = "fieldset.segments .chosen, main [aria-current=page], [aria-pressed=true], option:checked"
# An address, what is typed there, and what is chosen.
ADDRESSES: tuple[tuple[str, str | None, tuple[str, ...]], ...] = (
    ("/nodes?q=worker&status=healthy", "worker", ("healthy",)),
    ("/models?view=catalog&q=tiny", "tiny", ("Catalog",)),
    ("/backends?view=catalog&q=fake", "fake", ("Catalog",)),
    ("/operations?kind=models&outcome=failed&q=herd", "herd", ("Models", "Failed")),
    ("/runs?state=failed&kind=task&owner=everybody", None, ("Everybody", "failed", "task")),
    ("/playground?mode=embeddings", None, ("Embeddings",)),
    ("/usage?by=key&span=month&of=requests", None, ("Keys", "30 days", "Requests")),
    ("/access?tab=keys&show=all&q=nobody", "nobody", ("Keys", "All")),
    ("/access?tab=secrets&of=cluster&q=hub", "hub", ("Secrets", "Cluster")),
    ("/settings?tab=audit&q=token", "token", ("Audit log",)),
)


def open_page(page: Page, url: str, path: str) -> None:
    page.goto(f"{url}/app{path}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def is_live(page: Page) -> Locator:
    return page.get_by_role("status").filter(has_text="Live")


def key_line(page: Page, name: str) -> Locator:
    return page.get_by_role("listitem", name=name, exact=True)


def tab_to(page: Page, target: Locator) -> None:
    expect(target).to_be_visible()
    for _ in range(TABS_MAX):
        if target.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{target} is not reached within {TABS_MAX} steps of the Tab key")


@pytest.fixture
def relay(pair: Fleet) -> Iterator[Relay]:
    """A way to the first frontend that can be cut."""
    with pair.aside.inside(Relay(pair.url())) as relay:
        pair.run(relay.open())
        yield relay


@pytest.fixture
def tab(context: BrowserContext, pair: Fleet) -> Page:
    """Of an admin, on the first of two frontends."""
    come_in(context, pair.url())
    return context.new_page()


@pytest.mark.behaviour("PAGE-131")
def test_cut_is_shown_and_what_was_missed_is_there_without_a_reload(
    context: BrowserContext, pair: Fleet, relay: Relay, watched: BrowserErrors
) -> None:
    watched.allow("net::ERR_")
    come_in(context, relay.url)
    page = context.new_page()
    open_page(page, relay.url, "/access")
    expect(is_live(page)).to_be_visible()
    expect(page.get_by_role("list", name="Keys")).to_be_visible()
    page.evaluate("window.isTheSamePage = true")

    pair.run(relay.close())
    lost = page.get_by_text("Connection to the server lost")
    expect(lost).to_be_visible()
    expect(page.get_by_role("list", name="Keys")).to_be_visible()
    pair.new_key("infer", name="made meanwhile")
    pair.run(relay.open())

    expect(is_live(page)).to_be_visible()
    expect(lost).to_have_count(0)
    expect(key_line(page, "made meanwhile")).to_be_visible()
    pair.new_key("infer", name="made afterwards")
    expect(key_line(page, "made afterwards")).to_be_visible()
    assert page.evaluate("window.isTheSamePage") is True


def test_two_frontends_show_the_same_and_a_revoked_key_shows_the_door(
    tab: Page, browser: Browser, pair: Fleet, watched: BrowserErrors
) -> None:
    watched.allow("status of 401")
    secret = pair.new_key("operate", name="guest")
    other = browser.new_context(viewport=DESK)  # type: ignore[arg-type]
    try:
        other.on("page", watched.watch)
        come_in(other, pair.url(1), secret)
        guest = other.new_page()
        open_page(guest, pair.url(1), "/models")
        expect(is_live(guest)).to_be_visible()
        pair.run(pair.models.put("twin"))
        expect(guest.get_by_role("main").get_by_text("twin", exact=True)).to_be_visible()
        open_page(tab, pair.url(), "/models")
        expect(tab.get_by_role("main").get_by_text("twin", exact=True)).to_be_visible()
        pair.run(pair.models.forget("twin"))
        for page in (tab, guest):
            expect(page.get_by_role("main").get_by_text("twin", exact=True)).to_have_count(0)

        open_page(tab, pair.url(), "/access")
        tab.get_by_role("button", name="Actions for guest").click()
        tab.get_by_role("menuitem", name="Revoke").click()
        tab.get_by_role("button", name="Revoke guest").click()
        expect(guest.locator("input[name=key]")).to_be_visible()
        expect(guest.get_by_role("link", name="Nodes")).to_have_count(0)
    finally:
        other.close()


@pytest.mark.behaviour("OPS-108")
def test_every_page_is_restored_from_its_address(tab: Page, pair: Fleet) -> None:
    for path, typed, chosen in ADDRESSES:
        open_page(tab, pair.url(), path)
        if typed is not None:
            expect(tab.get_by_role("searchbox").first).to_have_value(typed)
        for name in chosen:
            control = tab.locator(CHOSEN).filter(has_text=re.compile(rf"^{name}\b", re.IGNORECASE))
            expect(control.first).to_be_attached()
        tab.reload()
        expect(tab).to_have_url(f"{pair.url()}/app{path}")


@pytest.mark.behaviour("PAGE-134")
def test_every_page_is_usable_by_day_by_night_and_on_a_phone(tab: Page, pair: Fleet) -> None:
    found: list[str] = []
    for path in PAGES + PARTS:
        tab.set_viewport_size(DESK)  # type: ignore[arg-type]
        open_page(tab, pair.url(), path)
        expect(tab.get_by_role("status", name="Loading")).to_have_count(0)
        found += [f"{path}: {fault}" for fault in axe_by_day_and_night(tab)]
        tab.set_viewport_size(PHONE)  # type: ignore[arg-type]
        expect_fits(tab)
    assert found == []


@pytest.mark.behaviour("PAGE-135")
def test_keys_alone_lead_from_the_door_to_an_approved_node(
    context: BrowserContext, pair: Fleet, watched: BrowserErrors
) -> None:
    watched.allow(r"status of 401 .*/api/(session|me)\)")
    token = pair.run(pair.models.cluster.token(name="newcomer"))
    pair.run(pair.models.cluster.new_worker("newcomer", token).start())
    pair.run(pair.models.cluster.become({"newcomer": "pending"}))
    page = context.new_page()
    page.goto(f"{pair.url()}/app/")
    tab_to(page, page.locator("input[name=key]"))
    page.keyboard.type(ADMIN_KEY)
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("link", name="Nodes", exact=True))
    page.keyboard.press("Enter")
    # The overview, which is still there for a moment, has such a button, too.
    expect(page.get_by_role("heading", name="Nodes", level=1)).to_be_visible()
    tab_to(page, page.get_by_role("button", name="Approve newcomer").first)
    page.keyboard.press("Enter")
    line = page.get_by_role("list", name="Nodes").get_by_role("listitem", name="newcomer")
    expect(line).to_contain_text("healthy", timeout=LONG_MS)


def test_first_script_is_small(tab: Page, pair: Fleet) -> None:
    scripts: list[Response] = []

    def note(response: Response) -> None:
        if response.request.resource_type == "script":
            scripts.append(response)

    tab.on("response", note)
    open_page(tab, pair.url(), "/")
    weights = {script.url.rsplit("/", 1)[-1]: int(script.headers["content-length"]) for script in scripts}
    first = {name: size for name, size in weights.items() if not name.startswith("Chart")}
    assert first, "scripts were fetched"
    assert sum(first.values()) <= FIRST_SCRIPT_BYTES, first
