"""Models that an earlier version fetched: whether they take tools is read from the files that the library holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from corral.store.database import Database
from tests.library.s3_server import s3_server
from tests.library.scene import Scene, one
from tests.library.test_storage import storage_at
from tests.unit.policy.models.test_chat_template import PLAIN, WITH_TOOLS, gguf_file

URL = "https://models.example"


async def enter_as_earlier_version(scene: Scene, folder: Path, **templates: str) -> dict[str, str]:
    """Fetch a model for each template, and leave its row as a version wrote it that did not look for tool support.

    Return the sha256 of each model's file.
    """
    held: dict[str, str] = {}
    for name, template in templates.items():
        gguf_file(folder / f"{name}.gguf", template)
        scene.origins.contents[f"{URL}/{name}"] = (folder / f"{name}.gguf").read_bytes()
        (stored,) = await scene.enter(name, one("model.gguf", f"{URL}/{name}"))
        held[name] = stored.sha256
    async with scene.database.transaction() as tx:
        await tx.execute(text("UPDATE models SET facts = facts - 'takes_tools'"))
    return held


async def tool_support(scene: Scene) -> dict[str, bool | None]:
    """Whether each model takes tools, without those that nobody has looked at."""
    return dict(await scene.rows("SELECT name, facts->'takes_tools' FROM models WHERE facts ? 'takes_tools'"))


async def test_library_reads_tool_support_of_models_that_an_earlier_version_fetched(
    scene: Scene, tmp_path: Path
) -> None:
    await enter_as_earlier_version(scene, tmp_path, plain=PLAIN, tools=WITH_TOOLS)
    before = await scene.found("tools")
    await scene.library.tick()
    assert await tool_support(scene) == {"plain": False, "tools": True}
    after = await scene.found("tools")
    assert before.facts is not None
    assert after.facts is not None
    assert (after.facts.parameters, after.run_hash, after.revision) == (
        before.facts.parameters,
        before.run_hash,
        before.revision,
    )


async def test_library_reads_tool_support_from_the_storage_when_files_lie_there(
    database: Database, tmp_path: Path
) -> None:
    with s3_server() as url:
        scene = Scene(database, tmp_path / "library", storage=storage_at(url, tmp_path.name))
        await enter_as_earlier_version(scene, tmp_path, tools=WITH_TOOLS)
        await scene.library.tick()
        assert await tool_support(scene) == {"tools": True}


async def test_library_reads_a_model_once_when_its_files_do_not_say_whether_it_takes_tools(scene: Scene) -> None:
    scene.origins.contents[URL] = b"a voice"
    await scene.enter("voice", one("voice.onnx", URL))
    async with scene.database.transaction() as tx:
        await tx.execute(text("UPDATE models SET facts = facts - 'takes_tools'"))
    for _ in range(2):
        await scene.library.tick()
    assert await tool_support(scene) == {"voice": None}
    # One event of the model, one of its files, and one of the look.
    assert await scene.rows("SELECT count(*) FROM outbox WHERE kind = 'model.changed'") == [(3,)]


@pytest.mark.parametrize("damage", ["another content", "a bad header", "absent"])
async def test_library_leaves_a_model_unknown_and_reads_the_others_when_its_file_is_damaged(
    scene: Scene, tmp_path: Path, damage: str
) -> None:
    held = await enter_as_earlier_version(scene, tmp_path, broken=PLAIN, tools=WITH_TOOLS)
    path = scene.library.find_path(held["broken"])
    assert path is not None
    if damage == "absent":
        path.unlink()
    elif damage == "another content":
        path.write_bytes(path.read_bytes().replace(b"messages", b"tools   "))
    else:
        scene.origins.contents[URL] = b"no header" * 100
        (stored,) = await scene.enter("other", one("other.bin", URL))
        async with scene.database.transaction() as tx:
            moved = text("UPDATE model_files SET sha256 = :sha256 WHERE model = 'broken'")
            await tx.execute(moved, {"sha256": stored.sha256})
            await tx.execute(text("DELETE FROM models WHERE name = 'other'"))
    for _ in range(2):
        await scene.library.tick()
    assert await tool_support(scene) == {"tools": True}
