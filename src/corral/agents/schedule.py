"""Starts the turns of agents that run by themselves, each at its interval from the time it was scheduled for.

Guarantees: one turn for each scheduled time, however many frontends there are and whichever of them leads: the row is
locked, and moved on, in the transaction that admits the turn. A paused agent does not run, and none runs while its last
scheduled turn is still open. Times that were missed are made up for by one turn, not by many. An agent that cannot run
is tried again at growing intervals, and holds up no other.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

import structlog

from corral.agents.turns import AgentTurnService, RunOwner, TurnRequest
from corral.domain.access import parse_owner
from corral.domain.agent import Agent, AgentConfig
from corral.domain.errors import InvalidRequest, LeaseLost, StoreUnavailable
from corral.domain.run import RunState, RunTrigger
from corral.policy import agents as policy
from corral.policy.deferrals import compute_next_look
from corral.policy.templates import render_template, translate_go_template
from corral.reconcile.leader import LeaderElector
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import agents as store
from corral.store import runs as run_store
from corral.store.database import Database, Transaction
from corral.store.runs import RunFilter

log = structlog.get_logger(__name__)
INTERVAL_S = 5.0
PAGE = 100
# Agents that are looked at in one pass; the next one goes on behind them.
PASS_MAX = 1000
_OPEN = frozenset(state for state in RunState if not state.is_final)


class AgentScheduler:
    """Starts the turns of autonomous LLM agents that are due. Runs on the leading frontend only."""

    def __init__(self, database: Database, leader: LeaderElector, turns: AgentTurnService) -> None:
        self._database = database
        self._leader = leader
        self._turns = turns
        # Where the last pass has ended; None: with the last agent that was due.
        self._after: tuple[datetime, str] | None = None

    async def tick(self) -> int:
        """Start the turns that are due, and return how many were started."""
        started = 0
        for _ in range(PASS_MAX // PAGE):
            async with self._database.transaction() as tx:
                await self._leader.fence(tx)
                due = await store.list_due(tx, PAGE, self._after)
            for _, agent_id in due:
                started += await self._start_guarded(agent_id)
            self._after = due[-1] if len(due) == PAGE else None
            if self._after is None:
                break
        return started

    async def _start_guarded(self, agent_id: str) -> bool:
        """Start the turn of one agent; whatever keeps it from running concerns this agent only."""
        outcome = await attempt(partial(self._start_due, agent_id))
        if not isinstance(outcome, AttemptFailure):
            return outcome.value
        if isinstance(outcome.error, StoreUnavailable | LeaseLost):
            raise outcome.error
        log.info("an autonomous agent could not run", agent=agent_id, problem=outcome.sentence)
        await self._defer(agent_id)
        return False

    async def _start_due(self, agent_id: str) -> bool:
        async with self._database.transaction() as tx:
            await self._leader.fence(tx)
            taken = await store.take_due(tx, agent_id)
            return taken is not None and await self._start(tx, *taken)

    async def _defer(self, agent_id: str) -> None:
        """Leave an agent out for a moment. Its time stays, so that it runs as soon as it can."""
        async with self._database.transaction() as tx:
            await self._leader.fence(tx)
            taken = await store.take_due(tx, agent_id)
            if taken is not None and taken[0].next_run_at is not None:
                await store.defer_run(tx, agent_id, compute_next_look(taken[0].next_run_at, taken[1]))

    async def _start(self, tx: Transaction, agent: Agent, now: datetime) -> bool:
        config = policy.read_config(agent.settings)
        assert agent.next_run_at is not None, "the agent is due"
        next_at = policy.compute_next_run(agent.next_run_at, config.period_s, now)
        matching = RunFilter(agent_id=agent.id, states=_OPEN, trigger=RunTrigger.SCHEDULE)
        text = None if await run_store.count_runs(tx, matching) else _fill_message(agent, config, now)
        if text is not None:
            owner = parse_owner(agent.owner)
            caller = RunOwner(owner=owner, name=agent.owner_name, key_id=owner.credential_id)
            request = TurnRequest(messages=[{"role": "user", "content": text}])
            await self._turns.start_in(tx, agent, caller, request, trigger=RunTrigger.SCHEDULE)
        await store.write_schedule(tx, agent.id, next_at, has_run=text is not None)
        return text is not None


def _fill_message(agent: Agent, config: AgentConfig, now: datetime) -> str | None:
    """Return the message of a turn: the inner monologue of the agent with its goal. None if the template cannot be
    filled."""
    goal = config.permanent_goal
    values = {"goal": goal, "Goal": goal, "name": agent.name, "now": now.isoformat(timespec="seconds")}
    template = config.inner_monologue_template.strip() or policy.DEFAULT_MONOLOGUE
    try:
        return render_template(translate_go_template(template), values)
    except InvalidRequest as error:
        log.info("an autonomous agent has a template that cannot be filled", agent=agent.id, problem=error.message)
        return None
