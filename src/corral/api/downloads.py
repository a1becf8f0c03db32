"""Responses that browsers save as files, for every route that has some."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from fastapi.responses import StreamingResponse

from corral.domain.artifact import Artifact

FILE_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The bytes of the file.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}

_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)


def make_download(content: Any, artifact: Artifact) -> StreamingResponse:
    """Return a response with the bytes of a file, which browsers save and never show."""
    headers = {"Content-Length": str(artifact.size_bytes)} | make_attachment_headers(artifact.name)
    return StreamingResponse(content, headers=headers, media_type="application/octet-stream")


def make_attachment_headers(name: str) -> dict[str, str]:
    """Return the headers that make browsers save a response under this name, and never show it."""
    return {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "X-Content-Type-Options": "nosniff",
    }


def make_file_name(text: str, suffix: str) -> str:
    """Return a name of a file that every system accepts: letters, digits, dots, hyphens and underscores."""
    return f"{_UNSAFE.sub('-', text).strip('.-') or 'file'}{suffix}"
