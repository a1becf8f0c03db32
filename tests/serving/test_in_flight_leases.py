"""How many requests a replica answers: counted once, shared by leases, forgotten with the frontend."""

from __future__ import annotations

from collections import Counter

import pytest
from sqlalchemy import text

from corral.domain.errors import StoreUnavailable
from corral.domain.replica import Replica
from corral.gateway.routing.in_flight_leases import LEASE_S, InFlightLeases
from corral.gateway.routing.replica_pool import ReplicaCheckout, ReplicaPools
from corral.store import replica_use as use_store
from corral.store.database import Database
from tests.serving.scene import list_rows, no_replicas, put_model, put_replica, seats_with, settled
from tests.support.frontends import RunningFrontend
from tests.support.nodes import join_node
from tests.support.statements import count_statements


async def _three(frontend: RunningFrontend) -> list[Replica]:
    await put_model(frontend.database)
    made = []
    for number in range(3):
        node = await join_node(frontend, f"node-{number}")
        made.append(await put_replica(frontend.database, node.id, f"127.0.0.1:{number + 1}"))
    await settled(frontend)
    return made


class OtherFrontend:
    """What another frontend has in its memory, on the same registry."""

    def __init__(self, frontend: RunningFrontend, name: str, replicas: list[Replica]) -> None:
        self.seats: ReplicaPools = seats_with(replicas, clock=frontend.core.api_deps.clock)
        self.use = InFlightLeases(frontend.database, frontend.core.api_deps.clock, name, self.seats)

    def take(self, replica: Replica) -> ReplicaCheckout:
        seat = self.seats.find(replica.id)
        assert seat is not None
        return ReplicaCheckout(seat)


@pytest.mark.behaviour("NODE-60")
async def test_twelve_requests_at_once_are_spread_evenly_over_three_replicas(frontend: RunningFrontend) -> None:
    await _three(frontend)
    router = frontend.core.router
    model = await router.resolve("chat")
    held = [router.check_out(model) for _ in range(12)]
    assert Counter(one.replica.address for one in held if one) == {f"127.0.0.1:{n}": 4 for n in (1, 2, 3)}
    for one in held:
        assert one is not None
        one.release()


@pytest.mark.behaviour("NODE-59")
async def test_nine_requests_one_after_the_other_use_each_of_three_replicas_three_times(
    frontend: RunningFrontend,
) -> None:
    await _three(frontend)
    router = frontend.core.router
    model = await router.resolve("chat")
    used: Counter[str] = Counter()
    for _ in range(9):
        held = router.check_out(model)
        assert held is not None
        with held:
            used[held.replica.address] += 1
    assert set(used.values()) == {3}


@pytest.mark.behaviour("NODE-112")
async def test_replica_that_is_let_go_twice_is_let_go_once(frontend: RunningFrontend) -> None:
    await _three(frontend)
    router = frontend.core.router
    model = await router.resolve("chat")
    first, second = router.check_out(model, excluded=set()), router.check_out(model)
    assert first is not None
    assert second is not None
    first.release()
    first.release()
    assert router.leases.count_own_by_replica().get(first.replica.id, 0) == 0
    assert router.leases.count_own_by_replica().get(second.replica.id, 0) == 1
    with pytest.raises(ZeroDivisionError), second:
        _ = 1 / 0
    assert router.leases.count_own_by_replica().get(second.replica.id, 0) == 0


async def test_replica_use_lease_is_one_statement_that_also_reads_the_use_of_other_frontends(
    frontend: RunningFrontend,
) -> None:
    replicas = await _three(frontend)
    another_mine, another = OtherFrontend(frontend, "mine", replicas), OtherFrontend(frontend, "theirs", replicas)
    mine, theirs = another_mine.use, another.use
    held = [another.take(replicas[0]) for _ in range(5)]
    await theirs.tick()
    statements: list[str] = []
    count_statements(frontend.database, statements.append)
    another_mine.take(replicas[1])
    with mine.count_waiting("chat"):
        await mine.tick()
    assert len([statement for statement in statements if "replica_use" in statement]) == 1
    assert mine.count_in_flight(replicas[0].id) == 5
    assert mine.count_own_by_replica().get(replicas[0].id, 0) == 0
    assert mine.count_in_flight(replicas[1].id) == 1
    rows = {replica.id: replica for replica in await list_rows(frontend.database)}
    assert [rows[replica.id].in_flight for replica in replicas] == [5, 1, 0]
    assert rows[replicas[0].id].last_used_at is not None
    assert rows[replicas[2].id].last_used_at is None
    for one in held:
        one.release()
    await theirs.tick()
    await mine.tick()
    assert mine.count_in_flight(replicas[0].id) == 0
    async with frontend.database.transaction() as tx:
        waiting = (await tx.execute(text("SELECT model, waiting FROM model_demand"))).all()
    assert [tuple(row) for row in waiting] == [("chat", 0)]


