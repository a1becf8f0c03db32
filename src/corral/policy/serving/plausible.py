"""Whether an answer of an engine that says 200 can be one: by its type, its length, its first and its last byte.

A replica that answers at once with nothing, with a page of HTML or with half of its answer would look like the fastest
one. Nothing is decoded here: this is asked of every answer. Each fault is the end of a sentence that begins with *The
engine at …*. Limit: JSON of another form than the call has is passed on; it only says nothing about how fast its
replica is (`RESULT_MARKS`).
"""

from __future__ import annotations

from corral.policy.serving.forms import (
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
# What answers of a call may be. Of other calls: whatever an engine says, but no page.
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
# What stands in every answer of a call that has a result. One without it does not tell how fast its replica is.
RESULT_MARKS = {"chat": b'"choices"', "completions": b'"choices"', "embeddings": b'"embedding"'}
_SPACE = b" \t\r\n"
# How events begin: data, event, id, retry, a comment, an empty line, the mark of UTF-8.
_BEGINS_EVENT = frozenset(b"deir:\r\n\xef")
_ENDS = {b"{": b"}", b"[": b"]"}


def find_fault_in_head(call: str, status: int, kind: int, size_bytes: int | None) -> str:
    """Why an answer with a status below 400 cannot be one, as far as its head tells; empty: it can."""
    if status != 200:
        return "" if 200 < status < 204 else f"answered {status}, which no call of a model has"
    if size_bytes == 0:
        return "answered 200 with nothing"
    if kind & _EXPECTED.get(call, _ANYTHING):
        return ""
    return "answered 200 with a page of HTML" if kind & KIND_HTML else "answered 200 with a type that is not JSON"


def find_fault_in_stream(kind: int, first: bytes) -> str:
    """The same of the first bytes of a stream."""
    if kind & KIND_ENCODED or not first:
        return ""
    is_fine = first[0] in _BEGINS_EVENT if kind & KIND_EVENTS else first.lstrip(_SPACE)[:1] in (b"", b"{", b"[")
    return "" if is_fine else "answered 200 with something that is no stream"


def find_fault(call: str, kind: int, body: bytes) -> str:
    """The same of an answer that is here to its end."""
    if not body:
        return "answered 200 with nothing"
    if kind & KIND_ENCODED or not kind & (KIND_JSON | KIND_UNSAID) or _EXPECTED.get(call, _ANYTHING) & KIND_TEXT:
        return ""
    first, last = body[:1], body[-1:]
    if first in _SPACE or last in _SPACE:
        text = body.strip(_SPACE)
        first, last = text[:1], text[-1:]
    if first not in _ENDS or (first == b"[" and call in RESULT_MARKS):
        return "" if kind & KIND_UNSAID and call == "speech" else "answered 200 with something that is not JSON"
    return "" if last == _ENDS[first] else "answered 200 with JSON that has no end"
