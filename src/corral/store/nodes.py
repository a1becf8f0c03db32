"""Stores nodes: reads them whole, and writes one fact at a time.

The public keys that nodes have bus tokens for belong to one node each, and all of them are revoked with it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from sqlalchemy import Column, Select, and_, delete, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert

from corral.domain.errors import NotFound
from corral.domain.node import Hardware, Label, LabelSource, Liveness, Node, NodeId, NodeType
from corral.policy.labels import AUTOMATIC_KEYS, is_reserved, make_automatic_labels
from corral.policy.node_identity import fold_name
from corral.policy.status import JOINING_S
from corral.store.database import Transaction, as_uuid, is_storable
from corral.store.model_schema import replica_use
from corral.store.schema import NOW, node_labels, nodes, removed_nodes, replicas, reservations

HARDWARE_COLUMNS = tuple(field.name for field in fields(Hardware))
# The precedence of sources when several set the same label.
_PRECEDENCE = {LabelSource.AUTO: 0, LabelSource.WORKER: 1, LabelSource.ADMIN: 2}

_PUT_BUS_KEY = text("""
    INSERT INTO bus_keys (public_key, node_id, expires_at)
    VALUES (:public_key, CAST(:node_id AS uuid), corral_now() + make_interval(secs => :ttl_s))
    ON CONFLICT (public_key) DO UPDATE SET expires_at = GREATEST(bus_keys.expires_at, excluded.expires_at)
     WHERE bus_keys.node_id = excluded.node_id
    RETURNING public_key
""")
_FORGET_EXPIRED_BUS_KEYS = text("""
    DELETE FROM bus_keys WHERE node_id = CAST(:node_id AS uuid) AND public_key <> :public_key
       AND expires_at < corral_now()