@pytest.mark.behaviour("NODE-114", "NODE-115")
async def test_share_of_a_frontend_that_was_killed_ends_with_its_lease(frontend: RunningFrontend) -> None:
    replicas = await _three(frontend)
    killed = OtherFrontend(frontend, "killed", replicas)
    killed.take(replicas[0])
    await killed.use.tick()
    assert {row.id: row.in_flight for row in await list_rows(frontend.database)}[replicas[0].id] == 1
    async with frontend.database.transaction() as tx:
        await tx.execute(
            text("UPDATE replica_use SET expires_at = expires_at - make_interval(secs => :s)"), {"s": LEASE_S}
        )
    assert {row.in_flight for row in await list_rows(frontend.database)} == {0}
    survivor = OtherFrontend(frontend, "survivor", replicas)
    await survivor.use.tick()
    assert survivor.use.count_in_flight(replicas[0].id) == 0


async def test_frontend_that_stops_takes_its_share_back(frontend: RunningFrontend) -> None:
    replicas = await _three(frontend)
    leaving = OtherFrontend(frontend, "leaving", replicas)
    leaving.take(replicas[0])
    await leaving.use.tick()
    await leaving.use.withdraw()
    rows = {row.id: row for row in await list_rows(frontend.database)}
    assert rows[replicas[0].id].in_flight == 0
    assert rows[replicas[0].id].last_used_at is not None


async def test_replica_that_went_meanwhile_does_not_break_the_lease_of_the_others(frontend: RunningFrontend) -> None:
    replicas = await _three(frontend)
    mine = OtherFrontend(frontend, "mine", replicas)
    use, held = mine.use, mine.take(replicas[0])
    await no_replicas(frontend.database)
    assert await use.tick() == 1
    held.release()
    await use.tick()
    assert use.is_quiet


async def test_replica_use_that_could_not_be_written_is_written_at_the_next_tick(
    frontend: RunningFrontend, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas = await _three(frontend)
    mine = OtherFrontend(frontend, "mine", replicas)
    mine.take(replicas[0]).release()
    whole = frontend.database.transaction
    monkeypatch.setattr(frontend.database, "transaction", lambda: (_ for _ in ()).throw(StoreUnavailable))
    with pytest.raises(StoreUnavailable):
        await mine.use.tick()
    monkeypatch.setattr(frontend.database, "transaction", whole)
    await mine.use.tick()
    assert {row.id: row.last_used_at for row in await list_rows(database)}[replicas[0].id] is not None


async def test_rows_of_frontends_that_are_long_gone_are_forgotten(frontend: RunningFrontend) -> None:
    replicas = await _three(frontend)
    old = OtherFrontend(frontend, "old", replicas)
    old.take(replicas[0])
    with old.use.count_waiting("chat"):
        await old.use.tick()
    async with frontend.database.transaction() as tx:
        await use_store.prune_use(tx)
        assert (await tx.execute(text("SELECT count(*) FROM replica_use"))).scalar_one() == 1
        await tx.execute(text("UPDATE replica_use SET expires_at = expires_at - interval '8 days'"))
        await tx.execute(text("UPDATE model_demand SET expires_at = expires_at - interval '8 days'"))
        await use_store.prune_use(tx)
        assert (await tx.execute(text("SELECT count(*) FROM replica_use"))).scalar_one() == 0
        assert (await tx.execute(text("SELECT count(*) FROM model_demand"))).scalar_one() == 0


async def test_replica_use_runs_no_statement_while_nothing_is_loaded(frontend: RunningFrontend) -> None:
    statements: list[str] = []
    count_statements(frontend.database, statements.append)
    assert await frontend.core.router.tick() == 0
    assert not [statement for statement in statements if "replica_use" in statement]


async def test_removed_replicas_are_forgotten(frontend: RunningFrontend) -> None:
    replicas = await _three(frontend)
    router = frontend.core.router
    model = await router.resolve("chat")
    held = [router.check_out(model) for _ in range(3)]
    await no_replicas(frontend.database)
    await settled(frontend)
    await router.tick()
    assert {seat.replica.id for seat in router.snapshot.pools} == {replica.id for replica in replicas}
    for one in held:
        assert one is not None
        one.release()
    await router.tick()
    await router.tick()
    assert list(router.snapshot.pools) == []


async def test_use_of_other_frontends_is_forgotten_when_nothing_was_read_for_a_lease(
    frontend: RunningFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas = await _three(frontend)
    theirs, mine = OtherFrontend(frontend, "theirs", replicas), OtherFrontend(frontend, "mine", replicas)
    theirs.take(replicas[0])
    await theirs.use.tick()
    await mine.use.tick()
    monkeypatch.setattr(frontend.database, "transaction", lambda: (_ for _ in ()).throw(StoreUnavailable))
    with pytest.raises(StoreUnavailable):
        await mine.use.tick()
    assert mine.use.count_in_flight(replicas[0].id) == 1
    monkeypatch.setattr(mine.use, "_others_until", 0.0)
    with pytest.raises(StoreUnavailable):
        await mine.use.tick()
    assert mine.use.count_in_flight(replicas[0].id) == 0
