"""Checks whether an engine's response with status 200 is plausible: by its type, length, first and last byte.

A replica that answers at once with nothing, with a page of HTML or with half of its response would look like the
fastest one. Nothing is decoded here, because every response is checked. Each fault is the end of a sentence that begins
with *The engine at …*. Limit: JSON of another form than the call has is relayed; it only says nothing about the speed
of its replica (`RESULT_MARKS`).
"""

from __future__ import annotations

from corral.policy.serving.response_form import (
    KIND_AUDIO,
    KIND_ENCODED,
    KIND_EVENTS,
    KIND_HTML,
    KIND_JSON,
    KIND_LINES,
    KIND_OTHER,
    KIND_TEXT,
    KIND_UNSAID,
)

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
