"""Takes the long strings out of a JSON value before it is decoded, and puts them back into the encoded result.

A translated request moves its strings unread, so a picture of 30 MiB need not be decoded and encoded: a short mark
replaces it meanwhile. Guarantee: the text that is put back is the text that was taken out, at whatever depth of JSON
inside JSON the mark is found. The first characters stay in front of the mark, because some are read, as those of a data
URL. Limit: whether a long string is JSON (its escapes, its UTF-8) is left to the engine.
"""

from __future__ import annotations

import re
from collections.abc import Generator

from corral.policy.serving.json_scan import PIECE_BYTES, MemberSpan, skip_string

# A string up to this size is decoded like everything else.
LONG_BYTES = 256
_HEAD_BYTES = 64
# Characters of a string that are written without escapes.
_HEAD = re.compile(rb"[ !#-\[\]-~]{0,%d}" % _HEAD_BYTES)
# The cost of finding one string beside its bytes, in the units of `json_scan`.
_STRING_COST = 40


class LongStrings:
    """Long strings, such as images, taken out of a request body so that the rest is translated quickly.

    `nonce` is letters and digits that the author of a body cannot know, so no string of a body is taken for a mark.
    """

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce.encode("ascii")
        # `@`, a character that JSON has to escape, and the number. The number of escapes tells the depth.
        self._mark = re.compile(rb"@(\\+)u0001%b-([0-9]+);" % self._nonce)
        self._taken_strings: list[memoryview] = []

    def take_out(self, raw: bytes, span: MemberSpan) -> Generator[int, None, bytes]:
        """Return the value at `span` with marks in it. Yields the cost of each step. Raises `JsonScanError`."""
        view, kept, copied, at = memoryview(raw), list[bytes | memoryview](), span.start, span.start
        while (start := raw.find(b'"', at, span.end)) >= 0:
            at = yield from skip_string(raw, start + 1)
            if at - start > LONG_BYTES:
                head = _HEAD.match(raw, start + 1)
                assert head is not None, "nothing at all is a match, too"
                kept += [view[copied : head.end()], b"@\\u0001%b-%d;" % (self._nonce, len(self._taken_strings))]
                self._taken_strings.append(view[head.end() : at - 1])
                copied = at - 1
            yield _STRING_COST
        return b"".join([*kept, view[copied : span.end]])

    def put_back(self, written: bytes) -> Generator[int, None, bytes]:
        """Return an encoded value with marks, with the strings in their places. Yields costs."""
        if not self._taken_strings:
            return written
        view, pieces, at = memoryview(written), list[bytes | memoryview](), 0
        for found in self._mark.finditer(written):
            pieces.append(view[at : found.start()])
            text, backslashes = self._taken_strings[int(found[2])], len(found[1])
            if backslashes == 1:
                pieces.append(text)
            else:
                for start in range(0, len(text), PIECE_BYTES):
                    pieces.append(_escape(bytes(text[start : start + PIECE_BYTES]), backslashes))
                    yield PIECE_BYTES // 4
            yield _STRING_COST + (found.start() - at) // 8
            at = found.end()
        return b"".join([*pieces, view[at:]])


def _escape(text: bytes, backslashes: int) -> bytes:
    """Return a part of the inside of a string, for a depth at which one backslash is written as `backslashes`."""
    while backslashes > 1:
        text = text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        backslashes //= 2
    return text
