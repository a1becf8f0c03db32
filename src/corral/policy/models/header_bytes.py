"""Headers as untrusted bytes: read piece by piece, every length checked against the file before it is believed.

Guarantee: no more than `HEADER_BYTES_MAX` of a file are read and little more than one window is held, whatever the
file says of itself. Limit: what a header promises about the contents is believed; nobody runs the model here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from corral.domain.errors import Unprocessable

# The bytes at an offset; fewer at the end of the file.
Read = Callable[[int, int], bytes]

# The largest headers in use, with a quarter of a million tokens, take about 12 MiB.
HEADER_BYTES_MAX = 32 * 1024 * 1024
WINDOW_BYTES = 256 * 1024


class BadHeader(Unprocessable):
    """The header of the file makes no sense."""

    code = "bad_model_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """A file of a model: its path in the model's folder, its size, and a way to its bytes."""

    path: str
    size_bytes: int
    read: Read

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Cursor:
    """A place in a file that moves on with what is read. Numbers are little-endian."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self._end = min(file.size_bytes, HEADER_BYTES_MAX)
        self._window = b""
        self._window_at = 0
        self.offset = 0

    def take(self, length: int) -> bytes:
        """The next bytes; `BadHeader` if the file has fewer."""
        self._need(length)
        begin = self.offset - self._window_at
        if not 0 <= begin <= begin + length <= len(self._window):
            self._window_at, begin = self.offset, 0
            self._window = self._file.read(self.offset, min(max(length, WINDOW_BYTES), self._end - self.offset))
            if len(self._window) < length:
                raise self.truncated()
        self.offset += length
        return self._window[begin : begin + length]

    def skip(self, length: int) -> None:
        self._need(length)
        self.offset += length

    def number(self, form: str) -> int:
        """One number, in the letters of `struct`."""
        value: int = struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0]
        return value

    def length(self) -> int:
        """Eight bytes, as every length and count is written."""
        return int.from_bytes(self.take(8), "little")

    def skip_texts(self, count: int) -> None:
        """Past so many texts, each behind its length. A vocabulary has a quarter of a million: this loop is tight."""
        end, window, offset = self._end, self._window, self.offset - self._window_at
        for _ in range(count):
            if offset + 8 > len(window):
                self.offset = self._window_at + offset
                self.take(8)
                window, offset = self._window, 0
            offset += 8 + int.from_bytes(window[offset : offset + 8], "little")
            if self._window_at + offset > end:
                raise self.truncated()
        self.offset = self._window_at + offset

    def truncated(self) -> BadHeader:
        return BadHeader(
            f"{self._file.path} ends within its header, or its header is larger than "
            f"{HEADER_BYTES_MAX // 1024 // 1024} MiB.",
            hint="The file is cut off or broken; fetch it again.",
            code="truncated_model_file",
        )

    def _need(self, length: int) -> None:
        if length > self._end - self.offset:
            raise self.truncated()


def check_end(file: Readable, end: int) -> None:
    """`BadHeader` if the file is smaller than its header says."""
    if end > file.size_bytes:
        raise BadHeader(
            f"{file.path} has {file.size_bytes} bytes, and its header speaks of {end}.",
            hint="The file is cut off or broken; fetch it again.",
            code="truncated_model_file",
        )


def sane(value: object, most: int = 2**40) -> int | None:
    """A count that can be calculated with; None for everything else. A truth value is no count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None
