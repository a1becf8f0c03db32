"""What must hold when the faults are over: everybody is back, all views agree, and no watcher has missed anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from corral.domain.cluster import OutboxPosition
from tests.simulation.frontends import SimFrontend
from tests.simulation.invariants import Inspector, Look, Row
from tests.simulation.watchers import Gap, Watcher
from tests.simulation.wire import Request
from tests.simulation.workers import SimWorker
from tests.simulation.worlds import ADMIN_KEY

LIST_NODES = Request(method="GET", path="/api/nodes", headers={"Authorization": f"Bearer {ADMIN_KEY}"}, body=b"")


def of_workers(look: Look, workers: Sequence[SimWorker]) -> list[str]:
    """Return which live workers are not alive and on the bus, and which others are called alive."""
    wrong = []
    nodes = {node.name: node for node in look.nodes}
    for worker in workers:
        node = nodes.get(worker.name)
        if worker.is_running and (node is None or node.liveness != "alive"):
            wrong.append(f"{worker.name} runs and is {node.liveness if node else 'not registered'}")
        elif worker.is_running and node is not None and (node.approved_at is None or node.bus_ok is not True):
            wrong.append(f"{worker.name} runs; approved {node.approved_at is not None}, on the bus {node.bus_ok}")
        elif not worker.is_running and node is not None and node.liveness == "alive":
            wrong.append(f"{worker.name} does not run and is called alive")
        elif worker.should_run and not worker.is_running:
            wrong.append(f"{worker.name} should run and does not")
    return wrong


def of_directories(look: Look, frontends: Sequence[SimFrontend]) -> list[str]:
    """Return where the directory that a frontend checks calls against differs from the registry."""
    expected = {
        str(node.id): (
            node.name,
            node.credential_hash,
            node.boot_id,
            node.approved_at is not None,
            node.drained_at is not None,
        )
        for node in look.nodes
    }
    wrong = []
    for frontend in frontends:
        assert frontend.core is not None, f"{frontend.name} is down at the end"
        known = {
            entry.id: (entry.name, entry.credential_hash, entry.boot_id, entry.is_approved, entry.is_draining)
            for entry in frontend.core.directory._nodes.values()
        }
        if known != expected:
            wrong.append(f"the directory of {frontend.process} has {known}, the registry {expected}")
    return wrong


def of_leaders(look: Look, frontends: Sequence[SimFrontend]) -> list[str]:
    leaders = [frontend.process for frontend in frontends if frontend.core and frontend.core.leader.is_leader()]
    if leaders != [look.leader.holder]:
        return [f"{leaders} think that they lead; the registry says {look.leader.holder}"]
    return []


async def of_answers(frontends: Sequence[SimFrontend]) -> list[str]:
    """Return whether frontends tell an admin different things about a node."""
    statuses: dict[str, Any] = {}
    for frontend in frontends:
        answer = await frontend.begin(LIST_NODES)
        statuses[frontend.process] = [(node["name"], node["status"]) for node in json.loads(answer.body)]
    return (
        []
        if len({str(each) for each in statuses.values()}) == 1
        else [f"the frontends tell different things: {statuses}"]
    )


def of_watcher(watcher: Watcher, inspector: Inspector, horizon: OutboxPosition) -> list[str]:
    """Return the events that a watcher missed, or saw twice or out of order, without a justified reset."""
    seen = watcher.seen
    if seen.began is None or seen.position is None:
        return []
    wrong = [
        f"{watcher.name} got a reset at {gap.start}, and nothing after that was pruned"
        for gap in seen.gaps
        if gap.start >= horizon
    ]
    expected = [
        _content(row)
        for row in inspector.events
        if seen.began < row.position <= seen.position and not any(_covers(gap, row) for gap in seen.gaps)
    ]
    actual = [(str(event.position), event.kind, event.key) for event in seen.events]
    if actual != expected:
        missing = [each for each in expected if each not in actual]
        extra = [each for each in actual if each not in expected]
        wrong.append(f"{watcher.name} missed {missing} and saw {extra} too much, of {len(expected)} events")
    return wrong


def _content(row: Row) -> tuple[str, str, str]:
    return str(row.position), row.kind, row.key


def _covers(gap: Gap, row: Row) -> bool:
    return gap.start < row.position <= gap.end
