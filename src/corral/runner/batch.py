"""Executes a batch: checks its input, answers its lines several at a time, and delivers them in their order.

    reading --> answering (at most LINES_AT_A_TIME) --> delivering (the answered lines before the first open one)

Guarantees: a delivery holds the lines behind the cursor, without a gap, and the cursor behind them; so a batch that is
begun again goes on behind the last delivery, and only lines that were not delivered are sent again. An error of a
line is a line of the file of errors. Memory is bounded by the window of lines that are read and not delivered.
"""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from corral.domain.errors import CorralError
from corral.domain.run import RunEventType
from corral.policy.batches import (
    LINE_BYTES_MAX,
    BatchInputChecker,
    BatchLineFault,
    parse_line,
    render_failure,
)
from corral.ports.runtime import Clock
from corral.runner.batch_client import BatchClient, LineAnswer
from corral.runner.guarded_execution import run_guarded
from corral.runner.tool_executor import EventEmitter
from corral.wire.run_work import RunOutcome, RunSpec
from corral.wire.runner_protocol import CallMethod

LINES_AT_A_TIME = 8
# Lines that are read and not delivered: a slow line holds up the delivery of those behind it.
WINDOW_LINES = 64
WINDOW_BYTES = 16 * 1024 * 1024
# One delivery, but for its last line.
DELIVERY_BYTES = 2 * 1024 * 1024
# Each delivery is a transaction; a kill costs what was answered since the last one.
DELIVERY_PAUSE_S = 0.5
READ_BYTES = 1024 * 1024
# Lines that are checked before others have their turn.
CHECKED_AT_A_TIME = 200
REPORT_INTERVAL_S = 60.0


