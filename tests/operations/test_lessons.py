"""Defects of the systems before this one that no other test names; `docs/explanation/lessons.md` has the whole list."""

from __future__ import annotations

import pytest

from corral.domain.node import NodeId
from corral.operations import actions
from corral.policy.gallery import build_from_json
from corral.store import replicas as replica_store
from corral.store.database import Database
from tests.nodes.registry import find_lost, load, loaded, removals
from tests.operations.fake_bus import OFF, Hub
from tests.operations.manual_dispatcher import age, driver, set_node, submit, target, workers
from tests.operations.scene import (
    admissions,
    list_assignments,
    listed,
    make_spec,
    put_installed,
    read,
    recorded,
    sql,
    states,
    there,
)
from tests.support.frontends import RunningFrontend
from tests.support.nodes import age_heartbeat, join_node


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.mark.behaviour("OPS-49")
async def test_node_with_good_heartbeats_and_no_replies_is_not_tried_for_ever(database: Database, hub: Hub) -> None:
    """Nobody listens, which takes it off the bus; its next heartbeat says that it is there, and nobody listens."""
    (worker,) = await workers(database, hub, "a")
    worker.mode = OFF
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    for number in range(1, 10):
        (assignment,) = await list_assignments(database)
        assert (assignment.state, assignment.attempts) == ("open", number)
        sent = len(hub.sent)
        await set_node(database, worker.node, bus_ok="true")
        await frontend.run()
        assert len(hub.sent) == sent, "a heartbeat does not end the pause after a failure"
        await age(database, operation, 1000)
        await frontend.run()
    (assignment,) = await list_assignments(database)
    assert (assignment.state, assignment.attempts) == ("dead", 10)
    assert (await read(database, operation)).state == "failed"
    sent = len(hub.sent)
    await set_node(database, worker.node, bus_ok="true")
    await age(database, operation, 100_000)
    await frontend.run()
    assert len(hub.sent) == sent


@pytest.mark.behaviour("OPS-12")
@pytest.mark.behaviour("OPS-30")
async def test_cancellation_is_still_one_after_every_frontend_was_restarted(
    database: Database, database_url: str, hub: Hub
) -> None:
    (worker,) = await workers(database, hub, "a")
    first = await driver(database, hub)
    operation = await submit(database, make_spec("solo"))
    await first.run()
    await actions.cancel(database, operation.id, "ann")
    # Killed: it neither hands over nor tells the worker.
    hub.buses.clear()
    again = Database(database_url)
    try:
        second = await driver(again, hub, "frontend-2")
        await second.run()
        assert [cancel.job_id for cancel in worker.cancelled] == [worker.job]
        assert (await listed(again), await recorded(again)) == ([], [operation.id])
        seen = await read(again, operation)
    finally:
        await again.close()
    assert (seen.state, seen.fault, states(seen)) == ("cancelled", None, {"a": "cancelled"})
    assert len(worker.commands) == 1, "and nobody has begun it anew"


@pytest.mark.behaviour("OPS-5")
async def test_two_nodes_get_the_same_backend_at_once_and_neither_disturbs_the_other(
    database: Database, hub: Hub
) -> None:
    one, two = await workers(database, hub, "a", "b")
    frontend, other = await driver(database, hub), await driver(database, hub, "frontend-2")
    first = await submit(database, make_spec("solo", nodes=("a",)))
    second = await submit(database, make_spec("solo", nodes=("b",)))
    await frontend.run()
    await other.run()
    assert {item.id for item in (first, second)} == set(await listed(database))
    assert (len(one.commands), len(two.commands)) == (1, 1)
    await one.move(70.0)
    await two.fail("disk_full", "The disk is full.")
    await frontend.run()
    await other.run()
    seen = await read(database, first)
    assert (seen.state, seen.progress.percent) == ("running", 70.0)
    assert (await read(database, second)).state == "failed"
    await one.finish()
    await frontend.run()
    assert (await read(database, first)).state == "completed"


@pytest.mark.behaviour("OPS-39")
@pytest.mark.parametrize("kind", ["install", "upgrade"])
async def test_retry_after_a_failure_shows_its_progress(database: Database, hub: Hub, kind: str) -> None:
    (worker,) = await workers(database, hub, "a")
    if kind == "upgrade":
        await put_installed(database, NodeId(worker.node), there("cpu-engine", "1.0"))
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec(kind=kind))
    await frontend.run()
    await worker.fail("source_unavailable", "The source returned 503.")
    await frontend.run()
    await age(database, operation, 1000)
    await frontend.run()
    await worker.move(42.0, current_bytes=420, total_bytes=1000)
    await frontend.run()
    progress = (await target(database, operation, worker.node)).progress
    assert (progress.percent, progress.current_bytes, progress.total_bytes) == (42.0, 420, 1000)


