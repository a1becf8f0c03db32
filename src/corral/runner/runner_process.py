"""The runner process: takes runs from its worker, executes them beside each other, and answers for each of them.

Guarantee: exactly one `end` for each `start`, whatever happens to the run, and no event of it afterwards. A run that is
cancelled or out of time ends within a second, even if a tool does not let go: the rest of it ends in the background.
When the worker closes the pipe, all runs are cancelled, MCP sessions end with their programs, and the process exits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import structlog

from corral.domain.errors import CorralError
from corral.domain.run import RunEventType, RunKind, RunState
from corral.domain.state_words import say_run_state
from corral.runner.approvals import ApprovalRegistry
from corral.runner.batch import BatchChannels, BatchExecution
from corral.runner.batch_client import BatchClient, BatchEndpoint
from corral.runner.embedding_client import EmbeddingClient, EmbeddingEndpoint
from corral.runner.ingest import IngestDeps, IngestExecution
from corral.runner.mcp_session import describe_error
from corral.runner.run_deadline import RunDeadline
from corral.runner.skill_sync import SkillSyncExecution
from corral.runner.tool_executor import EventEmitter
from corral.runner.turn import TurnChannels, TurnDeps, TurnExecution
from corral.runner.worker_link import WorkerLink
from corral.runtime.attempt import AttemptFailure, attempt
from corral.runtime.tasks import TaskSet
from corral.wire.base import LenientModel
from corral.wire.run_work import ApprovalDecision, AskAgentOut, RunOutcome, RunSpec
from corral.wire.runner_protocol import (
    CallMessage,
    CallMethod,
    CancelMessage,
    CloseSessionsMessage,
    DecideMessage,
    EndMessage,
    EventMessage,
    MalformedLine,
    McpMessage,
    McpResultMessage,
    PingMessage,
    PongMessage,
    ReadyMessage,
    ReplyMessage,
    RunnerErrorBody,
    StartMessage,
    StopMessage,
)

log = structlog.get_logger(__name__)

RUNS_MAX = 256
# How long a run that is ended from outside may still need before its `end` is sent.
LET_GO_S = 0.8


class FrontendCallFailed(CorralError):
    """A frontend could not do what the run needs.

    The code is that of the frontend.
    """

    code = "frontend_call_failed"


class AgentCallFailed(CorralError):
    """Another LLM agent could not be called, or its run has failed."""

    code = "agent_call_failed"


class TraceNotStored(CorralError):
    """The worker cannot have the trace of the run stored now."""

    code = "trace_not_stored"


@dataclass(slots=True, eq=False)
class _ActiveRun:
    """Holds a run that is being executed."""

    spec: RunSpec
    # Set from outside: "cancelled" or "wall_clock".
    interruption: asyncio.Future[str]
    approvals: ApprovalRegistry = field(default_factory=ApprovalRegistry)
    has_ended: bool = False

    def interrupt(self, reason: str) -> None:
        if not self.interruption.done():
            self.interruption.set_result(reason)


class RunExecution(Protocol):
    """Interface of the execution of one run (LLM agent's turn, task, batch) in the runner process.

    It also makes the outcome if the run is ended from outside.
    """

    async def run(self) -> RunOutcome: ...

    def make_failure(self, code: str, sentence: str, reason: str = ...) -> RunOutcome: ...

    def make_cancelled(self) -> RunOutcome: ...


class RunnerProcess:
    """Main object of the runner process, which executes runs for one worker until the worker says `stop`.

    It also ends when the worker closes the pipe.
    """

    def __init__(self, link: WorkerLink, deps: TurnDeps) -> None:
        self._link = link
        self._deps = deps
        self._runs: dict[str, _ActiveRun] = {}
        self._calls: dict[str, asyncio.Future[ReplyMessage]] = {}
        self._call_count = 0
        # What answers for runs; what executes them, and may take longer to let go; everything else.
        self._supervisors = TaskSet("runner-supervisors")
        self._turns = TaskSet("runner-turns")
        self._tasks = TaskSet("runner")
        self._is_stopping = False
        self._finished = asyncio.Event()

    async def serve(self, pid: int, version: str) -> None:
        """Serve until the pipe is closed, or all runs have ended after `stop`."""
        self._link.on_broken = self.shut_down
        await self._link.send(ReadyMessage(pid=pid, version=version))
        self._tasks.start(self._read(), name="read")
        await self._finished.wait()
        for run in self._runs.values():
            run.interrupt("cancelled")
        await self._supervisors.join()
        await self._tasks.close()
        await self._deps.pool.close()
        await self._turns.close()

    def shut_down(self) -> None:
        """Cancel all runs and finish, as if the worker had closed the pipe."""
        self._is_stopping = True
        self._finished.set()

    async def _read(self) -> None:
        async for message in self._link.read():
            await self._handle(message)
        self.shut_down()

    async def _handle(self, message: LenientModel | MalformedLine) -> None:
        match message:
            case StartMessage():
                await self._start(message)
            case CancelMessage() | DecideMessage():
                self._pass_on(message)
            case ReplyMessage():
                self._resolve_call(message)
            case McpMessage():
                self._tasks.start(self._call_server(message), name="mcp")
            case CloseSessionsMessage():
                self._deps.pool.close_sessions(message.session_key)
            case PingMessage():
                await self._link.send(PongMessage())
            case StopMessage():
                self._is_stopping = True
                self._finish_if_idle()
            case MalformedLine():
                await self._answer_malformed(message)

    def _pass_on(self, message: CancelMessage | DecideMessage) -> None:
        run = self._runs.get(message.run_id)
        if run is None:
            return
        if isinstance(message, CancelMessage):
            run.interrupt("cancelled")
        else:
            decision = ApprovalDecision(approved=message.approved, reason=message.reason)
            run.approvals.decide(message.call_id, decision)

    async def _start(self, message: StartMessage) -> None:
        run_id = message.run_id
        if run_id in self._runs:
            # The `end` of the run that is active answers for both.
            log.warning("run is active already", run_id=run_id)
        elif self._is_stopping:
            await self._refuse(run_id, "runner_stopping", "The runner is stopping and starts no more runs.")
        elif len(self._runs) >= RUNS_MAX:
            await self._refuse(run_id, "runner_full", f"The runner already executes {RUNS_MAX} runs.")
        else:
            spec = message.spec.model_copy(update={"run_id": run_id})
            run = _ActiveRun(spec=spec, interruption=asyncio.get_running_loop().create_future())
            self._runs[run_id] = run
            self._supervisors.start(self._supervise(run), name=f"run-{run_id}")

    async def _refuse(self, run_id: str, code: str, sentence: str) -> None:
        outcome = RunOutcome(state="failed", error_code=code, error_text=sentence)
        await self._link.send(EndMessage(run_id=run_id, outcome=outcome))

    async def _answer_malformed(self, error: MalformedLine) -> None:
        """Answer a message that is invalid but names its run or call, so that the worker does not wait for it."""
        body = RunnerErrorBody(code="invalid_request", message=error.message)
        run_id, message_id = error.details.get("run_id"), error.details.get("id")
        match error.details.get("type"):
            case "start" if isinstance(run_id, str) and run_id not in self._runs:
                await self._refuse(run_id, "spec_invalid", error.message)
            case "mcp" if isinstance(message_id, str):
                await self._link.send(McpResultMessage(id=message_id, error=body))
            case "reply" if isinstance(message_id, str):
                self._resolve_call(ReplyMessage(id=message_id, error=body))
            case _:
                pass

    async def _supervise(self, run: _ActiveRun) -> None:
        """Execute a run and send its `end`."""
        run_id = run.spec.run_id
        self._deps.masker.add_run(run.spec)
        execution = self._turns.start(self._execute(run), name=run_id)
        await asyncio.wait({execution})
        if execution.cancelled() or execution.exception() is not None:
            outcome = RunOutcome(state="failed", error_code="internal", error_text="The run failed inside the runner.")
        else:
            outcome = execution.result()
        run.has_ended = True
        del self._runs[run_id]
        smaller = outcome.model_copy(update={"messages": [], "content": outcome.content[:100_000]})
        await self._link.send_or(EndMessage(run_id=run_id, outcome=outcome), EndMessage(run_id=run_id, outcome=smaller))
        self._finish_if_idle()

    async def _execute(self, run: _ActiveRun) -> RunOutcome:
        deadline = RunDeadline(run.spec.budgets.wall_s, lambda: run.interrupt("wall_clock"))
        channels = TurnChannels(
            emit=self._make_emitter(run),
            ask_agent=self._make_asker(run),
            flush=partial(self._flush, run),
            store_file=partial(self._ask_frontend, run.spec.run_id, "store_file"),
            call=partial(self._ask_frontend, run.spec.run_id),
            approvals=run.approvals,
            deadline=deadline,
        )
        turn: RunExecution
        if run.spec.kind == RunKind.BATCH:
            turn = self._make_batch(run, channels.emit)
        elif run.spec.kind == RunKind.SKILL_SYNC:
            turn = SkillSyncExecution(run.spec, partial(self._ask_frontend, run.spec.run_id, "store_skills"))
        elif run.spec.kind == RunKind.INGEST:
            turn = self._make_ingest(run, channels.emit)
        else:
            turn = TurnExecution(run.spec, self._deps, channels)
        work = self._turns.start(turn.run(), name=f"turn-{run.spec.run_id}")
        work.add_done_callback(lambda _: self._deps.masker.remove_run(run.spec))
        deadline.start()
        await asyncio.wait({work, run.interruption}, return_when=asyncio.FIRST_COMPLETED)
        deadline.stop()
        if work.done():
            outcome: RunOutcome = work.result()
            return outcome
        # Tools are cancelled, too; one that does not let go in time ends in the background.
        work.cancel()
        await asyncio.wait({work}, timeout=LET_GO_S)
        if run.interruption.result() == "cancelled":
            return turn.make_cancelled()
        sentence = f"The run has used up its {run.spec.budgets.wall_s:g} s (budget wall_s)."
        return turn.make_failure("run_timeout", sentence, "wall_clock")

    def _make_batch(self, run: _ActiveRun, emit: EventEmitter) -> BatchExecution:
        spec = run.spec

        path = str(spec.extra.get("endpoint", "")).removeprefix("/v1")
        endpoint = BatchEndpoint(base_urls=spec.base_urls, path=path, ticket=spec.ticket)
        client = BatchClient(self._deps.http, endpoint, self._deps.clock)
        return BatchExecution(
            spec, client, self._deps.clock, BatchChannels(emit=emit, call=partial(self._ask_frontend, spec.run_id))
        )

    def _make_ingest(self, run: _ActiveRun, emit: EventEmitter) -> IngestExecution:
        spec = run.spec
        endpoint = EmbeddingEndpoint(base_urls=spec.base_urls, model=spec.model, ticket=spec.ticket)
        deps = IngestDeps(
            reader=self._deps.documents,
            embedder=EmbeddingClient(self._deps.http, endpoint, self._deps.clock),
            emit=emit,
            call=partial(self._ask_frontend, spec.run_id),
        )
        return IngestExecution(spec, deps)

    async def _ask_frontend(self, run_id: str, method: CallMethod, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a call to a frontend through the worker, and return what it answers."""
        reply = await self._call_worker(run_id, method, params)
        if reply.error is not None:
            raise FrontendCallFailed(reply.error.message, code=reply.error.code)
        return reply.result or {}

    def _finish_if_idle(self) -> None:
        if self._is_stopping and not self._runs:
            self._finished.set()

    def _make_emitter(self, run: _ActiveRun) -> EventEmitter:
        run_id = run.spec.run_id

        async def emit(event_type: RunEventType, data: Mapping[str, Any], tool: str = "") -> None:
            if run.has_ended:
                return
            message = EventMessage(run_id=run_id, event_type=event_type, tool=tool, data=dict(data))
            await self._link.send_or(message, message.model_copy(update={"data": {"dropped": True}}))

        return emit

    def _make_asker(self, run: _ActiveRun) -> Callable[[str, str, str], Awaitable[str]]:
        async def ask(name: str, message: str, call_id: str) -> str:
            params = {"name": name, "message": message, "call_id": call_id}
            reply = await self._call_worker(run.spec.run_id, "ask_agent", params)
            return _read_agent_answer(name, reply)

        return ask

    async def _flush(self, run: _ActiveRun) -> None:
        reply = await self._call_worker(run.spec.run_id, "flush", {})
        if reply.error is not None:
            raise TraceNotStored(f"The call was not executed: {reply.error.message}")

    async def _call_worker(self, run_id: str, method: CallMethod, params: Mapping[str, Any]) -> ReplyMessage:
        self._call_count += 1
        call_id = str(self._call_count)
        reply: asyncio.Future[ReplyMessage] = asyncio.get_running_loop().create_future()
        self._calls[call_id] = reply
        try:
            await self._link.send(CallMessage(id=call_id, run_id=run_id, method=method, params=dict(params)))
            return await reply
        finally:
            del self._calls[call_id]

    def _resolve_call(self, message: ReplyMessage) -> None:
        reply = self._calls.get(message.id)
        if reply is not None and not reply.done():
            reply.set_result(message)

    async def _call_server(self, message: McpMessage) -> None:
        """Answer an `mcp` message."""
        key = message.session_key or f"mcp:{message.id}"

        async def call() -> dict[str, Any]:
            return await self._deps.pool.request(key, message.server, message.action, message.params)

        self._deps.masker.add_server(message.server)
        result = await attempt(call)
        if not message.session_key:
            self._deps.pool.close_sessions(key)
        if isinstance(result, AttemptFailure):
            error = result.error
            code = error.slug if isinstance(error, CorralError) else "mcp_unavailable"
            body = RunnerErrorBody(code=code, message=self._deps.masker.mask(describe_error(error)))
            answer = McpResultMessage(id=message.id, error=body)
        else:
            answer = McpResultMessage(id=message.id, result=result.value)
        self._deps.masker.remove_server(message.server)
        too_large = RunnerErrorBody(code="too_large", message="The server's answer is too large.")
        await self._link.send_or(answer, McpResultMessage(id=message.id, error=too_large))


def _read_agent_answer(name: str, reply: ReplyMessage) -> str:
    if reply.error is not None:
        raise AgentCallFailed(f"Agent {name} could not be reached: {reply.error.message}")
    answer = AskAgentOut.model_validate({"run_id": "", "state": "completed"} | (reply.result or {}))
    if answer.state != RunState.COMPLETED:
        raise AgentCallFailed(f"{say_run_state(f'The run of agent {name}', answer.state)}. {answer.error_text}".strip())
    return answer.content
