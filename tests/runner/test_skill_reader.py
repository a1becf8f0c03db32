"""The tool `request_skill`: pages of texts, checked hashes, names that would have been right, and what is fetched."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import pytest

from corral.runner.skill_reader import PAGE_BYTES, SkillContentCache, SkillNotReadable, SkillReader
from corral.runner.tool_executor import RESULT_BYTES_MAX
from corral.wire.run_work import SkillSpec
from tests.runner.chat_server import ScriptedModel, call, say
from tests.runner.scene import Message, Scene


def make_skill(name: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"About {name}.",
        "files": [
            {"path": path, "sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
            for path, content in files.items()
        ],
    }


class Frontend:
    """Answers for files by their hashes, and counts."""

    def __init__(self, *contents: bytes) -> None:
        self.contents = {hashlib.sha256(content).hexdigest(): content for content in contents}
        self.fetched: list[str] = []

    async def fetch(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        self.fetched.append(fields["sha256"])
        return {"content": base64.b64encode(self.contents[fields["sha256"]]).decode()}

    def reply(self, message: Message) -> Message | None:
        content = self.contents[message["params"]["sha256"]]
        return {"result": {"content": base64.b64encode(content).decode()}}


def make_reader(
    files: Mapping[str, bytes], frontend: Frontend | None = None, cache: SkillContentCache | None = None
) -> SkillReader:
    spec = SkillSpec.model_validate(make_skill("pdf", files))
    frontend = frontend or Frontend(*files.values())
    return SkillReader([spec], frontend.fetch, cache or SkillContentCache())


@pytest.mark.behaviour("SKILL-2")
async def test_model_reads_a_skill_and_then_one_of_its_files(scene: Scene, model: ScriptedModel) -> None:
    files = {"SKILL.md": b"Read references/a.md.", "references/a.md": "Größe".encode()}
    scene.ask_answers = Frontend(*files.values()).reply
    model.script(
        call("request_skill", name="pdf"), call("request_skill", name="pdf", path="references/a.md"), say("Done.")
    )
    outcome = await scene.run(skills=[make_skill("pdf", files)])
    assert outcome.content == "Done."
    texts = [event["content"] for event in scene.events("tool_result")]
    assert texts == ["Read references/a.md.\n\n[Files of this skill, read with `path`: references/a.md]", "Größe"]
    assert all(event["is_repeatable"] for event in scene.events("tool_call"))


@pytest.mark.behaviour("SKILL-9")
async def test_unknown_skill_is_answered_with_the_names_that_there_are(scene: Scene, model: ScriptedModel) -> None:
    model.script(call("request_skill", name="docx"), say("I see."))
    skills = [make_skill(name, {"SKILL.md": b"x"}) for name in ("pdf", "xls")]
    outcome = await scene.run(skills=skills)
    assert outcome.state == "completed"
    (result,) = scene.events("tool_result")
    assert (result["content"], result["is_error"]) == ("There is no skill 'docx'. The skills are: pdf, xls.", True)


async def test_rule_that_denies_the_tool_counts(scene: Scene, model: ScriptedModel) -> None:
    model.script(call("request_skill", name="pdf"), say("Sorry."))
    await scene.run(skills=[make_skill("pdf", {"SKILL.md": b"x"})], tool_rules={"request_skill": "deny"})
    assert "not allowed" in scene.events("tool_result")[0]["content"]


@pytest.mark.behaviour("SKILL-9")
async def test_unknown_file_is_answered_with_the_files_that_there_are() -> None:
    with pytest.raises(SkillNotReadable) as refused:
        await make_reader({"SKILL.md": b"x", "a.md": b"y"}).read({"name": "pdf", "path": "../a.md"})
    assert "SKILL.md, a.md" in refused.value.message


@pytest.mark.behaviour("SKILL-2")
async def test_long_text_is_read_in_pages_that_cut_no_character() -> None:
    text = "aäö€🦀" * 8000
    reader = make_reader({"SKILL.md": text.encode()})
    read, offset = "", 0
    while True:
        page = await reader.read({"name": "pdf", "offset": offset})
        body, found, note = page.rpartition("\n[SKILL.md goes on")
        assert len(page.encode()) <= RESULT_BYTES_MAX
        read += body if found else page
        if not found:
            break
        offset = int(note.rpartition("offset ")[2].removesuffix(".]"))
    assert read == text
    assert "ends at byte" in await reader.read({"name": "pdf", "offset": 10**9})


@pytest.mark.behaviour("SKILL-2")
async def test_page_with_the_names_of_all_files_fits_into_a_result() -> None:
    files = {"SKILL.md": b"x" * PAGE_BYTES * 2} | {f"{number:03}-{'x' * 116}": b"" for number in range(100)}
    page = await make_reader(files).read({"name": "pdf"})
    assert len(page.encode()) <= RESULT_BYTES_MAX
    assert all(path in page for path in files if path != "SKILL.md")


@pytest.mark.behaviour("SKILL-2")
async def test_content_that_is_not_the_one_that_was_named_is_refused() -> None:
    frontend = Frontend(b"good")
    frontend.contents = dict.fromkeys(frontend.contents, b"evil")
    reader = make_reader({"SKILL.md": b"good"}, frontend)
    with pytest.raises(SkillNotReadable):
        await reader.read({"name": "pdf"})
    frontend.contents = dict.fromkeys(frontend.contents, b"good")
    assert await reader.read({"name": "pdf"}) == "good"


async def test_file_is_fetched_once_for_all_runs_and_dropped_when_room_is_needed() -> None:
    cache = SkillContentCache(bytes_max=10)
    files = {"SKILL.md": b"12345678", "a": b"abc"}
    frontend = Frontend(*files.values())
    for _ in range(2):
        await make_reader(files, frontend, cache).read({"name": "pdf"})
    assert len(frontend.fetched) == 1
    reader = make_reader(files, frontend, cache)
    await reader.read({"name": "pdf", "path": "a"})
    await reader.read({"name": "pdf"})
    assert len(frontend.fetched) == 3


async def test_file_that_is_no_text_is_named_and_not_shown() -> None:
    reader = make_reader({"SKILL.md": b"x", "logo.png": b"\x89PNG"})
    assert await reader.read({"name": "pdf", "path": "logo.png"}) == "[logo.png: 4 bytes that are no text]"
