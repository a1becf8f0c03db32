"""VRAM that is set aside for loads to come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.domain.model import Need
from corral.domain.node import Node, NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.policy.placing.fleet import PlacementDemand, PlacementFleet, compute_vram_left
from corral.policy.placing.placement import place_replicas
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.store.database import Database
from tests.nodes.registry import ids
from tests.support.replicas import insert_replica, insert_reservation

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


@pytest.mark.behaviour("NODE-27")
async def test_removing_a_replica_twice_releases_its_own_reservation_once(database: Database) -> None:
    node_id = await _node(database)
    async with database.transaction() as tx:
        for model, vram_bytes in (("one", 2 * GIB), ("other", 3 * GIB)):
            row = Replica(id=ids.new_id(), node_id=node_id, model=model, index=0, state=ReplicaState.LOADING)
            await insert_replica(tx, row)
            await insert_reservation(tx, node_id, row.id, vram_bytes)
    assert (await _read(database, node_id)).reserved_vram == 5 * GIB
    for _ in range(2):
        async with database.transaction() as tx:
            await replica_store.remove_ended_processes(tx, [(node_id, "one", 0)], "it was lost")
        assert (await _read(database, node_id)).reserved_vram == 3 * GIB


@pytest.mark.behaviour("NODE-28")
async def test_placement_sees_what_is_reserved(database: Database) -> None:
    node_id = await _node(database)
    async with database.transaction() as tx:
        await insert_reservation(tx, node_id, "load", 6 * GIB)
    node = await _read(database, node_id)
    assert compute_vram_left(node) == 4 * GIB
    fleet = PlacementFleet.build([replace(node, approved_at=node.created_at)])
    assert place_replicas(fleet, PlacementDemand(model="m", need=Need(vram_bytes=5 * GIB))).choices == ()
    assert place_replicas(fleet, PlacementDemand(model="m", need=Need(vram_bytes=4 * GIB))).choices
