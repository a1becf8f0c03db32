"""Skills in a browser: written, imported, changed and deleted, their files, and the repositories they come from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, FilePayload, Page, ViewportSize, expect

from corral.skills.archives import write_archive
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
from tests.support.git_server import skill_text

PHONE = ViewportSize(width=390, height=844)
URL = "https://git.example.org/team/skills.git"


@pytest.fixture(scope="module")
def yard(built_page: None, aside: BackgroundLoop, postgres: str) -> Iterator[RunScene]:
    with run_scene(aside, postgres, allows_private_sources=True) as scene:
        yield scene


@pytest.fixture
def scene(yard: RunScene) -> Iterator[RunScene]:
    yield yard
    for repo in yard.call("GET", "/api/agents/git-repos")[1]:
        yard.call("DELETE", f"/api/agents/git-repos/{repo['id']}")
    for skill in yard.call("GET", "/api/agents/skills")[1]:
        yard.call("DELETE", f"/api/agents/skills/{skill['name']}")
    yard.forget_all()


@pytest.fixture
def page(context: BrowserContext, scene: RunScene) -> Iterator[Page]:
    come_in(context, scene.url)
    page = context.new_page()
    yield page
    leave(page)


@pytest.mark.behaviour("SKILL-12")
def test_skill_is_written_given_a_file_changed_and_deleted(page: Page, scene: RunScene, watched: BrowserErrors) -> None:
    watched.allow("status of 400")
    watched.allow("status of 409")
    keep_toasts(page)
    page.goto(f"{scene.url}/app/agents")
    page.get_by_role("navigation", name="Agents and skills").get_by_role("link", name="Skills").click()
    expect(page.get_by_text("You have no skills yet.")).to_be_visible()
    page.get_by_role("button", name="New skill").click()
    dialog = page.get_by_role("dialog")
    text = dialog.get_by_label("SKILL.md")
    text.fill("no front matter")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog).to_contain_text("has no front matter")
    text.fill(skill_text("pdf-forms", "Fills in forms.", "Read references/fields.md."))
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="pdf-forms")).to_be_visible()

    file = FilePayload(name="fields.md", mimeType="text/markdown", buffer=b"# Fields")
    page.get_by_label("File to upload").set_input_files(file)
    expect(page.get_by_role("list", name="Files")).to_contain_text("references/fields.md")
    document = page.get_by_label("Front matter and instructions")
    document.fill(skill_text("pdf-forms", "Better."))
    # Another author is faster.
    body = {"description": "Theirs.", "content": "x"}
    assert scene.call("PUT", "/api/agents/skills/pdf-forms", body)[0] == 200
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("was changed meanwhile")).to_be_visible()
    page.get_by_role("button", name="Discard changes").click()
    page.reload()
    document.fill(skill_text("pdf-forms", "Better."))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved pdf-forms.")).to_be_visible()
    shown = scene.call("GET", "/api/agents/skills/pdf-forms")[1]
    assert (shown["description"], [one["path"] for one in shown["files"]]) == ("Better.", ["references/fields.md"])
    assert axe_by_day_and_night(page) == []

    page.get_by_role("switch", name="Shared with everybody").click()
    expect(page.get_by_text("Shared pdf-forms.")).to_be_visible()
    shared = scene.call("GET", "/api/agents/skills/pdf-forms")[1]
    assert (shared["shared"], shared["document"]) == (True, shown["document"])
    page.get_by_role("switch", name="Shared with everybody").click()
    expect(page.get_by_text("pdf-forms is private now.")).to_be_visible()

    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the skill").click()
    expect(page.get_by_text("You have no skills yet.")).to_be_visible()


@pytest.mark.behaviour("SKILL-12")
def test_archive_is_imported_and_a_skill_is_found_and_exported(page: Page, scene: RunScene, tmp_path: Path) -> None:
    page.goto(f"{scene.url}/app/agents/skills?add=import")
    files = {"pdf/SKILL.md": skill_text("pdf").encode(), "xls/SKILL.md": skill_text("xls").encode()}
    archive = FilePayload(name="all.tar.gz", mimeType="application/gzip", buffer=write_archive("all", files))
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("File", exact=True).set_input_files(archive)
    dialog.get_by_role("button", name="Import").click()
    rows = page.get_by_role("list", name="Skills").get_by_role("listitem")
    expect(rows).to_have_count(2)
    assert axe_by_day_and_night(page) == []
    page.get_by_label("Search skills").fill("PDF")
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Actions for pdf").click()
    with page.expect_download() as started:
        page.get_by_role("menuitem", name="Export").click()
    assert started.value.suggested_filename == "pdf.tar.gz"
    page.set_viewport_size(PHONE)
    expect_fits(page)


@pytest.mark.behaviour("SKILL-12")
def test_repository_is_added_changed_disabled_and_deleted(page: Page, scene: RunScene, watched: BrowserErrors) -> None:
    watched.allow("status of 400")
    page.goto(f"{scene.url}/app/agents/git-repos")
    expect(page.get_by_text("You have no repositories yet.")).to_be_visible()
    page.get_by_role("button", name="Add a repository").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Address").fill(URL)
    dialog.get_by_role("button", name="Add and sync").click()
    row = page.get_by_role("listitem", name=URL)
    expect(row).to_contain_text("Waiting for the first sync")
    assert axe_by_day_and_night(page) == []
    page.get_by_role("button", name=f"Actions for {URL}").click()
    page.get_by_role("menuitem", name="Change").click()
    dialog.get_by_label("Secret").fill("secret:token")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_contain_text("You have no secret token.")
    dialog.get_by_label("Secret").fill("")
    dialog.get_by_label("Sync every").fill("2h")
    dialog.get_by_label("Share its skills with everybody").check()
    dialog.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("every 2h")
    expect(row).to_contain_text("shared")
    page.get_by_role("button", name=f"Actions for {URL}").click()
    page.get_by_role("menuitem", name="Disable").click()
    expect(row).to_contain_text("disabled")
    page.get_by_role("button", name=f"Actions for {URL}").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the repository").click()
    expect(page.get_by_text("You have no repositories yet.")).to_be_visible()
