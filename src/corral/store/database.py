"""Runs transactions on PostgreSQL.

`transaction` commits when its block ends and rolls back when it raises. A transaction does nothing but talk to the
database: no other waiting inside, so that locks are held for milliseconds. A server that does not respond becomes
`StoreUnavailable`, whatever the driver's error. `after_commit` is called when events were written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Protocol
from uuid import UUID

import asyncpg
from sqlalchemy import Executable
from sqlalchemy.engine import CursorResult, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from corral.domain.errors import Conflict, InvalidRequest, StoreUnavailable

CONNECT_LIMIT_S = 5.0
# No statement of ours is long; one that runs this long is stuck behind another.
STATEMENT_LIMIT_S = 20.0
POOL_SIZE = 10
# SQLSTATE classes and codes of a server that is away, starting, stopping or out of room.
_AWAY = ("08", "57P01", "57P02", "57P03", "53300")
# Text that PostgreSQL cannot hold, such as a NUL inside JSON. The API checks its input; this catches the rest.
_UNSTORABLE = ("22021", "22P05")
_TRY_AGAIN = ("40001", "40P01", "55P03")
# Our own code, raised by the trigger that guards the states of operations.
_ILLEGAL_STEP = "CO001"


class Transaction:
    """Wraps one open database transaction. `wrote_events` is set by `store/outbox.py`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self.wrote_events = False

    async def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        return await self.connection.execute(statement, parameters)


class TransactionGate(Protocol):
    """Surrounds every transaction. Production has none; the simulator orders and disturbs transactions here."""

    def pass_through(self) -> AbstractAsyncContextManager[None]: ...

    async def on_begin(self, transaction: Transaction) -> None: ...


class Database:
    """Opens transactions on PostgreSQL, and translates the driver's errors into Corral's."""

    def __init__(self, url: str, *, gate: TransactionGate | None = None, pool_size: int = POOL_SIZE) -> None:
        self._make_engine = _make_engine(url, pool_size)
        self._gate = gate
        self.after_commit: Callable[[], None] = lambda: None

    @property
    def engine(self) -> AsyncEngine:
        return self._make_engine

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        gate = self._gate.pass_through() if self._gate else nullcontext()
        async with gate:
            try:
                async with self._make_engine.begin() as connection:
                    tx = Transaction(connection)
                    if self._gate:
                        await self._gate.on_begin(tx)
                    yield tx
            except (DBAPIError, PoolTimeoutError, OSError, TimeoutError, asyncpg.PostgresError) as error:
                raise _translate_error(error) from error
        if tx.wrote_events:
            self.after_commit()

    async def close(self) -> None:
        await self._make_engine.dispose()


def _make_engine(url: str, pool_size: int) -> AsyncEngine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "postgresql":
        raise InvalidRequest(
            f"{parsed.get_backend_name()} is not supported: Corral keeps its registry in PostgreSQL.",
            hint="CORRAL_DATABASE_URL=postgresql://user:password@host:5432/corral",
        )
    return create_async_engine(
        parsed.set(drivername="postgresql+asyncpg"),
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=CONNECT_LIMIT_S,
        # A restarted server leaves dead connections in the pool; the ping costs a fraction of a millisecond.
        pool_pre_ping=True,
        connect_args={
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
        return InvalidRequest("A text in the request holds characters that cannot be stored.", code="bad_text")
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
