"""The web page in a browser: its weight, its first paint, and whether it keeps up with a busy fleet.

200 pretend nodes and 50 operations under way on one frontend, whose progress changes four times a second. Each page is
looked at for a while: frames that the browser drew, gaps between them, requests that it made. Beside it in the same run
a tab like LocalAI's page: it polls the operations every second, and nodes and models every five.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import aiohttp
from playwright.async_api import Browser, Page, Request, async_playwright

from bench.cluster import BenchCluster, run_cluster
from bench.pretend_fleet import SETTINGS, URI, FleetProcess, register_nodes, retire_real_worker, run_pretend_fleet
from bench.report import ReportRow, format_table, print_progress, silence_logs
from tools.browser import find_browser, list_arguments
from tools.page import PageFolders, build_page

NODES = 200
OPERATIONS = 50
NODES_EACH = 4
ENGINES = 10
WORK_S = 240.0
LOOK_S = 15.0
OTHER_CORE = 1
PAGES = ("operations", "nodes", "backends", "")
# Drawn later than three frames of sixty a second: a person sees that.
GAP_MS = 50

_WATCH_FRAMES = """() => {
  window.__frames = [];
  window.__long = 0;
  const count = (list) => { window.__long += list.getEntries().length; };
  new PerformanceObserver(count).observe({ entryTypes: ["longtask"] });
  let last = performance.now();
  const tick = (now) => { window.__frames.push(now - last); last = now; requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
}"""
_POLL_AS_LOCALAI = """() => {
  const read = (path) => fetch(path).then((answer) => answer.json());
  setInterval(() => read("/api/operations"), 1000);
  setInterval(() => { read("/api/nodes"); read("/api/nodes/models"); }, 5000);
}"""
_PAINT = """() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null"""


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
        weight = await _first_load(browser, running)
        await retire_real_worker(running, session)
        print_progress(f"registering {NODES} nodes")
        nodes = await register_nodes(running, session, NODES)
        fleet = await stack.enter_async_context(run_pretend_fleet(running, nodes, OTHER_CORE))
        await _begin(running, session, fleet, nodes)
        rows = [await _look(browser, running, name) for name in PAGES]
        rows.append(await _look(browser, running, None))
    return "\n".join(
        [weight, format_table(f"{NODES} nodes, {OPERATIONS} operations under way, {LOOK_S:g} s each", rows)]
    )


async def _begin(
    running: BenchCluster, session: aiohttp.ClientSession, fleet: FleetProcess, nodes: list[dict[str, str]]
) -> None:
    await fleet.set_order(WORK_S)
    for number in range(OPERATIONS):
        chosen = [nodes[(number * NODES_EACH + place) % NODES]["id"] for place in range(NODES_EACH)]
        request_body = {"uri": URI, "name": f"engine-{number % ENGINES}", "nodes": chosen}
        async with session.post(f"{running.url}/api/backends/install-external", json=request_body) as answer:
            body = await answer.json()
            assert answer.status in (200, 202), body
            assert not body["deduplicated"], body


async def _first_load(browser: Browser, running: BenchCluster) -> str:
    """Load the page in an empty browser on an empty cluster: bytes on the wire until the overview is drawn, and its
    time."""
    print_progress("first load")
    page, seen = await open_page(browser, running)
    await page.goto(f"{running.url}/app/")
    await page.get_by_role("heading", level=1).wait_for()
    paint, useful = await page.evaluate(_PAINT), await page.evaluate("() => performance.now()")
    await page.wait_for_timeout(1000)
    kinds = {"script": 0.0, "stylesheet": 0.0, "font": 0.0}
    charts = 0.0
    for request in seen:
        if request.resource_type in kinds:
            size = (await request.sizes())["responseBodySize"] / 1000
            kinds[request.resource_type] += size
            charts += size if "/Chart-" in request.url and request.resource_type == "script" else 0.0
    await page.context.close()
    row = {
        "script KB": kinds["script"] - charts,
        "charts, after it KB": charts,
        "style KB": kinds["stylesheet"],
        "fonts KB": kinds["font"],
        "first paint ms": float(paint or 0),
        "overview drawn ms": float(useful),
    }
    return format_table("The first load of the overview, over the wire", [ReportRow("Corral", row)])


async def open_page(browser: Browser, running: BenchCluster) -> tuple[Page, list[Request]]:
    """Return a blank page of an admin, and the list of the requests that it will have made."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    entered = await context.request.post(f"{running.url}/api/session", data={"key": running.admin_key})
    assert entered.ok, await entered.text()
    page = await context.new_page()
    seen: list[Request] = []

    def note(request: Request) -> None:
        seen.append(request)

    page.on("request", note)
    return page, seen


async def _look(browser: Browser, running: BenchCluster, name: str | None) -> ReportRow:
    """Measure one of the pages, or with None a tab that polls as LocalAI's page does."""
    label = "polling as LocalAI's page does" if name is None else f"/app/{name}"
    print_progress(label)
    page, seen = await open_page(browser, running)
    if name is None:
        await page.goto(f"{running.url}/healthz")
        await page.evaluate(_POLL_AS_LOCALAI)
    else:
        await page.goto(f"{running.url}/app/{name}")
        await page.get_by_role("heading", level=1).wait_for()
    await page.wait_for_timeout(2000)
    await page.evaluate(_WATCH_FRAMES)
    requests, cpu = len(seen), running.frontend_cpu_s()
    await page.wait_for_timeout(LOOK_S * 1000)
    cpu = running.frontend_cpu_s() - cpu
    gaps: list[float] = await page.evaluate("() => window.__frames")
    values = {
        "frames/s": len(gaps) / LOOK_S,
        f"gaps > {GAP_MS} ms": float(sum(gap > GAP_MS for gap in gaps)),
        "longest ms": max(gaps),
        "long tasks": float(await page.evaluate("() => window.__long")),
        "requests/min": (len(seen) - requests) / LOOK_S * 60,
        "frontend CPU ms/s": cpu / LOOK_S * 1000,
    }
    await page.context.close()
    return ReportRow(label, values)
