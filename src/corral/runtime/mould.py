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
_DIGITS_MAX = 15


class Mould(Generic[T]):
    __slots__ = ("_before", "_behind", "_behind_bytes", "_latest", "_start", "meaning")

    def __init__(self, before: bytes, behind: bytes, meaning: T) -> None:
        self._before = before
        self._behind = behind
        # Where the digits of the length begin, and how far it is looked for what follows them.
        self._start = len(before)
        self._behind_bytes = len(behind)
        self._latest = self._start + _DIGITS_MAX + self._behind_bytes
        self.meaning = meaning

    def fit(self, message: bytes) -> int:
        """Where its body begins; 0: it has to be read."""
        start = self._start
        end = message.find(self._behind, start, self._latest)
        if end < 0 or not message.startswith(self._before):
            return 0
        digits, body = message[start:end], end + self._behind_bytes
        return body if digits.isdigit() and int(digits) == len(message) - body else 0


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
        around = (head[: found.start(1)], head[found.end(1) :])
        known = self._known.get(around)
        if known is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            known = self._known[around] = Mould(*around, meaning)
        return known
