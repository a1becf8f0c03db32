"""The pages of nodes, in a real browser on a real fleet: a machine joins, works, is changed, and goes.

Every test has models and machines of its own names and forgets them, so they may run in any order.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.e2e.processes import corral
from tests.page.support import (
    HELD_LOAD,
    LONG_MS,
    BrowserErrors,
    Fleet,
    answering,
    axe,
    axe_by_day_and_night,
    come_in,
    expect_fits,
    leave,
    let_load,
    many_nodes,
)
from tests.worker.relay import Relay

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 800}
TABS_MAX = 80
MANY = 200
MISSED = 450


def open_page(page: Page, fleet: Fleet, path: str) -> None:
    page.goto(f"{fleet.url()}/app{path}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def button(within: Page | Locator, name: str) -> Locator:
    return within.get_by_role("button", name=name, exact=True)


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("list", name="Nodes").get_by_role("listitem", name=name, exact=True)


def panel(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog")


def choose(page: Page, node: str, action: str) -> None:
    """Out of the node's menu."""
    button(page, f"Actions for {node}").click()
    page.get_by_role("menuitem", name=action, exact=True).click()


def tab_to(page: Page, target: Locator) -> None:
    """With the keyboard alone."""
    for _ in range(TABS_MAX):
        page.keyboard.press("Tab")
        if target.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"{TABS_MAX} tabs do not reach {target}")


@contextmanager
def machine(fleet: Fleet, name: str, command: list[str] | None = None) -> Iterator[None]:
    """One that joins, waits to be approved, and has left again at the end."""
    cluster = fleet.models.cluster

    async def join() -> None:
        token = None if command else await cluster.token(max_uses=1)
        await cluster.new_worker(name, token, command=command).start()

    async def leave() -> None:
        worker = cluster.workers.pop(name)
        if worker.is_running:
            await worker.end()
        await fleet.models.call("DELETE", f"/api/nodes/{name}")

    fleet.run(join())
    try:
        yield
    finally:
        fleet.run(leave())


@pytest.mark.behaviour("PAGE-70")
def test_machine_joins_with_the_command_of_the_dialog_and_is_approved_and_removed_there(
    page: Page, fleet: Fleet
) -> None:
    open_page(page, fleet, "/nodes")
    button(page, "Add node").click()
    expect(page).to_have_url(re.compile(r"join=true"))
    expect(dialog(page).get_by_text("no other machine can reach it")).to_be_visible()
    assert axe(page) == []
    dialog(page).get_by_label("Token name").fill("a machine of the tests")
    button(page, "Create command").click()
    expect(dialog(page).get_by_text(f"curl -fsSL {fleet.url()}/join | sh -s -- --token cj_")).to_be_visible()
    # The hash that the script checks, to be compared with what a person reads there.
    wheel_sha256 = fleet.get("/api/join")["wheel_sha256"]
    assert re.fullmatch(r"[0-9a-f]{64}", wheel_sha256)
    expect(dialog(page).get_by_text("sha256 of its wheel:")).to_contain_text(wheel_sha256)
    dialog(page).get_by_text("Corral is already installed").click()
    expect(dialog(page).get_by_text("Waiting for the machine.")).to_be_visible()
    assert axe(page) == []

    shown = dialog(page).locator("code").last
    expect(shown).to_contain_text("corral worker --join")
    command = shlex.split(shown.inner_text())
    assert command[:4] == ["corral", "worker", "--join", fleet.url()]
    with machine(fleet, "newcomer", corral(*command[1:])):
        come = dialog(page).get_by_role("region", name="Joined machines")
        expect(come.get_by_role("link", name="newcomer")).to_be_visible(timeout=LONG_MS)
        button(come, "Approve newcomer").click()
        expect(come.get_by_text("healthy", exact=True)).to_be_visible(timeout=LONG_MS)
        button(come, "Done").click()
        expect(dialog(page)).to_have_count(0)
        expect(row(page, "newcomer").get_by_text("healthy", exact=True)).to_be_visible()
        assert [token["name"] for token in fleet.get("/api/tokens")].count("a machine of the tests") == 1

        choose(page, "newcomer", "Remove newcomer")
        expect(dialog(page).get_by_text("This also deletes its pending changes.")).to_be_visible()
        button(dialog(page), "Cancel").click()
        choose(page, "newcomer", "Stop the worker of newcomer")
        button(dialog(page), "Stop the worker of newcomer").click()
        expect(row(page, "newcomer").get_by_text("offline", exact=True)).to_be_visible(timeout=LONG_MS)
        choose(page, "newcomer", "Remove newcomer")
        button(dialog(page), "Remove newcomer").click()
        expect(row(page, "newcomer")).to_have_count(0)
        assert fleet.call("GET", "/api/nodes/newcomer")[0] == 404


