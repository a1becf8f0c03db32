"""Creates, changes, finds and deletes agents and their threads.

Guarantee: a change is one transaction with its audit line and its event; events name an agent by its id alone, because
operators read the events of all owners. What belongs to others does not exist for a caller, except a shared agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from corral.domain.access import Owner, Principal, can_use_model
from corral.domain.agent import Agent, AgentConfig, AgentStatus, Thread
from corral.domain.errors import Conflict, NotAllowed, NotFound
from corral.domain.run import RunBudgets, RunId
from corral.operations import actions
from corral.policy import agents as policy
from corral.policy.revisions import check_revision
from corral.policy.templates import check_template, translate_go_template
from corral.ports.runtime import IdGenerator
from corral.runs.service import RunService
from corral.store import access as access_store
from corral.store import agents as store
from corral.store import collections as collection_store
from corral.store import models as model_store
from corral.store import operations as operation_store
from corral.store import outbox
from corral.store import runs as run_store
from corral.store.database import Database, Transaction, as_uuid, read_now
from corral.store.runs import RunFilter

# More agents than one person keeps, and few enough to be listed in one response.
AGENTS_OF_OWNER_MAX = 500
# More threads with one agent are those of a program that should delete them.
THREADS_MAX = 5000
COPY_SUFFIX = "-copy"
# Settings that say what an agent reaches, and what it does there on its own.
_TOOL_FIELDS = ("mcp_servers", "mcp_stdio_servers", "agents", "tool_rules")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLookup:
    """Names the LLM agent that an API caller means: its name, its owner, and who asks.

    `sees_all`: an admin means one of any owner, `owner` says whose.
    """

    name: str
    principal: Principal
    sees_all: bool = False
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAgent:
    """Configuration with which an LLM agent is created or changed; settings are in the names of the API."""

    name: str
    settings: Mapping[str, Any]
    is_shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentServiceDeps:
    """Dependencies of a frontend's services for LLM agents."""

    database: Database
    ids: IdGenerator
    runs: RunService
    # Whether a user may name an MCP server in a private network.
    allows_private_addresses: bool = False
    # How long a turn may take if its agent does not say, and a chat with MCP servers.
    default_wall_s: float = RunBudgets().wall_s


