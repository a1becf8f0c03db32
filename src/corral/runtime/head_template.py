"""Recognises heads of HTTP messages that differ from a parsed one in nothing but the length of the body.

A persistent connection mostly carries the same head again: a client's next request, an engine's next response. Once a
parser has read such a head, it is kept as a template with its parsed form, and a message that matches the template is
not parsed again. Connections with equal heads share one template, so that it stays in the processor's cache. Guarantee:
a message that matches is the same byte for byte but for the digits of its length, and is one whole message, no more and
no less. Limit: only for heads in which the parser has found exactly one length and nothing else that says where the
body ends.
"""

from __future__ import annotations

import re
from typing import Generic, TypeVar

T = TypeVar("T")
# The limits on the number of templates and on the size of a head, so that no peer can fill more than some megabytes.
TEMPLATES_MAX = 1024
HEAD_BYTES_MAX = 4096
HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})(?=\r\n)", re.IGNORECASE)
_NAME = b"\r\ncontent-length"


class HeadTemplate(Generic[T]):
    """Recognises HTTP messages of a connection whose head is the same as one parsed before, to skip parsing.

    Only the length of the body may differ.
    """

    __slots__ = ("_format", "parsed")

    def __init__(self, prefix: bytes, suffix: bytes, parsed: T) -> None:
        # The parts of the head before and after the length.
        self._format = prefix.replace(b"%", b"%%") + b"%d" + suffix.replace(b"%", b"%%")
        self.parsed = parsed

    def match_body(self, message: bytes) -> bytes | None:
        """Return the body of a message that matches; None if the message has to be parsed."""
        head, _, body = message.partition(HEAD_END)
        return body if head == self._format % len(body) else None


class HeadTemplateCache(Generic[T]):
    """Caches heads of HTTP messages that were parsed, so that equal heads are not parsed again on any connection.

    Limit: when there are too many, all are dropped and built again.
    """

    def __init__(self) -> None:
        self._templates: dict[tuple[bytes, bytes], HeadTemplate[T]] = {}

    def __len__(self) -> int:
        return len(self._templates)

    def find_or_make(self, head: bytes, parsed: T) -> HeadTemplate[T] | None:
        """Return the template for a parsed head, which ends with its empty line. `parsed` is the same for all messages
        that match. None if the head has no length of its own, or is too long to be worth it."""
        found = _LENGTH.search(head) if len(head) <= HEAD_BYTES_MAX else None
        if found is None or head.lower().count(_NAME) != 1:
            return None
        around = (head[: found.start(1)], head[found.end(1) : -len(HEAD_END)])
        known = self._templates.get(around)
        if known is None:
            if len(self._templates) >= TEMPLATES_MAX:
                self._templates.clear()
            known = self._templates[around] = HeadTemplate(*around, parsed)
        return known
