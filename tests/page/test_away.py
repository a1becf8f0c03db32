"""PostgreSQL is away: the page is there, and so is whoever had come in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.test_degraded import _answers, _kept_on_disk, engine, wire, wired_url
from tests.api.test_key_sessions import show
from tests.api.test_sessions import as_browser, secret_of
from tests.engines.engine_processes import Engine
from tests.page.fake import SCRIPT, write_built
from tests.page.test_page_routes import Site
from tests.support.cuttable_proxy import CuttableProxy
from tests.support.frontends import ADMIN_KEY, running_frontend
from tests.support.polling import eventually

__all__ = ["engine", "wire", "wired_url"]


@pytest.mark.behaviour("PAGE-8")
async def test_frontend_started_without_postgresql_serves_the_page_and_authenticates(
    wire: CuttableProxy, wired_url: str, engine: Engine, tmp_path: Path
) -> None:
    await _kept_on_disk(wired_url, engine, tmp_path / "state")
    await wire.cut()
    async with running_frontend(wired_url, state_dir=tmp_path / "state", waits=False) as frontend:
        await eventually(lambda: _answers(frontend))
        site = Site(frontend, tmp_path / "built")
        write_built(site.folder)
        assert [(await site.get(path))[0] for path in ("/app/", f"/app/{SCRIPT}", "/")] == [200] * 3
        status, me, line, _ = await show(frontend, {"key": ADMIN_KEY})
        assert (status, me["scope"]) == (201, "admin")
        cookie = secret_of(line)
        assert (await as_browser(frontend, cookie, "/api/session"))[1] == me
        assert (await as_browser(frontend, cookie, "/v1/models"))[0] == 200
        status, answer, _, _ = await show(frontend, {"name": "ada", "password": "long enough"})
        assert (status, answer["error"]["code"]) == (503, "store_unavailable")
        status, answer = await as_browser(frontend, cookie, "/api/nodes")
        assert (status, answer["error"]["code"]) == (503, "store_unavailable")


@pytest.mark.behaviour("PAGE-8")
async def test_frontend_that_loses_postgresql_keeps_the_page(
    wire: CuttableProxy, wired_url: str, tmp_path: Path
) -> None:
    async with running_frontend(wired_url) as frontend:
        site = Site(frontend, tmp_path / "built")
        write_built(site.folder)
        cookie = secret_of((await show(frontend, {"key": ADMIN_KEY}))[2])
        await wire.cut()
        assert [(await site.get(path))[0] for path in ("/app/", f"/app/{SCRIPT}", "/")] == [200] * 3
        assert (await as_browser(frontend, cookie, "/api/session"))[0] == 200
