"""Puts a run's steps and tools into pydantic-ai: its graph decides what comes next, ours is what happens then.

`StepModel` is the model of the graph: it takes one step of the run for each request. `RunToolset` offers the run's
tools and executes their calls. The messages that the graph keeps are not sent anywhere: what the model is shown is the
run's transcript, in the form of OpenAI's chat API from end to end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import pydantic_ai
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, RunContext, ToolDefinition, models
from pydantic_ai.messages import (
    FunctionToolResultEvent,
    ModelMessage,
    ModelResponse,
    ModelResponseStreamEvent,
    ToolCallPart,
)
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_ai.usage import UsageLimits

from corral.ports.runtime import Clock
from corral.runner.model_step import ModelStepExecutor, StepPart
from corral.runner.tool_catalog import RunTool, RunToolCatalog, ToolKind
from corral.runner.tool_executor import PendingCall, ToolExecutor
from corral.runner.transcript import Transcript

# The run has limits of its own (`budget_tracker.py`); those of the graph must never be reached first.
_NO_LIMIT = 1_000_000
# It would print a banner to stderr before the first run.
pydantic_ai.BANNER_ENABLED = False


class StepModel(models.Model[None]):
    """Adapter that shows a run's steps to the library pydantic-ai as one of its models."""

    def __init__(self, name: str, stepper: ModelStepExecutor, transcript: Transcript, clock: Clock) -> None:
        super().__init__()
        self._name = name
        self._stepper = stepper
        self._transcript = transcript
        self._clock = clock
        # The calls of the last step, by id.
        self.calls: dict[str, PendingCall] = {}

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def system(self) -> str:
        return "corral"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: models.ModelRequestParameters,
    ) -> ModelResponse:
        raise NotImplementedError("steps are streamed")

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: models.ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[models.StreamedResponse, None]:
        del messages, model_settings, run_context
        self._transcript.end_calls()
        self.calls.clear()
        async with aclosing(self._stepper.take_step()) as parts:
            yield _StepResponse(
                model_request_parameters=model_request_parameters,
                step_model=self,
                parts=parts,
                started_at=self._clock.wall(),
            )


@dataclass(kw_only=True)
class _StepResponse(models.StreamedResponse):
    """Returns the parts of a step to the graph."""

    step_model: StepModel
    parts: AsyncGenerator[StepPart, None]
    started_at: datetime

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        async for part in self.parts:
            if isinstance(part, PendingCall):
                self.step_model.calls[part.call_id] = part
                arguments = dict(part.arguments or {})
                call = ToolCallPart(tool_name=part.name, args=arguments, tool_call_id=part.call_id)
                yield self._parts_manager.handle_part(vendor_part_id=part.call_id, part=call)
            elif not part.is_reasoning:
                for event in self._parts_manager.handle_text_delta(vendor_part_id="content", content=part.text):
                    yield event

    async def close_stream(self) -> None:
        await self.parts.aclose()

    @property
    def model_name(self) -> str:
        return self.step_model.model_name

    @property
    def provider_name(self) -> str:
        return self.step_model.system

    @property
    def provider_url(self) -> None:
        return None

    @property
    def timestamp(self) -> datetime:
        return self.started_at


class _AnyArguments:
    """Accepts all arguments: the run checks them itself, so that each problem is reported in the same way."""

    def validate_json(
        self,
        input: str | bytes | bytearray,  # noqa: A002 - the name that the graph uses
        *,
        allow_partial: bool | Literal["off", "on", "trailing-strings"] = False,
        **options: Any,
    ) -> Any:
        raise NotImplementedError("arguments are decoded already")

    def validate_python(
        self,
        input: Any,  # noqa: A002 - the name that the graph uses
        *,
        allow_partial: bool | Literal["off", "on", "trailing-strings"] = False,
        **options: Any,
    ) -> Any:
        del allow_partial, options
        return input


class RunToolset(AbstractToolset[None]):
    """Adapter that shows a run's tools to the library pydantic-ai, and executes their calls."""

    def __init__(
        self,
        catalog: RunToolCatalog,
        executor: ToolExecutor,
        model: StepModel,
        add_late: Callable[[], Awaitable[None]],
    ) -> None:
        self._catalog = catalog
        self._executor = executor
        self._model = model
        # Adds tools to the catalog that have come since the last step.
        self._add_late = add_late

    @property
    def id(self) -> str:
        return "run"

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        # The graph asks once before each step: what the model is offered in it is what the graph knows.
        del ctx
        await self._add_late()
        return {tool.name: self._make_tool(tool) for tool in self._catalog}

    def _make_tool(self, tool: RunTool) -> ToolsetTool[None]:
        definition = ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=dict(tool.schema),
            # The run ends with the call of such a tool.
            kind="external" if tool.kind is ToolKind.CLIENT else "function",
        )
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=_NO_LIMIT, args_validator=_AnyArguments())

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> str:
        del name, tool_args, tool
        assert ctx.tool_call_id is not None
        return await self._executor.execute(self._model.calls[ctx.tool_call_id])


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopResult:
    """How the loop of model and tool calls of a run ended: with an answer, or a call that the API's client makes."""

    content: str = ""
    is_client_call: bool = False


async def run_loop(
    model: StepModel, toolset: RunToolset, stepper: ModelStepExecutor, executor: ToolExecutor
) -> LoopResult:
    """Drive a run until the model answers or calls a tool of the caller."""
    agent: Agent[None, Any] = Agent(
        model,
        # None: an answer without text ends the run, too.
        output_type=[str, type(None), DeferredToolRequests],
        deps_type=type(None),
        toolsets=[toolset],
        retries={"tools": _NO_LIMIT, "output": _NO_LIMIT},
    )

    @agent.output_validator
    async def check(output: Any) -> Any:
        if not isinstance(output, DeferredToolRequests) and not await stepper.check_answer(output or ""):
            raise ModelRetry("answer again")
        return output

    # The prompt stands for the transcript, which the model sends instead.
    async with agent.iter("transcript", usage_limits=UsageLimits(request_limit=None), infer_name=False) as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                async with node.stream(run.ctx) as events:
                    async for _ in events:
                        pass
            elif Agent.is_call_tools_node(node):
                async with node.stream(run.ctx) as results:
                    async for event in results:
                        if isinstance(event, FunctionToolResultEvent):
                            await _report_unknown(model, executor, event)
    assert run.result is not None
    output = run.result.output
    if isinstance(output, DeferredToolRequests):
        return LoopResult(is_client_call=True)
    return LoopResult(content=output or "")


async def _report_unknown(model: StepModel, executor: ToolExecutor, event: FunctionToolResultEvent) -> None:
    """Report the call of a tool that does not exist: the graph answers it itself, without asking the toolset."""
    call = model.calls.get(event.part.tool_call_id)
    if call is not None and not executor.knows(call.name):
        await executor.execute(call)
