"""How an answer is passed on: gathered first; in whole events, which end with an empty line; in whole lines; or as it
comes, for sound, which is heard while it is made. And what of an engine's head is passed on with it, and says of it."""

from __future__ import annotations

from functools import lru_cache

Lines = tuple[tuple[bytes, bytes], ...]
# Plain numbers: members of an enum cost several times as much to look at.
WHOLE, EVENTS, LINES, RAW = range(4)
# What a client is told of an engine's head; the rest is between the engine and us.
_PASSED_ON = frozenset({b"content-type", b"content-encoding", b"content-disposition", b"retry-after"})


# What the head of an answer says that its body is. Bits, because a call may expect several.
KIND_JSON, KIND_EVENTS, KIND_LINES, KIND_AUDIO = 1, 2, 4, 8
KIND_TEXT, KIND_HTML, KIND_OTHER, KIND_UNSAID = 16, 32, 64, 128
# Its bytes are coded, so nothing can be said of the first one.
KIND_ENCODED = 256
# By how a type begins; the first that fits.
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
def read_head(head: Lines) -> tuple[Lines, int, int]:
    """The lines for the client; the form of an answer that is one and does not say how long it is; and its kind."""
    passed_on = tuple(line for line in head if line[0] in _PASSED_ON)
    found = dict(passed_on)
    kind = _kind_of(found.get(b"content-type", b"").strip().lower())
    if found.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        kind |= KIND_ENCODED
    return passed_on, _form_of(kind), kind


def _form_of(kind: int) -> int:
    if kind & KIND_EVENTS:
        return EVENTS
    if kind & KIND_LINES:
        return LINES
    return RAW if kind & KIND_AUDIO else WHOLE


def _kind_of(content_type: bytes) -> int:
    if not content_type:
        return KIND_UNSAID
    if content_type.partition(b";")[0].rstrip().endswith(b"+json"):
        return KIND_JSON
    return next((kind for begins, kind in _KINDS.items() if content_type.startswith(begins)), KIND_OTHER)


def last_end(got: bytes, end_of_event: bytes) -> int:
    """Where the last whole event ends."""
    end = got.rfind(end_of_event)
    end = end + len(end_of_event) if end >= 0 else 0
    if end_of_event == b"\n\n":
        other = got.rfind(b"\r\n\r\n")
        end = max(end, other + 4 if other >= 0 else 0)
    return end
