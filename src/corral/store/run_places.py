"""Reads who has and who waits for the places that nodes have for runs.

Choices of nodes wait for each other in the whole cluster (`lock_places`), so that a node never gets more than it takes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import TextClause, text

from corral.domain.node import NodeId
from corral.domain.run import Run, RunId, RunKind, RunNeeds, RunPlaceKind
from corral.store.database import Transaction

# A lease of 30 s that ends so soon was not renewed for three times: its frontend is probably gone.
LEASE_DOUBTFUL_S = 15.0


def _make_text(statement: str) -> TextClause:
    """Return a statement in which `PLACES_OF(run r)` or `PLACES_OF(operation o)` is the kind of places that a row's run
    needs."""
    for what, prefix in (("run", ""), ("operation", "run_")):
        for table in ("r", "own", "o"):
            place_kind = _make_place_kind(f"{table}.kind", prefix)
            statement = statement.replace(f"PLACES_OF({what} {table})", place_kind)
    return text(statement)


def _make_place_kind(column: str, prefix: str = "") -> str:
    whens = " ".join(
        f"WHEN '{prefix}{kind}' THEN '{kind.place_kind}'"
        for kind in RunKind
        if kind.place_kind is not RunPlaceKind.TURNS
    )
    return f"CASE {column} {whens} ELSE '{RunPlaceKind.TURNS}' END"


_LOCK_PLACES = text("SELECT pg_advisory_xact_lock(hashtextextended('run places', 0))")
# A cancelled run holds its place until its worker has confirmed the stop.
_COUNT_ACTIVE = _make_text("""
    SELECT t.node::text AS node, count(*) AS number
      FROM operation_targets t
      JOIN operations o ON o.id = t.operation_id
     WHERE (t.state IN ('queued', 'working', 'unconfirmed') OR t.stop_wanted) AND o.kind LIKE 'run\\_%'
       AND PLACES_OF(operation o) = :places
     GROUP BY t.node
""")
# How many runs with the same selector and the same kind of places wait, before and behind this one.
_READ_QUEUE = _make_text("""
    SELECT count(*) FILTER (WHERE (r.created_at, r.id) < (own.created_at, own.id)) AS ahead,
           count(*) FILTER (WHERE (r.created_at, r.id) > (own.created_at, own.id)) AS behind,
           (SELECT last.node::text FROM runs last
             WHERE last.session_key = CAST(:session_key AS text) AND last.node IS NOT NULL AND last.session_key <> ''
             ORDER BY last.created_at DESC LIMIT 1) AS last_node
      FROM runs own
      LEFT JOIN (runs r JOIN operations o
                     ON o.id = r.id AND o.after_id IS NULL
                    AND (o.lease_until IS NULL OR o.lease_until > corral_now() + make_interval(secs => :doubtful_s)))
        ON r.state = 'queued' AND r.selector = own.selector
       AND PLACES_OF(run r) = PLACES_OF(run own)
     WHERE own.id = CAST(:id AS uuid)
     GROUP BY own.id
""")
# The same for a run that is not inserted yet: all that wait are ahead of it.
_READ_PLACES = _make_text("""
    SELECT (SELECT jsonb_object_agg(a.node, a.number) FROM (
               SELECT t.node::text AS node, count(*) AS number
                 FROM operation_targets t
                 JOIN operations o ON o.id = t.operation_id
                WHERE (t.state IN ('queued', 'working', 'unconfirmed') OR t.stop_wanted) AND o.kind LIKE 'run\\_%'
                  AND PLACES_OF(operation o) = :places
                GROUP BY t.node) a) AS active,
           (SELECT count(*) FROM runs r JOIN operations o ON o.id = r.id AND o.after_id IS NULL
               AND (o.lease_until IS NULL OR o.lease_until > corral_now() + make_interval(secs => :doubtful_s))
             WHERE r.state = 'queued' AND r.selector = CAST(:selector AS jsonb)
               AND PLACES_OF(run r) = :places) AS ahead,
           (SELECT last.node::text FROM runs last
             WHERE last.session_key = CAST(:session_key AS text) AND last.node IS NOT NULL AND last.session_key <> ''
             ORDER BY last.created_at DESC LIMIT 1) AS last_node