class BatchCursorMoved(CorralError):
    """The position in the batch's input file is not where its only worker has left it."""

    code = "batch_cursor_moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchChannels:
    """Connects the execution of one batch in the runner process with its worker: trace entries and calls."""

    emit: EventEmitter
    # Ask a frontend through the worker: method, parameters. Raises `CorralError`.
    call: Callable[[CallMethod, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLine:
    """One line of a batch's input file that is not blank. `end_byte` is behind its line break."""

    # Counts the lines that are not blank, from 1.
    number: int
    # Counts all lines, from 1. Only known if the input is read from its beginning.
    file_line: int
    end_byte: int
    content: bytes


@dataclass(slots=True, eq=False)
class _WindowLine:
    """Holds a line that was read and not delivered yet."""

    line: InputLine
    answer: LineAnswer | None = None


class BatchInput:
    """Reads the lines of a batch's input file from a position on, through the worker."""

    def __init__(self, channels: BatchChannels, start_byte: int, start_line: int) -> None:
        self._channels = channels
        self._read_byte = self._end_byte = start_byte
        self._number = start_line

    async def iter_lines(self) -> AsyncIterator[InputLine]:
        """Yield the lines. A line that is too long is yielded without its end, and is the last one."""
        buffer, file_line = bytearray(), 0
        while True:
            piece = await self._read()
            buffer += piece
            lines = bytes(buffer).split(b"\n")
            # Behind the last line break; at the end of the input this is a line, too.
            rest = lines.pop()
            is_end, is_too_long = not piece, len(rest) > LINE_BYTES_MAX
            buffer = bytearray(rest)
            for content in lines:
                file_line += 1
                self._end_byte += len(content) + 1
                if content.strip():
                    yield self._make_line(file_line, content)
            if (is_end and rest.strip()) or is_too_long:
                self._end_byte += len(rest)
                yield self._make_line(file_line + 1, rest)
            if is_end or is_too_long:
                return

    def _make_line(self, file_line: int, content: bytes) -> InputLine:
        self._number += 1
        return InputLine(number=self._number, file_line=file_line, end_byte=self._end_byte, content=content)

    async def _read(self) -> bytes:
        reply = await self._channels.call("read_batch", {"start": self._read_byte, "limit": READ_BYTES})
        piece = base64.b64decode(str(reply.get("content", "")))
        self._read_byte += len(piece)
        return piece


class BatchExecution:
    """Executes one batch of inference requests in the runner process.

    Cancelled from outside when a person or its deadline says so.
    """

    def __init__(self, spec: RunSpec, client: BatchClient, clock: Clock, channels: BatchChannels) -> None:
        self._spec = spec
        self._client = client
        self._clock = clock
        self._channels = channels
        self._endpoint = str(spec.extra.get("endpoint", ""))
        self._next_byte = int(spec.extra.get("next_byte", 0))
        self._next_line = int(spec.extra.get("next_line", 0))
        self._window: deque[_WindowLine] = deque()
        self._window_bytes = 0
        self._slots = asyncio.Semaphore(LINES_AT_A_TIME)
        self._answered_event = asyncio.Event()
        self._room_event = asyncio.Event()
        self._is_read = False
        self._usage = {"prompt_tokens": 0, "completion_tokens": 0}
        self._reported_usage = dict(self._usage)
        self._reported_at = clock.monotonic()

    async def run(self) -> RunOutcome:
        """Execute the batch. Only cancellation passes through; every error becomes an outcome."""
        return await run_guarded(self._execute, self.make_failure, run_id=self._spec.run_id, what="The batch")

    def make_failure(self, code: str, sentence: str, reason: str = "error") -> RunOutcome:
        """Return the outcome of a batch that cannot go on; answers that were delivered stay."""
        return RunOutcome(state="failed", reason=reason, error_code=code, error_text=sentence, usage=self._usage)

    def make_cancelled(self) -> RunOutcome:
        return RunOutcome(state="cancelled", reason="cancelled", usage=self._usage)

    async def _execute(self) -> RunOutcome:
        if self._spec.extra.get("is_valid") is not True:
            fault = await self._validate()
            if fault is not None:
                place = "" if fault.line is None else f"Line {fault.line}: "
                return self.make_failure("batch_invalid", f"{place}{fault.message}")
        await self._report(f"Answers the requests behind line {self._next_line}.")
        async with asyncio.TaskGroup() as group:
            group.create_task(self._deliver_all(), name="deliver")
            async for line in BatchInput(self._channels, self._next_byte, self._next_line).iter_lines():
                await self._wait_for_room()
                waiting = _WindowLine(line)
                self._window.append(waiting)
                self._window_bytes += len(line.content)
                await self._slots.acquire()
                group.create_task(self._answer(waiting), name=f"line-{line.number}")
            self._is_read = True
            self._answered_event.set()
        await self._report("All requests are answered.")
        return RunOutcome(state="completed", reason="answer", usage=self._usage)

    # --- checking ---

    async def _validate(self) -> BatchLineFault | None:
        """Check the whole input and report what was found; return the first thing that is wrong."""
        await self._report("Checks the input.")
        checker = BatchInputChecker(self._endpoint)
        async for line in BatchInput(self._channels, 0, 0).iter_lines():
            checker.check_line(line.content, line.file_line)
            if checker.is_full:
                break
            if line.number % CHECKED_AT_A_TIME == 0:
                await self._clock.sleep(0)
        checker.finish()
        errors = [fault.to_json() for fault in checker.faults]
        await self._channels.call("report_validation", {"total": checker.total, "errors": errors})
        return checker.faults[0] if checker.faults else None

    # --- answering ---

    async def _wait_for_room(self) -> None:
        while len(self._window) >= WINDOW_LINES or self._window_bytes > WINDOW_BYTES:
            self._room_event.clear()
            await self._room_event.wait()

    async def _answer(self, waiting: _WindowLine) -> None:
        line = waiting.line
        request_id = f"{self._spec.run_id}_{line.number}"
        try:
            request = parse_line(line.content, self._endpoint, line.number)
            if isinstance(request, BatchLineFault):
                # The input was checked, so this is a line of another version's making.
                failure = render_failure(request_id, "", request.code, request.message)
                answer = LineAnswer(line=failure, is_success=False)
            else:
                answer = await self._client.answer(request, request_id)
        finally:
            self._slots.release()
        self._window_bytes += len(answer.line)
        waiting.answer = answer
        self._answered_event.set()

    # --- delivering ---

    async def _deliver_all(self) -> None:
        while True:
            await self._answered_event.wait()
            self._answered_event.clear()
            while ready := self._list_ready():
                await self._deliver(ready)
                if self._window or not self._is_read:
                    await self._clock.sleep(DELIVERY_PAUSE_S)
            if self._is_read and not self._window:
                return

    def _list_ready(self) -> list[_WindowLine]:
        """Return the answered lines before the first open one, at most so many as fit into one delivery."""
        ready: list[_WindowLine] = []
        size_bytes = 0
        for waiting in self._window:
            if waiting.answer is None or size_bytes > DELIVERY_BYTES:
                break
            ready.append(waiting)
            size_bytes += len(waiting.answer.line)
        return ready

    async def _deliver(self, ready: list[_WindowLine]) -> None:
        answers = [waiting.answer for waiting in ready if waiting.answer is not None]
        good = [answer for answer in answers if answer.is_success]
        bad = [answer for answer in answers if not answer.is_success]
        last = ready[-1].line
        reply = await self._channels.call(
            "store_answers",
            {
                "from_byte": self._next_byte,
                "to_byte": last.end_byte,
                "to_line": last.number,
                "completed": len(good),
                "failed": len(bad),
                "output": b"".join(answer.line for answer in good).decode("ascii"),
                "errors": b"".join(answer.line for answer in bad).decode("ascii"),
            },
        )
        if reply.get("next_byte") != last.end_byte:
            raise BatchCursorMoved
        self._next_byte, self._next_line = last.end_byte, last.number
        for _ in ready:
            self._window.popleft()
        self._window_bytes = sum(
            len(waiting.line.content) + (len(waiting.answer.line) if waiting.answer else 0) for waiting in self._window
        )
        self._room_event.set()
        for answer in answers:
            self._usage["prompt_tokens"] += answer.prompt_tokens
            self._usage["completion_tokens"] += answer.completion_tokens
        if self._clock.monotonic() - self._reported_at >= REPORT_INTERVAL_S:
            await self._report(f"{self._next_line} requests are answered.")

    async def _report(self, sentence: str) -> None:
        """Say in the trace how far the batch is, and what it has used since the last report."""
        self._reported_at = self._clock.monotonic()
        await self._channels.emit(RunEventType.STATUS, {"message": sentence})
        used = {name: count - self._reported_usage[name] for name, count in self._usage.items()}
        if any(used.values()):
            self._reported_usage = dict(self._usage)
            await self._channels.emit(RunEventType.USAGE, used)
