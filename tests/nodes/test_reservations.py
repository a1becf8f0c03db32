"""VRAM that is set aside for loads to come."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from corral.domain.errors import Conflict, NotFound
from corral.domain.model import Need
from corral.domain.node import Node, NodeId
from corral.policy.placing.demand import Demand
from corral.policy.placing.fit import free_vram
from corral.policy.placing.fleet import Fleet
from corral.policy.placing.placement import place
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.store.database import Database
from tests.nodes.registry import ids

GIB = 1024**3


async def _node(database: Database, **values: object) -> NodeId:
    node_id = NodeId(ids.new_id())
    row = {
        "id": node_id,
        "name": "n",
        "node_type": "backend",
        "credential_hash": "",
        "boot_id": "boot",
        "total_vram": 10 * GIB,
        "available_vram": 10 * GIB,
    }
    async with database.transaction() as tx:
        await node_store.insert_node(tx, row | values, 45)
    return node_id


async def _read(database: Database, node_id: NodeId) -> Node:
    async with database.transaction() as tx:
        return await node_store.get_node(tx, node_id)


async def _reserve(database: Database, node_id: NodeId, holder: str, size_bytes: int) -> bool:
    try:
        async with database.transaction() as tx:
            await replica_store.reserve_vram(tx, ids.new_id(), node_id, holder, size_bytes)
    except Conflict as refused:
        if refused.slug != "insufficient_vram":
            raise
        return False
    return True


@pytest.mark.behaviour("NODE-26")
async def test_of_two_reservations_that_do_not_fit_together_exactly_one_is_granted(database: Database) -> None:
    node_id = await _node(database)
    async with asyncio.TaskGroup() as group:
        races = [group.create_task(_reserve(database, node_id, f"load {n}", 6 * GIB)) for n in range(4)]
    assert sorted(race.result() for race in races) == [False, False, False, True]
    assert (await _read(database, node_id)).reserved_vram == 6 * GIB


@pytest.mark.behaviour("NODE-27")
async def test_releasing_what_was_never_reserved_changes_nothing(database: Database) -> None:
    node_id = await _node(database)
    await _reserve(database, node_id, "other", 2 * GIB)
    for _ in range(2):
        async with database.transaction() as tx:
            await replica_store.release_vram(tx, node_id, "nobody")
    assert (await _read(database, node_id)).reserved_vram == 2 * GIB
    for _ in range(2):
        async with database.transaction() as tx:
            await replica_store.release_vram(tx, node_id, "other")
    assert (await _read(database, node_id)).reserved_vram == 0


@pytest.mark.behaviour("NODE-28")
async def test_placement_sees_what_is_reserved(database: Database) -> None:
    node_id = await _node(database)
    assert await _reserve(database, node_id, "load", 6 * GIB)
    node = await _read(database, node_id)
    assert free_vram(node) == 4 * GIB
    fleet = Fleet.of([replace(node, approved_at=node.created_at)])
    assert place(fleet, Demand(model="m", need=Need(vram_bytes=5 * GIB))).choices == ()
    assert place(fleet, Demand(model="m", need=Need(vram_bytes=4 * GIB))).choices


@pytest.mark.behaviour("NODE-26")
async def test_a_reservation_stays_under_the_budget(database: Database) -> None:
    node_id = await _node(database, budget_reported="50%")
    assert not await _reserve(database, node_id, "large", 6 * GIB)
    assert await _reserve(database, node_id, "small", 5 * GIB)


@pytest.mark.behaviour("NODE-26")
async def test_nothing_can_be_reserved_where_free_vram_is_unknown_and_nothing_always_can(database: Database) -> None:
    node_id = await _node(database, available_vram=None)
    assert not await _reserve(database, node_id, "load", 1)
    assert await _reserve(database, node_id, "load", 0)
    assert (await _read(database, node_id)).reserved_vram == 0


@pytest.mark.behaviour("NODE-26")
async def test_a_reservation_on_an_unknown_node_is_not_found(database: Database) -> None:
    with pytest.raises(NotFound):
        await _reserve(database, NodeId(ids.new_id()), "load", 1)


@pytest.mark.behaviour("NODE-26")
async def test_a_holder_that_reserves_again_changes_what_it_holds(database: Database) -> None:
    node_id = await _node(database)
    assert await _reserve(database, node_id, "load", 6 * GIB)
    assert await _reserve(database, node_id, "load", 8 * GIB), "its own reservation is not in its way"
    assert (await _read(database, node_id)).reserved_vram == 8 * GIB
    assert not await _reserve(database, node_id, "load", 1000 * GIB)
    assert (await _read(database, node_id)).reserved_vram == 8 * GIB, "a refused change leaves what was there"
