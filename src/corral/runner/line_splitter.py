"""Splits a byte stream into lines of bounded length, for pipes whose other end may send anything.

Guarantee: never holds more than `limit_bytes` and one chunk. A line that is longer is counted in `too_long` and dropped
up to its end; the lines after it are read as usual.
"""

from __future__ import annotations

from collections.abc import Iterator


class LineSplitter:
    """Turns chunks of bytes that the runner process reads into lines without their ends."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._pieces: list[bytes] = []
        self._size_bytes = 0
        self._is_dropping = False
        # How many lines were dropped because they were too long; counted when the limit is passed.
        self.too_long = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that this chunk completes."""
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            self._keep(piece)
            if not self._is_dropping:
                yield b"".join(self._pieces)
            self._reset()
            self._is_dropping = False
        self._keep(rest)

    def _keep(self, piece: bytes) -> None:
        if self._is_dropping or not piece:
            return
        if self._size_bytes + len(piece) > self._limit_bytes:
            self._reset()
            self._is_dropping = True
            self.too_long += 1
            return
        self._pieces.append(piece)
        self._size_bytes += len(piece)

    def _reset(self) -> None:
        self._pieces.clear()
        self._size_bytes = 0
