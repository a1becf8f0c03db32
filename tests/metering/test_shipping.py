"""From the spools into PostgreSQL: once each, whatever ends in between."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select

from corral.adapters.system import SystemIds
from corral.domain.access import SESSION_KEY_PREFIX
from corral.domain.errors import StoreUnavailable
from corral.metering import lines
from corral.metering.shipping import Metering, Step
from corral.store.database import Database
from corral.store.schema import api_keys
from corral.store.tenant_schema import usage, usage_spools, users
from tests.metering.scene import CHAT, KEY, answered, counted, files, leave, metering, sums_of

# Nobody listens on port 1 of the loopback.
AWAY = "postgresql://postgres@127.0.0.1:1/nothing"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "usage"


async def _started(database: Database, root: Path | None) -> Metering:
    made = metering(database, root)
    await made.start()
    return made


def _answer(made: Metering, count: int) -> None:
    for _ in range(count):
        made.spool.answered(answered())


@pytest.mark.behaviour("GW-161")
async def test_a_batch_is_counted_and_its_file_goes(database: Database, root: Path) -> None:
    made = await _started(database, root)
    _answer(made, 3)
    assert await made.tick() == 1
    assert await counted(database) == {CHAT: sums_of(3)}
    assert files(root) == [f"{made.spool_id}/2.lines"]
    assert made.waiting().requests == 0
    _answer(made, 2)
    assert await made.tick() == 1
    assert await counted(database) == {CHAT: sums_of(5)}


@pytest.mark.behaviour("GW-161")
async def test_a_pass_without_requests_asks_nothing_of_postgresql(root: Path) -> None:
    nowhere = Database(AWAY)
    made = await _started(nowhere, root)
    assert await made.tick() == 0
    await nowhere.close()


@pytest.mark.behaviour("GW-161")
async def test_a_commit_whose_answer_was_lost_is_not_counted_twice(database: Database, root: Path) -> None:
    losses = [StoreUnavailable("The connection broke.")]

    def lose(step: Step) -> None:
        if step is Step.COMMITTED and losses:
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
async def test_a_number_that_is_counted_counts_nothing_the_second_time(database: Database, root: Path) -> None:
    made = await _started(database, root)
    assert await made._count("spool", 4, {CHAT: sums_of(1)})
    assert not await made._count("spool", 4, {CHAT: sums_of(1)})
    assert not await made._count("spool", 3, {CHAT: sums_of(1)})
    assert await made._count("another", 4, {CHAT: sums_of(1)})
    assert await counted(database) == {CHAT: sums_of(2)}


@pytest.mark.behaviour("GW-162")
async def test_while_postgresql_is_away_all_is_kept_and_counted_when_it_is_back(database: Database, root: Path) -> None:
    made = await _started(database, root)
    nowhere = Database(AWAY)
    made._database = nowhere
    for _ in range(3):
        _answer(made, 5)
        with pytest.raises(StoreUnavailable):
            await made.tick()
    waiting = made.waiting()
    assert waiting.requests == 15
    assert waiting.failing_s is not None
    assert "15 requests" in waiting.sentences[0]
    # One batch may have been counted without our knowing; the rest goes on in one file.
    assert files(root) == [f"{made.spool_id}/1.lines", f"{made.spool_id}/2.lines"]
    made._database = database
    await made.tick()
    await made.tick()
    assert await counted(database) == {CHAT: sums_of(15)}
    assert made.waiting().sentences == []
    await nowhere.close()


@pytest.mark.behaviour("GW-162")
async def test_usage_is_shipped_at_the_end_and_nothing_stays_on_the_disk(database: Database, root: Path) -> None:
    made = await _started(database, root)
    _answer(made, 3)
    await made.stop()
    assert await counted(database) == {CHAT: sums_of(3)}
    assert list(root.iterdir()) == []


@pytest.mark.behaviour("GW-163")
async def test_what_a_process_leaves_that_ends_without_postgresql_is_counted_by_the_next(
    database: Database, root: Path
) -> None:
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


@pytest.mark.behaviour("GW-163")
async def test_a_spool_whose_process_lives_is_left_alone(database: Database, root: Path) -> None:
    living = await _started(database, root)
    _answer(living, 3)
    other = await _started(database, root)
    _answer(other, 1)
    await other.tick()
    assert await counted(database) == {CHAT: sums_of(1)}
    await living.tick()
    assert await counted(database) == {CHAT: sums_of(4)}


@pytest.mark.behaviour("GW-163")
async def test_of_two_that_find_the_same_leftover_one_counts_it(database: Database, root: Path) -> None:
    dead = await _started(database, root)
    _answer(dead, 3)
    leave(dead)
    both = [await _started(database, root) for _ in range(2)]
    async with asyncio.TaskGroup() as group:
        for one in both:
            group.create_task(one.tick())
    assert await counted(database) == {CHAT: sums_of(3)}
    assert not (root / dead.spool_id).exists()


@pytest.mark.behaviour("GW-163")
async def test_several_spools_at_once_add_up(database: Database, root: Path) -> None:
    several = [await _started(database, root) for _ in range(4)]

    async def work(made: Metering) -> None:
        for _ in range(10):
            for model in ("a", "b", "c"):
                made.spool.answered(answered(model=model))
            await made.tick()

    async with asyncio.TaskGroup() as group:
        for made in several:
            group.create_task(work(made))
    assert {bucket[2]: sums for bucket, sums in (await counted(database)).items()} == {
        model: sums_of(40) for model in ("a", "b", "c")
    }


@pytest.mark.behaviour("GW-165")
async def test_a_damaged_leftover_counts_as_far_as_it_can_be_read_and_is_kept(database: Database, root: Path) -> None:
    dead = await _started(database, root)
    _answer(dead, 2)
    path = root / dead.spool_id / "1.lines"
    path.write_bytes(path.read_bytes() + b"\0\0\0\n" + lines.whole(CHAT, sums_of(1)) + b'[494000,"half')
    leave(dead)
    next_one = await _started(database, root)
    await next_one.tick()
    assert await counted(database) == {CHAT: sums_of(3)}
    assert files(root) == sorted([f"{dead.spool_id}-1.damaged", f"{next_one.spool_id}/1.lines"])


@pytest.mark.behaviour("GW-166")
async def test_a_long_leftover_is_summed_up_while_postgresql_is_away(database: Database, root: Path) -> None:
    dead = await _started(database, root)
    _answer(dead, 2000)
    leave(dead)
    nowhere = Database(AWAY)
    next_one = await _started(nowhere, root)
    with pytest.raises(StoreUnavailable):
        await next_one.tick()
    path = root / dead.spool_id / "1.lines"
    assert path.read_bytes() == lines.whole(CHAT, sums_of(2000))
    next_one._database = database
    await next_one.tick()
    assert await counted(database) == {CHAT: sums_of(2000)}
    await nowhere.close()


@pytest.mark.behaviour("GW-164")
async def test_without_a_disk_usage_is_shipped_from_memory(database: Database, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    made = await _started(database, tmp_path / "file" / "usage")
    _answer(made, 3)
    assert "in memory only" in made.waiting().sentences[0]
    await made.tick()
    assert await counted(database) == {CHAT: sums_of(3)}


async def test_without_a_folder_usage_is_shipped_from_memory_and_nothing_is_wrong(database: Database) -> None:
    made = await _started(database, None)
    _answer(made, 3)
    await made.tick()
    assert await counted(database) == {CHAT: sums_of(3)}
    assert made.waiting().sentences == []
    await made.stop()


async def test_a_file_that_somebody_removed_is_told_and_holds_nothing_up(database: Database, root: Path) -> None:
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


async def test_what_somebody_asks_by_a_session_is_counted_as_theirs(database: Database, root: Path) -> None:
    user_id = SystemIds().new_id()
    async with database.transaction() as tx:
        await tx.execute(insert(users).values(id=user_id, name="ada", scope="infer", created_by="test"))
    made = await _started(database, root)
    made.spool.answered(answered(key_id=f"{SESSION_KEY_PREFIX}{user_id}"))
    await made.tick()
    async with database.transaction() as tx:
        row = (await tx.execute(select(usage.c.key_name, usage.c.user_name, usage.c.requests))).one()
    assert tuple(row) == ("session", "ada", 1)


@pytest.mark.behaviour("GW-167")
async def test_names_of_key_and_user_are_kept_with_what_they_used_after_both_are_gone(
    database: Database, root: Path
) -> None:
    user_id = SystemIds().new_id()
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


async def test_a_spool_is_one_row_however_many_batches_it_has(database: Database, root: Path) -> None:
    made = await _started(database, root)
    for _ in range(5):
        _answer(made, 1)
        await made.tick()
    async with database.transaction() as tx:
        row = (await tx.execute(select(func.count(), func.max(usage_spools.c.batch)))).one()
    assert tuple(row) == (1, 5)


async def test_errors_are_counted_beside_requests(database: Database, root: Path) -> None:
    made = await _started(database, root)
    made.spool.answered(answered(status=502, prompt_tokens=None, cached_tokens=None, completion_tokens=None))
    _answer(made, 1)
    await made.tick()
    assert await counted(database) == {CHAT: replace(sums_of(1), requests=2, errors=1)}
