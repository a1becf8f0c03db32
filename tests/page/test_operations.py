"""Operations in a browser: the strip on every page, the page of operations, and acting on both; on real nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from corral.policy.faults import ATTEMPTS_MAX
from tests.e2e.faults.scene import LONG_S, MIB, Scene, scene_of
from tests.page.support import (
    LONG_MS,
    BackgroundLoop,
    axe,
    axe_by_day_and_night,
    come_in,
    expect_fits,
    in_registry,
    keep_toasts,
    record_texts,
)
from tests.support.polling import eventually
from tests.worker.backends.scene import engine_files, sha256, tar_of
from tests.worker.backends.server import File, held_after, status

NODES = ("worker-1", "worker-2")
# The line of the strip about an operation that was completed.
ENDED = ".strip.done .strip-what"
FAILING = "raise SystemExit('another libstdc++ is needed')"


@dataclass
class OperationsScene:
    """The cluster of this module, and what the tests do to it."""

    aside: BackgroundLoop
    scene: Scene

    @property
    def url(self) -> str:
        return self.scene.cluster.frontends[0].url

    def install(self, name: str, *, check: str = "print('checked')", held: bool = True) -> str:
        """Have both nodes fetch a backend, whose download stands still in the middle until `let_go`."""
        body = tar_of(engine_files(name, padding=MIB, check=check))
        file = self.scene.files.put(f"/{name}.tar.gz", body, etag=f'"{sha256(body)}"')
        self.scene.let.clear()
        if held:
            # Also what goes on from the middle stands still.
            holds = (held_after(len(body) // 2, self.scene.let), held_after(1, self.scene.let))
            file.faults = [hold for hold in holds for _ in NODES]
        key = self.aside.run(self.scene.ask(name, *NODES))
        if held:
            self.aside.run(self.scene.until_fetched(key, len(body) // 2, nodes=len(NODES)))
        return key

    def give_up(self, name: str) -> File:
        """Have both nodes fail at a backend until it is put aside. Who asks for it again waits for no pause, and the
        failures stay counted."""
        file = self.scene.files.put(f"/{name}.tar.gz", tar_of(engine_files(name)), etag=f'"{name}"')
        file.faults, file.is_always_faulty = [status(503)], True
        self.aside.run(_fail_at(self.scene, name))
        return file

    def let_go(self) -> None:
        self.aside.run(_set(self.scene))

    def becomes(self, key: str, state: str) -> Any:
        return self.aside.run(self.scene.becomes(key, state))

    def failed_again(self, name: str, key: str) -> str:
        """Return the operation that has failed after this one."""

        async def find() -> str | None:
            listed = (await self.scene.cluster.frontends[0].get("/api/operations"))["operations"]
            failed = (one["id"] for one in listed if (one["name"], one["state"]) == (name, "failed"))
            return next((one for one in failed if one != key), None)

        return str(self.aside.run(eventually(find, within_s=LONG_S)))

    def hold(self, name: str) -> None:
        """Have the next downloads of it stand still until `let_go`, wherever they go on from."""
        self.scene.let.clear()
        file = self.scene.files.files[f"/{name}.tar.gz"]
        file.faults = [held_after(len(file.body) // 2, self.scene.let)] * len(NODES)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        code, answer = self.aside.run(self.scene.cluster.frontends[0].call(method, path, body))
        assert code < 300, answer
        return answer


async def _set(scene: Scene) -> None:
    scene.let.set()


async def _fail_at(scene: Scene, name: str) -> None:
    """The first and the last failure are real; those between are written into the registry: each takes seconds."""
    key = await scene.ask(name, *NODES)
    await eventually(lambda: _have_failed(scene, name, 1), within_s=60)
    await in_registry(scene.cluster, "UPDATE assignments SET attempts = :attempts", attempts=ATTEMPTS_MAX - 1)
    assert await scene.ask(name, *NODES) == key
    await scene.becomes(key, "failed")


async def _have_failed(scene: Scene, name: str, times: int) -> bool:
    pending = await scene.cluster.frontends[0].get("/api/backend-intents")
    attempts = [intent["attempts"] for intent in pending if intent["backend"] == name]
    return len(attempts) == len(NODES) and min(attempts) >= times


@pytest.fixture(scope="module")
def yard(
    built_page: None, aside: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperationsScene]:
    with aside.inside(scene_of(tmp_path_factory.mktemp("yard"), *NODES, frontends=1)) as scene:
        yield OperationsScene(aside, scene)


@pytest.fixture
def page(context: BrowserContext, yard: OperationsScene) -> Page:
    come_in(context, yard.url)
    page = context.new_page()
    page.goto(f"{yard.url}/app/operations")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    return page


def strip(page: Page) -> Locator:
    return page.get_by_role("region", name="Active operations")


def section(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def record(page: Page, name: str) -> Locator:
    return section(page, "History").get_by_role("listitem").filter(has_text=name)


@pytest.mark.behaviour("OPS-104")
def test_install_is_followed_from_the_strip_to_its_record(page: Page, yard: OperationsScene) -> None:
    key = yard.install("herd")
    line = strip(page)
    expect(line).to_contain_text("Installing herd")
    expect(line).to_contain_text("0 of 2 nodes completed")
    expect(line).to_contain_text(re.compile(r"MiB of|of .* MiB"))
    expect(line.get_by_role("progressbar")).to_have_attribute("aria-valuenow", re.compile(r"[1-9]\d?"))
    expect(page.get_by_text("1 in progress.")).to_be_visible()
    card = section(page, "In progress").get_by_role("listitem").filter(has_text="Installing herd")
    for node in NODES:
        expect(card.get_by_role("listitem").filter(has_text=node)).to_contain_text("downloading")
    line.get_by_role("link", name="herd").click()
    expect(page).to_have_url(re.compile(f"operation={key}"))
    panel = page.get_by_role("complementary", name="Operation details")
    expect(panel).to_contain_text("Requested by admin.")
    page.reload()
    expect(panel).to_contain_text("worker-1: accepted")
    expect(line).to_contain_text("Installing herd")
    ended, with_progress = record_texts(page, ENDED), record_texts(page, ".strip.done [role=progressbar]")
    yard.let_go()
    ended.expect("^Installed herd$", timeout=LONG_MS)
    assert with_progress.read() == []
    # What was open stays open, and is told its end by the stream.
    expect(panel).to_contain_text("completed: Completed on 2 nodes", timeout=LONG_MS)
    expect(record(page, "herd")).to_contain_text(re.compile(r"installed in \d"))
    expect(line).to_have_count(0)
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(record(page, "herd").get_by_role("link")).to_be_focused()


@pytest.mark.behaviour("PAGE-55")
@pytest.mark.behaviour("OPS-104")
@pytest.mark.behaviour("OPS-105")
def test_hidden_operation_is_shown_again_when_it_fails(page: Page, yard: OperationsScene) -> None:
    key = yard.install("flock", check=FAILING)
    strip(page).get_by_role("button", name="Hide the install of flock here").click()
    expect(strip(page)).to_have_count(0)
    yard.let_go()
    yard.becomes(key, "failed")
    line = page.get_by_role("region", name="Failed operations", exact=True)
    expect(line).to_contain_text("Failed install flock")
    expect(line).to_contain_text("worker-1 and worker-2: ")
    expect(line.get_by_role("progressbar")).to_have_count(0)
    expect(page.get_by_role("link", name=re.compile("Operations.*1 failed"))).to_be_visible()
    attention = section(page, "Needs attention")
    expect(attention).to_contain_text("another libstdc++ is needed")
    expect(attention.get_by_role("progressbar")).to_have_count(0)
    expect(section(page, "In progress")).to_have_count(0)
    attention.get_by_role("button", name="Retry: install of flock").click()
    # The same again, which fails again; the old one is dismissed by that.
    again = yard.failed_again("flock", key)
    expect(attention.locator(f"#operation-{again}")).to_contain_text("Failed install flock")
    expect(line.locator(f"a[href*='{again}']")).to_be_visible()
    expect(record(page, "flock")).to_contain_text("failed: ")
    keep_toasts(page)
    line.get_by_role("button", name="1 failed").click()
    failures = page.get_by_role("region", name="List of failed operations")
    failures.get_by_role("button", name="Dismiss the failed install of flock").click()
    expect(line).to_have_count(0)
    expect(attention).to_have_count(0)
    expect(record(page, "flock")).to_have_count(2)
    page.get_by_role("button", name="Undo").click()
    expect(attention).to_contain_text("Failed install flock")
    expect(record(page, "flock")).to_have_count(1)
    attention.get_by_role("button", name="Dismiss: install of flock").click()
    expect(attention).to_have_count(0)
    # What a check has refused is kept for the next try: one that passes leaves nothing behind.
    yard.becomes(yard.install("flock", held=False), "completed")


@pytest.mark.behaviour("OPS-104")
def test_strip_shows_what_runs_and_counts_an_older_failure_beside_it(page: Page, yard: OperationsScene) -> None:
    yard.becomes(yard.install("drove", check=FAILING, held=False), "failed")
    key = yard.install("covey")
    line = strip(page)
    expect(line).to_contain_text("Installing covey")
    expect(line.get_by_role("button", name="1 failed")).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("Operations.*1 active.*1 failed"))).to_be_visible()
    line.get_by_role("button", name="1 failed").click()
    failures = page.get_by_role("region", name="List of failed operations")
    expect(failures).to_contain_text(re.compile(r"Failed install drove (just now|.* ago)"))
    assert axe(page) == []
    # Hiding what runs leaves the failure alone: it is not dismissed.
    line.get_by_role("button", name="Hide the install of covey here").click()
    expect(page.get_by_role("region", name="Failed operations", exact=True)).to_contain_text("Failed install drove")
    failures.get_by_role("button", name="Dismiss the failed install of drove").click()
    expect(failures).to_have_count(0)
    yard.let_go()
    yard.becomes(key, "completed")
    yard.becomes(yard.install("drove", held=False), "completed")


@pytest.mark.behaviour("OPS-160")
def test_filter_finds_a_failure_behind_hundreds_of_newer_operations(page: Page, yard: OperationsScene) -> None:
    failed = yard.install("stray", check=FAILING, held=False)
    yard.becomes(failed, "failed")
    yard.call("POST", f"/api/operations/{failed}/dismiss")
    done = yard.install("stray", held=False)
    yard.becomes(done, "completed")
    yard.aside.run(in_registry(yard.scene.cluster, _COPIES, id=done, count=250))
    page.goto(f"{yard.url}/app/operations?outcome=failed&q=stray")
    expect(record(page, "stray")).to_have_count(1)
    expect(record(page, "stray")).to_contain_text("failed: ")
    page.goto(f"{yard.url}/app/operations?since=2020-01-01&until=2020-01-02")
    expect(page.get_by_text("No operations match this filter.")).to_be_visible()


def test_operations_page_draws_fifty_of_hundreds_under_way_and_finds_the_others(
    page: Page, yard: OperationsScene
) -> None:
    done = yard.install("legion", held=False)
    yard.becomes(done, "completed")
    cluster = yard.scene.cluster
    yard.aside.run(in_registry(cluster, _PAUSED, id=done, count=300))
    page.reload()
    cards = section(page, "In progress").locator("li.operations-card")
    expect(page.get_by_role("button", name="Show 50 more of 250")).to_be_visible()
    expect(cards).to_have_count(50)
    page.get_by_role("button", name="Show 50 more of 250").click()
    expect(cards).to_have_count(100)
    page.get_by_role("searchbox", name="Search operations").fill("legion-299")
    expect(cards).to_have_count(1)
    yard.aside.run(in_registry(cluster, "DELETE FROM operations WHERE subject LIKE 'legion-%'"))


# As many paused ones as somebody could have, each of its own name.
_PAUSED = """
    INSERT INTO operations
    SELECT (jsonb_populate_record(done, jsonb_build_object(
        'id', gen_random_uuid(), 'state', 'paused', 'finished_at', NULL, 'subject', 'legion-' || number))).*
    FROM operations AS done, generate_series(1, CAST(:count AS int)) AS number WHERE done.id = CAST(:id AS uuid)"""
# The same operation, ended later and again and again.
_COPIES = """
    INSERT INTO operations
    SELECT (jsonb_populate_record(done, jsonb_build_object(
        'id', gen_random_uuid(), 'finished_at', done.finished_at + number * interval '1 millisecond'))).*
    FROM operations AS done, generate_series(1, CAST(:count AS int)) AS number WHERE done.id = CAST(:id AS uuid)"""


@pytest.mark.behaviour("PAGE-55")
@pytest.mark.behaviour("OPS-104")
def test_cancelled_operation_is_never_celebrated_and_a_paused_one_goes_on(page: Page, yard: OperationsScene) -> None:
    ended = record_texts(page, ENDED)
    key = yard.install("swarm")
    running = section(page, "In progress")
    running.get_by_role("button", name="Pause: install of swarm").click()
    expect(running).to_contain_text("Paused install swarm")
    expect(running.get_by_role("progressbar")).to_have_count(0)
    expect(strip(page)).to_have_count(0)
    running.get_by_role("button", name="Resume: install of swarm").click()
    expect(strip(page)).to_contain_text("swarm")
    running.get_by_role("button", name="Cancel: install of swarm").click()
    page.get_by_role("dialog").get_by_role("button", name="Back").click()
    expect(running).to_contain_text("swarm")
    running.get_by_role("button", name="Cancel: install of swarm").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(record(page, "swarm")).to_contain_text("cancelled")
    expect(strip(page)).to_have_count(0)
    # What the nodes fetched stays held: one that has not been stopped yet would complete the cancelled download.
    yard.hold("swarm")
    record(page, "swarm").get_by_role("link").click()
    panel = page.get_by_role("complementary", name="Operation details")
    panel.get_by_role("button", name="Run again: install of swarm").click()
    expect(strip(page)).to_contain_text("Installing swarm")
    yard.let_go()
    expect(record(page, "swarm").first).to_contain_text("installed", timeout=LONG_MS)
    ended.expect("swarm")
    assert ended.read() == ["Installed swarm"], "only what was done was celebrated"
    assert yard.call("GET", f"/api/operations/{key}")["state"] == "cancelled"


def test_filters_are_in_the_url_and_the_history_is_cleared_for_all_users(page: Page, yard: OperationsScene) -> None:
    yard.becomes(yard.install("shoal", held=False), "completed")
    expect(record(page, "shoal")).to_be_visible()
    page.get_by_role("searchbox", name="Search operations").fill("shoal")
    page.get_by_label("Outcome").select_option("completed")
    page.get_by_text("Backends", exact=True).last.click()
    expect(page).to_have_url(re.compile("kind=backends"))
    page.reload()
    expect(page.get_by_role("searchbox", name="Search operations")).to_have_value("shoal")
    expect(section(page, "History").get_by_role("listitem")).to_have_count(1)
    page.get_by_label("Outcome").select_option("superseded")
    expect(page.get_by_text("No operations match this filter.")).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()
    expect(record(page, "shoal")).to_be_visible()
    page.get_by_role("button", name="Clear history").click()
    page.get_by_role("dialog").get_by_role("button", name="Clear").click()
    expect(page.get_by_text("No operations yet.")).to_be_visible()
    assert yard.call("GET", "/api/operations/history")["operations"] == []


@pytest.mark.behaviour("PAGE-59")
def test_pending_change_is_shown_with_its_next_attempt_and_can_be_discarded(page: Page, yard: OperationsScene) -> None:
    file = yard.scene.files.put("/away.tar.gz", tar_of(engine_files("away")), etag='"away"')
    file.faults, file.is_always_faulty = [status(503)], True
    yard.aside.run(yard.scene.ask("away", NODES[0]))
    pending = section(page, "Pending changes")
    expect(pending).to_contain_text("worker-1: install away")
    # A slow page sees it after another attempt.
    expect(pending).to_contain_text(re.compile(r"\d+ failures?, next attempt in \d+ (seconds|minutes?)"))
    card = section(page, "In progress").get_by_role("listitem").filter(has_text="Installing away on worker-1")
    expect(card).to_contain_text("returned 503")
    expect(card.get_by_role("progressbar")).to_have_count(0)
    pending.get_by_role("button", name="Discard: away on worker-1").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard").click()
    expect(pending).to_have_count(0)
    expect(card).to_have_count(0)
    file.faults, file.is_always_faulty = [], False
    yard.becomes(yard.aside.run(yard.scene.ask("away", NODES[0])), "completed")


def test_failed_change_can_be_retried_or_discarded(page: Page, yard: OperationsScene) -> None:
    file = yard.give_up("mule")
    attention = section(page, "Needs attention")
    expect(page.get_by_text("3 need attention.")).to_be_visible()
    for node in NODES:
        pending = attention.get_by_role("listitem").filter(has_text=f"{node}: install mule")
        expect(pending.get_by_text("failed", exact=True)).to_be_visible()
        expect(pending).to_contain_text("10 failures")
        expect(pending).to_contain_text("returned 503")
    assert axe(page) == []
    file.faults, file.is_always_faulty = [], False
    attention.get_by_role("button", name="Retry: mule on worker-1").click()
    expect(record(page, "mule").first).to_contain_text(re.compile(r"installed in \d"), timeout=LONG_MS)
    expect(attention.get_by_text("worker-1: install mule")).to_have_count(0)
    # The other node is not tried by that.
    expect(attention.get_by_text("worker-2: install mule")).to_be_visible()
    attention.get_by_role("button", name="Discard: mule on worker-2").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard").click()
    expect(attention.get_by_text(re.compile(r"worker-\d: install mule"))).to_have_count(0)
    # That it failed was true, until somebody has seen it.
    attention.get_by_role("button", name="Dismiss: install of mule").click()
    expect(attention).to_have_count(0)
    assert yard.call("GET", "/api/backend-intents") == []
    has = {node: "mule" in yard.aside.run(yard.scene.installed(node)) for node in NODES}
    assert has == {"worker-1": True, "worker-2": False}
    # A download that has begun is kept for the next try: one that ends leaves nothing behind.
    yard.becomes(yard.aside.run(yard.scene.ask("mule", NODES[1])), "completed")


def test_operations_page_is_accessible(page: Page, yard: OperationsScene) -> None:
    key = yard.install("pod")
    page.goto(f"{yard.url}/app/operations?operation={key}")
    expect(page.get_by_role("complementary", name="Operation details")).to_contain_text("accepted")
    assert axe_by_day_and_night(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    expect(strip(page)).to_contain_text("pod")
    expect_fits(page)
    assert axe_by_day_and_night(page) == []
    yard.let_go()
    yard.becomes(key, "completed")
