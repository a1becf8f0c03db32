"""The frame around every page: its title, its landmarks, and what stands there before the script has run."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, expect

from tests.page.support import AXE, BrowserErrors, Fleet, leave, many_nodes, wait_until


def test_every_page_has_a_title_of_its_own(page: Page, fleet: Fleet, watched: BrowserErrors) -> None:
    watched.allow("status of 404 .*no-such-model")
    titles = {
        "/": "Overview · Corral",
        "/nodes": "Nodes · Corral",
        "/nodes/worker-1": "worker-1 · Nodes · Corral",
        "/models/no-such-model": "no-such-model · Models · Corral",
        "/operations": "Operations · Corral",
    }
    for path, title in titles.items():
        page.goto(f"{fleet.url()}/app{path}")
        expect(page).to_have_title(title)


def test_page_says_that_it_loads_before_its_script_has_run(context: BrowserContext, fleet: Fleet) -> None:
    page = context.new_page()
    page.route("**/assets/*.js", lambda route: None)
    page.goto(f"{fleet.url()}/app/", wait_until="commit")
    expect(page.get_by_text("Loading Corral…")).to_be_visible()


def test_content_of_each_page_is_inside_a_landmark(page: Page, fleet: Fleet) -> None:
    outside = "async () => (await axe.run(document, {runOnly: ['region'], preload: false})).violations"
    for path in ("/", "/operations"):
        page.goto(f"{fleet.url()}/app{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.evaluate(AXE.read_text(encoding="utf-8") + "\n;0")
        assert [node["html"] for found in page.evaluate(outside) for node in found["nodes"]] == []


def test_approve_says_that_it_is_working_until_the_frontend_has_answered(page: Page, fleet: Fleet) -> None:
    page.add_init_script(_HOLD_APPROVALS)
    with many_nodes(fleet, "slow-", 1, approves=False):
        page.goto(f"{fleet.url()}/app/nodes")
        button = page.get_by_role("button", name="Approve slow-0").last
        button.click()
        expect(button).to_have_text("Approving…")
        expect(button).to_be_disabled()
        wait_until(page, "window.approve !== undefined")
        page.evaluate("window.approve()")
        expect(button).to_have_count(0)
        leave(page)


# A request to approve is sent when somebody calls `window.approve`.
_HOLD_APPROVALS = """
  const send = window.fetch;
  window.fetch = async (request, ...rest) => {
    if (String(request.url ?? request).endsWith('/approve')) {
      await new Promise(resolve => { window.approve = resolve; });
    }
    return send(request, ...rest);
  };
"""
