"""Runs transactions on PostgreSQL.

`transaction` commits when its block ends and rolls back when it raises. A transaction does nothing but talk to the
database: no other waiting inside, so that locks are held for milliseconds. A server that does not respond becomes
`StoreUnavailable`, whatever the driver's error. `after_commit` is called when events were written.

Connections are bounded. More transactions than that wait in the order in which they were begun, for as long as others
end: a busy frontend is slow, and only a server that does not respond is away.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

import asyncpg
from sqlalchemy import Executable, event, text
from sqlalchemy.engine import CursorResult, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, InvalidatePoolError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from corral.domain.errors import Conflict, InvalidRequest, StoreUnavailable
from corral.policy.storable_values import make_unstorable_text_error

CONNECT_LIMIT_S = 5.0
# No statement of ours is long; one that runs this long is stuck behind another.
STATEMENT_LIMIT_S = 20.0
# Connections of one frontend. They are opened when they are first needed and kept: opening one takes longer than most
# transactions.
POOL_SIZE = 20
# Statements that one connection has prepared: all that a frontend sends. Another one costs a round trip and a plan.
PREPARED_MAX = 256
# A connection that was idle for longer is checked before it is used: a network may have lost it without a word.
CHECK_AFTER_IDLE_S = 5.0
# The longest wait for a connection, although other transactions end all the time.
QUEUE_LIMIT_S = 60.0
# SQLSTATE classes and codes of a server that is away, starting, stopping or out of room.
_AWAY = ("08", "57P01", "57P02", "57P03", "53300")
# Text that PostgreSQL cannot hold: NUL, in JSON too, and there halves of surrogate pairs and NaN. The API checks its
# input; this catches the rest.
_UNSTORABLE = ("22021", "22P05", "22P02")
_TRY_AGAIN = ("40001", "40P01", "55P03")
# Our own code, raised by the trigger that guards the states of operations.
_ILLEGAL_STEP = "CO001"


class Transaction:
    """One open transaction on PostgreSQL, in which the functions of `store` execute their SQL.

    `wrote_events` is set by `store/outbox.py`.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self.wrote_events = False
        self.calls_after_commit: list[Callable[[], None]] = []

    def on_commit(self, call: Callable[[], None]) -> None:
        """Call this when the transaction is committed, and only then."""
        self.calls_after_commit.append(call)

    async def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        return await self.connection.execute(statement, parameters)


async def read_now(tx: Transaction) -> datetime:
    """Return the database's time, by which everything is due and expires."""
    now: datetime = (await tx.execute(text("SELECT corral_now()"))).scalar_one()
    return now


class TransactionGate(Protocol):
    """Interface of a hook around every PostgreSQL transaction, by which tests order and disturb transactions.

    Production has none; the simulator uses it.
    """

    def pass_through(self) -> AbstractAsyncContextManager[None]: ...

    async def on_begin(self, transaction: Transaction) -> None: ...


