"""Stores agents, their threads and messages, and the MCP servers that admins have declared.

Lock order: the agent, then operations and runs, then the thread. The end of a run locks its operation, then the thread.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, case, delete, func, insert, literal, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert

from corral.domain.access import Owner
from corral.domain.agent import Agent, AgentStatus, DeclaredMcpServer, Thread, ThreadMessage
from corral.domain.errors import Conflict, NotFound
from corral.store.access import has_active_owner
from corral.store.database import Transaction, as_uuid, is_storable
from corral.store.run_schema import agents, mcp_servers, thread_messages, threads
from corral.store.schema import NOW, api_keys, users

LISTED_MAX = 1000
MESSAGES_PER_READ = 500
# Of one deletion of threads: a statement has seconds.
PRUNED_PER_PASS = 500
PRUNED_MESSAGES_PER_PASS = 100_000


def _select_agents() -> Select[Any]:
    owner_name = func.coalesce(users.c.name, api_keys.c.name, "").label("owner_name")
    joined = agents.outerjoin(users, users.c.id == agents.c.user_id).outerjoin(
        api_keys, api_keys.c.id == agents.c.owner_key_id
    )
    return select(agents, owner_name).select_from(joined)


def _pack(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as they are stored. The order of rules counts, and PostgreSQL keeps none in objects."""
    return dict(settings) | {"tool_rules": [list(rule) for rule in (settings.get("tool_rules") or {}).items()]}


def _unpack(config: Mapping[str, Any]) -> dict[str, Any]:
    return dict(config) | {"tool_rules": dict(config.get("tool_rules") or ())}


def _to_agent(row: Any) -> Agent:
    return Agent(
        id=row.id,
        owner=row.owner,
        owner_name=row.owner_name,
        name=row.name,
        is_shared=row.is_shared,
        status=AgentStatus(row.status),
        settings=_unpack(row.config),
        revision=row.revision,
        next_run_at=row.next_run_at,
        last_run_at=row.last_run_at,
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
    )


async def list_agents(tx: Transaction, owner: str | None, *, shared: bool = True) -> list[Agent]:
    """Return the agents of an owner by name, and shared ones of others behind them. Without an owner: all agents."""
    statement = _select_agents().order_by(agents.c.name, agents.c.created_at).limit(LISTED_MAX)
    if owner is not None:
        is_own = agents.c.owner == owner
        statement = statement.where(is_own | agents.c.is_shared if shared else is_own).order_by(None)
        statement = statement.order_by(case((is_own, 0), else_=1), agents.c.name)
    return [_to_agent(row) for row in await tx.execute(statement)]


async def find_agents(
    tx: Transaction, name: str, owner: str | None, *, shared: bool = True, for_use: bool = False
) -> list[Agent]:
    """Return the agents of this name that an owner may use: their own first, then a shared one. Without an owner: all
    of this name. `for_use`: they are kept from being deleted until the transaction ends."""
    if not is_storable(name):
        return []
    statement = _select_agents().where(agents.c.name == name).limit(LISTED_MAX)
    if owner is not None:
        is_own = agents.c.owner == owner
        statement = statement.where(is_own | agents.c.is_shared if shared else is_own)
        statement = statement.order_by(case((is_own, 0), else_=1))
    statement = statement.order_by(agents.c.created_at)
    if for_use:
        statement = statement.with_for_update(of=agents, read=True, key_share=True)
    return [_to_agent(row) for row in await tx.execute(statement)]


async def find_agent(tx: Transaction, agent_id: str) -> Agent | None:
    row = (await tx.execute(_select_agents().where(agents.c.id == agent_id))).one_or_none()
    return None if row is None else _to_agent(row)


async def lock_agent(tx: Transaction, agent_id: str, *, for_use: bool = False) -> Agent:
    """Read an agent and keep it until the transaction ends: from being deleted (`for_use`), or from any change."""
    statement = _select_agents().where(agents.c.id == agent_id)
    locked = statement.with_for_update(of=agents, read=for_use, key_share=for_use)
    row = (await tx.execute(locked)).one_or_none()
    if row is None:
        raise NotFound("The agent was deleted in the meantime.", code="agent_not_found")
    return _to_agent(row)


async def count_agents(tx: Transaction, owner: str) -> int:
    statement = select(func.count()).select_from(agents).where(agents.c.owner == owner)
    return int((await tx.execute(statement)).scalar_one())


