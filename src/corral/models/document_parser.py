"""Parses a document about models: a configuration, or a whole fleet, in JSON or YAML. Pure, bytes in and values out.

YAML is parsed in Python: a document of 1 MiB takes seconds, so large ones are sent to the frontend's `ComputeProcess`,
which imports this module.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from corral.backends.documents import load_document
from corral.domain.errors import InvalidRequest
from corral.policy.models.mcp_servers import TEXT_MAX

# Up to this size a document is parsed on the event loop: some 10 ms.
IN_PLACE_BYTES_MAX = 8 * 1024


def parse_json_document(body: bytes) -> tuple[Any, bytes]:
    """Return the values of a document in JSON. Raises `InvalidRequest`."""
    try:
        return _expand_server_texts(json.loads(_decode_text(body))), b""
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("The body is not valid JSON.", code="malformed_json") from error


def parse_yaml_document(body: bytes) -> tuple[Any, bytes]:
    """Return the values of a document in YAML, of which JSON is a subset. Raises `InvalidRequest`."""
    try:
        return _expand_server_texts(load_document(_decode_text(body), "The body")), b""
    except InvalidRequest as error:
        raise InvalidRequest(error.message, code="bad_document") from error


def _decode_text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest("The body is not UTF-8 text.", code="bad_document") from error


def _expand_server_texts(document: Any) -> Any:
    """Put mappings in the place of texts with MCP servers, as LocalAI embeds them: in a model, and in the models of a
    fleet file. A text that is no YAML is left as it is, for the error that names its place."""
    if not isinstance(document, dict):
        return document
    models = document.get("models")
    listed = models.values() if isinstance(models, dict) else models if isinstance(models, list) else ()
    for model in (document, *listed):
        mcp = model.get("mcp") if isinstance(model, dict) else None
        if not isinstance(mcp, dict):
            continue
        for key in ("remote", "stdio"):
            text = mcp.get(key)
            if isinstance(text, str) and text.strip() and len(text) <= TEXT_MAX:
                with contextlib.suppress(InvalidRequest):
                    mcp[key] = load_document(text, f"mcp.{key}")
    return document
