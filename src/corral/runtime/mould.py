"""Heads of HTTP messages that differ in nothing but the length of the body, told from one that was read before.

Who stays on a connection mostly sends the same head again: a client with its next question, an engine with its next
answer. Once a parser has read such a head, it is kept as a mould, and a message that fits into it is not read again.
Guarantee: what fits is the same byte for byte but for the digits of its length, and is one whole message, no more and
no less. Limit: only for heads whose parser has found exactly one length and nothing else that says where the body ends.
"""

from __future__ import annotations

import re

END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})(?=\r\n)", re.IGNORECASE)
_NAME = b"\r\ncontent-length"
_DIGITS_MAX = 15


class Mould:
    __slots__ = ("_before", "_behind")

    def __init__(self, before: bytes, behind: bytes) -> None:
        self._before = before
        self._behind = behind

    def fit(self, message: bytes) -> int:
        """Where its body begins; 0: it has to be read."""
        before, behind = self._before, self._behind
        if not message.startswith(before):
            return 0
        start = len(before)
        end = message.find(b"\r", start, start + _DIGITS_MAX + 1)
        if end < 0 or not message.startswith(behind, end):
            return 0
        digits = message[start:end]
        body = end + len(behind)
        return body if digits.isdigit() and int(digits) == len(message) - body else 0


def mould_of(head: bytes) -> Mould | None:
    """`head` ends with its empty line, and was understood. None: it has no length of its own."""
    found = _LENGTH.search(head)
    if found is None or head.lower().count(_NAME) != 1:
        return None
    return Mould(head[: found.start(1)], head[found.end(1) :])
