"""The leader's lease: one holder, terms that grow, writes that an old term cannot make, and no gap in watching."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import text

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.domain.errors import LeaseLost
from corral.reconcile.leader import LEASE_NAME, LeaderElector
from corral.reconcile.maintenance import LivenessChecker, Pruner, RetentionOptions
from corral.store import cluster as cluster_store
from corral.store import nodes as node_store
from corral.store.database import Database, Transaction
from tests.nodes.registry import transaction_waits_for_a_lock

LEASE_S = 15.0
NODE_LEASE_S = 45.0


def _leader(database: Database, name: str) -> LeaderElector:
    return LeaderElector(database, SystemClock(), name, LEASE_S)


async def _change(database: Database, statement: str) -> None:
    async with database.transaction() as tx:
        await tx.execute(text(statement))


async def _run_out(database: Database) -> None:
    await _change(database, "UPDATE leases SET expires_at = corral_now() - interval '1 ms'")


async def _write(tx: Transaction) -> None:
    await cluster_store.put_frontend(tx, {"id": "mark", "host": "", "port": 1, "pid": 1, "version": ""})


async def _write_fenced(database: Database, leader: LeaderElector) -> None:
    async with database.transaction() as tx:
        await _write(tx)
        await leader.fence(tx)


async def _written(database: Database) -> bool:
    async with database.transaction() as tx:
        return bool(await cluster_store.list_frontends(tx, 60))


async def test_concurrent_elections_have_one_leader(database: Database) -> None:
    leaders = [_leader(database, f"f{number}") for number in range(6)]
    async with asyncio.TaskGroup() as group:
        for leader in leaders:
            group.create_task(leader.tick())
    assert sum(leader.is_leader() for leader in leaders) == 1
    for leader in leaders:
        await leader.tick()
    assert sum(leader.is_leader() for leader in leaders) == 1, "holding it renews it; the others wait"


async def test_renewal_keeps_the_term_and_moves_the_end(database: Database) -> None:
    leader = _leader(database, "one")
    first = await leader.tick()
    second = await leader.tick()
    assert first is not None
    assert second is not None
    assert (second.term, second.acquired_at) == (first.term, first.acquired_at)
    assert second.expires_at > first.expires_at


async def test_term_grows_with_every_holder_also_when_it_is_the_same_one_again(database: Database) -> None:
    one, two = _leader(database, "one"), _leader(database, "two")
    terms = []
    for leader in (one, two, two, one):
        await _run_out(database)
        held = await leader.tick()
        assert held is not None
        terms.append(held.term)
    assert terms == [1, 2, 3, 4]


async def test_write_of_an_old_term_is_refused(database: Database) -> None:
    old, new = _leader(database, "old"), _leader(database, "new")
    await old.tick()
    await _run_out(database)
    await new.tick()
    assert old.is_leader(), "it does not know yet; that is what the fence is for"
    with pytest.raises(LeaseLost):
        await _write_fenced(database, old)
    assert not await _written(database)
    await _write_fenced(database, new)
    assert await _written(database)
    await old.tick()
    assert not old.is_leader()


async def test_fenced_write_after_the_lease_expired_is_refused(database: Database) -> None:
    leader = _leader(database, "one")
    await leader.tick()
    await _run_out(database)
    with pytest.raises(LeaseLost):
        async with database.transaction() as tx:
            await leader.fence(tx)


async def test_frontend_that_never_led_writes_nothing(database: Database) -> None:
    leader = _leader(database, "one")
    for tick in (
        LivenessChecker(database, leader, NODE_LEASE_S).tick,
        Pruner(database, leader, RetentionOptions(outbox_s=1)).tick,
    ):
        with pytest.raises(LeaseLost):
            await tick()


@pytest.mark.behaviour("NODE-136")
async def test_lease_cannot_be_taken_during_a_fenced_write(database: Database) -> None:
    old, new = _leader(database, "old"), _leader(database, "new")
    await old.tick()
    async with asyncio.TaskGroup() as group, database.transaction() as tx:
        await old.fence(tx)
        await _write(tx)
        # Its time is over now, as if the transaction had taken very long.
        taking = group.create_task(_take_over_an_expired_lease(database, new))
        await transaction_waits_for_a_lock(database)
        assert not taking.done()
    assert await _written(database)
    assert new.is_leader()


async def _take_over_an_expired_lease(database: Database, leader: LeaderElector) -> None:
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE leases SET expires_at = corral_now() - interval '1 ms'"))
    await leader.tick()


async def test_leader_that_stops_hands_over_at_once_and_without_a_gap(database: Database) -> None:
    old, new = _leader(database, "old"), _leader(database, "new")
    first = await old.tick()
    assert first is not None
    await _change(database, "UPDATE leases SET unbroken_since = corral_now() - interval '1 hour'")
    assert await new.tick() is None
    await old.release()
    assert not old.is_leader()
    held = await new.tick()
    assert held is not None
    assert held.term == first.term + 1
    async with database.transaction() as tx:
        assert await cluster_store.has_watched_for(tx, held, 3600)


async def test_release_of_an_old_term_does_not_take_the_lease_from_the_new_holder(database: Database) -> None:
    old, new = _leader(database, "old"), _leader(database, "new")
    await old.tick()
    await _run_out(database)
    await new.tick()
    await old.release()
    async with database.transaction() as tx:
        found = await cluster_store.find_lease(tx, LEASE_NAME)
    assert found is not None
    assert found.holder == "new"


@pytest.fixture
async def silent_node(database: Database) -> str:
    """A node whose lease ran out an hour ago."""
    row = {
        "id": SystemIdGenerator().new_id(),
        "name": "silent",
        "node_type": "backend",
        "credential_hash": "",
        "boot_id": "boot",
    }
    async with database.transaction() as tx:
        await node_store.insert_node(tx, row, -3600)
    return "silent"


@pytest.mark.behaviour("LEAD-5")
@pytest.mark.parametrize("way", ["first leader ever", "after a gap", "after its own gap"])
async def test_no_node_is_lost_before_the_leaders_have_watched_for_one_lease(
    database: Database, silent_node: str, way: str
) -> None:
    one, two = _leader(database, "one"), _leader(database, "two")
    leader = one
    await one.tick()
    if way != "first leader ever":
        await _change(database, "UPDATE leases SET unbroken_since = corral_now() - interval '1 hour'")
        await _run_out(database)
        leader = two if way == "after a gap" else one
        await leader.tick()
    check = LivenessChecker(database, leader, NODE_LEASE_S)
    assert await check.tick() == []
    await _change(database, f"UPDATE leases SET unbroken_since = corral_now() - interval '{NODE_LEASE_S - 1} s'")
    assert await check.tick() == []
    await _change(database, f"UPDATE leases SET unbroken_since = corral_now() - interval '{NODE_LEASE_S} s'")
    assert await check.tick() == [silent_node]
    assert await check.tick() == [], "once is enough"


async def test_replaced_leader_marks_no_node_as_lost(database: Database, silent_node: str) -> None:
    old, new = _leader(database, "old"), _leader(database, "new")
    await old.tick()
    await _run_out(database)
    await new.tick()
    await _change(database, "UPDATE leases SET unbroken_since = corral_now() - interval '1 hour'")
    assert old.is_leader(), "it does not know yet"
    with pytest.raises(LeaseLost):
        await LivenessChecker(database, old, NODE_LEASE_S).tick()
    assert await LivenessChecker(database, new, NODE_LEASE_S).tick() == [silent_node]


@pytest.mark.behaviour("LEAD-5")
async def test_handover_in_time_does_not_restart_the_watch(database: Database, silent_node: str) -> None:
    old, new = _leader(database, "old"), _leader(database, "new")
    await old.tick()
    await _change(database, "UPDATE leases SET unbroken_since = corral_now() - interval '1 hour'")
    await old.release()
    await new.tick()
    assert await LivenessChecker(database, new, NODE_LEASE_S).tick() == [silent_node]


async def test_leader_stops_believing_in_itself_before_its_lease_runs_out(database: Database) -> None:
    clock = _HeldClock()
    leader = LeaderElector(database, clock, "one", LEASE_S)
    await leader.tick()
    clock.now_s += LEASE_S * 0.79
    assert leader.is_leader()
    clock.now_s += LEASE_S * 0.02
    assert not leader.is_leader()
    await leader.tick()
    assert leader.is_leader()


class _HeldClock(SystemClock):
    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s
