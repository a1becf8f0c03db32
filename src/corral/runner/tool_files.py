"""Keeps files that tools make: pictures, sounds and embedded or linked resources in the results of their calls.

A file is handed to the worker and named `CALL/NAME`; storing it again changes nothing. Whatever keeps a file from being
stored becomes a note for the model, never an error of the call. Limits: so many files of a call, so many bytes each.
A linked resource is read from the server that named it, and from no other place.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mcp_types import AudioContent, BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent, ResourceLink

from corral.domain.errors import CorralError
from corral.policy.artifacts import make_name_part
from corral.runner.mcp_session import McpSession

FILES_PER_CALL_MAX = 10
# In base64; the message to the worker has a limit of its own.
CONTENT_CHARACTERS_MAX = 22 * 1024 * 1024

# Ask the worker to store a file: its fields. Raises `CorralError`.
FileStorer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoundFile:
    """Holds a file of a result, in base64."""

    name: str
    media_type: str
    content: str


class ToolFileKeeper:
    """Stores the files that tools of one run return, such as images, at a frontend."""

    def __init__(self, store: FileStorer) -> None:
        self._store = store

    async def keep(self, session: McpSession, call_id: str, result: CallToolResult) -> dict[int, str]:
        """Store the files of a result. Return a note for each of them, by its position in the result."""
        notes: dict[int, str] = {}
        names: set[str] = set()
        for position, item in enumerate(result.content):
            if not isinstance(item, AudioContent | EmbeddedResource | ImageContent | ResourceLink):
                continue
            if len(notes) >= FILES_PER_CALL_MAX:
                notes[position] = f"not kept: a call keeps at most {FILES_PER_CALL_MAX} files"
                break
            try:
                note = await self._keep_item(session, call_id, position, item, names)
            except CorralError as error:
                note = f"not kept: {error.message}"
            if note:
                notes[position] = note
        return notes

    async def _keep_item(self, session: McpSession, call_id: str, position: int, item: Any, names: set[str]) -> str:
        file = await _find_file(session, item, position)
        if file is None:
            return ""
        if len(file.content) > CONTENT_CHARACTERS_MAX:
            return "not kept: it is too large"
        name = file.name if file.name not in names else f"{position}-{file.name}"
        names.add(name)
        path = f"{make_name_part(call_id, 'call')}/{name}"
        stored = await self._store({"name": path, "media_type": file.media_type, "content": file.content})
        return f"kept as {stored.get('path') or path}"


async def _find_file(session: McpSession, item: Any, position: int) -> _FoundFile | None:
    """Return the file in a part of a result; None if it is only text."""
    if isinstance(item, ImageContent | AudioContent):
        return _make_file(f"{item.type}-{position}", item.mime_type, item.data)
    if isinstance(item, EmbeddedResource):
        if not isinstance(item.resource, BlobResourceContents):
            return None
        name = _read_name(str(item.resource.uri)) or f"resource-{position}"
        return _make_file(name, item.resource.mime_type or "", item.resource.blob)
    answer = await session.request("read_resource", {"uri": str(item.uri)})
    contents = [content for content in answer.get("contents", ()) if isinstance(content.get("blob"), str)]
    if not contents:
        return None
    media_type = str(contents[0].get("mimeType") or item.mime_type or "")
    return _make_file(item.name or f"resource-{position}", media_type, contents[0]["blob"])


def _read_name(uri: str) -> str:
    """Return the last part of an address's path; empty if there is none, or the address cannot be read."""
    try:
        return urlsplit(uri).path.rpartition("/")[2]
    except ValueError:
        return ""


def _make_file(name: str, media_type: str, content: str) -> _FoundFile:
    plain = make_name_part(name, "file")
    if "." not in plain:
        plain += mimetypes.guess_extension(media_type.partition(";")[0].strip()) or ".bin"
    return _FoundFile(name=plain, media_type=media_type, content=content)
