"""Server-sent events, byte by byte: a stream cut anywhere gives the same frames. No I/O."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field

# An event of ours is a few kilobytes; a stranger's endless line must not fill the memory.
LINE_LIMIT_CHARACTERS = 1024 * 1024
_LINE_END = re.compile(r"\r\n|\n|\r")


class FrameTooLarge(ValueError):
    """A line that is no event of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    event: str
    data: str
    # The last id seen on the stream, also when this frame brought none.
    id: str | None


@dataclass(slots=True)
class SseParser:
    # Moves only when a frame is complete: a stream cut before that must bring the frame again.
    last_id: str | None = None
    # The pause that the server asks for before a new connection.
    retry_s: float | None = None
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    )
    _pending: str = ""
    _event: str = ""
    _id: str | None = None
    _data: list[str] = field(default_factory=list)

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that this piece completes."""
        self._pending += self._decoder.decode(chunk)
        frames: list[Frame] = []
        start = 0
        for end in _LINE_END.finditer(self._pending):
            # A lone CR at the very end may be the first half of CRLF.
            if end.group() == "\r" and end.end() == len(self._pending):
                break
            frame = self._line(self._pending[start : end.start()])
            start = end.end()
            if frame is not None:
                frames.append(frame)
        self._pending = self._pending[start:]
        if len(self._pending) > LINE_LIMIT_CHARACTERS:
            raise FrameTooLarge("a line of the event stream is too long")
        return frames

    def _line(self, line: str) -> Frame | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdigit():
                self.retry_s = int(value) / 1000
        return None

    def _dispatch(self) -> Frame | None:
        data, event = "\n".join(self._data), self._event or "message"
        if self._id is not None:
            self.last_id = self._id or None
        self._data, self._event, self._id = [], "", None
        # A frame without data only moves the position; ours about a reset may have none either.
        if not data and event == "message":
            return None
        return Frame(event=event, data=data, id=self.last_id)
