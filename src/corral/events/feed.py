"""The feed: this frontend's view of the outbox, in order and without gaps.

One loop reads new events and keeps the last few in a ring. A watcher is only a position: it takes the events that it
missed from the ring, or from the registry when it has fallen behind the ring, so that a slow browser costs no memory
and loses nothing. A wake makes the feed faster; the interval makes it certain. Events that a long transaction holds up
are not fed; followers that only reload what an event names receive theirs ahead of the order (`LookAheadFollower`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from corral.domain.cluster import OutboxEvent, OutboxPosition
from corral.domain.errors import StoreUnavailable
from corral.store import outbox
from corral.store.database import Database

RING_SIZE = 2048


class ResetNotice:
    """Item that tells a watcher of the event feed that its position is too old or unknown.

    It has to read the state again, from `position` on.
    """

    def __init__(self, position: OutboxPosition) -> None:
        self.position = position


class QuietNotice:
    """Item that tells a watcher of the event feed that nothing has happened for a while."""


@dataclass(frozen=True, slots=True)
class LookAheadFollower:
    """A part of a frontend that gets some events of the feed before their turn, and again when their turn comes."""

    prefixes: tuple[str, ...]
    follower: Callable[[Sequence[OutboxEvent]], Awaitable[None]]


class Feed:
    """Reads the event outbox for one frontend, in order and without gaps, and passes events to its readers."""

    def __init__(
        self,
        database: Database,
        follower: Callable[[Sequence[OutboxEvent]], Awaitable[None]],
        reread: Callable[[], Awaitable[None]],
        look_ahead: LookAheadFollower | None = None,
    ) -> None:
        self._database = database
        self._follower = follower
        self._reread = reread
        self._look_ahead = look_ahead
        # Held-up events that the look-ahead follower has received already.
        self._notified_ahead: frozenset[int] = frozenset()
        # For how long the oldest held-up event has waited.
        self.held_up_s = 0.0
        self._was_away = False
        self._is_closed = False
        self._recent_events: deque[OutboxEvent] = deque(maxlen=RING_SIZE)
        self._moved_event = asyncio.Event()
        self.position: OutboxPosition | None = None

    async def begin(self) -> None:
        """Start from now: earlier events are covered by reading the state after this."""
        async with self._database.transaction() as tx:
            self.position = (await outbox.read_bounds(tx)).head

    async def tick(self) -> int:
        """Read new events, and return how many there were."""
        try:
            if self._was_away:
                await self._resynchronise()
            taken = await self._read_new()
            await self._notify_ahead()
        except StoreUnavailable:
            self._was_away = True
            raise
        return taken

    async def _resynchronise(self) -> None:
        """Have the state read again after PostgreSQL was down: the server that came back may be a standby that lacks
        the last commits."""
        assert self.position is not None, "begin() was not called"
        async with self._database.transaction() as tx:
            limits = await outbox.read_bounds(tx)
        if not limits.can_resume(self.position):
            self._recent_events.clear()
            self.position = limits.head
            self._notify_watchers()
        await self._reread()
        self._was_away = False

    async def _read_new(self) -> int:
        assert self.position is not None, "begin() was not called"
        taken = 0
        while True:
            async with self._database.single_statements() as tx:
                events, limits = await outbox.read_with_bounds(tx, self.position)
            if not limits.can_resume(self.position):
                # This process stood still for longer than events are kept, and no other check would notice.
                self._was_away = True
                await self._resynchronise()
                continue
            if events:
                # The frontend's own memory is updated first, so that watchers find the new state there.
                await self._follower(events)
                self._recent_events.extend(events)
                self.position = events[-1].position
                self._notify_watchers()
            taken += len(events)
            if len(events) < outbox.READ_LIMIT:
                return taken

    async def _notify_ahead(self) -> None:
        """Pass held-up events about credentials and the like to the look-ahead follower, although a transaction is
        open."""
        prefixes = self._look_ahead.prefixes if self._look_ahead else ()
        async with self._database.single_statements() as tx:
            held = await outbox.read_held_up(tx, prefixes)
        self.held_up_s = held.oldest_s
        fresh = [event for event in held.events if event.position.number not in self._notified_ahead]
        if fresh and self._look_ahead:
            await self._look_ahead.follower(fresh)
        self._notified_ahead = frozenset(event.position.number for event in held.events)

    def _notify_watchers(self) -> None:
        moved, self._moved_event = self._moved_event, asyncio.Event()
        moved.set()

    def close(self) -> None:
        """End every watch; the watchers resume on another frontend."""
        self._is_closed = True
        self._notify_watchers()

    async def watch(
        self, after: OutboxPosition | None, quiet_s: float
    ) -> AsyncGenerator[OutboxEvent | ResetNotice | QuietNotice, None]:
        """Yield every event after a position, until the feed is closed. Without a position, from now on."""
        assert self.position is not None, "begin() was not called"
        position = after if after is not None else self.position
        if position != self.position:
            async with self._database.transaction() as tx:
                limits = await outbox.read_bounds(tx)
            if not limits.can_resume(position):
                position = self.position
                yield ResetNotice(position)
        while not self._is_closed:
            moved = self._moved_event
            if position.transaction > self.position.transaction and position > await self._read_head():
                position = self.position
                yield ResetNotice(position)
            batch = await self._read_after(position)
            if batch is None:
                position = self.position
                yield ResetNotice(position)
                continue
            for event in batch:
                yield event
                position = event.position
            if not batch and not await _wait_for_event(moved, quiet_s):
                yield QuietNotice()

    async def _read_head(self) -> OutboxPosition:
        async with self._database.transaction() as tx:
            return (await outbox.read_bounds(tx)).head

    async def _read_after(self, position: OutboxPosition) -> list[OutboxEvent] | None:
        """Return the events after a position; None if the watcher was so slow that some of them have been pruned."""
        assert self.position is not None, "begin() was not called"
        if position >= self.position:
            return []
        if self._recent_events and self._recent_events[0].position <= position:
            return self._list_newer(position)
        async with self._database.transaction() as tx:
            events = await outbox.read(tx, position)
            limits = await outbox.read_bounds(tx)
        if not limits.can_resume(position):
            return None
        # Never ahead of the feed itself, so that two watchers of one frontend see the same.
        return [event for event in events if event.position <= self.position]

    def _list_newer(self, position: OutboxPosition) -> list[OutboxEvent]:
        """Return the newer events of the ring, searched from its end: a watcher nearly always lacks only the last
        few."""
        newer = []
        for event in reversed(self._recent_events):
            if not position < event.position:
                break
            newer.append(event)
        newer.reverse()
        return newer


async def _wait_for_event(event: asyncio.Event, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
