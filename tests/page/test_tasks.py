"""Tasks and jobs in a browser: the form, runs with parameters and files, history, results, and webhooks."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, FilePayload, Locator, Page, expect

from corral.adapters.http import HttpFetcher
from corral.domain.run import RunTrigger
from tests.page.run_scene import RunScene, run_scene
from tests.page.support import (
    BackgroundLoop,
    BrowserErrors,
    axe_by_day_and_night,
    come_in,
    expect_fits,
    keep_toasts,
    leave,
)
from tests.page.task_scene import (
    MODEL,
    forget_tasks,
    new_task,
    put_models,
    read_job,
    read_task,
    start_job,
)
from tests.tasks.scene import receiving_webhooks

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 800}
PICTURE = FilePayload(name="cow.png", mimeType="image/png", buffer=b"\x89PNG\r\n\x1a\n")
SOUND = FilePayload(name="moo.wav", mimeType="audio/wav", buffer=b"RIFF")


@pytest.fixture(scope="module")
def yard(built_page: None, aside: BackgroundLoop, postgres: str) -> Iterator[RunScene]:
    # Receivers of webhooks are on the loopback here.
    fetcher = HttpFetcher(uses_proxies=False)
    with run_scene(aside, postgres, allows_private_webhooks=True, fetcher=fetcher) as scene:
        put_models(scene)
        yield scene
        scene.run(fetcher.stop())


@pytest.fixture
def scene(yard: RunScene) -> Iterator[RunScene]:
    yield yard
    forget_tasks(yard)


@pytest.fixture
def page(context: BrowserContext, scene: RunScene) -> Iterator[Page]:
    come_in(context, scene.url)
    page = context.new_page()
    yield page
    leave(page)


def task_row(page: Page, name: str) -> Locator:
    return page.get_by_role("list", name="Tasks").get_by_role("listitem", name=name, exact=True)


def job_rows(page: Page) -> Locator:
    return page.get_by_role("list", name="Jobs").get_by_role("listitem")


def field(page: Page, label: str) -> Locator:
    return page.get_by_label(label, exact=True)


def choose(page: Page, action: str, name: str) -> None:
    page.get_by_role("button", name=f"Actions for {name}").click()
    page.get_by_role("menuitem", name=action).click()


def list_tasks(scene: RunScene) -> Any:
    return scene.call("GET", "/api/agent/tasks")[1]


@pytest.mark.behaviour("PAGE-220")
def test_task_is_created_with_its_parameters_and_schedule_from_the_empty_list(page: Page, scene: RunScene) -> None:
    page.goto(f"{scene.url}/app/tasks")
    expect(page.get_by_text("You have no tasks yet.")).to_be_visible()
    expect(page.get_by_text("A task is a prompt that you write once and run often.")).to_be_visible()
    page.get_by_role("link", name="Create your first task").click()
    field(page, "Name").fill("weather")
    field(page, "Model").select_option(MODEL)
    field(page, "Prompt").fill("Wear {{ what | default('a hat') }} in {% if city %}{{ city }}{% endif %}?")
    found = page.get_by_role("status", name="Parameters of the prompt")
    expect(found.locator(".tag")).to_have_text(["city", "what"])

    page.get_by_role("button", name="Weekdays at 8").click()
    expect(field(page, "Cron pattern")).to_have_value("0 8 * * 1-5")
    field(page, "Time zone").fill("Asia/Tokyo")
    expect(page.get_by_text("Runs Monday to Friday at 08:00, Asia/Tokyo")).to_be_visible()
    times = page.get_by_role("list", name="Next times").locator("time")
    expect(times).to_have_count(3)
    first = times.first.get_attribute("datetime") or ""
    field(page, "city").fill("Tokyo")
    field(page, "If an earlier scheduled job is still open").select_option("replace")
    page.get_by_role("button", name="Add webhook").click()
    page.get_by_role("group", name="Webhook 1").get_by_label("Address").fill("https://example.org/hook")
    page.get_by_role("button", name="Create task").click()

    expect(page.get_by_role("heading", name="weather", level=1)).to_be_visible()
    expect(page).to_have_title("weather · Tasks and batches · Corral")
    expect(page.get_by_role("region", name="Schedule")).to_contain_text("Monday to Friday at 08:00, Asia/Tokyo")
    [listed] = list_tasks(scene)
    task = scene.call("GET", f"/api/agent/tasks/{listed['id']}")[1]
    assert task["parameters"] == ["city", "what"]
    assert (task["cron_parameters"], task["overlap"]) == ({"city": "Tokyo"}, "replace")
    assert [webhook["url"] for webhook in task["webhooks"]] == ["https://example.org/hook"]
    # The page and the server find the same time.
    assert datetime.fromisoformat(first) == datetime.fromisoformat(task["next_run_at"])


@pytest.mark.behaviour("PAGE-220")
def test_form_of_a_task_shows_what_is_wrong_at_its_field(page: Page, scene: RunScene, watched: BrowserErrors) -> None:
    watched.allow(r"status of (400|409) .*/api/agent/tasks")
    watched.allow(r"status of 400 .*/api/agent/schedule")
    new_task(scene, "taken")
    page.goto(f"{scene.url}/app/tasks/new")
    field(page, "Cron pattern").fill("61 9 * * *")
    expect(page.get_by_text("'61' is not a minute of a cron pattern.")).to_be_visible()
    expect(page.get_by_role("list", name="Next times")).to_have_count(0)
    field(page, "Cron pattern").fill("1 9 * * *")
    expect(page.get_by_role("list", name="Next times").get_by_role("listitem")).to_have_count(3)
    field(page, "Time zone").fill("Nowhere")
    expect(page.get_by_text("'Nowhere' is not a known time zone.")).to_be_visible()
    field(page, "Time zone").fill("UTC")
    expect(page.get_by_text("'Nowhere' is not a known time zone.")).to_have_count(0)
    field(page, "Cron pattern").fill("61 9 * * *")
    page.get_by_role("button", name="Create task").click()
    for fault in ("A task needs a name.", "A task needs a model.", "A task needs a prompt."):
        expect(page.get_by_text(fault)).to_be_visible()
    expect(field(page, "Name")).to_be_focused()
    assert [task["name"] for task in list_tasks(scene)] == ["taken"]

    # What only the server knows stands at its field, too.
    field(page, "Name").fill("taken")
    field(page, "Model").select_option(MODEL)
    field(page, "Prompt").fill("{{ unfinished")
    field(page, "Cron pattern").fill("0 9 * * *")
    page.get_by_role("button", name="Create task").click()
    prompt = page.locator(".field", has=field(page, "Prompt"))
    expect(prompt.get_by_role("alert")).to_contain_text("Line 1 of the template is not valid")
    expect(field(page, "Prompt")).to_be_focused()
    field(page, "Prompt").fill("Hello.")
    page.get_by_role("button", name="Create task").click()
    name = page.locator(".field", has=field(page, "Name"))
    expect(name.get_by_role("alert")).to_contain_text("There is a task 'taken' already.")
    field(page, "Name").fill("other")
    page.get_by_role("button", name="Create task").click()
    expect(page.get_by_role("heading", name="other", level=1)).to_be_visible()


@pytest.mark.behaviour("PAGE-226")
def test_edit_of_one_field_leaves_the_others_as_they_were(page: Page, scene: RunScene) -> None:
    scene.call("PUT", "/api/mcp/servers/clock", {"command": "uvx", "args": ["mcp-server-time"]})
    task_id = new_task(
        scene,
        "full",
        prompt="{{ herd }} {{ count }}",
        cron="0 9 * * *",
        time_zone="Europe/Rome",
        cron_parameters={"herd": "cows", "count": 3},
        catch_up="once",
        webhooks=[{"url": "https://example.org/a?b=1", "method": "PUT", "headers": {"X-Herd": "1"}}],
        multimedia_sources=[{"type": "audio", "url": "https://example.org/moo.wav"}],
        mcp_servers=[{"name": "hay", "url": "https://example.org/mcp", "token": "secret:hay"}],
        mcp_stdio_servers=["clock"],
        labels={"zone": "barn"},
        budgets={"wall_s": 60, "steps": 5, "tool_calls": 7, "tokens": 900},
        max_attempts=2,
    )
    before = read_task(scene, task_id)
    page.goto(f"{scene.url}/app/tasks/{task_id}/edit")
    expect(page.get_by_role("checkbox", name="clock")).to_be_checked()
    field(page, "Description").fill("Counts the herd")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Counts the herd")).to_be_visible()
    after = read_task(scene, task_id)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"description", "revision", "updated_at"}


@pytest.mark.behaviour("PAGE-226")
def test_form_asks_before_what_was_typed_is_left(page: Page, scene: RunScene) -> None:
    task_id = new_task(scene, "weather")
    page.goto(f"{scene.url}/app/tasks/{task_id}/edit")
    field(page, "Prompt").fill("Something long.")
    page.get_by_role("link", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Your changes to weather are not saved.")
    dialog.get_by_role("button", name="Cancel").click()
    expect(field(page, "Prompt")).to_have_value("Something long.")
    page.get_by_role("link", name="Cancel").click()
    dialog.get_by_role("button", name="Discard changes and leave").click()
    expect(page).to_have_url(f"{scene.url}/app/tasks/{task_id}")
    assert read_task(scene, task_id)["prompt"] == "Feed {{ herd }}."


@pytest.mark.behaviour("PAGE-221")
def test_task_is_run_with_parameters_and_files_of_this_machine(
    page: Page, scene: RunScene, watched: BrowserErrors
) -> None:
    watched.allow(r"status of 400 .*/api/agent/jobs/execute")
    task_id = new_task(scene, "look", prompt="What is {{ subject }} in {{ place | default('the barn') }}?")
    page.goto(f"{scene.url}/app/tasks")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.get_by_role("button", name="Run look").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Run", exact=True).click()
    subject = dialog.locator(".field", has=field(page, "subject"))
    expect(subject.get_by_role("alert")).to_have_text("The prompt needs a value.")
    field(page, "subject").fill("a cow")
    dialog.get_by_label("Files").set_input_files([PICTURE, SOUND])
    files = dialog.get_by_role("list", name="Chosen files").get_by_role("listitem")
    expect(files).to_have_text([re.compile("image.*cow.png"), re.compile("audio.*moo.wav")])
    dialog.get_by_role("button", name="Run", exact=True).click()

    expect(page.get_by_role("heading", name="Job of look")).to_be_visible()
    expect(page.locator(".page-head .pill")).to_have_text("queued")
    job_id = page.url.rsplit("/", 1)[1]
    stored = read_job(scene, job_id)
    assert (stored["task_id"], stored["parameters"]) == (task_id, {"subject": "a cow"})
    assert [one["kind"] for one in stored["attachments"]] == ["image", "audio"]
    assert stored["triggered_by"] == "manual"
    expect(page.get_by_role("region", name="Parameters")).to_contain_text("a cow")
    expect(page.get_by_role("list", name="Attachments").get_by_role("listitem")).to_have_count(2)


@pytest.mark.behaviour("PAGE-222")
def test_job_is_followed_from_its_start_to_its_result(page: Page, scene: RunScene) -> None:
    held = start_job(scene, new_task(scene, "look"), trigger=RunTrigger.MANUAL, herd="cows")
    page.goto(f"{scene.url}/app/tasks/jobs/{held.id}")
    expect(page.locator(".page-head .pill")).to_have_text("queued")
    expect(page.get_by_role("region", name="Parameters")).to_contain_text("cows")
    scene.give(held)
    held.deliver((0, "step", {"step": 1}), (1, "content", {"text": "It is "}))
    entry = page.get_by_role("list", name="Trace").get_by_role("listitem").filter(has_text="Model call 1")
    expect(entry).to_contain_text("It is")
    expect(page.locator(".page-head .pill")).to_have_text("running")
    held.deliver((2, "end", {"state": "completed", "content": "It is **brown**.", "reason": "answer"}))
    expect(page.get_by_role("region", name="Result").locator("strong")).to_have_text("brown")
    expect(page.locator(".page-head .pill")).to_have_text("completed")
    details = page.get_by_role("region", name="Details")
    expect(details.get_by_role("link", name="agent-1")).to_be_visible()
    expect(details).to_contain_text("manually")
    details.get_by_role("link", name="look").click()
    expect(job_rows(page)).to_have_count(1)
    expect(job_rows(page)).to_contain_text("It is brown.")


@pytest.mark.behaviour("PAGE-221")
def test_shown_command_starts_a_job_once_the_key_is_filled_in(page: Page, scene: RunScene) -> None:
    key, _ = scene.new_key("program")
    new_task(scene, "it's fed", key=key)
    new_task(scene, "it's fed")
    page.goto(f"{scene.url}/app/tasks")
    page.get_by_role("button", name="Run it's fed").click()
    field(page, "herd").fill("the cows' calves")
    page.get_by_text("The same call as a command").click()
    words = shlex.split(page.locator(".copy code").inner_text().replace("$CORRAL_API_KEY", key))
    assert words[0] == "curl"
    headers = [words[place + 1] for place, word in enumerate(words) if word == "-H"]
    assert headers == [f"Authorization: Bearer {key}", "Content-Type: application/json"]
    path = words[1].removeprefix(scene.url)
    status, made = scene.call("POST", path, json.loads(words[words.index("-d") + 1]), key=key)
    assert status == 201, made
    assert read_job(scene, made["job_id"])["parameters"] == {"herd": "the cows' calves"}


@pytest.mark.behaviour("PAGE-222")
def test_job_is_cancelled_after_a_confirmation_and_then_deleted(
    page: Page, scene: RunScene, watched: BrowserErrors
) -> None:
    # Requests that the page had sent when the job was deleted are answered with 404.
    watched.allow("status of 404")
    held = scene.give(start_job(scene, new_task(scene, "feed"), herd="cows"))
    held.deliver((0, "step", {"step": 1}))
    page.goto(f"{scene.url}/app/tasks/jobs/{held.id}")
    page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Back").click()
    assert read_job(scene, held.id)["status"] == "running"
    page.get_by_role("button", name="Cancel").click()
    dialog.get_by_role("button", name="Cancel the job").click()
    expect(page.locator(".page-head .pill")).to_have_text("cancelled")
    assert held.deliver()["must_stop"] is True
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete the job").click()
    expect(page.get_by_text("No jobs yet.")).to_be_visible()


@pytest.mark.behaviour("PAGE-222")
def test_webhooks_of_a_job_show_their_delivery_and_the_signing_secret_is_shown_on_request(
    page: Page, scene: RunScene
) -> None:
    with scene.aside.inside(receiving_webhooks()) as receiver:
        receiver.statuses = [404]
        hooks = [{"url": f"{receiver.url}/first?token=x"}, {"url": f"{receiver.url}/second"}]
        task_id = new_task(scene, "feed", webhooks=hooks)
        held = scene.give(start_job(scene, task_id, herd="cows"))
        page.goto(f"{scene.url}/app/tasks/jobs/{held.id}")
        region = page.get_by_role("region", name="Webhooks")
        expect(region.locator(".pill")).to_have_text(["pending", "pending"])
        expect(region).to_contain_text("They are sent when the job has ended.")
        held.deliver(
            (0, "step", {"step": 1}), (1, "end", {"state": "failed", "error_code": "no_hay", "error_text": "No hay."})
        )
        expect(page.locator(".page-head")).to_contain_text("No hay.")
        states = region.locator(".pill")
        expect(states.filter(has_text="failed")).to_have_count(1)
        expect(states.filter(has_text="delivered")).to_have_count(1)
        expect(region).to_contain_text("last status 404")
        expect(region).not_to_contain_text("token=x")
        page.get_by_role("link", name="feed").click()
        expect(job_rows(page)).to_contain_text("webhook failed")
        page.get_by_role("button", name="Show signing secret").click()
        _, shown = scene.call("GET", f"/api/agent/tasks/{task_id}/webhook-secret")
        expect(page.get_by_role("dialog").locator(".copy code")).to_have_text(shown["secret"])
        page.get_by_role("dialog").get_by_role("button", name="Close").last.click()
        expect(page.get_by_text(shown["secret"])).to_have_count(0)


@pytest.mark.behaviour("PAGE-223")
def test_list_shows_schedule_and_last_job_and_follows_what_others_do(page: Page, scene: RunScene) -> None:
    page.goto(f"{scene.url}/app/tasks")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    feed = new_task(scene, "feed", cron="0 6 * * *", time_zone="Europe/Rome", description="Hay for the herd")
    new_task(scene, "water")
    line = task_row(page, "feed")
    expect(line).to_contain_text("Every day at 06:00, Europe/Rome", ignore_case=True)
    expect(line).to_contain_text("Next run")
    expect(line).to_contain_text("none yet")
    expect(task_row(page, "water")).to_contain_text("On request only")
    held = scene.give(start_job(scene, feed, herd="cows", trigger=RunTrigger.CRON))
    expect(line.locator(".pill")).to_have_text("running")
    held.deliver((0, "end", {"state": "completed", "content": "Done."}))
    expect(line.locator(".pill")).to_have_text("completed")

    switch = page.get_by_role("switch", name="feed is enabled")
    expect(switch).to_be_checked()
    switch.focus()
    page.keyboard.press("Space")
    expect(line).to_contain_text("Disabled: no next run")
    expect(line.get_by_role("button", name="Run feed")).to_be_disabled()
    assert read_task(scene, feed)["enabled"] is False
    scene.call("POST", f"/api/agent/tasks/{feed}/enable")
    expect(switch).to_be_checked()

    page.get_by_label("Search tasks").fill("hay")
    expect(task_row(page, "water")).to_have_count(0)
    page.get_by_label("Search tasks").fill("nothing like it")
    expect(page.get_by_text("No tasks match this search.")).to_be_visible()
    page.get_by_role("button", name="Clear search").click()
    expect(task_row(page, "water")).to_be_visible()


@pytest.mark.behaviour("PAGE-223")
def test_task_is_edited_and_deleted_from_the_list_and_its_jobs_stay(page: Page, scene: RunScene) -> None:
    task_id = new_task(scene, "feed")
    held = start_job(scene, task_id, herd="cows")
    page.goto(f"{scene.url}/app/tasks")
    keep_toasts(page)
    choose(page, "Edit", "feed")
    expect(page).to_have_url(f"{scene.url}/app/tasks/{task_id}/edit")
    page.get_by_role("link", name="Cancel").click()
    page.get_by_role("link", name="All tasks").click()
    choose(page, "Delete", "feed")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("all its jobs stay readable")
    dialog.get_by_role("button", name="Cancel").click()
    assert len(list_tasks(scene)) == 1
    choose(page, "Delete", "feed")
    dialog.get_by_role("button", name="Delete feed").click()
    expect(page.get_by_text("Deleted task feed.")).to_be_visible()
    expect(page.get_by_text("You have no tasks yet.")).to_be_visible()
    page.goto(f"{scene.url}/app/tasks/jobs/{held.id}")
    expect(page.get_by_role("region", name="Details")).to_contain_text("feed (deleted)")


@pytest.mark.behaviour("PAGE-224")
def test_jobs_are_filtered_and_admins_see_those_of_everybody(page: Page, scene: RunScene) -> None:
    key, _ = scene.new_key("farmer")
    feed, water = new_task(scene, "feed"), new_task(scene, "water")
    theirs = new_task(scene, "shear", key=key)
    scene.give(start_job(scene, feed, herd="cows"))
    start_job(scene, water, herd="goats")
    start_job(scene, theirs, key=key, herd="sheep")
    page.goto(f"{scene.url}/app/tasks")
    page.get_by_role("navigation", name="Tasks and batches").get_by_role("link", name="Jobs").click()
    expect(page).to_have_title("Jobs · Tasks and batches · Corral")
    expect(job_rows(page)).to_have_count(2)
    page.get_by_label("Status").select_option("running")
    expect(job_rows(page)).to_have_count(1)
    expect(job_rows(page)).to_contain_text("feed")
    page.get_by_label("Task", exact=True).select_option("water")
    expect(page.get_by_text("No jobs match this filter.")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Status")).to_have_value("running")
    page.get_by_role("button", name="Clear filters").click()
    expect(job_rows(page)).to_have_count(2)
    page.locator("fieldset.segments label", has_text="Everybody").click()
    expect(job_rows(page)).to_have_count(3)
    expect(job_rows(page).filter(has_text="shear")).to_contain_text("by farmer")

    # An admin may change the task of another user, and not run it.
    page.goto(f"{scene.url}/app/tasks?owner=everybody")
    expect(task_row(page, "feed").get_by_role("button", name="Run feed")).to_be_visible()
    expect(task_row(page, "shear")).to_contain_text("by farmer")
    expect(task_row(page, "shear").get_by_role("button", name="Run shear")).to_have_count(0)
    page.get_by_role("switch", name="shear is enabled").click()
    # It can be used again once the server has answered.
    expect(task_row(page, "shear").locator("input.switch:enabled:not(:checked)")).to_be_visible()
    assert read_task(scene, theirs)["enabled"] is False


@pytest.mark.behaviour("PAGE-224")
def test_caller_who_may_only_infer_has_their_own_tasks_and_no_others(
    browser: Browser, scene: RunScene, watched: BrowserErrors
) -> None:
    watched.allow("status of 404")
    key, _ = scene.new_key("phone")
    foreign = new_task(scene, "theirs")
    own = new_task(scene, "mine", key=key)
    context = browser.new_context(viewport=DESK)  # type: ignore[arg-type]
    try:
        context.on("page", watched.watch)
        come_in(context, scene.url, key)
        page = context.new_page()
        page.goto(f"{scene.url}/app/tasks")
        expect(page.get_by_role("list", name="Tasks").get_by_role("listitem")).to_have_count(1)
        expect(page.get_by_role("group", name="Whose tasks")).to_have_count(0)
        # There is no stream for this caller: the list is polled.
        held = scene.give(start_job(scene, own, key=key, herd="goats"))
        expect(task_row(page, "mine").locator(".pill")).to_have_text("running")
        task_row(page, "mine").get_by_role("link", name=re.compile("now|ago")).click()
        held.deliver((0, "step", {"step": 1}), (1, "end", {"state": "completed", "content": "Fed."}))
        expect(page.get_by_role("region", name="Result")).to_contain_text("Fed.")
        expect(page.get_by_role("link", name="agent-1")).to_have_count(0)
        page.goto(f"{scene.url}/app/tasks/{foreign}")
        expect(page.get_by_role("alert")).to_contain_text("See the Tasks page for your tasks.")
    finally:
        context.close()


def test_task_that_another_user_deletes_is_shown_as_gone(page: Page, scene: RunScene, watched: BrowserErrors) -> None:
    watched.allow("status of 404")
    task_id = new_task(scene, "feed")
    page.goto(f"{scene.url}/app/tasks/{task_id}")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    scene.call("DELETE", f"/api/agent/tasks/{task_id}")
    expect(page.get_by_text("This task was deleted.")).to_be_visible()


def test_tasks_have_no_serious_fault_and_fit_a_phone(page: Page, scene: RunScene) -> None:
    long = "a-very-long-name-of-a-task-that-somebody-has-chosen-for-their-herd"
    scene.call("PUT", "/api/mcp/servers/clock", {"command": "uvx", "description": "Tells the time"})
    held = scene.give(start_job(scene, new_task(scene, f"{long}-2"), herd="z" * 300))
    held.deliver(
        (0, "step", {"step": 1}), (1, "end", {"state": "failed", "error_code": "bad", "error_text": "o" * 300})
    )
    task_id = new_task(
        scene,
        long,
        prompt="x" * 300 + " {{ herd }}",
        cron="0 9 * * 1-5",
        webhooks=[{"url": "https://example.org/" + "y" * 200, "headers": {"X-Herd": "1"}}],
        multimedia_sources=[{"type": "image", "url": "https://example.org/cow.png"}],
        mcp_servers=[{"name": "hay", "url": "https://example.org/mcp"}],
    )
    found: list[str] = []
    paths = ("", "/new", "/jobs", f"/jobs/{held.id}", f"/{task_id}", f"/{task_id}/edit")
    for path in paths:
        page.set_viewport_size(DESK)  # type: ignore[arg-type]
        page.goto(f"{scene.url}/app/tasks{path}")
        expect(page.get_by_text("New task" if path == "/new" else long).locator("visible=true").first).to_be_visible()
        found += [f"{path}: {fault}" for fault in axe_by_day_and_night(page)]
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        expect_fits(page)
    page.goto(f"{scene.url}/app/tasks/{task_id}")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found += [f"dialog: {fault}" for fault in axe_by_day_and_night(page)]
    expect_fits(page)
    assert found == []
