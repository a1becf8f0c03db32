"""The page of operations with a crowd under way: 890 operations on 200 pretend nodes, each with four updates a second.

The page is measured as it opens, with the first 50 cards drawn, and again with every card drawn by *Show 50 more*. For
both: elements of the document, its height, frames that the browser drew, its longest task, and the time from a letter
in the search until the list that it leaves has been drawn.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import aiohttp
from playwright.async_api import Page, async_playwright

from bench.cluster import BenchCluster, run_cluster
from bench.page import open_page
from bench.pretend_fleet import SETTINGS, URI, FleetProcess, register_nodes, retire_real_worker, run_pretend_fleet
from bench.report import ReportRow, format_table, print_progress, silence_logs
from tools.browser import find_browser, list_arguments
from tools.page import PageFolders, build_page

NODES = 200
OPERATIONS = 890
CONCURRENCY_MAX = 8
WORK_S = 900.0
LOOK_S = 15.0
OTHER_CORE = 1
# More presses of *Show 50 more* than there are cards to show.
PRESSES_MAX = 40
# What is typed leaves 90 operations, those of the last engine.
TYPED = "-4"

_WATCH = """() => {
  const frames = (window.__frames = []);
  const tasks = (window.__tasks = [0]);
  const note = (list) => { for (const task of list.getEntries()) tasks.push(task.duration); };
  new PerformanceObserver(note).observe({ entryTypes: ["longtask"] });
  let last = performance.now();
  const tick = (now) => { frames.push(now - last); last = now; requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
}"""
_SEEN = """() => ({
  elements: document.getElementsByTagName("*").length,
  height: document.documentElement.scrollHeight,
  cards: document.querySelectorAll("li.operations-card").length,
  frames: window.__frames.length,
  gap: Math.max(...window.__frames),
  task: Math.max(...window.__tasks),
})"""
# Whether there were more to show. Pressed by the script: whoever moves a mouse waits until the page stands still.
_SHOW_MORE = """async () => {
  const more = [...document.querySelectorAll("button")].find((one) => / more of /.test(one.textContent));
  more?.click();
  await new Promise((resolve) => requestAnimationFrame(resolve));
  return more !== undefined;
}"""
# From the first letter until the list that the second one leaves has been drawn.
_TYPE = """async (typed) => {
  const field = document.querySelector('input[type="search"]');
  const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const begun = performance.now();
  for (const letter of typed) {
    set.call(field, field.value + letter);
    field.dispatchEvent(new Event("input", { bubbles: true }));
    await frame();
    await frame();
  }
  return performance.now() - begun;
}"""


def run() -> str:
    build_page(PageFolders())
    with run_cluster(**SETTINGS) as running:
        return asyncio.run(_measure(running))


async def _measure(running: BenchCluster) -> str:
    silence_logs()
    async with AsyncExitStack() as stack:
        headers = {"Authorization": f"Bearer {running.admin_key}"}
        session = await stack.enter_async_context(aiohttp.ClientSession(headers=headers))
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(executable_path=find_browser(), args=list_arguments())
        stack.push_async_callback(browser.close)
        await retire_real_worker(running, session)
        print_progress(f"registering {NODES} nodes")
        nodes = await register_nodes(running, session, NODES)
        fleet = await stack.enter_async_context(run_pretend_fleet(running, nodes, OTHER_CORE))
        await _begin(running, session, fleet, nodes)
        page, _ = await open_page(browser, running)
        await page.goto(f"{running.url}/app/operations")
        await page.locator("li.operations-card").first.wait_for()
        rows = [await _look(page, "the first 50, as it opens")]
        await _draw_all(page)
        rows.append(await _look(page, "all of them, on request"))
    return format_table(f"{OPERATIONS} operations under way on {NODES} nodes, {LOOK_S:g} s each", rows)


async def _begin(
    running: BenchCluster, session: aiohttp.ClientSession, fleet: FleetProcess, nodes: list[dict[str, str]]
) -> None:
    print_progress(f"asking for {OPERATIONS} operations")
    await fleet.set_order(WORK_S)
    slots = asyncio.Semaphore(CONCURRENCY_MAX)

    async def ask(number: int) -> None:
        request_body = {"uri": URI, "name": f"engine-{number // NODES}", "nodes": [nodes[number % NODES]["id"]]}
        async with slots, session.post(f"{running.url}/api/backends/install-external", json=request_body) as answer:
            body = await answer.json()
            assert answer.status in (200, 202), body
            assert not body["deduplicated"], body

    await asyncio.gather(*(ask(number) for number in range(OPERATIONS)))


async def _draw_all(page: Page) -> None:
    print_progress("drawing all of them")
    for _ in range(PRESSES_MAX):
        if not await page.evaluate(_SHOW_MORE):
            return


async def _look(page: Page, label: str) -> ReportRow:
    print_progress(label)
    await page.wait_for_timeout(2000)
    await page.evaluate(_WATCH)
    await page.wait_for_timeout(LOOK_S * 1000)
    seen = await page.evaluate(_SEEN)
    took_ms = await page.evaluate(_TYPE, TYPED)
    await page.get_by_role("searchbox", name="Search operations").fill("")
    values = {
        "cards": float(seen["cards"]),
        "elements": float(seen["elements"]),
        "height px": float(seen["height"]),
        "frames/s": seen["frames"] / LOOK_S,
        "longest gap ms": float(seen["gap"]),
        "longest task ms": float(seen["task"]),
        "two letters in the search ms": float(took_ms),
    }
    return ReportRow(label, values)
