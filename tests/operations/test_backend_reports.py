"""What a worker reports to have: written when it differs, and settling pending changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime

import pytest

from corral.domain.backend import Assignment, DesiredState, InstalledBackend
from corral.domain.errors import BootSuperseded, InvalidRequest, NotFound
from corral.domain.node import NodeId
from corral.operations import backend_reports
from corral.operations.backend_reports import BackendReport, BackendReportResult, BackendReportWriter
from corral.policy.operation_plan import is_satisfied
from corral.store import assignments as assignment_store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store.database import Database
from tests.nodes.registry import events, transaction_waits_for_a_lock
from tests.operations.scene import (
    BOOT,
    begun,
    is_due,
    list_assignments,
    make_spec,
    put_installed,
    put_nodes,
    read,
    set_targets,
    sql,
    states,
    there,
)
from tests.support.statements import count_statements


async def take(
    database: Database, node: NodeId, *items: InstalledBackend, removed: dict[str, int] | None = None
) -> BackendReportResult:
    made = backend_reports.make_report(node, BOOT, items, removed or {})
    return await BackendReportWriter(database).submit_report(made)


def report(node: NodeId, *items: InstalledBackend, boot_id: str = BOOT) -> BackendReport:
    return backend_reports.make_report(node, boot_id, items, {})


async def has(database: Database, node: NodeId) -> tuple[InstalledBackend, ...]:
    async with database.transaction() as tx:
        return (await assignment_store.list_installed(tx)).get(node, ())


async def only(database: Database) -> Assignment:
    (assignment,) = await list_assignments(database)
    return assignment


async def test_report_is_everything_at_once_and_only_what_differs_is_written(database: Database) -> None:
    node, other = await put_nodes(database, "a", "b", backends_at="NULL")
    await put_installed(database, other, there())
    first, second = there("cpu-engine", "1.0", size_bytes=5), there("solo", "1.0")
    assert (await take(database, node, first, second)).changed == ("cpu-engine", "solo")
    assert await has(database, node) == (first, second)
    written: list[str] = []
    count_statements(database, lambda statement: written.append(statement.split()[0]))
    assert (await take(database, node, second, first)).changed == ()
    assert [word for word in written if word in ("INSERT", "DELETE")] == []
    newer = replace(first, version="2.0", previous_version="1.0", size_bytes=None)
    assert (await take(database, node, newer)).changed == ("cpu-engine", "solo")
    assert await has(database, node) == (newer,)
    assert await has(database, other) == (there(),)
    changes = await events(database, "node.backends_changed")
    assert [(item.key, item.data["backends"]) for item in changes] == [(node, ["cpu-engine", "solo"])] * 2


async def test_empty_report_is_known_to_be_empty(database: Database) -> None:
    (node,) = await put_nodes(database, "a", backends_at="NULL")
    assert await take(database, node) == BackendReportResult()
    async with database.transaction() as tx:
        assert (await node_store.get_node(tx, node)).backends_at is not None


async def test_time_without_a_zone_is_taken_as_utc(database: Database) -> None:
    (node,) = await put_nodes(database, "a")
    at = datetime(2026, 5, 1, 12, 30)  # noqa: DTZ001 - this is what the test is about
    for _ in range(2):
        taken = await take(database, node, there(installed_at=at))
    assert taken.changed == ()
    (item,) = await has(database, node)
    assert item.installed_at is not None
    assert item.installed_at.isoformat() == "2026-05-01T12:30:00+00:00"


async def test_backend_report_of_an_older_boot_is_refused(database: Database) -> None:
    (node,) = await put_nodes(database, "a")
    with pytest.raises(BootSuperseded):
        await BackendReportWriter(database).submit_report(report(node, there(), boot_id="boot-zero"))
    assert await has(database, node) == ()


@pytest.mark.parametrize("column", [{"approved_at": "NULL"}, {"node_type": "'agent'"}])
async def test_backend_report_of_a_pending_or_agent_node_is_not_written(
    database: Database, column: dict[str, str]
) -> None:
    (node,) = await put_nodes(database, "a", **column)
    assert await take(database, node, there()) == BackendReportResult()
    assert await has(database, node) == ()


@pytest.mark.behaviour("OPS-52")
@pytest.mark.behaviour("NODE-127")
async def test_installation_is_settled_when_the_node_reports_the_backend(database: Database) -> None:
    a, b = await put_nodes(database, "a", "b")
    operation = await begun(database, make_spec())
    await sql(database, "UPDATE operations SET due_at = NULL")
    taken = await take(database, a, there("cpu-engine", "2.0"))
    assert taken.settled == (operation.id,)
    after = await read(database, operation)
    assert states(after) == {"a": "success", "b": "queued"}
    assert (after.targets[0].progress.percent, after.targets[0].finished_at is None) == (100, False)
    assert [item.node_id for item in await list_assignments(database)] == [b]
    assert await is_due(database, operation)
    (ended,) = await events(database, "assignment.ended")
    assert (ended.data["node_id"], ended.data["backend"], ended.data["reason"]) == (a, "cpu-engine", "satisfied")


@pytest.mark.behaviour("OPS-52")
@pytest.mark.behaviour("OPS-163")
async def test_report_that_settles_an_install_writes_a_line_for_its_node(database: Database) -> None:
    a, _ = await put_nodes(database, "a", "b")
    operation = await begun(database, make_spec())
    await take(database, a, there("cpu-engine", "2.0"))
    async with database.transaction() as tx:
        notes = await operation_store.list_notes(tx, operation.id)
    assert [(note.node_name, note.text) for note in notes if note.node_name] == [("a", "done")]


async def test_installation_of_another_version_is_not_settled_by_what_is_there(database: Database) -> None:
    (node,) = await put_nodes(database, "a")
    await begun(database, make_spec(version="2.0"))
    assert (await take(database, node, there("cpu-engine", "1.0"))).settled == ()
    assert len(await list_assignments(database)) == 1


@pytest.mark.behaviour("OPS-52")
@pytest.mark.behaviour("NODE-127")
@pytest.mark.parametrize("kind", ["upgrade", "reinstall", "delete"])
async def test_upgrade_and_a_removal_are_settled_by_their_generation_and_not_by_presence(
    database: Database, kind: str
) -> None:
    (node,) = await put_nodes(database, "a")
    await put_installed(database, node, there("cpu-engine", "1.0"))
    operation = await begun(database, make_spec(kind=kind))
    await set_targets(database, operation, "working")
    generation = (await only(database)).generation
    newest = there("cpu-engine", "2.0", generation=generation - 1)
    stale = {"cpu-engine": generation - 1}
    assert (await take(database, node, newest, removed=stale)).settled == ()
    assert (await take(database, node, removed=stale)).settled == ()
    assert states(await read(database, operation)) == {"a": "working"}
    if kind == "delete":
        taken = await take(database, node, removed={"cpu-engine": generation})
    else:
        taken = await take(database, node, replace(newest, generation=generation))
    assert taken.settled == (operation.id,)
    assert states(await read(database, operation)) == {"a": "success"}
    assert await list_assignments(database) == []


async def test_report_that_settles_a_dead_assignment_leaves_the_target_as_failed(database: Database) -> None:
    (node,) = await put_nodes(database, "a")
    operation = await begun(database, make_spec())
    await set_targets(database, operation, "error")
    await sql(database, "UPDATE assignments SET state = 'dead'")
    await take(database, node, there("cpu-engine", "2.0"))
    assert await list_assignments(database) == []
    assert states(await read(database, operation)) == {"a": "error"}


@pytest.mark.parametrize(
    ("desired", "desired_version", "installed", "removed", "is_done"),
    [
        (DesiredState.PRESENT, "", there(version="9"), {}, True),
        (DesiredState.PRESENT, "9", there(version="9"), {}, True),
        (DesiredState.PRESENT, "9", there(version="8"), {}, False),
        (DesiredState.PRESENT, "9", there(version="8", generation=5), {}, True),
        (DesiredState.PRESENT, "", None, {"cpu-engine": 9}, False),
        (DesiredState.REPLACED, "9", there(version="9", generation=4), {}, False),
        (DesiredState.REPLACED, "9", there(version="9", generation=6), {}, True),
        (DesiredState.ROLLED_BACK, "", there(version="9", generation=4), {}, False),
        (DesiredState.ROLLED_BACK, "", there(version="9", generation=5), {}, True),
        (DesiredState.ABSENT, "", None, {}, False),
        (DesiredState.ABSENT, "", None, {"cpu-engine": 4}, False),
        (DesiredState.ABSENT, "", None, {"cpu-engine": 5}, True),
        (DesiredState.ABSENT, "", there(generation=6), {"cpu-engine": 5}, False),
    ],
)
@pytest.mark.behaviour("OPS-52")
def test_assignment_is_satisfied_by_a_matching_report(
    desired: DesiredState,
    desired_version: str,
    installed: InstalledBackend | None,
    removed: dict[str, int],
    is_done: bool,
) -> None:
    assignment = Assignment(
        node_id=NodeId("a"),
        backend="cpu-engine",
        desired=desired,
        generation=5,
        operation_id="x",  # type: ignore[arg-type]
        build={"version": desired_version},
        created_at=datetime(2026, 5, 1),  # noqa: DTZ001 - not looked at
    )
    reported = {installed.name: installed} if installed else {}
    assert is_satisfied(assignment, reported, removed) is is_done


async def test_concurrent_reports_are_written_together(database: Database) -> None:
    nodes = await put_nodes(database, *(f"n{number}" for number in range(40)))
    operation = await begun(database, make_spec())
    gate = backend_reports.BackendReportWriter(database)
    sent: list[str] = []
    count_statements(database, sent.append)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(gate.submit_report(report(node, there("cpu-engine", "2.0")))) for node in nodes]
    assert all(task.result() == BackendReportResult(changed=("cpu-engine",), settled=(operation.id,)) for task in tasks)
    assert set(states(await read(database, operation)).values()) == {"success"}
    assert len(sent) < len(nodes)
    assert len(await events(database, "node.backends_changed")) == len(nodes)


async def test_report_that_is_refused_keeps_no_other_out(database: Database) -> None:
    a, b, c = await put_nodes(database, "a", "b", "c")
    gate = backend_reports.BackendReportWriter(database)
    odd = there("cpu-engine", "1.0", alias="no room for this \x00")
    calls = [
        gate.submit_report(report(a, there())),
        gate.submit_report(report(b, odd)),
        gate.submit_report(report(c, there(), boot_id="boot-zero")),
        gate.submit_report(report(NodeId("00000000-0000-4000-8000-000000000000"), there())),
        gate.submit_report(report(a, there(version="2.0"))),
    ]
    first, bad, old, missing, second = await asyncio.gather(*calls, return_exceptions=True)
    assert (first, second) == (
        BackendReportResult(changed=("cpu-engine",)),
        BackendReportResult(changed=("cpu-engine",)),
    )
    assert isinstance(bad, InvalidRequest)
    assert isinstance(old, BootSuperseded)
    assert isinstance(missing, NotFound)
    assert [item.version for item in await has(database, a)] == ["2.0"]
    assert await has(database, b) == await has(database, c) == ()


async def test_cancelled_batch_writer_leaves_the_other_reports_to_their_callers(database: Database) -> None:
    a, b = await put_nodes(database, "a", "b")
    gate = backend_reports.BackendReportWriter(database)
    async with asyncio.TaskGroup() as group, database.transaction() as tx:
        await node_store.lock_node(tx, a)
        writer = group.create_task(gate.submit_report(report(a, there())))
        await transaction_waits_for_a_lock(database)
        waits = group.create_task(gate.submit_report(report(b, there())))
        writer.cancel()
        await asyncio.wait([writer])
        assert (await waits).changed == ("cpu-engine",)
    assert await has(database, a) == ()
    assert writer.cancelled()
