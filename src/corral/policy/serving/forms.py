"""How an answer is passed on: gathered first; in whole events, which end with an empty line; in whole lines; or as it
comes, for sound, which is heard while it is made. And what of an engine's head is passed on with it."""

from __future__ import annotations

from functools import lru_cache

Lines = tuple[tuple[bytes, bytes], ...]
# Plain numbers: members of an enum cost several times as much to look at.
WHOLE, EVENTS, LINES, RAW = range(4)
# What a client is told of an engine's head; the rest is between the engine and us.
_PASSED_ON = frozenset({b"content-type", b"content-encoding", b"content-disposition", b"retry-after"})


@lru_cache(maxsize=256)
def read_head(head: Lines) -> tuple[Lines, int]:
    """The lines for the client; and the form of an answer that is one and does not say how long it is."""
    passed_on = tuple(line for line in head if line[0] in _PASSED_ON)
    return passed_on, _form_of(dict(passed_on).get(b"content-type", b""))


def _form_of(kind: bytes) -> int:
    if kind.startswith(b"application/json"):
        return WHOLE
    if kind.startswith(b"text/event-stream"):
        return EVENTS
    if kind.startswith((b"application/x-ndjson", b"application/jsonl")):
        return LINES
    return RAW if kind.startswith(b"audio/") else WHOLE


def last_end(got: bytes, end_of_event: bytes) -> int:
    """Where the last whole event ends."""
    end = got.rfind(end_of_event)
    end = end + len(end_of_event) if end >= 0 else 0
    if end_of_event == b"\n\n":
        other = got.rfind(b"\r\n\r\n")
        end = max(end, other + 4 if other >= 0 else 0)
    return end
