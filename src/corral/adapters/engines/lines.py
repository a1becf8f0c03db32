"""Calls to engines over kept connections: one write goes out, and the answer comes back as callbacks.

Guarantee: a call on a kept connection makes no task, no future and no timer. A connection that its engine closed while
it was idle is forgotten at once; one that closes in the moment of a call is replaced unseen, once. Nothing limits how
long an answer takes, because a long prompt is silent for minutes: who calls decides how long that may be.
Limit: plain HTTP/1.1, one call at a time on each connection. The number of calls is not limited here.
"""

from __future__ import annotations

import asyncio
import errno
import re

from corral.adapters.engines.connection import Connection
from corral.adapters.engines.head import Heads
from corral.ports.engines import EngineCall, EngineLost, EngineRefused, Hearer, Line
from corral.runtime.tasks import Tasks

CONNECT_TIMEOUT_S = 5.0
# For each engine. More than this many calls at a time are rare, and each costs an engine a descriptor.
IDLE_MAX = 64
# What has been idle for a whole round is closed at the next sweep: after 15 to 30 s. Engines wait longer than that.
SWEEP_S = 15.0
STOPPING = "This frontend is stopping."

_ERRNO = re.compile(r"\[Errno (\d+)\]")


class HttpLine:
    """A call whose whole body is there."""

    __slots__ = ("call", "connection", "head", "hearer", "is_hung_up", "is_paused", "is_sent")

    def __init__(self, call: EngineCall, head: bytes, hearer: Hearer) -> None:
        self.call = call
        self.head = head
        self.hearer = hearer
        # None: not yet, or not any more.
        self.connection: Connection | None = None
        self.is_paused = False
        self.is_hung_up = False
        # All of the body has been given to the connection.
        self.is_sent = True

    def pause(self) -> None:
        self.is_paused = True
        if self.connection is not None:
            self.connection.pause()

    def resume(self) -> None:
        self.is_paused = False
        if self.connection is not None:
            self.connection.resume()

    def write(self, piece: bytes, *, is_last: bool = False) -> None:  # noqa: ARG002 - as the port says
        raise AssertionError("the whole body of this call was there when it was made")

    def hang_up(self) -> None:
        self.is_hung_up = True
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def on_connected(self) -> None:
        return

    def on_full(self) -> None:
        return

    def on_room(self) -> None:
        return


class PiecesLine(HttpLine):
    """A call whose body comes in pieces. Until it is connected they gather here, and the hearer is asked to wait."""

    __slots__ = ("_gathered", "_has_begun", "_is_full", "_unsent_bytes")

    def __init__(self, call: EngineCall, head: bytes, hearer: Hearer) -> None:
        super().__init__(call, head, hearer)
        assert call.size_bytes is not None
        self._unsent_bytes = call.size_bytes
        self._count(call.body)
        self._gathered: list[bytes] = []
        self._has_begun = False
        self._is_full = False

    def write(self, piece: bytes, *, is_last: bool = False) -> None:
        self._count(piece)
        if is_last and not self.is_sent:
            # Its client went away. The engine would wait for the rest for ever.
            self.hang_up()
        elif self.connection is not None:
            self.connection.write(piece)
        elif not self._has_begun:
            self._gathered.append(piece)

    def on_connected(self) -> None:
        self._has_begun = True
        gathered, self._gathered = self._gathered, []
        if gathered and self.connection is not None:
            self.connection.write(b"".join(gathered))
        if not self._is_full:
            self.hearer.on_writable(is_writable=True)

    def on_full(self) -> None:
        self._is_full = True
        self.hearer.on_writable(is_writable=False)

    def on_room(self) -> None:
        self._is_full = False
        self.hearer.on_writable(is_writable=True)

    def ask_to_wait(self) -> None:
        if not self._has_begun and not self.is_hung_up:
            self.hearer.on_writable(is_writable=False)

    def _count(self, piece: bytes) -> None:
        self._unsent_bytes -= len(piece)
        assert self._unsent_bytes >= 0, "a body is longer than it was said to be"
        self.is_sent = not self._unsent_bytes


