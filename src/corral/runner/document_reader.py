"""Has documents read by `document_program.py`, and ends a process that takes too long or writes too much."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from corral.domain.errors import CorralError
from corral.policy.documents import DocumentKind
from corral.runner.document_program import CPU_S_MAX, TOO_LARGE, UNREADABLE
from corral.wire.runner_protocol import ProgramLimits

# Longer than the processor time that it may use: the machine may be busy.
WALL_S_MAX = 3 * CPU_S_MAX
OUTPUT_BYTES_MAX = 128 * 1024**2
# Documents that are read at the same time by one worker: each may use a gigabyte.
READERS_MAX = 2
_SENTENCE_BYTES_MAX = 1000


class DocumentUnreadable(CorralError):
    """The text of a document could not be read."""

    code = "document_unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOptions:
    """Says how the text of a document is cut: characters of a chunk, and how many it shares with the one before."""

    size: int
    overlap: int


class DocumentReader:
    """Turns documents into chunks of text, each in a process of its own."""

    def __init__(self, limits: ProgramLimits, environment: Mapping[str, str]) -> None:
        self._limits = limits
        self._environment = environment
        self._free = asyncio.Semaphore(READERS_MAX)

    async def read(self, kind: DocumentKind, content: bytes, options: ChunkOptions) -> list[str]:
        """Return the chunks of a document. Raises `DocumentUnreadable`."""
        async with self._free:
            process = await self._start(kind, options)
            try:
                async with asyncio.timeout(WALL_S_MAX):
                    output, sentence = await _communicate(process, content)
                    code = await process.wait()
            except TimeoutError as error:
                text = f"Reading the document takes more than {WALL_S_MAX:.0f} s."
                raise DocumentUnreadable(text, code="document_too_large") from error
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()
        if code != 0:
            raise _make_error(code, sentence)
        return [str(chunk) for chunk in json.loads(output)]

    async def _start(self, kind: DocumentKind, options: ChunkOptions) -> asyncio.subprocess.Process:
        user = (self._limits.uid, self._limits.gid)
        uid, gid = user if user[0] is not None and user[1] is not None else (-1, -1)
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "corral.runner.document_program", kind, str(options.size), str(options.overlap)),
            *(str(uid), str(gid)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # None of the worker's variables: they may hold secrets.
            env=dict(self._environment),
            start_new_session=True,
        )


async def _communicate(process: asyncio.subprocess.Process, content: bytes) -> tuple[bytes, str]:
    """Give a process its input, and return what it writes. Raises `DocumentUnreadable` if that is too much."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.TaskGroup() as group:
        group.create_task(_write(process.stdin, content))
        output = group.create_task(_read(process.stdout, OUTPUT_BYTES_MAX))
        errors = group.create_task(_read(process.stderr, 1024**2))
    return output.result(), errors.result().decode(errors="replace").strip()[-_SENTENCE_BYTES_MAX:]


async def _write(stream: asyncio.StreamWriter, content: bytes) -> None:
    # A process that has ended reads no more; its exit code says why.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stream.write(content)
        await stream.drain()
    stream.close()


async def _read(stream: asyncio.StreamReader, limit: int) -> bytes:
    found = bytearray()
    while piece := await stream.read(64 * 1024):
        if len(found) <= limit:
            found += piece
    if len(found) > limit:
        raise DocumentUnreadable("The text of the document is too large.", code="document_too_large")
    return bytes(found)


def _make_error(code: int, sentence: str) -> DocumentUnreadable:
    last = sentence.splitlines()[-1] if sentence else ""
    if code == UNREADABLE:
        return DocumentUnreadable(last or "The document is damaged.")
    if code == TOO_LARGE:
        return DocumentUnreadable(last or "The document is too large.", code="document_too_large")
    if code < 0:
        # Killed at one of its limits, or by the system for want of memory.
        text = f"Reading the document needs more time or memory than it may ({signal.Signals(-code).name})."
        return DocumentUnreadable(text, code="document_too_large")
    # The last line of a traceback begins with the name of what was raised.
    return DocumentUnreadable(f"The document is damaged, or not what its name says ({last.partition(':')[0][:100]}).")
