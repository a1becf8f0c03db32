"""A stream on its way: cut into whole events, counted, and listened to for what its engine says of tokens.

Guarantee: what `take` gives is whole events (or whole lines), in their order and byte for byte; the rest is kept until
it is whole. Limit: an event that is larger than `EVENT_BYTES_MAX` is given in pieces.
"""

from __future__ import annotations

from corral.policy.serving.forms import last_end
from corral.policy.serving.usage import UNKNOWN, Usage, tells, usage_of

EVENT_BYTES_MAX = 1024 * 1024
# What OpenAI's streams end with. It is no event of the answer.
_END_OF_STREAM = b"data: [DONE]\n\n"


class Stream:
    """`end_of_event` is an empty line, or the end of a line."""

    __slots__ = ("_end_of_event", "_first_telling", "_kept", "_kept_bytes", "_last_telling", "events")

    def __init__(self, end_of_event: bytes) -> None:
        self._end_of_event = end_of_event
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        # How many can be passed on.
        self.events = 0
        # Pieces in which its engine may have told how many tokens it took.
        self._first_telling: bytes | None = None
        self._last_telling: bytes | None = None

    def take(self, piece: bytes) -> bytes:
        """What can be passed on; may be empty."""
        end_of_event = self._end_of_event
        if self._kept or not piece.endswith(end_of_event):
            piece = self._whole_events(piece)
            if not piece:
                return piece
        self.events += piece.count(end_of_event) or piece.count(b"\r\n\r\n")
        if piece.endswith(_END_OF_STREAM):
            self.events -= 1
        if tells(piece):
            self._note(piece)
        return piece

    def rest(self) -> bytes:
        """It is over: what came behind the last whole event."""
        rest = b"".join(self._kept)
        if tells(rest):
            self._note(rest)
        return rest

    def usage(self) -> Usage:
        if self._last_telling is None or self._first_telling is None:
            return UNKNOWN
        return usage_of(self._last_telling).over(usage_of(self._first_telling))

    def _whole_events(self, piece: bytes) -> bytes:
        """The beginning of an event that is not complete is kept, up to a limit."""
        self._kept.append(piece)
        self._kept_bytes += len(piece)
        if b"\n" not in piece and self._kept_bytes <= EVENT_BYTES_MAX:
            return b""
        got = b"".join(self._kept)
        end = last_end(got, self._end_of_event)
        if len(got) - end > EVENT_BYTES_MAX:
            end = len(got)
        rest = got[end:]
        self._kept, self._kept_bytes = [rest] if rest else [], len(rest)
        return got[:end]

    def _note(self, piece: bytes) -> None:
        if self._first_telling is None:
            self._first_telling = piece
        self._last_telling = piece
