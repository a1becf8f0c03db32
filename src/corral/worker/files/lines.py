"""Chunks over plain connections in threads of their own: from the socket through one small buffer into `put`.

The event loop has nothing to do with the bytes; that is what makes this as fast as programs that do nothing else.
Connections are kept between chunks. Silence is bounded as everywhere, and a cancelled call breaks its connection.
Limit: no proxies and no redirects, which other nodes and frontends do not have; `transfer/http.py` is for the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlsplit

from corral.domain.errors import CorralError
from corral.transfer.faults import SourceFailed
from corral.transfer.http import shown
from corral.transfer.options import Patience

_CONNECT_S = 5.0
# Small enough to stay in the cache of a processor's core; told about as often.
_PIECE_BYTES = 512 * 1024
_CERTIFICATES = ("SSL_CERT_FILE", "PIP_CERT")
# Connections that nobody uses are kept up to this number for each address.
_IDLE_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A range of what is at an address, and what to do with each piece of it, in the thread. A piece is good until the
    call returns."""

    url: str
    start: int
    length: int
    total: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    put: Callable[[memoryview], None]
    # Bytes so far; called in the event loop.
    moved: Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An answer without the bytes."""

    status: int
    headers: Mapping[str, str]


class Lines:
    def __init__(self, patience: Patience, environment: Mapping[str, str], *, parallel: int) -> None:
        self._patience = patience
        self._environment = environment
        self._pool = ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="fetch")
        self._idle: dict[str, list[http.client.HTTPConnection]] = {}
        self._own = threading.local()
        self._lock = threading.Lock()

    def close(self) -> None:
        """After the last call has ended."""
        self._pool.shutdown(wait=True)
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    async def fetch(self, wanted: Wanted) -> Refused | None:
        """All bytes were put, or why there are none; `SourceFailed` if nothing came of it, and some may have been."""
        call = _Call(asyncio.get_running_loop())
        future = call.loop.run_in_executor(self._pool, self._fetch, wanted, call)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            call.end()
            await asyncio.wait({future})
            future.exception()
            raise

    # --- in threads ---

    def _fetch(self, wanted: Wanted, call: _Call) -> Refused | None:
        try:
            connection, response = self._ask(wanted, call)
            with contextlib.closing(response):
                is_all = response.status == HTTPStatus.OK and wanted.length == wanted.total
                if response.status != HTTPStatus.PARTIAL_CONTENT and not is_all:
                    connection.close()
                    return Refused(status=response.status, headers=dict(response.getheaders()))
                self._read(wanted, response, connection, call)
        except (http.client.HTTPException, OSError, ValueError) as error:
            call.drop()
            reason = str(error) or type(error).__name__
            raise SourceFailed(f"{shown(wanted.url)} broke off: {reason}.", code="source_unavailable") from error
        except _NotKept as error:
            call.drop()
            raise error.reason from None
        except SourceFailed:
            call.drop()
            raise
        self._keep(wanted, connection)
        return None

    def _ask(self, wanted: Wanted, call: _Call) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        parts = urlsplit(wanted.url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        last = wanted.start + wanted.length - 1
        headers = {**wanted.headers, "Accept-Encoding": "identity", "Range": f"bytes={wanted.start}-{last}"}
        while True:
            connection, is_fresh = self._connection(wanted.url)
            try:
                call.use(connection)
                if connection.sock is None:
                    connection.connect()
                call.check()
                assert isinstance(connection.sock, socket.socket), "it is connected"
                connection.sock.settimeout(self._patience.header_s)
                connection.request("GET", target, headers=headers)
                response = connection.getresponse()
                connection.sock.settimeout(self._patience.stall_s)
            except (ConnectionError, http.client.BadStatusLine):
                connection.close()
                # One that was kept may have been closed by the other side meanwhile.
                if is_fresh:
                    raise
                call.check()
            else:
                return connection, response

    def _read(
        self, wanted: Wanted, response: http.client.HTTPResponse, connection: http.client.HTTPConnection, call: _Call
    ) -> None:
        if response.length != wanted.length:
            raise SourceFailed(f"{shown(wanted.url)} sends more or less than was asked for.", code="bad_answer")
        receive = _receiver(response, connection, self._patience.stall_s)
        buffer, filled = self._buffer(), 0
        while filled < wanted.length:
            call.check()
            count = receive(buffer[: wanted.length - filled])
            if not count:
                raise SourceFailed(f"{shown(wanted.url)} ended too early.", code="source_unavailable")
            try:
                wanted.put(buffer[:count])
            except (CorralError, OSError) as error:
                raise _NotKept(error) from error
            filled += count
            call.tell(wanted.moved, filled)
        if response.will_close:
            connection.close()

    def _buffer(self) -> memoryview:
        """One for each thread: fresh memory for every chunk would cost as much as copying it."""
        if not hasattr(self._own, "buffer"):
            self._own.buffer = bytearray(_PIECE_BYTES)
        return memoryview(self._own.buffer)

    def _connection(self, url: str) -> tuple[http.client.HTTPConnection, bool]:
        """One that is kept, or a fresh one."""
        parts = urlsplit(url)
        with self._lock:
            idle = self._idle.get(parts.netloc)
            if idle:
                return idle.pop(), False
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=_CONNECT_S, context=self._tls()), True
        return http.client.HTTPConnection(host, port, timeout=_CONNECT_S), True

    def _keep(self, wanted: Wanted, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            idle = self._idle.setdefault(urlsplit(wanted.url).netloc, [])
            if connection.sock is not None and len(idle) < _IDLE_MAX:
                idle.append(connection)
                return
        connection.close()

    def _tls(self) -> ssl.SSLContext:
        files = (self._environment.get(name) for name in _CERTIFICATES)
        return ssl.create_default_context(cafile=next(filter(None, files), None))


class _NotKept(Exception):
    """Bytes came and could not be put away: that is nobody's fault but ours. It never leaves this file."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason
        super().__init__(reason)


