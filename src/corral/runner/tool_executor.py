"""Executes the tool calls of one run: checks them, waits for people, calls servers and agents, reports what happened.

Whatever goes wrong with a call becomes its result, so that the model can go on: an unknown tool, bad arguments, a
refusal, a server that has died. Calls of one step run beside each other, at most eight at a time; each reports its
result when it has it.

Guarantee: a call that may have effects begins only after a frontend has stored that it does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mcp_types import CallToolResult, TextContent

from corral.domain.errors import CorralError
from corral.domain.run import APPROVAL_LIMIT_S, RunEventType
from corral.runner.approvals import ApprovalRegistry
from corral.runner.budget_tracker import BudgetTracker
from corral.runner.knowledge import RunKnowledge
from corral.runner.mcp_pool import McpPool
from corral.runner.run_deadline import RunDeadline
from corral.runner.schema_checker import find_problem
from corral.runner.secret_masker import SecretMasker
from corral.runner.server_reads import read_from_server
from corral.runner.skill_reader import SkillReader
from corral.runner.tool_catalog import RunTool, RunToolCatalog, ToolKind, ToolRule
from corral.runner.tool_files import ToolFileKeeper
from corral.runner.transcript import Transcript
from corral.wire.run_work import ApprovalDecision, McpServerSpec

CALLS_AT_ONCE = 8
RESULT_BYTES_MAX = 32 * 1024
_NAMED_TOOLS_MAX = 50


class EventEmitter(Protocol):
    """Callable that sends one entry of a run's trace from the runner process to the worker."""

    async def __call__(self, event_type: RunEventType, data: Mapping[str, Any], tool: str = "") -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutorDeps:
    """Dependencies of the tool calls of one run: tools, MCP sessions, approvals and trace."""

    emit: EventEmitter
    catalog: RunToolCatalog
    budget: BudgetTracker
    transcript: Transcript
    approvals: ApprovalRegistry
    deadline: RunDeadline
    pool: McpPool
    masker: SecretMasker
    session_key: str
    servers: Mapping[str, McpServerSpec]
    # Ask another agent: name, message, call id. Raises `CorralError`.
    ask_agent: Callable[[str, str, str], Awaitable[str]]
    # Wait until a frontend has stored all entries so far. Raises `CorralError`.
    flush: Callable[[], Awaitable[None]]
    files: ToolFileKeeper
    skills: SkillReader
    knowledge: RunKnowledge


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """One tool call of a model's step that is to be executed. `arguments` is None if they are not a JSON object."""

    call_id: str
    name: str
    arguments: Mapping[str, Any] | None
    raw: str = ""


@dataclass(frozen=True, slots=True)
class _ToolResult:
    """Holds the text that a call gives to the model."""

    text: str
    is_error: bool = False


