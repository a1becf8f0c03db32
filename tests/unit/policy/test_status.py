"""The word that people see is computed from four facts, in the order of the questions."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

import pytest

from corral.domain.node import Liveness, Node, NodeStatus
from corral.policy.status import compute_status, describe_status, is_schedulable, list_conditions
from tests.unit.policy.builders import THEN, a_node

_TIMES: tuple[datetime | None, ...] = (None, THEN)
_FACTS = list(itertools.product(_TIMES, _TIMES, _TIMES, Liveness, (True, False, None)))


def _node(
    approved: datetime | None,
    drained: datetime | None,
    self_drained: datetime | None,
    liveness: Liveness,
    bus_ok: bool | None,
) -> Node:
    return a_node(
        approved_at=approved,
        drained_at=drained,
        drained_by="an admin",
        self_drained_at=self_drained,
        liveness=liveness,
        bus_ok=bus_ok,
    )


@pytest.mark.behaviour("NODE-203")
@pytest.mark.parametrize("facts", _FACTS)
def test_work_needs_approval_life_and_no_drain_by_anyone(
    facts: tuple[datetime | None, datetime | None, datetime | None, Liveness, bool | None],
) -> None:
    approved, drained, self_drained, liveness, bus_ok = facts
    node = _node(*facts)
    expected = (
        approved is not None
        and drained is None
        and self_drained is None
        and liveness is Liveness.ALIVE
        and bus_ok is not False
    )
    assert is_schedulable(node) == expected
    assert (compute_status(node) is NodeStatus.HEALTHY) == expected
    assert (compute_status(node) is NodeStatus.PENDING) == (approved is None)


@pytest.mark.behaviour("NODE-203")
@pytest.mark.parametrize("facts", _FACTS)
def test_every_combination_of_facts_has_a_sentence_and_four_conditions(
    facts: tuple[datetime | None, datetime | None, datetime | None, Liveness, bool | None],
) -> None:
    node = _node(*facts)
    assert describe_status(node)
    conditions = {fact.name: fact for fact in list_conditions(node)}
    assert set(conditions) == {"approved", "alive", "on_bus", "draining"}
    assert conditions["approved"].holds == (node.approved_at is not None)
    assert conditions["alive"].holds == (node.liveness is Liveness.ALIVE)
    # Of a node that is away nobody knows whether commands would reach it.
    assert conditions["on_bus"].holds is (node.bus_ok if node.liveness is Liveness.ALIVE else None)
    assert conditions["draining"].holds == (node.drained_at is not None or node.self_drained_at is not None)
    assert all(fact.reason for fact in conditions.values())


def test_conditions_of_a_lost_node_do_not_claim_that_commands_reach_it() -> None:
    conditions = {fact.name: fact for fact in list_conditions(a_node(liveness=Liveness.LOST, bus_ok=True))}
    assert conditions["on_bus"].holds is None
    assert conditions["on_bus"].reason == "Not known while the node is away"
    assert conditions["draining"].reason == "Takes new work when it is back"


@pytest.mark.behaviour("NODE-22")
def test_drained_node_that_is_away_says_both() -> None:
    node = a_node(drained_at=THEN, drained_by="ada", liveness=Liveness.LOST)
    assert compute_status(node) is NodeStatus.DRAINING
    assert describe_status(node) == "Drained by ada, and no heartbeat within its lease"


@pytest.mark.behaviour("NODE-203")
def test_node_not_yet_seen_on_the_bus_is_healthy_and_says_so() -> None:
    assert compute_status(a_node(bus_ok=None)) is NodeStatus.HEALTHY
    assert describe_status(a_node(bus_ok=None)) == "Approved and alive; not seen on the bus yet"
    assert compute_status(a_node(bus_ok=False)) is NodeStatus.UNHEALTHY


@pytest.mark.behaviour("TRUST-5")
@pytest.mark.parametrize(
    ("after_s", "status"), [(0, NodeStatus.JOINING), (60, NodeStatus.JOINING), (61, NodeStatus.UNHEALTHY)]
)
def test_node_that_was_never_on_the_bus_is_joining_for_a_minute_after_its_approval(
    after_s: int, status: NodeStatus
) -> None:
    last = THEN + timedelta(seconds=after_s)
    node = a_node(bus_ok=False, bus_joined_at=None, last_heartbeat_at=last)
    assert (compute_status(node), is_schedulable(node)) == (status, False)
