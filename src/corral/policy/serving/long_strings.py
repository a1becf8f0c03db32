"""Takes the long strings out of a JSON value before it is decoded, and puts them back into what is written of it.

A translated request moves its strings and does not look into them, so a picture of 30 MiB need not be decoded and
encoded: a short mark stands for it meanwhile. Guarantee: what is put back is the text that was taken out, at whatever
depth of JSON inside JSON the mark is found. The first characters stay in front of the mark: some are looked at, as
those of a data URL. Limit: whether a long string is JSON (its escapes, its UTF-8) is left to the engine.
"""

from __future__ import annotations

import re
from collections.abc import Generator

from corral.policy.serving.json_scan import MemberSpan, skip_string

# A string up to this size is decoded like everything else.
LONG_BYTES = 256
_HEAD_BYTES = 64
# Characters of a string that are written as they are.
_HEAD = re.compile(rb"[ !#-\[\]-~]{0,%d}" % _HEAD_BYTES)
# What finding one string costs beside its bytes, in the units of `json_scan`.
_STRING_COST = 40


class LongStrings:
    """The strings that were taken out of one body. `nonce` is letters and digits that nobody who writes a body can
    know, so no string of theirs is taken for a mark."""

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce.encode("ascii")
        # `@`, a character that JSON has to escape, and the number. How often it is escaped tells how deep it stands.
        self._mark = re.compile(rb"@(\\+)u0001%b-([0-9]+);" % self._nonce)
        self._taken: list[memoryview] = []

    def take_out(self, raw: bytes, span: MemberSpan) -> Generator[int, None, bytes]:
        """Return the value at `span` with marks in it. Yields what each step cost. `JsonScanError`."""
        view, kept, copied, at = memoryview(raw), list[bytes | memoryview](), span.start, span.start
        while (start := raw.find(b'"', at, span.end)) >= 0:
            at = yield from skip_string(raw, start + 1)
            if at - start > LONG_BYTES:
                head = _HEAD.match(raw, start + 1)
                assert head is not None, "nothing at all is a match, too"
                kept += [view[copied : head.end()], b"@\\u0001%b-%d;" % (self._nonce, len(self._taken))]
                self._taken.append(view[head.end() : at - 1])
                copied = at - 1
            yield _STRING_COST
        return b"".join([*kept, view[copied : span.end]])

    def put_back(self, written: bytes) -> bytes:
        """Return what was written of a value with marks, with the strings in their places."""
        if not self._taken:
            return written
        pieces, at = list[bytes | memoryview](), 0
        for found in self._mark.finditer(written):
            pieces += [written[at : found.start()], _escaped(self._taken[int(found[2])], len(found[1]))]
            at = found.end()
        return b"".join([*pieces, written[at:]])


def _escaped(text: memoryview, backslashes: int) -> bytes | memoryview:
    """The inside of a string, for a place where one backslash is written as so many."""
    if backslashes == 1:
        return text
    found = bytes(text)
    while backslashes > 1:
        found = found.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        backslashes //= 2
    return found
