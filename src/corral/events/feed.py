"""The feed: this frontend's view of the outbox, in order and without gaps.

One loop reads new events and keeps the last few in a ring. A watcher is only a position: it takes what it missed from
the ring, or from the registry when it has fallen behind that, so that a slow browser costs no memory and loses
nothing. A wake makes it faster; the interval is what makes it certain. Events that a long transaction holds up are not
fed; followers that only read anew what an event names are told of theirs ahead of the order (`LookAhead`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from corral.domain.cluster import Event, Position
from corral.domain.errors import StoreUnavailable
from corral.store import outbox
from corral.store.database import Database

RING_SIZE = 2048


class Reset:
    """The watcher's position is too old or unknown: it has to read the state anew, from `position` on."""

    def __init__(self, position: Position) -> None:
        self.position = position


class Quiet:
    """Nothing has happened for a while."""


@dataclass(frozen=True, slots=True)
class LookAhead:
    """A follower that may be told of an event before its turn, and again when its turn comes."""

    prefixes: tuple[str, ...]
    follower: Callable[[Sequence[Event]], Awaitable[None]]


class Feed:
    def __init__(
        self,
        database: Database,
        follower: Callable[[Sequence[Event]], Awaitable[None]],
        reread: Callable[[], Awaitable[None]],
        look_ahead: LookAhead | None = None,
    ) -> None:
        self._database = database
        self._follower = follower
        self._reread = reread
        self._look_ahead = look_ahead
        # Held-up events that the follower of `look_ahead` was told of.
        self._told_ahead: frozenset[int] = frozenset()
        # How long the oldest event has been held up that may not be fed yet.
        self.held_up_s = 0.0
        self._was_away = False
        self._is_closed = False
        self._ring: deque[Event] = deque(maxlen=RING_SIZE)
        self._moved = asyncio.Event()
        self.position: Position | None = None

    async def begin(self) -> None:
        """Start from now: what came before is covered by reading the state after this."""
        async with self._database.transaction() as tx:
            self.position = (await outbox.bounds(tx)).head

    async def tick(self) -> int:
        """Take in what is new; how many events that were."""
        try:
            if self._was_away:
                await self._return()
            taken = await self._take()
            await self._tell_ahead()
        except StoreUnavailable:
            self._was_away = True
            raise
        return taken

    async def _return(self) -> None:
        """PostgreSQL was away. What came back may be a standby that lacks the last commits: read the state anew."""
        assert self.position is not None, "begin() was not called"
        async with self._database.transaction() as tx:
            limits = await outbox.bounds(tx)
        if not limits.can_resume(self.position):
            self._ring.clear()
            self.position = limits.head
            self._tell()
        await self._reread()
        self._was_away = False

    async def _take(self) -> int:
        assert self.position is not None, "begin() was not called"
        taken = 0
        while True:
            async with self._database.transaction() as tx:
                events = await outbox.read(tx, self.position)
                # Asked after reading: what was not pruned by now was there to be read.
                limits = await outbox.bounds(tx)
            if not limits.can_resume(self.position):
                # This process stood still for longer than events are kept, and nothing else would tell it.
                self._was_away = True
                await self._return()
                continue
            if events:
                # The frontend's own memory first: a watcher that asks it about an event finds it there.
                await self._follower(events)
                self._ring.extend(events)
                self.position = events[-1].position
                self._tell()
            taken += len(events)
            if len(events) < outbox.READ_LIMIT:
                return taken

    async def _tell_ahead(self) -> None:
        """Tell of the events that concern credentials and the like although an open transaction holds them up."""
        prefixes = self._look_ahead.prefixes if self._look_ahead else ()
        async with self._database.transaction() as tx:
            held = await outbox.read_held_up(tx, prefixes)
        self.held_up_s = held.oldest_s
        fresh = [event for event in held.events if event.position.number not in self._told_ahead]
        if fresh and self._look_ahead:
            await self._look_ahead.follower(fresh)
        self._told_ahead = frozenset(event.position.number for event in held.events)

    def _tell(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def close(self) -> None:
        """End every watch; the watchers resume on another frontend."""
        self._is_closed = True
        self._tell()

    async def watch(self, after: Position | None, quiet_s: float) -> AsyncGenerator[Event | Reset | Quiet, None]:
        """Everything after a position, until the feed is closed. Without one, from now on."""
        assert self.position is not None, "begin() was not called"
        here = after if after is not None else self.position
        if here != self.position:
            async with self._database.transaction() as tx:
                limits = await outbox.bounds(tx)
            if not limits.can_resume(here):
                here = self.position
                yield Reset(here)
        while not self._is_closed:
            moved = self._moved
            if here.transaction > self.position.transaction and here > await self._head():
                here = self.position
                yield Reset(here)
            batch = await self._after(here)
            if batch is None:
                here = self.position
                yield Reset(here)
                continue
            for event in batch:
                yield event
                here = event.position
            if not batch and not await _happens(moved, quiet_s):
                yield Quiet()

    async def _head(self) -> Position:
        async with self._database.transaction() as tx:
            return (await outbox.bounds(tx)).head

    async def _after(self, here: Position) -> list[Event] | None:
        """None if the watcher was so slow that some of it has been pruned by now."""
        assert self.position is not None, "begin() was not called"
        if here >= self.position:
            return []
        if self._ring and self._ring[0].position <= here:
            return self._newer(here)
        async with self._database.transaction() as tx:
            events = await outbox.read(tx, here)
            limits = await outbox.bounds(tx)
        if not limits.can_resume(here):
            return None
        # Never ahead of the feed itself: two watchers of one frontend see the same.
        return [event for event in events if event.position <= self.position]

    def _newer(self, here: Position) -> list[Event]:
        """From the end: a watcher nearly always lacks only the last few."""
        newer = []
        for event in reversed(self._ring):
            if not here < event.position:
                break
            newer.append(event)
        newer.reverse()
        return newer


async def _happens(event: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
