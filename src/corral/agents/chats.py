"""Chats of models that use MCP servers: such a request is a run, because programs and sessions live on agent nodes.

Guarantee: the servers are read when the run begins, so a change of the model counts for requests that wait; only the
chosen ones reach the worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corral.agents.turns import RunOwner, TurnRequest
from corral.domain.access import Principal
from corral.domain.run import Run, RunBudgets, RunId, RunKind
from corral.models.model_servers import select_model_servers
from corral.policy.models.tool_loop import DEFAULT_ITERATIONS, make_loop_options
from corral.runs.pool import RunEnding
from corral.runs.service import RunService
from corral.store import models as model_store
from corral.store.database import Database, Transaction
from corral.store.runs import NewRun

# A chat is not shortened: its caller decides what the model is shown.
_OPTIONS = {"compaction_tokens": 0}


class ChatRunService:
    """Starts the runs that answer chat requests with MCP servers. Implements `runs.service.RunKindHandler`."""

    def __init__(self, database: Database, runs: RunService, wall_s: float) -> None:
        self._database = database
        self._runs = runs
        # How long a chat may take.
        self.wall_s = wall_s

    async def call(
        self, principal: Principal, model: str, servers: Sequence[str] | None, request: TurnRequest
    ) -> RunId:
        """Start a chat with the named servers of a model; None: all of them. Raises `InvalidRequest` for a server that
        the model does not have."""
        caller = RunOwner.from_principal(principal)
        async with self._database.transaction() as tx:
            config = (await model_store.get_model(tx, model)).config
            selection = await select_model_servers(tx, config, str(caller.owner), servers)
            new = NewRun(
                kind=RunKind.CHAT,
                owner=caller.owner,
                owner_name=caller.name,
                key_id=caller.key_id,
                subject=config.name,
                request=request.to_json() | {"servers": None if servers is None else list(servers)},
                budgets=RunBudgets(wall_s=self.wall_s, steps=config.tool_loop.max_iterations or DEFAULT_ITERATIONS),
                session_key=selection.session_key,
            )
            return await self._runs.admission.start(tx, new)

    async def build_spec(self, tx: Transaction, run: Run) -> dict[str, Any]:
        config, request = (await model_store.get_model(tx, run.subject)).config, run.request
        selection = await select_model_servers(tx, config, run.owner, request.get("servers"))
        return {
            "model": config.name,
            "instructions": str(request.get("instructions") or ""),
            "messages": list(request["messages"]),
            "client_tools": list(request.get("client_tools") or ()),
            "mcp_servers": selection.servers,
            "options": {**_OPTIONS, **make_loop_options(config.tool_loop), **(request.get("options") or {})},
            "session_key": selection.session_key,
        }

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None:
        """Do nothing: the caller gets the answer from the trace."""
        del tx, ending
