"""How far an operation is: in the rows, for those who watch, and after a restart."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from corral.bus.messages import JobEvent, OperationDelta, TargetDelta
from corral.bus.subjects import JOB_EVENT
from corral.domain.operation import Operation
from corral.operations.deltas import INTERVAL_S, DeltaSubscription, OperationDeltaFeed
from corral.operations.dispatcher import WAITING_MAX
from corral.ports.bus import Delivery
from corral.runtime.attempt import AttemptSuccess, attempt
from corral.store import operations as operation_store
from corral.store.database import Database
from tests.nodes.registry import ids
from tests.operations.fake_bus import FakeBus, FakeWorker, Hub
from tests.operations.manual_dispatcher import Driver, driver, submit, target, workers
from tests.operations.scene import make_spec, read, sql, states
from tests.support.polling import eventually
from tests.support.statements import count_statements

DELTA = "frontends.operation"
OPERATIONS = 40
READS = 300


@pytest.fixture
def hub() -> Hub:
    return Hub()


async def started(database: Database, hub: Hub, *names: str) -> tuple[Driver, Operation, list[FakeWorker]]:
    found = await workers(database, hub, *names)
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    return frontend, operation, found


def delta(percent: float, rev: int = 1, *nodes: str, operation: str = "one", origin: str = "") -> OperationDelta:
    moved = tuple(TargetDelta(node=name, node_name=name, state="working", percent=percent) for name in nodes)
    return OperationDelta(
        operation_id=operation, rev=rev, state="running", percent=percent, targets=moved, origin=origin
    )


class DeltaWatcher:
    """A watcher that reads its events when the test looks."""

    def __init__(self, deltas: OperationDeltaFeed) -> None:
        self._watcher = DeltaSubscription()
        deltas.watchers.add(self._watcher)

    async def look(self) -> list[OperationDelta]:
        return [await self._watcher.next() for _ in range(len(self._watcher._waiting))]


# --- in the rows ---


@pytest.mark.behaviour("OPS-17")
@pytest.mark.behaviour("OPS-38")
@pytest.mark.behaviour("NODE-128")
async def test_events_in_any_order_never_move_a_bar_back_and_the_last_is_final(database: Database, hub: Hub) -> None:
    frontend, operation, (worker,) = await started(database, hub, "a")
    progress_events = [worker.set(percent=float(percent)) for percent in (10, 20, 30, 40, 50)]
    chance, shown, whole = random.Random(7), 0.0, 0.0
    mixed = [*progress_events, *progress_events]
    chance.shuffle(mixed)
    for event in mixed:
        await worker.say(event)
        await frontend.dispatcher.flush()
        seen = await read(database, operation)
        assert seen.targets[0].progress.percent >= shown
        assert 100 >= seen.progress.percent >= whole
        shown, whole = seen.targets[0].progress.percent, seen.progress.percent
    assert shown == 50.0
    await worker.finish()
    await frontend.run()
    before = await read(database, operation)
    assert before.state == "completed"
    for event in mixed:
        await worker.say(event)
    await worker.fail("internal")
    await frontend.run()
    assert await read(database, operation) == before


@pytest.mark.behaviour("OPS-17")
async def test_new_attempt_starts_at_zero_and_operation_progress_never_decreases(database: Database, hub: Hub) -> None:
    frontend, operation, (worker,) = await started(database, hub, "a")
    await worker.move(80.0)
    await frontend.run()
    await worker.fail("source_unavailable")
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.targets[0].progress.percent, seen.targets[0].attempt, seen.progress.percent) == (0.0, 1, 80.0)


@pytest.mark.behaviour("OPS-42")
async def test_news_of_one_node_leave_the_entries_of_the_others(database: Database, hub: Hub) -> None:
    frontend, operation, (one, two) = await started(database, hub, "a", "b")
    await one.move(30.0, phase="downloading", current_bytes=3, total_bytes=10, file_name="x.whl")
    await frontend.run()
    before = await target(database, operation, one.node)
    await two.move(10.0)
    await frontend.run()
    assert await target(database, operation, one.node) == before
    await one.move(35.0)
    await frontend.run()
    kept = (await target(database, operation, one.node)).progress
    assert (kept.percent, kept.phase, kept.total_bytes, kept.file_name) == (35.0, "downloading", 10, "x.whl")


async def test_many_events_are_a_handful_of_statements(database: Database, hub: Hub) -> None:
    frontend, operation, found = await started(database, hub, *(f"n{number:03}" for number in range(200)))
    statements: list[str] = []
    count_statements(database, statements.append)
    for worker in found:
        for percent in (10.0, 20.0, 30.0):
            await worker.move(percent)
    await frontend.dispatcher.flush()
    assert len(statements) < 12, statements
    assert (await read(database, operation)).progress.percent == pytest.approx(30.0)


async def test_node_cannot_speak_of_the_job_of_another(database: Database, hub: Hub) -> None:
    frontend, operation, (one, two) = await started(database, hub, "a", "b")
    await hub.deliver(JOB_EVENT, one.set(state="done"), node=two.node)
    await frontend.run()
    assert states(await read(database, operation)) == {"a": "working", "b": "working"}


@pytest.mark.parametrize(
    "odd",
    [
        {"percent": float("nan")},
        {"percent": 1e308},
        {"percent": -1.0},
        {"current_bytes": 2**70, "total_bytes": -1},
        {"file_name": "x\x00y" * 400, "phase": "dancing"},
        {"state": "dreaming"},
        {"job_id": "none"},
        {"seq": 2**70},
        {"state": "failed", "error_code": "c\x00" * 90, "error_text": "t\x00\ud800" * 5000},
    ],
)
async def test_invalid_event_of_one_worker_does_not_block_others(
    database: Database, hub: Hub, odd: dict[str, Any]
) -> None:
    frontend, operation, (one, two) = await started(database, hub, "a", "b")
    event = replace(one.jobs[one.job], **({"seq": 2} | odd))
    await frontend.dispatcher.on_job_event(Delivery(message=event, subject="", node=one.node))
    await two.move(40.0)
    await frontend.dispatcher.flush()
    assert (await target(database, operation, two.node)).progress.percent == 40.0
    assert 0 <= (await target(database, operation, one.node)).progress.percent <= 100


async def test_events_of_another_node_about_a_job_do_not_displace_those_of_its_own_node(
    database: Database, hub: Hub
) -> None:
    frontend, operation, (one, two) = await started(database, hub, "a", "b")
    await one.move(40.0)
    foreign = replace(one.jobs[one.job], seq=1_000_000, percent=99.0)
    await frontend.dispatcher.on_job_event(Delivery(message=foreign, subject="", node=two.node))
    await frontend.dispatcher.flush()
    assert (await target(database, operation, one.node)).progress.percent == 40.0


async def test_newest_events_wait_while_postgresql_is_away(database: Database, hub: Hub) -> None:
    frontend, operation, (worker,) = await started(database, hub, "a")
    await worker.move(10.0)
    await sql(database, "ALTER TABLE operation_targets RENAME TO away")
    assert not isinstance(await attempt(frontend.dispatcher.flush), AttemptSuccess)
    await worker.move(20.0)
    await sql(database, "ALTER TABLE away RENAME TO operation_targets")
    await frontend.dispatcher.flush()
    assert (await target(database, operation, worker.node)).progress.percent == 20.0


async def test_buffered_job_events_are_bounded(database: Database, hub: Hub) -> None:
    frontend, operation, (worker,) = await started(database, hub, "a")
    buffer = frontend.dispatcher._events
    for _ in range(WAITING_MAX + 5):
        event = JobEvent(job_id=ids.new_id(), seq=1, state="running", operation_id=operation.id)
        buffer.record(Delivery(message=event, subject="", node=worker.node))
    assert (len(buffer), buffer.dropped) == (WAITING_MAX, 5)


@pytest.mark.behaviour("OPS-40")
async def test_frontend_that_has_just_started_shows_what_runs(database: Database, database_url: str, hub: Hub) -> None:
    frontend, operation, (one, _) = await started(database, hub, "a", "b")
    await one.move(40.0, phase="downloading", current_bytes=400, total_bytes=1000)
    await frontend.run()
    await frontend.dispatcher.stop()
    fresh = Database(database_url)
    try:
        async with fresh.transaction() as tx:
            (seen,) = await operation_store.list_live(tx)
    finally:
        await fresh.close()
    assert (seen.id, seen.state, seen.is_cancellable) == (operation.id, "running", True)
    assert (seen.progress.percent, seen.progress.phase) == (20.0, "downloading")
    assert [(item.node_name, item.state, item.progress.percent) for item in seen.targets] == [
        ("a", "working", 40.0),
        ("b", "working", 0.0),
    ]
    assert seen.targets[0].progress.phase == "downloading"


@pytest.mark.behaviour("OPS-43")
async def test_lists_are_consistent_while_operations_complete(database: Database, hub: Hub) -> None:
    """Many readers, 20 at a time, while operations come to their end one after the other."""
    found = await workers(database, hub, *(f"n{number:03}" for number in range(OPERATIONS)))
    frontend = await driver(database, hub, pools={"backend": 20})
    for worker in found:
        await submit(database, make_spec("solo", nodes=(worker.node,)))
    for _ in range(10):
        await frontend.run()
    slots = asyncio.Semaphore(20)

    async def look() -> None:
        async with slots, database.transaction() as tx:
            for operation in await operation_store.list_live(tx):
                (only,) = operation.targets
                assert operation.state in ("running", "queued"), "a clean success is not listed"
                assert only.operation_id == operation.id

    async def complete() -> None:
        for worker in found:
            await worker.finish()
        while frontend.dispatcher.held:
            await frontend.run()

    async with asyncio.TaskGroup() as group:
        group.create_task(complete())
        for _ in range(READS):
            group.create_task(look())
    rows = await sql(database, "SELECT state, count(*) AS n FROM operations GROUP BY state")
    assert [(row.state, row.n) for row in rows] == [("completed", OPERATIONS)]


# --- for those who watch ---


@pytest.mark.behaviour("OPS-37")
async def test_operation_delta_is_sent_at_most_four_times_a_second_and_the_last_one_always(hub: Hub) -> None:
    assert INTERVAL_S * 0.9 >= 0.25, "the loop's jitter is a tenth"
    deltas = OperationDeltaFeed(FakeBus(hub), "frontend-1")
    watcher = DeltaWatcher(deltas)
    for number in range(1, 51):
        deltas.publish(delta(float(number), number, f"n{number % 3}"))
    assert await deltas.tick() == 1
    assert await deltas.tick() == 0
    (sent,) = await watcher.look()
    assert (sent.percent, sent.rev) == (50.0, 50)
    assert {item.node: item.percent for item in sent.targets} == {"n0": 48.0, "n1": 49.0, "n2": 50.0}
    assert hub.names(DELTA) == [""]


@pytest.mark.behaviour("OPS-41")
async def test_frontend_ignores_its_own_deltas(database: Database, hub: Hub) -> None:
    frontend, operation, (worker,) = await started(database, hub, "a")
    peer = await driver(database, hub, "frontend-2")
    await frontend.deltas.tick()
    here, there = DeltaWatcher(frontend.deltas), DeltaWatcher(peer.deltas)
    await worker.move(30.0)
    await frontend.dispatcher.flush()
    hub.sent.clear()
    statements: list[str] = []
    count_statements(database, statements.append)
    await frontend.deltas.tick()
    assert hub.names(DELTA) == [""], "sent once, and not forwarded"
    (received,) = await here.look()
    assert (received.operation_id, received.percent) == (operation.id, 30.0)
    assert [item.percent for item in await there.look()] == [30.0]
    assert await frontend.deltas.tick() + await peer.deltas.tick() == 0
    await frontend.deltas.on_delta(Delivery(message=received, subject="", node=None))
    assert await here.look() == [], "a late echo of itself is nothing new"
    assert statements == []


async def test_older_delta_is_not_shown(hub: Hub) -> None:
    deltas = OperationDeltaFeed(FakeBus(hub), "frontend-1")
    watcher = DeltaWatcher(deltas)
    for rev in (5, 6, 3):
        peer = delta(float(rev), rev, origin="frontend-2")
        await deltas.on_delta(Delivery(message=peer, subject="", node=None))
    assert [item.rev for item in await watcher.look()] == [6]


async def test_slow_watcher_misses_steps_between_and_never_the_newest(hub: Hub) -> None:
    deltas = OperationDeltaFeed(FakeBus(hub), "frontend-1")
    watcher = DeltaWatcher(deltas)
    for number in range(1, 21):
        deltas.publish(delta(float(number), number, f"n{number}"))
        await deltas.tick()
    received = await watcher.look()
    assert received[-1].percent == 20.0
    assert {item.node for one in received for item in one.targets} == {f"n{number}" for number in range(1, 21)}


async def test_watch_ends_without_a_trace(hub: Hub) -> None:
    deltas = OperationDeltaFeed(FakeBus(hub), "frontend-1")
    stream = deltas.watch()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(anext(stream))
        await eventually(lambda: _true(bool(deltas.watchers)))
        deltas.publish(delta(1.0))
        await deltas.tick()
    assert first.result().percent == 1.0
    await stream.aclose()
    assert not deltas.watchers


async def _true(value: bool) -> bool:
    return value


async def test_watchers_see_the_end_of_an_operation(database: Database, hub: Hub) -> None:
    frontend, operation, (worker,) = await started(database, hub, "a")
    watcher = DeltaWatcher(frontend.deltas)
    await worker.finish()
    await frontend.run()
    await frontend.deltas.tick()
    last = (await watcher.look())[-1]
    assert (last.operation_id, last.state, last.percent) == (operation.id, "completed", 100.0)
    assert last.rev == (await read(database, operation)).rev
