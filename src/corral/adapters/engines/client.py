"""Calls engines over kept connections: a call is one write, and the response comes back as callbacks.

Guarantee: a call on a kept connection makes no task, no future and no timer. A connection that its engine closed while
it was idle is forgotten at once; one that closes in the moment of a call is replaced without notice, once. Responses
have no time limit here, because an engine may be silent for minutes with a long prompt: the caller sets the limit.
No argument of a call can start a header line of its own; the headers of `EngineRequest.build_engine_headers` are taken
as checked. Limit: plain HTTP/1.1, one call at a time on each connection. The number of calls is not limited here.
"""

from __future__ import annotations

import asyncio
import errno
import re

from corral.adapters.engines.connection import (
    NULL_HANDLER,
    EngineConnection,
    HttpCallHandle,
    ParsedHead,
    UploadCallHandle,
)
from corral.domain.errors import InvalidRequest
from corral.ports.requests import (
    EngineCallHandle,
    EngineEndpoint,
    EngineLost,
    EngineRefused,
    EngineRequest,
    ResponseHandler,
)
from corral.runtime.head_template import HeadTemplateCache
from corral.runtime.read_batcher import ReadBatcher
from corral.runtime.tasks import TaskSet

CONNECT_TIMEOUT_S = 5.0

# Idle connections per engine. More calls at a time are rare, and each connection costs the engine a descriptor.
IDLE_MAX = 512

# A connection that was idle for a whole round is closed at the next sweep: after 15 to 30 s. Many engines close sooner.
SWEEP_S = 15.0
_ERRNO = re.compile(r"\[Errno (\d+)\]")

# One entry per replica and path. Replicas come and go, so the cache is cleared now and then.
OPENINGS_MAX = 4096
_JSON = "application/json"
_JSON_LINE = b"content-type: application/json\r\n"

# Visible characters only: enough for a path, an address and a key.
_WORD = re.compile(r"[\x21-\x7e]+")

# The same with blanks between, for a content type.
_WORDS = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


class RequestHeadWriter:
    """Renders HTTP heads of requests to engines, and caches how those of each engine begin."""

    __slots__ = ("_openings",)

    def __init__(self) -> None:
        self._openings: dict[tuple[str, str, str], bytes] = {}

    def render(self, endpoint: EngineEndpoint, request: EngineRequest) -> bytes:
        """Render the head of a request. Raises `InvalidRequest` if the content type, which clients choose, has invalid
        characters."""
        opening = self._openings.get((endpoint.address, request.path, endpoint.engine_key))
        if opening is None:
            opening = self._add_opening(endpoint, request.path)
        size_bytes = len(request.body) if request.size_bytes is None else request.size_bytes
        headers = request.build_engine_headers()
        if request.content_type == _JSON and len(headers) == 1:
            # Nearly all requests are JSON, with a request id.
            name, value = headers[0]
            return b"%bcontent-type: application/json\r\n%b: %b\r\ncontent-length: %d\r\n\r\n" % (
                opening,
                name,
                value,
                size_bytes,
            )
        lines = [opening, _render_content_type(request.content_type)]
        for name, value in headers:
            lines += (name, b": ", value, b"\r\n")
        lines.append(b"content-length: %d\r\n\r\n" % size_bytes)
        return b"".join(lines)

    def _add_opening(self, engine: EngineEndpoint, path: str) -> bytes:
        if len(self._openings) >= OPENINGS_MAX:
            self._openings.clear()
        opening = self._openings[engine.address, path, engine.engine_key] = _render_opening(engine, path)
        return opening


def _render_opening(engine: EngineEndpoint, path: str) -> bytes:
    key = f"authorization: Bearer {_check_word(engine.engine_key)}\r\n" if engine.engine_key else ""
    host = _check_word(engine.address)
    # Compressed events could not be relayed one by one.
    return f"POST {_check_word(path)} HTTP/1.1\r\nhost: {host}\r\naccept-encoding: identity\r\n{key}".encode("ascii")


def _check_word(word: str) -> str:
    if _WORD.fullmatch(word) is None:
        raise ValueError("A path, an address or a key of an engine has invalid characters.")
    return word


def _render_content_type(text: str) -> bytes:
    if text == _JSON:
        return _JSON_LINE
    if _WORDS.fullmatch(text) is None:
        raise InvalidRequest("The content type of the request has invalid characters.")
    return b"content-type: " + text.encode("ascii") + b"\r\n"