# Inserting and renaming wait for each other, so that a name that is free stays free.
_LOCK_NAME = text("SELECT pg_advisory_xact_lock(hashtextextended('agent ' || :name, 3))")


async def insert_agent(tx: Transaction, owner: Owner, values: Mapping[str, Any]) -> Agent:
    """Insert an agent; `Conflict` if its owner has one of this name, or another one is shared under it."""
    await tx.execute(_LOCK_NAME, {"name": values["name"]})
    row = dict(values) | {
        "config": _pack(values["config"]),
        "owner": str(owner),
        "user_id": owner.user_id,
        "owner_key_id": owner.key_id,
    }
    statement = postgres_insert(agents).values(**row).on_conflict_do_nothing().returning(agents.c.id)
    made = (await tx.execute(statement)).scalar_one_or_none()
    if made is None:
        raise _make_name_taken_error(str(values["name"]))
    found = await find_agent(tx, made)
    assert found is not None, "the agent was just inserted"
    return found


async def update_agent(tx: Transaction, agent: Agent, values: Mapping[str, Any]) -> Agent:
    """Change a locked agent. `Conflict` if its new name is taken."""
    name = str(values.get("name", agent.name))
    is_shared = bool(values.get("is_shared", agent.is_shared))
    if (name, is_shared) != (agent.name, agent.is_shared) and await _is_taken(tx, agent, name, is_shared=is_shared):
        raise _make_name_taken_error(name)
    if "config" in values:
        values = dict(values) | {"config": _pack(values["config"])}
    await tx.execute(update(agents).where(agents.c.id == agent.id).values(**values, updated_at=NOW))
    found = await find_agent(tx, agent.id)
    assert found is not None, "the agent is locked"
    return found


async def _is_taken(tx: Transaction, agent: Agent, name: str, *, is_shared: bool) -> bool:
    await tx.execute(_LOCK_NAME, {"name": name})
    rivals = agents.c.owner == agent.owner
    if is_shared:
        rivals = rivals | agents.c.is_shared
    statement = select(agents.c.id).where(agents.c.name == name, agents.c.id != agent.id, rivals).limit(1)
    return (await tx.execute(statement)).scalar_one_or_none() is not None


def _make_name_taken_error(name: str) -> Conflict:
    return Conflict(f"There is an agent {name!r} already.", hint="Choose another name.", code="agent_exists")


async def delete_agent(tx: Transaction, agent_id: str) -> None:
    """Delete an agent with its threads. Its runs stay until they are pruned."""
    await tx.execute(delete(agents).where(agents.c.id == agent_id))


# An agent whose owner cannot sign in any more does not run by itself.
_IS_DUE = and_(
    agents.c.next_run_at <= NOW,
    func.coalesce(agents.c.next_look_at, agents.c.next_run_at) <= NOW,
    agents.c.status == AgentStatus.ACTIVE,
    has_active_owner(agents.c.user_id, agents.c.owner_key_id),
)


async def list_due(
    tx: Transaction, limit: int, after: tuple[datetime, str] | None = None
) -> list[tuple[datetime, str]]:
    """Return the scheduled time and the id of agents that should run by now, behind a position. Those that could not
    run are left out until they are tried again."""
    statement = select(agents.c.next_run_at, agents.c.id).where(_IS_DUE)
    if after is not None:
        statement = statement.where(tuple_(agents.c.next_run_at, agents.c.id) > after)
    rows = await tx.execute(statement.order_by(agents.c.next_run_at, agents.c.id).limit(limit))
    return [(row.next_run_at, row.id) for row in rows]


async def take_due(tx: Transaction, agent_id: str) -> tuple[Agent, datetime] | None:
    """Lock an agent that is due, and return it with the present time; None if it is not due, or another takes it."""
    statement = (
        _select_agents()
        .add_columns(func.corral_now().label("now"))
        .where(agents.c.id == agent_id, _IS_DUE)
        .with_for_update(of=agents, skip_locked=True)
    )
    row = (await tx.execute(statement)).one_or_none()
    return None if row is None else (_to_agent(row), row.now)


async def write_schedule(tx: Transaction, agent_id: str, next_run_at: datetime, *, has_run: bool) -> None:
    """Write when an autonomous agent runs next, and that it ran now."""
    values: dict[str, Any] = {"next_run_at": next_run_at, "next_look_at": None}
    if has_run:
        values["last_run_at"] = NOW
    await tx.execute(update(agents).where(agents.c.id == agent_id).values(**values))


