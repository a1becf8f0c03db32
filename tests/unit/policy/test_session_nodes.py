"""Which node holds the MCP sessions of calls outside of runs."""

from __future__ import annotations

from corral.domain.node import NodeId
from corral.policy.runs import RunNode, rank_session_nodes
from tests.unit.policy.builders import a_node

PLACES = [RunNode(node=a_node(f"agent-{number}"), max_runs=1, active=1) for number in range(5)]


def rank(key: str, places: list[RunNode] = PLACES, **more: NodeId) -> list[str]:
    return [node.id for node in rank_session_nodes(places, key, **more)]


def test_session_nodes_are_ranked_alike_by_every_frontend_and_busy_ones_count() -> None:
    assert rank("k") == rank("k", PLACES[::-1])
    assert len(rank("k")) == len(PLACES)
    assert len({rank(f"key {number}")[0] for number in range(50)}) > 1


def test_session_nodes_keep_their_order_when_another_node_is_gone() -> None:
    first, *rest = rank("k")
    assert rank("k", [place for place in PLACES if place.node.id != first]) == rest


def test_session_node_that_had_the_last_run_is_preferred() -> None:
    last = NodeId(rank("k")[-1])
    assert rank("k", preferred=last)[0] == last


def test_session_nodes_leave_out_those_that_take_no_runs() -> None:
    assert rank("k", [RunNode(node=a_node("agent-9"), max_runs=0)]) == []
