"""Judges an engine's response before it is relayed: its form, whether it is plausible, and what its error means.

The form says how a response is relayed: buffered first; in whole events, which end with an empty line; in whole lines;
or as it comes, for audio, which is played while it is made.

A response with status 200 is checked by its type, length, first and last byte: a replica that answers at once with
nothing, with a page of HTML or with half of its response would look like the fastest one. Nothing is decoded for that,
because every response is checked. Each fault is the end of a sentence that begins with *The engine at …*. Limit: JSON
of another form than the call has is relayed; it only says nothing about the speed of its replica (`RESULT_MARKS`).

An engine's error is restated as OpenAI's clients expect it: a `code` that is a text, and 400 for errors of the caller.
llama.cpp writes the status into `code`, and answers 500 to a picture that its model cannot see and to messages that its
chat template rejects; official clients repeat a 500. Guarantee: a body of another form than `{"error": {…}}` and every
field that is right already are returned as they came.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

ResponseHeaders = tuple[tuple[bytes, bytes], ...]
# Plain numbers, because members of an enum cost several times as much to compare.
WHOLE, EVENTS, LINES, RAW = range(4)
# The engine's headers that are relayed to the client.
_RELAYED_HEADERS = frozenset({b"content-type", b"content-encoding", b"content-disposition", b"retry-after"})


# The kinds of a body by its content type. Bits, because a call may expect several.
KIND_JSON, KIND_EVENTS, KIND_LINES, KIND_AUDIO = 1, 2, 4, 8
KIND_TEXT, KIND_HTML, KIND_OTHER, KIND_UNSAID = 16, 32, 64, 128
# The body is compressed, so its first byte cannot be checked.
KIND_ENCODED = 256
# Kinds by the beginning of a content type; the first that matches counts.
_KINDS = {
    b"application/json": KIND_JSON,
    b"text/event-stream": KIND_EVENTS,
    b"application/x-ndjson": KIND_LINES,
    b"application/jsonl": KIND_LINES,
    b"audio/": KIND_AUDIO,
    b"text/html": KIND_HTML,
    b"application/xhtml": KIND_HTML,
    b"text/": KIND_TEXT,
}


@lru_cache(maxsize=256)
def classify_head(head: ResponseHeaders) -> tuple[ResponseHeaders, int, int]:
    """Return the headers for the client, the form of a response without a length, and the kind of its body."""
    passed_on = tuple(line for line in head if line[0] in _RELAYED_HEADERS)
    found = dict(passed_on)
    kind = _find_kind(found.get(b"content-type", b"").strip().lower())
    if found.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        kind |= KIND_ENCODED
    return passed_on, _find_form(kind), kind


def _find_form(kind: int) -> int:
    if kind & KIND_EVENTS:
        return EVENTS
    if kind & KIND_LINES:
        return LINES
    return RAW if kind & KIND_AUDIO else WHOLE


def _find_kind(content_type: bytes) -> int:
    if not content_type:
        return KIND_UNSAID
    if content_type.partition(b";")[0].rstrip().endswith(b"+json"):
        return KIND_JSON
    return next((kind for begins, kind in _KINDS.items() if content_type.startswith(begins)), KIND_OTHER)


def find_last_end(got: bytes, end_of_event: bytes) -> int:
    """Return where the last whole event ends."""
    end = got.rfind(end_of_event)
    end = end + len(end_of_event) if end >= 0 else 0
    if end_of_event == b"\n\n":
        other = got.rfind(b"\r\n\r\n")
        end = max(end, other + 4 if other >= 0 else 0)
    return end


_STREAMED = KIND_JSON | KIND_EVENTS | KIND_LINES | KIND_UNSAID
# The content types that responses of a call may have. Other calls may have any type except an HTML page.
_EXPECTED = {
    "chat": _STREAMED,
    "completions": _STREAMED,
    "messages": _STREAMED,
    "responses": _STREAMED,
    "images": _STREAMED,
    "embeddings": KIND_JSON | KIND_UNSAID,
    "rerank": KIND_JSON | KIND_UNSAID,
    "count_tokens": KIND_JSON | KIND_UNSAID,
    "speech": KIND_AUDIO | KIND_OTHER | KIND_EVENTS | KIND_LINES | KIND_JSON | KIND_UNSAID,
}
_ANYTHING = KIND_JSON | KIND_EVENTS | KIND_LINES | KIND_AUDIO | KIND_TEXT | KIND_OTHER | KIND_UNSAID
# Bytes in every response with a result. A response without them says nothing about the speed of its replica.
RESULT_MARKS = {"chat": b'"choices"', "completions": b'"choices"', "embeddings": b'"embedding"'}
_SPACE = b" \t\r\n"
# The first bytes of events: data, event, id, retry, a comment, an empty line, the byte order mark.
_BEGINS_EVENT = frozenset(b"deir:\r\n\xef")
_ENDS = {b"{": b"}", b"[": b"]"}


def find_fault_in_head(call: str, status: int, kind: int, size_bytes: int | None) -> str:
    """Return why a response with a status below 400 is not plausible, judged by its head; empty if it is."""
    if status != 200:
        return "" if 200 < status < 204 else f"returned {status}, which is not a valid status for an inference call"
    if size_bytes == 0:
        return "returned 200 with nothing"
    if kind & _EXPECTED.get(call, _ANYTHING):
        return ""
    return "returned 200 with a page of HTML" if kind & KIND_HTML else "returned 200 with a type that is not JSON"


def find_fault_in_stream(kind: int, first: bytes) -> str:
    """Return why the first bytes of a stream are not plausible; empty if they are."""
    if kind & KIND_ENCODED or not first:
        return ""
    is_fine = first[0] in _BEGINS_EVENT if kind & KIND_EVENTS else first.lstrip(_SPACE)[:1] in (b"", b"{", b"[")
    return "" if is_fine else "returned 200 with a body that is not a stream"


def find_fault(call: str, kind: int, body: bytes) -> str:
    """Return why a complete response is not plausible; empty if it is."""
    if not body:
        return "returned 200 with nothing"
    if kind & KIND_ENCODED or not kind & (KIND_JSON | KIND_UNSAID) or _EXPECTED.get(call, _ANYTHING) & KIND_TEXT:
        return ""
    first, last = body[:1], body[-1:]
    if first in _SPACE or last in _SPACE:
        text = body.strip(_SPACE)
        first, last = text[:1], text[-1:]
    if first not in _ENDS or (first == b"[" and call in RESULT_MARKS):
        return "" if kind & KIND_UNSAID and call == "speech" else "returned 200 with a body that is not JSON"
    return "" if last == _ENDS[first] else "returned 200 with incomplete JSON"


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
