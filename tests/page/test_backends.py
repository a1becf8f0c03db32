"""Backends in a browser: install, follow, upgrade in waves, repair drift; on real nodes, from a gallery of the test."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.e2e.cluster import FrontendProcess, empty_cluster
from tests.e2e.faults.scene import LONG_S, MIB, SETTINGS, UNDER_WAY, Scene, processes_of
from tests.page.support import LONG_MS, BackgroundLoop, BrowserErrors, axe, come_in, expect_fits, in_registry
from tests.support.polling import eventually
from tests.worker.backends.scene import engine_files, sha256, tar_of
from tests.worker.backends.server import File, FileServer, held_after

NODES = ("worker-1", "worker-2", "worker-3")
VERSIONS = ("2.0", "1.0")
# One for each test: what one leaves on the nodes is of no concern to the others.
NAMES = ("herd", "flock", "swarm", "shoal", "pack", "drove", "covey", "brood")


@dataclass
class BackendsScene:
    """The cluster of this module, and what the tests do to it."""

    aside: BackgroundLoop
    scene: Scene

    def frontends(self) -> list[FrontendProcess]:
        return self.scene.cluster.running()

    def archive(self, name: str, version: str) -> File:
        return self.scene.files.files[f"/{name}-{version}.tar.gz"]

    def hold(self, name: str, version: str, *, downloads: int = 1) -> None:
        """The next downloads stand still in the middle until `let_go`."""
        self.scene.let.clear()
        file = self.archive(name, version)
        file.faults = [held_after(len(file.body) // 2, self.scene.let)] * downloads

    def let_go(self) -> None:
        self.aside.run(_set(self.scene))

    def have(self, name: str, version: str, *nodes: str) -> None:
        body = {"nodes": list(nodes), "version": version}
        self.ended(self.post(f"/api/backends/install/{name}", body))

    def post(self, path: str, body: Any) -> str:
        status, answer = self.aside.run(self.frontends()[0].call("POST", path, body))
        assert status in (200, 202), answer
        return str(answer["id"])

    def ended(self, key: str) -> Any:
        return self.aside.run(self.scene.becomes(key, "completed"))

    def settle(self) -> None:
        """Wait until nothing is under way: a node takes one operation about a backend at a time."""
        self.aside.run(eventually(self._is_settled, within_s=LONG_S))

    async def _is_settled(self) -> bool:
        listed = (await self.frontends()[0].get("/api/operations"))["operations"]
        return not any(one["state"] in UNDER_WAY for one in listed)

    def version(self, name: str, node: str) -> str | None:
        found = self.aside.run(self.scene.installed(node)).get(name)
        return found and str(found["version"])

    def operation(self, key: str) -> Any:
        return self.aside.run(self.scene.operation(key))


async def _set(scene: Scene) -> None:
    scene.let.set()


def index_of(files: FileServer) -> str:
    """A gallery in which each backend has two versions."""
    entries = []
    for name in NAMES:
        versions = []
        for version in VERSIONS:
            body = tar_of(engine_files(f"{name} {version}", padding=MIB))
            files.put(f"/{name}-{version}.tar.gz", body, etag=f'"{name}-{version}"')
            source = {"kind": "url", "uri": f"{files.url}/{name}-{version}.tar.gz", "sha256": sha256(body)}
            versions.append({"version": version, "source": source | {"size_bytes": len(body)}})
        entries.append(
            {
                "name": name,
                "description": f"A {name} of animals.",
                "license": "MIT",
                "tags": ["test"],
                "manifest": {"command": ["{python}", "{dir}/engine.py"], "serves": ["chat"]},
                "versions": versions,
            }
        )
    return json.dumps(entries)


@asynccontextmanager
async def yard_of(folder: Path) -> AsyncIterator[Scene]:
    try:
        async with FileServer().running() as files, empty_cluster(folder) as cluster:
            files.put("/index.yaml", index_of(files).encode())
            galleries = json.dumps([{"name": "own", "url": f"{files.url}/index.yaml", "mirrors": []}])
            cluster.frontend_settings = {**SETTINGS, "CORRAL_BACKEND_GALLERIES": galleries}
            await cluster.postgres.start()
            await cluster.add_frontends(2)
            await cluster.join(*NODES)
            scene = Scene(cluster, files)

            async def knows_the_gallery() -> bool:
                known = [await frontend.get("/api/backends?term=herd") for frontend in cluster.running()]
                return all(page["backends"] for page in known)

            await eventually(knows_the_gallery, within_s=60)
            try:
                yield scene
            finally:
                scene.let.set()
    finally:
        for pid in processes_of(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def yard(built_page: None, aside: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackendsScene]:
    """Two frontends, three workers and a gallery, for all tests of this module."""
    with aside.inside(yard_of(tmp_path_factory.mktemp("yard"))) as scene:
        yield BackendsScene(aside, scene)


def _opened(context: BrowserContext, frontend: FrontendProcess) -> Page:
    """A tab of an admin."""
    come_in(context, frontend.url)
    page = context.new_page()
    page.goto(f"{frontend.url}/app/backends")
    return page


@pytest.fixture
def tabs(context: BrowserContext, yard: BackendsScene) -> tuple[Page, Page]:
    """One on each frontend. The first is in front: behind another a tab draws once a second, and a click takes two."""
    yard.settle()
    second, first = (_opened(context, frontend) for frontend in reversed(yard.frontends()[:2]))
    return first, second


@pytest.fixture
def tab(context: BrowserContext, yard: BackendsScene) -> Page:
    yard.settle()
    return _opened(context, yard.frontends()[0])


def go(page: Page, search: str) -> None:
    page.goto(re.sub(r"/app/.*", f"/app/backends{search}", page.url))


def cell(page: Page, backend: str, node: str) -> Locator:
    return page.get_by_role("button", name=re.compile(rf"^{backend} on {node}\b"))


def seen(page: Page, backend: str, node: str) -> Locator:
    """The letters in a cell; its name has more of them."""
    return cell(page, backend, node).locator(".backends-cell-line")


def member(page: Page, node: str) -> Locator:
    """A node of the operation that is followed."""
    return page.get_by_role("dialog").locator(f"li[data-node='{node}']")


def standing(page: Page, text: str) -> None:
    expect(page.get_by_role("dialog").get_by_role("status")).to_have_text(re.compile(text), timeout=LONG_MS)


@pytest.mark.behaviour("PAGE-100")
@pytest.mark.behaviour("PAGE-101")
@pytest.mark.behaviour("OPS-107")
def test_installation_is_followed_in_a_second_tab_after_its_frontend_is_killed(
    tabs: tuple[Page, Page], yard: BackendsScene, watched: BrowserErrors
) -> None:
    # What a browser notes of a frontend that is no more.
    watched.allow(r"ERR_|status of 5\d\d|ECONN")
    yard.hold("herd", "2.0", downloads=3)
    first, second = tabs
    go(first, "?view=catalog&backend=herd")
    first.get_by_role("button", name="Choose nodes").click()
    dialog = first.get_by_role("dialog")
    expect(dialog.get_by_text("3 of 3 selected")).to_be_visible()
    dialog.get_by_label("worker-3: Compatible").uncheck()
    dialog.get_by_label("Order").select_option("single")
    # The plan: which nodes, which version, how much.
    expect(dialog.get_by_text(re.compile(r"^2 nodes, about 2(\.\d+)? MiB to download\.$"))).to_be_visible()
    dialog.get_by_role("button", name="Install on 2 nodes").click()
    expect(member(first, "worker-1")).to_contain_text("downloading")
    expect(member(first, "worker-2")).to_contain_text("queued")
    expect(member(first, "worker-1").get_by_role("progressbar")).to_be_visible()
    expect(member(first, "worker-2").get_by_role("progressbar")).to_have_count(0)
    # The other tab shows it in two cells and in no third.
    expect(cell(second, "herd", "worker-1")).to_have_attribute("data-state", "busy")
    expect(cell(second, "herd", "worker-2")).to_have_attribute("data-state", "queued")
    expect(cell(second, "herd", "worker-3")).to_have_attribute("data-state", "missing")
    key = yard.aside.run(_only_operation(yard.scene))
    owner = yard.operation(key)["owner"]
    left, driver = (second, 0) if yard.scene.cluster.frontends[0].id == owner else (first, 1)
    yard.aside.run(yard.scene.cluster.frontends[driver].program.kill())
    # Its lease runs out in half a minute, which is nothing that this is about.
    yard.aside.run(in_registry(yard.scene.cluster, _RUN_OUT, id=key))
    yard.let_go()
    if left is first:
        standing(first, "Installed on 2 nodes")
        expect(member(first, "worker-2")).to_contain_text("completed")
        first.get_by_role("dialog").get_by_role("button", name="Close").last.click()
        go(first, "")
    for node in NODES[:2]:
        expect(cell(left, "herd", node)).to_have_attribute("data-state", "installed", timeout=LONG_MS)
        expect(seen(left, "herd", node)).to_contain_text("2.0")
    expect(cell(left, "herd", "worker-3")).to_have_attribute("data-state", "missing")
    yard.aside.run(yard.scene.cluster.add_frontends(1))


_RUN_OUT = "UPDATE operations SET lease_until = corral_now() - interval '1 second' WHERE id = CAST(:id AS uuid)"


async def _only_operation(scene: Scene) -> str:
    listed = (await scene.cluster.running()[0].get("/api/operations"))["operations"]
    (found,) = [one["id"] for one in listed if one["state"] == "running"]
    return str(found)


def test_backend_from_an_address_is_planned_cancelled_and_requested_again(tab: Page, yard: BackendsScene) -> None:
    file = yard.scene.offer("stray")
    yard.scene.let.clear()
    file.faults = [held_after(len(file.body) // 2, yard.scene.let)]
    go(tab, "?view=catalog&target=worker-3")
    tab.get_by_role("button", name="Install from URL").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog.get_by_label("worker-3: Compatible")).to_be_checked()
    dialog.get_by_label("URL").fill(f"{yard.scene.files.url}/stray.tar.gz")
    dialog.get_by_label("Name").fill("stray")
    dialog.get_by_label("SHA-256").fill("12")
    expect(dialog.get_by_text("64 hexadecimal digits")).to_be_visible()
    dialog.get_by_label("SHA-256").fill(sha256(file.body))
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_role("region", name="Plan")).to_contain_text("worker-3")
    dialog.get_by_role("button", name="Install on 1 node").click()
    expect(member(tab, "worker-3")).to_contain_text(re.compile("running|downloading"))
    tab.get_by_role("button", name="Cancel this operation").click()
    standing(tab, "^Cancelled")
    expect(member(tab, "worker-3")).to_contain_text("cancelled")
    yard.let_go()
    tab.get_by_role("button", name="Retry").click()
    standing(tab, "Installed on 1 node")


@pytest.mark.behaviour("PAGE-100")
@pytest.mark.behaviour("PAGE-105")
@pytest.mark.behaviour("OPS-107")
def test_upgrade_in_waves_stops_at_a_failure_goes_on_when_retried_and_drift_is_repaired_in_the_matrix(
    tab: Page, yard: BackendsScene
) -> None:
    yard.have("flock", "1.0", *NODES)
    go(tab, "?q=flock")
    expect(seen(tab, "flock", "worker-2")).to_contain_text("1.0")
    # The second to fetch it gets other bytes than the gallery has promised.
    file = yard.archive("flock", "2.0")
    file.faults = [_as_promised, _other_bytes]
    tab.get_by_role("button", name="Upgrade flock everywhere").click()
    dialog = tab.get_by_role("dialog")
    dialog.get_by_label("Order").select_option("single")
    expect(dialog.get_by_label("Stop after a failure")).to_be_checked()
    expect(dialog.get_by_role("region", name="Plan").get_by_role("row")).to_have_count(4)
    dialog.get_by_role("button", name="Upgrade on 3 nodes").click()
    standing(tab, r"^Failed on worker-2\. Stopped; 1 node skipped\.$")
    waves = dialog.locator(".backends-wave")
    for place, word in enumerate(("completed", "failed", "skipped")):
        expect(waves.nth(place)).to_contain_text(f"Wave {place + 1} of 3")
        expect(waves.nth(place).locator(".pill").first).to_have_text(word)
    expect(member(tab, "worker-2")).to_contain_text("failed")
    expect(dialog.get_by_role("progressbar")).to_have_count(0)
    # Behind the dialog: the failure with its error and no progress, and the version of the first is there already.
    tab.keyboard.press("Escape")
    expect(seen(tab, "flock", "worker-1")).to_contain_text("2.0")
    failed = cell(tab, "flock", "worker-2")
    expect(failed).to_have_attribute("data-state", "failed")
    expect(failed).to_have_attribute("title", re.compile("digest|SHA|sha"))
    expect(failed.get_by_role("progressbar")).to_have_count(0)
    expect(seen(tab, "flock", "worker-1")).to_contain_text("drift")
    assert axe(tab) == []
    failed.click()
    tab.get_by_role("button", name="Retry on 2 nodes").click()
    standing(tab, "Upgraded on 2 nodes")
    # All of what was upgraded together goes back together; then the nodes differ.
    tab.get_by_role("button", name="Roll back 2 nodes").click()
    standing(tab, "Rolled back on 2 nodes")
    tab.keyboard.press("Escape")
    expect(seen(tab, "flock", "worker-2")).to_contain_text("1.0")
    expect(seen(tab, "flock", "worker-1")).to_contain_text("drift")
    tab.get_by_role("button", name="Repair flock").click()
    expect(dialog.get_by_label("Version", exact=True)).to_have_value("2.0")
    expect(dialog.get_by_text("1 node skipped")).to_be_visible()
    dialog.get_by_role("button", name="Upgrade on 2 nodes").click()
    standing(tab, "Upgraded on 2 nodes")
    tab.keyboard.press("Escape")
    for node in NODES:
        expect(cell(tab, "flock", node)).to_have_accessible_name(f"flock on {node}, version 2.0")
    expect(tab.get_by_role("button", name="Repair flock")).to_have_count(0)


async def _as_promised(request: web.Request, file: File) -> web.StreamResponse:
    del request
    return web.Response(body=file.body, headers={"ETag": file.etag})


async def _other_bytes(request: web.Request, file: File) -> web.StreamResponse:
    del request
    return web.Response(body=b"\0" * len(file.body), headers={"ETag": file.etag})


def test_upgrade_all_upgrades_every_backend_at_once_and_follows_them_together(tab: Page, yard: BackendsScene) -> None:
    yard.have("drove", "1.0", "worker-1", "worker-2")
    yard.have("covey", "1.0", "worker-1")
    yard.hold("drove", "2.0", downloads=2)
    go(tab, "?q=drove")
    tab.get_by_role("button", name=re.compile(r"^Upgrade all \(\d\)$")).click()
    dialog = tab.get_by_role("dialog", name="Upgrade all")
    for name, nodes in {"drove": "worker-1 and worker-2", "covey": "worker-1"}.items():
        row = dialog.get_by_role("row", name=re.compile(name))
        for place, text in enumerate((name, f"1.0 → 2.0 on {nodes}", "2.0")):
            expect(row.get_by_role("cell").nth(place)).to_have_text(text)
    dialog.get_by_role("button", name=re.compile(r"^Upgrade \d backends$")).click()
    covey, drove = (
        dialog.locator(".backends-follow").filter(has=tab.get_by_role("heading", name=name))
        for name in ("covey", "drove")
    )
    # What is slow makes nothing else wait.
    expect(covey.get_by_role("status")).to_have_text("Upgraded on 1 node.", timeout=LONG_MS)
    expect(drove.get_by_role("status")).to_have_text("Upgrading: 0 of 2 nodes completed.")
    expect(drove.locator("li")).to_have_count(2)
    for node in NODES[:2]:
        expect(drove.locator(f"li[data-node='{node}']")).to_contain_text("1.0 → 2.0")
        expect(drove.locator(f"li[data-node='{node}']")).to_contain_text("downloading")
    yard.let_go()
    expect(drove.get_by_role("status")).to_have_text("Upgraded on 2 nodes.", timeout=LONG_MS)
    dialog.get_by_role("button", name="Close").last.click()
    for node in NODES[:2]:
        expect(cell(tab, "drove", node)).to_have_accessible_name(f"drove on {node}, version 2.0")
    expect(cell(tab, "drove", "worker-3")).to_have_attribute("data-state", "missing")
    expect(tab.get_by_role("button", name=re.compile("^Upgrade all"))).to_have_count(0, timeout=LONG_MS)


@pytest.mark.behaviour("PAGE-100")
def test_backend_of_one_node_is_upgraded_in_its_cell_and_rolled_back_on_its_page(
    tab: Page, yard: BackendsScene
) -> None:
    yard.have("brood", "1.0", "worker-1", "worker-2")
    go(tab, "?q=brood")
    cell(tab, "brood", "worker-1").click()
    tab.get_by_role("button", name="Upgrade to 2.0: brood on worker-1").click()
    standing(tab, "^Upgraded on 1 node")
    tab.keyboard.press("Escape")
    expect(seen(tab, "brood", "worker-1")).to_contain_text("2.0")
    expect(seen(tab, "brood", "worker-2")).to_contain_text("1.0")

    tab.goto(re.sub(r"/app/.*", "/app/nodes/worker-1?tab=backends", tab.url))
    brood = tab.get_by_role("region", name="Backends", exact=True).get_by_role("listitem", name="brood", exact=True)
    expect(brood).to_contain_text("previously 1.0")
    # That another node is behind is no upgrade of this one.
    expect(brood.get_by_text("2.0 available")).to_have_count(0)
    fetched = yard.scene.files.gets("/brood-1.0.tar.gz")
    brood.get_by_role("button", name="Change brood").click()
    tab.get_by_role("menuitem", name="Roll brood back to 1.0").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_contain_text("1.0 is still on the node; nothing is downloaded.")
    dialog.get_by_role("button", name="Roll brood back to 1.0").click()
    expect(brood).to_contain_text("previously 2.0", timeout=LONG_MS)
    expect(brood).to_contain_text("2.0 available")
    # The node reports the older version before the operation has ended, and only one operation at a time is admitted.
    yard.settle()
    expect(brood.get_by_text("Rolling back brood")).to_have_count(0)
    assert yard.scene.files.gets("/brood-1.0.tar.gz") == fetched

    # And forward again, there.
    brood.get_by_role("button", name="Change brood").click()
    tab.get_by_role("menuitem", name="Upgrade brood to 2.0").click()
    dialog.get_by_role("button", name="Upgrade brood to 2.0").click()
    expect(brood).to_contain_text("previously 1.0", timeout=LONG_MS)
    assert {node: yard.version("brood", node) for node in NODES} == {
        "worker-1": "2.0",
        "worker-2": "1.0",
        "worker-3": None,
    }


@pytest.mark.behaviour("PAGE-100")
@pytest.mark.behaviour("PAGE-101")
def test_absent_node_shows_a_pending_change_and_gets_it_when_it_is_back(tab: Page, yard: BackendsScene) -> None:
    worker = yard.scene.cluster.workers["worker-3"]
    yard.aside.run(worker.end())
    # A node that leaves while the dialog is open stays chosen, if it was.
    yard.aside.run(yard.scene.cluster.become({"worker-3": "offline"}))
    go(tab, "?view=catalog&backend=pack")
    tab.get_by_role("button", name="Choose nodes").click()
    dialog = tab.get_by_role("dialog")
    away = dialog.get_by_label("worker-3: Unreachable")
    expect(away).not_to_be_checked()
    dialog.get_by_role("button", name="All compatible").click()
    expect(away).to_be_checked()
    expect(dialog.get_by_role("row", name=re.compile("worker-3"))).to_contain_text("when it returns")
    dialog.get_by_role("button", name="Install on 3 nodes").click()
    standing(tab, "^Installed on 2 nodes; pending on 1 unreachable node")
    tab.keyboard.press("Escape")
    tab.get_by_text("Fleet", exact=True).click()
    pending = cell(tab, "pack", "worker-3")
    expect(pending).to_have_attribute("data-state", "pending")
    expect(pending).to_have_accessible_name("pack on worker-3, 2.0 pending")
    expect(cell(tab, "pack", "worker-1")).to_have_attribute("data-state", "installed")
    yard.aside.run(worker.start())
    expect(pending).to_have_attribute("data-state", "installed", timeout=LONG_MS)


@pytest.mark.behaviour("OPS-106")
def test_version_is_fresh_when_an_operation_has_ended_though_another_begins_in_the_same_second(
    tab: Page, yard: BackendsScene
) -> None:
    yard.have("swarm", "1.0", "worker-1")
    go(tab, "?view=installed&backend=swarm")
    panel = tab.get_by_role("region", name="swarm")
    expect(panel).to_contain_text("2.0 for 1 node")
    file = yard.archive("swarm", "2.0")
    yard.hold("swarm", "2.0")
    file.faults = [_as_promised, *file.faults]
    first = yard.post("/api/backends/upgrade/swarm", {"nodes": ["worker-1"]})
    second = yard.post("/api/backends/reinstall/swarm?after=true", {"nodes": ["worker-1"]})
    yard.ended(first)
    expect(panel.get_by_role("row", name=re.compile("worker-1"))).to_contain_text("2.0")
    expect(panel.get_by_text(re.compile(r"^2\.0 for "))).to_have_count(0)
    assert yard.operation(second)["state"] in UNDER_WAY
    yard.let_go()
    yard.ended(second)


def test_matrix_is_navigated_by_keys_kept_in_the_url_and_accessible(tab: Page, yard: BackendsScene) -> None:
    yard.have("shoal", "1.0", "worker-1", "worker-2")
    go(tab, "?q=shoal")
    expect(cell(tab, "shoal", "worker-2")).to_have_attribute("data-state", "installed")
    cell(tab, "shoal", "worker-1").focus()
    tab.keyboard.press("ArrowRight")
    expect(cell(tab, "shoal", "worker-2")).to_be_focused()
    tab.keyboard.press("End")
    expect(cell(tab, "shoal", "worker-3")).to_be_focused()
    assert axe(tab) == []
    tab.keyboard.press("Enter")
    dialog = tab.get_by_role("dialog", name="shoal on worker-3")
    expect(dialog).to_be_visible()
    tab.keyboard.press("Escape")
    expect(cell(tab, "shoal", "worker-3")).to_be_focused()
    tab.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    tab.reload()
    expect(dialog).to_be_visible()
    expect(tab.get_by_role("searchbox", name="Backend or node")).to_have_value("shoal")
    assert axe(tab) == []
    tab.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    tab.emulate_media(color_scheme="dark")
    tab.set_viewport_size({"width": 390, "height": 844})
    for search in ("", "?view=catalog&backend=own%40shoal&tag=test", "?view=installed&backend=shoal&filter=user"):
        go(tab, search)
        expect(tab.get_by_text("shoal").locator("visible=true").first).to_be_visible()
        assert axe(tab) == [], search
        expect_fits(tab)
    tab.go_back()
    expect(tab.get_by_role("button", name="test", pressed=True)).to_be_visible()
