"""Starts the run that answers a call, follows its trace and cancels it if the call ends first.

Guarantees: an answer is made of the trace of its own run alone, so that calls at the same time cannot swap answers. A
run whose caller has left, or has waited for too long, is cancelled. Limit: a frontend that is killed leaves the run to
its budgets.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import structlog

from corral.agents.flows import AgentFlows
from corral.agents.service import AgentLookup
from corral.agents.turns import TurnRequest
from corral.api.dialects.request_values import Json
from corral.api.turns.conversation import check_size
from corral.api.turns.mcp_context import add_prompt, add_resources
from corral.api.turns.run_errors import forbid_retry, make_run_error, make_stopping_error, make_timeout_error
from corral.api.turns.turn_recorder import TurnRecorder
from corral.api.turns.turn_renderer import AnswerHead, TurnRenderer
from corral.domain.access import Principal
from corral.domain.agent import AGENT_PREFIX
from corral.domain.errors import CorralError, InvalidRequest, NotAllowed, NotFound, StoreUnavailable, Unavailable
from corral.domain.run import RunEvent, RunEventType, RunId, RunState, is_run_end
from corral.gateway.exchange.gateway import STOPPING, Gateway
from corral.gateway.routing.routing_snapshot import LATEST
from corral.policy import agents as policy
from corral.policy.serving.mcp_choice import McpChoice
from corral.runs.service import RunService
from corral.runtime.attempt import AttemptFailure, AttemptSuccess, attempt
from corral.runtime.tasks import TaskSet
from corral.store.replica_use import ServedModel

log = structlog.get_logger(__name__)

# A run that has used up its own time is ended by its worker, which has to report that.
TIMEOUT_GRACE_S = 15.0
# How soon a trace is read again while PostgreSQL is away.
STORE_RETRY_S = 0.5
# How long a frontend that stops waits until the runs of interrupted calls are cancelled.
CANCEL_GRACE_S = 5.0
_STATES = {
    RunEventType.APPROVAL_REQUESTED: RunState.WAITING_APPROVAL,
    RunEventType.RETRIED: RunState.QUEUED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTarget:
    """The LLM agent or model with MCP servers that a chat request names, and how a run for it is started."""

    # As the caller has named it.
    model: str
    # As records of requests name it.
    label: str
    wall_s: float
    start: Callable[[TurnRequest], Awaitable[RunId]]


class TurnAnswer:
    """Follows the run that answers one chat request, and renders its trace as chunks of a chat completion."""

    def __init__(self, calls: TurnCallService, target: TurnTarget, run_id: RunId, renderer: TurnRenderer) -> None:
        self._calls = calls
        self._target = target
        self.run_id = run_id
        self.renderer = renderer
        # What the run does now, for a caller that waits.
        self.state = RunState.QUEUED
        self.is_over = False
        # Set when the frontend stops; the run is being cancelled.
        self.is_stopped = False

    async def iter_chunks(self) -> AsyncIterator[Sequence[Json]]:
        """Yield the chunks of the answer as they come; an empty batch says that none has come for a moment. Raises
        `CorralError` if the run ends without an answer."""
        until = self._calls.clock.monotonic() + self._target.wall_s + TIMEOUT_GRACE_S
        async for events in self._follow():
            if self.is_stopped:
                raise make_stopping_error()
            chunks = [chunk for event in events for chunk in self._render(event)]
            if chunks or not events:
                yield chunks
            if self.is_over:
                return
            if self._calls.clock.monotonic() > until:
                raise make_timeout_error(self._target.wall_s, self.state.replace("_", " for "))

    async def _follow(self) -> AsyncIterator[Sequence[RunEvent]]:
        """Yield the entries of the trace in batches; empty ones while nothing comes or PostgreSQL is away. Raises
        `CorralError` if the run ends without a last entry."""
        after = 0
        while True:
            try:
                async for events in self._calls.runs.reader.follow(self.run_id, after):
                    after = events[-1].seq if events else after
                    yield events
                run = await self._calls.runs.get(self.run_id, None)
            except StoreUnavailable:
                yield ()
                await self._calls.clock.sleep(STORE_RETRY_S)
            else:
                self.is_over = True
                raise make_run_error(run)

    async def read_all(self) -> Json:
        """Return the whole answer as a chat completion."""
        async for _ in self.iter_chunks():
            continue
        return self.renderer.build_completion()

    def _render(self, event: RunEvent) -> list[Json]:
        self.state = _STATES.get(event.type, RunState.RUNNING)
        self.is_over = self.is_over or is_run_end(event.type, event.data)
        return self.renderer.render_event(event)


class TurnCallService:
    """Answers chat requests by runs: finds the LLM agent that a request names, starts its turn and follows it."""

    def __init__(self, agents: AgentFlows, runs: RunService, gateway: Gateway) -> None:
        self.runs = runs
        self.gateway = gateway
        self.clock = gateway.clock
        self._agents = agents
        self._open: set[TurnAnswer] = set()
        # Tasks that outlive their calls, and the tasks of the gateway.
        self._cancellations = TaskSet("turn-calls")
        self._is_closed = False
        gateway.stoppers.append(self._stop)

    async def find_agent(self, principal: Principal, name: str, refusal: CorralError) -> TurnTarget:
        """Return the agent that a call means: the caller's own, else a shared one. Raises `refusal` if there is none,
        and for runs and nodes: the model of an agent is a model."""
        if principal.is_run or principal.node_id is not None:
            raise refusal
        # `x` is `x:latest`, as for models.
        own_name = name.removeprefix(AGENT_PREFIX).removesuffix(LATEST)
        try:
            agent = await self._agents.service.get(AgentLookup(name=own_name, principal=principal))
        except NotFound as error:
            raise (error if name.startswith(AGENT_PREFIX) else refusal) from error

        async def start(request: TurnRequest) -> RunId:
            return await self._agents.turns.call(principal, agent, request)

        wall_s = self._agents.turns.find_budgets(agent).wall_s
        return TurnTarget(model=name, label=f"{AGENT_PREFIX}{agent.name}", wall_s=wall_s, start=start)

    async def make_refusal(self, principal: Principal, name: str, call: str, refusal: CorralError) -> CorralError:
        """Return the error for a call that no agent answers: `refusal` if the name does not mean an agent either."""
        try:
            target = await self.find_agent(principal, name, refusal)
        except CorralError as error:
            return error
        return policy.make_not_for_agents_error(target.label, call)

    def find_chat(self, principal: Principal, model: ServedModel, choice: McpChoice) -> TurnTarget:
        """Return the target of a call of a model with MCP servers."""
        if principal.is_run:
            raise NotAllowed(
                "A run cannot ask for a chat with MCP servers.",
                hint="Give the servers to the agent.",
                code="nested_run",
            )
        if choice.servers is None and not model.has_mcp:
            raise InvalidRequest(
                f"Model {model.name} has no MCP servers.",
                hint="Give it some with `mcp` in its configuration, or call /v1/chat/completions.",
                code="no_mcp_servers",
            )

        async def start(request: TurnRequest) -> RunId:
            return await self._agents.chats.call(principal, model.name, choice.servers, request)

        return TurnTarget(model=model.name, label=model.name, wall_s=self._agents.chats.wall_s, start=start)

    async def add_context(
        self, principal: Principal, model: ServedModel, choice: McpChoice, request: TurnRequest
    ) -> TurnRequest:
        """Return a request with the prompt and the resources that it asks for, which agent nodes fetch."""
        mcp_calls = self._agents.mcp_calls
        resources = [(uri, (await mcp_calls.read_resource(principal, model.name, uri))[1]) for uri in choice.resources]
        request = add_resources(request, resources)
        if choice.prompt:
            prompt = await mcp_calls.get_prompt(principal, model.name, choice.prompt, choice.prompt_arguments)
            request = add_prompt(request, prompt)
        if choice.prompt or choice.resources:
            check_size(len(json.dumps(request.to_json())), 0)
        return request

    async def list_agents(self, principal: Principal) -> list[tuple[str, float]]:
        """Return the agents that a caller may name as a model, with the times of their creation in seconds. None while
        PostgreSQL is away: a list of models does not wait for it."""
        if principal.is_run or principal.node_id is not None:
            return []
        try:
            found = await self._agents.service.list(principal)
        except StoreUnavailable:
            return []
        names = {agent.name: agent.created_at.timestamp() for agent in reversed(found)}
        return [(f"{AGENT_PREFIX}{name}", created_s) for name, created_s in sorted(names.items())]

    @asynccontextmanager
    async def open(
        self, target: TurnTarget, request: TurnRequest, recorder: TurnRecorder, *, keeps_text: bool
    ) -> AsyncIterator[TurnAnswer]:
        """Start a run and yield its answer. Leaving the block before the run is over cancels it. An error that leaves
        the block forbids client libraries to send the request again."""
        if self.gateway.is_closing:
            raise Unavailable(STOPPING, hint="Retry on another frontend.", code="stopping")
        recorder.model = target.label
        recorder.run_id = run_id = await self._start(target, request)
        head = AnswerHead(run_id=run_id, model=target.model, created=int(self.clock.wall().timestamp()))
        answer = TurnAnswer(self, target, run_id, TurnRenderer(head, keeps_text=keeps_text))
        # The frontend may have been stopped while the run was being written.
        answer.is_stopped = self.gateway.is_closing
        self._open.add(answer)
        try:
            yield answer
        except CorralError as error:
            forbid_retry(error)
            raise
        finally:
            self._end(answer)

    def _end(self, answer: TurnAnswer) -> None:
        """Cancel the run of an answer unless the run is over. No-op for an answer that has ended."""
        if answer in self._open:
            self._open.remove(answer)
            if not answer.is_over:
                self._cancel_later(answer.run_id)

    def _stop(self) -> int:
        """Cancel the runs of all open answers, which end with an error. Return how many there were."""
        left = tuple(self._open)
        for answer in left:
            answer.is_stopped = True
            self._end(answer)
        return len(left)

    async def close(self) -> None:
        """Wait for a limited time until the runs are cancelled whose calls have ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_GRACE_S):
                await self._cancellations.join()
        self._is_closed = True
        await self._cancellations.close()

    async def _start(self, target: TurnTarget, request: TurnRequest) -> RunId:
        starting = self.gateway.tasks.start(attempt(lambda: target.start(request)), name="start a run")
        try:
            outcome = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The caller has left while its run was being written.
            starting.add_done_callback(self._cancel_started)
            raise
        if isinstance(outcome, AttemptFailure):
            raise outcome.error
        assert isinstance(outcome, AttemptSuccess)
        return RunId(outcome.value)

    def _cancel_started(self, starting: asyncio.Task[AttemptSuccess[RunId] | AttemptFailure]) -> None:
        if not starting.cancelled() and isinstance(outcome := starting.result(), AttemptSuccess):
            self._cancel_later(outcome.value)

    def _cancel_later(self, run_id: RunId) -> None:
        """Cancel a run in a task of its own: the task that waited for it is being cancelled itself."""
        if not self._is_closed:
            self._cancellations.start(self._cancel(run_id), name="cancel a run")

    async def _cancel(self, run_id: RunId) -> None:
        outcome = await attempt(lambda: self.runs.cancel(run_id, None, "the end of the call"))
        if isinstance(outcome, AttemptFailure):
            log.info("a run whose call has ended was not cancelled", run_id=run_id, problem=outcome.sentence)
