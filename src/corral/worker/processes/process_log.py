"""Stores what one process has printed: numbered lines in a few files of bounded size.

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
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corral.bus.messages import LogLine, ReadLog, ReadLogReply
from corral.domain.errors import NotFound
from corral.ports.runtime import Clock
from corral.worker.processes.journal import make_file_name

MEBIBYTE = 1 << 20
# The supervisor's own remarks between the engine's lines.
WORKER_STREAM = "worker"
_INDEX_EVERY = 256
_SUFFIX = ".jsonl"
STREAMS = ("stdout", "stderr")
CHUNK_BYTES = 256 * 1024
# Names the key whose log a folder holds: the folder's name cannot be read back.
_KEY_FILE = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLogLimits:
    """Limits for the log files of engine processes on a worker: file size, lines of an answer, number of logs."""

    segment_bytes: int = 10 * MEBIBYTE
    segments: int = 3
    line_bytes: int = 16 * 1024
    answer_lines: int = 2_000
    answer_bytes: int = 512 * 1024
    wait_s: float = 5.0
    # Logs of processes that have ended are kept for this many keys.
    keys: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One line of an engine's output to write to its log, with the output position behind it; None for a remark."""

    at: str
    stream: str
    text: str
    offset: int | None = None
    # Whether the engine's files are new and empty from here on.
    is_beginning: bool = False


@dataclass(slots=True)
class _LogSegment:
    """One file of a process log and the positions of its records."""

    path: Path
    first: int
    count: int = 0
    size: int = 0
    # Positions of every 256th record.
    index: list[int] = field(default_factory=list)

    def add(self, length: int) -> None:
        if self.count % _INDEX_EVERY == 0:
            self.index.append(self.size)
        self.count += 1
        self.size += length


