"""What requests need of the registry: which models can be asked for, which replicas answer, and who uses them.

The first two fill a frontend's memory. The last are leases: a frontend writes how many requests it has at each replica
and how many wait for a model, in one statement, and reads the others' numbers with it. A frontend that dies lets its
rows expire; nothing has to be counted back.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, ScalarSelect, String, Text, bindparam, cast, func, select, text

from corral.domain.model import ModelFacts
from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.store import replicas as replica_store
from corral.store.database import Transaction
from corral.store.model_schema import blobs, model_files, model_names, models
from corral.store.models import facts_of
from corral.store.schema import replicas, rules

# What is left of frontends that died long ago; the last use of a replica is read from these rows as well.
KEPT_S = 7 * 24 * 3600.0
# Longer numbers among the options of an engine are no counts of anything.
OPTION_DIGITS_MAX = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model as requests see it."""

    name: str
    # Every name under which it is asked for, its own included.
    names: tuple[str, ...]
    run_hash: str
    is_enabled: bool = True
    # Which of OpenAI's calls it is for; empty: all.
    serves: tuple[str, ...] = ()
    # Put into requests that do not say it themselves.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    # Where its replicas may answer; empty: everywhere.
    selector: Mapping[str, str] = field(default_factory=dict)
    # The engine's package, as the configuration names it.
    backend: str = ""
    # How many requests a replica works on at a time, if the configuration says so.
    parallel: int | None = None
    # How a replica is picked; empty: the usual way.
    route_policy: str = ""
    # Whether its chat template has a place for tools; None: unknown.
    takes_tools: bool | None = None
    # Whether it was given a projector, which is how a GGUF model sees pictures.
    has_projector: bool = False
    # What the headers of its files say, and how large its files are; None: not fetched yet.
    facts: ModelFacts | None = None
    size_bytes: int | None = None
    created_at: datetime


async def list_served(tx: Transaction, only: Collection[str] | None = None) -> list[Served]:
    """All models, or those that any of these names means."""
    names = select(func.array_agg(model_names.c.name)).where(model_names.c.model == models.c.name).scalar_subquery()
    statement = select(
        models.c.name,
        models.c.run_hash,
        models.c.config,
        models.c.facts,
        models.c.created_at,
        names.label("names"),
        _size_of_files().label("size_bytes"),
        rules.c.selector,
        rules.c.route_policy,
    ).join_from(models, rules, rules.c.model == models.c.name, isouter=True)
    if only is not None:
        wanted = func.any(cast(list(only), ARRAY(Text)))
        meant = select(model_names.c.model).where(model_names.c.name == wanted)
        statement = statement.where((models.c.name == wanted) | models.c.name.in_(meant))
    return [_served(row) for row in await tx.execute(statement)]


def _size_of_files() -> ScalarSelect[Any]:
    """The bytes of a model's files. A content that several of its files share counts once."""
    contents = select(model_files.c.sha256).where(model_files.c.model == models.c.name).correlate(models).distinct()
    return select(func.sum(blobs.c.size_bytes)).where(blobs.c.sha256.in_(contents)).correlate(models).scalar_subquery()


def _served(row: Any) -> Served:
    config, facts = row.config, facts_of(row.facts)
    options = config.get("options") or {}
    # Another template than the one in the file has not been looked at.
    has_own_template = bool(options.get("chat_template"))
    return Served(
        name=row.name,
        names=tuple(sorted({row.name, *(row.names or ())})),
        run_hash=row.run_hash,
        is_enabled=config.get("enabled", True) is not False,
        serves=tuple(config.get("serves") or ()),
        defaults=dict(config.get("defaults") or {}),
        selector=dict(row.selector or {}),
        backend=str(config.get("backend") or ""),
        parallel=_count(options.get("parallel")),
        route_policy=row.route_policy or "",
        takes_tools=None if facts is None or has_own_template else facts.takes_tools,
        has_projector=bool(options.get("projector")),
        facts=facts,
        size_bytes=None if row.size_bytes is None else int(row.size_bytes),
        created_at=row.created_at,
    )


def _count(option: object) -> int | None:
    """Options of engines are free text: what is no count above zero says nothing."""
    written = str(option).strip()
    return (int(written) or None) if written.isdecimal() and len(written) <= OPTION_DIGITS_MAX else None


async def list_loaded(tx: Transaction, only: Collection[str] | None = None) -> list[Replica]:
    """The replicas that have said that they are ready; of all models, or of these."""
    statement = select(
        replicas.c.id,
        replicas.c.node_id,
        replicas.c.model,
        replicas.c.replica_index,
        replicas.c.address,
        replicas.c.revision,
        replicas.c.engine_key,
        replicas.c.backend,
    ).where(replicas.c.state == ReplicaState.LOADED, replicas.c.address != "")
    if only is not None:
        statement = statement.where(replicas.c.model == func.any(cast(list(only), ARRAY(Text))))
    return [
        Replica(
            id=row.id,
            node_id=NodeId(row.node_id),
            model=row.model,
            index=row.replica_index,
            state=ReplicaState.LOADED,
            address=row.address,
            revision=row.revision,
            engine_key=row.engine_key,
            backend=row.backend,
        )
        for row in await tx.execute(statement)
    ]


