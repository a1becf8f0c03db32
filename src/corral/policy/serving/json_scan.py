"""Finds the members of a JSON object in bytes, without decoding their values, in steps of bounded cost.

Guarantee: of a body that is JSON, names and places are those that a decoder finds; an object with more than
`MEMBERS_MAX` members, or anything nested deeper than `DEPTH_MAX`, is refused. The scan is a generator: it yields the
cost of the last step, in units of about 50 ns, so that a caller can yield to others between two steps. A step takes
about a millisecond, and 4 of a body made to be slow. Limit: inside the values only quotes and brackets are checked; the
decoder finds out whether a value is JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from dataclasses import dataclass
from itertools import accumulate

MEMBERS_MAX = 1000
DEPTH_MAX = 64
# The bytes of one step. Long runs are scanned in large pieces, and the piece in which a value ends again in small ones.
PIECE_BYTES = 32 * 1024
FINE_BYTES = 1024
# No meaningful name is longer than this.
NAME_BYTES_MAX = 1024

# A body of fewer bytes cannot be nested too deeply and have an end.
_SHALLOW_BYTES = 2 * DEPTH_MAX
_BRACKETS_MAX = DEPTH_MAX + 1
# … and one of fewer bytes has no room for so many names.
_FEW_BYTES = 5 * MEMBERS_MAX
_SPACE = re.compile(rb"[ \t\n\r]*+")
# Possessive: there is one way to match, so the cost is the length.
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_SCALAR = re.compile(rb"-?(?:[0-9][0-9.eE+-]*+|Infinity)|true|false|null|NaN")
_SCALAR_BYTES_MAX = 4096
_QUOTE, _OPENS_ARRAY, _OPENS_OBJECT = b'"', b"[", b"{"
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_ROUNDS_MAX = 4
_STEP = tuple(1 if one in b"[{" else -1 if one in b"]}" else 0 for one in range(256))

Steps = Generator[int, None, int]


class JsonScanError(ValueError):
    """Raised when the body of a request is not a JSON object. `at` is the position of the fault."""

    def __init__(self, at: int) -> None:
        super().__init__(f"no JSON at byte {at}")
        self.at = at


class TooManyMembersError(ValueError):
    """Raised when the JSON object of a request body has more than `MEMBERS_MAX` members."""


class TooDeepError(ValueError):
    """Raised when the JSON of a request body is nested deeper than `DEPTH_MAX`."""


@dataclass(frozen=True, slots=True)
class MemberSpan:
    """Says at which bytes of a request's JSON body the value of one member stands."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ScannedObject:
    """Says where the members of a request's JSON object stand in its bytes, without decoding them."""

    # The position of the first member.
    members_start: int
    members: dict[str, MemberSpan]
    # About how many values there are in it, at any depth.
    values: int


def is_small_shape(raw: bytes) -> bool:
    """Return whether counting alone shows that a body is within both limits. Cheap enough for every request."""
    size_bytes = len(raw)
    if size_bytes < _SHALLOW_BYTES:
        return True
    # `replace` finds the byte with `memchr` and stops at its limit: a fifth of the time of `count` or `translate`.
    if size_bytes - len(raw.replace(b"[", b"", _BRACKETS_MAX).replace(b"{", b"", _BRACKETS_MAX)) > DEPTH_MAX:
        return False
    # A member has one colon, while commas occur in prose and in lists of numbers, too.
    return size_bytes < _FEW_BYTES or size_bytes - len(raw.replace(b":", b"", MEMBERS_MAX + 1)) <= MEMBERS_MAX


def check_shape(raw: bytes) -> Generator[int, None, None]:
    """Raise `TooManyMembersError` or `TooDeepError` for any JSON text. Text that is not JSON is left to the decoder."""
    try:
        yield from count_values(raw)
    except JsonScanError:
        return


def count_values(raw: bytes) -> Steps:
    """Return about how many values an array or an object has, at any depth. Raises what `scan_object` raises."""
    at = yield from _skip_space(raw, 0)
    if raw[at : at + 1] == _OPENS_OBJECT:
        return (yield from scan_object(raw)).values
    if raw[at : at + 1] == _OPENS_ARRAY:
        nested = _NestedScan(raw, at, depth=0)
        yield from nested.skip()
        return nested.values
    raise JsonScanError(at)


def run_scan(scan: Generator[int, None, ScannedObject]) -> ScannedObject:
    """Run a scan to its end without yielding to others."""
    while True:
        try:
            next(scan)
        except StopIteration as end:
            found: ScannedObject = end.value
            return found


def scan_object(raw: bytes) -> Generator[int, None, ScannedObject]:
    """Return the members of the object `raw`. Raises `JsonScanError`, `TooManyMembersError` or `TooDeepError`."""
    at = yield from _skip_space(raw, 0)
    inside = _expect_byte(raw, at, _OPENS_OBJECT)
    members: dict[str, MemberSpan] = {}
    values = 0
    at = yield from _skip_space(raw, inside)
    while raw[at : at + 1] != b"}":
        if members:
            at = yield from _skip_space(raw, _expect_byte(raw, at, b","))
        if len(members) == MEMBERS_MAX:
            raise TooManyMembersError
        start, at = at, (yield from skip_string(raw, _expect_byte(raw, at, _QUOTE)))
        name = _decode_name(raw, start, at)
        if name in members:
            # Two parsers may use different ones of two equal names.
            raise JsonScanError(start)
        at = yield from _skip_space(raw, at)
        start = yield from _skip_space(raw, _expect_byte(raw, at, b":"))
        first = raw[start : start + 1]
        if first == _QUOTE:
            end = yield from skip_string(raw, start + 1)
        elif first in (_OPENS_ARRAY, _OPENS_OBJECT):
            nested = _NestedScan(raw, start, depth=1)
            end = yield from nested.skip()
            values += nested.values
        else:
            found = _SCALAR.match(raw, start, start + _SCALAR_BYTES_MAX)
            if found is None:
                raise JsonScanError(start)
            end = found.end()
        members[name] = MemberSpan(start, end)
        at = yield from _skip_space(raw, end)
    last = yield from _skip_space(raw, at + 1)
    if last != len(raw):
        raise JsonScanError(last)
    return ScannedObject(inside, members, values + len(members))


