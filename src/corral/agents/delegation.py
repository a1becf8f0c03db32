"""One agent asks another as a tool: a turn of its own, in the name of the same owner, started by the first one's run.

Guarantees: the same tool call is one run, however often the worker asks, and only the worker that holds the asking run
can start it. A chain of agents is at most `DEPTH_MAX` deep, and runs that wait for others never hold all places: a
question that would make it so is refused at once. Whatever keeps an agent from answering is a text for the model.
"""

from __future__ import annotations

from dataclasses import dataclass

from corral.agents.service import find_callee
from corral.agents.turns import AgentTurnService, RunOwner, TurnRequest, require_active
from corral.domain.access import parse_owner
from corral.domain.agent import Agent
from corral.domain.errors import Conflict, CorralError, LimitReached, NotFound, StoreUnavailable, Unavailable
from corral.domain.node import NodeId
from corral.domain.run import Run, RunId, RunState, RunTrigger
from corral.policy import agents as policy
from corral.policy.runs import can_wait_for_child, list_eligible
from corral.runs.held_runs import lock_held, require_held
from corral.runs.pool import list_places
from corral.store import agents as store
from corral.store import run_places as place_store
from corral.store import runs as run_store
from corral.store.database import Database, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentQuestion:
    """A message of one LLM agent's run to another LLM agent. `call_id` is that of the tool call."""

    name: str
    message: str
    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """State of the run by which an LLM agent answers another one; `content` is its answer once completed."""

    run_id: str = ""
    state: RunState = RunState.FAILED
    content: str = ""
    error_text: str = ""


class AgentDelegationService:
    """Starts turns of LLM agents on behalf of other agents' turns, and reports their state."""

    def __init__(self, database: Database, turns: AgentTurnService) -> None:
        self._database = database
        self._turns = turns

    async def ask(self, node_id: NodeId, run_id: str, job_id: str, question: AgentQuestion) -> AgentReply:
        """Start the turn that answers a question, or return its state. Raises `Conflict` if the run is not the worker's
        any more."""
        try:
            return await self._ask(node_id, run_id, job_id, question)
        except StoreUnavailable:
            raise
        except (NotFound, LimitReached, Unavailable, _QuestionRefused) as error:
            return AgentReply(error_text=error.message)

    async def _ask(self, node_id: NodeId, run_id: str, job_id: str, question: AgentQuestion) -> AgentReply:
        async with self._database.transaction() as tx:
            parent = require_held(await run_store.find_run(tx, run_id, reads_request=False), node_id, job_id)
            child = await run_store.find_child(tx, parent.id, question.call_id)
            if child is not None:
                return _make_reply(child)
            callee = await _lock_callee(tx, parent, question.name)
            # Agents are locked before runs everywhere. Two requests for the same call wait for each other here.
            parent = await lock_held(tx, parent.id, node_id, job_id)
            child = await run_store.find_child(tx, parent.id, question.call_id)
            if child is None:
                child = await run_store.get_run(tx, await self._start(tx, parent, callee, question))
        return _make_reply(child)

    async def _start(self, tx: Transaction, parent: Run, callee: Agent, question: AgentQuestion) -> RunId:
        await _check_room(tx, parent, callee)
        caller = RunOwner(owner=parse_owner(parent.owner), name=parent.owner_name, key_id=parent.key_id)
        return await self._turns.start_in(
            tx,
            callee,
            caller,
            TurnRequest(messages=[{"role": "user", "content": question.message}], call_id=question.call_id),
            trigger=RunTrigger.AGENT,
            parent_id=parent.id,
            depth=parent.depth + 1,
        )


class _QuestionRefused(CorralError):
    """A question to an agent is not possible; the model is given the reason."""


async def _lock_callee(tx: Transaction, parent: Run, name: str) -> Agent:
    """Lock and return the agent that a run may call by this name, found in the eyes of the calling agent's owner."""
    if parent.depth >= policy.DEPTH_MAX:
        raise _QuestionRefused(f"Agents may call one another at most {policy.DEPTH_MAX} levels deep.")
    agent = await store.find_agent(tx, parent.agent_id) if parent.agent_id else None
    if agent is None or name not in policy.read_config(agent.settings).agents:
        raise _QuestionRefused(f"The agent {name[:80]!r} may not be called by this run.")
    callee = await find_callee(tx, agent, name, parent.owner)
    if callee is None:
        raise _QuestionRefused(f"There is no agent {name[:80]!r}.")
    callee = await store.lock_agent(tx, callee.id, for_use=True)
    try:
        require_active(callee)
    except Conflict as error:
        raise _QuestionRefused(error.message) from error
    return callee


async def _check_room(tx: Transaction, parent: Run, callee: Agent) -> None:
    """Raise if runs that wait for others, the asking one included, would hold every place that could take a run of the
    agent: then none of them could ever go on."""
    await place_store.lock_places(tx)
    eligible = list_eligible(await list_places(tx), policy.read_config(callee.settings).selector)
    if not can_wait_for_child(eligible, await place_store.count_waiting_parents(tx, parent.id)):
        raise _QuestionRefused(
            "Every place for runs is held by a run that waits for another one: add an agent worker, or raise max_runs."
        )


def _make_reply(child: Run) -> AgentReply:
    if child.state is RunState.COMPLETED:
        return AgentReply(run_id=child.id, state=child.state, content=str((child.result or {}).get("content", "")))
    text = (child.fault.text if child.fault else child.message) if child.state.is_final else ""
    return AgentReply(run_id=child.id, state=child.state, error_text=text)
