"""Files that tools make: handed to the worker, named to the model, and no reason for a call to fail."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp_types import BlobResourceContents, CallToolResult, EmbeddedResource

from corral.runner.mcp_session import McpSession
from corral.runner.stdio_server import StdioOptions
from corral.runner.tool_files import ToolFileKeeper
from corral.wire.run_work import McpServerSpec
from tests.runner.chat_server import ScriptedModel, call, say
from tests.runner.scene import Scene, make_server


def list_stored(scene: Scene) -> list[dict[str, Any]]:
    return [m["params"] for m in scene.messages if m["type"] == "call" and m["method"] == "store_file"]


@pytest.mark.behaviour("AGENT-25")
async def test_pictures_blobs_and_links_of_a_result_are_kept_and_named(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    scene.ask_answers = lambda message: {"result": {"id": "a", "path": f"r1/{message['params']['name']}"}}
    model.script(call("tools__draw", size=3), say("Look at it."))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)])
    assert outcome.content == "Look at it."
    (made,) = scene.events("tool_call")
    stored = list_stored(scene)
    names = ["image-1.png", "plot.csv", "all-data.zip"]
    assert [file["name"] for file in stored] == [f"{made['call_id']}/{name}" for name in names]
    contents = [base64.b64decode(file["content"]) for file in stored]
    assert contents == [b"\x89PNG" * 3, b"1,2", b"PK"]
    assert [file["media_type"] for file in stored] == ["image/png", "text/csv", "application/zip"]
    (result,) = scene.events("tool_result")
    lines = result["content"].splitlines()
    assert lines[0] == "drawn"
    assert lines[1] == f"[image image/png, 12 bytes, kept as r1/{made['call_id']}/image-1.png]"
    assert all("kept as" in line for line in lines[1:])


async def test_file_that_cannot_be_kept_is_a_note_and_no_error(
    scene: Scene, model: ScriptedModel, tmp_path: Path
) -> None:
    scene.ask_answers = lambda _: {"error": {"code": "file_quota_reached", "message": "You keep too much."}}
    model.script(call("tools__draw", size=1), say("Sorry."))
    outcome = await scene.run(mcp_servers=[make_server(tmp_path)])
    assert (outcome.state, outcome.content) == ("completed", "Sorry.")
    (result,) = scene.events("tool_result")
    assert result["is_error"] is False
    assert result["content"].splitlines()[1].endswith("not kept: You keep too much.]")


async def test_file_with_an_address_that_cannot_be_read_is_kept_under_another_name() -> None:
    stored: list[str] = []

    async def store(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        stored.append(fields["name"])
        return {}

    resource = BlobResourceContents(uri="http://[bad/plot.csv", mime_type="text/csv", blob="MSwy")
    result = CallToolResult(content=[EmbeddedResource(resource=resource)])
    session = McpSession(McpServerSpec(name="tools", transport="stdio"), StdioOptions(path=""))
    notes = await ToolFileKeeper(store).keep(session, "c1", result)
    assert (stored, notes) == (["c1/resource-0.csv"], {0: "kept as c1/resource-0.csv"})