""")
_TRY_LOCK_PLACES = text("""
    SELECT pg_try_advisory_xact_lock(hashtextextended('run places', 0)) AS is_locked,
           (SELECT count(*) FROM runs WHERE owner = :owner AND finished_at IS NULL) AS open_runs
""")
_LAST_NODE = text("""
    SELECT node::text AS node FROM runs
     WHERE session_key = :session_key AND node IS NOT NULL AND session_key <> ''
     ORDER BY created_at DESC LIMIT 1
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePosition:
    """How many runs wait before and behind a run, as read from PostgreSQL, and which node had its session last."""

    ahead: int
    behind: int
    last_node: NodeId | None


async def lock_places(tx: Transaction) -> None:
    """Make choices of nodes for runs wait for each other, in the whole cluster."""
    await tx.execute(_LOCK_PLACES)


async def try_lock_places(tx: Transaction, owner: str) -> tuple[bool, int]:
    """Take the lock of `lock_places` if no other transaction holds it. Return whether it was taken, and how many runs
    of an owner have not ended."""
    row = (await tx.execute(_TRY_LOCK_PLACES, {"owner": owner})).one()
    return row.is_locked, row.open_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceUse:
    """How the places for runs are used, as read from PostgreSQL for a run that is about to be inserted."""

    # How many runs in such places each node has.
    active: Mapping[NodeId, int]
    # How many runs with the same selector wait for such a place.
    ahead: int
    # The node that had the last run of the session.
    last_node: NodeId | None


async def read_place_use(
    tx: Transaction, places: RunPlaceKind, selector: Mapping[str, str], session_key: str
) -> PlaceUse:
    """Return how the places for runs are used. The caller holds the lock of `lock_places`."""
    row = (
        await tx.execute(
            _READ_PLACES,
            {
                "places": places,
                "selector": json.dumps(dict(selector)),
                "session_key": session_key,
                "doubtful_s": LEASE_DOUBTFUL_S,
            },
        )
    ).one()
    active = row.active if isinstance(row.active, dict) else json.loads(row.active or "{}")
    return PlaceUse(
        active={NodeId(node): number for node, number in active.items()},
        ahead=row.ahead,
        last_node=None if row.last_node is None else NodeId(row.last_node),
    )


async def count_active(tx: Transaction, places: RunPlaceKind = RunPlaceKind.TURNS) -> dict[NodeId, int]:
    """Return how many runs in such places each node has, those included that are being stopped."""
    return {NodeId(row.node): row.number for row in await tx.execute(_COUNT_ACTIVE, {"places": places})}


_READ_NEEDS = text("SELECT request -> 'needs' AS needs FROM runs WHERE id = CAST(:id AS uuid)")


async def read_needs(tx: Transaction, run_id: RunId) -> RunNeeds:
    """Return what the program of a run takes of its node."""
    needs = (await tx.execute(_READ_NEEDS, {"id": run_id})).scalar_one_or_none() or {}
    return _to_needs(needs)


def _to_needs(needs: Mapping[str, Any]) -> RunNeeds:
    return RunNeeds(
        disk_bytes=needs.get("disk_bytes"), ram_bytes=needs.get("ram_bytes"), vram_bytes=needs.get("vram_bytes")
    )


_ACTIVE_NEEDS = _make_text("""
    SELECT t.node::text AS node, r.request -> 'needs' AS needs
      FROM operation_targets t
      JOIN operations o ON o.id = t.operation_id
      JOIN runs r ON r.id = o.id
     WHERE (t.state IN ('queued', 'working', 'unconfirmed') OR t.stop_wanted)
       AND o.kind LIKE 'run\\_%' AND PLACES_OF(operation o) = :places
""")


async def list_active_needs(tx: Transaction) -> dict[NodeId, RunNeeds]:
    """Return what the programs that nodes execute now take of them; a node executes one at a time."""
    rows = await tx.execute(_ACTIVE_NEEDS, {"places": RunPlaceKind.PROGRAMS})
    return {NodeId(row.node): _to_needs(row.needs or {}) for row in rows}