class HttpEngines:
    """A service: its connections are closed with it. Implements `ports.engines.Engines`."""

    name = "engines"

    def __init__(self) -> None:
        self._heads = Heads()
        # Those of an engine that are free; the one that was used last is used next.
        self._idle: dict[str, list[Connection]] = {}
        self._connections: set[Connection] = set()
        self._tasks = Tasks(self.name)
        self._round = 0
        self._sweeping: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._emptied = asyncio.Event()

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        """Calls under way are lost."""
        self._is_stopped = True
        await self._tasks.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        self._idle.clear()
        for connection in tuple(self._connections):
            connection.leave("was left, because this frontend is stopping")
        if self._connections:
            await self._emptied.wait()

    def send(self, call: EngineCall, hearer: Hearer) -> Line:
        """`InvalidRequest`: the content type is not fit for a head."""
        head = self._heads.head(call)
        if call.size_bytes is not None:
            return self._send_pieces(PiecesLine(call, head, hearer))
        line = HttpLine(call, head, hearer)
        idle = self._idle.get(call.address)
        while idle:
            connection = idle.pop()
            if not connection.is_closed:
                connection.carry(line)
                return line
        self.connect(line)
        return line

    def _send_pieces(self, line: PiecesLine) -> Line:
        """Always on a new connection: such a body cannot be sent twice."""
        self.connect(line)
        asyncio.get_running_loop().call_soon(line.ask_to_wait)
        return line

    # New connections

    def connect(self, line: HttpLine) -> None:
        if self._is_stopped:
            asyncio.get_running_loop().call_soon(_tell, line, EngineLost(STOPPING))
        else:
            self._tasks.start(self._open(line), name="connect")

    async def _open(self, line: HttpLine) -> None:
        address = line.call.address
        try:
            host, port = _host_and_port(address)
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self, address), host, port
                )
        except (OSError, ValueError) as error:
            _tell(line, _why_not(address, error))
        except asyncio.CancelledError:
            _tell(line, EngineLost(STOPPING))
            raise
        else:
            self._begin(line, connection)

    def _begin(self, line: HttpLine, connection: Connection) -> None:
        if line.is_hung_up:
            connection.close()
        elif connection.is_closed:
            _tell(line, EngineLost(f"The engine at {connection.address} closed the connection before it was called."))
        else:
            connection.carry(line)
            line.on_connected()

    # What connections tell: `connection.Owner`

    def opened(self, connection: Connection) -> None:
        self._connections.add(connection)

    def keep(self, connection: Connection) -> None:
        idle = self._idle.get(connection.address)
        if idle is None:
            idle = self._idle[connection.address] = []
        if len(idle) >= IDLE_MAX or self._is_stopped:
            connection.close()
            return
        connection.kept_since = self._round
        idle.append(connection)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self.sweep)

    def closed(self, connection: Connection) -> None:
        idle = self._idle.get(connection.address)
        if idle and connection in idle:
            idle.remove(connection)
        self._connections.discard(connection)
        if not self._connections:
            self._emptied.set()

    def sweep(self) -> None:
        """Close what nobody has used for a whole round. One timer for all of them, and none while there are none."""
        self._round += 1
        for address, idle in tuple(self._idle.items()):
            fresh = [connection for connection in idle if connection.kept_since >= self._round - 1]
            for connection in idle[: len(idle) - len(fresh)]:
                connection.close()
            if fresh:
                self._idle[address] = fresh
            else:
                del self._idle[address]
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self.sweep) if self._idle else None


def _tell(line: HttpLine, error: EngineRefused | EngineLost) -> None:
    if not line.is_hung_up:
        line.hearer.on_lost(error)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not 0 < int(port) < 65536:
        raise ValueError("it is no address")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _why_not(address: str, error: Exception) -> EngineRefused | EngineLost:
    if _is_refused(error):
        return EngineRefused(f"Nobody listens at {address}.")
    if isinstance(error, TimeoutError):
        return EngineLost(f"The engine at {address} could not be reached in time.")
    return EngineLost(f"The engine at {address} could not be reached ({error}).")


def _is_refused(error: Exception) -> bool:
    """By every address that its name has: the error of several addresses has its causes in its text only."""
    if isinstance(error, OSError) and error.errno is None:
        return set(_ERRNO.findall(str(error))) == {str(errno.ECONNREFUSED)}
    return isinstance(error, ConnectionRefusedError)
