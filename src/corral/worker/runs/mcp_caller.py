"""Calls MCP servers of models for frontends: outside of runs, and without taking the place of one.

Guarantees: a call beyond `CALLS_MAX` is refused at once, so that a frontend can try another node; calls do not wait for
each other; each ends within the limits of its server. How a server is reached is fetched from a frontend for each call,
so a changed configuration counts at once, and no secret is kept here or was on the bus.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import cast, get_args

from corral.bus.codec import MAX_MESSAGE_BYTES
from corral.bus.messages import CallMcpServer, CallMcpServerReply
from corral.domain.errors import InvalidRequest, Unavailable
from corral.wire.run_work import McpServerFetchIn
from corral.wire.runner_protocol import McpAction, McpMessage, McpResultMessage
from corral.worker.control_plane import RunControlPlane
from corral.worker.runs.runner_supervisor import RunnerSupervisor

# Each may wait for minutes and costs next to nothing while it does.
CALLS_MAX = 100
# What an answer may have; beside it a reply has a few words.
RESULT_BYTES_MAX = MAX_MESSAGE_BYTES - 16 * 1024
# How much longer than its limits a server gets before the call is given up here: the runner does so first.
GRACE_S = 20.0


class McpCaller:
    """Carries out the bus command `mcp.call` at a worker: calls an MCP server outside of any run."""

    def __init__(self, control: RunControlPlane, runner: RunnerSupervisor, boot_id: str) -> None:
        self._control = control
        self._runner = runner
        self._boot_id = boot_id
        self._numbers = itertools.count(1)
        self._active = 0

    async def call(self, command: CallMcpServer, node_id: str) -> CallMcpServerReply:
        """Call a server and return its answer, or why there is none. Raises `Unavailable` if this worker cannot."""
        if command.action not in get_args(McpAction):
            raise InvalidRequest(f"This worker knows no call {command.action[:40]!r} of MCP servers.")
        if self._active >= CALLS_MAX:
            raise Unavailable(
                f"This worker already makes {CALLS_MAX} calls of MCP servers.",
                hint="Call again in a few seconds.",
                code="worker_busy",
            )
        self._active += 1
        try:
            return await self._call(command, node_id)
        finally:
            self._active -= 1

    async def _call(self, command: CallMcpServer, node_id: str) -> CallMcpServerReply:
        fetched = await self._control.fetch_mcp_server(node_id, McpServerFetchIn(ticket=command.ticket))
        message = McpMessage(
            id=f"{self._boot_id}:{next(self._numbers)}",
            session_key=fetched.session_key,
            server=fetched.server,
            # Checked before anything was fetched.
            action=cast("McpAction", command.action),
            params=dict(command.params),
        )
        try:
            async with asyncio.timeout(fetched.server.connect_s + fetched.server.call_s + GRACE_S):
                return self._make_reply(await self._runner.call_server(message), fetched.server.name)
        except TimeoutError:
            problem = f"MCP server {fetched.server.name} did not answer in time."
            return CallMcpServerReply(boot_id=self._boot_id, problem_code="mcp_unavailable", problem=problem)

    def _make_reply(self, answer: McpResultMessage, server: str) -> CallMcpServerReply:
        if answer.error is not None:
            code, problem = answer.error.code, answer.error.message
        elif len(answer.model_dump_json().encode()) > RESULT_BYTES_MAX:
            code = "too_large"
            problem = f"The answer of MCP server {server} is larger than {RESULT_BYTES_MAX >> 10} KiB."
        else:
            return CallMcpServerReply(boot_id=self._boot_id, result=answer.result or {})
        return CallMcpServerReply(boot_id=self._boot_id, problem_code=code, problem=problem)
