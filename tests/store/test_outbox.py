"""The outbox: transactions commit out of order, and still no reader ever misses an event."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from corral.domain.cluster import ORIGIN, OutboxEvent, OutboxPosition
from corral.domain.errors import InvalidRequest
from corral.store import outbox
from corral.store.database import Database
from tests.support.polling import eventually


async def _append(database: Database, *keys: str) -> None:
    for key in keys:
        async with database.transaction() as tx:
            await outbox.append(tx, "test.happened", key)


async def _read(database: Database, after: OutboxPosition, limit: int = outbox.READ_LIMIT) -> list[OutboxEvent]:
    async with database.transaction() as tx:
        return await outbox.read(tx, after, limit)


def _keys(events: list[OutboxEvent]) -> list[str]:
    return [event.key for event in events]


async def test_event_whose_transaction_commits_late_is_neither_skipped_nor_lost(database: Database) -> None:
    async with database.transaction() as slow:
        await outbox.append(slow, "test.happened", "slow")
        await _append(database, "quick")
        seen = await _read(database, ORIGIN)
        assert seen == [], "what a slower transaction may still precede is not shown yet"
    position = seen[-1].position if seen else ORIGIN
    assert _keys(await _read(database, position)) == ["slow", "quick"]


async def test_number_drawn_early_by_a_transaction_begun_late_is_still_in_order(database: Database) -> None:
    """Numbers and transaction ids may disagree about the order; a position holds both."""
    async with database.transaction() as first, database.transaction() as second:
        await first.execute(text("SELECT pg_current_xact_id()"))
        await outbox.append(second, "test.happened", "second")
        await outbox.append(first, "test.happened", "first")
    seen: list[OutboxEvent] = []
    while batch := await _read(database, seen[-1].position if seen else ORIGIN, 1):
        seen += batch
    assert _keys(seen) == ["first", "second"]
    assert seen[0].position.number > seen[1].position.number


async def test_event_of_a_transaction_that_failed_never_happened(database: Database) -> None:

    async def fail() -> None:
        async with database.transaction() as tx:
            await outbox.append(tx, "test.happened", "never")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    await _append(database, "after")
    assert _keys(await _read(database, ORIGIN)) == ["after"]


async def test_reading_in_pages_from_any_position_gives_the_same_events(database: Database) -> None:
    async with database.transaction() as tx:
        await outbox.append_many(tx, "test.happened", [("a", {}), ("b", {"n": 1}), ("c", {})])
    await _append(database, "d", "e")
    everything = await _read(database, ORIGIN)
    assert _keys(everything) == ["a", "b", "c", "d", "e"]
    assert everything[1].data == {"n": 1}
    for index, event in enumerate(everything):
        position = OutboxPosition.parse(str(event.position))
        assert await _read(database, position) == everything[index + 1 :]
        assert await _read(database, position, 2) == everything[index + 1 : index + 3]


async def test_pruning_moves_the_horizon_and_only_older_positions_must_start_again(database: Database) -> None:
    await _append(database, "old", "older")
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE outbox SET at = at - interval '2 days'"))
    await _append(database, "young")
    old, older, young = await _read(database, ORIGIN)
    async with database.transaction() as tx:
        before = await outbox.read_bounds(tx)
        assert before.can_resume(ORIGIN)
        assert await outbox.prune(tx, 86400) == 2
    async with database.transaction() as tx:
        bounds = await outbox.read_bounds(tx)
        assert bounds.horizon == older.position
        assert not bounds.can_resume(ORIGIN)
        assert not bounds.can_resume(old.position)
        assert bounds.can_resume(older.position), "nothing after it is gone"
        assert bounds.can_resume(young.position)
        assert await outbox.prune(tx, 86400) == 0
        assert (await outbox.read_bounds(tx)).horizon == older.position
    assert _keys(await _read(database, older.position)) == ["young"]


async def test_event_that_no_reader_may_see_yet_is_not_pruned(database: Database) -> None:
    async with database.transaction() as slow:
        await slow.execute(text("SELECT pg_current_xact_id()"))
        await _append(database, "waiting")
        async with database.transaction() as tx:
            await tx.execute(text("UPDATE outbox SET at = at - interval '2 days'"))
        async with database.transaction() as tx:
            assert await outbox.prune(tx, 86400) == 0


async def test_position_from_the_future_is_from_another_database(database: Database) -> None:
    await _append(database, "now")
    (event,) = await _read(database, ORIGIN)
    async with database.transaction() as tx:
        bounds = await outbox.read_bounds(tx)
    assert bounds.can_resume(event.position)
    assert bounds.can_resume(bounds.head)
    assert not bounds.can_resume(OutboxPosition(bounds.head.transaction + 1, 0))


async def test_head_covers_everything_that_was_committed(database: Database) -> None:
    await _append(database, "before")

    async def head() -> OutboxPosition:
        async with database.transaction() as tx:
            return (await outbox.read_bounds(tx)).head

    position = await head()
    assert await _read(database, position) == []
    await _append(database, "after")

    async def arrived() -> list[str]:
        return _keys(await _read(database, position))

    assert await eventually(arrived) == ["after"]


positions = st.builds(OutboxPosition, st.integers(0, 10**19 - 1), st.integers(0, 10**18 - 1))


@given(one=positions, other=positions)
def test_positions_read_back_as_written_and_order_by_transaction_first(
    one: OutboxPosition, other: OutboxPosition
) -> None:
    assert OutboxPosition.parse(str(one)) == one
    assert (one < other) == ((one.transaction, one.number) < (other.transaction, other.number))
    assert (one <= other) or (one > other)


@given(words=st.text(max_size=50))
def test_position_parser_reads_or_refuses_any_text(words: str) -> None:
    try:
        position: Any = OutboxPosition.parse(words)
    except InvalidRequest:
        return
    assert position >= ORIGIN
