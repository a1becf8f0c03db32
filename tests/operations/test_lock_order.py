"""Drains and removals beside what workers say: they wait for one another and never end one another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import text

from corral.domain.node import NodeId
from corral.domain.operation import JobId, JobPhase, JobState, Operation, Progress
from corral.domain.replica import Replica, ReplicaState
from corral.nodes import lifecycle
from corral.operations.backend_pool import BackendJobListener
from corral.operations.job_reports import JobObservation, apply_observations
from corral.policy.progress import JobReport
from corral.store import dispatch as store
from corral.store import replicas as replica_store
from corral.store.database import Database, Transaction
from tests.operations.scene import (
    admit,
    begin,
    begun,
    ids,
    list_assignments,
    make_spec,
    put_installed,
    put_nodes,
    read,
    set_targets,
    sql,
    states,
    there,
    wait_for_locks,
)
from tests.support.replicas import insert_replica

LISTENERS = {"backend": BackendJobListener()}
WAYS = {"drain": lifecycle.drain, "remove": lifecycle.remove}


async def at_work(database: Database, *names: str) -> tuple[Operation, list[NodeId]]:
    """An operation that every node works on; each has a replica `m#0`."""
    nodes = await put_nodes(database, *names)
    operation = await begun(database, make_spec())
    await set_targets(database, operation, "working")
    async with database.transaction() as tx:
        for node in nodes:
            await insert_replica(
                tx, Replica(id=ids.new_id(), node_id=node, model="m", index=0, state=ReplicaState.LOADED, address="h:1")
            )
    return await read(database, operation), nodes


def make_reports(operation: Operation, *nodes: NodeId) -> list[JobObservation]:
    """The job of each has ended `m#0` and goes on."""
    jobs = {target.node: target.job_id for target in operation.targets}
    progress = Progress(percent=90.0, phase=JobPhase.COMMITTING)
    news = JobReport(seq=7, state=JobState.RUNNING, progress=progress, fault=None)
    return [JobObservation(node=node, job_id=JobId(jobs[node]), observation=news, stopped=("m#0",)) for node in nodes]


async def take(database: Database, news: list[JobObservation]) -> None:
    async with database.transaction() as tx:
        await apply_observations(tx, news, ids, listeners=LISTENERS)


@asynccontextmanager
async def holding(database: Database, statement: str) -> AsyncIterator[Transaction]:
    """Lock these rows in another transaction."""
    async with database.transaction() as tx:
        await tx.execute(text(statement))
        yield tx


async def replicas(database: Database) -> int:
    return int((await sql(database, "SELECT count(*) AS number FROM replicas"))[0].number)


@pytest.mark.parametrize("way", WAYS)
async def test_node_goes_while_its_worker_s_words_are_being_taken_in(database: Database, way: str) -> None:
    operation, (node,) = await at_work(database, "a")
    async with asyncio.TaskGroup() as group:
        async with database.transaction() as tx:
            await store.lock_jobs(tx, [target.job_id for target in operation.targets])
            going = group.create_task(WAYS[way](database, "a", "ann"))
            await wait_for_locks(database, 1)
            await apply_observations(tx, make_reports(operation, node), ids, listeners=LISTENERS)
        await going
    assert await replicas(database) == 0
    assert states(await read(database, operation))["a"] == ("working" if way == "drain" else "error")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("held", ["SELECT 1 FROM replicas FOR UPDATE", "SELECT 1 FROM nodes FOR UPDATE"])
async def test_worker_speaks_while_its_node_goes(database: Database, way: str, held: str) -> None:
    operation, (node,) = await at_work(database, "a")
    async with asyncio.TaskGroup() as group, holding(database, held):
        group.create_task(WAYS[way](database, "a", "ann"))
        await wait_for_locks(database, 1)
        group.create_task(take(database, make_reports(operation, node)))
        if "replicas" in held:
            await wait_for_locks(database, 2)
    assert await replicas(database) == 0


async def test_replicas_of_many_nodes_are_removed_in_one_order_by_every_remover(database: Database) -> None:
    operation, nodes = await at_work(database, "a", "b", "c")
    first, *_, last = sorted(nodes)
    held = f"SELECT 1 FROM replicas WHERE node_id = '{first}' FOR UPDATE"
    async with asyncio.TaskGroup() as group, holding(database, held):
        # Told in the other order; whoever waits for the first holds none of the others.
        group.create_task(take(database, make_reports(operation, *sorted(nodes, reverse=True))))
        await wait_for_locks(database, 1)
        async with database.transaction() as tx:
            await tx.execute(text("SET LOCAL lock_timeout = '10s'"))
            assert await replica_store.remove_replicas(tx, last, "its worker has stopped") == 1
    assert await replicas(database) == 0


@pytest.mark.parametrize("way", WAYS)
async def test_work_that_comes_while_a_node_goes_is_ended_with_it(database: Database, way: str) -> None:
    operation, _ = await at_work(database, "a")
    # As a heartbeat holds it.
    held = "SELECT 1 FROM nodes FOR NO KEY UPDATE"
    async with asyncio.TaskGroup() as group, holding(database, held):
        group.create_task(WAYS[way](database, "a", "ann"))
        await wait_for_locks(database, 1)
        # It has seen what there was.
        other = await begun(database, make_spec("solo"))
    assert states(await read(database, other)) == {"a": "skipped" if way == "drain" else "error"}
    assert states(await read(database, operation)) == {"a": "working" if way == "drain" else "error"}
    assert len(await list_assignments(database)) == (1 if way == "drain" else 0)


async def test_newer_request_for_a_draining_node_waits_for_the_drain(database: Database) -> None:
    operation, (node,) = await at_work(database, "a")
    await put_installed(database, node, there())
    newer = (await admit(database, make_spec(kind="reinstall", nodes=("a",)))).operation
    async with asyncio.TaskGroup() as group, holding(database, "SELECT 1 FROM nodes FOR NO KEY UPDATE"):
        group.create_task(lifecycle.drain(database, "a", "ann"))
        await wait_for_locks(database, 1)
        group.create_task(begin(database, newer))
        await wait_for_locks(database, 2)
    assert states(await read(database, newer)) == {"a": "skipped"}
    assert states(await read(database, operation)) == {"a": "working"}