class AgentService:
    """Creates, changes, finds and deletes LLM agents and the conversations with them."""

    def __init__(self, deps: AgentServiceDeps) -> None:
        self._deps = deps

    # --- finding ---

    async def list(self, principal: Principal, *, sees_all: bool = False) -> list[Agent]:
        """Return the caller's agents and the shared ones; with `sees_all`, those of all owners."""
        async with self._deps.database.transaction() as tx:
            return await store.list_agents(tx, None if sees_all else str(principal.owner))

    async def get(self, lookup: AgentLookup) -> Agent:
        async with self._deps.database.transaction() as tx:
            return await find_usable(tx, lookup)

    async def create_in(self, tx: Transaction, principal: Principal, new: NewAgent) -> Agent:
        """Create an agent inside a larger transaction."""
        owner = require_person(principal)
        config = await self._check(tx, principal, new)
        await _check_model_name(tx, new.name)
        if await store.count_agents(tx, str(owner)) >= AGENTS_OF_OWNER_MAX:
            raise Conflict(
                f"You have {AGENTS_OF_OWNER_MAX} agents already, which is the limit.",
                hint="Delete one: corral agents delete NAME",
                code="too_many_agents",
            )
        values = {
            "id": self._deps.ids.new_id(),
            "name": new.name,
            "is_shared": new.is_shared,
            "config": dict(new.settings),
            "created_by": principal.name[:255],
            "next_run_at": await _compute_first_run(tx, config),
        }
        agent = await store.insert_agent(tx, owner, values)
        await _record(tx, principal, "create", agent)
        await outbox.append(tx, "agent.created", agent.id)
        return agent

    async def update_in(
        self, tx: Transaction, lookup: AgentLookup, new: NewAgent, *, expects: int | None = None
    ) -> Agent:
        """Replace the configuration of an agent inside a larger transaction, and rename it if the name differs. It
        stays paused if it was. `expects` is the revision that the author has read."""
        agent = await _lock_editable(tx, lookup)
        check_revision(agent.name, agent.revision, expects)
        _check_shared_tools(agent, new, lookup.principal)
        config = await self._check(tx, lookup.principal, new, before=agent)
        if new.name != agent.name:
            await _check_model_name(tx, new.name)
        values: dict[str, Any] = {
            "name": new.name,
            "is_shared": new.is_shared,
            "config": dict(new.settings),
            "revision": agent.revision + 1,
        }
        if _has_other_schedule(agent, config):
            values["next_run_at"] = await _compute_first_run(tx, config, agent.status)
        changed = await store.update_agent(tx, agent, values)
        await _record(tx, lookup.principal, "update", changed)
        await outbox.append(tx, "agent.changed", changed.id)
        return changed

    async def set_status(self, lookup: AgentLookup, status: AgentStatus) -> Agent:
        """Pause or resume an agent. A turn that runs goes on; the next one is refused while the agent is paused."""
        async with self._deps.database.transaction() as tx:
            agent = await _lock_editable(tx, lookup)
            if agent.status is status:
                return agent
            first = await _compute_first_run(tx, policy.read_config(agent.settings), status)
            changed = await store.update_agent(tx, agent, {"status": status, "next_run_at": first})
            await _record(tx, lookup.principal, "pause" if status is AgentStatus.PAUSED else "resume", changed)
            await outbox.append(tx, "agent.changed", changed.id)
            return changed

    async def delete(self, lookup: AgentLookup) -> None:
        """Delete an agent with the threads of all users, and cancel its turns."""
        async with self._deps.database.transaction() as tx:
            cancelled = await self.delete_in(tx, lookup)
        await self.announce_cancelled(cancelled)

    async def delete_in(self, tx: Transaction, lookup: AgentLookup) -> Sequence[RunId]:
        """Delete an agent inside a larger transaction. Return the runs that were cancelled, for `announce_cancelled`
        after it."""
        agent = await _lock_editable(tx, lookup)
        cancelled = await cancel_runs(tx, RunFilter(agent_id=agent.id), "the deletion of the agent")
        await store.delete_agent(tx, agent.id)
        await _record(tx, lookup.principal, "delete", agent)
        await outbox.append(tx, "agent.deleted", agent.id)
        return cancelled

    async def announce_cancelled(self, run_ids: Sequence[RunId]) -> None:
        """Tell the workers of runs that were cancelled in a transaction."""
        await self._deps.runs.announce_cancelled(run_ids)

    async def clone(self, lookup: AgentLookup, name: str) -> Agent:
        """Create an agent of the caller with the configuration of another one that they may use. It is not shared."""
        async with self._deps.database.transaction() as tx:
            agent = await find_usable(tx, lookup)
            copy = NewAgent(name=name or await _find_free_name(tx, agent, lookup.principal), settings=agent.settings)
            return await self.create_in(tx, lookup.principal, copy)

    async def _check(
        self, tx: Transaction, principal: Principal, new: NewAgent, before: Agent | None = None
    ) -> AgentConfig:
        policy.check_agent_name(new.name)
        config = policy.check_settings(new.settings, allows_private=self._deps.allows_private_addresses)
        check_template(translate_go_template(config.inner_monologue_template))
        if new.is_shared != (before.is_shared if before else False) and not principal.is_admin:
            raise NotAllowed("Only admins may share an agent with everybody.", hint="Leave `shared` out.")
        known = {server.name for server in await store.list_servers(tx, config.declared_servers)}
        unknown = [name for name in config.declared_servers if name not in known]
        if unknown:
            raise make_unknown_server_error(unknown[0])
        return config

    # --- threads ---

    async def create_thread(self, lookup: AgentLookup, title: str) -> Thread:
        async with self._deps.database.transaction() as tx:
            agent = await find_usable(tx, lookup, for_use=True)
            return await self.add_thread_in(tx, agent, require_person(lookup.principal), title)

    async def add_thread_in(self, tx: Transaction, agent: Agent, owner: Owner, title: str = "") -> Thread:
        """Add a thread inside a larger transaction."""
        thread_id, shown = self._deps.ids.new_id(), policy.make_title(title)
        thread = await store.insert_thread(tx, thread_id, agent.id, owner, shown, threads_max=THREADS_MAX)
        if thread is None:
            raise Conflict(
                f"You have {THREADS_MAX} threads with this agent already, which is the limit.",
                hint="Delete one: corral agents threads delete NAME ID",
                code="too_many_threads",
            )
        return thread

    async def delete_thread(self, agent: Agent, thread_id: str, owner: str | None) -> None:
        """Delete a thread with its messages, and cancel its turns."""
        async with self._deps.database.transaction() as tx:
            await lock_thread_scope(tx, thread_id)
            thread = await store.get_thread(tx, thread_id, agent.id, owner)
            cancelled = await cancel_runs(tx, RunFilter(thread_id=thread.id), "the deletion of the thread")
            await store.delete_thread(tx, thread.id)
        await self._deps.runs.announce_cancelled(cancelled)


