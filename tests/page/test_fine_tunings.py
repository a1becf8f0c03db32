"""Fine-tunings in a browser: the form, the curve while it grows, checkpoints, and the model that comes out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, ViewportSize, expect

from tests.fine_tuning.scene import JOBS, FineTuneScene, make_rows, open_scene
from tests.fine_tuning.test_exports import WHOLE
from tests.page.support import BackgroundLoop, BrowserErrors, axe_by_day_and_night, come_in, expect_fits, leave
from tests.support.databases import fresh_database

PHONE = ViewportSize(width=390, height=844)
NAME = "tiny on colors.jsonl"


@asynccontextmanager
async def scene_of(postgres: str, folder: Path) -> AsyncIterator[FineTuneScene]:
    async with fresh_database(postgres) as url, open_scene(url, folder) as scene:
        yield scene


@pytest.fixture
def scene(built_page: None, aside: BackgroundLoop, postgres: str, tmp_path: Path) -> Iterator[FineTuneScene]:
    with aside.inside(scene_of(postgres, tmp_path)) as opened:
        yield opened


@pytest.fixture
def page(context: BrowserContext, scene: FineTuneScene) -> Iterator[Page]:
    come_in(context, scene.frontend.url)
    page = context.new_page()
    yield page
    leave(page)


def rows(page: Page) -> Locator:
    return page.get_by_role("list", name="Fine-tunings", exact=True).get_by_role("listitem")


def list_jobs(scene: FineTuneScene, aside: BackgroundLoop) -> Any:
    return aside.run(scene.frontend.call("GET", JOBS))[1]["jobs"]


@pytest.mark.behaviour("TUNE-23")
def test_model_is_trained_on_the_page_with_a_curve_that_grows_and_becomes_another_one(
    page: Page, scene: FineTuneScene, aside: BackgroundLoop
) -> None:
    page.goto(f"{scene.frontend.url}/app/models?view=fine-tunings")
    expect(page.get_by_text("You have trained no model yet.")).to_be_visible()
    page.get_by_role("button", name="Train a model").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Model")).to_have_value("tiny")
    expect(dialog.get_by_label("Epochs")).to_have_value("3")
    expect(dialog.get_by_label("Dataset")).to_contain_text("colors.jsonl, 40 rows")
    assert axe_by_day_and_night(page) == []
    dialog.get_by_label("Rank of the adapter").fill("8")
    dialog.get_by_role("button", name="Train").click()
    expect(dialog).to_have_count(0)
    row = rows(page)
    expect(row).to_contain_text(NAME)

    job = list_jobs(scene, aside)[0]
    assert job["parameters"]["adapter_rank"] == 8
    job_id = job["id"]
    aside.run(scene.worker.take(job_id))
    for step in (1, 2, 3):
        aside.run(scene.send_point(job_id, step, loss=6.0 / step))
    expect(row.get_by_text("Step 3 of 20, loss 2.000")).to_be_visible()
    expect(row.get_by_role("img", name=f"{NAME}: Loss from 6.000 to 2.000")).to_be_visible()
    aside.run(scene.send_point(job_id, 4, loss=1.5))
    expect(row.get_by_role("img", name=f"{NAME}: Loss from 6.000 to 1.500")).to_be_visible()
    aside.run(scene.finish(job_id))
    expect(row).to_contain_text("completed")
    with page.expect_download() as started:
        row.get_by_role("link", name=f"Download {NAME}").click()
    assert started.value.suggested_filename == "tiny-checkpoint-20.tar.gz"

    row.get_by_role("button", name=f"Export {NAME}").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Makes").select_option("merged_16bit")
    expect(dialog.get_by_label("Checkpoint")).to_contain_text("checkpoint-20")
    dialog.get_by_label("Name of the model").fill("colors")
    dialog.get_by_role("button", name="Export").click()
    expect(row.get_by_text("The export is going on.")).to_be_visible()
    run_id = list_jobs(scene, aside)[0]["exports"][0]["run_id"]
    aside.run(scene.worker.take(run_id))
    aside.run(scene.send_files(run_id, "export", WHOLE))
    aside.run(scene.call_node(run_id, "fine-tuning/export"))
    aside.run(scene.worker.end(run_id))
    expect(row.get_by_role("link", name="colors", exact=True)).to_be_visible()
    page.set_viewport_size(PHONE)
    expect_fits(page)


@pytest.mark.behaviour("TUNE-23")
def test_training_is_stopped_and_deleted_and_a_broken_dataset_is_refused_on_the_page(
    page: Page, scene: FineTuneScene, aside: BackgroundLoop, watched: BrowserErrors
) -> None:
    watched.allow("status of 400")
    job_id = aside.run(scene.take())
    aside.run(scene.send_point(job_id, 1, loss=5.0))
    page.goto(f"{scene.frontend.url}/app/models?view=fine-tunings")
    row = rows(page)
    row.get_by_role("button", name=f"Stop {NAME}").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop it").click()
    expect(row).to_contain_text("stopping")
    aside.run(scene.worker.end(job_id, state="cancelled", reason="cancelled"))
    expect(row).to_contain_text("stopped")
    row.get_by_role("button", name=f"Delete {NAME}").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete it").click()
    expect(page.get_by_text("You have trained no model yet.")).to_be_visible()
    page.get_by_role("button", name="Train a model").click()
    dialog = page.get_by_role("dialog")
    broken = {"name": "bad.jsonl", "mimeType": "application/json", "buffer": make_rows(2) + b"\n{broken"}
    dialog.get_by_label("Or upload one").set_input_files(broken)  # type: ignore[arg-type]
    dialog.get_by_role("button", name="Train").click()
    expect(dialog.get_by_text("broken in line 3")).to_be_visible()
