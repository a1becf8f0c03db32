"""One run from its specification to its outcome: tools are collected, the loop is driven, every end has a reason.

A turn does not know how it is ended from outside: `runner_process.py`, which runs it, cancels it when a person or its
deadline says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp
import structlog

from corral.domain.errors import CorralError
from corral.domain.run import SERVER_GRACE_S, RunEventType
from corral.ports.runtime import Clock
from corral.runner.approvals import ApprovalRegistry
from corral.runner.budget_tracker import BudgetTracker
from corral.runner.chat_client import ChatClient, ChatEndpoint, ModelCallError
from corral.runner.document_reader import DocumentReader
from corral.runner.embedding_client import EmbeddingClient, EmbeddingEndpoint
from corral.runner.knowledge import KNOWLEDGE_TOOLS, RunKnowledge, describe_failure
from corral.runner.mcp_pool import McpPool
from corral.runner.model_step import GuidedModelRegistry, ModelStepDeps, ModelStepExecutor
from corral.runner.run_deadline import RunDeadline
from corral.runner.secret_masker import SecretMasker
from corral.runner.server_tools import ServerToolDeps, ServerToolLoader
from corral.runner.skill_reader import REQUEST_SKILL, SKILL_SCHEMA, SkillContentCache, SkillReader
from corral.runner.tool_catalog import RunToolCatalog, ToolKind
from corral.runner.tool_executor import EventEmitter, ToolExecutor, ToolExecutorDeps
from corral.runner.tool_files import FileStorer, ToolFileKeeper
from corral.runner.transcript import Transcript, read_text
from corral.runner.turn_agent import LoopResult, RunToolset, StepModel, run_loop
from corral.runtime.attempt import AttemptFailure, attempt
from corral.wire.run_work import McpServerSpec, RunOutcome, RunSpec
from corral.wire.runner_protocol import CallMethod, ProgramLimits

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDeps:
    """Dependencies that all turns of LLM agents share in the runner process."""

    http: aiohttp.ClientSession
    pool: McpPool
    clock: Clock
    masker: SecretMasker
    guided_models: GuidedModelRegistry
    skill_cache: SkillContentCache = field(default_factory=SkillContentCache)
    # How long the first step waits for MCP servers.
    server_grace_s: float = SERVER_GRACE_S
    documents: DocumentReader = field(default_factory=lambda: DocumentReader(ProgramLimits(), {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnChannels:
    """Connects one turn in the runner process with its worker: trace entries, calls and approvals."""

    emit: EventEmitter
    # Ask another agent: name, message, call id. Raises `CorralError`.
    ask_agent: Callable[[str, str, str], Awaitable[str]]
    # Wait until a frontend has stored all entries so far. Raises `CorralError`.
    flush: Callable[[], Awaitable[None]]
    store_file: FileStorer
    # Ask a frontend through the worker: method, parameters. Raises `CorralError`.
    call: Callable[[CallMethod, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
    approvals: ApprovalRegistry
    deadline: RunDeadline


class TurnExecution:
    """Executes one turn of an LLM agent (or a task's job) in the runner process: model steps, tool calls, answer."""

    def __init__(self, spec: RunSpec, deps: TurnDeps, channels: TurnChannels) -> None:
        self._spec = spec
        self._deps = deps
        self._channels = channels
        # Sessions without a key belong to this run alone.
        self._session_key = spec.session_key or f"run:{spec.run_id}"
        self._servers = _name_servers(spec.mcp_servers)
        self._catalog = RunToolCatalog(spec.tool_rules)
        self._server_tools = self._make_tool_loader()
        self._skills = SkillReader(spec.skills, partial(channels.call, "read_skill"), deps.skill_cache)
        self._budget = BudgetTracker(spec.budgets, spec.options)
        self._transcript = Transcript(spec.instructions, [*spec.history, *spec.messages])
        self._knowledge = self._make_knowledge()

    async def run(self) -> RunOutcome:
        """Execute the run. Only cancellation passes through; every error becomes an outcome."""
        try:
            result = await attempt(self._execute)
        finally:
            await self._server_tools.close()
            if not self._spec.session_key:
                self._deps.pool.close_sessions(self._session_key)
        if isinstance(result, AttemptFailure):
            return self._describe_failure(result.error)
        return result.value

    def make_failure(
        self, code: str, sentence: str, reason: str = "answer", *, status: int | None = None
    ) -> RunOutcome:
        """Return the outcome of a run that has failed, with the messages that are complete. `status` is that of the
        response with which the model was refused."""
        return RunOutcome(
            state="failed",
            reason=reason,
            error_code=code,
            error_text=self._deps.masker.mask(sentence),
            messages=self._transcript.new,
            usage=self._budget.report(),
            result={} if status is None else {"status": status},
        )

    def make_cancelled(self) -> RunOutcome:
        """Return the outcome of a run that was cancelled, with the messages that are complete."""
        return RunOutcome(state="cancelled", messages=self._transcript.new, usage=self._budget.report())

    async def _execute(self) -> RunOutcome:
        self._catalog.add_client_tools(self._spec.client_tools)
        await self._server_tools.begin()
        self._catalog.add_agents(self._spec.agents)
        if self._spec.skills:
            skill_tool = (REQUEST_SKILL, self._skills.describe(), SKILL_SCHEMA)
            self._catalog.add_runner_tools(ToolKind.SKILL, [skill_tool])
        if self._knowledge.has_tools:
            self._catalog.add_runner_tools(ToolKind.KNOWLEDGE, KNOWLEDGE_TOOLS)
        if self._catalog.left_out:
            await self._report_status(f"{self._catalog.left_out} tools are left out: the run has too many.")
        await self._search_for_message()
        stepper = self._make_stepper()
        executor = self._make_executor()
        model = StepModel(self._spec.model, stepper, self._transcript, self._deps.clock)
        toolset = RunToolset(self._catalog, executor, model, self._server_tools.add_late)
        result = await run_loop(model, toolset, stepper, executor)
        self._transcript.end_calls()
        more: dict[str, Any] = {} if result.is_client_call else await self._remember(result.content, stepper)
        sources = await self._cite(result)
        if stepper.is_cut:
            more["is_cut"] = True
        return self._make_outcome(result, stepper, sources, more)

    def _make_outcome(
        self, result: LoopResult, stepper: ModelStepExecutor, sources: str, more: dict[str, Any]
    ) -> RunOutcome:
        reason = "client_tool" if result.is_client_call else stepper.withheld_reason or "answer"
        return RunOutcome(
            state="completed",
            content=result.content + sources,
            reason=reason,
            messages=self._transcript.new,
            usage=self._budget.report(),
            result=more,
        )

    # --- knowledge ---

    def _make_knowledge(self) -> RunKnowledge:
        spec = self._spec
        fields = spec.extra.get("knowledge")
        fields = fields if isinstance(fields, Mapping) else {}
        endpoint = EmbeddingEndpoint(
            base_urls=spec.base_urls, model=str(fields.get("embedding_model", "")), ticket=spec.ticket
        )
        embedder = EmbeddingClient(self._deps.http, endpoint, self._deps.clock)
        return RunKnowledge(fields, embedder, self._channels.call)

    async def _search_for_message(self) -> None:
        """Show the model what its collection has on the message. Without the search the turn goes on."""
        knowledge = self._knowledge
        if knowledge.problem:
            await self._report_status(knowledge.problem, code="collection_not_found")
        if not knowledge.searches:
            return
        try:
            self._transcript.set_context(await knowledge.make_context(self._spec.messages))
        except CorralError as error:
            await self._report_status(describe_failure(error), code=error.slug)

    async def _cite(self, result: LoopResult) -> str:
        """Put the list of sources behind an answer that people read, and return it."""
        sources = self._knowledge.render_sources()
        if not sources or not result.content or result.is_client_call or self._spec.options.response_schema is not None:
            return ""
        self._transcript.extend_answer(sources)
        await self._channels.emit(RunEventType.CONTENT, {"text": sources})
        return sources

    async def _remember(self, answer: str, stepper: ModelStepExecutor) -> dict[str, Any]:
        """Return what the agent remembers of the turn, for its frontend to store."""
        spoken = [*self._spec.history, *self._spec.messages]
        summary = ""
        if self._knowledge.needs_summary:
            newest = [*self._spec.messages, {"role": "assistant", "content": answer}]
            lines = "\n".join(f"{message.get('role')}: {read_text(message)}" for message in newest)
            try:
                summary = await stepper.summarise(lines)
            except CorralError as error:
                await self._report_status(f"The turn is not remembered: {error.message}", code=error.slug)
        memories = self._knowledge.make_memories(spoken, answer, summary)
        return {"memories": [list(memory) for memory in memories]} if memories else {}

    def _make_tool_loader(self) -> ServerToolLoader:
        return ServerToolLoader(
            ServerToolDeps(
                pool=self._deps.pool,
                session_key=self._session_key,
                is_shared=bool(self._spec.session_key),
                servers=self._servers,
                catalog=self._catalog,
                report=self._report_status,
                grace_s=self._deps.server_grace_s,
                needs_tool=_must_call_tool(self._spec)
                and not (self._spec.client_tools or self._spec.agents or self._spec.skills),
            )
        )

    def _make_stepper(self) -> ModelStepExecutor:
        spec = self._spec
        endpoint = ChatEndpoint(base_urls=spec.base_urls, model=spec.model, ticket=spec.ticket)
        find_time_left = self._channels.deadline.find_time_left
        return ModelStepExecutor(
            ModelStepDeps(
                run_id=spec.run_id,
                model=spec.model,
                emit=self._channels.emit,
                client=ChatClient(self._deps.http, endpoint, self._deps.clock, find_time_left),
                catalog=self._catalog,
                budget=self._budget,
                transcript=self._transcript,
                options=spec.options,
                guided_models=self._deps.guided_models,
            )
        )

    def _make_executor(self) -> ToolExecutor:
        return ToolExecutor(
            ToolExecutorDeps(
                emit=self._channels.emit,
                catalog=self._catalog,
                budget=self._budget,
                transcript=self._transcript,
                approvals=self._channels.approvals,
                deadline=self._channels.deadline,
                pool=self._deps.pool,
                masker=self._deps.masker,
                session_key=self._session_key,
                servers=self._servers,
                ask_agent=self._channels.ask_agent,
                flush=self._channels.flush,
                files=ToolFileKeeper(self._channels.store_file),
                skills=self._skills,
                knowledge=self._knowledge,
            )
        )

    async def _report_status(self, sentence: str, **fields: str) -> None:
        masked = self._deps.masker.mask(sentence)
        log.info("run status", run_id=self._spec.run_id, message=masked)
        await self._channels.emit(RunEventType.STATUS, {"message": masked, **fields})

    def _describe_failure(self, error: Exception) -> RunOutcome:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, CorralError):
            status = error.response_status if isinstance(error, ModelCallError) else None
            return self.make_failure(error.slug, error.message, status=status)
        log.error("turn failed", run_id=self._spec.run_id, exc_info=error)
        return self.make_failure("internal", f"The run failed inside the runner: {type(error).__name__}.")


def _must_call_tool(spec: RunSpec) -> bool:
    """Return whether the first step of a run has to call a tool."""
    return "required" in (spec.options.tool_choice, spec.options.model_settings.get("tool_choice"))


def _name_servers(servers: list[McpServerSpec]) -> dict[str, McpServerSpec]:
    """Return the servers by name; of two with the same name the later one gets a number."""
    named: dict[str, McpServerSpec] = {}
    for server in servers:
        name, number = server.name, 2
        while name in named:
            name = f"{server.name}_{number}"
            number += 1
        named[name] = server.model_copy(update={"name": name})
    return named
