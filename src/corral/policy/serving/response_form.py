"""Classifies how a response is relayed: buffered first; in whole events, which end with an empty line; in whole lines;
or as it comes, for audio, which is played while it is made. Also selects the headers that are relayed with it.
"""

from __future__ import annotations

from functools import lru_cache

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