async def defer_run(tx: Transaction, agent_id: str, next_look_at: datetime) -> None:
    """Write when an agent that is due and could not run is tried again."""
    await tx.execute(update(agents).where(agents.c.id == agent_id).values(next_look_at=next_look_at))


# --- threads ---


def _to_thread(row: Any) -> Thread:
    return Thread(
        id=row.id,
        agent_id=row.agent_id,
        owner=row.owner,
        title=row.title,
        last_seq=row.last_seq,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


_THREAD_COLUMNS = ("id", "agent_id", "owner", "user_id", "owner_key_id", "title")


async def insert_thread(
    tx: Transaction, thread_id: str, agent_id: str, owner: Owner, title: str, *, threads_max: int
) -> Thread | None:
    """Insert a thread; None if the owner has as many with this agent as `threads_max`."""
    values = (thread_id, agent_id, str(owner), owner.user_id, owner.key_id, title)
    counted = select(func.count()).where(threads.c.agent_id == agent_id, threads.c.owner == str(owner))
    row = select(*(literal(value, threads.c[name].type) for name, value in zip(_THREAD_COLUMNS, values, strict=True)))
    statement = insert(threads).from_select(_THREAD_COLUMNS, row.where(counted.scalar_subquery() < threads_max))
    made = (await tx.execute(statement.returning(threads))).one_or_none()
    return None if made is None else _to_thread(made)


# The age is compared twice: a thread that gets a message while it waits for its deletion stays.
_PRUNE_THREADS = text("""
    WITH old AS (
        SELECT t.id, t.updated_at, t.last_seq FROM threads t
         WHERE t.updated_at < corral_now() - make_interval(secs => :age_s)
           AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.thread_id = t.id AND r.finished_at IS NULL)
         ORDER BY t.updated_at, t.id LIMIT :limit
    ), counted AS (
        SELECT id, sum(last_seq) OVER (ORDER BY updated_at, id) - last_seq AS messages_before FROM old
    )
    DELETE FROM threads WHERE updated_at < corral_now() - make_interval(secs => :age_s)
       AND id IN (SELECT id FROM counted WHERE messages_before < :messages)
""")


async def prune_threads(tx: Transaction, age_s: float) -> int:
    """Delete threads whose last message is older than this, with their messages. A thread with an open turn stays.
    Return how many; 0: there are no more."""
    parameters = {"age_s": age_s, "limit": PRUNED_PER_PASS, "messages": PRUNED_MESSAGES_PER_PASS}
    return (await tx.execute(_PRUNE_THREADS, parameters)).rowcount


async def list_threads(tx: Transaction, agent_id: str, owner: str | None, limit: int = 100) -> list[Thread]:
    """Return the threads with an agent, the one used last first."""
    statement = select(threads).where(threads.c.agent_id == agent_id)
    if owner is not None:
        statement = statement.where(threads.c.owner == owner)
    ordered = statement.order_by(threads.c.updated_at.desc(), threads.c.id.desc()).limit(min(limit, LISTED_MAX))
    return [_to_thread(row) for row in await tx.execute(ordered)]


async def count_threads(tx: Transaction, agent_id: str, owner: str) -> int:
    statement = (
        select(func.count()).select_from(threads).where(threads.c.agent_id == agent_id, threads.c.owner == owner)
    )
    return int((await tx.execute(statement)).scalar_one())


async def get_thread(tx: Transaction, thread_id: str, agent_id: str, owner: str | None) -> Thread:
    """Return a thread with this agent; with an owner, only if it is theirs."""
    known = as_uuid(thread_id)
    statement = select(threads).where(threads.c.id == known, threads.c.agent_id == agent_id)
    if owner is not None:
        statement = statement.where(threads.c.owner == owner)
    row = None if known is None else (await tx.execute(statement)).one_or_none()
    if row is None:
        raise NotFound(
            f"There is no thread {thread_id[:80]!r} with this agent.",
            hint="`corral agents threads list NAME` shows your threads.",
            code="thread_not_found",
        )
    return _to_thread(row)


async def delete_thread(tx: Transaction, thread_id: str) -> None:
    await tx.execute(delete(threads).where(threads.c.id == thread_id))


_APPEND_MESSAGES = text("""
    WITH grown AS (
        UPDATE threads SET
            last_seq = last_seq + jsonb_array_length(CAST(:messages AS jsonb)), updated_at = corral_now(),
            title = CASE WHEN title = '' THEN :title ELSE title END
         WHERE id = CAST(:thread_id AS uuid)
        RETURNING id, last_seq
    ), added AS (
        INSERT INTO thread_messages (thread_id, seq, role, message, run_id)
        SELECT grown.id, grown.last_seq - jsonb_array_length(CAST(:messages AS jsonb)) + m.number,
               m.message ->> 'role', m.message, CAST(:run_id AS uuid)
          FROM grown, jsonb_array_elements(CAST(:messages AS jsonb)) WITH ORDINALITY AS m(message, number)
    )
    SELECT last_seq FROM grown
""")


async def append_messages(
    tx: Transaction, thread_id: str, messages: Sequence[Mapping[str, Any]], run_id: str | None, *, title: str = ""
) -> int:
    """Append messages of a turn, or of none, to a thread, and give it a title if it has none. Return the number of the
    last message; 0 if the thread is gone."""
    rendered = json.dumps([dict(message) for message in messages])
    parameters = {"thread_id": thread_id, "messages": rendered, "run_id": run_id, "title": title}
    last = (await tx.execute(_APPEND_MESSAGES, parameters)).scalar_one_or_none()
    return int(last or 0)


async def list_messages(
    tx: Transaction, thread_id: str, *, after: int = 0, limit: int = MESSAGES_PER_READ
) -> list[ThreadMessage]:
    """Return messages of a thread behind a number, in order."""
    statement = (
        select(thread_messages)
        .where(thread_messages.c.thread_id == thread_id, thread_messages.c.seq > after)
        .order_by(thread_messages.c.seq)
        .limit(min(limit, MESSAGES_PER_READ))
    )
    return [_to_message(row) for row in await tx.execute(statement)]


async def list_newest_messages(tx: Transaction, thread_id: str, limit: int) -> list[ThreadMessage]:
    """Return the newest messages of a thread, in order."""
    statement = (
        select(thread_messages)
        .where(thread_messages.c.thread_id == thread_id)
        .order_by(thread_messages.c.seq.desc())
        .limit(limit)
    )
    return [_to_message(row) for row in await tx.execute(statement)][::-1]


def _to_message(row: Any) -> ThreadMessage:
    return ThreadMessage(seq=row.seq, role=row.role, message=row.message, run_id=row.run_id, created_at=row.created_at)


# --- declared MCP servers ---


def _to_server(row: Any) -> DeclaredMcpServer:
    config = row.config
    return DeclaredMcpServer(
        name=row.name,
        description=config.get("description", ""),
        transport=config.get("transport", "stdio"),
        command=config.get("command", ""),
        args=tuple(config.get("args") or ()),
        env=dict(config.get("env") or {}),
        cwd=config.get("cwd", ""),
        url=config.get("url", ""),
        headers=dict(config.get("headers") or {}),
        created_by=row.created_by,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


async def list_servers(tx: Transaction, names: Collection[str] | None = None) -> list[DeclaredMcpServer]:
    """Return the declared MCP servers by name. `names`: these only; unknown ones are left out."""
    if names is not None and not names:
        return []
    statement = select(mcp_servers).order_by(mcp_servers.c.name).limit(LISTED_MAX)
    if names is not None:
        statement = statement.where(mcp_servers.c.name.in_([name for name in names if is_storable(name)]))
    return [_to_server(row) for row in await tx.execute(statement)]


async def put_server(tx: Transaction, name: str, config: Mapping[str, Any], actor: str) -> DeclaredMcpServer:
    """Declare an MCP server, and replace the previous one of this name."""
    values = {"name": name, "config": dict(config), "created_by": actor[:255]}
    statement = postgres_insert(mcp_servers).values(**values)
    changed = {"config": statement.excluded.config, "created_by": statement.excluded.created_by, "updated_at": NOW}
    saved = statement.on_conflict_do_update(index_elements=["name"], set_=changed).returning(mcp_servers)
    return _to_server((await tx.execute(saved)).one())


async def delete_server(tx: Transaction, name: str) -> bool:
    """Delete a declared MCP server; return whether there was one."""
    if not is_storable(name):
        return False
    return (await tx.execute(delete(mcp_servers).where(mcp_servers.c.name == name))).rowcount == 1
