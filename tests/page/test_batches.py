"""Batches and files in a browser: upload, start, progress, errors, cancellation, downloads, and what others see."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, FilePayload, Locator, Page, expect
from sqlalchemy import text

from corral.api.openai.files import parse_file_id
from corral.batches.service import BatchSpec
from corral.domain.run import RunState
from tests.batches.scene import ENDPOINT, make_line, render_lines, upload_input
from tests.page.run_scene import HeldRun, RunScene, ids, post_as_worker, run_scene
from tests.page.support import (
    BackgroundLoop,
    BrowserErrors,
    axe_by_day_and_night,
    come_in,
    expect_fits,
    keep_toasts,
    leave,
)
from tests.support.frontends import ADMIN_KEY

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 800}
LINES = [make_line(f"r{number}") for number in range(1, 5)]
INPUT = FilePayload(name="herd.jsonl", mimeType="application/jsonl", buffer=render_lines(LINES))


@pytest.fixture(scope="module")
def yard(built_page: None, aside: BackgroundLoop, postgres: str) -> Iterator[RunScene]:
    with run_scene(aside, postgres) as scene:
        yield scene


@pytest.fixture
def scene(yard: RunScene) -> Iterator[RunScene]:
    yield yard
    yard.forget_all()
    for file in list_files(yard):
        yard.call("DELETE", f"/v1/files/{file['id']}")


@pytest.fixture
def page(context: BrowserContext, scene: RunScene) -> Iterator[Page]:
    come_in(context, scene.url)
    page = context.new_page()
    yield page
    leave(page)


def rows(page: Page, label: str) -> Locator:
    return page.get_by_role("list", name=label, exact=True).get_by_role("listitem")


def list_files(scene: RunScene) -> Any:
    return scene.call("GET", "/v1/files")[1]["data"]


def list_batches(scene: RunScene) -> Any:
    return scene.call("GET", "/v1/batches")[1]["data"]


def start(page: Page, scene: RunScene, file: FilePayload = INPUT) -> None:
    """Upload an input on the page and start a batch of it. As no command reaches the node, it stays queued."""
    page.goto(f"{scene.url}/app/tasks/batches")
    page.get_by_role("button", name=re.compile("^Start (a|your first) batch$")).first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("File", exact=True).set_input_files(file)
    dialog.get_by_role("button", name="Upload and start").click()
    expect(dialog).to_have_count(0)
    expect(rows(page, "Batches")).to_have_count(1)


def hold(scene: RunScene, file: FilePayload = INPUT) -> HeldRun:
    """Start a batch that no dispatcher drives, and let the agent node hold it."""
    core = scene.frontend.core

    async def create() -> str:
        file_id = await upload_input(scene.frontend, ADMIN_KEY, file["buffer"], name=file["name"])
        caller = await core.directory.authenticate_key(ADMIN_KEY)
        spec = BatchSpec(input_file_id=parse_file_id(file_id), endpoint=ENDPOINT, completion_window="24h", metadata={})
        async with scene.frontend.database.transaction() as tx:
            batch = await core.batches.service.create(tx, caller, spec)
            await tx.execute(text("UPDATE operations SET due_at = NULL WHERE id = CAST(:id AS uuid)"), {"id": batch.id})
        return batch.id

    return scene.give(HeldRun(scene, scene.run(create()), ids.new_id()))


def report(scene: RunScene, held: HeldRun, path: str, **body: Any) -> None:
    scene.run(post_as_worker(scene.node, f"/runs/{held.id}/batch/{path}", {"job_id": held.job_id, **body}))


def answer_lines(scene: RunScene, held: HeldRun, *, completed: int, failed: int) -> None:
    """Deliver answers to the first lines, as a worker does."""
    size = len(render_lines(LINES[: completed + failed]))
    output = "".join(json.dumps({"custom_id": f"r{number}"}) + "\n" for number in range(completed))
    errors = "".join(json.dumps({"custom_id": f"e{number}"}) + "\n" for number in range(failed))
    counts = {"completed": completed, "failed": failed, "to_line": completed + failed}
    report(scene, held, "answers", from_byte=0, to_byte=size, output=output, errors=errors, **counts)


def end(scene: RunScene, held: HeldRun, state: RunState) -> None:
    scene.end(held, state)
    scene.run(scene.frontend.core.batches.finalizer.tick())


@pytest.mark.behaviour("PAGE-240")
def test_batch_is_uploaded_and_started_from_the_empty_list(page: Page, scene: RunScene) -> None:
    keep_toasts(page)
    page.goto(f"{scene.url}/app/tasks")
    page.get_by_role("navigation", name="Tasks and batches").get_by_role("link", name="Batches").click()
    expect(page).to_have_title("Batches · Tasks and batches · Corral")
    expect(page.get_by_text("You have no batches yet.")).to_be_visible()
    start(page, scene)
    row = rows(page, "Batches")
    expect(row).to_contain_text("herd.jsonl")
    expect(row).to_contain_text("/v1/chat/completions")
    expect(row).to_contain_text("Waiting for a worker that checks the input")
    expect(row.get_by_role("link", name=re.compile("Answers"))).to_have_count(0)
    row.get_by_role("link", name="herd.jsonl", exact=True).click()
    expect(page).to_have_url(f"{scene.url}/app/runs/{list_batches(scene)[0]['run_id']}")


@pytest.mark.behaviour("PAGE-240")
def test_batch_shows_its_progress_by_itself_and_its_files_are_downloaded(
    page: Page, scene: RunScene, tmp_path: Path
) -> None:
    page.goto(f"{scene.url}/app/tasks/batches")
    expect(page.get_by_text("You have no batches yet.")).to_be_visible()
    held = hold(scene)
    row = rows(page, "Batches")
    report(scene, held, "validation", total=4)
    answer_lines(scene, held, completed=2, failed=1)
    expect(row).to_contain_text("2 of 4 requests answered, 1 failed")
    expect(row.get_by_role("progressbar", name="Progress of herd.jsonl")).to_have_attribute("aria-valuenow", "75")
    assert axe_by_day_and_night(page) == []

    end(scene, held, RunState.COMPLETED)
    expect(row).to_contain_text("completed")
    expect(row.get_by_role("progressbar")).to_have_count(0)
    for label, content in (("Answers", '"r0"'), ("Failed requests", '"e0"')):
        with page.expect_download() as started:
            row.get_by_role("link", name=f"{label} of herd.jsonl").click()
        assert started.value.suggested_filename.endswith(".jsonl")
        kept = tmp_path / label
        started.value.save_as(kept)
        assert content in kept.read_text()


@pytest.mark.behaviour("PAGE-240")
def test_fault_of_an_input_is_shown_before_the_upload_and_by_line_after_it(page: Page, scene: RunScene) -> None:
    page.goto(f"{scene.url}/app/tasks/batches")
    page.get_by_role("button", name="Start a batch").click()
    dialog = page.get_by_role("dialog")
    file, submit = dialog.get_by_label("File", exact=True), dialog.get_by_role("button", name="Upload and start")
    expect(submit).to_be_disabled()
    file.set_input_files(FilePayload(name="herd.csv", mimeType="text/csv", buffer=b"id,question\n"))
    expect(dialog.get_by_text("Line 1 is not a JSON object.")).to_be_visible()
    expect(submit).to_be_disabled()
    # The endpoint is that of the first line.
    line = json.dumps(
        {"custom_id": "1", "method": "POST", "url": "/v1/embeddings", "body": {"model": "m", "input": "x"}}
    )
    file.set_input_files(FilePayload(name="herd.jsonl", mimeType="text/plain", buffer=line.encode()))
    expect(dialog.get_by_label("Endpoint")).to_have_value("/v1/embeddings")
    expect(submit).to_be_enabled()
    page.keyboard.press("Escape")
    assert list_files(scene) == []

    held = hold(scene)
    faults = [{"code": "invalid_json", "message": f"Fault {number}.", "line": number} for number in range(2, 7)]
    report(scene, held, "validation", total=0, errors=faults)
    end(scene, held, RunState.FAILED)
    row = rows(page, "Batches")
    expect(row.get_by_role("list", name="Errors").get_by_role("listitem")).to_have_text(
        ["Line 2: Fault 2.", "Line 3: Fault 3.", "Line 4: Fault 4.", "and 2 more"]
    )
    expect(page.get_by_role("listitem", name="herd.jsonl: failed")).to_be_visible()


@pytest.mark.behaviour("PAGE-240")
def test_batch_that_is_refused_is_started_again_from_the_uploaded_file(
    page: Page, scene: RunScene, watched: BrowserErrors
) -> None:
    watched.allow("status of 503")
    page.goto(f"{scene.url}/app/tasks/batches")
    page.get_by_role("button", name="Start a batch").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("File", exact=True).set_input_files(INPUT)
    refusal = {"error": {"code": "no_agent_worker", "message": "No agent worker is up.", "hint": "`corral worker`"}}
    page.route("**/v1/batches", lambda route: route.fulfill(status=503, json=refusal))
    dialog.get_by_role("button", name="Upload and start").click()
    expect(dialog.get_by_role("alert")).to_contain_text("No agent worker is up.")
    page.unroute("**/v1/batches")
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(rows(page, "Batches")).to_have_count(1)
    assert len(list_files(scene)) == 1


@pytest.mark.behaviour("PAGE-240")
def test_batch_is_cancelled_and_keeps_its_answers(page: Page, scene: RunScene) -> None:
    held = hold(scene)
    page.goto(f"{scene.url}/app/tasks/batches")
    report(scene, held, "validation", total=4)
    answer_lines(scene, held, completed=1, failed=0)
    row = rows(page, "Batches")
    row.get_by_role("button", name="Cancel herd.jsonl").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the batch").click()
    expect(row).to_contain_text("cancelling")
    expect(row.get_by_role("button", name="Cancel herd.jsonl")).to_have_count(0)
    end(scene, held, RunState.CANCELLED)
    expect(row).to_contain_text("cancelled")
    expect(row.get_by_role("link", name="Answers of herd.jsonl")).to_be_visible()


@pytest.mark.behaviour("PAGE-241")
def test_files_are_uploaded_downloaded_and_deleted(
    page: Page, scene: RunScene, watched: BrowserErrors, tmp_path: Path
) -> None:
    watched.allow("status of 409")
    page.goto(f"{scene.url}/app/tasks/files")
    expect(page.get_by_text("You have no files yet.")).to_be_visible()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload a file").click()
    chooser.value.set_files(INPUT)
    row = rows(page, "Files")
    expect(row).to_contain_text("herd.jsonl")
    expect(row).to_contain_text("input of batches")
    with page.expect_download() as started:
        row.get_by_role("link", name="herd.jsonl").click()
    kept = tmp_path / "input"
    started.value.save_as(kept)
    assert kept.read_bytes() == render_lines(LINES)

    page.get_by_role("button", name="Actions for herd.jsonl").click()
    page.get_by_role("menuitem", name="Start a batch").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(page).to_have_url(f"{scene.url}/app/tasks/batches")
    [batch] = list_batches(scene)
    assert batch["input_file_id"] == list_files(scene)[0]["id"]

    # The input of an open batch stays.
    page.goto(f"{scene.url}/app/tasks/files?q=herd")
    page.get_by_role("button", name="Actions for herd.jsonl").click()
    page.get_by_role("menuitem", name="Delete").click()
    dialog.get_by_role("button", name="Delete the file").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Wait for the batch, or cancel it.")
    scene.forget_all()
    dialog.get_by_role("button", name="Delete the file").click()
    expect(page.get_by_text("You have no files yet.")).to_be_visible()
    assert list_files(scene) == []


@pytest.mark.behaviour("PAGE-241")
def test_caller_without_admin_rights_has_own_batches_and_files_only(
    browser: Browser, page: Page, scene: RunScene
) -> None:
    start(page, scene)
    key, _ = scene.new_key("ann")
    context = browser.new_context()
    come_in(context, scene.url, key)
    other = context.new_page()
    other.goto(f"{scene.url}/app/tasks/batches")
    expect(other.get_by_text("You have no batches yet.")).to_be_visible()
    other.get_by_role("navigation", name="Tasks and batches").get_by_role("link", name="Files").click()
    expect(other.get_by_text("You have no files yet.")).to_be_visible()
    leave(other)
    context.close()


@pytest.mark.behaviour("PAGE-241")
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_batches_and_files_fit_the_screen(page: Page, scene: RunScene, size: Any) -> None:
    page.set_viewport_size(size)
    name = f"{'a-very-long-name-of-a-herd-' * 4}.jsonl"
    held = hold(scene, FilePayload(name=name, mimeType="text/plain", buffer=render_lines(LINES)))
    report(scene, held, "validation", total=4)
    answer_lines(scene, held, completed=2, failed=1)
    page.goto(f"{scene.url}/app/tasks/batches")
    expect(rows(page, "Batches")).to_contain_text("2 of 4")
    expect_fits(page)
    page.goto(f"{scene.url}/app/tasks/files")
    expect(rows(page, "Files")).to_contain_text(name)
    expect_fits(page)
    assert axe_by_day_and_night(page) == []