async def list_warnings(tx: Transaction, principal: Principal, agent: Agent) -> list[str]:
    """Return what keeps an agent from answering as it says: a model that does not exist, or that the caller may not
    use, and a collection that the caller has not.

    Such an agent is stored all the same: its model may come later, with a fleet file or an import."""
    return [*await _list_model_warnings(tx, principal, agent), *await _list_collection_warnings(tx, principal, agent)]


async def _list_collection_warnings(tx: Transaction, principal: Principal, agent: Agent) -> list[str]:
    config = policy.read_config(agent.settings)
    name = config.collection or agent.name
    # Without a name of its own an agent begins its collection with what it remembers.
    is_made_later = config.remembers and not config.collection
    if not config.enables_kb or is_made_later:
        return []
    owner = str(principal.owner)
    if await collection_store.find_collection(tx, owner, name) is not None:
        return []
    known = [collection.name for collection in await collection_store.list_collections(tx, owner)]
    near = get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Create it: corral collections create {name}"
    return [f"You have no collection {name!r}, so the agent finds nothing in it. {hint}"]


async def _list_model_warnings(tx: Transaction, principal: Principal, agent: Agent) -> list[str]:
    name = str(agent.settings.get("model", ""))
    model = await model_store.find_model(tx, name)
    if model is not None and can_use_model(principal, model.name, model.config.aliases):
        return []
    error = await model_store.make_unknown_error(tx, name, principal)
    return [f"{error.message} {error.hint}"]


def require_person(principal: Principal) -> Owner:
    """Return the owner of what the caller creates. Raises for the key of an agent node."""
    if principal.node_id is not None:
        raise NotAllowed(
            f"{principal.name} is a key of an agent node, and nodes own no agents, tasks or runs.",
            hint="Use the key of a person or a program.",
        )
    return principal.owner


def make_scope(thread_id: str) -> str:
    """Return the scope of the turns of a thread, which follow one another."""
    return f"thread:{thread_id}"


async def lock_thread_scope(tx: Transaction, thread_id: str) -> None:
    """Make messages to a thread and its deletion wait for each other, before any row is locked."""
    await operation_store.lock_scope(tx, f"run:{make_scope(as_uuid(thread_id) or thread_id)}")


def make_unknown_server_error(name: str) -> NotFound:
    return NotFound(
        f"There is no declared MCP server {name[:80]!r}.",
        hint="`corral mcp servers list` shows them; an admin declares one with `corral mcp servers set`.",
        code="mcp_server_not_found",
    )


def make_unknown_agent_error(name: str) -> NotFound:
    return NotFound(
        f"There is no agent {name[:80]!r}.", hint="`corral agents list` shows your agents.", code="agent_not_found"
    )


async def find_usable(tx: Transaction, lookup: AgentLookup, *, for_use: bool = False) -> Agent:
    """Return the agent that a caller means: their own, else a shared one; with `sees_all`, one of any owner. `for_use`:
    it is kept from being deleted until the transaction ends."""
    own = str(lookup.principal.owner)
    found = await store.find_agents(tx, lookup.name, None if lookup.sees_all else own, for_use=for_use)
    if lookup.owner:
        found = [agent for agent in found if agent.owner == lookup.owner]
    mine = [agent for agent in found if agent.owner == own]
    candidates = mine or found
    if not candidates:
        raise make_unknown_agent_error(lookup.name)
    if len(candidates) > 1:
        raise Conflict(
            f"{len(candidates)} users have an agent {lookup.name!r}.",
            hint="Add `owner` to say whose.",
            code="agent_ambiguous",
            details={"owners": [agent.owner for agent in candidates[:50]]},
        )
    return candidates[0]


