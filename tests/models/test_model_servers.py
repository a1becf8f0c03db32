"""The MCP servers of a model in the registry: who may write them, and what workers are given."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from corral.agents.mcp_servers import McpServerService
from corral.domain.errors import InvalidRequest, NotAllowed, NotFound
from corral.models import catalog, fleet
from corral.models.model_servers import ModelServerSelection, select_model_servers
from corral.policy.models.fleet_file import from_mapping, to_mapping
from corral.store.database import Database
from tests.models.scene import a_node, a_replica, config, made, read, states

STDIO = {"stdio": {"files": {"command": "mcp-files"}}}
PUBLIC = {"remote": {"docs": {"url": "https://tools.example/mcp"}}}
PROGRAM = {"transport": "stdio", "command": "mcp-time"}


async def put(database: Database, *, is_admin: bool = True, **fields: Any) -> catalog.ModelSaveResult:
    async with database.transaction() as tx:
        return await catalog.put(tx, config(**fields), "test", is_admin=is_admin)


async def select(database: Database, owner: str = "user:1", *names: str, **more: Any) -> ModelServerSelection:
    found = await read(database)
    assert found is not None
    async with database.transaction() as tx:
        return await select_model_servers(tx, found.config, owner, names or None, **more)


@pytest.mark.behaviour("MCP-11")
async def test_program_of_a_model_is_written_by_admins_alone_on_every_way(database: Database) -> None:
    await made(database)
    with pytest.raises(NotAllowed):
        await put(database, is_admin=False, mcp=STDIO)
    with pytest.raises(NotAllowed):
        async with database.transaction() as tx:
            await catalog.patch(tx, "chat", {"mcp": STDIO}, "test")
    with pytest.raises(NotAllowed):
        await put(database, is_admin=False, name="new", mcp=STDIO)
    file = from_mapping({"models": [{"name": "chat", "backend": "fake", "mcp": STDIO}]})
    with pytest.raises(NotAllowed):
        await fleet.apply(database, file, "test", is_admin=False)
    await put(database, mcp=STDIO)
    await put(database, is_admin=False, mcp=STDIO, description="edited")
    await put(database, is_admin=False)
    with pytest.raises(NotAllowed):
        async with database.transaction() as tx:
            await catalog.roll_back(tx, "chat", 2, "test")
    await put(database, is_admin=False, mcp=PUBLIC)


@pytest.mark.behaviour("MCP-11")
async def test_change_of_servers_stops_no_replica(database: Database) -> None:
    model = await made(database)
    await a_replica(database, await a_node(database), model)
    saved = await put(database, mcp=STDIO | PUBLIC, agent={"max_iterations": 4})
    assert (saved.stopped, saved.model.run_hash, saved.model.revision) == (0, model.run_hash, 2)
    assert await states(database) == {0: ("loaded", "")}


@pytest.mark.behaviour("MCP-11")
async def test_servers_survive_the_export_of_the_fleet(database: Database) -> None:
    await put(database, mcp=STDIO | PUBLIC | {"servers": ["time"]}, agent={"max_iterations": 4})
    async with database.transaction() as tx:
        text = yaml.safe_dump(to_mapping(await fleet.export(tx)))
    steps = await fleet.apply(database, from_mapping(yaml.safe_load(text)), "test")
    assert [str(step.action) for step in steps] == ["same"]


async def test_selection_has_the_named_servers_and_one_key_for_an_owner(database: Database) -> None:
    await McpServerService(database).put("time", PROGRAM, "admin")
    await put(database, mcp=STDIO | PUBLIC | {"servers": ["time"]})
    everything, some = await select(database), await select(database, "user:1", "files", "time")
    assert [server["name"] for server in everything.servers] == ["time", "docs", "files"]
    assert [server["name"] for server in some.servers] == ["time", "files"]
    assert everything.session_key == some.session_key != (await select(database, "user:2")).session_key
    with pytest.raises(InvalidRequest) as caught:
        await select(database, "user:1", "nope")
    assert "time, docs, files" in str(caught.value.hint)
    # A changed declaration keeps the key, under which a worker replaces the session.
    await McpServerService(database).put("time", PROGRAM | {"command": "mcp-clock"}, "admin")
    changed = await select(database)
    assert changed.servers[0]["command"] == "mcp-clock"
    assert changed.session_key == everything.session_key


@pytest.mark.behaviour("MCP-27")
async def test_declared_server_that_was_deleted_is_left_out_unless_it_is_named(database: Database) -> None:
    await put(database, mcp=PUBLIC | {"servers": ["time"]})
    found = await select(database)
    assert ([server["name"] for server in found.servers], found.missing) == (["docs"], ("time",))
    with pytest.raises(NotFound, match="time"):
        await select(database, "user:1", "time")
    found = await select(database, "user:1", "time", allows_missing=True)
    assert (found.servers, found.session_key, found.missing) == ([], "", ("time",))
