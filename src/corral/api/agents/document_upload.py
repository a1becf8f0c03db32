"""Receives a document that describes an agent: JSON as the body itself, or as the part `file` of a form.

Forms are read by the rules of `api/openai/file_form.py` (decision 50). Limit: the middleware has read the body, of at
most 1 MiB, so nothing here is streamed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request

from corral.api.deps import ApiDeps
from corral.api.openai.file_form import FileFormReader, parse_boundary
from corral.domain.errors import InvalidRequest
from corral.gateway.request.request_body import check_decodable_in_slices
from corral.models.document_parser import parse_json_document

_FORM = "multipart/form-data"
DOCUMENT_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "additionalProperties": True,
                    "examples": [{"name": "researcher", "model": "chat"}],
                }
            },
            _FORM: {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            },
        },
    }
}


async def receive_document(request: Request, deps: ApiDeps) -> dict[str, Any]:
    """Return the document that a request brings. Raises `InvalidRequest` if there is none, or it is no JSON object."""
    content_type, content = request.headers.get("content-type", ""), await request.body()
    if content_type.lower().startswith(_FORM):
        form = FileFormReader(parse_boundary(content_type), _iter_once(content))
        content = b"".join([piece async for piece in form.iter_file()])
        # The middleware has checked the form, and not the JSON in it.
        await check_decodable_in_slices(content, deps.slice_runner)
    document, _ = parse_json_document(content)
    if not isinstance(document, dict):
        raise InvalidRequest("The document is not a JSON object.", code="bad_agent")
    return document


async def _iter_once(content: bytes) -> AsyncIterator[bytes]:
    yield content