""")
_LIST_BUS_KEYS = text("SELECT public_key FROM bus_keys WHERE node_id = CAST(:node_id AS uuid) ORDER BY public_key")


def _select_nodes() -> Select[Any]:
    labels = (
        select(
            func.coalesce(
                func.jsonb_agg(func.jsonb_build_array(node_labels.c.key, node_labels.c.value, node_labels.c.source)),
                text("'[]'::jsonb"),
            )
        )
        .where(node_labels.c.node_id == nodes.c.id)
        .scalar_subquery()
    )
    loaded = and_(replicas.c.node_id == nodes.c.id, replicas.c.state == "loaded")
    used = replicas.join(replica_use, replica_use.c.replica_id == replicas.c.id)
    return select(
        nodes,
        labels.label("label_rows"),
        *(
            _sum_reserved(column)
            for column in (reservations.c.vram_bytes, reservations.c.ram_bytes, reservations.c.disk_bytes)
        ),
        select(func.coalesce(func.sum(replicas.c.threads), 0))
        .where(replicas.c.node_id == nodes.c.id)
        .scalar_subquery()
        .label("held_threads"),
        select(func.coalesce(func.sum(replicas.c.vram_bytes), 0))
        .where(replicas.c.node_id == nodes.c.id, replicas.c.state.not_in(("staging", "loading")))
        .scalar_subquery()
        .label("held_vram"),
        select(func.count(replicas.c.id)).where(loaded).scalar_subquery().label("model_count"),
        select(func.coalesce(func.sum(replica_use.c.in_flight), 0))
        .select_from(used)
        .where(loaded, replica_use.c.expires_at > func.corral_now())
        .scalar_subquery()
        .label("in_flight_count"),
    )


def _sum_reserved(column: Column[int]) -> Any:
    total = select(func.coalesce(func.sum(column), 0)).where(reservations.c.node_id == nodes.c.id)
    return total.scalar_subquery().label(f"reserved_{column.name}")


def _to_node(row: Any) -> Node:
    values: Mapping[str, Any] = row._mapping  # noqa: SLF001 - SQLAlchemy's public name for a row as a mapping
    gpus = values["gpus"]
    labels, proposed = _sort_labels(values["label_rows"], values["approved_labels"])
    return Node(
        id=NodeId(values["id"]),
        name=values["name"],
        type=NodeType(values["node_type"]),
        credential_hash=values["credential_hash"],
        boot_id=values["boot_id"],
        version=values["version"],
        address=values["address"],
        http_address=values["http_address"],
        seen_address=values["seen_address"],
        bus_public_key=values["bus_public_key"],
        hardware=Hardware(
            **{name: values[name] for name in HARDWARE_COLUMNS if name != "gpus"},
            gpus=None if gpus is None else tuple(gpus),
        ),
        approved_at=values["approved_at"],
        approved_by=values["approved_by"],
        drained_at=values["drained_at"],
        drained_by=values["drained_by"],
        self_drained_at=values["self_drained_at"],
        liveness=Liveness(values["liveness"]),
        liveness_since=values["liveness_since"],
        bus_ok=values["bus_ok"],
        bus_since=values["bus_since"],
        bus_joined_at=values["bus_joined_at"],
        last_heartbeat_at=values["last_heartbeat_at"],
        slots_reported=values["slots_reported"],
        slots_override=values["slots_override"],
        budget_reported=values["budget_reported"],
        budget_override=values["budget_override"],
        max_runs=values["max_runs"],
        run_kinds=None if values["run_kinds"] is None else frozenset(values["run_kinds"]),
        backends_at=values["backends_at"],
        created_at=values["created_at"],
        updated_at=values["updated_at"],
        labels=labels,
        approved_labels=values["approved_labels"],
        proposed_labels=proposed,
        holdings_at=values["holdings_at"],
        reserved_vram=int(values["reserved_vram_bytes"]),
        reserved_ram=int(values["reserved_ram_bytes"]),
        reserved_disk=int(values["reserved_disk_bytes"]),
        held_threads=int(values["held_threads"]),
        held_vram=int(values["held_vram"]),
        model_count=values["model_count"],
        in_flight_count=int(values["in_flight_count"]),
    )


def _sort_labels(
    rows: Sequence[Sequence[str]], approved: Mapping[str, str]
) -> tuple[tuple[Label, ...], dict[str, str]]:
    """Return the labels that count, and those of the worker that wait for an admin."""
    counting: list[Label] = []
    proposed: dict[str, str] = {}
    for key, value, source in rows:
        label = Label(key=key, value=value, source=LabelSource(source))
        if label.source is LabelSource.WORKER and is_reserved(key):
            continue
        if label.source is LabelSource.ADMIN and key in AUTOMATIC_KEYS:
            continue
        if label.source is LabelSource.WORKER and approved.get(key) != value:
            proposed[key] = value
            continue
        counting.append(label)
    counting.sort(key=lambda label: _PRECEDENCE[label.source])
    by_key = {label.key: label for label in counting}
    return tuple(by_key[key] for key in sorted(by_key)), dict(sorted(proposed.items()))


async def list_nodes(tx: Transaction, *, only: Collection[str] | None = None, takes_runs: bool = False) -> list[Node]:
    """Return all nodes by name, or those with these ids; an empty list of ids means none. With `takes_runs`, only nodes
    that take runs."""
    statement = _select_nodes().order_by(nodes.c.name)
    if takes_runs:
        # A JSON null is not an array either.
        is_announced = and_(func.jsonb_typeof(nodes.c.run_kinds) == "array", nodes.c.run_kinds != text("'[]'::jsonb"))
        statement = statement.where(or_(nodes.c.max_runs > 0, is_announced))
    if only is not None:
        known = [node_id for node_id in map(as_uuid, only) if node_id is not None]
        statement = statement.where(nodes.c.id.in_(known))
    return [_to_node(row) for row in await tx.execute(statement)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading:
    """Readings of a node that change while it works, as read from PostgreSQL.

    Two equal readings show no change.
    """

    id: NodeId
    # The node may take part, and sends heartbeats.
    is_present: bool
    total_vram: int | None
    available_vram: int | None
    total_ram: int | None
    available_ram: int | None
    available_disk: int | None
    reserved_vram: int
    in_flight: int
    models: int
    # Further columns that its status and its budget depend on.
    facts: tuple[Any, ...]


_READINGS = text("""
    SELECT n.id, n.approved_at IS NOT NULL AND n.liveness = 'alive' AS is_there,
           CASE WHEN n.node_type = 'backend' THEN n.total_vram END, n.available_vram, n.total_ram, n.available_ram,
           n.available_disk,
           coalesce(s.vram, 0) AS reserved, coalesce(u.in_flight, 0) AS in_flight, coalesce(m.models, 0) AS models,
           n.name, n.approved_at, n.drained_at, n.drained_by, n.self_drained_at, n.liveness, n.bus_ok,
           n.budget_reported, n.budget_override,
           n.bus_joined_at IS NULL AND n.last_heartbeat_at <= n.approved_at + make_interval(secs => :joining_s)
      FROM nodes n
      LEFT JOIN (SELECT node_id, sum(vram_bytes) AS vram FROM reservations GROUP BY node_id) s ON s.node_id = n.id
      LEFT JOIN (SELECT node_id, count(DISTINCT model) AS models
                   FROM replicas WHERE state = 'loaded' GROUP BY node_id) m ON m.node_id = n.id
      LEFT JOIN (SELECT r.node_id, sum(l.in_flight) AS in_flight
                   FROM replica_use l JOIN replicas r ON r.id = l.replica_id AND r.state = 'loaded'
                  WHERE l.expires_at > corral_now() GROUP BY r.node_id) u ON u.node_id = n.id
