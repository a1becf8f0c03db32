"""How an answer is passed on: gathered first; in whole events, which end with an empty line; in whole lines; or as it
comes, for sound, which is heard while it is made."""

from __future__ import annotations

# Plain numbers: members of an enum cost several times as much to look at.
WHOLE, EVENTS, LINES, RAW = range(4)


def form_of(kind: bytes, size_bytes: int | None) -> int:
    """By the type of an answer, and by its length if it says one."""
    if kind.startswith(b"application/json"):
        return WHOLE
    if kind.startswith(b"text/event-stream"):
        return EVENTS
    if kind.startswith((b"application/x-ndjson", b"application/jsonl")):
        return LINES
    return RAW if size_bytes is None and kind.startswith(b"audio/") else WHOLE


def last_end(got: bytes, end_of_event: bytes) -> int:
    """Where the last whole event ends."""
    end = got.rfind(end_of_event)
    end = end + len(end_of_event) if end >= 0 else 0
    if end_of_event == b"\n\n":
        other = got.rfind(b"\r\n\r\n")
        end = max(end, other + 4 if other >= 0 else 0)
    return end
