"""The page names a model's uploaded file that no library has any more, until it is uploaded again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.api.models.test_uploaded_files import config, upload
from tests.library.test_damage import flip
from tests.page.support import BackgroundLoop, come_in
from tests.support.databases import fresh_database
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.tiny_gguf import write_tiny_gguf

SENTENCE = "tiny.gguf of model tiny was uploaded and no library has it any more"


@asynccontextmanager
async def frontend_with_library(postgres: str, folder: Path) -> AsyncIterator[RunningFrontend]:
    async with fresh_database(postgres) as url, running_frontend(url, library_dir=folder) as frontend:
        yield frontend


@pytest.fixture
def frontend(built_page: None, postgres: str, aside: BackgroundLoop, tmp_path: Path) -> Iterator[RunningFrontend]:
    with aside.inside(frontend_with_library(postgres, tmp_path / "library")) as running:
        yield running


async def lose_copy(frontend: RunningFrontend, sha256: str) -> None:
    """Damage the only copy of a content, and have the library notice as it does when a node reports wrong bytes."""
    path = frontend.core.library.find_path(sha256)
    assert path is not None
    flip(path)
    await frontend.core.library.drop_damaged([sha256])


@pytest.mark.behaviour("LIB-16")
def test_page_names_an_upload_without_a_source_until_it_is_uploaded_again(
    context: BrowserContext, frontend: RunningFrontend, aside: BackgroundLoop, tmp_path: Path
) -> None:
    content = write_tiny_gguf(tmp_path / "tiny.gguf").read_bytes()
    sha256 = aside.run(upload(frontend, content))
    status, saved = aside.run(frontend.call("PUT", "/api/models/config/tiny", config(sha256)))
    assert status == 200, saved
    come_in(context, frontend.url)
    page = context.new_page()
    page.goto(f"{frontend.url}/app/models")
    notice = page.get_by_role("listitem").filter(has_text=SENTENCE)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    expect(notice).to_have_count(0)
    aside.run(lose_copy(frontend, sha256))
    expect(notice).to_contain_text(f"upload it again with `corral models import`, or PUT /api/files/{sha256}")
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("main").get_by_text(SENTENCE)).to_be_visible()
    aside.run(upload(frontend, content))
    expect(page.get_by_text(SENTENCE)).to_have_count(0)
