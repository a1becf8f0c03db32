"""From the spools into PostgreSQL: once each, whatever ends in between."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.domain.access import SESSION_KEY_PREFIX
from corral.domain.errors import StoreUnavailable
from corral.domain.usage import HOUR_S
from corral.metering import usage_spool
from corral.metering.usage_shipper import ShippingStep, UsageShipper
from corral.store.database import Database
from corral.store.schema import api_keys, usage, usage_spools, users
from tests.metering.scene import CHAT, HOUR, KEY, answered, counted, files, leave, metering, sums_of

# Nobody listens on port 1 of the loopback.
AWAY = "postgresql://postgres@127.0.0.1:1/nothing"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "usage"


async def _started(database: Database, root: Path | None) -> UsageShipper:
    made = metering(database, root)
    await made.start()
    return made


def _answer(made: UsageShipper, count: int) -> None:
    for _ in range(count):
        made.spool.on_requests_ended(answered())


@pytest.mark.behaviour("GW-161")
async def test_batch_is_counted_and_its_file_goes(database: Database, root: Path) -> None:
    made = await _started(database, root)
    _answer(made, 3)
    assert await made.tick() == 1
    assert await counted(database) == {CHAT: sums_of(3)}
    assert files(root) == [f"{made.spool_id}/2.lines"]
    assert made.measure_backlog().requests == 0
    _answer(made, 2)
    assert await made.tick() == 1
    assert await counted(database) == {CHAT: sums_of(5)}


@pytest.mark.behaviour("GW-161")
async def test_shipper_sends_no_query_without_new_usage(root: Path) -> None:
    nowhere = Database(AWAY)
    made = await _started(nowhere, root)
    assert await made.tick() == 0
    await nowhere.close()


@pytest.mark.behaviour("GW-161")
async def test_commit_whose_answer_was_lost_is_not_counted_twice(database: Database, root: Path) -> None:
    losses = [StoreUnavailable("The connection broke.")]

    def lose(step: ShippingStep) -> None:
        if step is ShippingStep.COMMITTED and losses:
            raise losses.pop()

    made = metering(database, root, lose)
    await made.start()
    _answer(made, 3)
    with pytest.raises(StoreUnavailable):
        await made.tick()
    _answer(made, 4)
    await made.tick()
    await made.tick()
    assert await counted(database) == {CHAT: sums_of(7)}


@pytest.mark.behaviour("GW-161")
async def test_number_that_is_counted_counts_nothing_the_second_time(database: Database, root: Path) -> None:
    made = await _started(database, root)
    assert await made._count("spool", 4, {CHAT: sums_of(1)})
    assert not await made._count("spool", 4, {CHAT: sums_of(1)})
    assert not await made._count("spool", 3, {CHAT: sums_of(1)})
    assert await made._count("another", 4, {CHAT: sums_of(1)})
    assert await counted(database) == {CHAT: sums_of(2)}


async def test_usage_is_kept_while_postgresql_is_away_and_counted_when_it_is_back(
    database: Database, root: Path
) -> None:
    made = await _started(database, root)
    nowhere = Database(AWAY)
    made._database = nowhere
    for _ in range(3):
        _answer(made, 5)
        with pytest.raises(StoreUnavailable):
            await made.tick()
    waiting = made.measure_backlog()
    assert waiting.requests == 15
    assert waiting.failing_s is not None
    assert "15 requests" in waiting.sentences[0]
    # One batch may have been counted without our knowing; the rest goes on in one file.
    assert files(root) == [f"{made.spool_id}/1.lines", f"{made.spool_id}/2.lines"]
    made._database = database
    await made.tick()
    await made.tick()
    assert await counted(database) == {CHAT: sums_of(15)}
    assert made.measure_backlog().sentences == []
    await nowhere.close()


async def test_usage_is_shipped_at_the_end_and_nothing_stays_on_the_disk(database: Database, root: Path) -> None:
    made = await _started(database, root)
    _answer(made, 3)
    await made.stop()
    assert await counted(database) == {CHAT: sums_of(3)}
    assert list(root.iterdir()) == []


async def test_usage_of_a_stopped_process_is_shipped_by_the_next_one(database: Database, root: Path) -> None:
    nowhere = Database(AWAY)
    first = await _started(nowhere, root)
    _answer(first, 3)
    await first.stop()
    assert files(root) != []
    second = await _started(database, root)
    await second.tick()
    assert await counted(database) == {CHAT: sums_of(3)}
    await second.stop()
    assert list(root.iterdir()) == []
    await nowhere.close()


async def test_spool_whose_process_lives_is_left_alone(database: Database, root: Path) -> None:
    living = await _started(database, root)
    _answer(living, 3)
    other = await _started(database, root)
    _answer(other, 1)
    await other.tick()
    assert await counted(database) == {CHAT: sums_of(1)}
    await living.tick()
    assert await counted(database) == {CHAT: sums_of(4)}


async def test_leftover_spool_is_shipped_once_by_concurrent_processes(database: Database, root: Path) -> None:
    dead = await _started(database, root)
    _answer(dead, 3)
    leave(dead)
    both = [await _started(database, root) for _ in range(2)]
    async with asyncio.TaskGroup() as group:
        for one in both:
            group.create_task(one.tick())
    assert await counted(database) == {CHAT: sums_of(3)}
    assert not (root / dead.spool_id).exists()


async def test_spools_shipped_at_once_add_up(database: Database, root: Path) -> None:
    several = [await _started(database, root) for _ in range(4)]

    async def work(made: UsageShipper) -> None:
        for _ in range(10):
            for model in ("a", "b", "c"):
                made.spool.on_requests_ended(answered(model=model))
            await made.tick()

    async with asyncio.TaskGroup() as group:
        for made in several:
            group.create_task(work(made))
    assert {bucket[2]: sums for bucket, sums in (await counted(database)).items()} == {
        model: sums_of(40) for model in ("a", "b", "c")
    }


async def test_damaged_leftover_counts_as_far_as_it_can_be_read_and_is_kept(database: Database, root: Path) -> None:
    dead = await _started(database, root)
    _answer(dead, 2)
    path = root / dead.spool_id / "1.lines"
    path.write_bytes(path.read_bytes() + b"\0\0\0\n" + usage_spool.render_line(CHAT, sums_of(1)) + b'[494000,"half')
    leave(dead)
    next_one = await _started(database, root)
    await next_one.tick()
    assert await counted(database) == {CHAT: sums_of(3)}
    assert files(root) == sorted([f"{dead.spool_id}-1.damaged", f"{next_one.spool_id}/1.lines"])


async def test_spool_of_an_older_version_is_counted_without_a_node(database: Database, root: Path) -> None:
    made = await _started(database, root)
    _answer(made, 1)
    path = root / made.spool_id / "1.lines"
    # As it was written until then; one of them is a line of sums.
    old = (
        b'[494000,"0198c0de-0000-7000-8000-000000000001","llama","chat",1,0,10,4,5,0]\n'
        b'[494000,"0198c0de-0000-7000-8000-000000000001","llama","chat",2,0,20,8,10,0]\n'
    )
    path.write_bytes(old + path.read_bytes())
    leave(made)
    next_one = await _started(database, root)
    await next_one.tick()
    assert await counted(database) == {CHAT: sums_of(1), (HOUR, KEY, "llama", "chat", ""): sums_of(3)}
    assert files(root) == [f"{next_one.spool_id}/1.lines"], "nothing of it is taken for damage"


async def test_long_leftover_is_summed_up_while_postgresql_is_away(database: Database, root: Path) -> None:
    dead = await _started(database, root)
    _answer(dead, 2000)
    leave(dead)
    nowhere = Database(AWAY)
    next_one = await _started(nowhere, root)
    with pytest.raises(StoreUnavailable):
        await next_one.tick()
    path = root / dead.spool_id / "1.lines"
    assert path.read_bytes() == usage_spool.render_line(CHAT, sums_of(2000))
    next_one._database = database
    await next_one.tick()
    assert await counted(database) == {CHAT: sums_of(2000)}
    await nowhere.close()


async def test_usage_is_shipped_from_memory_without_a_disk(database: Database, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    made = await _started(database, tmp_path / "file" / "usage")
    _answer(made, 3)
    assert "in memory only" in made.measure_backlog().sentences[0]
    await made.tick()
    assert await counted(database) == {CHAT: sums_of(3)}


async def test_usage_is_shipped_from_memory_without_a_folder_and_reports_no_problem(database: Database) -> None:
    made = await _started(database, None)
    _answer(made, 3)
    await made.tick()
    assert await counted(database) == {CHAT: sums_of(3)}
    assert made.measure_backlog().sentences == []
    await made.stop()


async def test_removed_spool_file_does_not_hold_up_later_batches(database: Database, root: Path) -> None:
    made = await _started(database, root)
    nowhere = Database(AWAY)
    made._database = nowhere
    _answer(made, 3)
    with pytest.raises(StoreUnavailable):
        await made.tick()
    (root / made.spool_id / "1.lines").unlink()
    _answer(made, 2)
    made._database = database
    await made.tick()
    await made.tick()
    assert await counted(database) == {CHAT: sums_of(2)}
    await nowhere.close()


async def test_usage_of_a_session_is_counted_for_its_user(database: Database, root: Path) -> None:
    user_id = SystemIdGenerator().new_id()
    async with database.transaction() as tx:
        await tx.execute(insert(users).values(id=user_id, name="ada", scope="infer", created_by="test"))
    made = await _started(database, root)
    made.spool.on_requests_ended(answered(key_id=f"{SESSION_KEY_PREFIX}{user_id}"))
    await made.tick()
    async with database.transaction() as tx:
        row = (await tx.execute(select(usage.c.key_name, usage.c.user_name, usage.c.requests))).one()
    assert tuple(row) == ("session", "ada", 1)


async def test_names_of_key_and_user_are_kept_with_what_they_used_after_both_are_gone(
    database: Database, root: Path
) -> None:
    user_id = SystemIdGenerator().new_id()
    async with database.transaction() as tx:
        await tx.execute(insert(users).values(id=user_id, name="ada", scope="infer", created_by="test"))
        key = {"id": KEY, "name": "laptop", "hash": "h", "prefix": "ck_1", "user_id": user_id, "created_by": "test"}
        await tx.execute(insert(api_keys).values(**key))
    made = await _started(database, root)
    _answer(made, 1)
    await made.tick()
    async with database.transaction() as tx:
        await tx.execute(users.delete())
    _answer(made, 1)
    await made.tick()
    async with database.transaction() as tx:
        row = (await tx.execute(select(usage.c.key_name, usage.c.user_name, usage.c.requests))).one()
    assert tuple(row) == ("laptop", "ada", 2)


async def _put_key(database: Database, key_id: str = KEY) -> None:
    key = {"id": key_id, "name": "laptop", "hash": f"h {key_id}", "prefix": "ck_1", "created_by": "test"}
    async with database.transaction() as tx:
        await tx.execute(insert(api_keys).values(**key))


async def _last_used(database: Database) -> datetime | None:
    async with database.transaction() as tx:
        at: datetime | None = (
            await tx.execute(select(api_keys.c.last_used_at).where(api_keys.c.id == KEY))
        ).scalar_one()
    return at


async def _now(database: Database) -> datetime:
    async with database.transaction() as tx:
        now: datetime = (await tx.execute(select(func.corral_now()))).scalar_one()
    return now


@pytest.mark.parametrize("hours_ago", [0, 1])
async def test_key_was_last_used_when_what_it_used_was_counted(database: Database, root: Path, hours_ago: int) -> None:
    await _put_key(database)
    assert await _last_used(database) is None
    made = await _started(database, root)
    before = await _now(database)
    made.spool.on_requests_ended(answered(began_at=before.timestamp() - hours_ago * HOUR_S))
    await made.tick()
    at = await _last_used(database)
    assert at is not None
    assert before <= at <= await _now(database)


async def test_late_usage_sets_last_use_to_the_end_of_its_hour_and_never_back(database: Database, root: Path) -> None:
    await _put_key(database)
    made = await _started(database, root)
    # In one batch the last hour is the one that tells.
    for hour in (HOUR, HOUR - 5):
        made.spool.on_requests_ended(answered(began_at=hour * HOUR_S + 12.5))
    await made.tick()
    end = datetime.fromtimestamp((HOUR + 1) * HOUR_S, UTC)
    assert await _last_used(database) == end
    made.spool.on_requests_ended(answered(began_at=(HOUR - 1) * HOUR_S + 12.5))
    await made.tick()
    assert await _last_used(database) == end
    made.spool.on_requests_ended(answered(began_at=(HOUR + 2) * HOUR_S + 12.5))
    await made.tick()
    assert await _last_used(database) == end + timedelta(hours=2)


async def test_repeated_batch_does_not_change_the_last_use_of_its_key(database: Database, root: Path) -> None:
    made = await _started(database, root)
    await made._count("spool", 4, {CHAT: sums_of(1)})
    await _put_key(database)
    assert not await made._count("spool", 4, {CHAT: sums_of(1)})
    assert await _last_used(database) is None


async def test_spools_that_have_the_same_keys_in_another_order_do_not_wait_for_each_other(
    database: Database, root: Path
) -> None:
    ids = [SystemIdGenerator().new_id() for _ in range(20)]
    for key_id in ids:
        await _put_key(database, key_id)
    several = [await _started(database, root) for _ in range(4)]
    now = SystemClock().wall().timestamp()

    async def work(made: UsageShipper, order: list[str]) -> None:
        for _ in range(5):
            for key_id in order:
                made.spool.on_requests_ended(answered(key_id=key_id, began_at=now))
            await made.tick()

    async with asyncio.TaskGroup() as group:
        for place, made in enumerate(several):
            group.create_task(work(made, ids if place % 2 else ids[::-1]))
    assert sum(sums.requests for sums in (await counted(database)).values()) == 4 * 5 * len(ids)


async def test_spool_is_one_row_however_many_batches_it_has(database: Database, root: Path) -> None:
    made = await _started(database, root)
    for _ in range(5):
        _answer(made, 1)
        await made.tick()
    async with database.transaction() as tx:
        row = (await tx.execute(select(func.count(), func.max(usage_spools.c.batch)))).one()
    assert tuple(row) == (1, 5)


async def test_errors_are_counted_beside_requests(database: Database, root: Path) -> None:
    made = await _started(database, root)
    made.spool.on_requests_ended(answered(status=502, prompt_tokens=None, cached_tokens=None, completion_tokens=None))
    _answer(made, 1)
    await made.tick()
    assert await counted(database) == {CHAT: replace(sums_of(1), requests=2, errors=1)}
