"""A TCP proxy that a test can cut and restore, while the server behind it goes on running, and that can record."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_READ_BYTES = 64 * 1024


class CuttableProxy:
    def __init__(self, host: str, port: int) -> None:
        self._remote = (host, port)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0
        # Everything that passes, in both directions, once a test has set a list.
        self.recorded: list[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def restore(self) -> None:
        """Listen again, on the same port as before."""
        self._server = await asyncio.start_server(self._bridge, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Abort all connections and refuse new ones."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for writer in tuple(self._open):
            writer.transport.abort()

    async def _bridge(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._remote)
        self._open |= {writer, far_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy_bytes(reader, far_writer))
                group.create_task(self._copy_bytes(far_reader, writer))
        finally:
            self._open -= {writer, far_writer}
            writer.close()
            far_writer.close()

    async def _copy_bytes(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(_READ_BYTES):
                if self.recorded is not None:
                    self.recorded.append(data)
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def run_cuttable_proxy(host: str, port: int) -> AsyncIterator[CuttableProxy]:
    wire = CuttableProxy(host, port)
    await wire.restore()
    try:
        yield wire
    finally:
        await wire.cut()
