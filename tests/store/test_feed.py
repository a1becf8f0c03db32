"""The feed of one frontend: watchers are positions, and none of them ever misses an event without a notice."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from sqlalchemy import text

from corral.domain.cluster import ORIGIN, OutboxEvent, OutboxPosition
from corral.domain.errors import StoreUnavailable
from corral.events.feed import Feed, QuietNotice, ResetNotice
from corral.store import outbox
from corral.store.database import Database
from tests.support.polling import eventually

QUIET_S = 0.01


class FeedFollower:
    """The changes that the frontend's own memory receives."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.rereads = 0

    async def follow(self, events: Sequence[OutboxEvent]) -> None:
        self.events += [event.key for event in events]

    async def reread(self) -> None:
        self.rereads += 1


@pytest.fixture
def followed() -> FeedFollower:
    return FeedFollower()


@pytest.fixture
async def feed(database: Database, followed: FeedFollower) -> Feed:
    made = Feed(database, followed.follow, followed.reread)
    await made.begin()
    return made


async def _append(database: Database, *keys: str) -> None:
    for key in keys:
        async with database.transaction() as tx:
            await outbox.append(tx, "test.happened", key)


async def _take(feed: Feed, expected: int) -> None:
    """Tick until so many events came; another test's database may hold the head back for a moment."""
    taken = 0

    async def enough() -> bool:
        nonlocal taken
        taken += await feed.tick()
        return taken >= expected

    await eventually(enough)


async def _next(stream: AsyncIterator[OutboxEvent | ResetNotice | QuietNotice]) -> Any:
    """The next thing that is more than quiet."""
    async for item in stream:
        if not isinstance(item, QuietNotice):
            return item
    return None


async def _keys(stream: AsyncIterator[OutboxEvent | ResetNotice | QuietNotice], count: int) -> list[str]:
    return [(await _next(stream)).key for _ in range(count)]


async def test_watcher_gets_everything_from_now_on_in_order(
    database: Database, feed: Feed, followed: FeedFollower
) -> None:
    async with aclosing(feed.watch(None, QUIET_S)) as stream:
        assert isinstance(await anext(stream), QuietNotice)
        await _append(database, "a", "b", "c")
        await _take(feed, 3)
        assert await _keys(stream, 3) == ["a", "b", "c"]
        assert isinstance(await anext(stream), QuietNotice)
    assert followed.events == ["a", "b", "c"]


async def test_event_of_a_slow_transaction_reaches_the_watcher_in_its_place(database: Database, feed: Feed) -> None:
    async with aclosing(feed.watch(None, QUIET_S)) as stream:
        async with database.transaction() as slow:
            await outbox.append(slow, "test.happened", "slow")
            await _append(database, "quick")
            assert await feed.tick() == 0
            assert isinstance(await anext(stream), QuietNotice)
        await _take(feed, 2)
        assert await _keys(stream, 2) == ["slow", "quick"]


async def test_watcher_resumes_from_its_position_on_any_frontend(database: Database, feed: Feed) -> None:
    await _append(database, "a", "b", "c")
    await _take(feed, 3)
    async with aclosing(feed.watch(ORIGIN, QUIET_S)) as stream:
        first = await _next(stream)
        assert first.key == "a"
    other = Feed(database, FeedFollower().follow, FeedFollower().reread)
    await other.begin()
    async with aclosing(other.watch(first.position, QUIET_S)) as stream:
        assert await _keys(stream, 2) == ["b", "c"]


async def test_feed_resets_a_watcher_whose_position_is_before_the_horizon(database: Database, feed: Feed) -> None:
    await _append(database, "gone", "kept")
    await _take(feed, 2)
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE outbox SET at = at - interval '2 days' WHERE key = 'gone'"))
        await outbox.prune(tx, 86400)
    async with aclosing(feed.watch(ORIGIN, QUIET_S)) as stream:
        item = await _next(stream)
        assert isinstance(item, ResetNotice)
        assert item.position == feed.position
        await _append(database, "next")
        await _take(feed, 1)
        assert await _keys(stream, 1) == ["next"]


