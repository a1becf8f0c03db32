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

from corral.adapters.engines.connection import Connection, Said
from corral.adapters.engines.head import Heads
from corral.adapters.engines.line import NOBODY, HttpLine, PiecesLine
from corral.ports.engines import Engine, EngineCall, EngineLost, EngineRefused, Hearer, Line
from corral.runtime.intake import Intake
from corral.runtime.mould import Moulds
from corral.runtime.tasks import Tasks

CONNECT_TIMEOUT_S = 5.0
# For each engine. More than this many calls at a time are rare, and each costs an engine a descriptor.
IDLE_MAX = 512
# What has been idle for a whole round is closed at the next sweep: after 15 to 30 s. Many engines close sooner.
SWEEP_S = 15.0

_ERRNO = re.compile(r"\[Errno (\d+)\]")


class HttpEngines:
    """A service: its connections are closed with it. Implements `ports.engines.Engines`."""

    name = "engines"

    def __init__(self, intake: Intake | None = None) -> None:
        """`intake`: what came from engines is taken with what others read there."""
        self.intake = intake or Intake()
        self.moulds: Moulds[Said] = Moulds()
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
        self._emptied.clear()
        if self._connections:
            await self._emptied.wait()

    def send(self, engine: Engine, call: EngineCall, hearer: Hearer) -> Line:
        """`InvalidRequest`: the content type is not fit for a head."""
        address, head = engine.address, self._heads.head(engine, call)
        if call.size_bytes is not None:
            return self._send_pieces(PiecesLine(address, head, call.body, hearer, size_bytes=call.size_bytes))
        line = HttpLine(address, head, call.body, hearer)
        idle = self._idle.get(address)
        if idle:
            idle.pop().carry(line)
        else:
            self.connect(line)
        return line

    def _send_pieces(self, line: PiecesLine) -> Line:
        """Always on a new connection: such a body cannot be sent twice."""
        asyncio.get_running_loop().call_soon(line.ask_to_wait)
        self.connect(line)
        return line

    # New connections

    def connect(self, line: HttpLine) -> None:
        if self._is_stopped:
            asyncio.get_running_loop().call_soon(_too_late, line)
        else:
            opening = self._tasks.start(self._open(line), name="connect")
            # Not inside of it: what is cancelled before its first step never runs.
            opening.add_done_callback(lambda ended: _too_late(line) if ended.cancelled() else None)

    async def _open(self, line: HttpLine) -> None:
        address = line.address
        try:
            host, port = _host_and_port(address)
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self, address), host, port
                )
        except (OSError, ValueError) as error:
            line.over().on_lost(_why_not(address, error))
        else:
            self._begin(line, connection)

    def _begin(self, line: HttpLine, connection: Connection) -> None:
        if line.hearer is NOBODY:
            # It was hung up meanwhile.
            connection.close()
        elif connection.is_closed:
            error = EngineLost(f"The engine at {connection.address} closed the connection before it was called.")
            line.over().on_lost(error)
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
        if len(idle) >= IDLE_MAX:
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


def _too_late(line: HttpLine) -> None:
    line.over().on_lost(EngineLost("This frontend is stopping."))


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