@pytest.mark.behaviour("NODE-17")
async def test_node_that_was_off_the_bus_and_falls_silent_is_offline_like_any_other(
    frontend: RunningFrontend,
) -> None:
    node = await join_node(frontend)
    await sql(frontend.database, "UPDATE nodes SET bus_joined_at = corral_now()")
    await load(node, "m")
    await node.heartbeat(bus_ok=False)
    assert (await node.read_as_admin())["status"] == "unhealthy"
    await age_heartbeat(node, 61)
    await find_lost(frontend)
    assert (await node.read_as_admin())["status"] == "offline"
    assert await loaded(node) == []
    assert await removals(node) == [("m", 1)]


@pytest.mark.behaviour("OPS-51")
async def test_external_backend_is_sent_whole_also_after_failures(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    spec = make_spec("mine", uri="https://files.example/mine-1.tar.gz", alias="it", sha256="a" * 64)
    operation = await submit(database, spec)
    await frontend.run()
    for _ in range(2):
        await worker.fail("source_unavailable", "The source returned 503.")
        await frontend.run()
        await age(database, operation, 1000)
        await frontend.run()
    sent = [build_from_json(command.build or {}) for _, command in worker.commands]
    assert len(sent) == 3
    assert sent[0] == sent[1] == sent[2]
    assert (sent[0].name, sent[0].alias) == ("mine", "it")
    assert (sent[0].source.uri, sent[0].source.sha256) == ("https://files.example/mine-1.tar.gz", "a" * 64)


@pytest.mark.behaviour("OPS-24")
async def test_times_are_those_of_the_database_whichever_frontend_drove_it(database: Database, hub: Hub) -> None:
    (worker,) = await workers(database, hub, "a")
    frontend = await driver(database, hub)
    frontend.clock.ahead = 1e9
    (before,) = await sql(database, "SELECT corral_now() AS now")
    operation = await submit(database, make_spec("solo"))
    await frontend.run()
    await worker.finish()
    await frontend.run()
    (after,) = await sql(database, "SELECT corral_now() AS now")
    seen = await read(database, operation)
    assert seen.started_at is not None
    assert seen.finished_at is not None
    assert before.now <= seen.created_at <= seen.started_at <= seen.finished_at <= after.now


async def test_slot_of_a_node_is_never_taken_twice(frontend: RunningFrontend) -> None:
    node = await join_node(frontend)
    await load(node, "m")
    await load(node, "m")
    async with frontend.database.transaction() as tx:
        assert [(one.model, one.index) for one in await replica_store.list_replicas(tx)] == [("m", 0)]


@pytest.mark.behaviour("OPS-52")
async def test_installation_of_a_named_version_replaces_another_one_that_is_there(database: Database, hub: Hub) -> None:
    """The worker of LocalAI had the backend already, in whatever version, and reported success to everybody."""
    old, new, none = await workers(database, hub, "old", "new", "none")
    await put_installed(database, NodeId(old.node), there("cpu-engine", "1.0"))
    await put_installed(database, NodeId(new.node), there("cpu-engine", "2.0"))
    frontend = await driver(database, hub)
    operation = await submit(database, make_spec(version="2.0"))
    await frontend.run()
    subjects = {worker.node: worker.commands[0][0] for worker in (old, new, none)}
    assert subjects == {old.node: "backend.upgrade", new.node: "backend.install", none.node: "backend.install"}
    assert ((await target(database, operation, old.node)).previous or {})["version"] == "1.0"
    await actions.pause(database, operation.id, "ann")
    await frontend.run()
    await actions.resume(database, admissions(database), operation.id, "ann")
    await frontend.run()
    assert old.commands[-1][0] == "backend.upgrade", "also after a pause"
    await actions.cancel(database, operation.id, "ann")
    await frontend.run()
    await submit(database, make_spec())
    await frontend.run()
    assert old.commands[-1][0] == "backend.install", "without a version, having it is enough"
    assert build_from_json(old.commands[-1][1].build or {}).version == "1.0", "and nothing newer is spoken of"
    assert build_from_json(none.commands[-1][1].build or {}).version == "2.0"


@pytest.mark.behaviour("OPS-52")
@pytest.mark.parametrize(
    ("uri", "sha256", "command"),
    [
        ("https://files.example/mine-1.tar.gz", "", "backend.install"),
        ("https://files.example/mine-2.tar.gz", "", "backend.upgrade"),
        ("https://mirror.example/mine-1.tar.gz", "A" * 64, "backend.install"),
        ("https://files.example/mine-2.tar.gz", "b" * 64, "backend.upgrade"),
    ],
)
async def test_installation_from_another_address_replaces_what_is_there(
    database: Database, hub: Hub, uri: str, sha256: str, command: str
) -> None:
    (worker,) = await workers(database, hub, "a")
    has = there("mine", "", gallery="", uri="https://files.example/mine-1.tar.gz", digest="sha256:" + "a" * 64)
    await put_installed(database, NodeId(worker.node), has)
    frontend = await driver(database, hub)
    await submit(database, make_spec("mine", uri=uri, sha256=sha256))
    await frontend.run()
    assert [name for name, _ in worker.commands] == [command]
