"""The pipe between the runner and its worker: reads messages from stdin, writes messages to stdout.

A line that cannot be read is logged without its content and skipped. Writing waits while the worker is slow, so that a
fast model fills no memory. After the pipe has broken, `on_broken` is called and writing does nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import BinaryIO

import structlog

from corral.domain.errors import TooLarge
from corral.runner.line_splitter import LineSplitter
from corral.wire.base import LenientModel
from corral.wire.runner_protocol import LINE_BYTES_MAX, TO_RUNNER, MalformedLine, decode_line, encode_line

log = structlog.get_logger(__name__)

_CHUNK_BYTES = 256 * 1024


class WorkerLink:
    """Sends and receives the messages between the runner process and its worker (`wire/runner_protocol.py`)."""

    def __init__(
        self, reader: asyncio.StreamReader, source: asyncio.ReadTransport, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._source = source
        self._writer = writer
        self._lock = asyncio.Lock()
        self._is_broken = False
        self.on_broken: Callable[[], None] = _ignore

    @classmethod
    async def open(cls, source: BinaryIO, target: BinaryIO) -> WorkerLink:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
        reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
        # A reader that nothing is fed to: its protocol is the one of asyncio that can wait for a slow pipe.
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), target
        )
        return cls(reader, reading, asyncio.StreamWriter(transport, protocol, None, loop))

    async def read(self) -> AsyncIterator[LenientModel | MalformedLine]:
        """Yield messages until the worker closes the pipe. One that is invalid but has an id is yielded as error."""
        splitter = LineSplitter(LINE_BYTES_MAX)
        dropped = 0
        while chunk := await self._reader.read(_CHUNK_BYTES):
            for line in splitter.feed(chunk):
                if not line.strip():
                    continue
                try:
                    message = decode_line(line, TO_RUNNER)
                except MalformedLine as error:
                    log.warning("line of the worker ignored", reason=error.message)
                    if error.details.get("run_id") or error.details.get("id"):
                        yield error
                    continue
                if message is not None:
                    yield message
            if splitter.too_long > dropped:
                dropped = splitter.too_long
                log.warning("line of the worker ignored", reason="It is too long.")

    async def send(self, message: LenientModel) -> None:
        """Write one message. Raises `TooLarge`; no-op after the pipe has broken."""
        line = encode_line(message)
        if self._is_broken:
            return
        try:
            async with self._lock:
                self._writer.write(line)
                await self._writer.drain()
        except ConnectionError:
            self._is_broken = True
            self.on_broken()

    def close(self) -> None:
        """Close both pipes: the worker reads the end of the output."""
        self._source.close()
        self._writer.close()

    async def send_or(self, message: LenientModel, smaller: LenientModel) -> None:
        """Write a message, or another one if it is too large for a line."""
        try:
            await self.send(message)
        except TooLarge:
            await self.send(smaller)


def _ignore() -> None:
    pass
