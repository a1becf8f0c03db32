"""Waiting for one's turn at a model that is loaded and full."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import text

from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.gateway.errors import AllReplicasFailed, QueueFull, QueueTimeout
from corral.gateway.routing.replica_pool import (
    QueueEntry,
    ReplicaCheckout,
    ReplicaPool,
    ReplicaPoolOptions,
    ReplicaPools,
)
from corral.gateway.routing.router import Router
from corral.policy.serving.routing import RoutableNode
from corral.ports.requests import EngineLost
from corral.store.database import Database
from corral.store.replica_use import PeerUse
from tests.serving.scene import (
    RUN_HASH,
    PretendLoads,
    keep_only_the_feed,
    no_replicas,
    put_model,
    put_replica,
    seats_with,
    settled,
)
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import join_node
from tests.support.polling import eventually


def replica(name: str) -> Replica:
    return Replica(
        id=name,
        node_id=NodeId(name),
        model="chat",
        index=0,
        state=ReplicaState.LOADED,
        address=f"{name}:1",
        revision=RUN_HASH,
    )


def bench_with(names: str = "a", *, queue_max: int = 1000, parallel: int = 1) -> tuple[ReplicaPools, ReplicaPool]:
    options = ReplicaPoolOptions(queue_max=queue_max)
    seats = seats_with([replica(name) for name in names], options=options, parallel=parallel)
    bench = seats.find_pool("chat")
    assert bench is not None
    return seats, bench


def take(bench: ReplicaPool, *without: str) -> ReplicaCheckout:
    held = bench.check_out(without)
    assert held is not None
    return held


class WaitingRequests:
    """Requests that wait, and the order in which they are served."""

    def __init__(self, bench: ReplicaPool) -> None:
        self.bench = bench
        self.served: list[str] = []
        self.held: list[ReplicaCheckout] = []
        self.tasks: list[asyncio.Task[ReplicaCheckout | None]] = []

    async def join(self, who: str, cost: int = 1, *, within_s: float = 30.0) -> asyncio.Task[ReplicaCheckout | None]:
        task = asyncio.create_task(self._wait(who, cost, within_s))
        self.tasks.append(task)
        before = self.bench.queue.count

        async def stands_in_line() -> bool:
            return self.bench.queue.count > before or task.done()

        await eventually(stands_in_line)
        return task

    async def _wait(self, who: str, cost: int, within_s: float) -> ReplicaCheckout | None:
        held = await self.bench.wait_for_turn(QueueEntry(key_id=who, cost=cost), within_s)
        if held is not None:
            self.served.append(who)
            self.held.append(held)
        return held

    async def serve_all(self) -> None:
        """One after the other lets go."""
        while not all(task.done() for task in self.tasks):
            if self.held:
                self.held.pop(0).release()
            await asyncio.sleep(0)


async def test_released_replica_goes_to_the_next_waiting_request() -> None:
    _, bench = bench_with()
    first = take(bench)
    line = WaitingRequests(bench)
    waiting = await line.join("key")
    first.release()
    # Before anybody has run: the seat is taken already.
    assert bench.check_out() is None
    assert bench.queue.count == 0
    held = await waiting
    assert held is not None
    assert bench.replicas[0].in_flight_here == 1


@pytest.mark.behaviour("GW-65")
async def test_key_with_one_request_does_not_wait_behind_another_key_with_fifty() -> None:
    _, bench = bench_with()
    line = WaitingRequests(bench)
    line.held.append(take(bench))
    for _ in range(50):
        await line.join("crowd", 1000)
    await line.join("single", 1000)
    await line.serve_all()
    assert line.served.index("single") <= 2
    assert Counter(line.served) == {"crowd": 50, "single": 1}


async def test_cancelled_request_leaves_the_queue() -> None:
    _, bench = bench_with()
    first = take(bench)
    line = WaitingRequests(bench)
    leaving, staying = await line.join("a"), await line.join("b")
    leaving.cancel()
    await asyncio.wait([leaving])
    assert bench.queue.count == 1
    first.release()
    assert await staying is not None
    assert line.served == ["b"]


async def test_request_cancelled_at_its_turn_passes_the_replica_on() -> None:
    _, bench = bench_with()
    first = take(bench)
    line = WaitingRequests(bench)
    leaving, staying = await line.join("a"), await line.join("b")
    first.release()
    leaving.cancel()
    assert await staying is not None
    assert leaving.cancelled()
    assert bench.replicas[0].in_flight_here == 1


async def test_cancelled_request_that_is_still_queued_is_skipped() -> None:
    _, bench = bench_with()
    first = take(bench)
    line = WaitingRequests(bench)
    leaving, staying = await line.join("a"), await line.join("b")
    leaving.cancel()
    first.release()
    assert await staying is not None
    assert line.served == ["b"]
    assert bench.queue.count == 0


async def test_last_request_that_leaves_at_its_turn_leaves_the_replica_free() -> None:
    _, bench = bench_with()
    first = take(bench)
    leaving = await WaitingRequests(bench).join("a")
    first.release()
    leaving.cancel()
    await asyncio.wait([leaving])
    assert bench.replicas[0].in_flight_here == 0
    assert bench.check_out() is not None


@pytest.mark.behaviour("GW-72")
async def test_full_queue_is_429_with_the_time_that_it_will_take() -> None:
    _, bench = bench_with(queue_max=2)
    held = take(bench)
    bench.replicas[0].record_times(1.0, 1.0)
    for _ in range(200):
        bench.replicas[0].record_times(30.0, 1.0)
    line = WaitingRequests(bench)
    await line.join("a")
    await line.join("a")
    with pytest.raises(QueueFull) as caught:
        await bench.wait_for_turn(QueueEntry(key_id="b"), 1.0)
    assert caught.value.status == 429
    # Three in a row, 30 s each.
    assert caught.value.details == {"retry_after_s": 90, "waiting": 2}
    held.release()
    await line.serve_all()


async def test_request_that_waited_too_long_in_the_queue_gets_503_with_retry_after() -> None:
    _, bench = bench_with("ab")
    for _ in range(2):
        take(bench)
    with pytest.raises(QueueTimeout) as caught:
        await bench.wait_for_turn(QueueEntry(key_id="b"), 0.01)
    assert caught.value.status == 503
    assert caught.value.details["retry_after_s"] == 1
    assert "All 2 replicas of chat are busy" in caught.value.message
    assert bench.queue.count == 0


async def test_new_replica_serves_waiting_requests() -> None:
    seats, bench = bench_with()
    take(bench)
    line = WaitingRequests(bench)
    waiting = await line.join("key")
    placed = [(replica(name), RoutableNode(id=NodeId(name), name=name, is_open=True, labels={})) for name in "ab"]
    seats.update_pool(bench.model, placed)
    held = await waiting
    assert held is not None
    assert held.replica.id == "b"


async def test_waiting_requests_resolve_the_model_again_when_the_last_replica_goes() -> None:
    seats, bench = bench_with()
    take(bench)
    line = WaitingRequests(bench)
    waiting = [await line.join("key") for _ in range(3)]
    seats.remove_pool("chat")
    assert await asyncio.gather(*waiting) == [None, None, None]
    assert bench.queue.count == 0


async def test_retry_goes_first_and_gets_no_excluded_replica() -> None:
    _, bench = bench_with("ab")
    a, b = take(bench, "b"), take(bench, "a")
    line = WaitingRequests(bench)
    newcomer = await line.join("new")
    again = asyncio.create_task(bench.wait_for_turn(QueueEntry(excluded={"a"}, is_retry=True), 30.0))

    async def both_wait() -> bool:
        return bench.queue.count == 2

    await eventually(both_wait)
    a.release()
    got = await newcomer
    assert got is not None
    assert got.replica.id == "a"
    assert not again.done()
    b.release()
    second = await again
    assert second is not None
    assert second.replica.id == "b"


async def test_request_is_served_at_once_by_a_replica_that_the_waiting_retries_exclude() -> None:
    _, bench = bench_with("ab")
    take(bench, "a")
    again = asyncio.create_task(bench.wait_for_turn(QueueEntry(excluded={"a"}, is_retry=True), 30.0))

    async def it_waits() -> bool:
        return bench.queue.count == 1

    await eventually(it_waits)
    held = await bench.wait_for_turn(QueueEntry(), 30.0)
    assert held is not None
    assert held.replica.id == "a"
    again.cancel()


async def test_waiting_request_is_served_when_another_frontend_has_left_room() -> None:
    seats, bench = bench_with("a", parallel=2)
    seats.apply_other_leases({"a": PeerUse(in_flight=2, frontends=1)})
    take(bench)
    line = WaitingRequests(bench)
    waiting = await line.join("key")
    assert bench.check_out() is None, "the other frontend has the rest of the replica"
    seats.apply_other_leases({})
    seats.serve_waiting()
    async with asyncio.timeout(30):
        assert await waiting is not None


# With a frontend and its registry.


@asynccontextmanager
async def crowded(url: str, **changes: Any) -> AsyncIterator[tuple[RunningFrontend, Router]]:
    """A frontend with one replica that works on one request at a time."""
    async with running_frontend(url, **changes) as frontend:
        await keep_only_the_feed(frontend)
        await put_model(frontend.database, options={"parallel": "1"})
        node = await join_node(frontend)
        await put_replica(frontend.database, node.id, "127.0.0.1:1")
        await settled(frontend)
        yield frontend, frontend.core.router


async def waits(router: Router, count: int) -> None:
    async def so_many() -> bool:
        bench = router.snapshot.pools.find_pool("chat")
        return bench is not None and bench.queue.count == count

    await eventually(so_many)


async def test_model_limits_its_requests_and_waiting_ones_count_as_demand(database_url: str) -> None:
    async with crowded(database_url) as (frontend, router):
        model = await router.resolve("chat")
        assert (model.parallel, model.backend) == (1, "fake")
        visit = router.make_selector(model, 60.0, "key", 10)
        held = visit.try_check_out()
        assert held is not None
        second = router.make_selector(model, 60.0, "key", 10)
        assert second.try_check_out() is None
        waiting = asyncio.create_task(second.wait_for_replica())
        await waits(router, 1)
        await router.tick()
        async with frontend.database.transaction() as tx:
            demand = (await tx.execute(text("SELECT model, waiting FROM model_demand"))).all()
        assert [tuple(row) for row in demand] == [("chat", 1)]
        held.release()
        (await waiting).release()
        await router.tick()
        async with frontend.database.transaction() as tx:
            assert (await tx.execute(text("SELECT waiting FROM model_demand"))).scalars().all() == [0]


async def test_freed_room_goes_to_waiting_loads_and_not_to_new_ones(database_url: str) -> None:
    async with crowded(database_url) as (frontend, router):
        # An event that came late would have the bench read anew, with the room that its model says.
        await frontend.core.loops["feed"].stop()
        model = await router.resolve("chat")
        assert router.make_selector(model, 60.0).try_check_out() is not None
        waiting = asyncio.create_task(router.make_selector(model, 60.0).wait_for_replica())
        await waits(router, 1)
        bench = router.snapshot.find_pool(model)
        assert bench is not None
        bench.capacity = 2
        bench.recompute()
        assert router.make_selector(model, 60.0).try_check_out() is None
        await router.tick()
        assert (await waiting).replica.id == bench.replicas[0].replica.id


async def test_callers_own_limit_holds_in_the_queue_too(database_url: str) -> None:
    async with crowded(database_url) as (_, router):
        model = await router.resolve("chat")
        with (
            router.make_selector(model, 60.0).try_check_out() or pytest.fail("nothing there"),
            pytest.raises(QueueTimeout),
        ):
            await router.make_selector(model, 0.01).wait_for_replica()


async def test_settings_limit_queue_and_wait(database_url: str) -> None:
    options = ReplicaPoolOptions(queue_max=1, queue_wait_s=1.5)
    async with crowded(database_url, replica_pool=options) as (_, router):
        model = await router.resolve("chat")
        with router.make_selector(model, 60.0).try_check_out() or pytest.fail("nothing there"):
            late = asyncio.create_task(router.make_selector(model, 60.0).wait_for_replica())
            await waits(router, 1)
            with pytest.raises(QueueFull):
                await router.make_selector(model, 60.0).wait_for_replica()
            with pytest.raises(QueueTimeout):
                await late


async def test_queued_request_waits_for_a_load_when_its_model_is_unloaded(
    database_url: str, database: Database
) -> None:
    loads = PretendLoads(database)
    async with crowded(database_url, loads=loads) as (frontend, router):
        model = await router.resolve("chat")
        assert router.make_selector(model, 60.0).try_check_out() is not None
        waiting = asyncio.create_task(router.make_selector(model, 60.0).wait_for_replica())
        await waits(router, 1)
        await no_replicas(frontend.database)
        await settled(frontend)

        async def was_begun() -> bool:
            return len(loads.begun) == 1

        await eventually(was_begun)
        node = await join_node(frontend, "node-2")
        await put_replica(frontend.database, node.id, "127.0.0.1:2")
        await loads.complete()
        held = await waiting
        assert held.replica.address == "127.0.0.1:2"


async def test_queued_request_gets_a_replica_of_the_edited_model(database_url: str) -> None:
    async with crowded(database_url) as (frontend, router):
        model = await router.resolve("chat")
        assert router.make_selector(model, 60.0).try_check_out() is not None
        waiting = asyncio.create_task(router.make_selector(model, 60.0).wait_for_replica())
        await waits(router, 1)
        node = await join_node(frontend, "node-2")
        await put_replica(frontend.database, node.id, "127.0.0.1:2", revision="2" * 64)
        await put_model(frontend.database, run_hash="2" * 64, options={"parallel": "1"})
        await settled(frontend)
        assert (await waiting).replica.address == "127.0.0.1:2"


async def test_call_that_was_lost_waits_for_the_other_replica_and_then_tells(database_url: str) -> None:
    async with crowded(database_url) as (frontend, router):
        node = await join_node(frontend, "node-2")
        await put_replica(frontend.database, node.id, "127.0.0.1:2")
        await settled(frontend)
        model = await router.resolve("chat")
        others = router.make_selector(model, 60.0)
        visit = router.make_selector(model, 60.0)
        busy, first = others.try_check_out(), visit.try_check_out()
        assert busy is not None
        assert first is not None
        visit.release_lost(first, EngineLost("It hung up."))
        again = asyncio.create_task(visit.wait_for_replica())
        await waits(router, 1)
        busy.release()
        second = await again
        assert second.replica.id == busy.replica.id
        # The last one there is gets one more chance: a connection may have been closed just then.
        visit.release_lost(second, EngineLost("It hung up."))
        visit.release_lost(await visit.wait_for_replica(), EngineLost("It hung up."))
        with pytest.raises(AllReplicasFailed):
            await visit.wait_for_replica()
        assert router.leases.count_own_by_replica() == {}


@pytest.mark.parametrize("options", [{}, {"parallel": "0"}, {"parallel": "many"}, {"parallel": "9" * 20}])
async def test_option_that_is_no_number_leaves_the_setting(database_url: str, options: dict[str, str]) -> None:
    async with running_frontend(database_url) as frontend:
        await put_model(frontend.database, options=options)
        await settled(frontend)
        assert (await frontend.core.router.resolve("chat")).parallel is None


async def wait_in_background(bench: ReplicaPool, key_id: str = "batch") -> asyncio.Task[ReplicaCheckout | None]:
    """Return a request in the background that stands in the queue."""
    before = bench.queue.background_count
    task = asyncio.create_task(bench.wait_for_turn(QueueEntry(key_id=key_id, is_background=True), 30.0))

    async def stands_in_line() -> bool:
        return bench.queue.background_count > before or task.done()

    await eventually(stands_in_line)
    return task


@pytest.mark.behaviour("BATCH-12")
async def test_request_in_the_background_waits_behind_all_others() -> None:
    _, bench = bench_with()
    busy = take(bench)
    background = await wait_in_background(bench)
    line = WaitingRequests(bench)
    await line.join("person")
    await line.join("person")
    busy.release()
    await line.serve_all()
    assert line.served == ["person", "person"]
    assert not background.done()
    for held in line.held:
        held.release()
    assert (await background) is not None
    assert (bench.queue.count, bench.queue.total_count) == (0, 0)


@pytest.mark.behaviour("BATCH-12")
async def test_request_in_the_background_leaves_the_last_room_of_a_busy_replica_free() -> None:
    _, bench = bench_with(parallel=3)
    first, second = bench.check_out_behind_others(), bench.check_out_behind_others()
    assert first is not None
    assert second is not None
    assert bench.check_out_behind_others() is None
    # Somebody who waits for an answer finds room at once, and is not taken for one who waits.
    assert bench.queue.count == 0
    person = take(bench)
    waiting = await wait_in_background(bench)
    person.release()
    assert not waiting.done()
    first.release()
    assert (await waiting) is not None


async def test_request_in_the_background_that_leaves_is_forgotten() -> None:
    _, bench = bench_with()
    busy = take(bench)
    waiting = await wait_in_background(bench)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert (bench.queue.count, bench.queue.total_count) == (0, 0)
    busy.release()
    assert bench.replicas[0].in_flight_here == 0


async def test_request_in_the_background_looks_again_when_the_replicas_have_changed() -> None:
    _, bench = bench_with()
    take(bench)
    waiting = await wait_in_background(bench)
    bench.queue.wake_all()
    assert (await waiting) is None
    assert bench.queue.total_count == 0


async def test_request_in_the_background_does_not_pass_a_retry_that_waits_for_another_replica() -> None:
    _, bench = bench_with(parallel=3)
    again = asyncio.create_task(bench.wait_for_turn(QueueEntry(excluded={"a"}, is_retry=True), 30.0))

    async def stands_in_line() -> bool:
        return bench.queue.count == 1

    await eventually(stands_in_line)
    assert bench.check_out_behind_others() is None
    again.cancel()
    await asyncio.wait({again})
    held = bench.check_out_behind_others()
    assert held is not None
    held.release()
