"""Is an engine ready? A GET of its own path that answers 200, within two seconds. Anything else is "not yet"."""

from __future__ import annotations

import errno
import socket

import aiohttp

LIMIT_S = 2.0


class HttpReady:
    """One session for all probes, made when it is needed first."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, url: str, api_key: str) -> bool:
        if self._session is None:
            # No connection is kept: the next probe of this port may be for another process.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True), timeout=aiohttp.ClientTimeout(total=LIMIT_S)
            )
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        try:
            async with self._session.get(url, headers=headers, allow_redirects=False) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def is_bindable(host: str, port: int) -> bool:
    """Whether an engine could listen there now. Ports that rest after a connection count as free, as for engines."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            # A host that cannot be bound at all is told by the engine, with a better sentence.
            return error.errno not in (errno.EADDRINUSE, errno.EACCES)
    return True
