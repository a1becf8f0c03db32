"""Keeps MCP sessions warm: one for each session key and server, opened when first used and shared by all runs.

A session that was idle for a while is pinged before it is used again; one that has broken or whose specification has
changed is replaced. Idle sessions are closed after ten minutes, and the one that was idle longest when there are too
many. Sessions without a key belong to one user and are closed with it.

Guarantees: opening one session does not delay another; callers that need the same one wait for one opening together,
and the end of one caller does not end it for the others. A server that could not be used is not tried again for a while
(`mcp_failures.py`).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import structlog

from corral.domain.errors import CorralError
from corral.ports.runtime import Clock
from corral.runner.mcp_failures import McpFailureRegistry
from corral.runner.mcp_session import McpSession, McpUnavailable, ServerOffer
from corral.runner.secret_masker import SecretMasker
from corral.runner.stdio_server import StdioOptions
from corral.runtime.single_flight import SingleFlight
from corral.runtime.tasks import TaskSet
from corral.wire.run_work import McpServerSpec

log = structlog.get_logger(__name__)

# What a session is made of; the other fields of a specification may change without a new one.
_CONNECTION_FIELDS = {"transport", "url", "is_public_only", "headers", "command", "args", "env", "cwd"}


@dataclass(frozen=True, slots=True, kw_only=True)
class McpPoolOptions:
    """Tunables of the runner's pool of MCP sessions: how many are kept, and how long."""

    sessions_max: int = 64
    idle_s: float = 600.0
    ping_after_s: float = 30.0


@dataclass(slots=True, eq=False)
class _PooledSession:
    """Holds a session of the pool, with how many runs use it and since when none does."""

    server: McpServerSpec
    digest: str
    session: McpSession
    users: int = 0
    idle_since: float = 0.0
    # Closed when the last user has left.
    is_retired: bool = False
    expiry: asyncio.TimerHandle | None = None


