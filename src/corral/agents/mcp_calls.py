"""Calls of MCP servers of models outside of runs: what a server offers, its prompts and its resources.

A call is a request on the bus to one agent node, which fetches over HTTP how the server is reached; a frontend starts
no program and opens no connection to a server itself. Guarantees: servers are called beside each other, so one that is
dead delays only its own entry; calls of an owner for a model prefer one node, where the sessions are warm; a node that
cannot take a call is passed over, and one that is lost during a call is noticed. Calls take no place of a run, and
their number is bounded. Limit: an answer fits into one message of the bus.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.bus.messages import CallMcpServer, CallMcpServerReply
from corral.bus.subjects import MCP_CALL
from corral.domain.access import Principal, can_use_model
from corral.domain.errors import (
    BusUnavailable,
    CorralError,
    InvalidRequest,
    LimitReached,
    NotFound,
    Unavailable,
    Unprocessable,
)
from corral.domain.model import Model
from corral.domain.node import Liveness, Node
from corral.models.model_servers import ModelServerSelection, select_model_servers
from corral.policy.runs import rank_session_nodes
from corral.ports.bus import Bus
from corral.ports.credentials import FRONTENDS_AUDIENCE, BusCredentialIssuer, make_mcp_call_scope
from corral.runs.admission import require_run_node
from corral.runs.pool import list_places
from corral.runtime.attempt import AttemptFailure, attempt
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store import run_places as place_store
from corral.store.database import Database, Transaction

# Calls of one owner at a time at one frontend: a model with all of its servers, and a few more.
CALLS_OF_OWNER_MAX = 64
CALLS_MAX = 400
# A worker fetches the server at once; the clocks of machines differ a little.
TICKET_S = 60.0
# How many nodes are tried, one after the other.
NODES_TRIED_MAX = 3
# How often a frontend looks whether the worker that makes a call is still there.
LOOK_S = 5.0
ARGUMENTS_MAX = 100
ARGUMENT_CHARACTERS_MAX = 64 * 1024
_PASSED_OVER = frozenset({"worker_busy", "worker_stopping", "worker_starting", "runner_lost", "node_unreachable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class McpCallDeps:
    """Dependencies of a frontend for calling MCP servers of models."""

    database: Database
    bus: Bus
    credentials: BusCredentialIssuer


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServerReport:
    """What one MCP server of a model offers (tools, prompts, resources), or why that is unknown.

    Items are those of the MCP specification.
    """

    name: str
    is_program: bool = False
    tools: Sequence[Mapping[str, Any]] = ()
    prompts: Sequence[Mapping[str, Any]] = ()
    resources: Sequence[Mapping[str, Any]] = ()
    error: CorralError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModelSession:
    """Holds one owner's use of a model's servers: who it is for, the servers, and the nodes in the order of trial."""

    model: str
    owner: str
    selection: ModelServerSelection
    nodes: Sequence[Node] = ()


class McpCallService:
    """Calls MCP servers of models for people, by bus commands to workers."""

    def __init__(self, deps: McpCallDeps) -> None:
        self._deps = deps
        self._active: Counter[str] = Counter()

    async def select(self, owner: str, model: str, server: str) -> ModelServerSelection:
        """Return one server of a model for the worker that was sent a ticket for it."""
        async with self._deps.database.transaction() as tx:
            found = await model_store.get_model(tx, model)
            return await select_model_servers(tx, found.config, owner, [server])

    async def describe(
        self, principal: Principal, model: str, names: Sequence[str] | None = None
    ) -> tuple[str, list[ModelServerReport]]:
        """Return the model's own name, and what each of its servers offers; with names, only these servers."""
        session = await self._open(principal, model, names, allows_missing=True)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._describe(session, server)) for server in session.selection.servers]
        reports = [task.result() for task in tasks]
        for name in session.selection.missing:
            error = NotFound(
                f"MCP server {name} is not declared any more.",
                hint="Declare it again with `corral mcp servers set`, or take it out of the model.",
                code="mcp_server_not_found",
            )
            reports.append(ModelServerReport(name=name, error=error))
        return session.model, reports

    async def get_prompt(
        self, principal: Principal, model: str, prompt: str, arguments: Mapping[str, str], server: str = ""
    ) -> Mapping[str, Any]:
        """Return the messages of a prompt, which is named alone or as `server__prompt`."""
        too_long = any(len(value) > ARGUMENT_CHARACTERS_MAX for value in arguments.values())
        if len(arguments) > ARGUMENTS_MAX or too_long:
            raise InvalidRequest(f"arguments: more than {ARGUMENTS_MAX}, or one is too long.", code="bad_arguments")
        session = await self._open(principal, model, [server] if server else None)
        known = [each["name"] for each in session.selection.servers]
        qualifier, separator, rest = prompt.partition("__")
        if not server and separator and qualifier in known:
            server, prompt = qualifier, rest
        if not server:
            server = await self._find_holder(session, "prompts", "name", prompt)
        return await self._call(session, server, "get_prompt", {"name": prompt, "arguments": dict(arguments)})

    async def read_resource(
        self, principal: Principal, model: str, uri: str, server: str = ""
    ) -> tuple[str, Mapping[str, Any]]:
        """Return the server that has a resource, and the resource's contents."""
        session = await self._open(principal, model, [server] if server else None)
        server = server or await self._find_holder(session, "resources", "uri", uri)
        return server, await self._call(session, server, "read_resource", {"uri": uri})

    # --- one model ---

    async def _open(
        self, principal: Principal, model: str, names: Sequence[str] | None, *, allows_missing: bool = False
    ) -> _ModelSession:
        owner = str(principal.owner)
        async with self._deps.database.transaction() as tx:
            found = await _get_usable_model(tx, principal, model)
            selection = await select_model_servers(tx, found.config, owner, names, allows_missing=allows_missing)
            session = _ModelSession(model=found.name, owner=owner, selection=selection)
            if not selection.servers:
                return session
            await require_run_node(tx, {})
            preferred = await place_store.find_last_node(tx, selection.session_key)
            ranked = rank_session_nodes(await list_places(tx), selection.session_key, preferred=preferred)
        if not ranked:
            raise Unavailable(
                "No agent worker is up.",
                hint="`corral nodes list` shows the nodes and their states.",
                code="no_agent_worker",
            )
        return _ModelSession(model=found.name, owner=owner, selection=selection, nodes=ranked)

    async def _describe(self, session: _ModelSession, server: Mapping[str, Any]) -> ModelServerReport:
        name, is_program = server["name"], server["transport"] == "stdio"
        try:
            answer = await self._call(session, name, "describe", {})
        except CorralError as error:
            return ModelServerReport(name=name, is_program=is_program, error=error)
        return ModelServerReport(
            name=name,
            is_program=is_program,
            tools=_list_items(answer, "tools"),
            prompts=_list_items(answer, "prompts"),
            resources=_list_items(answer, "resources"),
        )

    async def _find_holder(self, session: _ModelSession, kind: str, key: str, value: str) -> str:
        """Return the first server that offers a prompt or a resource."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._describe(session, server)) for server in session.selection.servers]
        reports = [task.result() for task in tasks]
        for report in reports:
            if any(item.get(key) == value for item in getattr(report, kind)):
                return report.name
        failed = next((report.error for report in reports if report.error is not None), None)
        if failed is not None:
            # A server that did not answer may have it, so the error is that server's and not "not found".
            raise failed
        text = f"No MCP server of model {session.model} has the {kind.removesuffix('s')} {value[:80]!r}."
        hint = f"GET /v1/mcp/{kind}/{session.model} lists them; `server` limits the search to one server."
        if kind == "prompts":
            raise NotFound(text, hint=hint, code="mcp_prompt_not_found")
        raise NotFound(text, hint=hint, code="mcp_resource_not_found")

    # --- one call ---

    async def _call(
        self, session: _ModelSession, server: str, action: str, params: Mapping[str, object]
    ) -> Mapping[str, Any]:
        """Call a server at the first node that takes the call, and return its answer."""
        owner = session.owner
        if self._active[owner] >= CALLS_OF_OWNER_MAX:
            raise LimitReached(
                f"{CALLS_OF_OWNER_MAX} of your calls of MCP servers wait for an answer, which is the limit.",
                hint="Call again when some have ended.",
                code="too_many_mcp_calls",
            )
        if self._active.total() >= CALLS_MAX:
            raise Unavailable(
                "This frontend makes too many calls of MCP servers at the moment.",
                hint="Call again in a few seconds.",
                code="busy",
            )
        self._active[owner] += 1
        try:
            reply = await self._call_any_node(session, server, action, params)
        finally:
            self._active[owner] -= 1
            if not self._active[owner]:
                del self._active[owner]
        if reply.problem:
            raise _make_server_error(reply)
        return reply.result

    async def _call_any_node(
        self, session: _ModelSession, server: str, action: str, params: Mapping[str, object]
    ) -> CallMcpServerReply:
        scope = make_mcp_call_scope(session.owner, server, session.model)
        problem: CorralError | None = None
        for node in session.nodes[:NODES_TRIED_MAX]:
            ticket = self._deps.credentials.issue_ticket(node.id, scope, audience=FRONTENDS_AUDIENCE, ttl_s=TICKET_S)
            try:
                return await self._request(node, CallMcpServer(ticket=ticket, action=action, params=params))
            except BusUnavailable:
                raise
            except Unavailable as error:
                if error.slug not in _PASSED_OVER:
                    raise
                problem = problem or error
        assert problem is not None, "there is at least one node"
        raise Unavailable(
            f"No agent worker could call MCP server {server}. {problem.message}",
            hint="`corral nodes list` shows the nodes and their states.",
            code="no_agent_worker",
        ) from problem

    async def _request(self, node: Node, command: CallMcpServer) -> CallMcpServerReply:
        """Send a call to a node. Raises `Unavailable` (runner_lost) as soon as the worker is known to be lost."""
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(attempt(lambda: self._deps.bus.request(MCP_CALL, command, node=node.id)))
            while not (await asyncio.wait({asking}, timeout=LOOK_S))[0]:
                looked = await attempt(lambda: self._is_gone(node))
                if not isinstance(looked, AttemptFailure) and looked.value:
                    asking.cancel()
                    break
        if asking.cancelled():
            raise Unavailable(f"The worker on {node.name} was lost during the call.", code="runner_lost")
        outcome = asking.result()
        if isinstance(outcome, AttemptFailure):
            raise outcome.error
        return outcome.value

    async def _is_gone(self, node: Node) -> bool:
        async with self._deps.database.transaction() as tx:
            now = next(iter(await node_store.list_nodes(tx, only=[node.id])), None)
        return now is None or now.boot_id != node.boot_id or now.liveness is not Liveness.ALIVE


async def _get_usable_model(tx: Transaction, principal: Principal, name: str) -> Model:
    found = await model_store.find_model(tx, name)
    if found is None or not can_use_model(principal, found.name, found.config.aliases):
        raise await model_store.make_unknown_error(tx, name, principal)
    return found


def _list_items(answer: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    found = answer.get(kind)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def _make_server_error(reply: CallMcpServerReply) -> CorralError:
    match reply.problem_code:
        case "mcp_call_failed":
            return Unprocessable(reply.problem, code="mcp_call_failed")
        case "too_large":
            return Unprocessable(reply.problem, code="mcp_answer_too_large")
        case "mcp_program_failed":
            return Unavailable(reply.problem, code="mcp_program_failed")
        case _:
            return Unavailable(reply.problem, code="mcp_unavailable")