class ToolExecutor:
    """Executes the tool calls of one run in the runner process, with a person's approval where a rule demands it."""

    def __init__(self, deps: ToolExecutorDeps) -> None:
        self._deps = deps
        self._slots = asyncio.Semaphore(CALLS_AT_ONCE)

    def knows(self, name: str) -> bool:
        """Return whether there is a tool with this name."""
        return self._deps.catalog.find(name) is not None

    async def execute(self, call: PendingCall) -> str:
        """Execute one call and return its result for the model."""
        tool = self._deps.catalog.find(call.name)
        problem = self._find_problem(tool, call)
        if tool is None or call.arguments is None or problem is not None:
            self._deps.budget.add_unusable()
            return await self._refuse(call, problem or "The call cannot be used.")
        if not self._deps.budget.may_call():
            self._deps.budget.refuse_call()
            return await self._refuse(call, "This call was not executed: the run may make no more tool calls.")
        self._deps.budget.add_call(call.name, call.arguments)
        refusal = await self._find_refusal(tool, call, call.arguments)
        if refusal is not None:
            return await self._refuse(call, refusal)
        async with self._slots:
            await self._report_call(call, is_repeatable=tool.is_repeatable)
            result = await self._call(tool, call, call.arguments)
        return await self._report_result(call, result)

    def _find_problem(self, tool: RunTool | None, call: PendingCall) -> str | None:
        if tool is None:
            names = [known.name for known in self._deps.catalog][:_NAMED_TOOLS_MAX]
            return f"There is no tool {call.name}. The tools are: {', '.join(names)}."
        if call.arguments is None:
            return f"The arguments of {call.name} are no JSON object: {call.raw[:200]}"
        problem = find_problem(tool.schema, dict(call.arguments))
        return None if problem is None else f"The arguments of {call.name} do not match its schema: {problem}"

    async def _find_refusal(self, tool: RunTool, call: PendingCall, arguments: Mapping[str, Any]) -> str | None:
        """Return why a call must not be executed, after a person was consulted where the rule says so."""
        if tool.rule is ToolRule.DENY:
            return f"Calls of {tool.name} are not allowed."
        if tool.rule is ToolRule.AUTO:
            return None
        shown = {"call_id": call.call_id, "name": call.name}
        with self._deps.deadline.pause():
            await self._emit(RunEventType.APPROVAL_REQUESTED, call, {**shown, "arguments": _cut_arguments(arguments)})
            decision = await self._wait_decision(call.call_id)
        resolved = {**shown, "approved": decision.approved, "reason": decision.reason}
        await self._emit(RunEventType.APPROVAL_RESOLVED, call, resolved)
        if decision.approved:
            return None
        reason = f" Reason: {decision.reason}" if decision.reason else ""
        return f"A person has refused this call of {tool.name}.{reason}"

    async def _wait_decision(self, call_id: str) -> ApprovalDecision:
        try:
            async with asyncio.timeout(APPROVAL_LIMIT_S):
                return await self._deps.approvals.wait(call_id)
        except TimeoutError:
            return ApprovalDecision(approved=False, reason="No decision was made in time.")

    async def _call(self, tool: RunTool, call: PendingCall, arguments: Mapping[str, Any]) -> _ToolResult:
        try:
            if not tool.is_repeatable:
                # A worker that is lost from here on takes the run with it: no worker makes this call again. Also,
                # a worker whose run was given to another one gets no further than this.
                await self._deps.flush()
            if tool.kind is ToolKind.AGENT:
                return _ToolResult(
                    await self._deps.ask_agent(tool.target, str(arguments.get("message", "")), call.call_id)
                )
            if tool.kind is ToolKind.SKILL:
                return _ToolResult(await self._deps.skills.read(arguments))
            if tool.kind is ToolKind.KNOWLEDGE:
                return _ToolResult(await self._deps.knowledge.call_tool(tool.target, arguments, call.call_id))
            server = self._deps.servers[tool.server]
            async with self._deps.pool.use(self._deps.session_key, server) as session:
                if tool.is_read:
                    result = await read_from_server(session, tool.target, arguments)
                else:
                    result = await session.call_tool(tool.target, arguments)
                return _render_result(result, await self._deps.files.keep(session, call.call_id, result))
        except CorralError as error:
            return _ToolResult(self._deps.masker.mask(error.message), is_error=True)

    async def _refuse(self, call: PendingCall, sentence: str) -> str:
        """Report a call that was not executed, and return the sentence for the model."""
        await self._report_call(call, is_repeatable=True)
        return await self._report_result(call, _ToolResult(sentence, is_error=True))

    async def _report_call(self, call: PendingCall, *, is_repeatable: bool) -> None:
        arguments = _cut_arguments(call.arguments) if call.arguments is not None else call.raw[:RESULT_BYTES_MAX]
        data = {"call_id": call.call_id, "name": call.name, "arguments": arguments, "is_repeatable": is_repeatable}
        await self._emit(RunEventType.TOOL_CALL, call, data)

    async def _report_result(self, call: PendingCall, result: _ToolResult) -> str:
        text = cut_text(self._deps.masker.mask_result(result.text))
        self._deps.transcript.add_result(call.call_id, text)
        data = {"call_id": call.call_id, "name": call.name, "content": text, "is_error": result.is_error}
        await self._emit(RunEventType.TOOL_RESULT, call, data)
        return text

    async def _emit(self, event_type: RunEventType, call: PendingCall, data: Mapping[str, Any]) -> None:
        await self._deps.emit(event_type, data, call.name[:200])


def cut_text(text: str) -> str:
    """Return a text of at most 32 KiB, with a note if something was cut."""
    data = text.encode(errors="replace")
    if len(data) <= RESULT_BYTES_MAX:
        return text
    kept = data[:RESULT_BYTES_MAX].decode(errors="ignore")
    return f"{kept}\n… (cut: the whole result has {len(data)} bytes)"


def _cut_arguments(arguments: Mapping[str, Any]) -> Mapping[str, Any] | str:
    text = json.dumps(arguments, ensure_ascii=False)
    return arguments if len(text) <= RESULT_BYTES_MAX else cut_text(text)


def _render_result(result: CallToolResult, notes: Mapping[int, str]) -> _ToolResult:
    """Return the text of a result. Models get text only: pictures and sounds are named with their size, and files that
    are kept with the path at which their owner finds them."""
    parts: list[str] = [
        item.text if isinstance(item, TextContent) else _describe_content(item, notes.get(position, ""))
        for position, item in enumerate(result.content)
    ]
    if not any(parts) and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    text = "\n".join(part for part in parts if part)
    return _ToolResult(text or "(no output)", is_error=bool(result.is_error))


def _describe_content(item: Any, note: str) -> str:
    resource = getattr(item, "resource", None)
    if resource is not None and isinstance(text := getattr(resource, "text", None), str):
        return text
    data = getattr(item, "data", None) or getattr(resource, "blob", None) or ""
    mime = getattr(item, "mime_type", None) or getattr(resource, "mime_type", None) or ""
    address = getattr(item, "uri", None) or getattr(resource, "uri", None)
    words: Sequence[str] = [str(word) for word in (item.type, mime, address) if word]
    size = f", {len(data) * 3 // 4} bytes" if data else ""
    return f"[{' '.join(words)}{size}{', ' if note else ''}{note}]"