class ProcessLog:
    """Stores the output of one engine process on a worker as numbered lines in a few files of bounded size."""

    def __init__(self, folder: Path, limits: ProcessLogLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._growth = asyncio.Event()
        self.offsets: dict[str, int] = {}
        found = sorted(path for path in folder.glob(f"*{_SUFFIX}") if path.stem.isdecimal())
        self._segments = [self._scan(path) for path in found]

    @property
    def first(self) -> int:
        """Return the number of the oldest line that is still there; 0 if there is none."""
        return self._segments[0].first if self.last else 0

    @property
    def last(self) -> int:
        return self._segments[-1].first + self._segments[-1].count - 1 if self._segments else 0

    def append(self, lines: Iterable[LogEntry]) -> None:
        encoded = deque((line, _encode(line)) for line in lines)
        while encoded:
            segment = self._open_segment()
            batch, size = [], segment.size
            while encoded and size < self._limits.segment_bytes:
                line, data = encoded.popleft()
                batch.append((line, data))
                size += len(data)
            self._write(segment, batch)
        grown, self._growth = self._growth, asyncio.Event()
        grown.set()

    def read(self, after: int, limit: int) -> tuple[LogLine, ...]:
        """Return lines after this number; with a negative one the last of that many."""
        number = max(self.first, (self.last + after if after < 0 else after) + 1, 1)
        max_lines = max(0, min(limit, self._limits.answer_lines))
        lines: list[LogLine] = []
        size = 0
        for record in self._iterate_records(number):
            size += len(record)
            if len(lines) >= max_lines or (lines and size > self._limits.answer_bytes):
                break
            lines.append(_decode(number + len(lines), record))
        return tuple(lines)

    async def wait_for_growth(self, wait_s: float) -> None:
        """Wait for the next line, for `wait_s` and five seconds at most."""
        try:
            async with asyncio.timeout(max(0.0, min(wait_s, self._limits.wait_s))):
                await self._growth.wait()
        except TimeoutError:
            return

    def read_last_lines(self, after: int, count: int) -> tuple[str, ...]:
        """Return the last lines on standard error since `after`, or on standard output if standard error has none."""
        lines = self.read(max(after, self.last - self._limits.answer_lines), self._limits.answer_lines)
        texts: Mapping[str, list[str]] = {"stderr": [], "stdout": []}
        for line in lines:
            if line.stream in texts:
                texts[line.stream].append(line.text)
        return tuple((texts["stderr"] or texts["stdout"])[-count:])

    def _iterate_records(self, number: int) -> Iterator[bytes]:
        for segment in self._segments:
            if segment.first + segment.count <= number or not segment.count:
                continue
            skipped = max(0, number - segment.first)
            with segment.path.open("rb") as file:
                file.seek(segment.index[skipped // _INDEX_EVERY])
                for _ in range(skipped % _INDEX_EVERY):
                    file.readline()
                yield from (file.readline() for _ in range(segment.count - skipped))

    def _open_segment(self) -> _LogSegment:
        if self._segments and self._segments[-1].size < self._limits.segment_bytes:
            return self._segments[-1]
        number = self.last + 1
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._segments.append(_LogSegment(path=self._folder / f"{number:020}{_SUFFIX}", first=number))
        while len(self._segments) > self._limits.segments:
            self._segments.pop(0).path.unlink(missing_ok=True)
        return self._segments[-1]

    def _write(self, segment: _LogSegment, batch: list[tuple[LogEntry, bytes]]) -> None:
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
            self._record_offset(line.stream, line.offset, is_beginning=line.is_beginning)

    def _record_offset(self, stream: str, offset: int | None, *, is_beginning: bool) -> None:
        if is_beginning:
            self.offsets.clear()
        elif offset is not None:
            self.offsets[stream] = offset

    def _scan(self, path: Path) -> _LogSegment:
        segment = _LogSegment(path=path, first=int(path.stem))
        with path.open("rb") as file:
            for record in file:
                if not record.endswith(b"\n"):
                    # A kill interrupted a write; what follows must begin on a line of its own.
                    os.truncate(path, segment.size)
                    break
                segment.add(len(record))
                fields = _parse_record(record)
                self._record_offset(fields[1], fields[2], is_beginning=fields[4])
        return segment


def _encode(line: LogEntry) -> bytes:
    record = [line.at, line.stream, line.offset, line.text, line.is_beginning]
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def _parse_record(record: bytes) -> tuple[str, str, int | None, str, bool]:
    """Parse a record. A damaged one keeps its place, so that the numbers of the others stay."""
    try:
        at, stream, offset, text, is_beginning = json.loads(record)
    except ValueError:
        return "", WORKER_STREAM, None, "(this line is damaged)", False
    return str(at), str(stream), offset if isinstance(offset, int) else None, str(text), bool(is_beginning)


def _decode(number: int, record: bytes) -> LogLine:
    at, stream, _, text, _ = _parse_record(record)
    return LogLine(number=number, at=at, stream=stream, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCopierLimits:
    """Limits how much output of an engine waits to be copied into its log, and when output files are truncated."""

    cut_bytes: int = MEBIBYTE
    backlog_bytes: int = 32 * MEBIBYTE
    line_bytes: int = 16 * 1024


class OutputCopier:
    """Copies what one engine process prints from its two output files into its log, line by line.

    An engine never waits for the worker and outlives it without noticing: it writes to files, not to pipes. A
    worker that comes later goes on at the byte where the last one stopped. Bytes that are no UTF-8 are replaced; a
    line without an end is cut after 16 KiB.

    The engine's files are truncated when they have been read to the end and are larger than 1 MiB. Output in the
    microseconds between the last read and the truncation is lost; that is the price for needing neither a pipe nor
    a process in between. An engine that prints faster than it can be copied loses the oldest of its output, and the
    log says so. While no worker runs nothing is truncated.
    """

    def __init__(
        self, folder: Path, log_file: ProcessLog, clock: Clock, limits: OutputCopierLimits | None = None
    ) -> None:
        self._folder = folder
        self._log = log_file
        self._clock = clock
        self._limits = limits or OutputCopierLimits()

    def get_path(self, stream: str) -> Path:
        return self._folder / f"{stream}.raw"

    def begin(self, remark: str) -> int:
        """Begin with a new process and empty files; return the number of the remark, after which its lines follow."""
        for stream in STREAMS:
            self.get_path(stream).unlink(missing_ok=True)
        self._log.append([self._make_remark(remark, is_beginning=True)])
        return self._log.last

    def append_remark(self, text: str) -> None:
        """Add a line of the worker between the engine's own."""
        self._log.append([self._make_remark(text)])

    def read_last_lines(self, after: int, count: int) -> tuple[str, ...]:
        """Return the last lines on standard error since `after`, or on standard output if standard error has none."""
        return self._log.read_last_lines(after, count)

    def copy(self, *, is_final: bool = False) -> bool:
        """Copy a bounded piece of new output; return whether there may be more. At the end the last half line
        counts."""
        found = [self._copy_stream(stream, is_final=is_final) for stream in STREAMS]
        return any(found)

    def _copy_stream(self, stream: str, *, is_final: bool) -> bool:
        try:
            descriptor = os.open(self.get_path(stream), os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            return self._copy_from(descriptor, stream, is_final=is_final)
        finally:
            os.close(descriptor)

    def _copy_from(self, descriptor: int, stream: str, *, is_final: bool) -> bool:
        size = os.fstat(descriptor).st_size
        offset = self._log.offsets.get(stream, 0)
        if offset > size:
            # The file was truncated after that line was written.
            offset = 0
        if size - offset > self._limits.backlog_bytes:
            offset = self._skip_backlog(stream, offset, size)
        data = os.pread(descriptor, CHUNK_BYTES, offset)
        is_whole = len(data) < CHUNK_BYTES
        lines = self._split(data, is_final=is_final and is_whole)
        if lines:
            at = self._clock.wall().isoformat()
            written = []
            for text, length in lines:
                offset += length
                written.append(LogEntry(at=at, stream=stream, text=text, offset=offset))
            self._log.append(written)
        self._log.offsets[stream] = offset
        if offset >= self._limits.cut_bytes and offset == os.fstat(descriptor).st_size:
            os.ftruncate(descriptor, 0)
            self._log.offsets[stream] = 0
        return not is_whole

    def _skip_backlog(self, stream: str, offset: int, size: int) -> int:
        kept_from = size - self._limits.cut_bytes
        text = f"{kept_from - offset} bytes of {stream} were dropped: they were printed faster than they could be read"
        self._log.append([self._make_remark(text)])
        return kept_from

    def _split(self, data: bytes, *, is_final: bool) -> list[tuple[str, int]]:
        """Return whole lines, each with the bytes that it takes up in the file."""
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

    def _make_remark(self, text: str, *, is_beginning: bool = False) -> LogEntry:
        at = self._clock.wall().isoformat()
        return LogEntry(at=at, stream=WORKER_STREAM, text=text, is_beginning=is_beginning)


class ProcessLogStore:
    """Opens and reads a worker's logs of engine processes, also of ended ones, and deletes the oldest unused."""

    def __init__(self, folder: Path, limits: ProcessLogLimits) -> None:
        self._folder = folder
        self.limits = limits
        self._logs: dict[str, ProcessLog] = {}

    def get_folder(self, key: str) -> Path:
        return self._folder / make_file_name(key)

    def list_keys(self) -> tuple[str, ...]:
        return tuple(sorted(self._find_folders()))

    def open_log(self, key: str, *, in_use: frozenset[str]) -> ProcessLog:
        """Open the log of a process that is being started. `in_use` are the keys whose logs must stay."""
        folder = self.get_folder(key)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if key not in self._find_folders():
            (folder / _KEY_FILE).write_text(key, encoding="utf-8")
        self._forget_oldest(in_use | {key})
        return self._get_log(key)

    async def read_log(self, query: ReadLog) -> ReadLogReply:
        """Return lines after a number, or with a negative number the last of that many."""
        if not query.key:
            return ReadLogReply(keys=self.list_keys())
        if query.key not in self._logs and query.key not in self._find_folders():
            raise NotFound(f"There is no log of {query.key[:80]!r}.", code="log_not_found")
        log_file = self._get_log(query.key)
        if query.wait_s > 0 and query.after >= log_file.last:
            await log_file.wait_for_growth(query.wait_s)
        lines = log_file.read(query.after, query.limit)
        # A reader whose number is too high has read another log before, and continues with this one.
        last_number = lines[-1].number if lines else min(max(query.after, 0), log_file.last)
        return ReadLogReply(lines=lines, first=log_file.first, next=last_number)

    def _get_log(self, key: str) -> ProcessLog:
        if key not in self._logs:
            self._logs[key] = ProcessLog(self.get_folder(key), self.limits)
        return self._logs[key]

    def _find_folders(self) -> dict[str, Path]:
        """Return keys and their folders, the one written to last at the end."""
        files = [path for path in self._folder.glob(f"*/{_KEY_FILE}") if path.is_file()]
        files.sort(key=lambda path: path.parent.stat().st_mtime_ns)
        return {path.read_text(encoding="utf-8"): path.parent for path in files}

    def _forget_oldest(self, in_use: frozenset[str]) -> None:
        found = self._find_folders()
        spare = [key for key in found if key not in in_use]
        for key in spare[: max(0, len(found) - self.limits.keys)]:
            shutil.rmtree(found[key], ignore_errors=True)
            self._logs.pop(key, None)