def _receiver(
    response: http.client.HTTPResponse, connection: http.client.HTTPConnection, stall_s: float
) -> Callable[[memoryview], int]:
    """What fills a buffer, or as much of it as still comes; 0 at the end.

    From a plain socket one call of the kernel's does it. Otherwise it takes several, each with a wait of Python's own
    before it.
    """
    own = connection.sock
    if not isinstance(own, socket.socket) or isinstance(own, ssl.SSLSocket) or sys.platform == "win32":
        return response.readinto
    # What came together with the headers.
    first = bytes(response.fp.peek())
    response.fp.read(len(first))
    own.settimeout(None)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(stall_s), int(stall_s % 1 * 1e6)))

    def receive(into: memoryview) -> int:
        nonlocal first
        count = min(len(first), len(into))
        into[:count], first = first[:count], first[count:]
        if count == len(into):
            return count
        try:
            return count + own.recv_into(into[count:], len(into) - count, socket.MSG_WAITALL)
        except BlockingIOError:
            raise TimeoutError(f"no byte for {stall_s:g} s") from None

    return receive


class _Call:
    """One call in its thread, as the event loop holds on to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._connection: http.client.HTTPConnection | None = None
        self._has_ended = False

    def use(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def check(self) -> None:
        if self._has_ended:
            raise ConnectionAbortedError("nobody wants it any more")

    def tell(self, moved: Callable[[int], None], count: int) -> None:
        with contextlib.suppress(RuntimeError):
            # The loop may be closed already.
            self.loop.call_soon_threadsafe(moved, count)

    def end(self) -> None:
        """By the event loop: whatever the thread waits for has an end."""
        self._has_ended = True
        own = self._connection.sock if self._connection is not None else None
        if own is not None:
            with contextlib.suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)

    def drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
