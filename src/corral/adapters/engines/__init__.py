"""Engines over HTTP, with aiohttp: one pool of kept connections, bytes in, bytes out.

Nothing limits how long an answer takes: a long prompt is silent for minutes. What is limited is how long it takes to
be connected. A connection that its engine closed while it was idle looks like an engine that died; the caller tries
once more. The library is imported at the first call, like everywhere in a frontend.
"""

from __future__ import annotations

import asyncio
import errno
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from corral.ports.engines import EngineAnswer, EngineCall, EngineLost, EngineRefused

if TYPE_CHECKING:
    import aiohttp

CONNECT_TIMEOUT_S = 5.0
KEPT_OPEN_S = 30.0
# Pieces are passed on as they come; this is how much may lie here while a client is slow.
BUFFER_BYTES = 64 * 1024


class _Answer:
    def __init__(self, response: aiohttp.ClientResponse, address: str) -> None:
        self._response = response
        self._address = address

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def content_type(self) -> str:
        return self._response.headers.get("Content-Type", "application/json")

    async def pieces(self) -> AsyncIterator[bytes]:
        import aiohttp  # noqa: PLC0415 - late, see above

        try:
            async for piece in self._response.content.iter_any():
                yield piece
        except (aiohttp.ClientError, OSError) as error:
            raise _lost(self._address, error) from error


class HttpEngines:
    """A service: its connections are closed with it."""

    name = "engines"

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @asynccontextmanager
    async def call(self, call: EngineCall) -> AsyncIterator[EngineAnswer]:
        if self._session is None:
            await asyncio.to_thread(import_module, "aiohttp")
        import aiohttp  # noqa: PLC0415 - late, see above; it is there by now

        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if call.key:
            headers["Authorization"] = f"Bearer {call.key}"
        try:
            response = await self._opened().post(
                f"http://{call.address}{call.path}", data=_payload(call.body), headers=headers, allow_redirects=False
            )
        except aiohttp.ClientConnectorError as error:
            if error.os_error.errno == errno.ECONNREFUSED:
                raise EngineRefused(f"Nobody listens at {call.address}.") from error
            raise _lost(call.address, error) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _lost(call.address, error) from error
        try:
            yield _Answer(response, call.address)
        finally:
            # Whole: the connection is kept. Not whole: it is closed, and the engine stops working for nobody.
            response.release() if response.content.is_eof() else response.close()

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp  # noqa: PLC0415 - late, see above

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_OPEN_S),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
                auto_decompress=False,
                read_bufsize=BUFFER_BYTES,
                trust_env=False,
            )
        return self._session


def _payload(body: bytes) -> bytes | io.BytesIO:
    """A large body goes out piece by piece, so that others get their turn meanwhile."""
    return body if len(body) <= BUFFER_BYTES else io.BytesIO(body)


def _lost(address: str, error: BaseException) -> EngineLost:
    reason = "no connection in time" if isinstance(error, TimeoutError) else f"{type(error).__name__}"
    return EngineLost(f"The engine at {address} broke the connection ({reason}).")