""")


async def list_readings(tx: Transaction) -> list[NodeReading]:
    """Return the readings of all nodes, at a fifth of the cost of reading them whole."""
    return [_to_reading(row) for row in await tx.execute(_READINGS, {"joining_s": JOINING_S})]


def _to_reading(row: Any) -> NodeReading:
    return NodeReading(
        id=NodeId(str(row[0])),
        is_present=row[1],
        total_vram=row[2],
        available_vram=row[3],
        total_ram=row[4],
        available_ram=row[5],
        available_disk=row[6],
        reserved_vram=int(row[7]),
        in_flight=int(row[8]),
        models=int(row[9]),
        facts=tuple(row[10:]),
    )


async def list_replica_nodes(tx: Transaction) -> dict[str, NodeId]:
    """Return the node of every replica, whatever its state, by the replica's id."""
    return {row.id: NodeId(row.node_id) for row in await tx.execute(select(replicas.c.id, replicas.c.node_id))}


async def list_by_reference(tx: Transaction, references: Collection[str]) -> list[Node]:
    """Return the nodes that any of these references could mean, as an id or as a name; by name."""
    ids = [node_id for node_id in map(as_uuid, references) if node_id is not None]
    names = [reference for reference in references if is_storable(reference)]
    statement = _select_nodes().where(nodes.c.id.in_(ids) | nodes.c.name.in_(names)).order_by(nodes.c.name)
    return [_to_node(row) for row in await tx.execute(statement)]


async def find_node(tx: Transaction, reference: str) -> Node | None:
    """Return the node with this id, or name. A name that looks like an id is still found by name."""
    node_id = as_uuid(reference)
    by_id = None if node_id is None else nodes.c.id == node_id
    by_name = nodes.c.name == reference if is_storable(reference) else None
    for where in (by_id, by_name):
        if where is not None:
            row = (await tx.execute(_select_nodes().where(where))).one_or_none()
            if row is not None:
                return _to_node(row)
    return None


async def find_node_by_name(tx: Transaction, name: str) -> Node | None:
    """Return the node with this name, and lock the name: two registrations of one name, or of similar names, wait
    for each other, also while there is no row to lock yet."""
    statement = text("SELECT pg_advisory_xact_lock(hashtextextended('node ' || :name, 0))")
    await tx.execute(statement, {"name": fold_name(name)})
    found = await tx.execute(select(nodes.c.id).where(nodes.c.name == name).with_for_update())
    node_id = found.scalar_one_or_none()
    return None if node_id is None else await find_node(tx, node_id)