async def test_feed_resets_a_watcher_whose_position_is_from_another_database(feed: Feed) -> None:
    async with aclosing(feed.watch(OutboxPosition(10**15, 1), QUIET_S)) as stream:
        item = await _next(stream)
        assert isinstance(item, ResetNotice)
        assert item.position == feed.position


async def test_watcher_behind_the_ring_reads_from_the_database(database: Database, feed: Feed) -> None:
    feed._recent_events = deque(maxlen=2)
    async with aclosing(feed.watch(None, QUIET_S)) as stream:
        assert isinstance(await anext(stream), QuietNotice)
        keys = [f"k{number}" for number in range(8)]
        await _append(database, *keys)
        await _take(feed, 8)
        assert len(feed._recent_events) == 2
        assert await _keys(stream, 8) == keys


async def test_feed_resets_a_watcher_that_falls_behind_the_horizon_while_it_watches(
    database: Database, feed: Feed
) -> None:
    feed._recent_events = deque(maxlen=1)
    async with aclosing(feed.watch(None, QUIET_S)) as stream:
        assert isinstance(await anext(stream), QuietNotice)
        await _append(database, "a", "b", "c")
        await _take(feed, 3)
        async with database.transaction() as tx:
            await tx.execute(text("UPDATE outbox SET at = at - interval '2 days' WHERE key <> 'c'"))
            assert await outbox.prune(tx, 86400) == 2
        item = await _next(stream)
        assert isinstance(item, ResetNotice)
        assert item.position == feed.position


async def test_feed_delivers_more_events_than_one_read_returns(
    database: Database, feed: Feed, followed: FeedFollower
) -> None:
    keys = [str(number) for number in range(outbox.READ_LIMIT + 20)]
    async with database.transaction() as tx:
        await outbox.append_many(tx, "test.happened", [(key, {}) for key in keys])
    await _take(feed, len(keys))
    assert followed.events == keys


async def test_feed_reads_the_state_again_after_an_outage_and_misses_nothing(
    database: Database, feed: Feed, followed: FeedFollower
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


async def test_feed_resets_watchers_after_a_failover_that_lost_commits(
    database: Database, feed: Feed, followed: FeedFollower
) -> None:
    async with aclosing(feed.watch(None, QUIET_S)) as stream:
        assert isinstance(await anext(stream), QuietNotice)
        # As if what we had read were beyond what the new primary knows.
        feed.position, feed._was_away = OutboxPosition(10**15, 1), True
        async with aclosing(feed.watch(feed.position, QUIET_S)) as ahead:
            await feed.tick()
            assert isinstance(await _next(ahead), ResetNotice)
        assert followed.rereads == 1
        await _append(database, "after")
        await _take(feed, 1)
        assert await _keys(stream, 1) == ["after"]


async def test_closing_the_feed_ends_every_watch(feed: Feed) -> None:
    async def watch() -> int:
        async with aclosing(feed.watch(None, 60)) as stream:
            return len([item async for item in stream])

    async with asyncio.TaskGroup() as group:
        watching = [group.create_task(watch()) for _ in range(3)]
        await asyncio.wait(watching, timeout=0)
        feed.close()
    assert [task.result() <= 1 for task in watching] == [True] * 3


async def test_commit_that_wrote_events_is_announced_and_one_that_did_not_is_not(database: Database) -> None:
    commits: list[bool] = []
    database.after_commit = lambda: commits.append(True)
    async with database.transaction() as tx:
        await tx.execute(text("SELECT 1"))
    assert commits == []
    await _append(database, "a")
    assert commits == [True]

    async def fail() -> None:
        async with database.transaction() as tx:
            await outbox.append(tx, "test.happened", "b")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert commits == [True]
