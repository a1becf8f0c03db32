"""A port in front of a frontend that a test can close and open again: the frontend is away, and comes back."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from urllib.parse import urlsplit

from corral.runtime.tasks import TaskSet
from tests.support.ports import find_free_port

CHUNK_BYTES = 65536


class Relay:
    """Closed until `open`. Passes bytes both ways and knows nothing about them."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target = (parts.hostname, parts.port)
        self._port = find_free_port()
        self._server: asyncio.Server | None = None
        self._tasks = TaskSet("relay")
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Relay:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
        await self._tasks.close()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)

    async def close(self) -> None:
        """Refuse new connections and cut those that are there."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            await server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        self._writers |= {writer, back}
        self._tasks.start(self._copy(reader, back), name="there")
        self._tasks.start(self._copy(there, writer), name="back")

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(CHUNK_BYTES):
                    writer.write(data)
                    await writer.drain()
        finally:
            self._writers.discard(writer)
            writer.close()
