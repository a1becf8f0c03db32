"""Quantisations in a browser: the choice of a type, the progress, and the model that comes out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, ViewportSize, expect

from tests.page.support import BackgroundLoop, BrowserErrors, axe_by_day_and_night, come_in, expect_fits, leave
from tests.quantization.scene import JOBS, QuantizationScene, open_scene, write_typed_gguf
from tests.support.databases import fresh_database

PHONE = ViewportSize(width=390, height=844)
Q8_0 = 7


@asynccontextmanager
async def scene_of(postgres: str, folder: Path) -> AsyncIterator[QuantizationScene]:
    async with fresh_database(postgres) as url, open_scene(url, folder) as scene:
        yield scene


@pytest.fixture
def scene(built_page: None, aside: BackgroundLoop, postgres: str, tmp_path: Path) -> Iterator[QuantizationScene]:
    with aside.inside(scene_of(postgres, tmp_path)) as opened:
        yield opened


@pytest.fixture
def page(context: BrowserContext, scene: QuantizationScene) -> Iterator[Page]:
    come_in(context, scene.frontend.url)
    page = context.new_page()
    yield page
    leave(page)


def rows(page: Page) -> Locator:
    return page.get_by_role("list", name="Quantisations", exact=True).get_by_role("listitem")


def list_jobs(scene: QuantizationScene, aside: BackgroundLoop) -> Any:
    return aside.run(scene.frontend.call("GET", JOBS))[1]["jobs"]


@pytest.mark.behaviour("QUANT-18")
def test_model_is_quantized_on_the_page_and_becomes_another_one(
    page: Page, scene: QuantizationScene, aside: BackgroundLoop, tmp_path: Path
) -> None:
    page.goto(f"{scene.frontend.url}/app/models")
    page.get_by_role("button", name="Actions for tiny").click()
    page.get_by_role("menuitem", name="Quantise tiny").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Type of the weights")).to_have_value("q4_k_m")
    dialog.get_by_label("Type of the weights").select_option("q8_0")
    expect(dialog.get_by_text("Fits on node-1.")).to_be_visible()
    expect(dialog.get_by_label("Name of the new model")).to_have_value("tiny-q8_0")
    assert axe_by_day_and_night(page) == []
    dialog.get_by_role("button", name="Quantise").click()
    expect(dialog).to_have_count(0)
    row = rows(page)
    expect(row).to_contain_text("tiny to q8_0")

    job_id = list_jobs(scene, aside)[0]["id"]
    aside.run(scene.worker.take(job_id))
    aside.run(scene.worker.deliver(job_id, ("status", {"phase": "quantizing", "percent": 63.0})))
    bar = row.get_by_role("progressbar", name="Progress of tiny to q8_0")
    expect(bar).to_have_attribute("aria-valuenow", "63")
    aside.run(scene.finish(job_id, write_typed_gguf(tmp_path / "result.gguf", Q8_0, seed=2)))
    expect(row).to_contain_text("completed")
    expect(bar).to_have_count(0)
    with page.expect_download() as started:
        row.get_by_role("link", name="Download tiny to q8_0").click()
    assert started.value.suggested_filename == "tiny.Q8_0.gguf"
    page.set_viewport_size(PHONE)
    expect_fits(page)
    row.get_by_role("link", name="tiny-q8_0", exact=True).click()
    expect(page.get_by_text("tiny (f32) by llama.cpp v0")).to_be_visible()


@pytest.mark.behaviour("QUANT-18")
def test_result_that_is_no_model_is_registered_or_deleted_on_the_page(
    page: Page, scene: QuantizationScene, aside: BackgroundLoop, watched: BrowserErrors, tmp_path: Path
) -> None:
    watched.allow("status of 409")
    job_id = aside.run(scene.take(quantization_type="q8_0"))
    aside.run(scene.finish(job_id, write_typed_gguf(tmp_path / "result.gguf", Q8_0, seed=2)))
    page.goto(f"{scene.frontend.url}/app/models?view=quantizations")
    row = rows(page)
    row.get_by_role("button", name="Register tiny to q8_0").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name of the model").fill("tiny")
    dialog.get_by_role("button", name="Register").click()
    expect(dialog.get_by_text("The name 'tiny' is taken.")).to_be_visible()
    dialog.get_by_label("Name of the model").fill("other")
    dialog.get_by_role("button", name="Register").click()
    expect(row.get_by_role("link", name="other", exact=True)).to_be_visible()
    row.get_by_role("button", name="Delete tiny to q8_0").click()
    expect(page.get_by_role("dialog").get_by_text("The model other stays.")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Delete it").click()
    expect(page.get_by_text("You have quantised no model yet.")).to_be_visible()
