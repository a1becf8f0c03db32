"""Heads of HTTP messages that differ in nothing but the length of the body, told from one that was read before.

Who stays on a connection mostly sends the same head again: a client with its next question, an engine with its next
answer. Once a parser has read such a head, it is kept as a mould, with what it means, and a message that fits into it
is not read again. Connections that hear the same share one, so that it is at hand however many of them there are.
Guarantee: what fits is the same byte for byte but for the digits of its length, and is one whole message, no more and
no less. Limit: only for heads whose parser has found exactly one length and nothing else that says where the body ends.
"""

from __future__ import annotations

import re
from typing import Generic, TypeVar

T = TypeVar("T")
# Moulds that are known, and heads that make one; nobody who talks to us can make it more than some megabytes.
KNOWN_MAX = 1024
HEAD_BYTES_MAX = 4096
END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})(?=\r\n)", re.IGNORECASE)
_NAME = b"\r\ncontent-length"


class Mould(Generic[T]):
    __slots__ = ("_form", "meaning")

    def __init__(self, before: bytes, behind: bytes, meaning: T) -> None:
        # With a place for the length.
        self._form = before.replace(b"%", b"%%") + b"%d" + behind.replace(b"%", b"%%")
        self.meaning = meaning

    def body(self, message: bytes) -> bytes | None:
        """The body of a message that fits; None: it has to be read."""
        head, _, body = message.partition(END)
        return body if head == self._form % len(body) else None


class Moulds(Generic[T]):
    """Those that are known. Limit: when there are too many, all are forgotten, and made anew as they are needed."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], Mould[T]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def mould(self, head: bytes, meaning: T) -> Mould[T] | None:
        """`head` ends with its empty line, and was understood. `meaning` is the same for all that fit. None: it has no
        length of its own, or is longer than it is worth."""
        found = _LENGTH.search(head) if len(head) <= HEAD_BYTES_MAX else None
        if found is None or head.lower().count(_NAME) != 1:
            return None
        around = (head[: found.start(1)], head[found.end(1) : -len(END)])
        known = self._known.get(around)
        if known is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            known = self._known[around] = Mould(*around, meaning)
        return known
