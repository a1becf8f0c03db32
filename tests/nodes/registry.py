"""Looking into the registry from outside, and putting into it what other parts of Corral will write later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import text

from corral.adapters.nats.credentials import new_user_key
from corral.adapters.system import SystemIdGenerator
from corral.domain.cluster import ORIGIN, OutboxEvent
from corral.domain.node import Node, NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store import replicas as replica_store
from corral.store import rules as rule_store
from corral.store.database import Database
from tests.support.frontends import RunningFrontend
from tests.support.nodes import PretendNode
from tests.support.polling import eventually
from tests.support.replicas import insert_replica, insert_rule_backoff
from tests.support.rules import put_rule

ids = SystemIdGenerator()


def bus_key() -> str:
    """A public key as a worker sends it."""
    return new_user_key()[1]


async def load(node: PretendNode, *models: str) -> None:
    """Rows as if these models were loaded; a model that is named twice has two replicas."""
    async with node.frontend.database.transaction() as tx:
        for place, model in enumerate(models):
            index = models[:place].count(model)
            await insert_replica(
                tx,
                Replica(id=ids.new_id(), node_id=NodeId(node.id), model=model, index=index, state=ReplicaState.LOADED),
            )


async def loaded(node: PretendNode) -> list[str]:
    async with node.frontend.database.transaction() as tx:
        return [replica.model for replica in await replica_store.list_replicas(tx, NodeId(node.id))]


async def stored(node: PretendNode) -> Node:
    async with node.frontend.database.transaction() as tx:
        return await node_store.get_node(tx, node.id)


async def events(database: Database, kind: str) -> list[OutboxEvent]:
    """Every event of a kind so far. Events of transactions that run meanwhile elsewhere hold the head back a moment."""
    async with database.transaction() as tx:
        expected_count = (await tx.execute(text("SELECT count(*) FROM outbox"))).scalar_one()

    async def settled() -> list[OutboxEvent]:
        async with database.transaction() as tx:
            found = await outbox.read(tx, ORIGIN, 10_000)
        return found if len(found) >= expected_count else []

    found = await eventually(settled) if expected_count else []
    return [event for event in found if event.kind == kind]


async def removals(node: PretendNode) -> list[tuple[str, int]]:
    """Model and count of each `replica.removed` event of this node, sorted."""
    found = await events(node.frontend.database, "replica.removed")
    return sorted((event.data["model"], event.data["count"]) for event in found if event.data["node_id"] == node.id)


async def lead(frontend: RunningFrontend) -> None:
    """Wait until this frontend is the leader."""

    async def is_leader() -> bool:
        return frontend.core.leader.is_leader()

    await eventually(is_leader)


async def find_lost(frontend: RunningFrontend) -> None:
    """One pass of the liveness check, as the leader."""
    await lead(frontend)
    await frontend.core.liveness_checker.tick()


async def put_aside(database: Database, model: str = "big") -> Callable[[], Awaitable[bool]]:
    """A rule that was found impossible; answers with a look at whether it still counts as that."""
    async with database.transaction() as tx:
        await put_rule(tx, model, {"zone": "nowhere"}, least=1)
        await insert_rule_backoff(tx, model, 3600)

    async def is_aside() -> bool:
        async with database.transaction() as tx:
            rule = next(rule for rule in await rule_store.list_rules(tx) if rule.model == model)
        return rule.unsatisfiable_until is not None or rule.unsatisfiable_ticks > 0

    assert await is_aside()
    return is_aside


async def transaction_waits_for_a_lock(database: Database) -> None:
    """Return when a statement in this database stands before a lock that another one holds."""

    async def waits() -> bool:
        async with database.transaction() as tx:
            statement = text(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            return bool((await tx.execute(statement)).scalar())

    await eventually(waits)


def condition(shown: dict[str, Any], name: str) -> Any:
    return next(item["holds"] for item in shown["conditions"] if item["name"] == name)