class ConnectionQueue:
    """Lets as many PostgreSQL transactions begin as there are connections; the others wait in order."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()
        # When a transaction last ended without an error of the server.
        self._progress_s = 0.0

    @asynccontextmanager
    async def use_place(self) -> AsyncIterator[None]:
        """Hold a place for one transaction. Raises `TimeoutError` if no other transaction ends for `CONNECT_LIMIT_S`,
        or after `QUEUE_LIMIT_S`."""
        await self._acquire()
        try:
            yield
            self._progress_s = _read_time_s()
        finally:
            self._release()

    async def _acquire(self) -> None:
        if self._free > 0:
            self._free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await self._wait(place)
        except BaseException:
            if place.done():
                self._release()
            else:
                self._waiting.remove(place)
            raise

    async def _wait(self, place: asyncio.Future[None]) -> None:
        began_s = _read_time_s()
        while not place.done():
            now_s = _read_time_s()
            stalled_s = now_s - max(began_s, self._progress_s)
            left_s = min(CONNECT_LIMIT_S - stalled_s, began_s + QUEUE_LIMIT_S - now_s)
            if left_s <= 0:
                raise TimeoutError("no connection to PostgreSQL became free in time")
            await asyncio.wait({place}, timeout=left_s)

    def _release(self) -> None:
        """Hand the place to the transaction that waits longest; free it if none waits."""
        if self._waiting:
            self._waiting.popleft().set_result(None)
        else:
            self._free += 1


class Database:
    """Opens transactions on PostgreSQL, and translates the driver's errors into Corral's."""

    def __init__(self, url: str, *, gate: TransactionGate | None = None, pool_size: int = POOL_SIZE) -> None:
        self._make_engine = _make_engine(url, pool_size)
        self._queue = ConnectionQueue(pool_size)
        self._gate = gate
        self.after_commit: Callable[[], None] = lambda: None

    @property
    def engine(self) -> AsyncEngine:
        return self._make_engine

    @asynccontextmanager
    async def single_statements(self) -> AsyncIterator[Transaction]:
        """Open a transaction of which each statement commits by itself, which saves two round trips. For reads that
        hold no lock, and for a write that is one statement."""
        if self._gate is not None:
            async with self.transaction() as tx:
                yield tx
            return
        try:
            async with self._queue.use_place(), self._make_engine.connect() as connection:
                yield Transaction(await connection.execution_options(isolation_level="AUTOCOMMIT"))
        except (DBAPIError, PoolTimeoutError, OSError, TimeoutError, asyncpg.PostgresError) as error:
            raise _translate_error(error) from error

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        gate = self._gate.pass_through() if self._gate else nullcontext()
        async with gate:
            try:
                async with self._queue.use_place(), self._make_engine.begin() as connection:
                    tx = Transaction(connection)
                    if self._gate:
                        await self._gate.on_begin(tx)
                    yield tx
            except (DBAPIError, PoolTimeoutError, OSError, TimeoutError, asyncpg.PostgresError) as error:
                raise _translate_error(error) from error
        if tx.wrote_events:
            self.after_commit()
        for call in tx.calls_after_commit:
            call()

    async def close(self) -> None:
        await self._make_engine.dispose()


def _make_engine(url: str, pool_size: int) -> AsyncEngine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "postgresql":
        raise InvalidRequest(
            f"{parsed.get_backend_name()} is not supported: Corral keeps its registry in PostgreSQL.",
            hint="CORRAL_DATABASE_URL=postgresql://user:password@host:5432/corral",
        )
    engine = create_async_engine(
        parsed.set(drivername="postgresql+asyncpg"),
        pool_size=pool_size,
        # `ConnectionQueue` decides who waits, and for how long.
        max_overflow=0,
        pool_timeout=CONNECT_LIMIT_S,
        # The connection that was used last has prepared most statements.
        pool_use_lifo=True,
        connect_args={
            "prepared_statement_cache_size": PREPARED_MAX,
            "timeout": CONNECT_LIMIT_S,
            "command_timeout": STATEMENT_LIMIT_S,
            "server_settings": {
                "application_name": "corral",
                # Overrides the server's setting: a limit meant for other programs must not end our waits.
                "lock_timeout": "10s",
                "statement_timeout": f"{STATEMENT_LIMIT_S:.0f}s",
                "idle_in_transaction_session_timeout": "30s",
                "timezone": "UTC",
                "jit": "off",
            },
        },
    )
    _check_connections(engine)
    return engine


def _check_connections(engine: AsyncEngine) -> None:
    """Have connections checked before they are used: a restarted server leaves dead ones in the pool.

    The driver knows at once when the server has closed a connection. Pinging the server as well (`pool_pre_ping`) costs
    three round trips for each transaction, so it is done only after an idle time.
    """
    pool = engine.sync_engine.pool

    @event.listens_for(pool, "checkin")
    def on_checkin(dbapi_connection: Any, record: Any) -> None:
        del dbapi_connection
        record.info["idle_since_s"] = _read_time_s()

    @event.listens_for(pool, "checkout")
    def on_checkout(dbapi_connection: Any, record: Any, proxy: Any) -> None:
        del proxy
        if dbapi_connection.driver_connection.is_closed():
            raise InvalidatePoolError
        idle_since_s = record.info.get("idle_since_s")
        if idle_since_s is None or _read_time_s() - idle_since_s <= CHECK_AFTER_IDLE_S:
            return
        try:
            engine.dialect.do_ping(dbapi_connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError from error


def _read_time_s() -> float:
    return asyncio.get_running_loop().time()


def as_uuid(text: str) -> str | None:
    """Return the id in PostgreSQL's spelling, or None for a text that is no id at all."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can store the text: it holds neither NUL nor half a surrogate pair, so such a text is
    in no row."""
    return "\x00" not in text and text.isprintable()


def _translate_error(error: BaseException) -> BaseException:
    """Translate a driver's error into one of five: away, try again, an illegal step of an operation, unstorable, or
    a bug (returned as it is)."""
    state = _read_sqlstate(error)
    if _is_away(error, state):
        return _make_unavailable_error(error)
    if state in _TRY_AGAIN:
        return Conflict("Another change got in between; try again.", code="try_again")
    if state == _ILLEGAL_STEP:
        sentence = str(getattr(error, "orig", error)).rpartition(": ")[2] or "That step is not allowed."
        return Conflict(f"{sentence[:1].upper()}{sentence[1:]}.", code="illegal_transition")
    if state in _UNSTORABLE:
        return make_unstorable_text_error()
    return error


def _is_away(error: BaseException, state: str) -> bool:
    if isinstance(error, (OSError, TimeoutError, PoolTimeoutError, asyncio.IncompleteReadError)):
        return True
    if state:
        return state.startswith(_AWAY) or (isinstance(error, DBAPIError) and error.connection_invalidated)
    return isinstance(error, (InterfaceError, OperationalError)) or (
        isinstance(error, DBAPIError) and (error.connection_invalidated or isinstance(error.orig, OSError))
    )


def _make_unavailable_error(error: BaseException) -> StoreUnavailable:
    first_line = (str(error) or type(error).__name__).strip().splitlines()[0]
    return StoreUnavailable(
        "PostgreSQL does not respond.",
        hint="Nothing is lost; Corral goes on by itself when it is back.",
        details={"cause": first_line[:200]},
    )


def _read_sqlstate(error: BaseException) -> str:
    for candidate in (error, getattr(error, "orig", None), getattr(getattr(error, "orig", None), "__cause__", None)):
        state = getattr(candidate, "sqlstate", None)
        if isinstance(state, str):
            return state
    return ""
