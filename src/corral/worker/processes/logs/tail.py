"""What an engine prints goes into two files of its own, and from there, line by line, into its log.

Guarantee: an engine never waits for the worker and outlives it without noticing: it writes to files, not to pipes. A
worker that comes later goes on at the byte where the last one stopped. Bytes that are no UTF-8 are replaced; a line
without an end is cut after 16 KiB.

The engine's files are cut to nothing when they have been read to the end and are larger than 1 MiB. What it writes in
the microseconds between the last read and the cut is lost; that is the price for needing neither a pipe nor a process
in between. An engine that prints faster than it can be copied loses the oldest of its output, and the log says so.
While no worker runs nobody cuts anything.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from corral.ports.runtime import Clock
from corral.worker.processes.logs.book import MEBIBYTE, WORKER_STREAM, LogBook, Written

STREAMS = ("stdout", "stderr")
CHUNK_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TailLimits:
    cut_bytes: int = MEBIBYTE
    backlog_bytes: int = 32 * MEBIBYTE
    line_bytes: int = 16 * 1024


class Tail:
    """Copies the output of one process."""

    def __init__(self, folder: Path, book: LogBook, clock: Clock, limits: TailLimits | None = None) -> None:
        self._folder = folder
        self._book = book
        self._clock = clock
        self._limits = limits or TailLimits()

    def path_of(self, stream: str) -> Path:
        return self._folder / f"{stream}.raw"

    def begin(self, remark: str) -> int:
        """A new process: empty files. The number of the remark, after which its lines follow."""
        for stream in STREAMS:
            self.path_of(stream).unlink(missing_ok=True)
        self._book.append([self._remark(remark, is_beginning=True)])
        return self._book.last

    def remark(self, text: str) -> None:
        """A word of the worker between the engine's own."""
        self._book.append([self._remark(text)])

    def last_words(self, after: int, count: int) -> tuple[str, ...]:
        """The last lines on standard error since `after`, or on standard output if it has said nothing there."""
        return self._book.last_words(after, count)

    def copy(self, *, is_final: bool = False) -> bool:
        """Take what is new, a bounded piece of it; whether there may be more. At the end the last half line counts."""
        found = [self._copy_stream(stream, is_final=is_final) for stream in STREAMS]
        return any(found)

    def _copy_stream(self, stream: str, *, is_final: bool) -> bool:
        try:
            descriptor = os.open(self.path_of(stream), os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            return self._copy_from(descriptor, stream, is_final=is_final)
        finally:
            os.close(descriptor)

    def _copy_from(self, descriptor: int, stream: str, *, is_final: bool) -> bool:
        size = os.fstat(descriptor).st_size
        offset = self._book.offsets.get(stream, 0)
        if offset > size:
            # It was cut after that line was written.
            offset = 0
        if size - offset > self._limits.backlog_bytes:
            offset = self._skip(stream, offset, size)
        data = os.pread(descriptor, CHUNK_BYTES, offset)
        is_whole = len(data) < CHUNK_BYTES
        lines = self._split(data, is_final=is_final and is_whole)
        if lines:
            at = self._clock.wall().isoformat()
            written = []
            for text, length in lines:
                offset += length
                written.append(Written(at=at, stream=stream, text=text, offset=offset))
            self._book.append(written)
        self._book.offsets[stream] = offset
        if offset >= self._limits.cut_bytes and offset == os.fstat(descriptor).st_size:
            os.ftruncate(descriptor, 0)
            self._book.offsets[stream] = 0
        return not is_whole

    def _skip(self, stream: str, offset: int, size: int) -> int:
        kept_from = size - self._limits.cut_bytes
        text = f"{kept_from - offset} bytes of {stream} were not kept: they came faster than they could be read"
        self._book.append([self._remark(text)])
        return kept_from

    def _split(self, data: bytes, *, is_final: bool) -> list[tuple[str, int]]:
        """Whole lines, each with the bytes that it takes up in the file."""
        lines: list[tuple[str, int]] = []
        taken = 0
        while taken < len(data):
            end = data.find(b"\n", taken, taken + self._limits.line_bytes)
            if end >= 0:
                length = end + 1 - taken
            elif len(data) - taken >= self._limits.line_bytes:
                length = self._limits.line_bytes
            elif is_final:
                length = len(data) - taken
            else:
                break
            raw = data[taken : taken + length].removesuffix(b"\n").removesuffix(b"\r")
            lines.append((raw.decode("utf-8", "replace"), length))
            taken += length
        return lines

    def _remark(self, text: str, *, is_beginning: bool = False) -> Written:
        at = self._clock.wall().isoformat()
        return Written(at=at, stream=WORKER_STREAM, text=text, is_beginning=is_beginning)
