"""The dispatcher on real rows: which worker gets which command, when it is retried, and how an operation ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from corral.bus.messages import BackendCommand, GetJobs, GetJobsReply, JobAcceptedReply, JobEvent
from corral.bus.subjects import BACKEND_INSTALL, JOB_EVENT, JOBS_GET, BusRole
from corral.domain.errors import StoreUnavailable, Unavailable, Unprocessable
from corral.domain.node import NodeId
from corral.domain.operation import Operation
from corral.domain.replica import Replica, ReplicaState
from corral.ports.bus import Delivery
from corral.store import dispatch as dispatch_store
from corral.store.database import Database
from tests.bus.nats_server import NatsServer
from tests.nodes.registry import events, ids
from tests.operations.fake_bus import NORMAL, OFF, SILENT, FakeWorker, Hub
from tests.operations.manual_dispatcher import (
    Driver,
    age,
    driver,
    notes,
    set_node,
    submit,
    target,
    use_small_catalog,
    workers,
)
from tests.operations.scene import (
    list_assignments,
    listed,
    make_spec,
    put_installed,
    put_nodes,
    read,
    recorded,
    sql,
    states,
    there,
)
from tests.support.frontends import running_frontend
from tests.support.polling import eventually
from tests.support.replicas import insert_replica
from tests.support.statements import count_statements

GONE = {"liveness": "'lost'"}
BACK = {"liveness": "'alive'", "bus_ok": "true"}


@pytest.fixture
def hub() -> Hub:
    return Hub()


async def running(
    database: Database, hub: Hub, *names: str, **request: Any
) -> tuple[Driver, Operation, list[FakeWorker]]:
    """An operation over these nodes, sent to all of them."""
    found = await workers(database, hub, *names)
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec(**request))
    await frontend.run()
    return frontend, operation, found


async def test_operation_is_sent_to_its_nodes_done_and_completed(database: Database, hub: Hub) -> None:
    frontend, operation, (one, two) = await running(database, hub, "a", "b")
    seen = await read(database, operation)
    assert states(seen) == {"a": "working", "b": "working"}
    assert seen.message == "Installing on 2 of 2 nodes"
    name, command = one.commands[0]
    assert (name, command.backend, command.operation_id) == ("backend.install", "cpu-engine", operation.id)
    assert command.build is not None
    assert command.build["version"] == "2.0"
    await one.finish()
    await two.finish()
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.progress.percent, seen.message) == ("completed", 100.0, "Completed on 2 nodes")
    assert await list_assignments(database) == []
    assert not frontend.dispatcher.held
    assert (await notes(database, operation))[1:] == [
        "a: accepted",
        "b: accepted",
        "a: completed",
        "b: completed",
        "completed: Completed on 2 nodes",
    ]


@pytest.mark.behaviour("OPS-18")
async def test_over_a_real_bus_a_clean_success_leaves_the_live_list_by_itself(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    async with (
        NatsServer(tmp_path) as server,
        running_frontend(database_url, authority=server.authority, nats_url=server.url) as frontend,
    ):
        await use_small_catalog(frontend.core)
        (node,) = await put_nodes(database, "a")
        worker = server.bus(BusRole.WORKER, node)
        jobs: dict[str, JobEvent] = {}

        async def install(delivery: Delivery[BackendCommand]) -> JobAcceptedReply:
            command = delivery.message
            first = JobEvent(job_id=command.job_id, seq=1, state="running", operation_id=command.operation_id)
            jobs[command.job_id] = JobEvent(
                job_id=command.job_id, seq=2, state="done", percent=100.0, operation_id=command.operation_id
            )
            return JobAcceptedReply(boot_id="b", job=first)

        async def get(delivery: Delivery[GetJobs]) -> GetJobsReply:
            return GetJobsReply(boot_id="b", jobs=tuple(jobs[key] for key in delivery.message.job_ids if key in jobs))

        await worker.start()
        try:
            await worker.subscribe(BACKEND_INSTALL, install, node=node)
            await worker.subscribe(JOBS_GET, get, node=node)
            await eventually(lambda: _true(worker.is_connected and frontend.bus.is_connected))
            operation = await submit(database, make_spec("solo"))

            async def is_working() -> bool:
                return states(await read(database, operation)) == {"a": "working"}

            await eventually(is_working)
            assert await listed(database) == [operation.id]
            (event,) = jobs.values()
            await worker.publish(JOB_EVENT, event, node=node)

            async def has_left() -> bool:
                return await listed(database) == []

            await eventually(has_left)
            assert (await read(database, operation)).state == "completed"
            assert await recorded(database) == [operation.id]
        finally:
            await worker.stop()


async def _true(value: bool) -> bool:
    return value


@pytest.mark.behaviour("OPS-6")
async def test_long_installations_do_not_hold_up_others(database: Database, hub: Hub) -> None:
    """More of them than the pool has places, and none of them ends."""
    found = await workers(database, hub, *(f"n{number}" for number in range(8)))
    frontend = await driver(database, hub, pools={"backend": 2})
    for worker in found[:-1]:
        await submit(database, make_spec("solo", nodes=(worker.node,)))
    await frontend.run()
    late = await submit(database, make_spec("solo", nodes=(found[-1].node,)))
    await frontend.run()
    assert len(found[-1].commands) == 1
    await found[-1].finish()
    await frontend.run()
    assert (await read(database, late)).state == "completed"
    assert len(frontend.dispatcher.held) == 7


@pytest.mark.behaviour("OPS-6")
async def test_step_that_waits_takes_no_place_of_another_pool(database: Database, hub: Hub) -> None:
    await workers(database, hub, "a")
    frontend = await driver(database, hub, pools={"backend": 1, "model": 1})
    operation = await submit(database, make_spec("solo"))
    hub.gate.clear()
    assert await frontend.dispatcher.tick() == 1
    await eventually(lambda: _true(hub.in_flight == 1))
    assert await frontend.dispatcher.tick() == 0, "its pool is full"
    hub.gate.set()
    await frontend.dispatcher.wait_idle()
    assert states(await read(database, operation)) == {"a": "working"}


@pytest.mark.behaviour("OPS-7")
async def test_fault_of_ours_fails_its_own_operation_and_no_other(
    database: Database, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    broken = await submit(database, make_spec("solo"))
    sound = await submit(database, make_spec("odd:name"))
    resolve = frontend.builds.resolve

    def trips(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "solo":
            raise ZeroDivisionError("the catalog tripped")
        return resolve(name, *arguments, **options)

    monkeypatch.setattr(frontend.builds, "resolve", trips)
    await frontend.run()
    seen = await read(database, broken)
    assert (seen.state, seen.fault.code if seen.fault else "") == ("failed", "internal")
    assert "tripped" in seen.message
    await worker.finish()
    await frontend.run()
    assert (await read(database, sound)).state == "completed"


async def test_plan_that_is_no_longer_possible_fails_with_its_reason(database: Database, hub: Hub) -> None:
    (node,) = await put_nodes(database, "a")
    await put_installed(database, node, there("solo"))
    operation = await submit(database, make_spec("solo", "delete", nodes=("a",)))
    await put_installed(database, node)
    await (await driver(database, hub)).run()
    seen = await read(database, operation)
    assert (seen.state, seen.fault.code if seen.fault else "") == ("failed", "backend_not_installed")
    assert await list_assignments(database) == []
    assert hub.sent == []


@pytest.mark.behaviour("OPS-162")
async def test_named_node_that_is_drained_before_the_first_step_is_skipped_and_the_others_are_done(
    database: Database, hub: Hub
) -> None:
    (one, two) = await workers(database, hub, "a", "b")
    operation = await submit(database, make_spec("solo", nodes=("a", "b")))
    await set_node(database, one.node, drained_at="corral_now()")
    frontend = await driver(database, hub)
    await frontend.run()
    assert one.commands == []
    await two.finish()
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.fault, states(seen)) == ("completed", None, {"a": "skipped", "b": "success"})
    assert seen.message == "Completed on 1 node; skipped: a drained before it began"
    assert await list_assignments(database) == []


@pytest.mark.behaviour("OPS-162")
async def test_operation_whose_named_nodes_are_all_drained_before_the_first_step_is_cancelled(
    database: Database, hub: Hub
) -> None:
    (node,) = await put_nodes(database, "a")
    operation = await submit(database, make_spec("solo", nodes=("a",)))
    await set_node(database, node, drained_at="corral_now()")
    await (await driver(database, hub)).run()
    seen = await read(database, operation)
    assert (seen.state, seen.fault, states(seen)) == ("cancelled", None, {"a": "skipped"})
    assert seen.message == "Not done: a drained before it began"
    assert await list_assignments(database) == []
    assert hub.sent == []


@pytest.mark.behaviour("OPS-162")
async def test_drained_node_is_skipped_although_it_does_not_have_the_backend_either(
    database: Database, hub: Hub
) -> None:
    (one, two) = await workers(database, hub, "a", "b")
    for worker in (one, two):
        await put_installed(database, NodeId(worker.node), there("solo"))
    operation = await submit(database, make_spec("solo", "delete", nodes=("a", "b")))
    await put_installed(database, NodeId(one.node))
    await set_node(database, one.node, drained_at="corral_now()")
    frontend = await driver(database, hub)
    await frontend.run()
    await two.finish()
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, states(seen)) == ("completed", {"a": "skipped", "b": "success"})


@pytest.mark.behaviour("OPS-19")
async def test_failed_operation_stays_listed_with_its_error(database: Database, database_url: str, hub: Hub) -> None:
    frontend, operation, (one, two) = await running(database, hub, "a", "b")
    await one.fail("disk_full", "The disk is full.")
    await two.finish()
    await frontend.run()
    await frontend.dispatcher.stop()
    other = Database(database_url)
    try:
        await (await driver(other, Hub(), "frontend-2")).run()
        assert await listed(other) == [operation.id]
        seen = await read(other, operation)
    finally:
        await other.close()
    assert (seen.state, states(seen)) == ("failed", {"a": "error", "b": "success"})
    assert seen.fault is not None
    assert (seen.fault.code, seen.fault.text) == ("disk_full", "a: The disk is full.")
    assert seen.message == "Failed on a; done on 1 node"


@pytest.mark.behaviour("OPS-20")
@pytest.mark.behaviour("OPS-21")
@pytest.mark.behaviour("NODE-122")
async def test_silent_node_is_waited_for_and_confirms_later(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    worker.mode = SILENT
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, states(seen)) == ("waiting_on_nodes", {"a": "unconfirmed"})
    assert await listed(database) == [operation.id]
    assert [item.attempts for item in await list_assignments(database)] == [0]
    await age(database, operation, 40)
    await frontend.run()
    assert [item.attempts for item in await list_assignments(database)] == [0], "also when it is queried again"
    job = (await target(database, operation, worker.node)).job_id
    worker.mode = NORMAL
    worker.jobs[job] = JobEvent(job_id=job, seq=5, state="done", percent=100.0, operation_id=operation.id)
    await age(database, operation, 40)
    await frontend.run()
    assert worker.commands == [], "it was queried, and not sent the command twice"
    assert (await read(database, operation)).state == "completed"


async def test_job_is_sent_again_when_the_node_does_not_know_it(database: Database, hub: Hub) -> None:
    frontend, operation, (worker,) = await running(database, hub, "a")
    first = worker.job
    worker.jobs.clear()
    await age(database, operation, 40)
    await frontend.run()
    assert [command.job_id for _, command in worker.commands] == [first, first]
    await worker.finish()
    await frontend.run()
    assert (await read(database, operation)).state == "completed"


@pytest.mark.behaviour("OPS-21")
@pytest.mark.parametrize("code", ["worker_starting", "worker_stopping", "worker_busy"])
async def test_worker_that_takes_nothing_at_the_moment_has_not_failed(database: Database, hub: Hub, code: str) -> None:
    (worker,) = await workers(database, hub, "a")
    worker.refuses = Unavailable("This worker takes nothing at the moment.", code=code)
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    assert [item.attempts for item in await list_assignments(database)] == [0]
    worker.refuses = None
    await age(database, operation, 40)
    await frontend.run()
    assert states(await read(database, operation)) == {"a": "working"}
    assert len({command.job_id for _, command in worker.commands}) == 1


@pytest.mark.behaviour("OPS-21")
async def test_node_that_is_not_on_the_bus_counts_as_an_attempt_and_is_shown_as_that(
    database: Database, hub: Hub
) -> None:
    (worker,) = await workers(database, hub, "a")
    worker.mode = OFF
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    (assignment,) = await list_assignments(database)
    assert (assignment.attempts, assignment.fault.code if assignment.fault else "") == (1, "node_unreachable")
    (node,) = await sql(database, "SELECT bus_ok FROM nodes")
    assert node.bus_ok is False
    assert len(await events(database, "node.bus_changed")) == 1
    seen = await read(database, operation)
    assert (seen.state, states(seen)) == ("completed_with_pending", {"a": "queued"})
    assert seen.message == "Pending for 1: a (off the bus)"


@pytest.mark.behaviour("OPS-46")
async def test_absent_node_gets_its_pending_change_when_it_returns(database: Database, hub: Hub) -> None:
    (one,) = await workers(database, hub, "a")
    (two,) = await workers(database, hub, "b", liveness="'lost'")
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    await one.finish()
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, states(seen)) == ("completed_with_pending", {"a": "success", "b": "queued"})
    assert seen.message == "Completed on 1; pending for 1: b (offline)"
    assert hub.names("backend.install") == [one.node], "nobody who is away is sent anything"
    assert not frontend.dispatcher.held
    await set_node(database, two.node, **BACK)
    await frontend.run()
    await two.move(50.0)
    await frontend.run()
    assert (await target(database, operation, two.node)).progress.percent == 50.0, "its progress is followed too"
    await two.finish()
    await frontend.run()
    seen = await read(database, operation)
    assert (seen.state, seen.message) == ("completed", "Completed on 2 nodes")


@pytest.mark.behaviour("OPS-49")
@pytest.mark.behaviour("NODE-121")
async def test_job_that_keeps_failing_is_put_aside_after_ten_attempts(database: Database, hub: Hub) -> None:
    frontend, operation, (worker,) = await running(database, hub, "a")
    for number in range(1, 11):
        assert len(worker.commands) == number
        await worker.fail("source_unavailable", "The source returned 503.")
        await frontend.run()
        assert len(worker.commands) == number, "not before the pause is over"
        if number == 2:
            assert "a: failed: The source returned 503.; retrying in 60 s (2 of 10)" in await notes(database, operation)
        await age(database, operation, 1000)
        await frontend.run()
    assert len({command.job_id for _, command in worker.commands}) == 10
    assert len({command.generation for _, command in worker.commands}) == 1
    seen = await read(database, operation)
    assert seen.state == "failed"
    assert seen.fault is not None
    assert (seen.fault.code, seen.fault.text) == ("dead_letter", "a: The source returned 503.")
    (assignment,) = await list_assignments(database)
    assert (assignment.state, assignment.attempts) == ("dead", 10)
    (event,) = await events(database, "assignment.dead")
    assert event.data == {"node_id": worker.node, "backend": "cpu-engine", "id": operation.id}


@pytest.mark.behaviour("OPS-53")
async def test_removal_that_fails_is_kept_and_shown(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    await put_installed(database, NodeId(worker.node), there())
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("engine", "delete"))
    await frontend.run()
    assert [name for name, _ in worker.commands] == ["backend.delete"]
    await worker.fail("internal", "The folder is busy.")
    await frontend.run()
    (assignment,) = await list_assignments(database)
    assert assignment.fault is not None
    assert (assignment.state, assignment.attempts, assignment.fault.text) == ("open", 1, "The folder is busy.")
    failed = await target(database, operation, worker.node)
    assert failed.fault is not None
    assert failed.fault.text == "The folder is busy."
    await age(database, operation, 60)
    await frontend.run()
    await worker.fail("stop_failed", "A process would not end.")
    await frontend.run()
    (assignment,) = await list_assignments(database)
    assert (assignment.state, assignment.desired) == ("dead", "absent")
    assert (await read(database, operation)).state == "failed"


@pytest.mark.behaviour("OPS-54")
async def test_commands_are_sent_in_parallel_up_to_the_fan_out_limit(database: Database, hub: Hub) -> None:
    await workers(database, hub, *(f"n{number}" for number in range(9)))
    frontend = await driver(database, hub, fan_out=4)
    operation = await submit(database, make_spec("solo"))
    hub.gate.clear()
    await frontend.dispatcher.tick()
    await eventually(lambda: _true(hub.in_flight == 4))
    hub.gate.set()
    await frontend.dispatcher.wait_idle()
    assert hub.most_in_flight == 4
    assert set(states(await read(database, operation)).values()) == {"working"}


@pytest.mark.behaviour("NODE-125")
async def test_old_worker_gets_an_upgrade_as_a_forced_installation(database: Database, hub: Hub) -> None:
    old, new, picky = await workers(database, hub, "old", "new", "picky")
    old.lacks = frozenset({"backend.upgrade"})
    picky.refuses = Unprocessable("This machine has no room for it.", code="disk_full")
    for worker in (old, new, picky):
        await put_installed(database, NodeId(worker.node), there())
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("engine", "upgrade"))
    await frontend.run()
    assert [(name, command.force) for name, command in new.commands] == [("backend.upgrade", False)]
    assert [(name, command.force) for name, command in old.commands] == [("backend.install", True)]
    assert [name for name, _ in picky.commands] == ["backend.upgrade"], "any other error is the answer"
    sent = [message.job_id for name, node, message in hub.sent if node == old.node]
    assert len(sent) == 2
    assert len(set(sent)) == 1, "it is the same job"
    refused = await target(database, operation, picky.node)
    assert (refused.state, refused.fault.text if refused.fault else "") == ("error", "This machine has no room for it.")


async def test_worker_that_lacks_a_command_is_not_off_the_bus_and_gets_it_once_corral_was_upgraded_there(
    database: Database, hub: Hub
) -> None:
    (old,) = await workers(database, hub, "old")
    old.lacks = frozenset({"backend.install"})
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    waiting = await target(database, operation, old.node)
    assert (waiting.state, waiting.fault.code if waiting.fault else "") == ("queued", "command_unknown")
    assert waiting.fault is not None
    assert "older Corral" in waiting.fault.text
    assert await events(database, "node.bus_changed") == []
    old.lacks = frozenset()
    await age(database, operation, 60)
    await frontend.run()
    assert states(await read(database, operation)) == {"old": "working"}


@pytest.mark.behaviour("OPS-57", "NODE-99")
async def test_reinstallation_replaces_and_drops_exactly_the_replicas_that_were_stopped(
    database: Database, hub: Hub
) -> None:
    one, two = await workers(database, hub, "a", "b")
    for worker in (one, two):
        await put_installed(database, NodeId(worker.node), there(version="2.0"))
        async with database.transaction() as tx:
            for model, index in (("llama#1", 0), ("llama#1", 1), ("llama", 1)):
                await insert_replica(
                    tx,
                    Replica(
                        id=ids.new_id(),
                        node_id=NodeId(worker.node),
                        model=model,
                        index=index,
                        state=ReplicaState.LOADED,
                    ),
                )
    frontend = await driver(database, hub)
    await submit(database, make_spec("engine", "reinstall", nodes=("a",)))
    await frontend.run()
    (sent,) = one.commands
    assert (sent[0], sent[1].build is not None) == ("backend.upgrade", True)
    await one.finish(stopped=("llama#1#1", "nonsense", "llama#x", "#3"))
    await frontend.run()
    rows = await sql(database, "SELECT node_id::text AS node, model, replica_index AS index FROM replicas")
    assert {(row.model, row.index) for row in rows if row.node == one.node} == {("llama#1", 0), ("llama", 1)}
    assert len([row for row in rows if row.node == two.node]) == 3
    # Told again about the same job, nothing more goes: another process may have the name by now.
    await one.say(one.jobs[one.job])
    await frontend.run()
    assert len(await events(database, "replica.removed")) == 1


@pytest.mark.behaviour("NODE-100")
async def test_worker_that_does_not_say_what_it_stopped_costs_no_replica_its_row(database: Database, hub: Hub) -> None:
    (old,) = await workers(database, hub, "old")
    await put_installed(database, NodeId(old.node), there(version="2.0"))
    running = Replica(id=ids.new_id(), node_id=NodeId(old.node), model="llama", index=0, state=ReplicaState.LOADED)
    async with database.transaction() as tx:
        await insert_replica(tx, running)
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("engine", "reinstall"))
    await frontend.run()
    await old.finish()
    await frontend.run()
    assert (await read(database, operation)).state == "completed"
    assert len(await sql(database, "SELECT id FROM replicas")) == 1
    assert await events(database, "replica.removed") == []


@pytest.mark.behaviour("OPS-39")
@pytest.mark.parametrize("kind", ["install", "upgrade", "reinstall", "rollback"])
async def test_every_kind_shows_how_far_each_node_is(database: Database, hub: Hub, kind: str) -> None:
    found = await workers(database, hub, "a", "b")
    if kind != "install":
        for worker in found:
            await put_installed(database, NodeId(worker.node), there(previous_version="0.9"))
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("engine", kind))
    await frontend.run()
    await found[0].move(40.0, phase="downloading", current_bytes=400, total_bytes=1000, file_name="engine.whl")
    await frontend.run()
    seen = await read(database, operation)
    moved, still = seen.targets
    assert (moved.progress.percent, moved.progress.phase, moved.progress.current_bytes) == (40.0, "downloading", 400)
    assert (moved.progress.file_name, still.progress.percent) == ("engine.whl", 0.0)
    assert seen.progress.percent == 20.0


async def test_off_the_bus_ourselves_nothing_is_counted_and_it_goes_on_later(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    frontend.bus.unplug()
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    assert [item.attempts for item in await list_assignments(database)] == [0]
    assert states(await read(database, operation)) == {"a": "queued"}
    await frontend.bus.plug()
    await frontend.run()
    assert len(worker.commands) == 1


async def test_dispatcher_queries_every_held_job_after_a_reconnect(database: Database, hub: Hub) -> None:
    frontend, operation, (worker,) = await running(database, hub, "a")
    frontend.bus.unplug()
    await worker.finish()
    await frontend.run()
    assert (await read(database, operation)).state == "running", "the last word was lost"
    await frontend.bus.plug()
    await frontend.run()
    assert worker.queried_jobs == [worker.job]
    assert (await read(database, operation)).state == "completed"


async def test_worker_that_reports_nothing_for_30_s_is_queried(database: Database, hub: Hub) -> None:
    frontend, operation, (worker,) = await running(database, hub, "a")
    await age(database, operation, 20)
    await frontend.run()
    assert worker.queried_jobs == []
    await age(database, operation, 11)
    await frontend.run()
    assert worker.queried_jobs == [worker.job]


async def test_operation_over_300_nodes_costs_statements_by_batches_and_not_by_nodes(
    database: Database, hub: Hub
) -> None:
    found = await workers(database, hub, *(f"n{number:03}" for number in range(300)))
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    statements: list[str] = []
    count_statements(database, statements.append)
    await frontend.run()
    sending_count = len(statements)
    for worker in found:
        await worker.finish()
    await frontend.run()
    assert (await read(database, operation)).state == "completed"
    assert sending_count < 60, f"{sending_count} statements to tell 300 nodes"
    assert len(statements) - sending_count < 30, f"{len(statements) - sending_count} statements to take in 300 ends"


async def test_two_frontends_never_drive_the_same_operation(database: Database, database_url: str, hub: Hub) -> None:
    found = await workers(database, hub, *(f"n{number}" for number in range(6)))
    other = Database(database_url)
    try:
        both = [await driver(database, hub, "frontend-1"), await driver(other, hub, "frontend-2")]
        for worker in found:
            await submit(database, make_spec("solo", nodes=(worker.node,)))
        for _ in range(3):
            async with asyncio.TaskGroup() as group:
                for frontend in both:
                    group.create_task(frontend.run())
        assert [len(worker.commands) for worker in found] == [1] * 6
        assert not both[0].dispatcher.held & both[1].dispatcher.held
        assert len(both[0].dispatcher.held | both[1].dispatcher.held) == 6
    finally:
        await other.close()


async def test_database_outage_while_commands_are_sent_fails_no_operation(
    database: Database, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))

    async def away(*_: Any) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as outage:
        outage.setattr(dispatch_store, "require_lease", away)
        await frontend.turn()
    assert len(worker.commands) == 1
    assert (await read(database, operation)).state == "running", "an outage of PostgreSQL is no fault of the operation"
    frontend.clock.ahead += 60
    await frontend.run()
    await worker.finish()
    await frontend.run()
    assert (await read(database, operation)).state == "completed"