class HttpEngineClient:
    """Sends inference requests to engines over HTTP/1.1 and keeps idle connections for the next ones.

    A service: its connections are closed with it. Implements `ports.requests.EngineClient`.
    """

    name = "engines"

    def __init__(self, read_batcher: ReadBatcher | None = None) -> None:
        """Make a client. `read_batcher` also delivers the data of other connections of this loop."""
        self.read_batcher = read_batcher or ReadBatcher()
        self.head_templates: HeadTemplateCache[ParsedHead] = HeadTemplateCache()
        self._head_writer = RequestHeadWriter()
        # The idle connections of each engine; the one that was used last is used next.
        self._idle: dict[str, list[EngineConnection]] = {}
        self._connections: set[EngineConnection] = set()
        self._tasks = TaskSet(self.name)
        self._round = 0
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._all_closed = asyncio.Event()

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        """Close all connections. Calls under way are lost."""
        self._is_stopped = True
        await self._tasks.close()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        self._idle.clear()
        for connection in tuple(self._connections):
            connection.close_with_error("was disconnected, because this frontend is stopping")
        self._all_closed.clear()
        if self._connections:
            await self._all_closed.wait()

    def send(self, endpoint: EngineEndpoint, request: EngineRequest, handler: ResponseHandler) -> EngineCallHandle:
        """Start a call. Raises `InvalidRequest` if the content type contains characters that a header must not have."""
        address, head = endpoint.address, self._head_writer.render(endpoint, request)
        if request.size_bytes is not None:
            return self._send_pieces(
                UploadCallHandle(address, head, request.body, handler, size_bytes=request.size_bytes)
            )
        line = HttpCallHandle(address, head, request.body, handler)
        idle = self._idle.get(address)
        if idle:
            idle.pop().send_call(line)
        else:
            self.connect(line)
        return line

    def _send_pieces(self, handle: UploadCallHandle) -> EngineCallHandle:
        """Start a call whose body comes in pieces, on a new connection, because such a body cannot be sent twice."""
        asyncio.get_running_loop().call_soon(handle.pause_upload)
        self.connect(handle)
        return handle

    # New connections

    def connect(self, handle: HttpCallHandle) -> None:
        if self._is_stopped:
            asyncio.get_running_loop().call_soon(_fail_stopping, handle)
        else:
            opening = self._tasks.start(self._open(handle), name="connect")
            # Registered outside of the task, because a task that is cancelled before its first step never runs.
            opening.add_done_callback(lambda ended: _fail_stopping(handle) if ended.cancelled() else None)

    async def _open(self, handle: HttpCallHandle) -> None:
        address = handle.address
        try:
            host, port = _parse_address(address)
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: EngineConnection(self, address), host, port
                )
        except (OSError, ValueError) as error:
            handle.detach_handler().on_lost(_make_connect_error(address, error))
        else:
            self._start_call(handle, connection)

    def _start_call(self, handle: HttpCallHandle, connection: EngineConnection) -> None:
        if handle.handler is NULL_HANDLER:
            # The call was aborted meanwhile.
            connection.close()
        elif connection.is_closed:
            error = EngineLost(f"The engine at {connection.address} closed the connection before it was called.")
            handle.detach_handler().on_lost(error)
        else:
            connection.send_call(handle)
            handle.on_connected()

    # Callbacks of connections: `connection.ConnectionOwner`

    def on_opened(self, connection: EngineConnection) -> None:
        self._connections.add(connection)

    def keep_idle(self, connection: EngineConnection) -> None:
        idle = self._idle.get(connection.address)
        if idle is None:
            idle = self._idle[connection.address] = []
        if len(idle) >= IDLE_MAX:
            connection.close()
            return
        connection.idle_since_round = self._round
        idle.append(connection)
        if self._sweep_timer is None:
            self._sweep_timer = asyncio.get_running_loop().call_later(SWEEP_S, self.close_idle)

    def on_closed(self, connection: EngineConnection) -> None:
        idle = self._idle.get(connection.address)
        if idle and connection in idle:
            idle.remove(connection)
        self._connections.discard(connection)
        if not self._connections:
            self._all_closed.set()

    def close_idle(self) -> None:
        """Close the connections that were idle for a whole round. One timer serves all of them, and none runs while
        there are none."""
        self._round += 1
        for address, idle in tuple(self._idle.items()):
            fresh = [connection for connection in idle if connection.idle_since_round >= self._round - 1]
            for connection in idle[: len(idle) - len(fresh)]:
                connection.close()
            if fresh:
                self._idle[address] = fresh
            else:
                del self._idle[address]
        self._sweep_timer = asyncio.get_running_loop().call_later(SWEEP_S, self.close_idle) if self._idle else None


def _fail_stopping(handle: HttpCallHandle) -> None:
    handle.detach_handler().on_lost(EngineLost("This frontend is stopping."))


def _parse_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not 0 < int(port) < 65536:
        raise ValueError("the address is invalid")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _make_connect_error(address: str, error: Exception) -> EngineRefused | EngineLost:
    if _is_refused(error):
        return EngineRefused(f"No engine is listening at {address}.")
    if isinstance(error, TimeoutError):
        return EngineLost(f"The engine at {address} could not be reached in time.")
    return EngineLost(f"The engine at {address} could not be reached ({error}).")


def _is_refused(error: Exception) -> bool:
    """Return whether every address of the host refused the connection. An error about several addresses has its causes
    in its text only."""
    if isinstance(error, OSError) and error.errno is None:
        return set(_ERRNO.findall(str(error))) == {str(errno.ECONNREFUSED)}
    return isinstance(error, ConnectionRefusedError)
