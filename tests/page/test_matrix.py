"""The matrix of a large fleet: what is out of sight is not drawn, and is reached all the same."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.page.support import Fleet, axe, leave, many_nodes

MANY = 200
# Two workers that run stand beside them, and the first column has the names of backends.
COLUMNS = MANY + 3
DRAWN_MAX = 40


def cell(page: Page, node: str) -> Locator:
    return page.get_by_role("button", name=re.compile(rf"^fake on {node}\b"))


def test_matrix_of_200_nodes_draws_the_visible_ones_and_keys_reach_the_others(page: Page, fleet: Fleet) -> None:
    fleet.run(fleet.models.put("wide"))
    fleet.run(fleet.models.loaded("wide", "worker-1"))
    with many_nodes(fleet, "stall-", MANY, approves=True):
        page.goto(f"{fleet.url()}/app/backends")
        grid = page.get_by_role("grid", name="Backends by node")
        expect(grid).to_have_attribute("aria-colcount", str(COLUMNS))
        expect(cell(page, "stall-0")).to_be_visible()
        cells = grid.locator("td button")
        assert cells.count() < DRAWN_MAX
        assert axe(page) == []

        cell(page, "stall-0").focus()
        page.keyboard.press("PageDown")
        expect(cell(page, "stall-10")).to_be_focused()
        expect(cell(page, "stall-10")).to_be_in_viewport(ratio=0.9)
        page.keyboard.press("Control+End")
        last = cell(page, "worker-2")
        expect(last).to_be_focused()
        expect(last).to_be_in_viewport(ratio=0.9)
        expect(last.locator("..")).to_have_attribute("aria-colindex", str(COLUMNS))
        expect(cell(page, "stall-10")).to_have_count(0)
        assert cells.count() < DRAWN_MAX

        # Scrolled to somewhere else, the focus stays where it was, and the heads stay in sight.
        page.locator(".backends-matrix").evaluate("box => { box.scrollLeft = 100 * 128 }")
        expect(cell(page, "stall-100")).to_be_in_viewport(ratio=0.9)
        expect(grid.get_by_role("columnheader", name=re.compile("^stall-100"))).to_be_in_viewport()
        expect(grid.get_by_role("rowheader", name=re.compile("^fake"))).to_be_in_viewport()
        expect(last).to_be_focused()
        page.keyboard.press("ArrowLeft")
        expect(cell(page, "worker-1")).to_be_focused()
        expect(cell(page, "worker-1")).to_be_in_viewport(ratio=0.9)
        page.keyboard.press("Home")
        expect(grid.get_by_role("link", name="fake", exact=True)).to_be_focused()
        assert axe(page) == []
        leave(page)
    fleet.run(fleet.models.forget("wide"))
