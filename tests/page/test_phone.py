"""The page on a phone: the composer is in view, the menu lies over the page, links can be hit by a finger."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.page.support import LONG_MS, Fleet, expect_fits, leave

PHONE = {"width": 390, "height": 844}
# The least size of a target, as WCAG 2.2 has it.
FINGER_PX = 24


@pytest.fixture
def phone(page: Page) -> Page:
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    return page


def test_composer_is_in_view_on_a_phone_when_the_playground_opens(phone: Page, fleet: Fleet) -> None:
    fleet.run(fleet.models.put("pocket"))
    phone.goto(f"{fleet.url()}/app/playground?model=pocket")
    expect(phone.get_by_label("Your message")).to_be_in_viewport(ratio=1)
    leave(phone)
    fleet.run(fleet.models.forget("pocket"))


def test_menu_lies_over_the_page_on_a_phone(phone: Page, fleet: Fleet) -> None:
    phone.goto(f"{fleet.url()}/app/nodes")
    heading = phone.get_by_role("heading", name="Nodes", level=1)
    expect(heading).to_be_visible()
    # The buttons beside the heading move it when the list has arrived.
    expect(phone.get_by_role("status", name=re.compile("Loading"))).to_have_count(0)
    expect(phone.get_by_role("link", name="worker-1").first).to_be_visible()
    phone.evaluate("document.fonts.ready.then(() => null)")
    # What still runs here because of another test has a line of its own above the heading.
    expect(phone.get_by_role("region", name="Active operations")).to_have_count(0, timeout=LONG_MS)
    before, after = phone.get_by_role("button", name="Menu").evaluate(_PLACES_OF_HEADING)
    expect(phone.get_by_role("link", name="Playground")).to_be_in_viewport()
    assert after == before
    expect_fits(phone)


# Of the heading before a button is pressed and after it, with nothing but that in between.
_PLACES_OF_HEADING = """async button => {
  const place = () => JSON.stringify(document.querySelector('h1').getBoundingClientRect());
  const before = place();
  button.click();
  await new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  return [before, place()];
}"""


@pytest.mark.parametrize("path", ["/nodes", "/models", "/operations", "/nodes/worker-1", "/backends"])
def test_links_that_stand_alone_are_as_high_as_a_finger_on_a_phone(phone: Page, fleet: Fleet, path: str) -> None:
    fleet.run(fleet.models.put("pocket"))
    phone.goto(f"{fleet.url()}/app{path}")
    expect(phone.get_by_role("heading", level=1)).to_be_visible()
    expect(phone.get_by_role("status", name=re.compile("Loading"))).to_have_count(0)
    small = phone.locator("main :is(h2, td, li, .row) > a, main .nodes-name").evaluate_all(
        "(links, least) => links.filter(one => one.getClientRects().length > 0)"
        ".filter(one => one.getBoundingClientRect().height < least).map(one => one.textContent)",
        FINGER_PX,
    )
    assert small == []
    leave(phone)
    fleet.run(fleet.models.forget("pocket"))
