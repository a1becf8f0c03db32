"""Reads what requests need of the registry: models, ready replicas and their use.

Models and replicas fill a frontend's memory. Use is written as leases: a frontend writes how many requests it has at
each replica and how many wait for a model, in one statement, and reads the others' numbers with it. The rows of a
frontend that dies expire; nothing has to be counted back.
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
from corral.policy.models.adapters import render_members
from corral.store import replicas as replica_store
from corral.store.database import Transaction
from corral.store.model_schema import blobs, model_files, model_names, models
from corral.store.models import parse_facts
from corral.store.schema import replicas, rules

# How long rows of dead frontends are kept; the last use of a replica is read from these rows as well.
KEPT_S = 7 * 24 * 3600.0
# Longer numbers among the options of an engine are no counts.
OPTION_DIGITS_MAX = 9
# What an adapter is for if neither it nor its base says.
ADAPTER_SERVES = ("chat", "completions")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model as read from PostgreSQL for routing requests: names, calls, defaults and facts."""

    name: str
    # Every name of the model, its own included.
    names: tuple[str, ...]
    run_hash: str
    is_enabled: bool = True
    # The OpenAI calls that the model is for; empty: all.
    serves: tuple[str, ...] = ()
    # Defaults for requests that leave these out.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    # The selector of nodes whose replicas may answer; empty: everywhere.
    selector: Mapping[str, str] = field(default_factory=dict)
    # The engine's package, as the configuration names it.
    backend: str = ""
    # How many requests a replica works on at a time, if configured.
    parallel: int | None = None
    # The routing policy; empty: the default.
    route_policy: str = ""
    # Whether the chat template has a place for tools; None: unknown.
    takes_tools: bool | None = None
    # Whether the model has a projector, which is how a GGUF model sees pictures.
    has_projector: bool = False
    # Whether the model has MCP servers.
    has_mcp: bool = False
    # The facts in the headers of its files, and the size of its files; None: not fetched yet.
    facts: ModelFacts | None = None
    size_bytes: int | None = None
    # An adapter is answered by the replicas of its base, and has the base's run hash, backend and selector.
    base: str = ""
    # False: an adapter that no engine of its base loads.
    is_attached: bool = True
    # The first members of a request for an engine that numbers its adapters: which one it is for, or none of them.
    engine_members: str = ""
    created_at: datetime

    @property
    def pool_name(self) -> str:
        """Return the name of the model whose replicas answer."""
        return self.base or self.name

    @property
    def name_change(self) -> tuple[bytes, bytes] | None:
        """Return how a response names the engine's model, and how it shall name this one; None if they are the same."""
        if not self.base:
            return None
        old, new = (json.dumps(name, ensure_ascii=False).encode() for name in (self.base, self.name))
        return b'"model":%b' % old, b'"model":%b' % new


async def list_served_models(tx: Transaction, only: Collection[str] | None = None) -> list[ServedModel]:
    """Return all models, or those that any of these names means, with their adapters."""
    bases = models.alias("bases")
    names = select(func.array_agg(model_names.c.name)).where(model_names.c.model == models.c.name).scalar_subquery()
    statement = select(
        models.c.name,
        models.c.run_hash,
        models.c.config,
        models.c.facts,
        models.c.created_at,
        names.label("names"),
        _select_files_size().label("size_bytes"),
        rules.c.selector,
        rules.c.route_policy,
        models.c.adapters,
        bases.c.run_hash.label("base_run_hash"),
        bases.c.config.label("base_config"),
        bases.c.facts.label("base_facts"),
        bases.c.adapters.label("base_adapters"),
    )
    base_name = models.c.config["base"].astext
    statement = statement.join_from(models, bases, bases.c.name == base_name, isouter=True)
    statement = statement.join(rules, rules.c.model == func.coalesce(base_name, models.c.name), isouter=True)
    if only is not None:
        selected = func.any(cast(list(only), ARRAY(Text)))
        meant = select(model_names.c.model).where(model_names.c.name == selected)
        statement = statement.where(
            (models.c.name == selected) | models.c.name.in_(meant) | (base_name == selected) | base_name.in_(meant)
        )
    return [_to_served(row) for row in await tx.execute(statement)]


def _select_files_size() -> ScalarSelect[Any]:
    """Return the bytes of a model's files. A content that several of its files share counts once."""
    contents = select(model_files.c.sha256).where(model_files.c.model == models.c.name).correlate(models).distinct()
    return select(func.sum(blobs.c.size_bytes)).where(blobs.c.sha256.in_(contents)).correlate(models).scalar_subquery()


def _to_served(row: Any) -> ServedModel:
    config, facts = row.config, parse_facts(row.facts)
    if row.base_config is not None:
        return _to_served_adapter(row)
    options = config.get("options") or {}
    # A configured template overrides the one in the file, and only the latter has been examined.
    has_own_template = bool(options.get("chat_template"))
    return ServedModel(
        name=row.name,
        names=tuple(sorted({row.name, *(row.names or ())})),
        run_hash=row.run_hash,
        is_enabled=config.get("enabled", True) is not False,
        serves=tuple(config.get("serves") or ()),
        defaults=dict(config.get("defaults") or {}),
        selector=dict(row.selector or {}),
        backend=str(config.get("backend") or ""),
        parallel=_parse_count(options.get("parallel")),
        route_policy=row.route_policy or "",
        takes_tools=None if facts is None or has_own_template else facts.takes_tools,
        has_projector=bool(options.get("projector")),
        has_mcp=bool(config.get("mcp")),
        facts=facts,
        size_bytes=None if row.size_bytes is None else int(row.size_bytes),
        # A base without adapters has nothing to rule out.
        engine_members=render_members(None) if row.adapters else "",
        created_at=row.created_at,
    )


