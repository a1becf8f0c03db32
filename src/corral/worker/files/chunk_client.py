"""Holds the sources of each content, and fetches chunks from them over plain connections in threads of their own.

The event loop has nothing to do with the bytes, which makes this as fast as programs that do nothing else. Connections
are kept between chunks. Silence is bounded as everywhere, and a cancelled call breaks its connection. Limit: no proxies
and no redirects, which other nodes and frontends do not have; `transfer/http_client.py` has both.
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
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import quote, urlsplit

from corral.bus.messages import BlobSource
from corral.domain.errors import CorralError
from corral.transfer.faults import SourceFailed
from corral.transfer.http_client import TransferOptions, redact_url

_CONNECT_S = 5.0
# Small enough to stay in the cache of a processor's core; progress is reported about as often.
_PIECE_BYTES = 512 * 1024
_CERTIFICATES = ("SSL_CERT_FILE", "PIP_CERT")
# Idle connections are kept up to this number for each address.
_IDLE_MAX = 8
_FIRST_REST_S = 1.0
_LONGEST_REST_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRequest:
    """A request of a worker for a range of bytes of a model file, with callbacks for pieces and progress."""

    url: str
    start: int
    length: int
    total: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    put: Callable[[memoryview], None]
    # Called in the event loop with the bytes so far.
    on_progress: Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRefusal:
    """The status and headers of an HTTP response that refused to deliver a chunk of a model file."""

    status: int
    headers: Mapping[str, str]


class ChunkClient:
    """Fetches chunks of model files over kept-alive HTTP connections, in threads instead of the event loop."""

    def __init__(self, options: TransferOptions, environment: Mapping[str, str], *, parallel: int) -> None:
        self._options = options
        self._environment = environment
        self._pool = ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="fetch")
        self._idle: dict[str, list[http.client.HTTPConnection]] = {}
        self._thread_local = threading.local()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close all connections. Call after the last fetch has ended."""
        self._pool.shutdown(wait=True)
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    async def fetch(self, request: ChunkRequest) -> ChunkRefusal | None:
        """Fetch a range; None if all bytes were put, else the refusal. `SourceFailed` if the transfer broke off,
        possibly after some bytes were put."""
        call = _ThreadCall(asyncio.get_running_loop())
        future = call.loop.run_in_executor(self._pool, self._fetch, request, call)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            call.abort()
            await asyncio.wait({future})
            future.exception()
            raise

    # --- in threads ---

    def _fetch(self, request: ChunkRequest, call: _ThreadCall) -> ChunkRefusal | None:
        try:
            connection, response = self._send_request(request, call)
            with contextlib.closing(response):
                is_all = response.status == HTTPStatus.OK and request.length == request.total
                if response.status != HTTPStatus.PARTIAL_CONTENT and not is_all:
                    connection.close()
                    return ChunkRefusal(status=response.status, headers=dict(response.getheaders()))
                self._read(request, response, connection, call)
        except (http.client.HTTPException, OSError, ValueError) as error:
            call.close_connection()
            reason = str(error) or type(error).__name__
            raise SourceFailed(f"{redact_url(request.url)} broke off: {reason}.", code="source_unavailable") from error
        except _PieceNotWritten as error:
            call.close_connection()
            raise error.reason from None
        except SourceFailed:
            call.close_connection()
            raise
        self._keep_connection(request, connection)
        return None

    def _send_request(
        self, request: ChunkRequest, call: _ThreadCall
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        parts = urlsplit(request.url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        last = request.start + request.length - 1
        headers = {**request.headers, "Accept-Encoding": "identity", "Range": f"bytes={request.start}-{last}"}
        while True:
            connection, is_fresh = self._take_connection(request.url)
            try:
                call.set_connection(connection)
                if connection.sock is None:
                    connection.connect()
                call.raise_if_ended()
                assert isinstance(connection.sock, socket.socket), "it is connected"
                connection.sock.settimeout(self._options.header_s)
                connection.request("GET", target, headers=headers)
                response = connection.getresponse()
                connection.sock.settimeout(self._options.stall_s)
            except (ConnectionError, http.client.BadStatusLine):
                connection.close()
                # The other side may have closed a kept connection meanwhile.
                if is_fresh:
                    raise
                call.raise_if_ended()
            else:
                return connection, response

    def _read(
        self,
        request: ChunkRequest,
        response: http.client.HTTPResponse,
        connection: http.client.HTTPConnection,
        call: _ThreadCall,
    ) -> None:
        if response.length != request.length:
            raise SourceFailed(
                f"{redact_url(request.url)} sent more or less than the requested range.", code="bad_answer"
            )
        receive = _make_receiver(response, connection, self._options.stall_s)
        buffer, filled = self._get_buffer(), 0
        while filled < request.length:
            call.raise_if_ended()
            count = receive(buffer[: request.length - filled])
            if not count:
                raise SourceFailed(
                    f"{redact_url(request.url)} ended the response too early.", code="source_unavailable"
                )
            try:
                request.put(buffer[:count])
            except (CorralError, OSError) as error:
                raise _PieceNotWritten(error) from error
            filled += count
            call.report_progress(request.on_progress, filled)
        if response.will_close:
            connection.close()

    def _get_buffer(self) -> memoryview:
        """Return this thread's buffer: fresh memory for every chunk would cost as much as copying it."""
        if not hasattr(self._thread_local, "buffer"):
            self._thread_local.buffer = bytearray(_PIECE_BYTES)
        return memoryview(self._thread_local.buffer)

    def _take_connection(self, url: str) -> tuple[http.client.HTTPConnection, bool]:
        """Return a kept connection, or a fresh one, and whether it was kept."""
        parts = urlsplit(url)
        with self._lock:
            idle = self._idle.get(parts.netloc)
            if idle:
                return idle.pop(), False
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=_CONNECT_S, context=self._make_tls_context()), True
        return http.client.HTTPConnection(host, port, timeout=_CONNECT_S), True

    def _keep_connection(self, request: ChunkRequest, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            idle = self._idle.setdefault(urlsplit(request.url).netloc, [])
            if connection.sock is not None and len(idle) < _IDLE_MAX:
                idle.append(connection)
                return
        connection.close()

    def _make_tls_context(self) -> ssl.SSLContext:
        files = (self._environment.get(name) for name in _CERTIFICATES)
        return ssl.create_default_context(cafile=next(filter(None, files), None))


class _PieceNotWritten(Exception):
    """Bytes arrived and could not be written here; the source is not to blame. Never leaves this module."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason
        super().__init__(reason)


def _make_receiver(
    response: http.client.HTTPResponse, connection: http.client.HTTPConnection, stall_s: float
) -> Callable[[memoryview], int]:
    """Return a function that fills a buffer, or as much of it as still comes; it returns 0 at the end.

    From a plain socket one system call does it. Otherwise several are needed, each with a wait of Python's own before
    it.
    """
    own = connection.sock
    if not isinstance(own, socket.socket) or isinstance(own, ssl.SSLSocket) or sys.platform == "win32":
        return response.readinto
    # Bytes that arrived together with the headers.
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


class _ThreadCall:
    """Lets the event loop abort one fetch that runs in a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._connection: http.client.HTTPConnection | None = None
        self._has_ended = False

    def set_connection(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def raise_if_ended(self) -> None:
        if self._has_ended:
            raise ConnectionAbortedError("the fetch was cancelled")

    def report_progress(self, on_progress: Callable[[int], None], count: int) -> None:
        with contextlib.suppress(RuntimeError):
            # The loop may be closed already.
            self.loop.call_soon_threadsafe(on_progress, count)

    def abort(self) -> None:
        """Abort the fetch, from the event loop: whatever the thread waits for ends."""
        self._has_ended = True
        own = self._connection.sock if self._connection is not None else None
        if own is not None:
            with contextlib.suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)

    def close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryAccess:
    """How a worker reaches the frontends' library of model files: addresses, its credential and its node id."""

    urls: tuple[str, ...]
    credential: str = field(repr=False)
    # None until the node has been registered.
    get_node_id: Callable[[], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobAddress:
    """An address at which a worker can read one model file, and its list of chunk hashes if the source is trusted."""

    url: str
    chunks_url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Whether to use a proxy, if there is one: other nodes and the frontends are never behind it.
    is_external: bool = False
    is_node: bool = False
    # Where damaged bytes of this source are reported to the frontends; empty if nowhere.
    damage_url: str = ""


@dataclass(slots=True, kw_only=True)
class ChunkSource:
    """One source (node, frontend or storage) of a model file during a transfer, with its failures and pauses."""

    address: BlobAddress
    is_excluded: bool = False
    # The source is not tried before this moment.
    paused_until: float = 0.0
    # The latest failure, as a sentence for people.
    last_failure: str = ""
    _pause_s: float = 0.0
    # For a node that is still fetching: how many chunks it has, and since when.
    _chunk_count: int = -2
    _moved_at: float = 0.0

    def record_success(self) -> None:
        self._pause_s = 0.0

    def record_failure(self, reason: str, now: float) -> None:
        self.last_failure = reason
        if now < self.paused_until:
            # Several requests that failed together count as one failure.
            return
        self._pause_s = min(_LONGEST_REST_S, max(_FIRST_REST_S, 2 * self._pause_s))
        self.paused_until = now + self._pause_s

    def record_not_yet(self, chunk_count: int, now: float, limit_s: float) -> None:
        """Record that the source has `chunk_count` chunks and the requested one is not among them; -1: it has not
        begun."""
        if chunk_count != self._chunk_count:
            self._chunk_count, self._moved_at = chunk_count, now
        elif now - self._moved_at > limit_s:
            self.record_failure(f"{redact_url(self.address.url)} makes no progress", now)

    def exclude(self, reason: str) -> None:
        self.last_failure, self.is_excluded = reason, True


class ChunkSources:
    """The sources of one model file in the order in which a worker tries them; picks the next one."""

    def __init__(self) -> None:
        self._sources: dict[str, ChunkSource] = {}

    def add(self, addresses: Iterable[BlobAddress]) -> None:
        for address in addresses:
            known = self._sources.get(address.url)
            if known is None:
                self._sources[address.url] = ChunkSource(address=address)
            elif known.address.headers != address.headers:
                # The address has a fresh ticket. An excluded source stays excluded.
                known.address = address

    def find_best(self, now: float) -> ChunkSource | None:
        """Return the first source that is not pausing."""
        return next(
            (each for each in self._sources.values() if not each.is_excluded and each.paused_until <= now), None
        )

    def find_next_time(self) -> float | None:
        """Return when the next source ends its pause; None if none is left."""
        return min((each.paused_until for each in self._sources.values() if not each.is_excluded), default=None)

    @property
    def are_all_excluded(self) -> bool:
        """Return whether sources are known, and all of them have sent wrong bytes."""
        return bool(self._sources) and all(each.is_excluded for each in self._sources.values())

    def list_chunk_list_sources(self) -> list[ChunkSource]:
        """Return the sources whose list of chunks is trusted."""
        return [each for each in self._sources.values() if each.address.chunks_url]

    def describe_failures(self) -> str:
        """Return why the content cannot be fetched, for people."""
        failures = [each.last_failure for each in self._sources.values() if each.last_failure]
        return "; ".join(dict.fromkeys(failures)) or "no known source has it"


def list_addresses(sources: Iterable[BlobSource], sha256: str, library: LibraryAccess) -> list[BlobAddress]:
    """Return the addresses of one content, in the order of the sources. The library is always the last resort: its list
    of chunks is needed, whichever source delivers them."""
    found: list[BlobAddress] = []
    for source in sources:
        if source.sha256 not in ("", sha256):
            continue
        if source.kind == "node":
            url = source.url if "://" in source.url else f"http://{source.url}"
            headers = {"Authorization": f"Bearer {source.ticket}"} if source.ticket else {}
            found.append(BlobAddress(url=f"{url.rstrip('/')}/v1/blobs/{sha256}", headers=headers, is_node=True))
        elif source.kind == "storage":
            # A signed address carries its authorisation in the query.
            chunks_url = "" if "?" in source.url else f"{source.url}.chunks"
            damage_url = next((each.damage_url for each in _list_library_addresses(sha256, library, library.urls)), "")
            found.append(BlobAddress(url=source.url, chunks_url=chunks_url, is_external=True, damage_url=damage_url))
        elif source.kind == "library":
            found += _list_library_addresses(sha256, library, (source.url,) if source.url else library.urls)
    return [*found, *_list_library_addresses(sha256, library, library.urls)]


def _list_library_addresses(sha256: str, library: LibraryAccess, frontends: Iterable[str]) -> list[BlobAddress]:
    node_id = library.get_node_id()
    if node_id is None:
        return []
    headers = {"Authorization": f"Bearer {library.credential}"}
    found = []
    for frontend in frontends:
        url = f"{frontend.rstrip('/')}/api/node/{quote(node_id, safe='')}/blobs/{sha256}"
        found.append(BlobAddress(url=url, chunks_url=f"{url}/chunks", headers=headers, damage_url=f"{url}/damage"))
    return found
