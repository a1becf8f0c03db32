"""Reads skills for a model: the tool `request_skill`, which shows `SKILL.md` and other files of a skill in pages.

Files are fetched by their hashes, checked against them, and kept in memory for later runs: a hash names one content for
ever, and a run reads only those that its specification names. Limit: files that are no text are named and not shown.
"""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from corral.domain.errors import CorralError
from corral.wire.run_work import SkillFileSpec, SkillSpec

REQUEST_SKILL = "request_skill"
SKILL_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the skill."},
        "path": {"type": "string", "description": "A file of the skill. Without it: its SKILL.md."},
        "offset": {"type": "integer", "minimum": 0, "description": "Read on from this byte of a long file."},
    },
    "required": ["name"],
    "additionalProperties": False,
}
DOCUMENT_NAME = "SKILL.md"
# A page and the names of 100 files fit into the result of a tool.
PAGE_BYTES = 18 * 1024
# Of all runs of the process: some hundred skills.
CACHE_BYTES_MAX = 32 * 1024 * 1024
_NAMED_MAX = 100

# Calls `read_skill` of a frontend. Raises `CorralError`.
SkillFetcher = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


class SkillNotReadable(CorralError):
    """The skill or its file cannot be read; the sentence is for the model."""

    code = "skill_not_readable"


class SkillContentCache:
    """Keeps files of skills by their hashes, the last used ones, up to a number of bytes."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._contents: OrderedDict[str, bytes] = OrderedDict()
        self._size_bytes = 0

    def find(self, sha256: str) -> bytes | None:
        content = self._contents.get(sha256)
        if content is not None:
            self._contents.move_to_end(sha256)
        return content

    def add(self, sha256: str, content: bytes) -> None:
        if sha256 in self._contents:
            return
        self._contents[sha256] = content
        self._size_bytes += len(content)
        while self._size_bytes > self._bytes_max:
            _, dropped = self._contents.popitem(last=False)
            self._size_bytes -= len(dropped)


class SkillReader:
    """Shows the skills of one run of an LLM agent to its model, in the runner process."""

    def __init__(self, skills: Sequence[SkillSpec], fetch: SkillFetcher, cache: SkillContentCache) -> None:
        self._skills = {skill.name: skill for skill in skills}
        self._fetch = fetch
        self._cache = cache

    def describe(self) -> str:
        """Return the description of the tool."""
        return (
            "Read a skill before you begin a task that it describes. Returns its instructions and the names of its "
            "files, which are read with `path`."
        )

    async def read(self, arguments: Mapping[str, Any]) -> str:
        """Return a page of a file for the model. Raises `SkillNotReadable` with the names that would be right."""
        skill = self._skills.get(str(arguments.get("name", "")).strip())
        if skill is None:
            raise SkillNotReadable(
                f"There is no skill {str(arguments.get('name', ''))[:80]!r}. The skills are: {_join(self._skills)}."
            )
        path = str(arguments.get("path") or DOCUMENT_NAME).strip().removeprefix("./")
        file = next((one for one in skill.files if one.path == path), None)
        if file is None:
            paths = _join(one.path for one in skill.files)
            raise SkillNotReadable(f"The skill {skill.name} has no file {path[:120]!r}. Its files are: {paths}.")
        content = await self._load(file)
        offset = int(arguments.get("offset") or 0)
        page = _render_page(file, content, offset)
        return page if path != DOCUMENT_NAME or offset else page + _list_files(skill)

    async def _load(self, file: SkillFileSpec) -> bytes:
        known = self._cache.find(file.sha256)
        if known is not None:
            return known
        reply = await self._fetch({"sha256": file.sha256})
        try:
            content = base64.b64decode(str(reply.get("content", "")), validate=True)
        except ValueError:
            content = b""
        if hashlib.sha256(content).hexdigest() != file.sha256:
            raise SkillNotReadable(f"The file {file.path} arrived damaged. Try again.")
        self._cache.add(file.sha256, content)
        return content


def _render_page(file: SkillFileSpec, content: bytes, offset: int) -> str:
    try:
        content.decode()
    except UnicodeDecodeError:
        return f"[{file.path}: {len(content)} bytes that are no text]"
    if offset and offset >= len(content):
        return f"[{file.path} ends at byte {len(content)}]"
    # Begins and ends between two characters.
    page = content[offset : offset + PAGE_BYTES].decode(errors="ignore")
    end = _find_end(content, offset + PAGE_BYTES)
    if end >= len(content):
        return page
    return f"{page}\n[{file.path} goes on: {len(content)} bytes in all. Read on with offset {end}.]"


def _find_end(content: bytes, end: int) -> int:
    """Return the end of a page, moved back to the beginning of a character."""
    while end < len(content) and content[end] & 0xC0 == 0x80:
        end -= 1
    return end


def _list_files(skill: SkillSpec) -> str:
    others = [file.path for file in skill.files if file.path != DOCUMENT_NAME]
    return f"\n\n[Files of this skill, read with `path`: {_join(others)}]" if others else ""


def _join(names: Iterable[str]) -> str:
    return ", ".join(list(names)[:_NAMED_MAX]) or "none"
