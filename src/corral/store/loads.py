"""Loads as rows: a replica and what is set aside for it, from the choice of a node until it is published or gone.

Guarantees: a load is published only with the run hash that its model has at that moment; with any other it is on its
way out at once. What an operation has begun on a node is found by these two, so news that comes twice changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert

from corral.domain.errors import Conflict
from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.store.database import Transaction
from corral.store.replicas import RETURNING, release, tell_changed, tell_removed, tell_rows
from corral.store.schema import replicas, reservations


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """A replica that is to be loaded, with what is set aside for it."""

    replica: Replica
    vram_bytes: int = 0
    ram_bytes: int = 0
    disk_bytes: int = 0


async def insert_coming(tx: Transaction, coming: Collection[Coming], ids: Iterable[str]) -> None:
    """Rows `staging` and their reservations. `try_again` if somebody has the place by now."""
    for item, reservation_id in zip(coming, ids, strict=False):
        replica = item.replica
        made = await tx.execute(
            insert(replicas)
            .values(
                id=replica.id,
                node_id=replica.node_id,
                model=replica.model,
                replica_index=replica.index,
                state=ReplicaState.STAGING,
                revision=replica.revision,
                backend=replica.backend,
                operation_id=replica.operation_id,
                vram_bytes=replica.vram_bytes,
                ram_bytes=replica.ram_bytes,
                threads=replica.threads,
            )
            .on_conflict_do_nothing(index_elements=["node_id", "model", "replica_index"])
            .returning(replicas.c.id)
        )
        if made.one_or_none() is None:
            raise Conflict("Somebody else has just taken this place; try again.", code="try_again")
        if item.vram_bytes or item.ram_bytes or item.disk_bytes:
            await tx.execute(
                insert(reservations).values(
                    id=reservation_id,
                    node_id=replica.node_id,
                    holder=replica.id,
                    vram_bytes=item.vram_bytes,
                    ram_bytes=item.ram_bytes,
                    disk_bytes=item.disk_bytes,
                )
            )
    await tell_changed(tx, [replace(item.replica, state=ReplicaState.STAGING) for item in coming])


_LOADS = """
    WITH news AS (
        SELECT * FROM jsonb_to_recordset(CAST(:batch AS jsonb)) AS news(
            operation_id uuid, node_id uuid, address text, engine_key text, backend text, version text,
            vram_bytes bigint, ram_bytes bigint, threads integer)
    ), mine AS (
        SELECT r.id FROM replicas r JOIN news ON news.operation_id = r.operation_id AND news.node_id = r.node_id
         WHERE r.state IN ('staging', 'loading')
         ORDER BY r.node_id, r.model, r.replica_index
           FOR UPDATE OF r
    )
"""
_MARK_LOADING = text(f"""
    {_LOADS}
    UPDATE replicas r SET state = 'loading', updated_at = corral_now()
      FROM mine WHERE r.id = mine.id AND r.state = 'staging'
    {RETURNING}
""")  # noqa: S608 - no value in it
# Only what the model asks for now is published; anything else has just been made for nobody.
_MARK_LOADED = text(f"""
    {_LOADS}
    UPDATE replicas r SET
        state = CASE WHEN m.run_hash = r.revision THEN 'loaded' ELSE 'unloading' END,
        stop_reason = CASE WHEN m.name IS NULL THEN 'The model was removed while it was loaded.'
                           WHEN m.run_hash <> r.revision THEN 'The model was edited while it was loaded.'
                           ELSE '' END,
        stop_due_at = CASE WHEN m.run_hash = r.revision THEN NULL ELSE corral_now() END,
        address = news.address, engine_key = news.engine_key,
        backend = COALESCE(NULLIF(news.backend, ''), r.backend), version = news.version,
        vram_bytes = COALESCE(news.vram_bytes, r.vram_bytes), ram_bytes = COALESCE(news.ram_bytes, r.ram_bytes),
        threads = COALESCE(news.threads, r.threads),
        load_s = EXTRACT(EPOCH FROM corral_now() - r.created_at),
        loaded_at = corral_now(), confirmed_at = corral_now(), misses = 0, updated_at = corral_now()
      FROM mine
      JOIN replicas own ON own.id = mine.id
      JOIN news ON news.operation_id = own.operation_id AND news.node_id = own.node_id
      LEFT JOIN models m ON m.name = own.model
     WHERE r.id = mine.id
    {RETURNING}
