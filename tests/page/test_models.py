"""The pages of models, in a real browser on a real fleet: from the catalog to a node, and all the way back.

Every test has models of its own names and forgets them, so they may run in any order.
"""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.support import (
    HELD_LOAD,
    LONG_MS,
    BackgroundLoop,
    BrowserErrors,
    Fleet,
    answering,
    axe,
    expect_fits,
    fleet_of,
    keep_toasts,
    leave,
    let_load,
)
from tests.support.tiny_gguf import write_tiny_gguf

PHONE = {"width": 390, "height": 844}


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's own name
        """Tests have logs enough."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_QuietHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def fleet(built_page: None, aside: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Of this module alone: it gets another gallery."""
    with fleet_of(aside, tmp_path_factory.mktemp("models"), "worker-1", "worker-2") as made:
        yield made


@pytest.fixture(scope="module")
def gallery(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Of the test's own: a model with a small file, and one that no machine holds."""
    tiny = write_tiny_gguf(fleet.models.files / "tiny.gguf")
    entries = [
        {
            "name": "tiny",
            "description": "A model of half a megabyte.",
            "license": "MIT",
            "tags": ["chat", "ours"],
            "size": tiny.stat().st_size,
            "config": {
                "backend": "fake",
                "ram": "64MiB",
                "files": [{"path": tiny.name, "uri": f"file://{tiny}"}],
            },
        },
        {
            "name": "giant",
            "description": "Larger than any machine here.",
            "tags": ["chat", "ours"],
            "size": 0,
            "config": {"backend": "fake", "ram": "900TiB"},
        },
    ]
    folder = tmp_path_factory.mktemp("gallery")
    (folder / "index.yaml").write_text(json.dumps(entries))
    with served(folder) as url:
        named = {"galleries": {"models": [{"name": "ours", "url": f"{url}/index.yaml"}]}}
        assert fleet.call("POST", "/api/fleet", named)[0] == 200
        fleet.call("POST", "/api/models/galleries/refresh")

        async def is_there() -> bool:
            _, found = await fleet.models.call("GET", "/api/models?term=giant")
            return bool(found["models"])

        fleet.run(fleet.models.look(is_there))
        yield


def put(fleet: Fleet, name: str, **config: Any) -> None:
    fleet.run(fleet.models.put(name, **config))


def load(fleet: Fleet, name: str, *nodes: str) -> None:
    fleet.run(fleet.models.loaded(name, *nodes))


def model(fleet: Fleet, name: str) -> Any:
    return fleet.get(f"/api/models/config/{name}")


def forget(page: Page, fleet: Fleet, *names: str) -> None:
    """What the page shows must not vanish under it: it would ask, and note the answer as an error."""
    leave(page)
    fleet.run(fleet.models.forget(*names))


def open_page(page: Page, fleet: Fleet, path: str) -> None:
    page.goto(f"{fleet.url()}/app{path}")


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("listitem", name=name, exact=True)


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog")


def button(page: Page | Locator, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def choose(page: Page, name: str, action: str) -> None:
    """An action out of the model's menu."""
    button(page, f"Actions for {name}").click()
    page.get_by_role("menuitem", name=f"{action} {name}", exact=True).click()


@pytest.mark.behaviour("PAGE-85")
def test_model_goes_from_the_catalog_to_a_chosen_node_and_away_again(page: Page, fleet: Fleet, gallery: None) -> None:
    open_page(page, fleet, "/models?view=catalog")
    page.get_by_label("Search the catalog").fill("tiny")
    expect(page).to_have_url(re.compile(r"q=tiny"))
    button(page, "Install tiny").click()
    expect(dialog(page).get_by_text("Fits on both nodes.")).to_be_visible()
    expect(dialog(page).get_by_text(re.compile(r"^Fits\. About 64 MiB of .* memory\.$")).first).to_be_visible()
    assert axe(page) == []

    dialog(page).get_by_label("Load on selected nodes").check()
    dialog(page).get_by_label("worker-2", exact=True).check()
    dialog(page).get_by_label("worker-1", exact=True).uncheck()
    button(dialog(page), "Install tiny").click()
    expect(dialog(page).get_by_text("Downloaded: tiny")).to_be_visible(timeout=LONG_MS)
    expect(dialog(page).get_by_text("Loaded: tiny")).to_be_visible(timeout=LONG_MS)
    button(page, "Done").click()

    page.get_by_text("Installed", exact=False).first.click()
    expect(row(page, "tiny").get_by_text("loaded on 1 node")).to_be_visible()
    expect(row(page, "tiny").get_by_role("link", name="worker-2")).to_be_visible()
    assert [one["node_name"] for one in model(fleet, "tiny")["replicas"]] == ["worker-2"]

    row(page, "tiny").get_by_role("link", name="tiny", exact=True).click()
    page.get_by_role("tab", name="Files").click()
    expect(page.get_by_role("cell", name="tiny.gguf")).to_be_visible()
    expect(page.get_by_role("cell", name="worker-2")).to_be_visible()

    button(page, "Unload tiny").click()
    button(dialog(page), "Unload tiny").click()
    expect(page.get_by_text("idle", exact=True)).to_be_visible(timeout=LONG_MS)

    choose(page, "tiny", "Delete")
    expect(dialog(page).get_by_text("No replica is running.")).to_be_visible()
    expect(dialog(page).get_by_text(re.compile("Every node that has its files removes them"))).to_be_visible()
    button(dialog(page), "Delete tiny").click()
    expect(page.get_by_role("heading", name="Models", exact=True)).to_be_visible()
    expect(row(page, "tiny")).to_have_count(0)
    assert fleet.call("GET", "/api/models/config/tiny")[0] == 404


def test_model_that_fits_nowhere_says_why_before_and_after(page: Page, fleet: Fleet, gallery: None) -> None:
    open_page(page, fleet, "/models?view=catalog&entry=ours%40giant")
    expect(dialog(page).get_by_text(re.compile("Fits on no node right now"))).to_be_visible()
    expect(dialog(page).get_by_text(re.compile("Too small: it has .* about 900 TiB are needed")).first).to_be_visible()
    dialog(page).get_by_label("Do not load").check()
    button(dialog(page), "Install giant").click()
    expect(dialog(page).get_by_text(re.compile("giant fits on no node"))).to_be_visible()
    button(page, "Done").click()

    assert fleet.call("PUT", "/api/rules/giant", {"min_replicas": 1})[0] == 200
    open_page(page, fleet, "/models/giant")
    expect(page.get_by_text(re.compile("Cannot be satisfied right now"))).to_be_visible()
    others = page.get_by_role("list", name="Other nodes").get_by_role("listitem")
    expect(others).to_have_count(2)
    expect(others.first).to_contain_text("worker-1")
    open_page(page, fleet, "/models")
    expect(row(page, "giant").get_by_text("rule not satisfied")).to_be_visible()
    fleet.call("DELETE", "/api/rules/giant")
    forget(page, fleet, "giant")


@pytest.mark.behaviour("PAGE-88")
def test_edit_is_shown_before_it_is_saved_ends_old_replicas_and_can_be_taken_back(
    page: Page, fleet: Fleet, watched: BrowserErrors
) -> None:
    watched.allow(r"status of 400 .*/api/fleet")
    put(fleet, "edited", options={"tokens_per_s": "20"})
    load(fleet, "edited", "worker-1")
    open_page(page, fleet, "/models/edited?tab=configuration")
    editor = page.get_by_role("textbox", name="Configuration of edited, YAML")
    expect(editor).to_contain_text('tokens_per_s: "20"')
    assert axe(page) == []
    # The policy let the editor's styles in: its lines have numbers beside them, not above.
    sheets = "document.querySelector('.editor-host').shadowRoot.adoptedStyleSheets.length"
    assert page.evaluate(sheets) > 0

    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("idel: 5m")
    button(page, "Review and save").click()
    expect(page.get_by_text("'idel' is not a setting. Did you mean idle?").first).to_be_visible()
    expect(page.get_by_role("alert").filter(has_text="Line 5:")).to_have_count(1)
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.type("name: edited\nbackend: fake\noptions:\n  tokens_per_s: 30")
    page.keyboard.press("Control+s")
    expect(dialog(page).get_by_text("~ options.tokens_per_s: 20 -> 30")).to_be_visible()
    expect(dialog(page).get_by_text(re.compile("1 replica of revision 1 stop"))).to_be_visible()
    expect(dialog(page).locator("del")).to_contain_text('tokens_per_s: "20"')
    expect(dialog(page).locator("ins")).to_contain_text("tokens_per_s: 30")
    assert axe(page) == []
    button(page, "Save as revision 2").click()
    expect(dialog(page)).to_have_count(0)
    expect(page.get_by_text("idle", exact=True)).to_be_visible()
    assert model(fleet, "edited")["revision"] == 2

    page.get_by_role("tab", name="Revisions").click()
    expect(row(page, "Revision 2").get_by_text("~ options.tokens_per_s: 20 -> 30")).to_be_visible()
    assert axe(page) == []
    button(page, "Restore revision 1").click()
    button(dialog(page), "Restore revision 1").click()
    expect(row(page, "Revision 3").get_by_text("current", exact=True)).to_be_visible()
    assert model(fleet, "edited")["config"]["options"] == {"tokens_per_s": "20"}
    forget(page, fleet, "edited")


@pytest.mark.behaviour("PAGE-89")
def test_two_editors_do_not_overwrite_each_other(page: Page, fleet: Fleet, watched: BrowserErrors) -> None:
    watched.allow(r"status of 409 .*/api/models/config/shared")
    put(fleet, "shared", description="First")
    open_page(page, fleet, "/models/shared?tab=configuration")
    editor = page.get_by_role("textbox", name="Configuration of shared, YAML")
    expect(editor).to_contain_text("First")
    fleet.call("PATCH", "/api/models/config/shared", {"description": "Second"})
    # Who has written nothing sees what is there now.
    expect(editor).to_contain_text("Second")

    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("threads: 2")
    fleet.call("PATCH", "/api/models/config/shared", {"description": "Third"})
    expect(page.get_by_text("Revision 3 was saved while you were editing.")).to_be_visible()
    expect(editor).to_contain_text("threads: 2")
    button(page, "Show their changes").click()
    expect(page.locator("ins")).to_contain_text("description: Third")
    button(page, "Keep mine, compare with theirs").click()
    button(page, "Review and save").click()
    expect(dialog(page).get_by_text("~ description: Third -> Second")).to_be_visible()

    # Between the review and the button.
    fleet.call("PATCH", "/api/models/config/shared", {"pinned": True})
    button(dialog(page), "Save as revision 4").click()
    expect(dialog(page).get_by_role("alert")).to_contain_text("revision 4")
    expect(button(dialog(page), "Save as revision 4")).to_be_disabled()
    button(dialog(page), "Continue editing").click()
    expect(page.get_by_text("Revision 4 was saved while you were editing.")).to_be_visible()
    # Tab is for indenting, and there is a way out for those who have a keyboard only.
    editor.click()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(editor).not_to_be_focused()
    # What is not saved is not lost without a question.
    page.get_by_role("link", name="All models").click()
    button(dialog(page), "Discard changes and leave").click()
    expect(row(page, "shared").get_by_text("pinned")).to_be_visible()
    assert model(fleet, "shared")["description"] == "Third"
    forget(page, fleet, "shared")


@pytest.mark.behaviour("PAGE-85")
def test_model_page_shows_running_operations_and_confirms_unloading_a_busy_model(page: Page, fleet: Fleet) -> None:
    put(fleet, "busy", options={"tokens_per_s": "4", **HELD_LOAD})
    open_page(page, fleet, "/models")
    button(page, "Load busy").click()
    expect(row(page, "busy").get_by_role("list", name="Load steps")).to_be_visible()
    let_load(fleet, "busy")
    expect(row(page, "busy").get_by_text("loaded on 1 node")).to_be_visible(timeout=LONG_MS)

    with answering(fleet, "busy"):
        expect(row(page, "busy").get_by_text("1 in flight").first).to_be_visible()
        button(page, "Unload busy").click()
        expect(dialog(page).get_by_text("1 request is in flight.")).to_be_visible()
        button(dialog(page), "Cancel").click()
    choose(page, "busy", "Pin")
    expect(row(page, "busy").get_by_text("pinned", exact=True)).to_be_visible()
    choose(page, "busy", "Disable")
    expect(row(page, "busy").get_by_text("disabled", exact=True)).to_be_visible()
    expect(button(page, "Load busy")).to_have_count(0)
    choose(page, "busy", "Enable")
    expect(row(page, "busy").get_by_text("idle", exact=True)).to_be_visible(timeout=LONG_MS)
    forget(page, fleet, "busy")


def test_rule_is_made_read_and_taken_away(page: Page, fleet: Fleet, watched: BrowserErrors) -> None:
    watched.allow(r"status of 400 .*/api/rules/")
    put(fleet, "ruled")
    open_page(page, fleet, "/models/ruled")
    button(page, "Add a rule for ruled").click()
    dialog(page).get_by_label("Minimum").fill("3")
    dialog(page).get_by_label("Maximum").fill("2")
    assert axe(page) == []
    button(page, "Save rule").click()
    expect(dialog(page).get_by_text(re.compile("the minimum 3 is more than the maximum 2"))).to_be_visible()
    dialog(page).get_by_label("Minimum").fill("1")
    button(page, "Add schedule").click()
    button(page, "Save rule").click()
    expect(page.get_by_text("1 to 2 replicas.")).to_be_visible()
    expect(page.get_by_text(re.compile("At 0 8 .* for 10 h: at least 2"))).to_be_visible()
    expect(page.get_by_text("loaded on", exact=False).first).to_be_visible(timeout=LONG_MS)
    button(page, "Remove the rule of ruled").click()
    button(dialog(page), "Remove rule").click()
    expect(page.get_by_text("No rule: one replica on any node")).to_be_visible()
    forget(page, fleet, "ruled")


@pytest.mark.behaviour("CLI-35")
def test_routing_of_a_rule_is_chosen_in_the_form_and_kept_by_other_changes(page: Page, fleet: Fleet) -> None:
    put(fleet, "routed")
    open_page(page, fleet, "/models/routed")
    button(page, "Add a rule for routed").click()
    expect(dialog(page).get_by_label("Routing")).to_have_value("")
    dialog(page).get_by_label("Routing").select_option("round_robin")
    assert axe(page) == []
    button(page, "Save rule").click()
    expect(page.get_by_text("Requests are routed by round_robin.")).to_be_visible()
    button(page, "Edit the rule of routed").click()
    expect(dialog(page).get_by_label("Routing")).to_have_value("round_robin")
    dialog(page).get_by_label("Maximum").fill("4")
    button(page, "Save rule").click()
    expect(page.get_by_text("1 to 4 replicas.")).to_be_visible()
    assert fleet.call("GET", "/api/rules/routed")[1]["route_policy"] == "round_robin"
    button(page, "Edit the rule of routed").click()
    dialog(page).get_by_label("Routing").select_option("Least expected wait")
    button(page, "Save rule").click()
    expect(page.get_by_text("Requests are routed by round_robin.")).to_have_count(0)
    assert fleet.call("GET", "/api/rules/routed")[1]["route_policy"] == ""
    fleet.call("DELETE", "/api/rules/routed")
    forget(page, fleet, "routed")


def test_address_is_checked_before_a_model_is_made_of_it(page: Page, fleet: Fleet, watched: BrowserErrors) -> None:
    watched.allow(r"status of 4\d\d .*/models/import-uri")
    file = write_tiny_gguf(fleet.models.files / "addressed.gguf", seed=2)
    open_page(page, fleet, "/models")
    button(page, "Import from URL").click()
    dialog(page).get_by_label("URL").fill("ftp://host.example/a")
    expect(dialog(page).get_by_text("Unsupported URL scheme ftp.")).to_be_visible()
    dialog(page).get_by_label("URL").fill("https://host.example/model.unknown")
    button(page, "Check").click()
    expect(dialog(page).get_by_text("The backend cannot be inferred from the address.")).to_be_visible()
    dialog(page).get_by_label("URL").fill(f"file://{file.with_name('nowhere.gguf')}")
    dialog(page).get_by_label("Backend").fill("fake")
    button(page, "Check").click()
    expect(dialog(page).get_by_role("alert")).to_contain_text("nowhere.gguf")
    expect(button(page, "Install nowhere")).to_have_count(0)
    dialog(page).get_by_label("URL").fill(f"file://{file}")
    button(page, "Check").click()
    expect(dialog(page).get_by_text("Creates model addressed, served by fake.")).to_be_visible()
    expect(dialog(page).get_by_text(re.compile(r"^Found: about [\d.]+ [KM]iB to download\.$"))).to_be_visible()
    expect(dialog(page).get_by_role("region", name="Compatible nodes")).to_contain_text("Fits on both nodes.")
    button(page, "Install addressed").click()
    expect(dialog(page).get_by_text("Loaded: addressed")).to_be_visible(timeout=LONG_MS)
    button(page, "Done").click()
    expect(row(page, "addressed").get_by_text("loaded on 1 node")).to_be_visible()
    forget(page, fleet, "addressed")


@pytest.mark.behaviour("PAGE-55", "OPS-161")
def test_dismissing_failures_on_the_page_of_a_model_can_be_undone(page: Page, fleet: Fleet) -> None:
    put(fleet, "absent", files=[{"path": "absent.gguf", "uri": f"file://{fleet.models.files}/absent.gguf"}])
    for _ in range(2):
        fleet.run(fleet.models.becomes(fleet.run(fleet.models.load("absent")), "failed"))
    open_page(page, fleet, "/models/absent")
    keep_toasts(page)
    main = page.get_by_role("main")
    expect(main.get_by_text("Failed 2 times.")).to_be_visible()
    main.get_by_role("alert").get_by_role("button", name=re.compile("^Dismiss: ")).click()
    expect(main.get_by_text("Failed 2 times.")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(main.get_by_text("Failed 2 times.")).to_be_visible()
    forget(page, fleet, "absent")


def test_urls_restore_the_shown_view_and_pages_are_accessible(page: Page, fleet: Fleet, gallery: None) -> None:
    put(fleet, "seen", description="A model with a description that is long enough to need two lines on a phone.")
    load(fleet, "seen", "worker-1")
    views = ("/models?q=see", "/models?view=catalog&tag=ours", *(f"/models/seen?tab={tab}" for tab in TABS))
    for path in views:
        open_page(page, fleet, path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_role("status", name="Loading")).to_have_count(0)
        assert axe(page) == [], path
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        expect_fits(page)
        page.set_viewport_size({"width": 1280, "height": 800})
    open_page(page, fleet, "/models?view=catalog&tag=ours")
    expect(page.get_by_role("list", name="Catalog entries").get_by_role("listitem")).to_have_count(2)
    expect(button(page, "ours")).to_have_attribute("aria-pressed", "true")
    open_page(page, fleet, "/models?q=see")
    expect(page.get_by_label("Search installed models")).to_have_value("see")
    expect(row(page, "seen")).to_be_visible()
    forget(page, fleet, "seen")


TABS = ("overview", "configuration", "revisions", "files")