def test_keyboard_alone_approves_drains_and_resumes_a_node(page: Page, fleet: Fleet) -> None:
    with machine(fleet, "by-keys"):
        open_page(page, fleet, "/nodes")
        expect(row(page, "by-keys")).to_be_visible(timeout=LONG_MS)
        # Whoever waits for somebody is on top.
        expect(page.get_by_role("list", name="Nodes").get_by_role("listitem").first).to_have_accessible_name("by-keys")
        tab_to(page, button(page, "Approve by-keys"))
        page.keyboard.press("Enter")
        expect(row(page, "by-keys").get_by_text("healthy", exact=True)).to_be_visible(timeout=LONG_MS)
        # The button is gone; the focus is not.
        expect(row(page, "by-keys").get_by_role("link", name="by-keys")).to_be_focused()

        tab_to(page, button(page, "Actions for by-keys"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("menuitem", name="Drain by-keys")).to_be_focused()
        page.keyboard.press("Enter")
        tab_to(page, button(dialog(page), "Drain by-keys"))
        page.keyboard.press("Enter")
        expect(row(page, "by-keys").get_by_text("draining", exact=True)).to_be_visible()
        expect(row(page, "by-keys").get_by_text(re.compile("Drained by"))).to_be_visible()

        tab_to(page, row(page, "by-keys").get_by_role("link", name="by-keys"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="by-keys", level=1)).to_be_visible()
        tab_to(page, button(page, "Resume by-keys"))
        page.keyboard.press("Enter")
        expect(panel(page, "Conditions").get_by_text("Not draining")).to_be_visible()
        expect(button(page, "Drain by-keys")).to_be_visible()
        leave(page)


def test_labels_budget_and_slots_are_changed_and_still_there_after_a_reload(
    page: Page, fleet: Fleet, watched: BrowserErrors
) -> None:
    watched.allow(r"status of 400 .*/(labels|vram-budget)")
    fleet.run(fleet.models.put("twice"))
    open_page(page, fleet, "/nodes/worker-2")
    labels, limits = panel(page, "Labels"), panel(page, "Limits")
    labels.get_by_role("textbox", name="Key").fill("not a key!")
    button(page, "Set label").click()
    expect(labels.get_by_role("alert")).to_contain_text("is not a label key")
    labels.get_by_role("textbox", name="Key").fill("zone")
    labels.get_by_role("textbox", name="Value").fill("b")
    button(page, "Set label").click()
    expect(labels.get_by_text("zone=b")).to_be_visible()
    labels.get_by_role("button", name=re.compile("^Change label zone=b")).click()
    labels.get_by_role("textbox", name="Value").fill("c")
    page.keyboard.press("Enter")
    expect(labels.get_by_text("zone=c")).to_be_visible()

    limits.get_by_role("textbox", name="VRAM budget").fill("a lot")
    button(page, "Save the VRAM budget").click()
    expect(limits.get_by_role("alert")).to_be_visible()
    limits.get_by_role("textbox", name="VRAM budget").fill("12GiB")
    button(page, "Save the VRAM budget").click()
    expect(button(page, "Reset the VRAM budget")).to_be_visible()
    limits.get_by_role("spinbutton", name="Replica slots per model").fill("2")
    button(page, "Save the replica slots").click()
    expect(button(page, "Reset the replica slots")).to_be_visible()

    page.reload()
    expect(labels.get_by_text("zone=c")).to_be_visible()
    expect(limits.get_by_role("textbox", name="VRAM budget")).to_have_value("12GiB")
    expect(limits.get_by_role("spinbutton", name="Replica slots per model")).to_have_value("2")
    node = fleet.get("/api/nodes/worker-2")
    assert (node["vram_budget"], node["max_replicas_per_model"], node["labels"]["zone"]) == ("12GiB", 2, "c")

    fleet.run(fleet.models.becomes(fleet.run(fleet.models.load("twice", nodes=["worker-2"], count=2)), "completed"))
    expect(panel(page, "Replicas").get_by_role("row")).to_have_count(3)
    limits.get_by_role("spinbutton", name="Replica slots per model").fill("1")
    button(page, "Save the replica slots").click()
    expect(dialog(page).get_by_text("twice has more replicas here.")).to_be_visible()
    button(page, "Set to 1").click()
    expect(limits.get_by_role("spinbutton", name="Replica slots per model")).to_have_value("1")

    button(page, "Reset the replica slots").click()
    button(page, "Reset the VRAM budget").click()
    button(page, "Remove label zone").click()
    expect(limits.get_by_text("set here", exact=True)).to_have_count(0)
    expect(labels.get_by_text("zone=c")).to_have_count(0)
    node = fleet.get("/api/nodes/worker-2")
    assert not node["vram_budget_manually_set"]
    assert not node["max_replicas_per_model_manually_set"]
    assert "zone" not in node["labels"]
    leave(page)
    fleet.run(fleet.models.forget("twice"))


@pytest.mark.behaviour("OPS-105")
def test_node_row_shows_its_running_operation_and_other_rows_do_not(page: Page, fleet: Fleet) -> None:
    fleet.run(fleet.models.put("seen", options={"tokens_per_s": "10", **HELD_LOAD}))
    open_page(page, fleet, "/nodes")
    expect(row(page, "worker-1")).to_be_visible()
    loading = fleet.run(fleet.models.load("seen", nodes=["worker-1"]))
    expect(row(page, "worker-1").get_by_role("link", name=re.compile("Loading seen"))).to_be_visible()
    expect(row(page, "worker-2").get_by_role("link", name=re.compile("seen"))).to_have_count(0)
    let_load(fleet, "seen")
    fleet.run(fleet.models.becomes(loading, "completed"))
    expect(row(page, "worker-1").get_by_text("seen loaded")).to_be_visible()
    expect(row(page, "worker-1").get_by_role("link", name=re.compile("Loading"))).to_have_count(0)

    row(page, "worker-1").get_by_role("link", name="worker-1").click()
    expect(page.get_by_role("img", name=re.compile(r"^RAM in use\. Now RAM: \d"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile(r"^Work\. Now .*replicas: 1"))).to_be_visible()
    replicas, processes = panel(page, "Replicas"), panel(page, "Processes")
    expect(replicas.get_by_role("row", name=re.compile("seen")).get_by_text("loaded")).to_be_visible()
    expect(processes.get_by_role("listitem").filter(has_text="seen#0").get_by_text("ready")).to_be_visible()

    with answering(fleet, "seen"):
        expect(replicas.get_by_text("1 request in flight.")).to_be_visible()
        button(page, "Unload seen#0").click()
        expect(dialog(page).get_by_text("1 request is in flight.")).to_be_visible()
        button(dialog(page), "Cancel").click()
    expect(replicas.get_by_text("1 request in flight.")).to_have_count(0)
    button(page, "Unload seen#0").click()
    expect(dialog(page).get_by_text("No requests in flight.")).to_be_visible()
    button(dialog(page), "Unload seen").click()
    expect(replicas.get_by_text("No models are loaded here.")).to_be_visible(timeout=LONG_MS)
    expect(processes.get_by_text("No engines running.")).to_be_visible()

    page.get_by_role("tab", name="Operations", exact=True).click()
    expect(panel(page, "History").get_by_role("link", name="seen").first).to_be_visible()
    leave(page)
    fleet.run(fleet.models.forget("seen"))


def test_backend_is_reinstalled_and_removed_on_one_node(page: Page, fleet: Fleet) -> None:
    fleet.run(fleet.models.put("holder"))
    fleet.run(fleet.models.loaded("holder", "worker-1", "worker-2"))
    fleet.run(fleet.models.forget("holder"))
    open_page(page, fleet, "/nodes/worker-1?tab=backends")
    fake = panel(page, "Backends").get_by_role("listitem", name="fake", exact=True)
    expect(fake.get_by_text("installed", exact=False)).to_be_visible()
    button(page, "Change fake").click()
    page.get_by_role("menuitem", name="Reinstall fake").click()
    button(dialog(page), "Reinstall fake").click()
    expect(dialog(page)).to_have_count(0)
    page.get_by_role("tab", name="Operations", exact=True).click()
    expect(panel(page, "History").get_by_text(re.compile("^reinstalled"))).to_be_visible(timeout=LONG_MS)

    page.get_by_role("tab", name="Backends", exact=True).click()
    button(page, "Change fake").click()
    page.get_by_role("menuitem", name="Remove fake").click()
    expect(dialog(page).get_by_text("Its processes on this node are stopped.")).to_be_visible()
    button(dialog(page), "Remove fake").click()
    expect(page.get_by_text("No backends installed.")).to_be_visible(timeout=LONG_MS)
    assert [one["name"] for one in fleet.get("/api/nodes/worker-2/backends")] == ["fake"]
    page.get_by_role("link", name="Add a backend").click()
    expect(page.get_by_text("For node worker-1")).to_be_visible()


@pytest.mark.behaviour("PAGE-78")
def test_lines_of_an_engine_come_as_they_are_printed(page: Page, fleet: Fleet, tmp_path: Path) -> None:
    fleet.run(fleet.models.put("prints"))
    fleet.run(fleet.models.loaded("prints", "worker-1"))
    open_page(page, fleet, "/nodes/worker-1")
    page.get_by_role("link", name="Logs of prints#0").click()
    expect(page).to_have_url(re.compile(r"tab=logs.*log=prints%230"))
    lines = page.get_by_role("log", name="Output of prints#0")
    expect(lines.get_by_text("ready: prints")).to_have_count(1)
    expect(page.get_by_text("following", exact=True)).to_be_visible()
    assert axe(page) == []

    # Another start of the same engine goes on in the same log, and the page hears of it by itself.
    _, unloading = fleet.call("POST", "/api/models/prints/unload", {})
    fleet.run(fleet.models.becomes(unloading["id"], "completed"))
    fleet.run(fleet.models.loaded("prints", "worker-1"))
    expect(lines.get_by_text("ready: prints")).to_have_count(2)
    page.get_by_role("group", name="Stream").get_by_text("worker").click()
    expect(lines.get_by_text("ready: prints")).to_have_count(0)
    expect(lines.get_by_text(re.compile("^starting fake"))).to_have_count(2)
    page.get_by_role("group", name="Stream").get_by_text("All").click()
    page.get_by_label("Filter lines").fill("READY")
    expect(lines.get_by_text(re.compile("^starting fake"))).to_have_count(0)

    with page.expect_download() as started:
        page.get_by_role("link", name="Download prints#0").click()
    assert started.value.suggested_filename == "worker-1-prints-0.log"
    kept = tmp_path / "log"
    started.value.save_as(kept)
    assert kept.read_text().count("ready: prints") == 2
    leave(page)
    fleet.run(fleet.models.forget("prints"))


@pytest.mark.behaviour("PAGE-78")
def test_downloaded_log_has_every_line_and_is_a_response_of_the_server(
    page: Page, fleet: Fleet, tmp_path: Path
) -> None:
    fleet.run(fleet.models.put("whole"))
    fleet.run(fleet.models.loaded("whole", "worker-1"))
    open_page(page, fleet, "/nodes/worker-1?tab=logs&log=whole%230")
    expect(page.get_by_role("log", name="Output of whole#0").get_by_text("ready: whole")).to_be_visible()
    with page.expect_download() as started:
        page.get_by_role("link", name="Download whole#0").click()
    # Not a blob of the page, whose download now and then never begins.
    assert started.value.url == f"{fleet.url()}/api/nodes/worker-1/backend-logs/whole%230/download"
    kept = tmp_path / "log"
    started.value.save_as(kept)
    lines = fleet.get("/api/nodes/worker-1/backend-logs/whole%230?lines=1000")["lines"]
    assert kept.read_text() == "".join(f"{line['at']} {line['stream']} {line['text']}\n" for line in lines)
    leave(page)
    fleet.run(fleet.models.forget("whole"))


@pytest.mark.behaviour("PAGE-78")
def test_reader_of_lines_who_was_cut_off_goes_on_after_the_last_one(
    page: Page, fleet: Fleet, watched: BrowserErrors
) -> None:
    watched.allow("net::ERR_|status of 503")
    fleet.run(fleet.models.put("wordy"))
    fleet.run(fleet.models.loaded("wordy", "worker-1"))
    (folder,) = (path.parent for path in fleet.models.cluster.folder.glob("worker-1/**/key") if _is(path, "wordy#0"))
    with fleet.aside.inside(Relay(fleet.url())) as relay:
        fleet.run(relay.open())
        come_in(page.context, relay.url)
        page.goto(f"{relay.url}/app/nodes/worker-1?tab=logs&log=wordy%230")
        lines = page.get_by_role("log", name="Output of wordy#0")
        expect(lines.get_by_text("ready: wordy")).to_have_count(1)

        # More than a stream begins with; and the browser gives up by itself after an answer that is no stream.
        page.route("**/backend-logs/**", lambda route: route.fulfill(status=503))
        with page.expect_request(re.compile(r"backend-logs/.*/stream\?after=\d+$")):
            fleet.run(relay.close())
        with (folder / "stdout.raw").open("a") as engine:
            engine.writelines(f"word {number}.\n" for number in range(MISSED))
        expect(page.get_by_text("The node does not respond.")).to_be_visible()
        fleet.run(relay.open())
        page.unroute("**/backend-logs/**")
        expect(lines.get_by_text(re.compile(r"^word \d+\.$"))).to_have_count(MISSED)
        expect(lines.get_by_text("ready: wordy")).to_have_count(1)
        expect(page.get_by_text("following", exact=True)).to_be_visible()
        leave(page)
    fleet.run(fleet.models.forget("wordy"))


def _is(path: Path, key: str) -> bool:
    return path.read_text() == key


def test_many_machines_are_searched_and_counted_and_those_out_of_sight_cost_nothing(page: Page, fleet: Fleet) -> None:
    with many_nodes(fleet, "yard-", MANY, approves=False):
        open_page(page, fleet, "/nodes")
        rows = page.get_by_role("list", name="Nodes").locator("> li")
        expect(rows).to_have_count(MANY + 2)
        expect(page.get_by_text(re.compile(f"{MANY} pending approval"))).to_be_visible()
        hidden = "rows => rows.filter(row => getComputedStyle(row).contentVisibility === 'auto').length"
        assert rows.evaluate_all(hidden) == MANY + 2
        expect(rows.nth(2)).to_have_accessible_name("yard-2")
        page.get_by_label("Search by name, label or hardware").fill("yard-42")
        expect(rows).to_have_count(1)
        expect(page).to_have_url(re.compile("q=yard-42"))
        page.get_by_label("Search by name, label or hardware").fill("")
        page.get_by_text("healthy 2").click()
        expect(rows).to_have_count(2)
        page.reload()
        expect(rows).to_have_count(2)
        page.get_by_label("Search by name, label or hardware").fill("nobody")
        expect(page.get_by_text("No nodes match this filter.")).to_be_visible()


LONG_NAME = "long-name-of-a-model-that-needs-more-room-than-a-phone-has-in-one-line"
VIEWS = (
    "/nodes",
    "/nodes?join=true",
    *(f"/nodes/worker-1?tab={tab}" for tab in ("overview", "backends", "logs", "operations")),
    f"/nodes/worker-1?tab=logs&log={LONG_NAME}%230",
)


def test_node_pages_are_accessible(page: Page, fleet: Fleet) -> None:
    fleet.run(fleet.models.put(LONG_NAME))
    fleet.run(fleet.models.loaded(LONG_NAME, "worker-1"))
    for path in VIEWS:
        open_page(page, fleet, path)
        expect(page.get_by_role("status", name="Loading")).to_have_count(0)
        assert axe_by_day_and_night(page) == [], path
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        expect_fits(page)
        page.set_viewport_size(DESK)  # type: ignore[arg-type]
    leave(page)
    fleet.run(fleet.models.forget(LONG_NAME))


def test_operator_is_offered_no_token_and_a_missing_node_is_reported(context: BrowserContext, fleet: Fleet) -> None:
    come_in(context, fleet.url(), fleet.new_key("operate"))
    page = context.new_page()
    open_page(page, fleet, "/nodes?join=true")
    expect(row(page, "worker-1")).to_be_visible()
    expect(button(page, "Add node")).to_have_count(0)
    expect(dialog(page)).to_have_count(0)
    page.goto(f"{fleet.url()}/app/nodes/nobody")
    expect(page.get_by_text("Node nobody not found.")).to_be_visible()
