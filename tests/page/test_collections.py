"""Collections in a browser: create one, upload a document, see how it is read, and delete both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, FilePayload, Page, expect

from tests.knowledge.scene import BASE, MODEL, put_chunks
from tests.operations.scene import sql
from tests.page.run_scene import RunScene, run_scene
from tests.page.support import BackgroundLoop, BrowserErrors, axe_by_day_and_night, come_in, expect_fits, leave
from tests.serving.scene import put_model

PHONE: Any = {"width": 390, "height": 844}
GUIDE = FilePayload(name="pump.md", mimeType="text/markdown", buffer=b"The pump starts at noon.")


@pytest.fixture(scope="module")
def yard(built_page: None, aside: BackgroundLoop, postgres: str) -> Iterator[RunScene]:
    with run_scene(aside, postgres) as scene:
        scene.run(put_model(scene.frontend.database, MODEL))
        yield scene


@pytest.fixture
def scene(yard: RunScene) -> Iterator[RunScene]:
    yield yard
    for name in yard.call("GET", BASE)[1]["collections"]:
        yard.call("DELETE", f"{BASE}/{name}")


@pytest.fixture
def page(context: BrowserContext, scene: RunScene) -> Iterator[Page]:
    come_in(context, scene.url)
    page = context.new_page()
    yield page
    leave(page)


def create(page: Page, scene: RunScene) -> None:
    page.goto(f"{scene.url}/app/agents")
    page.get_by_role("link", name="Collections").click()
    expect(page.get_by_text("You have no collections yet.")).to_be_visible()
    page.get_by_role("button", name="New collection").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("manuals")
    dialog.get_by_label("Embedding model").fill(MODEL)
    dialog.get_by_role("button", name="Create").click()
    expect(page).to_have_url(f"{scene.url}/app/agents/collections/manuals")


def become_ready(scene: RunScene) -> None:
    async def store() -> None:
        database = scene.frontend.database
        [row] = await sql(
            database, "SELECT CAST(id AS text) AS id, CAST(collection_id AS text) AS c FROM collection_entries"
        )
        await put_chunks(database, row.c, row.id, ["The pump starts at noon."])

    scene.run(store())


@pytest.mark.behaviour("KNOW-21")
def test_document_is_uploaded_shown_while_it_is_read_and_deleted(page: Page, scene: RunScene) -> None:
    create(page, scene)
    expect(page.get_by_text("The collection is empty.")).to_be_visible()
    page.get_by_label("Documents", exact=True).set_input_files(GUIDE)
    row = page.get_by_role("list", name="Entries").get_by_role("listitem")
    expect(row).to_contain_text("pump.md")
    expect(row).to_contain_text("queued")
    become_ready(scene)
    expect(row).to_contain_text("ready")
    expect(row).to_contain_text("1 chunk")
    row.get_by_role("button", name="Actions for pump.md").click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(page.get_by_text("The collection is empty.")).to_be_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the collection").click()
    expect(page.get_by_text("You have no collections yet.")).to_be_visible()


@pytest.mark.behaviour("KNOW-21")
def test_refused_source_shows_why_and_the_page_fits_a_phone(
    page: Page, scene: RunScene, watched: BrowserErrors
) -> None:
    watched.allow("status of 422")
    create(page, scene)
    page.get_by_label("Address").fill("http://127.0.0.1/x")
    page.get_by_role("button", name="Add source").click()
    expect(page.get_by_text("The address leads into a private network or to this machine itself.")).to_be_visible()
    assert axe_by_day_and_night(page) == []
    page.set_viewport_size(PHONE)
    expect_fits(page)