async def remove_refused(tx: Transaction, replica: Replica, reason: str) -> bool:
    """It is not at its address any more: the row goes, if it is still the same one with the same address."""
    held = await tx.execute(
        select(replicas.c.id)
        .where(
            replicas.c.id == replica.id,
            replicas.c.state == ReplicaState.LOADED,
            replicas.c.address == replica.address,
            replicas.c.revision == replica.revision,
        )
        .with_for_update()
    )
    if held.one_or_none() is None:
        return False
    place = (replica.node_id, replica.model, replica.index)
    return await replica_store.remove_ended(tx, [place], reason, may_return=True) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What one frontend says of a replica. `is_used`: it got a request since the last time."""

    replica_id: str
    in_flight: int
    is_used: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """What the other frontends have at a replica: requests, and how many frontends have any."""

    in_flight: int = 0
    frontends: int = 0


# Rows of replicas are locked in the order in which they are removed, and one that is going is left out.
_LEASE = text("""
    WITH said AS (
        SELECT * FROM jsonb_to_recordset(CAST(:used AS jsonb)) AS s(replica_id uuid, in_flight int, is_used bool)
    ), there AS (
        SELECT r.id, said.in_flight, said.is_used
          FROM said JOIN replicas r ON r.id = said.replica_id
         ORDER BY r.node_id, r.model, r.replica_index
           FOR KEY SHARE OF r
    ), written AS (
        INSERT INTO replica_use AS u (replica_id, frontend_id, in_flight, last_used_at, expires_at)
        SELECT id, :frontend, in_flight, CASE WHEN is_used THEN corral_now() END,
               corral_now() + make_interval(secs => :lease_s)
          FROM there
        ON CONFLICT (replica_id, frontend_id) DO UPDATE
           SET in_flight = excluded.in_flight,
               last_used_at = coalesce(excluded.last_used_at, u.last_used_at),
               expires_at = excluded.expires_at
    ), demanded AS (
        INSERT INTO model_demand AS d (model, frontend_id, waiting, asked_at, expires_at)
        SELECT w.key, :frontend, CAST(w.value AS int), corral_now(), corral_now() + make_interval(secs => :lease_s)
          FROM jsonb_each_text(CAST(:waiting AS jsonb)) AS w
         ORDER BY w.key
        ON CONFLICT (model, frontend_id) DO UPDATE
           SET waiting = excluded.waiting,
               asked_at = CASE WHEN excluded.waiting > 0 THEN excluded.asked_at ELSE d.asked_at END,
               expires_at = excluded.expires_at
    )
    SELECT CAST(replica_id AS text) AS replica_id, sum(in_flight) AS in_flight, count(*) AS frontends
      FROM replica_use
     WHERE frontend_id <> :frontend AND in_flight > 0 AND expires_at > corral_now()
     GROUP BY replica_id
""").bindparams(bindparam("frontend", type_=String), bindparam("used", type_=Text), bindparam("waiting", type_=Text))


async def lease(
    tx: Transaction, frontend_id: str, lease_s: float, used: Collection[Used], waiting: Mapping[str, int]
) -> dict[str, Elsewhere]:
    """Write what this frontend does and renew it for `lease_s`; what the others say, by replica."""
    said = [{"replica_id": one.replica_id, "in_flight": one.in_flight, "is_used": one.is_used} for one in used]
    rows = await tx.execute(
        _LEASE,
        {
            "frontend": frontend_id,
            "lease_s": lease_s,
            "used": json.dumps(said),
            "waiting": json.dumps(dict(waiting)),
        },
    )
    return {row.replica_id: Elsewhere(in_flight=int(row.in_flight), frontends=int(row.frontends)) for row in rows}


_FORGET = text("""
    WITH use AS (
        DELETE FROM replica_use WHERE expires_at < corral_now() - make_interval(secs => :kept_s)
    )
    DELETE FROM model_demand WHERE expires_at < corral_now() - make_interval(secs => :kept_s)
""")


async def forget(tx: Transaction, kept_s: float = KEPT_S) -> None:
    """Rows of frontends that are long gone."""
    await tx.execute(_FORGET, {"kept_s": kept_s})


async def withdraw(tx: Transaction, frontend_id: str) -> None:
    """A frontend stops: nothing of it is under way any more. When its replicas were last used stays known."""
    await tx.execute(
        text("UPDATE replica_use SET in_flight = 0, expires_at = corral_now() WHERE frontend_id = :frontend"),
        {"frontend": frontend_id},
    )
    await tx.execute(text("DELETE FROM model_demand WHERE frontend_id = :frontend"), {"frontend": frontend_id})