""")  # noqa: S608 - no value in it
# As `policy/models/estimate.py` reads it: by the kind of node, the most that was seen of one run hash.
_OBSERVED = text(f"""
    {_LOADS}, seen AS (
        SELECT own.model, own.revision, news.vram_bytes, news.ram_bytes,
               CASE WHEN n.total_vram > 0 THEN 'gpu' ELSE 'cpu' END AS kind
          FROM news
          JOIN replicas own ON own.operation_id = news.operation_id AND own.node_id = news.node_id
          JOIN nodes n ON n.id = own.node_id
         WHERE own.state IN ('staging', 'loading') AND (news.vram_bytes IS NOT NULL OR news.ram_bytes IS NOT NULL)
    ), kept AS (
        SELECT m.name, CASE WHEN m.observed ->> 'run_hash' = m.run_hash THEN m.observed
                            ELSE jsonb_build_object('run_hash', m.run_hash) END AS document
          FROM models m WHERE m.name IN (SELECT model FROM seen)
         ORDER BY m.name FOR NO KEY UPDATE
    )
    UPDATE models m SET observed = kept.document || jsonb_build_object(seen.kind, jsonb_build_object(
            'vram_bytes', GREATEST((kept.document -> seen.kind ->> 'vram_bytes')::bigint, seen.vram_bytes),
            'ram_bytes', GREATEST((kept.document -> seen.kind ->> 'ram_bytes')::bigint, seen.ram_bytes)))
      FROM kept JOIN seen ON seen.model = kept.name
     WHERE m.name = kept.name AND m.run_hash = seen.revision
""")  # noqa: S608 - no value in it
_DROP_FAILED = text(f"""
    {_LOADS}
    DELETE FROM replicas r USING mine WHERE r.id = mine.id
    {RETURNING}
""")  # noqa: S608 - no value in it
_ABANDON = text(f"""
    {_LOADS}
    UPDATE replicas r SET state = 'unloading', stop_reason = :reason, stop_due_at = corral_now(), stop_attempts = 0,
           stop_problem = '', updated_at = corral_now()
      FROM mine WHERE r.id = mine.id
    {RETURNING}
""")  # noqa: S608 - no value in it


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadNews:
    """What one load has come to; `operation_id` and `node_id` say which."""

    operation_id: str
    node_id: NodeId
    address: str = ""
    engine_key: str = ""
    backend: str = ""
    version: str = ""
    vram_bytes: int | None = None
    ram_bytes: int | None = None
    threads: int | None = None


async def mark_loading(tx: Transaction, news: Collection[LoadNews]) -> None:
    """Their files are there and their engines start."""
    if news:
        await tell_rows(tx, await tx.execute(_MARK_LOADING, _loads(news)))


async def mark_loaded(tx: Transaction, news: Collection[LoadNews]) -> None:
    """Publish them, with what they were seen to take; what their model no longer asks for is stopped instead."""
    if not news:
        return
    # Models before replicas, as everybody does it who edits one.
    await tx.execute(_OBSERVED, _loads(news))
    rows = list(await tx.execute(_MARK_LOADED, _loads(news)))
    await release(tx, [row.id for row in rows])
    await tell_rows(tx, rows)


async def drop_failed(tx: Transaction, news: Collection[LoadNews], reason: str) -> None:
    """Their workers say that they came to nothing: rows and reservations go."""
    if not news:
        return
    rows = list(await tx.execute(_DROP_FAILED, _loads(news)))
    await release(tx, [row.id for row in rows])
    await tell_removed(tx, rows, reason)


async def abandon(tx: Transaction, news: Collection[LoadNews], reason: str) -> None:
    """Nobody wants them any more, and their workers may be at it: the one stop makes sure."""
    if not news:
        return
    rows = list(await tx.execute(_ABANDON, _loads(news) | {"reason": reason}))
    await release(tx, [row.id for row in rows])
    await tell_rows(tx, rows)


async def abandon_operation(tx: Transaction, operation_id: str, reason: str) -> None:
    """The same for all that an operation has begun and not brought to its end."""
    rows = await tx.execute(
        select(replicas.c.node_id).where(
            replicas.c.operation_id == operation_id, replicas.c.state.in_(["staging", "loading"])
        )
    )
    news = [LoadNews(operation_id=operation_id, node_id=NodeId(row.node_id)) for row in rows]
    await abandon(tx, news, reason)


def _loads(news: Collection[LoadNews]) -> dict[str, Any]:
    return {
        "batch": json.dumps(
            [
                {
                    "operation_id": item.operation_id,
                    "node_id": item.node_id,
                    "address": item.address[:255],
                    "engine_key": item.engine_key,
                    "backend": item.backend[:255],
                    "version": item.version[:128],
                    "vram_bytes": item.vram_bytes,
                    "ram_bytes": item.ram_bytes,
                    "threads": item.threads,
                }
                for item in news
            ]
        )
    }
