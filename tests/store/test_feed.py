"""The feed of one frontend: watchers are positions, and none of them ever misses an event without being told."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from sqlalchemy import text

from corral.domain.cluster import ORIGIN, Event, Position
from corral.domain.errors import StoreUnavailable
from corral.events.feed import Feed, Quiet, Reset
from corral.store import outbox
from corral.store.database import Database
from tests.support.waiting import eventually

QUIET_S = 0.01


class Followed:
    """What the frontend's own memory is told."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.rereads = 0

    async def follow(self, events: Sequence[Event]) -> None:
        self.events += [event.key for event in events]

    async def reread(self) -> None:
        self.rereads += 1


@pytest.fixture
def followed() -> Followed:
    return Followed()


@pytest.fixture
async def feed(database: Database, followed: Followed) -> Feed:
    made = Feed(database, followed.follow, followed.reread)
    await made.begin()
    return made


async def _append(database: Database, *keys: str) -> None:
    for key in keys:
        async with database.transaction() as tx:
            await outbox.append(tx, "test.happened", key)


async def _take(feed: Feed, wanted: int) -> None:
    """Tick until so many events came; another test's database may hold the head back for a moment."""
    taken = 0

    async def enough() -> bool:
        nonlocal taken
        taken += await feed.tick()
        return taken >= wanted

    await eventually(enough)


async def _next(stream: AsyncIterator[Event | Reset | Quiet]) -> Any:
    """The next thing that is more than quiet."""
    async for item in stream:
        if not isinstance(item, Quiet):
            return item
    return None


async def _keys(stream: AsyncIterator[Event | Reset | Quiet], count: int) -> list[str]:
    return [(await _next(stream)).key for _ in range(count)]


@pytest.mark.behaviour("OUT-5")
async def test_a_watcher_gets_everything_from_now_on_in_order(
    database: Database, feed: Feed, followed: Followed
) -> None:
    async with aclosing(feed.watch(None, QUIET_S)) as stream:
        assert isinstance(await anext(stream), Quiet)
        await _append(database, "a", "b", "c")
        await _take(feed, 3)
        assert await _keys(stream, 3) == ["a", "b", "c"]
        assert isinstance(await anext(stream), Quiet)
    assert followed.events == ["a", "b", "c"]


@pytest.mark.behaviour("OUT-5")
async def test_an_event_of_a_slow_transaction_reaches_the_watcher_in_its_place(database: Database, feed: Feed) -> None:
    async with aclosing(feed.watch(None, QUIET_S)) as stream:
        async with database.transaction() as slow:
            await outbox.append(slow, "test.happened", "slow")
            await _append(database, "quick")
            assert await feed.tick() == 0
            assert isinstance(await anext(stream), Quiet)
        await _take(feed, 2)
        assert await _keys(stream, 2) == ["slow", "quick"]


@pytest.mark.behaviour("OUT-2")
async def test_a_watcher_resumes_from_its_position_on_any_frontend(database: Database, feed: Feed) -> None:
    await _append(database, "a", "b", "c")
    await _take(feed, 3)
    async with aclosing(feed.watch(ORIGIN, QUIET_S)) as stream:
        first = await _next(stream)
        assert first.key == "a"
    other = Feed(database, Followed().follow, Followed().reread)
    await other.begin()
    async with aclosing(other.watch(first.position, QUIET_S)) as stream:
        assert await _keys(stream, 2) == ["b", "c"]


@pytest.mark.behaviour("OUT-3")
async def test_a_position_from_before_the_horizon_is_told_to_read_anew(database: Database, feed: Feed) -> None:
    await _append(database, "gone", "kept")
    await _take(feed, 2)
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE outbox SET at = at - interval '2 days' WHERE key = 'gone'"))
        await outbox.prune(tx, 86400)
    async with aclosing(feed.watch(ORIGIN, QUIET_S)) as stream:
        item = await _next(stream)
        assert isinstance(item, Reset)
        assert item.position == feed.position
        await _append(database, "next")
        await _take(feed, 1)
        assert await _keys(stream, 1) == ["next"]


@pytest.mark.behaviour("OUT-4")
async def test_a_position_from_another_database_is_told_to_read_anew(feed: Feed) -> None:
    async with aclosing(feed.watch(Position(10**15, 1), QUIET_S)) as stream:
        item = await _next(stream)
        assert isinstance(item, Reset)
        assert item.position == feed.position


