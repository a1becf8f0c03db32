"""The MCP servers of a model in a browser: what each offers, and why one offers nothing."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from corral.app.settings import WorkerSettings
from corral.app.worker import compose_worker
from corral.domain.node import NodeType
from tests.bus.nats_server import NatsServer
from tests.page.support import BackgroundLoop, axe, come_in, expect_fits
from tests.runner.scene import SERVERS
from tests.support.databases import fresh_database
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import create_join_token
from tests.support.polling import eventually
from tests.worker.conftest import QUICK

MCP = {
    "stdio": {
        "tools": {"command": sys.executable, "args": [str(SERVERS / "tools.py")]},
        "dead": {"command": "no-such-program"},
    }
}
# Programs start slowly on a busy machine.
LONG_MS = 60_000


@asynccontextmanager
async def running(address: str, folder: Path) -> AsyncIterator[RunningFrontend]:
    """A frontend with an agent worker, and a model with two MCP servers of which one is dead."""
    async with (
        fresh_database(address) as url,
        NatsServer(folder) as nats,
        running_frontend(url, authority=nats.authority, nats_url=nats.url, **QUICK) as frontend,
    ):
        token = await create_join_token(frontend, approves=True)
        home = folder / "worker"
        home.mkdir()
        values = {"join": frontend.url, "name": "agent-1", "worker_home": home, "token": token}
        worker = compose_worker(WorkerSettings.model_validate(values | {"node_type": NodeType.AGENT}))
        await worker.services.start()

        async def is_healthy() -> bool:
            status, node = await frontend.call("GET", "/api/nodes/agent-1")
            return status == 200 and node["schedulable"] and worker.membership.find_not_ready_reason() is None

        try:
            await eventually(is_healthy)
            for name, mcp in (("chat", MCP), ("plain", {})):
                body = {"backend": "fake", "mcp": mcp}
                status, answer = await frontend.call("PUT", f"/api/models/config/{name}", body)
                assert status == 200, answer
            yield frontend
        finally:
            await worker.services.stop()


@pytest.fixture(scope="module")
def frontend(
    built_page: None, aside: BackgroundLoop, postgres: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningFrontend]:
    with aside.inside(running(postgres, tmp_path_factory.mktemp("servers"))) as started:
        yield started


@pytest.fixture
def page(context: BrowserContext, frontend: RunningFrontend) -> Page:
    come_in(context, frontend.url)
    return context.new_page()


def server(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


@pytest.mark.behaviour("MCP-12")
def test_model_page_shows_each_mcp_server_with_its_tools_or_its_error(page: Page, frontend: RunningFrontend) -> None:
    page.goto(f"{frontend.url}/app/models/chat?tab=servers")
    tools, dead = server(page, "tools"), server(page, "dead")
    expect(dead.get_by_text("error", exact=True)).to_be_visible(timeout=LONG_MS)
    expect(dead).to_contain_text("no-such-program")
    expect(tools.get_by_text("ready", exact=True)).to_be_visible(timeout=LONG_MS)
    expect(tools.get_by_role("row", name="tools__add")).to_contain_text("Add two numbers.")
    expect(tools).to_contain_text("1 prompt, 2 resources")
    dead.get_by_role("button", name="Check again").click()
    expect(dead.get_by_text("error", exact=True)).to_be_visible(timeout=LONG_MS)
    assert axe(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    expect_fits(page)


def test_model_page_without_mcp_servers_says_where_to_name_some(page: Page, frontend: RunningFrontend) -> None:
    page.goto(f"{frontend.url}/app/models/plain")
    page.get_by_role("tab", name="MCP servers").click()
    expect(page.get_by_text("This model has no MCP servers.")).to_be_visible()
