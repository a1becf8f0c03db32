"""Resources and prompts of MCP servers in a run: when a model may read them, by which tools, and what it is given."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from corral.runner.mcp_session import ServerOffer
from corral.runner.server_reads import iter_read_tools
from corral.runner.tool_catalog import RunToolCatalog
from tests.runner.chat_server import ScriptedModel, call, say
from tests.runner.scene import SERVERS, Scene, make_server

READS = ["tools--list_resources", "tools--read_resource", "tools--list_prompts", "tools--get_prompt"]


def make_raw_server(notes: Path, *args: str) -> dict[str, Any]:
    return make_server(notes, "raw", args=[str(SERVERS / "raw.py"), *args])


def list_offered(model: ScriptedModel) -> list[str]:
    return [tool["function"]["name"] for tool in model.requests[0].get("tools", ())]


async def read(scene: Scene, model: ScriptedModel, server: dict[str, Any], name: str, **arguments: Any) -> str:
    """Let the model make one call, and return the result that it was given."""
    model.script(call(name, **arguments), say("done"))
    outcome = await scene.run(mcp_servers=[server], session_key="k")
    (made,), (result,) = scene.events("tool_call"), scene.events("tool_result")
    assert (made["is_repeatable"], result["is_error"], outcome.content) == (True, False, "done")
    return str(result["content"])


@pytest.mark.behaviour("RUNNER-10")
async def test_resources_are_listed_with_what_a_model_needs_to_read_them(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    listed = await read(scene, model, make_server(tmp_path), "tools--list_resources")
    entries = {entry["uri"]: entry for entry in map(json.loads, listed.splitlines())}
    assert sorted(entries) == ["data://all", "notes://first"]
    assert entries["notes://first"]["description"] == "The first note."


@pytest.mark.behaviour("RUNNER-10")
async def test_text_of_a_resource_is_the_result_of_the_call(scene: Scene, model: ScriptedModel, tmp_path: Path) -> None:
    assert await read(scene, model, make_server(tmp_path), "tools--read_resource", uri="notes://first") == "a note"


async def test_file_of_a_resource_is_kept_as_a_file_of_the_run(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    scene.ask_answers = lambda _: {"result": {"path": "r1/all.zip"}}
    text = await read(scene, model, make_server(tmp_path), "tools--read_resource", uri="data://all")
    stored = await scene.wait(lambda message: message["type"] == "call" and message["method"] == "store_file")
    assert base64.b64decode(stored["params"]["content"]) == b"PK"
    assert "kept as r1/all.zip" in text


@pytest.mark.behaviour("RUNNER-10")
async def test_prompts_are_listed_and_filled_in_for_the_model(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(
        call("tools--list_prompts"), call("tools--get_prompt", name="greet", arguments={"name": "Ada"}), say("done")
    )
    await scene.run(mcp_servers=[make_server(tmp_path)], session_key="k")
    listed, prompt = (result["content"] for result in scene.events("tool_result"))
    assert (json.loads(listed)["name"], json.loads(listed)["arguments"][0]["name"]) == ("greet", "name")
    assert prompt == "user:\nSay hello to Ada."


async def test_server_without_resources_and_prompts_gets_no_such_tools(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    await scene.run(mcp_servers=[make_raw_server(tmp_path)])
    assert list_offered(model) == ["raw__flood", "raw__noise", "raw__never"]


async def test_server_with_resources_only_is_used_without_tools_of_its_own(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    server = make_raw_server(tmp_path, "library")
    assert await read(scene, model, server, "raw--read_resource", uri="books://moby") == "Call me Ishmael."
    assert list_offered(model) == ["raw--list_resources", "raw--read_resource"]
    assert scene.events("status") == []


async def test_error_of_a_server_that_has_not_the_resource_is_given_to_the_model(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(call("tools--read_resource", uri="notes://second"), say("done"))
    await scene.run(mcp_servers=[make_server(tmp_path)])
    (result,) = scene.events("tool_result")
    assert (result["is_error"], "could not give a resource" in result["content"]) == (True, True), result


async def test_run_that_may_use_certain_tools_only_reads_nothing_else(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    await scene.run(mcp_servers=[make_server(tmp_path, tools=["add"])])
    assert list_offered(model) == ["tools__add"]


@pytest.mark.behaviour("RUNNER-7")
async def test_rule_for_all_tools_of_a_server_counts_for_reading_from_it(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    model.script(call("tools--read_resource", uri="notes://first"), say("done"))
    await scene.run(mcp_servers=[make_server(tmp_path)], tool_rules={"tools__*": "deny"})
    (result,) = scene.events("tool_result")
    assert result["content"] == "Calls of tools--read_resource are not allowed."


@pytest.mark.behaviour("RUNNER-10")
def test_names_of_reading_tools_are_none_of_the_tools_of_any_server() -> None:
    catalog = RunToolCatalog({})
    offer = ServerOffer(tools=[], has_resources=True, has_prompts=True)
    for tool in iter_read_tools(offer):
        catalog.add_read_tool("tools", tool)
    # Whatever a server calls its tools, in whatever order they come.
    for name in [*READS, *(read.removeprefix("tools--") for read in READS), "--list_resources", "_list_resources"]:
        catalog.add_mcp_tool("tools", name, description="", schema={}, is_repeatable=False)
    names = [tool.name for tool in catalog]
    assert names[:4] == READS
    assert len(names) == len(set(names)) == 14
    assert not any(name.endswith("_2") for name in names)