_COUNT_WAITING_PARENTS = text("""
    SELECT parent.node::text AS node, count(*) AS number
      FROM runs parent
     WHERE parent.state IN ('leased', 'running', 'waiting_approval')
       AND (parent.id = CAST(:asking AS uuid)
            OR EXISTS (SELECT 1 FROM runs child WHERE child.parent_id = parent.id AND child.finished_at IS NULL))
     GROUP BY parent.node
""")


async def count_waiting_parents(tx: Transaction, asking: RunId) -> dict[NodeId, int]:
    """Return how many runs each node has that wait for one that they have started, the asking one included."""
    rows = await tx.execute(_COUNT_WAITING_PARENTS, {"asking": asking})
    return {NodeId(row.node): row.number for row in rows if row.node is not None}


async def read_position(tx: Transaction, run: Run) -> QueuePosition:
    """Return the position of a run among those that wait for the same places. One whose frontend seems to be lost does
    not count: the places are not kept free for it."""
    parameters = {"id": run.id, "session_key": run.session_key, "doubtful_s": LEASE_DOUBTFUL_S}
    row = (await tx.execute(_READ_QUEUE, parameters)).one()
    return QueuePosition(
        ahead=row.ahead, behind=row.behind, last_node=None if row.last_node is None else NodeId(row.last_node)
    )


async def find_last_node(tx: Transaction, session_key: str) -> NodeId | None:
    """Return the node that had the last run of a session."""
    row = (await tx.execute(_LAST_NODE, {"session_key": session_key})).one_or_none()
    return None if row is None else NodeId(row.node)


_WAITING_SELECTORS = _make_text("""
    SELECT DISTINCT r.selector FROM runs r JOIN operations o ON o.id = r.id
     WHERE r.state = 'queued' AND o.after_id IS NULL AND PLACES_OF(run r) = :places
     LIMIT :limit
""")
# Different selectors of runs that wait; more are a script out of control, and their runs look by themselves.
SELECTORS_MAX = 200


async def list_waiting_selectors(tx: Transaction, places: RunPlaceKind) -> list[Mapping[str, str]]:
    """Return the selectors of runs that wait for such a place, each once."""
    rows = await tx.execute(_WAITING_SELECTORS, {"places": places, "limit": SELECTORS_MAX})
    return [row.selector for row in rows]


# One selector after the other: runs that no node could take must not use up the wakes of those behind them. Always the
# front of the queue, whether it is woken already or not: further wakes must not go deeper and deeper into the queue,
# whose looks would keep the front waiting. One that a frontend holds is about to look by itself.
_WAKE_WAITING = _make_text("""
    UPDATE operations SET due_at = corral_now()
     WHERE id IN (SELECT o.id FROM operations o
                   WHERE (o.due_at IS NULL OR o.due_at > corral_now()) AND o.state = 'running' AND o.owner IS NULL
                     AND o.id IN (SELECT front.id
                                    FROM jsonb_to_recordset(CAST(:selectors AS jsonb)) AS w(selector jsonb, number int)
                                    CROSS JOIN LATERAL (
                                        SELECT r.id FROM runs r JOIN operations o ON o.id = r.id
                                         WHERE r.state = 'queued' AND o.after_id IS NULL
                                           AND r.selector = w.selector AND PLACES_OF(run r) = :places
                                         ORDER BY r.created_at, r.id
                                         LIMIT w.number) front)
                     FOR UPDATE OF o SKIP LOCKED)
""")


async def wake_waiting(
    tx: Transaction, selectors: Sequence[tuple[Mapping[str, str], int]], places: RunPlaceKind
) -> None:
    """Make runs with these selectors that wait longest for such a place due now: of each selector so many."""
    if selectors:
        batch = json.dumps([{"selector": dict(selector), "number": number} for selector, number in selectors])
        await tx.execute(_WAKE_WAITING, {"selectors": batch, "places": places})
