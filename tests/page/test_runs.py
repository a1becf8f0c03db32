"""Runs in a browser: their list, the trace of one as it grows, decisions about tool calls, and cancellation."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import APIResponse, Browser, BrowserContext, Locator, Page, Route, expect

from corral.domain.run import RunKind, RunState
from tests.page.run_scene import HeldRun, RunScene, run_scene
from tests.page.support import BackgroundLoop, BrowserErrors, axe_by_day_and_night, come_in, expect_fits, leave
from tests.worker.relay import Relay

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 800}
SHELL = {"call_id": "c1", "name": "shell", "arguments": {"command": "rm -r herd"}}


@pytest.fixture(scope="module")
def yard(built_page: None, aside: BackgroundLoop, postgres: str) -> Iterator[RunScene]:
    with run_scene(aside, postgres) as scene:
        yield scene


@pytest.fixture
def scene(yard: RunScene) -> Iterator[RunScene]:
    yield yard
    yard.forget_all()


@pytest.fixture
def page(context: BrowserContext, scene: RunScene) -> Page:
    come_in(context, scene.url)
    return context.new_page()


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("list", name="Runs").get_by_role("listitem").filter(has=page.get_by_role("link", name=name))


def trace(page: Page) -> Locator:
    return page.get_by_role("list", name="Trace")


def entry(page: Page, name: str | re.Pattern[str]) -> Locator:
    return trace(page).get_by_role("listitem").filter(has_text=name)


def open_run(page: Page, scene: RunScene, held: HeldRun) -> None:
    page.goto(f"{scene.url}/app/runs/{held.id}")
    expect(page.get_by_role("region", name="Trace")).to_be_visible()


def wait_in_approval(scene: RunScene, subject: str = "helper") -> HeldRun:
    held = scene.give(scene.start(subject))
    held.deliver((0, "step", {"step": 1}), (2, "approval_requested", SHELL))
    return held


def hold_first_answer(page: Page, address: str) -> None:
    """Answer every GET of an address as the first one was answered: the page does not learn of what happens afterwards.

    Holding requests back would not do. One that the page has sent before, and that is answered late, is not held.
    """
    first: list[APIResponse] = []

    def answer(route: Route) -> None:
        if not first:
            first.append(route.fetch())
        route.fulfill(response=first[0])

    page.route(address, answer)


@pytest.mark.behaviour("PAGE-190")
def test_run_is_followed_from_the_empty_list_to_its_answer(page: Page, scene: RunScene) -> None:
    page.goto(f"{scene.url}/app/operations")
    page.get_by_role("navigation", name="Operations and runs").get_by_role("link", name="Runs").click()
    expect(page.get_by_text("You have no runs yet.")).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    held = scene.start("helper")
    expect(row(page, "helper")).to_contain_text("queued")
    row(page, "helper").get_by_role("link", name="helper").click()
    expect(page).to_have_title("helper · Runs · Corral")
    expect(page.get_by_text("Entries appear here as soon as a worker begins.")).to_be_visible()

    scene.give(held)
    held.deliver((0, "step", {"step": 1}), (1, "reasoning", {"text": "The herd "}))
    first = entry(page, "Model call 1")
    expect(first).to_contain_text("The herd")
    held.deliver((2, "reasoning", {"text": "is hungry."}), (3, "usage", {"prompt_tokens": 70, "completion_tokens": 8}))
    # An entry that is being read does not close when it has ended.
    expect(first).to_contain_text("The herd is hungry.")
    expect(first).to_contain_text("70 tokens in, 8 out")
    expect(first.locator(".waterfall-time")).to_have_text("3 s")

    held.deliver((3, "tool_call", {"call_id": "c1", "name": "barn", "arguments": {"hay": 3}}))
    expect(entry(page, "barn")).to_contain_text('"hay": 3')
    held.deliver(
        (7.5, "tool_result", {"call_id": "c1", "name": "barn", "content": '{"left": 2}'}),
        (8, "step", {"step": 2}),
        (9, "content", {"text": "The herd is **fed**."}),
        (10, "end", {"state": "completed", "content": "The herd is **fed**.", "reason": "answer"}),
    )
    expect(entry(page, "barn")).to_contain_text('"left": 2')
    expect(entry(page, "barn").locator(".waterfall-time")).to_have_text("4.5 s")
    answer = page.get_by_role("region", name="Answer")
    expect(answer.locator("strong")).to_have_text("fed")
    expect(page.locator(".page-head .pill")).to_have_text("completed")
    details = page.get_by_role("region", name="Details")
    expect(details).to_contain_text(re.compile(r"Model calls\s*2"))
    expect(details).to_contain_text(re.compile(r"Tool calls\s*1"))
    expect(details.get_by_role("link", name="agent-1")).to_be_visible()

    # After a reload the rows are closed, and each opens by the keyboard.
    page.reload()
    expect(trace(page).get_by_role("listitem")).to_have_text(
        [re.compile("^Model call 1"), re.compile("^barn"), re.compile("^Model call 2"), re.compile("^Completed")]
    )
    head = entry(page, "barn").get_by_role("button")
    expect(head).to_have_attribute("aria-expanded", "false")
    head.focus()
    page.keyboard.press("Enter")
    expect(entry(page, "barn")).to_contain_text('"left": 2')


@pytest.mark.behaviour("PAGE-191")
def test_tool_call_is_approved_on_the_page_and_its_worker_goes_on(page: Page, scene: RunScene) -> None:
    held = wait_in_approval(scene)
    page.goto(f"{scene.url}/app/runs?state=waiting_approval")
    expect(row(page, "helper")).to_contain_text("waiting for approval")
    expect(row(page, "helper")).to_contain_text("Tool shell needs approval.")
    row(page, "helper").get_by_role("link", name="helper").click()
    form = page.get_by_role("group", name="Approval of shell")
    expect(form).to_contain_text('"command": "rm -r herd"')
    form.get_by_role("button", name="Approve shell").click()
    expect(form).to_have_count(0)
    assert held.deliver()["decisions"] == {"c1": {"approved": True, "reason": ""}}
    held.deliver((20, "approval_resolved", SHELL | {"approved": True}), (20, "tool_call", SHELL))
    expect(page.locator(".page-head .pill")).to_have_text("running")
    approval = entry(page, "Approval of shell")
    expect(approval).to_contain_text("approved")
    expect(approval.locator(".waterfall-time")).to_have_text("18 s")


@pytest.mark.behaviour("PAGE-191")
def test_refused_tool_call_gives_the_model_the_reason(page: Page, scene: RunScene) -> None:
    held = wait_in_approval(scene)
    open_run(page, scene, held)
    form = page.get_by_role("group", name="Approval of shell")
    form.get_by_label("Reason").fill("Keep the herd.")
    form.get_by_role("button", name="Refuse shell").click()
    expect(form).to_have_count(0)
    assert held.deliver()["decisions"] == {"c1": {"approved": False, "reason": "Keep the herd."}}
    refusal = {"approved": False, "reason": "Keep the herd."}
    held.deliver((5, "approval_resolved", SHELL | refusal))
    approval = entry(page, "Approval of shell")
    expect(approval).to_contain_text("refused")
    approval.get_by_role("button").click()
    expect(approval).to_contain_text("Keep the herd.")


def test_decision_that_another_client_has_made_is_an_error_with_its_sentence(
    page: Page, scene: RunScene, watched: BrowserErrors
) -> None:
    watched.allow("status of 409")
    held = wait_in_approval(scene)
    hold_first_answer(page, f"**/api/runs/{held.id}?*")
    open_run(page, scene, held)
    form = page.get_by_role("group", name="Approval of shell")
    expect(form).to_be_visible()
    scene.call("POST", f"/api/runs/{held.id}/calls/c1?all_users=true", {"approved": False})
    form.get_by_role("button", name="Approve shell").click()
    expect(form.get_by_role("alert")).to_contain_text("This tool call was decided already.")


@pytest.mark.behaviour("PAGE-192")
def test_run_is_cancelled_after_a_confirmation_and_then_deleted(
    page: Page, scene: RunScene, watched: BrowserErrors
) -> None:
    # Requests that the page had sent when the run was deleted are answered with 404.
    watched.allow("status of 404")
    held = scene.give(scene.start("helper"))
    held.deliver((0, "step", {"step": 1}))
    open_run(page, scene, held)
    page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Back").click()
    assert held.read()["state"] == "running"
    page.get_by_role("button", name="Cancel").click()
    dialog.get_by_role("button", name="Cancel the run").click()
    expect(page.locator(".page-head .pill")).to_have_text("cancelled")
    expect(page.locator(".page-head")).to_contain_text("Cancelled by admin.")
    expect(entry(page, "Cancelled")).to_be_visible()
    assert held.deliver()["must_stop"] is True
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete the run").click()
    expect(page.get_by_text("You have no runs yet.")).to_be_visible()


@pytest.mark.behaviour("PAGE-190")
def test_trace_continues_after_a_cut_without_gaps_and_repetitions(
    context: BrowserContext, scene: RunScene, watched: BrowserErrors
) -> None:
    watched.allow("net::ERR_")
    held = scene.give(scene.start("helper"))
    held.deliver((0, "step", {"step": 1}), (1, "content", {"text": "one "}))
    with scene.aside.inside(Relay(scene.url)) as relay:
        scene.run(relay.open())
        come_in(context, relay.url)
        page = context.new_page()
        page.goto(f"{relay.url}/app/runs/{held.id}")
        expect(entry(page, "Model call 1")).to_contain_text("one")
        scene.run(relay.close())
        expect(page.get_by_text("The trace continues when it is back.")).to_be_visible()
        held.deliver((2, "content", {"text": "two "}), (3, "content", {"text": "three"}))
        scene.run(relay.open())
        expect(entry(page, "Model call 1").locator(".waterfall-text p")).to_have_text("one two three")
        expect(page.get_by_text("The trace continues when it is back.")).to_have_count(0)
        leave(page)


def test_lost_worker_is_shown_with_the_attempt_that_follows(page: Page, scene: RunScene) -> None:
    held = scene.give(scene.start("helper"))
    held.deliver((0, "step", {"step": 1}), (1, "tool_call", {"call_id": "c1", "name": "barn"}))
    open_run(page, scene, held)
    expect(entry(page, "barn")).to_be_visible()
    scene.lose(held, "The worker on agent-1 was lost; the run begins again.")
    expect(entry(page, "The worker on agent-1 was lost; the run begins again.")).to_be_visible()
    expect(entry(page, "barn")).to_contain_text("interrupted")
    held.deliver((5, "step", {"step": 1}))
    expect(entry(page, "Model call 1")).to_have_count(2)
    expect(page.get_by_role("region", name="Details")).to_contain_text(re.compile(r"Attempts\s*2"))


def test_failed_run_shows_its_error_in_the_list_and_on_its_page(page: Page, scene: RunScene) -> None:
    held = scene.give(scene.start("helper"))
    fault = {"state": "failed", "error_code": "model_not_found", "error_text": "There is no model 'hay'."}
    held.deliver((0, "step", {"step": 1}), (1, "end", fault))
    page.goto(f"{scene.url}/app/runs?state=failed")
    expect(row(page, "helper")).to_contain_text("There is no model 'hay'.")
    row(page, "helper").get_by_role("link", name="helper").click()
    expect(page.locator(".page-head")).to_contain_text("There is no model 'hay'.")
    expect(entry(page, "Failed")).to_contain_text("There is no model 'hay'.")


@pytest.mark.behaviour("PAGE-193")
def test_list_is_filtered_and_admins_see_the_runs_of_everybody(page: Page, scene: RunScene) -> None:
    _, key_id = scene.new_key("app")
    scene.start("helper")
    scene.start("nightly", RunKind.TASK)
    other = scene.start("theirs", owner=("app", key_id))
    scene.end(other, RunState.LOST, "Its worker was lost.")
    page.goto(f"{scene.url}/app/runs")
    listed = page.get_by_role("list", name="Runs").get_by_role("listitem")
    expect(listed).to_have_count(2)
    page.locator("fieldset.segments label", has_text="Everybody").click()
    expect(listed).to_have_count(3)
    expect(row(page, "theirs")).to_contain_text("by app")
    expect(row(page, "theirs")).to_contain_text("lost")
    page.get_by_label("Kind").select_option("task")
    expect(listed).to_have_count(1)
    page.get_by_label("State").select_option("lost")
    expect(page.get_by_text("No runs match this filter.")).to_be_visible()
    page.reload()
    expect(page.get_by_label("State")).to_have_value("lost")
    page.get_by_role("button", name="Clear filters").click()
    expect(listed).to_have_count(3)
    row(page, "theirs").get_by_role("link", name="theirs").click()
    expect(page.get_by_role("region", name="Details")).to_contain_text("app")


@pytest.mark.behaviour("PAGE-193")
def test_caller_who_may_only_infer_sees_their_own_runs_and_no_others(
    browser: Browser, scene: RunScene, watched: BrowserErrors
) -> None:
    watched.allow("status of 404")
    secret, key_id = scene.new_key("phone")
    own = scene.give(scene.start("mine", owner=("phone", key_id)))
    foreign = scene.start("theirs")
    context = browser.new_context(viewport=DESK)  # type: ignore[arg-type]
    try:
        context.on("page", watched.watch)
        come_in(context, scene.url, secret)
        page = context.new_page()
        page.goto(f"{scene.url}/app/runs")
        links = page.get_by_role("navigation", name="Pages").get_by_role("link")
        expect(links.filter(has_text="Runs")).to_have_attribute("aria-current", "page")
        expect(links.filter(has_text="Operations")).to_have_count(0)
        expect(page.get_by_role("list", name="Runs").get_by_role("listitem")).to_have_count(1)
        expect(page.get_by_role("group", name="Whose runs")).to_have_count(0)
        # There is no stream for this caller: the list is polled.
        scene.start("second", owner=("phone", key_id))
        expect(row(page, "second")).to_be_visible()
        row(page, "mine").get_by_role("link", name="mine").click()
        own.deliver((0, "step", {"step": 1}), (1, "content", {"text": "Hay."}))
        expect(entry(page, "Model call 1")).to_contain_text("Hay.")
        expect(page.get_by_role("link", name="agent-1")).to_have_count(0)
        page.goto(f"{scene.url}/app/runs/{foreign.id}")
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("There is no run")
        expect(alert).to_contain_text("See the Runs page for your runs.")
    finally:
        context.close()


@pytest.mark.behaviour("PAGE-194")
def test_agent_node_shows_its_runs_in_place_of_replicas(page: Page, scene: RunScene) -> None:
    _, key_id = scene.new_key("barn")
    scene.give(scene.start("helper"))
    held = scene.give(scene.start("theirs", owner=("barn", key_id)))
    scene.start("waiting")
    page.goto(f"{scene.url}/app/nodes")
    line = page.get_by_role("list", name="Nodes").get_by_role("listitem", name="agent-1")
    expect(line).to_contain_text("up to 4 runs at a time")
    line.get_by_role("link", name="agent-1").click()
    runs = page.get_by_role("region", name="Runs")
    expect(runs).to_contain_text("2 of 4 runs active.")
    expect(row(page, "theirs")).to_contain_text("by barn")
    expect(row(page, "waiting")).to_have_count(0)
    main = page.get_by_role("main")
    for word in ("VRAM", "slots", "replicas", "backend"):
        expect(main).not_to_contain_text(re.compile(word, re.IGNORECASE))
    held.deliver((0, "end", {"state": "completed", "content": "done"}))
    expect(runs).to_contain_text("1 of 4 runs active.")
    runs.get_by_role("link", name="All runs on agent-1").click()
    expect(page).to_have_url(re.compile(r"node=agent-1&owner=everybody|owner=everybody&node=agent-1"))
    expect(row(page, "theirs")).to_contain_text("completed")
    expect(row(page, "waiting")).to_have_count(0)
    page.get_by_label("Node").select_option("")
    expect(row(page, "waiting")).to_be_visible()


def test_runs_have_no_serious_fault_and_fit_a_phone(page: Page, scene: RunScene) -> None:
    held = wait_in_approval(scene, "a-very-long-name-of-an-agent-that-somebody-has-chosen-for-their-helper")
    held.deliver(
        (3, "status", {"message": "x" * 300, "code": "mcp_unreachable"}),
        (4, "tool_call", {"call_id": "c2", "name": "server__tool_with_a_long_name", "arguments": {"path": "y" * 300}}),
        (5, "tool_result", {"call_id": "c2", "content": "z" * 300, "is_error": True}),
    )
    found: list[str] = []
    for path in ("/runs", f"/runs/{held.id}", "/nodes/agent-1"):
        page.set_viewport_size(DESK)  # type: ignore[arg-type]
        page.goto(f"{scene.url}/app{path}")
        expect(page.get_by_text("a-very-long-name").first).to_be_visible()
        if path.startswith("/runs/"):
            expect(entry(page, "server__tool_with_a_long_name")).to_be_visible()
        found += [f"{path}: {fault}" for fault in axe_by_day_and_night(page)]
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        expect_fits(page)
    assert found == []