async def find_similar_name(tx: Transaction, name: str) -> str | None:
    """Return the name of another node that people would take for this one."""
    folded = fold_name(name)
    rows = await tx.execute(select(nodes.c.name).where(nodes.c.name != name).order_by(nodes.c.name))
    return next((row.name for row in rows if fold_name(row.name) == folded), None)


async def get_node(tx: Transaction, reference: str) -> Node:
    node = await find_node(tx, reference)
    if node is None:
        raise await _make_unknown_node_error(tx, reference)
    return node


async def _make_unknown_node_error(tx: Transaction, reference: str) -> NotFound:
    known = [row.name for row in await tx.execute(select(nodes.c.name).limit(5000))]
    near = get_close_matches(reference[:80], known, n=3, cutoff=0.6)
    return NotFound(
        f"There is no node {reference[:80]!r}.",
        hint=f"Did you mean {' or '.join(near)}?" if near else "`corral nodes list` shows the nodes.",
        code="node_not_found",
    )


async def lock_node(tx: Transaction, reference: str) -> Node:
    """Read a node and keep it from changing until the transaction ends."""
    node = await get_node(tx, reference)
    locked = await tx.execute(select(nodes.c.id).where(nodes.c.id == node.id).with_for_update())
    if locked.one_or_none() is None:
        raise NotFound(f"Node {node.name} has just been removed.", code="node_not_found")
    return await get_node(tx, node.id)


async def lock_nodes(tx: Transaction, node_ids: Collection[NodeId]) -> dict[NodeId, Node]:
    """Lock and return the nodes that exist until the transaction ends; work can be assigned to them meanwhile."""
    selected = select(nodes.c.id).where(nodes.c.id.in_(list(node_ids))).order_by(nodes.c.id)
    await tx.execute(selected.with_for_update(key_share=True))
    return {node.id: node for node in await list_nodes(tx, only=node_ids)}


async def insert_node(tx: Transaction, values: Mapping[str, Any], lease_s: float) -> bool:
    """Insert a node. False if the name is taken."""
    statement = insert(nodes).values(
        **values, liveness=Liveness.ALIVE, last_heartbeat_at=NOW, lease_expires_at=_make_lease_end(lease_s)
    )
    made = await tx.execute(statement.on_conflict_do_nothing(index_elements=["name"]).returning(nodes.c.id))
    return made.one_or_none() is not None


def _make_lease_end(lease_s: float) -> Any:
    return func.corral_now() + func.make_interval(0, 0, 0, 0, 0, 0, lease_s)


async def update_node(tx: Transaction, node_id: NodeId, values: Mapping[str, Any]) -> None:
    await tx.execute(update(nodes).where(nodes.c.id == node_id).values(**values, updated_at=NOW))


async def renew_lease(tx: Transaction, node_id: NodeId, lease_s: float) -> None:
    await tx.execute(
        update(nodes)
        .where(nodes.c.id == node_id)
        .values(last_heartbeat_at=NOW, lease_expires_at=_make_lease_end(lease_s))
    )


async def set_liveness(tx: Transaction, node_id: NodeId, liveness: Liveness) -> None:
    await tx.execute(
        update(nodes)
        .where(nodes.c.id == node_id, nodes.c.liveness != liveness)
        .values(liveness=liveness, liveness_since=NOW, updated_at=NOW)
    )


async def set_bus(tx: Transaction, node_id: NodeId, *, is_on_bus: bool | None) -> bool:
    """Write whether the node is on the bus; return True if that has changed."""
    changed = await tx.execute(
        update(nodes)
        .where(nodes.c.id == node_id, nodes.c.bus_ok.is_distinct_from(is_on_bus))
        .values(
            bus_ok=is_on_bus,
            bus_since=NOW,
            bus_joined_at=func.coalesce(nodes.c.bus_joined_at, NOW) if is_on_bus else nodes.c.bus_joined_at,
            updated_at=NOW,
        )
        .returning(nodes.c.id)
    )
    return changed.one_or_none() is not None


