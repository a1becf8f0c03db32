"""Runs one program of a run to its end: JSON lines on its standard output, a group of its own, a limit on files.

Guarantees: the program and everything that it has started are gone when `run` returns, however it returns; a program
whose worker was killed ends by itself, because its standard input is closed; what is kept of its output is bounded.
It runs behind the engines of its node: with a low priority, and with the worker's environment cleaned as theirs is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from corral.domain.errors import CorralError, Unprocessable
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.processes import describe_exit, kill_group

# One line; a longer one is a program out of control.
LINE_BYTES_MAX = 64 * 1024
# Of what the program writes to its standard error.
LAST_WORDS_BYTES = 8 * 1024
TAIL_LINES = 10
LAST_WORDS_S = 1.0
NICENESS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLaunch:
    """Command, environment and folder of a run's program, and how large a file it may write."""

    command: tuple[str, ...] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    directory: Path
    file_bytes_max: int | None = None


class ProgramInput:
    """The standard input of a program, by which its worker can tell it something while it runs."""

    def __init__(self) -> None:
        self._stream: asyncio.StreamWriter | None = None

    def open(self, stream: asyncio.StreamWriter) -> None:
        self._stream = stream

    def write_line(self, text: str) -> None:
        """Write a line; a program that has ended, or has not begun, does not get it."""
        if self._stream is not None and not self._stream.is_closing():
            self._stream.write(f"{text}\n".encode())


async def run_program_lines(
    launch: ProgramLaunch, on_line: Callable[[Mapping[str, Any]], None], program_input: ProgramInput | None = None
) -> dict[str, Any]:
    """Run the program and return the fields of the `result` that it has printed last. `on_line` receives every other
    object. Raises `Unprocessable` with the program's own reason if it fails."""
    loop = asyncio.get_running_loop()
    transport, streams = await loop.subprocess_exec(
        partial(asyncio.subprocess.SubprocessStreamProtocol, limit=LINE_BYTES_MAX, loop=loop),
        *launch.command,
        cwd=launch.directory,
        env=dict(launch.environment),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    process = asyncio.subprocess.Process(transport, streams, loop)
    _limit(process.pid, launch.file_bytes_max)
    if program_input is not None and process.stdin is not None:
        program_input.open(process.stdin)
    assert process.stdout is not None, "the process was started with pipes"
    assert process.stderr is not None, "the process was started with pipes"
    last_words = bytearray()
    ending: dict[str, Any] = {}
    try:
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(_keep_last_words(process.stderr, last_words))
            # As a value: the group would wrap the error.
            reading = await attempt(partial(_read_lines, process.stdout, on_line, ending))
            if isinstance(reading, AttemptFailure):
                kill_group(process.pid)
            code = await process.wait()
            # What the program has started holds its output open.
            kill_group(process.pid)
            await asyncio.wait({listening}, timeout=LAST_WORDS_S)
            listening.cancel()
    finally:
        try:
            kill_group(process.pid)
            await process.wait()
        finally:
            # Pipes that something else holds open would stay open here, too.
            transport.close()
    if isinstance(reading, AttemptFailure):
        raise reading.error
    if isinstance(ending.get("result"), dict) and code == 0:
        return dict(ending["result"])
    raise _make_failure(ending, code, last_words.decode("utf-8", "replace"))


async def _read_lines(
    stdout: asyncio.StreamReader, on_line: Callable[[Mapping[str, Any]], None], ending: dict[str, Any]
) -> None:
    while True:
        try:
            line = await stdout.readline()
        except ValueError as error:
            raise Unprocessable("The program printed a line without an end.", code="program_broken") from error
        if not line:
            return
        fields = _parse(line)
        if "result" in fields or "error" in fields:
            ending.clear()
            ending.update(fields)
        elif fields:
            on_line(fields)


def _parse(line: bytes) -> dict[str, Any]:
    """Return the object of a line; empty for anything else, such as a library's own words."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


async def _keep_last_words(stderr: asyncio.StreamReader, last_words: bytearray) -> None:
    while chunk := await stderr.read(LAST_WORDS_BYTES):
        last_words += chunk
        del last_words[:-LAST_WORDS_BYTES]


def _make_failure(ending: Mapping[str, Any], code: int | None, last_words: str) -> CorralError:
    reason = ending.get("error")
    if isinstance(reason, str) and reason:
        return Unprocessable(reason[:2000], code=str(ending.get("code") or "program_failed")[:64])
    tail = "\n".join(last_words.strip().splitlines()[-TAIL_LINES:])
    sentence = f"The program {describe_exit(code)}."
    return Unprocessable(f"{sentence}\n{tail}" if tail else sentence, code="program_failed")


def _limit(pid: int, file_bytes_max: int | None) -> None:
    """Bound the files that the program writes, and let engines go first. Best effort: it may have ended already."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
    if sys.platform == "linux" and file_bytes_max is not None:
        import resource  # noqa: PLC0415 - not there on Windows

        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))
