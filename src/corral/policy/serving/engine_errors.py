"""Restates an engine's error as OpenAI's clients expect it: a `code` that is a text, and 400 for errors of the caller.

llama.cpp writes the status into `code`, and answers 500 to a picture that its model cannot see and to messages that its
chat template rejects; official clients repeat a 500. Guarantee: a body of another form than `{"error": {…}}` and every
field that is right already are returned as they came.
"""

from __future__ import annotations

import json
import re
from typing import Any

# A longer body is not an error message.
BODY_BYTES_MAX = 64 * 1024
_MEDIA = re.compile(r"(image|audio|video) input is not supported")
_TEMPLATE = re.compile(r"jinja exception|(?:applying|rendering) (?:the )?chat template", re.IGNORECASE)
_CHOICES = re.compile(r"Field 'n': Value must be between 1 <= value <= (\d+), but got (\d+)")
# Codes of engines, and OpenAI's code for the same.
_CODES = {"exceed_context_size_error": "context_length_exceeded"}
_GENERIC_TYPES = frozenset({"", "invalid_request_error", "server_error"})


def restate_error(status: int, body: bytes, model: str) -> tuple[int, bytes]:
    """Return status and body of an engine's error, restated where official clients would misread it."""
    found = _read_object(body)
    error = found.get("error")
    if not isinstance(error, dict):
        return status, body
    message = error.get("message")
    text = message if isinstance(message, str) else ""
    changes = _find_changes(status, text, model)
    if not changes and (error.get("code") is None or isinstance(error["code"], str)):
        return status, body
    status = changes.pop("status", status)
    restated = {"param": None} | error | {"code": _find_code(status, error)} | changes
    if status < 500 and restated.get("type") == "server_error":
        restated["type"] = "invalid_request_error"
    return status, json.dumps(found | {"error": restated}, ensure_ascii=False).encode()


def _read_object(body: bytes) -> dict[str, Any]:
    if len(body) > BODY_BYTES_MAX or not body.startswith(b"{"):
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _find_changes(status: int, message: str, model: str) -> dict[str, Any]:
    """Return the fields that must differ from the engine's own; empty for most errors."""
    if media := _MEDIA.search(message):
        kind = media[1]
        sentence = f"Model {model} does not take {kind} input: it reads text only."
        hint = " `corral models show` lists what a model takes; a GGUF model sees pictures with the option projector."
        return {"status": 400, "message": sentence + hint, "code": f"{kind}_input_not_supported"}
    if status == 500 and _TEMPLATE.search(message):
        sentence = f"The chat template of model {model} rejects these messages: {message}"
        return {"status": 400, "message": sentence, "code": "messages_not_accepted"}
    if choices := _CHOICES.search(message):
        most, given = choices[1], choices[2]
        sentence = f"n: model {model} makes at most {most} choices at a time, and {given} were requested."
        hint = " Raise the model's option parallel, or send several requests."
        return {"message": sentence + hint, "code": "too_many_choices", "param": "n"}
    return {}


def _find_code(status: int, error: dict[str, Any]) -> str | None:
    code, kind = error.get("code"), str(error.get("type") or "")
    if code is None or isinstance(code, str):
        return code
    if kind in _GENERIC_TYPES:
        return "engine_rejected_request" if status < 500 else "engine_error"
    return _CODES.get(kind, kind)
