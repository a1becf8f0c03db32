"""The simulated cluster is worth its time only if it sees what is wrong: each test breaks one promise on purpose.

The break replaces a piece of the product for the length of the test; the plan makes the moment likely in which it
matters. A few seeds are tried, because not every order of events shows every bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import text

from corral.access.directory import CredentialDirectory
from corral.domain.cluster import Lease, OutboxEvent, OutboxPosition
from corral.domain.errors import LeaseLost
from corral.nodes import registration
from corral.reconcile.leader import LeaderElector
from corral.store import cluster as cluster_store
from corral.store import nodes as node_store
from corral.store import outbox
from corral.store.database import Transaction
from corral.store.outbox import OutboxBounds
from corral.store.schema import NOW
from tests.simulation.cluster import run_cluster
from tests.simulation.plan import Fault, Kind, Plan

SEEDS = 8
pytestmark = pytest.mark.timeout(300)


def _plan(*faults: tuple[Kind, float, float, int], end_s: float = 150.0, quiet_s: float = 10.0, **more: Any) -> Plan:
    """Make a plan of faults as (kind, start, length, target)."""
    values = {"frontends": 2, "workers": 3, "watchers": 1, "feed_interval_s": 8.0, "outbox_retention_s": 86400.0} | more
    return Plan(
        **values,
        faults_end_s=end_s,
        quiet_s=quiet_s,
        faults=tuple(
            Fault(start_s=start_s, length_s=length_s, kind=kind, target=target, strength=0.5)
            for kind, start_s, length_s, target in faults
        ),
    )


def _assert_caught(server: str, plan: Plan, sentence: str, *, first_seed: int = 0) -> None:
    """Check that one of some seeds finds the bug. `first_seed` shows it today, so the test is short; the others are for
    later."""
    seen: Sequence[str] = ()
    for seed in range(first_seed, first_seed + SEEDS):
        seen = run_cluster(server, seed, plan).violations
        if any(sentence in each for each in seen):
            return
    raise AssertionError(f"nobody noticed; the last seed had {seen}")


def test_leader_that_trusts_leases_after_an_outage_is_caught(cluster_server: str, monkeypatch: pytest.MonkeyPatch):
    async def always(_tx: Transaction, _held: Lease, _seconds: float) -> bool:
        return True

    monkeypatch.setattr(cluster_store, "has_watched_for", always)
    away = [(Kind.STORE_AWAY, start_s, 60.0, 0) for start_s in (30.0, 110.0, 190.0)]
    _assert_caught(cluster_server, _plan(*away, end_s=270.0), "was declared lost", first_seed=4)


def test_leader_that_writes_without_a_fence_is_caught(cluster_server: str, monkeypatch: pytest.MonkeyPatch):
    async def unfenced(leader: LeaderElector, _tx: Transaction) -> Lease:
        if leader._held is None:
            raise LeaseLost("This frontend is not the leader.")
        return leader._held

    monkeypatch.setattr(LeaderElector, "fence", unfenced)
    stalls = [
        (Kind.FRONTEND_STALLED_STORE, start_s, 25.0, turn) for turn, start_s in enumerate((40.0, 90.0, 140.0, 190.0))
    ]
    plan = _plan(*stalls, end_s=230.0, outbox_retention_s=20.0)
    _assert_caught(cluster_server, plan, " wrote ", first_seed=1)


def test_lease_whose_term_does_not_grow_is_caught(cluster_server: str, monkeypatch: pytest.MonkeyPatch):
    same = text(str(cluster_store._ACQUIRE).replace("l.term + 1", "l.term"))
    monkeypatch.setattr(cluster_store, "_ACQUIRE", same)
    crashes = [(Kind.FRONTEND_CRASH, 30.0, 20.0, 0), (Kind.FRONTEND_CRASH, 80.0, 20.0, 1)]
    _assert_caught(cluster_server, _plan(*crashes), "came after term")


@pytest.mark.parametrize(
    ("reset", "sentence"),
    [
        ({"drained_at": None}, "drained of"),
        ({"slots_override": None}, "slots of"),
        ({"approved_at": NOW, "approved_by": "nobody"}, "and no admin has done that"),
    ],
    ids=["drain", "slots", "approval"],
)
def test_registration_that_changes_what_an_admin_set_is_caught(
    cluster_server: str, monkeypatch: pytest.MonkeyPatch, reset: dict[str, Any], sentence: str
):
    reported = registration._list_reported_values
    # A first registration writes its own values over these; the break shows in those after it.
    monkeypatch.setattr(registration, "_list_reported_values", lambda request: reported(request) | reset)
    crashes = [(Kind.WORKER_CRASH, start_s, 1.0, turn) for turn, start_s in enumerate(range(10, 140, 10))]
    _assert_caught(cluster_server, _plan(*crashes), sentence)


def test_registry_that_overlooks_silent_nodes_is_caught(cluster_server: str, monkeypatch: pytest.MonkeyPatch):
    async def expire_none(_tx: Transaction, _limit: int) -> list[tuple[str, str]]:
        return []

    monkeypatch.setattr(node_store, "expire_leases", expire_none)
    plan = _plan((Kind.WORKER_CRASH, 20.0, 150.0, 0), end_s=175.0)
    _assert_caught(cluster_server, plan, "is still called alive")


def test_worker_that_becomes_a_second_node_is_caught(cluster_server: str, monkeypatch: pytest.MonkeyPatch):
    insert, deleted = node_store.insert_node, text("DELETE FROM nodes WHERE name = :name")

    async def replacing(tx: Transaction, values: Any, lease_s: float) -> bool:
        await tx.execute(deleted, {"name": values["name"]})
        return await insert(tx, values, lease_s)

    monkeypatch.setattr(node_store, "insert_node", replacing)
    monkeypatch.setattr(registration, "is_matching_secret", lambda _secret, _hash: False)
    crashes = [(Kind.WORKER_CRASH, start_s, 1.0, turn) for turn, start_s in enumerate(range(10, 140, 10))]
    _assert_caught(cluster_server, _plan(*crashes), "became a second node")


def test_feed_that_drops_an_event_is_caught(cluster_server: str, monkeypatch: pytest.MonkeyPatch):
    read = outbox.read_with_bounds

    async def forgetful(tx: Transaction, after: OutboxPosition) -> tuple[list[OutboxEvent], OutboxBounds]:
        events, bounds = await read(tx, after)
        return [event for event in events if event.position.number % 7], bounds

    monkeypatch.setattr(outbox, "read_with_bounds", forgetful)
    _assert_caught(cluster_server, _plan(end_s=100.0), "missed")


def test_directory_that_follows_nothing_is_caught(cluster_server: str, monkeypatch: pytest.MonkeyPatch):
    async def asleep(_directory: CredentialDirectory, _event: OutboxEvent) -> None:
        return

    monkeypatch.setattr(CredentialDirectory, "follow", asleep)
    _assert_caught(cluster_server, _plan(end_s=100.0), "the directory of")