async def find_callee(tx: Transaction, caller: Agent, name: str, run_owner: str) -> Agent | None:
    """Return the agent that a run of `caller` may ask by this name: one of the caller's owner, or a shared one."""
    found = await store.find_agents(tx, name, caller.owner)
    return next((one for one in found if is_usable_by(one, run_owner)), None)


def is_usable_by(agent: Agent, run_owner: str) -> bool:
    """Return whether an agent may run in the name of an owner: the secrets of the run's owner go where the agent sends
    them, so it is their own, or an admin has shared it."""
    return agent.is_shared or agent.owner == run_owner


def _check_shared_tools(agent: Agent, new: NewAgent, principal: Principal) -> None:
    """Raise if a caller without admin rights gives other tools to a shared agent: its users' secrets go to
    its tools."""
    if not agent.is_shared or principal.is_admin:
        return
    changed = [name for name in _TOOL_FIELDS if _read_tools(agent.settings, name) != _read_tools(new.settings, name)]
    if changed:
        raise NotAllowed(
            f"Only admins change {changed[0]} of an agent that is shared with everybody.",
            hint=f"Change a copy: corral agents clone {agent.name}",
            code="shared_agent_tools",
        )


def _read_tools(settings: Mapping[str, Any], name: str) -> list[Any]:
    """Return a setting so that it can be compared: one that is not set is empty, and rules have an order."""
    found = settings.get(name) or ()
    return list(found.items()) if isinstance(found, Mapping) else list(found)


async def _lock_editable(tx: Transaction, lookup: AgentLookup) -> Agent:
    agent = await store.lock_agent(tx, (await find_usable(tx, lookup)).id)
    if agent.owner != str(lookup.principal.owner) and not lookup.principal.is_admin:
        raise NotAllowed(
            "Only its owner and admins change a shared agent.",
            hint=f"Make a copy of your own: corral agents clone {agent.name}",
        )
    return agent


async def _check_model_name(tx: Transaction, name: str) -> None:
    model = await model_store.find_own_name(tx, name)
    if model is not None:
        raise Conflict(
            f"{name!r} is already the name of a model.",
            hint="Choose another name: requests for a model are always answered by the model.",
            code="name_of_model",
        )


async def _find_free_name(tx: Transaction, agent: Agent, principal: Principal) -> str:
    owned = {one.name for one in await store.list_agents(tx, str(principal.owner), shared=False)}
    base = agent.name[: policy.NAME_MAX - len(COPY_SUFFIX) - 4] + COPY_SUFFIX
    names = [base, *(f"{base}-{number}" for number in range(2, AGENTS_OF_OWNER_MAX + 2))]
    return next(name for name in names if name not in owned)


async def _compute_first_run(tx: Transaction, config: AgentConfig, status: AgentStatus = AgentStatus.ACTIVE) -> Any:
    if not config.standalone_job or status is AgentStatus.PAUSED:
        return None
    return await read_now(tx) + timedelta(seconds=config.period_s)


def _has_other_schedule(agent: Agent, config: AgentConfig) -> bool:
    previous = policy.read_config(agent.settings)
    return (previous.standalone_job, previous.period_s) != (config.standalone_job, config.period_s)


async def cancel_runs(tx: Transaction, matching: RunFilter, actor: str) -> Sequence[RunId]:
    """Cancel the open runs that match, in the larger transaction; return the ids of those that were cancelled."""
    open_ids = await run_store.list_open_ids(tx, agent_id=matching.agent_id, thread_id=matching.thread_id)
    return [run_id for run_id in open_ids if await actions.cancel_run_in(tx, run_id, actor)]


async def _record(tx: Transaction, principal: Principal, action: str, agent: Agent) -> None:
    await access_store.record_audit(tx, principal.name, f"agent.{action}", agent.id, agent.name)
