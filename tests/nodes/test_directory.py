"""The frontend's memory of who may call."""

from __future__ import annotations

from corral.access.directory import CredentialDirectory
from corral.adapters.system import SystemClock
from corral.domain.cluster import OutboxEvent, OutboxPosition
from corral.store.database import Database
from tests.support.frontends import RunningFrontend
from tests.support.nodes import join_node
from tests.support.polling import eventually
from tests.support.statements import count_statements


def _event(number: int, key: str) -> OutboxEvent:
    return OutboxEvent(position=OutboxPosition(1, number), kind="node.alive", key=key, at=SystemClock().wall(), data={})


async def test_many_nodes_that_change_at_once_are_read_at_once(frontend: RunningFrontend, database: Database) -> None:
    nodes = [await join_node(frontend, f"n{number}", approved=False) for number in range(5)]
    # On connections of its own: the frontend reads, too.
    directory = CredentialDirectory(database, SystemClock())
    statements: list[str] = []
    count_statements(database, statements.append)
    await directory.follow([_event(number, node.id) for number, node in enumerate(nodes * 3)])
    assert len([statement for statement in statements if "node_labels" in statement]) == 1
    for node in nodes:
        assert (await directory.authenticate_node(node.id, node.credential)).name == node.name


async def test_event_about_a_node_that_is_gone_forgets_it(frontend: RunningFrontend) -> None:
    node = await join_node(frontend, "n")

    async def is_known() -> bool:
        return node.id in frontend.core.directory._nodes

    await eventually(is_known)
    await frontend.call("DELETE", f"/api/nodes/{node.id}")
    await frontend.core.directory.follow([_event(1, node.id), _event(2, "no id at all")])
    assert node.id not in frontend.core.directory._nodes
