"""Turns of agents: a message becomes a run, and the run's answer becomes messages of its thread.

Guarantees: a message is stored with the run that answers it, or neither is. A turn knows every turn of its thread that
ended before it began, at whichever frontend and worker. Turns of one thread follow one another, or a new one cancels
those before it. What an agent may do is read when the turn begins, so an edit counts for turns that wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from corral.agents.service import (
    AgentLookup,
    AgentService,
    cancel_runs,
    find_callee,
    find_usable,
    is_usable_by,
    lock_thread_scope,
    make_scope,
    make_unknown_server_error,
    require_person,
)
from corral.agents.skills import offer_skills
from corral.domain.access import Owner, Principal
from corral.domain.agent import Agent, AgentConfig, AgentStatus, Thread
from corral.domain.collection import Collection
from corral.domain.errors import Conflict, InvalidRequest, NotAllowed, NotFound, TooLarge
from corral.domain.run import Run, RunBudgets, RunId, RunKind, RunState
from corral.knowledge.agent_memory import MEMORY_FIELDS, AgentMemory, Memory
from corral.policy import agents as policy
from corral.runs.pool import RunEnding
from corral.runs.service import RunService
from corral.store import agents as store
from corral.store.database import Database, Transaction
from corral.store.runs import NewRun, RunFilter

MESSAGE_CHARS_MAX = 200_000
# A longer conversation is a program that never begins a new one.
THREAD_MESSAGES_MAX = 20_000
# Messages of a thread that are read to choose from.
READ_MESSAGES = 2 * policy.HISTORY_MESSAGES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedTurn:
    """Names the run and the conversation of an LLM agent's turn that was started, and the runs it cancelled."""

    run_id: RunId
    thread_id: str
    cancelled: Sequence[RunId] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """Messages that an LLM agent's turn answers, and for a call of the OpenAI API all that its caller sent."""

    messages: Sequence[Mapping[str, Any]]
    history: Sequence[Mapping[str, Any]] = ()
    # Added to the agent's own instructions.
    instructions: str = ""
    client_tools: Sequence[Mapping[str, Any]] = ()
    # The tool call of another turn that this one answers.
    call_id: str = ""
    # Fields of `wire.run_work.RunOptionsSpec` that take the place of the agent's own.
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "messages": [dict(message) for message in self.messages],
            "history": [dict(message) for message in self.history],
            "instructions": self.instructions,
            "client_tools": [dict(tool) for tool in self.client_tools],
            "options": dict(self.options),
            **({"call_id": self.call_id} if self.call_id else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOwner:
    """Names the owner of a run: the user who may see it, and the API key whose models and limits count."""

    owner: Owner
    name: str
    key_id: str

    @classmethod
    def from_principal(cls, principal: Principal) -> RunOwner:
        return cls(owner=require_person(principal), name=principal.name, key_id=principal.key_id)


class AgentTurnService:
    """Starts turns of LLM agents as runs, builds their work and stores their answers.

    Implements `runs.service.RunKindHandler`.
    """

    def __init__(
        self,
        database: Database,
        runs: RunService,
        agents: AgentService,
        *,
        allows_private: bool,
        default_wall_s: float,
        memory: AgentMemory,
    ) -> None:
        self.memory = memory
        self._database = database
        self._runs = runs
        self._agents = agents
        self._allows_private = allows_private
        self._default_wall_s = default_wall_s

    def find_budgets(self, agent: Agent) -> RunBudgets:
        """Return the limits of a turn of an agent."""
        return policy.read_config(agent.settings, default_wall_s=self._default_wall_s).budgets

    # --- starting ---

    async def chat_in(
        self,
        tx: Transaction,
        lookup: AgentLookup,
        text: str,
        thread_id: str | None = None,
        history: Sequence[Mapping[str, Any]] = (),
    ) -> StartedTurn:
        """Append a message to a thread, a new one without `thread_id`, and start the turn that answers it, inside a
        larger transaction. A new thread begins with the messages of `history`. `RunService.announce_cancelled` is
        called after it."""
        _check_message(text)
        if history and thread_id is not None:
            raise InvalidRequest("history: the thread has its earlier messages already.", hint="Leave one of them out.")
        caller = RunOwner.from_principal(lookup.principal)
        agent = await find_usable(tx, lookup, for_use=True)
        require_active(agent)
        config = policy.read_config(agent.settings)
        thread = await self._lock_thread(tx, agent, caller.owner, thread_id)
        cancelled: Sequence[RunId] = ()
        if config.cancels_previous and thread_id is not None:
            cancelled = await cancel_runs(tx, RunFilter(thread_id=thread.id), "a new message")
        message = {"role": "user", "content": text}
        new = await self._make_run(tx, agent, caller, TurnRequest(messages=[message]), thread_id=thread.id)
        run_id = await self._runs.admission.start(tx, new, scope=make_scope(thread.id), is_scope_new=thread_id is None)
        if history:
            await store.append_messages(tx, thread.id, history, None)
        await store.append_messages(tx, thread.id, [message], run_id, title=policy.make_title(text))
        return StartedTurn(run_id=run_id, thread_id=thread.id, cancelled=cancelled)

    async def start_in(
        self, tx: Transaction, agent: Agent, caller: RunOwner, request: TurnRequest, **more: Any
    ) -> RunId:
        """Start a turn without a thread inside a larger transaction. `more` are fields of `NewRun`."""
        require_active(agent)
        return await self._runs.admission.start(tx, await self._make_run(tx, agent, caller, request, **more))

    async def call(self, principal: Principal, agent: Agent, request: TurnRequest) -> RunId:
        """Start a turn for a call of the OpenAI API, which brings its conversation with it."""
        caller = RunOwner.from_principal(principal)
        async with self._database.transaction() as tx:
            locked = await store.lock_agent(tx, agent.id, for_use=True)
            return await self.start_in(tx, locked, caller, request)

    async def _lock_thread(self, tx: Transaction, agent: Agent, owner: Owner, thread_id: str | None) -> Thread:
        if thread_id is None:
            return await self._agents.add_thread_in(tx, agent, owner)
        await lock_thread_scope(tx, thread_id)
        thread = await store.get_thread(tx, thread_id, agent.id, str(owner))
        if thread.last_seq >= THREAD_MESSAGES_MAX:
            raise Conflict(
                f"The thread has {THREAD_MESSAGES_MAX} messages, which is the limit.",
                hint="Begin a new thread: leave `thread_id` out.",
                code="thread_full",
            )
        return thread

    async def _make_run(
        self, tx: Transaction, agent: Agent, caller: RunOwner, request: TurnRequest, **more: Any
    ) -> NewRun:
        if not is_usable_by(agent, str(caller.owner)):
            raise NotAllowed(
                f"Agent {agent.name} is not yours and not shared, so only its owner can talk to it.",
                hint=f"Talk to a copy: corral agents clone {agent.name}",
            )
        config = policy.read_config(agent.settings)
        return NewRun(
            kind=RunKind.AGENT_TURN,
            owner=caller.owner,
            owner_name=caller.name,
            key_id=caller.key_id,
            subject=agent.name,
            request=request.to_json(),
            budgets=self.find_budgets(agent),
            selector=config.selector,
            session_key=policy.make_session_key(str(caller.owner), await self._list_servers(tx, config)),
            agent_id=agent.id,
            **more,
        )

    # --- what a worker gets, and what follows from the end ---

    async def build_spec(self, tx: Transaction, run: Run) -> dict[str, Any]:
        agent = await store.find_agent(tx, run.agent_id) if run.agent_id else None
        if agent is None:
            raise NotFound("The agent of this run was deleted.", code="agent_not_found")
        if not is_usable_by(agent, run.owner):
            raise NotFound("The agent of this run is not shared any more.", code="agent_not_found")
        config, request = policy.read_config(agent.settings), run.request
        history = list(request.get("history") or ())
        if run.thread_id is not None:
            read = await store.list_newest_messages(tx, run.thread_id, READ_MESSAGES)
            history = [dict(message) for message in policy.select_history(read, run.id)]
        servers = await self._list_servers(tx, config)
        own = config.system_prompt.strip() or policy.DEFAULT_INSTRUCTIONS
        skills = await offer_skills(tx, agent, config.skills, run.owner)
        return {
            "model": config.model,
            "instructions": "\n\n".join(filter(None, (own, skills.prompt, str(request.get("instructions") or "")))),
            "history": history,
            "messages": list(request["messages"]),
            "client_tools": list(request.get("client_tools") or ()),
            "mcp_servers": servers,
            "tool_rules": dict(config.tool_rules),
            "skills": skills.specs,
            "agents": await _list_callable(tx, agent, config, run.owner) if run.depth < policy.DEPTH_MAX else [],
            "options": _make_options(config) | dict(request.get("options") or {}),
            # Computed again: an admin may have changed a server since the run was requested.
            "session_key": policy.make_session_key(run.owner, servers),
            "extra": {"knowledge": await self.memory.describe(tx, run, agent.name, config)},
        }

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None:
        run = ending.run
        if ending.state is not RunState.COMPLETED:
            return
        await self._remember(tx, ending)
        if run.thread_id is not None:
            await store.append_messages(tx, run.thread_id, policy.list_answer_messages(ending.outcome), run.id)

    async def _remember(self, tx: Transaction, ending: RunEnding) -> None:
        """Store what the agent remembers of a turn: its worker has made that of the conversation."""
        result = ending.outcome.get("result")
        found = result.get("memories") if isinstance(result, Mapping) else None
        if not found:
            return
        agent = await store.find_agent(tx, ending.run.agent_id) if ending.run.agent_id else None
        config = policy.read_config(agent.settings) if agent is not None else AgentConfig()
        if agent is None or not config.remembers:
            return
        memories = [Memory(part=str(one[0]), text=str(one[1])) for one in found if len(one) == MEMORY_FIELDS]
        await self.memory.keep_turn(tx, ending.run, agent.name, config, memories)

    async def find_searched(self, tx: Transaction, run: Run) -> tuple[Collection, int]:
        """Return the collection that a turn searches, and how many results it wants. Raises `NotFound`."""
        agent = await store.find_agent(tx, run.agent_id) if run.agent_id else None
        if agent is None:
            raise NotFound("The agent of this run was deleted.", code="agent_not_found")
        config = policy.read_config(agent.settings)
        return await self.memory.find(tx, run, agent.name, config), config.kb_results

    async def _list_servers(self, tx: Transaction, config: AgentConfig) -> list[dict[str, Any]]:
        """Return the MCP servers of an agent as workers get them, with references in place of secrets."""
        for server in config.mcp_servers:
            policy.check_address(server.url, allows_private=self._allows_private)
        declared = {server.name: server for server in await store.list_servers(tx, config.declared_servers)}
        missing = [name for name in config.declared_servers if name not in declared]
        if missing:
            raise make_unknown_server_error(missing[0])
        return [
            policy.make_remote_spec(server, allows_private=self._allows_private) for server in config.mcp_servers
        ] + [policy.make_declared_spec(declared[name]) for name in config.declared_servers]


def require_active(agent: Agent) -> None:
    """Raise `Conflict` if an agent is paused."""
    if agent.status is AgentStatus.PAUSED:
        raise Conflict(
            f"Agent {agent.name} is paused.", hint=f"Resume it: corral agents resume {agent.name}", code="agent_paused"
        )


def _check_message(text: str) -> None:
    if not text.strip():
        raise InvalidRequest("message: the text is empty.", hint="Send a text.", code="empty_message")
    if len(text) > MESSAGE_CHARS_MAX:
        raise TooLarge(f"message: longer than {MESSAGE_CHARS_MAX} characters.", hint="Split it into several messages.")


async def _list_callable(tx: Transaction, agent: Agent, config: AgentConfig, run_owner: str) -> list[dict[str, Any]]:
    """Return the agents that a run of an agent may call. Deleted and paused ones are left out."""
    found = []
    for name in config.agents:
        callee = await find_callee(tx, agent, name, run_owner)
        if callee is not None and callee.status is AgentStatus.ACTIVE:
            found.append({"name": name, "description": str(callee.settings.get("description", ""))})
    return found


def _make_options(config: AgentConfig) -> dict[str, Any]:
    return {
        "tool_mode": config.tool_mode,
        "tool_choice": config.tool_choice,
        "max_attempts": config.max_attempts,
        "loop_detection": config.loop_detection,
        "compaction_tokens": config.compaction_tokens,
        "strips_thinking": config.strips_thinking,
        "temperature": config.temperature,
        "max_tokens": config.max_tokens,
    }
