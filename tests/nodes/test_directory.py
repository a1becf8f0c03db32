"""The frontend's memory of who may call."""

from __future__ import annotations

import pytest

from corral.access.directory import Directory
from corral.adapters.system import SystemClock
from corral.domain.cluster import Event, Position
from corral.store.database import Database, count_statements
from tests.support.frontends import RunningFrontend
from tests.support.nodes import joined
from tests.support.waiting import eventually


def _event(number: int, key: str) -> Event:
    return Event(position=Position(1, number), kind="node.alive", key=key, at=SystemClock().wall(), data={})


@pytest.mark.behaviour("HB-8")
async def test_many_nodes_that_change_at_once_are_read_at_once(frontend: RunningFrontend, database: Database) -> None:
    nodes = [await joined(frontend, f"n{number}", approved=False) for number in range(5)]
    # On connections of its own: the frontend reads, too.
    directory = Directory(database, SystemClock())
    statements: list[str] = []
    count_statements(database, statements.append)
    await directory.follow([_event(number, node.id) for number, node in enumerate(nodes * 3)])
    assert len([statement for statement in statements if "node_labels" in statement]) == 1
    for node in nodes:
        assert (await directory.node(node.id, node.credential)).name == node.name


@pytest.mark.behaviour("HB-8")
async def test_an_event_about_a_node_that_is_gone_forgets_it(frontend: RunningFrontend) -> None:
    node = await joined(frontend, "n")

    async def is_known() -> bool:
        return node.id in frontend.core.directory._nodes

    await eventually(is_known)
    await frontend.call("DELETE", f"/api/nodes/{node.id}")
    await frontend.core.directory.follow([_event(1, node.id), _event(2, "no id at all")])
    assert node.id not in frontend.core.directory._nodes
