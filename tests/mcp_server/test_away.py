"""PostgreSQL is away: tools are listed, and each says for itself whether it works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.test_degraded import _answers, _kept_on_disk, engine, wire, wired_url
from tests.engines.engine_processes import Engine
from tests.mcp_server.clients import call, connect, fail, list_names
from tests.support.cuttable_proxy import CuttableProxy
from tests.support.frontends import running_frontend
from tests.support.polling import eventually

__all__ = ["engine", "wire", "wired_url"]


@pytest.mark.behaviour("MCP-10")
async def test_frontend_started_without_postgresql_serves_the_tools_that_work_from_memory(
    wire: CuttableProxy, wired_url: str, engine: Engine, tmp_path: Path
) -> None:
    await _kept_on_disk(wired_url, engine, tmp_path / "state")
    await wire.cut()
    async with running_frontend(wired_url, state_dir=tmp_path / "state", waits=False) as frontend:
        await eventually(lambda: _answers(frontend))
        async with connect(frontend) as client:
            assert "list_nodes" in await list_names(client)
            assert (await call(client, "show_caller"))["scope"] == "admin"
            assert (await fail(client, "list_nodes"))["code"] == "store_unavailable"