class McpPool:
    """Keeps open sessions with MCP servers in the runner process, and lends them to runs."""

    def __init__(
        self, stdio: StdioOptions, clock: Clock, masker: SecretMasker, options: McpPoolOptions | None = None
    ) -> None:
        self._stdio = stdio
        self._clock = clock
        self._masker = masker
        self._options = options or McpPoolOptions()
        self._failures = McpFailureRegistry(clock)
        # The session that the next caller gets, by session key and server.
        self._current: dict[tuple[str, str], _PooledSession] = {}
        # Also those that are being opened, and those that are closed when their last user leaves.
        self._sessions: set[_PooledSession] = set()
        self._openings: SingleFlight[None, _PooledSession] = SingleFlight("mcp-openings", _make_stopped_error)
        self._listings: SingleFlight[None, ServerOffer] = SingleFlight("mcp-listings", _make_stopped_error)
        self._tasks = TaskSet("mcp-pool")

    @asynccontextmanager
    async def use(
        self, session_key: str, server: McpServerSpec, *, is_tried_at_once: bool = False
    ) -> AsyncGenerator[McpSession, None]:
        """Lend the session with a server, opened if there is none.

        Raises `McpUnavailable` or `ServerProgramError`, also for a server that has failed a moment ago, unless it
        `is_tried_at_once`.
        """
        pooled = await self._check_out(session_key, server, is_tried_at_once=is_tried_at_once)
        try:
            yield pooled.session
        finally:
            self._remove_user(pooled)

    async def list_offer(self, session_key: str, server: McpServerSpec, *, outlives_callers: bool) -> ServerOffer:
        """Return what a server offers to a run. Callers at the same time share one listing.

        With `outlives_callers` it goes on without them, so that the next run finds the session open, or knows that the
        server is dead. Raises like `use`.
        """
        digest = _compute_digest(server)

        async def list_it() -> ServerOffer:
            async with self.use(session_key, server) as session:
                try:
                    offer = await session.list_offer()
                except CorralError as error:
                    self._failures.note(digest, error)
                    # The next run shall not find this session, but the failure.
                    self._replace((session_key, server.name), None)
                    raise
            self._failures.forget(digest)
            return offer

        return await self._listings.join(
            _make_flight_key(session_key, server, digest),
            lambda _: list_it(),
            make_state=lambda: None,
            enter=lambda _: nullcontext(),
            outlives_callers=outlives_callers,
        )

    async def request(
        self, session_key: str, server: McpServerSpec, action: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Perform an action that a person waits for, whether the server has failed before or not. Raises like `use`."""
        async with self.use(session_key, server, is_tried_at_once=True) as session:
            answer = await session.request(action, params)
        self._failures.forget(_compute_digest(server))
        return answer

    def close_sessions(self, session_key: str) -> None:
        """Retire the sessions with this key: they are closed when no run uses them any more."""
        for key in [key for key in self._current if key[0] == session_key]:
            self._retire(self._current.pop(key))

    async def close(self) -> None:
        """Close all sessions now, also those in use."""
        await self._listings.close()
        await self._openings.close()
        for pooled in tuple(self._sessions):
            self._begin_close(pooled)
        await self._tasks.join()

    async def _check_out(self, session_key: str, server: McpServerSpec, *, is_tried_at_once: bool) -> _PooledSession:
        """Return the session of a key and server with one more user."""
        digest = _compute_digest(server)
        while True:
            pooled = self._find_warm((session_key, server.name), digest)
            if pooled is None:
                pooled = await self._openings.join(
                    _make_flight_key(session_key, server, digest),
                    lambda _: self._prepare(
                        (session_key, server.name), server, digest, is_tried_at_once=is_tried_at_once
                    ),
                    make_state=lambda: None,
                    enter=lambda _: nullcontext(),
                )
            # It had no user until now, and may have been closed to make room for another one.
            if pooled in self._sessions:
                self._add_user(pooled)
                return pooled

    def _find_warm(self, key: tuple[str, str], digest: str) -> _PooledSession | None:
        pooled = self._current.get(key)
        if pooled is None or pooled.digest != digest or pooled.session.broken:
            return None
        is_warm = bool(pooled.users) or self._clock.monotonic() - pooled.idle_since < self._options.ping_after_s
        return pooled if is_warm else None

    async def _prepare(
        self, key: tuple[str, str], server: McpServerSpec, digest: str, *, is_tried_at_once: bool
    ) -> _PooledSession:
        """Return a session that can be used: the current one if it answers, else a new one."""
        previous = self._current.get(key)
        if previous is not None and previous.digest == digest and await self._is_usable(previous):
            return previous
        self._replace(key, None)
        if not is_tried_at_once:
            self._failures.check(digest)
        pooled = await self._open(server, digest)
        # Another configuration of the server may have been opened in the meantime.
        self._replace(key, pooled)
        self._set_idle(pooled)
        return pooled

    async def _is_usable(self, pooled: _PooledSession) -> bool:
        if pooled.session.broken:
            return False
        try:
            await pooled.session.ping()
        except CorralError as error:
            log.info("mcp session is opened again", server=pooled.server.name, reason=error.message)
            return False
        return True

    async def _open(self, server: McpServerSpec, digest: str) -> _PooledSession:
        self._make_room(server.name)
        pooled = _PooledSession(server=server, digest=digest, session=McpSession(server, self._stdio))
        self._sessions.add(pooled)
        self._masker.add_server(server)
        try:
            await pooled.session.open()
        except BaseException as error:
            self._sessions.discard(pooled)
            self._masker.remove_server(server)
            if isinstance(error, CorralError):
                self._failures.note(digest, error)
            raise
        return pooled

    def _make_room(self, name: str) -> None:
        if len(self._sessions) < self._options.sessions_max:
            return
        idle = [pooled for pooled in self._sessions if not pooled.users and pooled.expiry is not None]
        if not idle:
            limit = self._options.sessions_max
            raise McpUnavailable(f"MCP server {name} is not opened: {limit} sessions are in use already.")
        self._begin_close(min(idle, key=lambda pooled: pooled.idle_since))

    def _add_user(self, pooled: _PooledSession) -> None:
        pooled.users += 1
        self._cancel_expiry(pooled)

    def _remove_user(self, pooled: _PooledSession) -> None:
        pooled.users -= 1
        if not pooled.users:
            self._set_idle(pooled)

    def _set_idle(self, pooled: _PooledSession) -> None:
        """Note that a session has no user: it is closed after a while, or now if no caller will get it again."""
        pooled.idle_since = self._clock.monotonic()
        if pooled.is_retired or pooled.session.broken:
            self._begin_close(pooled)
        else:
            loop = asyncio.get_running_loop()
            pooled.expiry = loop.call_later(self._options.idle_s, self._begin_close, pooled)

    def _replace(self, key: tuple[str, str], pooled: _PooledSession | None) -> None:
        """Put a session in the place of the current one, which ends when its last user has left."""
        previous = self._current.pop(key, None)
        if pooled is not None:
            self._current[key] = pooled
        if previous is not None:
            self._retire(previous)

    def _retire(self, pooled: _PooledSession) -> None:
        pooled.is_retired = True
        if not pooled.users:
            self._begin_close(pooled)

    def _begin_close(self, pooled: _PooledSession) -> None:
        if pooled not in self._sessions:
            return
        self._sessions.discard(pooled)
        self._cancel_expiry(pooled)
        self._current = {key: other for key, other in self._current.items() if other is not pooled}
        self._tasks.start(self._close(pooled), name=f"close-{pooled.server.name}")

    async def _close(self, pooled: _PooledSession) -> None:
        await pooled.session.close()
        # Only now: what the server logs at its end is masked as well.
        self._masker.remove_server(pooled.server)

    def _cancel_expiry(self, pooled: _PooledSession) -> None:
        if pooled.expiry is not None:
            pooled.expiry.cancel()
            pooled.expiry = None


def _compute_digest(server: McpServerSpec) -> str:
    text = server.model_dump_json(include=_CONNECTION_FIELDS)
    return hashlib.sha256(text.encode()).hexdigest()


def _make_flight_key(session_key: str, server: McpServerSpec, digest: str) -> str:
    return f"{server.name}/{session_key}/{digest}"


def _make_stopped_error() -> McpUnavailable:
    return McpUnavailable("The runner is stopping.")