def _to_served_adapter(row: Any) -> ServedModel:
    """Return an adapter: its own name, calls and defaults, and all else as its base has it."""
    config, base = row.config, row.base_config
    options, facts = base.get("options") or {}, parse_facts(row.base_facts)
    number = next((at for at, one in enumerate(row.base_adapters) if one["model"] == row.name), None)
    is_enabled = config.get("enabled", True) is not False and base.get("enabled", True) is not False
    return ServedModel(
        name=row.name,
        names=tuple(sorted({row.name, *(row.names or ())})),
        run_hash=row.base_run_hash,
        is_enabled=is_enabled,
        serves=tuple(config.get("serves") or base.get("serves") or ADAPTER_SERVES),
        # What the base adds to requests suits its adapters, too, unless they say otherwise.
        defaults={**(base.get("defaults") or {}), **(config.get("defaults") or {})},
        selector=dict(row.selector or {}),
        backend=str(base.get("backend") or ""),
        parallel=_parse_count(options.get("parallel")),
        route_policy=row.route_policy or "",
        takes_tools=None if facts is None or options.get("chat_template") else facts.takes_tools,
        has_projector=bool(options.get("projector")),
        has_mcp=bool(config.get("mcp")),
        facts=facts,
        size_bytes=None if row.size_bytes is None else int(row.size_bytes),
        base=str(base["name"]),
        is_attached=number is not None,
        engine_members=render_members(number),
        created_at=row.created_at,
    )


def _parse_count(option: object) -> int | None:
    """Parse a count from an engine option, which is free text; None unless it is a number above zero."""
    written = str(option).strip()
    return (int(written) or None) if written.isdecimal() and len(written) <= OPTION_DIGITS_MAX else None


async def list_loaded_replicas(tx: Transaction, only: Collection[str] | None = None) -> list[Replica]:
    """Return the replicas that are ready; of all models, or of these."""
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


async def remove_refused_replica(tx: Transaction, replica: Replica, reason: str) -> bool:
    """Delete the row of a replica that is no longer at its address, if the row still has the same address."""
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
    key = (replica.node_id, replica.model, replica.index)
    return await replica_store.remove_ended_processes(tx, [key], reason, may_return=True) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaUse:
    """Number of open requests of one frontend at a replica, to be written to PostgreSQL.

    `is_used`: the replica got a request since the last time.
    """

    replica_id: str
    in_flight: int
    is_used: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerUse:
    """Open requests that the other frontends have at a replica, as read from PostgreSQL."""

    in_flight: int = 0
    frontends: int = 0


# Rows of replicas are locked in the order in which they are removed; a row that is being removed is left out.
_LEASE = text("""
    WITH reported AS (
        SELECT * FROM jsonb_to_recordset(CAST(:used AS jsonb)) AS s(replica_id uuid, in_flight int, is_used bool)
    ), existing AS (
        SELECT r.id, reported.in_flight, reported.is_used
          FROM reported JOIN replicas r ON r.id = reported.replica_id
         ORDER BY r.node_id, r.model, r.replica_index
           FOR KEY SHARE OF r
    ), written AS (
        INSERT INTO replica_use AS u (replica_id, frontend_id, in_flight, last_used_at, expires_at)
        SELECT id, :frontend, in_flight, CASE WHEN is_used THEN corral_now() END,
               corral_now() + make_interval(secs => :lease_s)
          FROM existing
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


async def write_use(
    tx: Transaction, frontend_id: str, lease_s: float, used: Collection[ReplicaUse], waiting: Mapping[str, int]
) -> dict[str, PeerUse]:
    """Write this frontend's use for `lease_s`, and return the use of the others by replica."""
    values = [{"replica_id": one.replica_id, "in_flight": one.in_flight, "is_used": one.is_used} for one in used]
    rows = await tx.execute(
        _LEASE,
        {
            "frontend": frontend_id,
            "lease_s": lease_s,
            "used": json.dumps(values),
            "waiting": json.dumps(dict(waiting)),
        },
    )
    return {row.replica_id: PeerUse(in_flight=int(row.in_flight), frontends=int(row.frontends)) for row in rows}


_FORGET = text("""
    WITH use AS (
        DELETE FROM replica_use WHERE expires_at < corral_now() - make_interval(secs => :kept_s)
    )
    DELETE FROM model_demand WHERE expires_at < corral_now() - make_interval(secs => :kept_s)
""")


async def prune_use(tx: Transaction) -> None:
    """Delete rows of frontends that are long gone."""
    await tx.execute(_FORGET, {"kept_s": KEPT_S})


async def withdraw_frontend(tx: Transaction, frontend_id: str) -> None:
    """End the use of a frontend that stops. The last use of its replicas stays known."""
    await tx.execute(
        text("UPDATE replica_use SET in_flight = 0, expires_at = corral_now() WHERE frontend_id = :frontend"),
        {"frontend": frontend_id},
    )
    await tx.execute(text("DELETE FROM model_demand WHERE frontend_id = :frontend"), {"frontend": frontend_id})