class _NestedScan:
    """Finds the end of one array or object that begins at `at`, `depth` levels inside the body."""

    def __init__(self, raw: bytes, at: int, *, depth: int) -> None:
        self._raw = raw
        self._at = at
        self._outer = depth
        self._depth = 0
        self._is_in_string = False
        self.values = 0

    def skip(self) -> Steps:
        raw, length, size = self._raw, len(self._raw), PIECE_BYTES
        while self._at < length:
            piece = self._cut_piece(size)
            outside, cost, is_in_string = self._strip_strings(piece)
            brackets = outside.translate(None, _NOT_BRACKETS)
            opens = brackets.count(_OPENS_ARRAY) + brackets.count(_OPENS_OBJECT)
            closes = len(brackets) - opens
            stop = self._end_among(brackets, closes)
            cost += len(piece) // 8 + len(brackets)
            if stop is not None:
                yield cost + size
                if size == FINE_BYTES:
                    return _find_bracket(raw, self._at, stop, is_in_string=self._is_in_string)
                size = FINE_BYTES
                continue
            self.values += opens + outside.count(b",")
            self._depth += opens - closes
            self._at += len(piece)
            self._is_in_string = is_in_string
            yield cost
        raise JsonScanError(length)

    def _end_among(self, brackets: bytes, closes: int) -> int | None:
        """Return which of the brackets is the last one of the value, counted from 1. Raises `TooDeepError`."""
        left, rounds, room = brackets, 0, DEPTH_MAX - self._outer - self._depth
        # Pairs with nothing between them are one level, whatever their number: removing them decides most pieces.
        while self._depth <= closes or len(left) - closes + rounds > room:
            if rounds == _ROUNDS_MAX:
                return self._look_at_each(brackets)
            left, rounds = left.replace(b"[]", b"").replace(b"{}", b""), rounds + 1
            closes = left.count(b"]") + left.count(b"}")
        return None

    def _look_at_each(self, brackets: bytes) -> int | None:
        levels = list(accumulate(map(_STEP.__getitem__, brackets), initial=self._depth))
        stop = levels.index(0, 1) if 0 in levels[1:] else None
        if self._outer + max(levels[: None if stop is None else stop + 1]) > DEPTH_MAX:
            raise TooDeepError
        return stop

    def _cut_piece(self, size: int) -> bytes:
        """Return the next bytes, cut so that no escape is divided."""
        piece = self._raw[self._at : self._at + size]
        is_odd = (len(piece) - len(piece.rstrip(b"\\"))) % 2
        return piece[:-1] if is_odd and self._at + len(piece) < len(self._raw) and len(piece) > 1 else piece

    def _strip_strings(self, piece: bytes) -> tuple[bytes, int, bool]:
        """Return the part of the piece outside of strings, the cost of finding it, and whether a string goes on behind
        it."""
        # A run of backslashes escapes the next character if its length is odd: pairs are removed first, from the left.
        clean = piece.replace(b"\\\\", b"").replace(b'\\"', b"") if piece.find(b"\\") >= 0 else piece
        parts = clean.split(_QUOTE)
        is_in_string = self._is_in_string ^ (len(parts) % 2 == 0)
        return b"".join(parts[self._is_in_string :: 2]), len(parts) + (len(piece) - len(clean)) // 4, is_in_string


def _find_bracket(raw: bytes, at: int, number: int, *, is_in_string: bool) -> int:
    """Return where the `number`th bracket outside of strings ends. It is near `at`."""
    if is_in_string:
        found = _IN_STRING.match(raw, at)
        assert found is not None, "nothing at all is a match, too"
        at = found.end() + 1
    for token in _TOKEN.finditer(raw, at):
        if raw[token.start()] != _QUOTE[0]:
            number -= 1
            if not number:
                return token.end()
    raise JsonScanError(len(raw))


def _skip_space(raw: bytes, at: int) -> Steps:
    while True:
        found = _SPACE.match(raw, at, at + PIECE_BYTES)
        assert found is not None, "nothing at all is a match, too"
        if found.end() - at < PIECE_BYTES:
            return found.end()
        at = found.end()
        yield PIECE_BYTES // 16


def skip_string(raw: bytes, at: int) -> Steps:
    """Return the position behind the closing quote of a string; `at` is behind its opening quote."""
    length = len(raw)
    while True:
        limit = min(at + PIECE_BYTES, length)
        found = _IN_STRING.match(raw, at, limit)
        assert found is not None, "nothing at all is a match, too"
        end = found.end()
        if raw[end : end + 1] == _QUOTE:
            return end + 1
        if limit == length:
            raise JsonScanError(end)
        at = end
        yield PIECE_BYTES // 4


def _decode_name(raw: bytes, start: int, end: int) -> str:
    if end - start > NAME_BYTES_MAX:
        raise JsonScanError(start)
    try:
        name = json.loads(raw[start:end])
    except ValueError:
        raise JsonScanError(start) from None
    return str(name)


def _expect_byte(raw: bytes, at: int, expected: bytes) -> int:
    if raw[at : at + 1] != expected:
        raise JsonScanError(at)
    return at + 1