async def delete_node(tx: Transaction, node_id: NodeId) -> None:
    """Remove the node and remember that it was removed."""
    await tx.execute(delete(nodes).where(nodes.c.id == node_id))
    await tx.execute(insert(removed_nodes).values(id=node_id).on_conflict_do_nothing())


async def is_removed(tx: Transaction, node_id: str) -> bool:
    """Return whether an admin has removed the node of this id."""
    known = as_uuid(node_id)
    found = select(removed_nodes.c.id).where(removed_nodes.c.id == known)
    return known is not None and (await tx.execute(found)).one_or_none() is not None


async def prune_removed(tx: Transaction, age_s: float) -> int:
    """Forget removals that are older than this."""
    oldest = func.corral_now() - func.make_interval(0, 0, 0, 0, 0, 0, age_s)
    return (await tx.execute(delete(removed_nodes).where(removed_nodes.c.removed_at < oldest))).rowcount


async def replace_labels(tx: Transaction, node_id: NodeId, source: LabelSource, labels: Mapping[str, str]) -> None:
    """Make the labels of one source exactly these; those of other sources stay."""
    await tx.execute(delete(node_labels).where(node_labels.c.node_id == node_id, node_labels.c.source == source))
    if labels:
        await tx.execute(
            insert(node_labels),
            [{"node_id": node_id, "key": key, "source": source, "value": value} for key, value in labels.items()],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatChange:
    """Says what a batch of heartbeats, written to PostgreSQL, changed about one node beyond its numbers."""

    node_id: NodeId
    name: str
    came_back: bool
    bus_changed: bool
    hardware_changed: bool


# One statement for any number of nodes. Rows are locked in the order of their ids, so that two frontends that
# flush at once wait for each other instead of dead-locking. Absent fields keep the last value; of a pending node only
# the time moves; a node that left stays left; heartbeats of an older process of a node are ignored.
_HEARTBEATS = text("""
    WITH beat AS (
        SELECT * FROM jsonb_to_recordset(CAST(:batch AS jsonb)) AS beat(
            node_id uuid, boot_id text, bus_ok boolean,
            total_vram bigint, available_vram bigint, total_ram bigint, available_ram bigint,
            total_disk bigint, available_disk bigint, gpu_vendor text, gpus jsonb)
    ), old AS (
        SELECT n.id, n.liveness, n.bus_ok, n.total_vram, n.gpu_vendor, n.approved_at IS NOT NULL AS is_approved
          FROM nodes n JOIN beat ON beat.node_id = n.id
         WHERE n.liveness <> 'left' AND (beat.boot_id IS NULL OR beat.boot_id = n.boot_id)
         ORDER BY n.id
           FOR UPDATE OF n
    )
    UPDATE nodes n SET
        last_heartbeat_at = corral_now(),
        lease_expires_at = corral_now() + make_interval(secs => :lease_s),
        liveness = 'alive',
        liveness_since = CASE WHEN old.liveness = 'alive' THEN n.liveness_since ELSE corral_now() END,
        bus_ok = CASE WHEN old.is_approved THEN COALESCE(beat.bus_ok, n.bus_ok) ELSE n.bus_ok END,
        bus_since = CASE WHEN old.is_approved AND beat.bus_ok IS DISTINCT FROM n.bus_ok AND beat.bus_ok IS NOT NULL
                         THEN corral_now() ELSE n.bus_since END,
        bus_joined_at = CASE WHEN old.is_approved AND beat.bus_ok
                             THEN COALESCE(n.bus_joined_at, corral_now()) ELSE n.bus_joined_at END,
        total_vram = CASE WHEN old.is_approved THEN COALESCE(beat.total_vram, n.total_vram) ELSE n.total_vram END,
        available_vram = CASE WHEN old.is_approved
                              THEN COALESCE(beat.available_vram, n.available_vram) ELSE n.available_vram END,
        total_ram = CASE WHEN old.is_approved THEN COALESCE(beat.total_ram, n.total_ram) ELSE n.total_ram END,
        available_ram = CASE WHEN old.is_approved
                             THEN COALESCE(beat.available_ram, n.available_ram) ELSE n.available_ram END,
        total_disk = CASE WHEN old.is_approved THEN COALESCE(beat.total_disk, n.total_disk) ELSE n.total_disk END,
        available_disk = CASE WHEN old.is_approved
                              THEN COALESCE(beat.available_disk, n.available_disk) ELSE n.available_disk END,
        gpu_vendor = CASE WHEN old.is_approved THEN COALESCE(beat.gpu_vendor, n.gpu_vendor) ELSE n.gpu_vendor END,
        gpus = CASE WHEN old.is_approved THEN COALESCE(beat.gpus, n.gpus) ELSE n.gpus END
      FROM beat JOIN old ON old.id = beat.node_id
     WHERE n.id = old.id
    RETURNING n.id, n.name,
              old.liveness <> 'alive' AS came_back,
              old.bus_ok IS DISTINCT FROM n.bus_ok AS bus_changed,
              (old.total_vram, old.gpu_vendor) IS DISTINCT FROM (n.total_vram, n.gpu_vendor) AS hardware_changed
""")


async def apply_heartbeats(
    tx: Transaction, batch: Collection[Mapping[str, Any]], lease_s: float
) -> list[HeartbeatChange]:
    """Write a batch of heartbeats; return the nodes for which more than numbers changed."""
    rows = await tx.execute(_HEARTBEATS, {"batch": json.dumps(list(batch)), "lease_s": lease_s})
    return [
        HeartbeatChange(
            node_id=NodeId(str(row.id)),
            name=row.name,
            came_back=row.came_back,
            bus_changed=row.bus_changed,
            hardware_changed=row.hardware_changed,
        )
        for row in rows
        if row.came_back or row.bus_changed or row.hardware_changed
    ]


_EXPIRE = text("""
    UPDATE nodes
       SET liveness = 'lost', liveness_since = corral_now(), updated_at = corral_now()
     WHERE id IN (
        SELECT id FROM nodes
         WHERE liveness = 'alive' AND lease_expires_at < corral_now()
         ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED)
    RETURNING id, name
""")


async def expire_leases(tx: Transaction, limit: int) -> list[tuple[NodeId, str]]:
    """Mark the nodes whose lease has run out as lost."""
    return [(NodeId(str(row.id)), row.name) for row in await tx.execute(_EXPIRE, {"limit": limit})]


async def refresh_automatic_labels(tx: Transaction, node: Node) -> None:
    """Update the labels that are derived from the node itself."""
    labels = make_automatic_labels(
        name=node.name,
        slots=node.slots,
        gpu_vendor=node.hardware.gpu_vendor,
        total_vram=node.hardware.total_vram,
    )
    await replace_labels(tx, node.id, LabelSource.AUTO, labels)


async def put_bus_key(tx: Transaction, node_id: NodeId, public_key: str, ttl_s: float) -> bool:
    """Record for `ttl_s` that the node has a token for this key. False if the key is another node's.

    Keys of the node whose tokens have all run out are forgotten, except for this one.
    """
    values = {"node_id": node_id, "public_key": public_key}
    if (await tx.execute(_PUT_BUS_KEY, values | {"ttl_s": ttl_s})).one_or_none() is None:
        return False
    await tx.execute(_FORGET_EXPIRED_BUS_KEYS, values)
    return True


async def list_bus_keys(tx: Transaction, node_id: NodeId) -> list[str]:
    return [row.public_key for row in await tx.execute(_LIST_BUS_KEYS, {"node_id": node_id})]