@pytest.mark.behaviour("OUT-6")
async def test_a_watcher_behind_the_ring_reads_from_the_database(database: Database, feed: Feed) -> None:
    feed._ring = deque(maxlen=2)
    async with aclosing(feed.watch(None, QUIET_S)) as stream:
        assert isinstance(await anext(stream), Quiet)
        keys = [f"k{number}" for number in range(8)]
        await _append(database, *keys)
        await _take(feed, 8)
        assert len(feed._ring) == 2
        assert await _keys(stream, 8) == keys


@pytest.mark.behaviour("OUT-6")
async def test_a_watcher_behind_the_horizon_is_told_so_in_the_middle_of_its_watch(
    database: Database, feed: Feed
) -> None:
    feed._ring = deque(maxlen=1)
    async with aclosing(feed.watch(None, QUIET_S)) as stream:
        assert isinstance(await anext(stream), Quiet)
        await _append(database, "a", "b", "c")
        await _take(feed, 3)
        async with database.transaction() as tx:
            await tx.execute(text("UPDATE outbox SET at = at - interval '2 days' WHERE key <> 'c'"))
            assert await outbox.prune(tx, 86400) == 2
        item = await _next(stream)
        assert isinstance(item, Reset)
        assert item.position == feed.position


@pytest.mark.behaviour("OUT-6")
async def test_more_events_than_one_read_takes_all_arrive(database: Database, feed: Feed, followed: Followed) -> None:
    keys = [str(number) for number in range(outbox.READ_LIMIT + 20)]
    async with database.transaction() as tx:
        await outbox.append_many(tx, "test.happened", [(key, {}) for key in keys])
    await _take(feed, len(keys))
    assert followed.events == keys


@pytest.mark.behaviour("OUT-7")
async def test_after_an_outage_the_state_is_read_anew_and_nothing_is_missed(
    database: Database, feed: Feed, followed: Followed
) -> None:
    away = Database("postgresql://postgres@127.0.0.1:1/nothing")
    try:
        feed._database = away
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await feed.tick()
    finally:
        await away.close()
    await _append(database, "meanwhile")
    feed._database = database
    await _take(feed, 1)
    assert (followed.rereads, followed.events) == (1, ["meanwhile"])
    await feed.tick()
    assert followed.rereads == 1, "once per outage"


@pytest.mark.behaviour("OUT-7")
async def test_after_a_failover_that_lost_commits_watchers_are_told_to_read_anew(
    database: Database, feed: Feed, followed: Followed
) -> None:
    async with aclosing(feed.watch(None, QUIET_S)) as stream:
        assert isinstance(await anext(stream), Quiet)
        # As if what we had read were beyond what the new primary knows.
        feed.position, feed._was_away = Position(10**15, 1), True
        async with aclosing(feed.watch(feed.position, QUIET_S)) as ahead:
            await feed.tick()
            assert isinstance(await _next(ahead), Reset)
        assert followed.rereads == 1
        await _append(database, "after")
        await _take(feed, 1)
        assert await _keys(stream, 1) == ["after"]


@pytest.mark.behaviour("OUT-8")
async def test_closing_the_feed_ends_every_watch(feed: Feed) -> None:
    async def watch() -> int:
        async with aclosing(feed.watch(None, 60)) as stream:
            return len([item async for item in stream])

    async with asyncio.TaskGroup() as group:
        watching = [group.create_task(watch()) for _ in range(3)]
        await asyncio.wait(watching, timeout=0)
        feed.close()
    assert [task.result() <= 1 for task in watching] == [True] * 3


@pytest.mark.behaviour("OUT-8")
async def test_a_commit_that_wrote_events_is_announced_and_one_that_did_not_is_not(database: Database) -> None:
    told: list[bool] = []
    database.after_commit = lambda: told.append(True)
    async with database.transaction() as tx:
        await tx.execute(text("SELECT 1"))
    assert told == []
    await _append(database, "a")
    assert told == [True]

    async def fail() -> None:
        async with database.transaction() as tx:
            await outbox.append(tx, "test.happened", "b")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert told == [True]
