"""Reads headers as untrusted bytes: piece by piece, every length checked against the file before it is believed.

Guarantee: no more than `HEADER_BYTES_MAX` of a file are read and little more than one window is held, whatever the
file says. Limit: what a header says about the contents is believed; the model is not run here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from corral.domain.errors import Unprocessable

# Reads the bytes at an offset; fewer at the end of the file.
Read = Callable[[int, int], bytes]

# The largest headers in use, with a quarter of a million tokens, take about 12 MiB.
HEADER_BYTES_MAX = 32 * 1024 * 1024
WINDOW_BYTES = 256 * 1024

# The variable that every template with tools reads. `tool_calls` alone is about calls of earlier turns.
_TOOLS = re.compile(r"\btools\b")


def detect_tools(templates: Sequence[str | None]) -> bool | None:
    """Return whether one of a model's templates has a place for tools. A template that is None could not be read."""
    if any(template is not None and _TOOLS.search(template) for template in templates):
        return True
    return None if None in templates else False


class BadHeader(Unprocessable):
    """The header of the model file is invalid."""

    code = "bad_model_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableFile:
    """Describes a file of a model: its path in the model's folder, its size, and a function that reads its bytes."""

    path: str
    size_bytes: int
    read: Read

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class HeaderCursor:
    """Reads a model file's header piece by piece, and checks every length against the file.

    Numbers are little-endian.
    """

    def __init__(self, file: ReadableFile) -> None:
        self._file = file
        self._end = min(file.size_bytes, HEADER_BYTES_MAX)
        self._window = b""
        self._window_at = 0
        self.offset = 0

    def read(self, length: int) -> bytes:
        """Return the next bytes; `BadHeader` if the file has fewer."""
        self._ensure_window(length)
        begin = self.offset - self._window_at
        if not 0 <= begin <= begin + length <= len(self._window):
            self._window_at, begin = self.offset, 0
            self._window = self._file.read(self.offset, min(max(length, WINDOW_BYTES), self._end - self.offset))
            if len(self._window) < length:
                raise self.make_truncated_error()
        self.offset += length
        return self._window[begin : begin + length]

    def skip(self, length: int) -> None:
        self._ensure_window(length)
        self.offset += length

    def read_number(self, form: str) -> int:
        """Read one number in a `struct` format."""
        value: int = struct.unpack(f"<{form}", self.read(struct.calcsize(f"<{form}")))[0]
        return value

    def read_length(self) -> int:
        """Read a length or count, which has eight bytes."""
        return int.from_bytes(self.read(8), "little")

    def skip_texts(self, count: int) -> None:
        """Skip so many texts, each behind its length. A vocabulary has a quarter of a million: this loop is tight."""
        end, window, offset = self._end, self._window, self.offset - self._window_at
        for _ in range(count):
            if offset + 8 > len(window):
                self.offset = self._window_at + offset
                self.read(8)
                window, offset = self._window, 0
            offset += 8 + int.from_bytes(window[offset : offset + 8], "little")
            if self._window_at + offset > end:
                raise self.make_truncated_error()
        self.offset = self._window_at + offset

    def make_truncated_error(self) -> BadHeader:
        return BadHeader(
            f"{self._file.path} ends within its header, or its header is larger than "
            f"{HEADER_BYTES_MAX // 1024 // 1024} MiB.",
            hint="The file is cut off or broken; fetch it again.",
            code="truncated_model_file",
        )

    def _ensure_window(self, length: int) -> None:
        if length > self._end - self.offset:
            raise self.make_truncated_error()


def check_end(file: ReadableFile, end: int) -> None:
    """Raise `BadHeader` if the file is smaller than its header says."""
    if end > file.size_bytes:
        raise BadHeader(
            f"{file.path} has {file.size_bytes} bytes, and its header speaks of {end}.",
            hint="The file is cut off or broken; fetch it again.",
            code="truncated_model_file",
        )


def parse_count(value: object, most: int = 2**40) -> int | None:
    """Return a count that can be calculated with; None for everything else. A boolean is no count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None
