"""What one process has printed: numbered lines in a few files of bounded size.

Guarantee: numbers grow by one from line to line, over rotations, restarts of the process and of the worker; a line
that was rotated away is gone and its number is not used again. Each line is one record, whose place gives its number;
it also holds how far the engine's own file had been read, so that line and position are written in one step.
The time of a line is when the worker read it, a fraction of a second after it was written; after an adoption it is
the time of the adoption.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corral.bus.messages import LogLine

MEBIBYTE = 1 << 20
# The supervisor's own remarks between the engine's lines.
WORKER_STREAM = "worker"
_INDEX_EVERY = 256
_SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    segment_bytes: int = 10 * MEBIBYTE
    segments: int = 3
    line_bytes: int = 16 * 1024
    answer_lines: int = 2_000
    answer_bytes: int = 512 * 1024
    wait_s: float = 5.0
    # Logs of processes that have ended are kept for this many keys.
    keys: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One line to keep. `offset` is where the next one begins in the engine's file; None for the worker's remarks."""

    at: str
    stream: str
    text: str
    offset: int | None = None
    # The engine's files are new and empty from here on.
    is_beginning: bool = False


@dataclass(slots=True)
class _Segment:
    path: Path
    first: int
    count: int = 0
    size: int = 0
    # Where every 256th record begins.
    index: list[int] = field(default_factory=list)

    def add(self, length: int) -> None:
        if self.count % _INDEX_EVERY == 0:
            self.index.append(self.size)
        self.count += 1
        self.size += length


class LogBook:
    """The lines of one key."""

    def __init__(self, folder: Path, limits: LogLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._grown = asyncio.Event()
        self.offsets: dict[str, int] = {}
        found = sorted(path for path in folder.glob(f"*{_SUFFIX}") if path.stem.isdecimal())
        self._segments = [self._scan(path) for path in found]

    @property
    def first(self) -> int:
        """The oldest line that is still there; 0 if there is none."""
        return self._segments[0].first if self.last else 0

    @property
    def last(self) -> int:
        return self._segments[-1].first + self._segments[-1].count - 1 if self._segments else 0

    def append(self, lines: Iterable[Written]) -> None:
        encoded = deque((line, _encode(line)) for line in lines)
        while encoded:
            segment = self._room()
            batch, size = [], segment.size
            while encoded and size < self._limits.segment_bytes:
                line, data = encoded.popleft()
                batch.append((line, data))
                size += len(data)
            self._write(segment, batch)
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    def read(self, after: int, limit: int) -> tuple[LogLine, ...]:
        """Lines after this number; with a negative one the last of that many."""
        number = max(self.first, (self.last + after if after < 0 else after) + 1, 1)
        wanted = max(0, min(limit, self._limits.answer_lines))
        lines: list[LogLine] = []
        size = 0
        for record in self._records(number):
            size += len(record)
            if len(lines) >= wanted or (lines and size > self._limits.answer_bytes):
                break
            lines.append(_decode(number + len(lines), record))
        return tuple(lines)

    async def grown(self, wait_s: float) -> None:
        """Wait for the next line, for as long as that and five seconds at most."""
        try:
            async with asyncio.timeout(max(0.0, min(wait_s, self._limits.wait_s))):
                await self._grown.wait()
        except TimeoutError:
            return

    def last_words(self, after: int, count: int) -> tuple[str, ...]:
        """The last lines on standard error since `after`, or on standard output if it has said nothing there."""
        lines = self.read(max(after, self.last - self._limits.answer_lines), self._limits.answer_lines)
        said: Mapping[str, list[str]] = {"stderr": [], "stdout": []}
        for line in lines:
            if line.stream in said:
                said[line.stream].append(line.text)
        return tuple((said["stderr"] or said["stdout"])[-count:])

    def _records(self, number: int) -> Iterator[bytes]:
        for segment in self._segments:
            if segment.first + segment.count <= number or not segment.count:
                continue
            skipped = max(0, number - segment.first)
            with segment.path.open("rb") as file:
                file.seek(segment.index[skipped // _INDEX_EVERY])
                for _ in range(skipped % _INDEX_EVERY):
                    file.readline()
                yield from (file.readline() for _ in range(segment.count - skipped))

    def _room(self) -> _Segment:
        if self._segments and self._segments[-1].size < self._limits.segment_bytes:
            return self._segments[-1]
        number = self.last + 1
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._segments.append(_Segment(path=self._folder / f"{number:020}{_SUFFIX}", first=number))
        while len(self._segments) > self._limits.segments:
            self._segments.pop(0).path.unlink(missing_ok=True)
        return self._segments[-1]

    def _write(self, segment: _Segment, batch: list[tuple[Written, bytes]]) -> None:
        try:
            with segment.path.open("ab") as file:
                file.write(b"".join(data for _, data in batch))
        except OSError:
            # The disk is full: half a record would shift the numbers of all that follow.
            if segment.path.exists():
                os.truncate(segment.path, segment.size)
            raise
        for line, data in batch:
            segment.add(len(data))
            self._note(line.stream, line.offset, is_beginning=line.is_beginning)

    def _note(self, stream: str, offset: int | None, *, is_beginning: bool) -> None:
        if is_beginning:
            self.offsets.clear()
        elif offset is not None:
            self.offsets[stream] = offset

    def _scan(self, path: Path) -> _Segment:
        segment = _Segment(path=path, first=int(path.stem))
        with path.open("rb") as file:
            for record in file:
                if not record.endswith(b"\n"):
                    # A kill in the middle of a write; what follows must begin on a line of its own.
                    os.truncate(path, segment.size)
                    break
                segment.add(len(record))
                fields = _fields(record)
                self._note(fields[1], fields[2], is_beginning=fields[4])
        return segment


def _encode(line: Written) -> bytes:
    record = [line.at, line.stream, line.offset, line.text, line.is_beginning]
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def _fields(record: bytes) -> tuple[str, str, int | None, str, bool]:
    """A record that somebody has spoiled keeps its place, so that the numbers of the others stay."""
    try:
        at, stream, offset, text, is_beginning = json.loads(record)
    except ValueError:
        return "", WORKER_STREAM, None, "(this line is damaged)", False
    return str(at), str(stream), offset if isinstance(offset, int) else None, str(text), bool(is_beginning)


def _decode(number: int, record: bytes) -> LogLine:
    at, stream, _, text, _ = _fields(record)
    return LogLine(number=number, at=at, stream=stream, text=text)
