"""One step of a run: a call of the model, its answer shown as it arrives, and the tool calls that it asks for.

Native steps offer tools to the model; guided steps force an answer by a JSON schema to be a call or a text
(`guided.py`). In mode `auto` a run begins native and becomes guided when the model refuses tools, or writes a call as
text; the model is remembered, so that its next run begins guided. Once a budget is spent the model is given no tools. A
run can require a tool call in its first step.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import structlog

from corral.domain.errors import CorralError
from corral.domain.run import RunEventType
from corral.runner import guided
from corral.runner.budget_tracker import BudgetTracker
from corral.runner.chat_client import ChatClient, ChatDelta, ModelCallError
from corral.runner.compaction import estimate_tokens, make_pieces, make_summary_request, plan_compaction
from corral.runner.schema_checker import find_problem
from corral.runner.think_splitter import TextPiece, ThinkSplitter
from corral.runner.tool_catalog import RunTool, RunToolCatalog
from corral.runner.tool_executor import EventEmitter, PendingCall
from corral.runner.transcript import Message, Transcript, TranscriptCall
from corral.wire.run_work import RunOptionsSpec

log = structlog.get_logger(__name__)

# More calls in one step than this are a model gone wrong; the rest is dropped.
CALLS_PER_STEP_MAX = 32
SUMMARY_TOKENS_MAX = 1024
GUIDED_MODELS_MAX = 256
NUDGE = "Answer now, in text, with what you know. No more tools can be used."
# What a request holds that is ours to say; `tool_choice` is passed on in the first step only.
_OWN_FIELDS = frozenset(
    {"model", "messages", "stream", "stream_options", "tools", "tool_choice", "n", "functions", "function_call"}
)


class AnswerInvalid(CorralError):
    """The model's final answer does not match the schema that the run requires."""

    code = "answer_invalid"


class GuidedModelRegistry:
    """Remembers for all runs of the runner process which models cannot call tools natively.

    Their steps are guided: a JSON schema forces each answer to be a tool call or a text.
    """

    def __init__(self) -> None:
        self._names: OrderedDict[str, None] = OrderedDict()

    def add(self, model: str) -> None:
        self._names[model] = None
        self._names.move_to_end(model)
        while len(self._names) > GUIDED_MODELS_MAX:
            self._names.popitem(last=False)

    def __contains__(self, model: str) -> bool:
        return model in self._names


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStepDeps:
    """Dependencies of the model calls of one run: chat client, tools, transcript and budget."""

    run_id: str
    model: str
    emit: EventEmitter
    client: ChatClient
    catalog: RunToolCatalog
    budget: BudgetTracker
    transcript: Transcript
    options: RunOptionsSpec
    guided_models: GuidedModelRegistry


@dataclass(slots=True)
class _Answer:
    """Collects the answer of one call of the model."""

    content: str = ""
    # Content that was not shown yet, because it may be a call that is written as text.
    held: str = ""
    calls: dict[int, list[str]] = field(default_factory=dict)
    usage: tuple[int, int] | None = None
    size: int = 0

    def add_calls(self, delta: ChatDelta) -> None:
        for call in delta.calls:
            entry = self.calls.setdefault(call.index, ["", ""])
            # Engines send the name once, or with every piece.
            entry[0] = entry[0] or call.name
            entry[1] += call.arguments

    def list_calls(self) -> list[guided.RequestedCall]:
        entries = [self.calls[index] for index in sorted(self.calls)]
        return [guided.make_requested_call(name, arguments) for name, arguments in entries if name]


StepPart = TextPiece | PendingCall


class ModelStepExecutor:
    """Executes the steps of one run: each is one call of the model, whose answer is text or tool calls."""

    def __init__(self, deps: ModelStepDeps) -> None:
        self._deps = deps
        self._is_guided = deps.options.tool_mode == "guided" or (
            deps.options.tool_mode == "auto" and deps.model in deps.guided_models
        )
        # After an answer that did not match its schema the next request is for the answer alone.
        self._must_answer = False
        self._bad_answers = 0
        # Why the last step had no tools although the run has some; empty if it had them.
        self.withheld_reason = ""
        # The answer of the last step ended at the limit of its tokens.
        self.is_cut = False
        # Ids of calls that the model is shown: those of the conversation, and of this run.
        self._call_ids = deps.transcript.list_call_ids()
        # Tokens that the engine counted for each one that was estimated.
        self._token_ratio = 1.0

    async def take_step(self) -> AsyncGenerator[StepPart, None]:
        """Call the model once, and yield its answer and its calls. Raises `ModelCallError`."""
        self._deps.budget.begin_step()
        await self._compact()
        tools = self._list_offered()
        self.withheld_reason = self._deps.budget.final_reason if len(self._deps.catalog) else ""
        await self._report_step(tools)
        # Without tools a guided run stays guided, unless its answer is requested again: a model without calls of its
        # own cannot read those of others in its history.
        is_guided = self._is_guided and bool(tools or self.withheld_reason)
        parts = self._take_guided_step(tools) if is_guided else self._take_native_step(tools)
        try:
            async with aclosing(parts):
                async for part in parts:
                    yield part
        except ModelCallError as error:
            if self._is_guided or not tools or not self._may_switch() or not _refuses_tools(error):
                raise
            self._switch_to_guided("The model takes no tools; its steps are guided from now on.")
        else:
            return
        async with aclosing(self._take_guided_step(tools)) as parts:
            async for part in parts:
                yield part

    async def summarise(self, text: str) -> str:
        """Return a summary of a conversation. Raises `ModelCallError`."""
        return await self._summarise("", text)

    async def check_answer(self, content: str) -> bool:
        """Return whether an answer may end the run; if not, the next step asks for it again. Raises `AnswerInvalid`."""
        schema = self._deps.options.response_schema
        if schema is None:
            return True
        problem = _find_answer_problem(schema, content)
        if problem is None:
            await self._emit_text(RunEventType.CONTENT, content)
            return True
        self._bad_answers += 1
        if self._bad_answers > self._deps.options.max_attempts:
            raise AnswerInvalid(f"The model's answer does not match the schema: {problem}.")
        self._must_answer = True
        self._deps.transcript.drop_answer()
        self._deps.transcript.add_correction(
            f"This answer does not match the JSON schema that it has to match: {problem}. Answer again, with JSON only."
        )
        return False

    def _list_offered(self) -> list[RunTool]:
        return [] if self._deps.budget.final_reason or self._must_answer else list(self._deps.catalog)

    async def _report_step(self, tools: Sequence[RunTool]) -> None:
        data = {
            "step": self._deps.budget.steps,
            "mode": "guided" if self._is_guided and (tools or self.withheld_reason) else "native",
            "is_final": bool(self.withheld_reason),
        }
        await self._deps.emit(RunEventType.STEP, data)

    def _may_switch(self) -> bool:
        return self._deps.options.tool_mode == "auto"

    def _switch_to_guided(self, reason: str) -> None:
        log.info("run is guided from now on", run_id=self._deps.run_id, model=self._deps.model, reason=reason)
        self._is_guided = True
        self._deps.guided_models.add(self._deps.model)

    async def _take_native_step(self, tools: Sequence[RunTool]) -> AsyncGenerator[StepPart, None]:
        body, answer = self._make_native_body(tools), _Answer()
        may_be_written = bool(tools) and self._may_switch()
        async with aclosing(self._stream(body, answer)) as pieces:
            async for piece in pieces:
                if piece.is_reasoning:
                    yield piece
                    continue
                shown = self._hold_back(answer, piece.text) if may_be_written else piece.text
                answer.content += piece.text
                if shown:
                    yield await self._show(shown)
        await self._report_usage(answer, body)
        calls = answer.list_calls() if tools else []
        if not calls and answer.held:
            calls = guided.read_written_calls(answer.held, [tool.name for tool in tools])
            if calls:
                self._switch_to_guided("The model writes its calls as text; its steps are guided from now on.")
                answer.content = ""
                answer.held = ""
        if answer.held:
            yield await self._show(answer.held)
        for part in self._finish(answer.content, calls):
            yield part

    def _make_native_body(self, tools: Sequence[RunTool]) -> dict[str, Any]:
        options = self._deps.options
        body = self._make_body(self._deps.transcript.render(nudge=NUDGE if self.withheld_reason else None))
        if tools:
            body["tools"] = [tool.render() for tool in tools]
            if (choice := self._find_tool_choice()) is not None:
                body["tool_choice"] = choice
        elif options.response_schema is not None:
            body["response_format"] = guided.make_response_format("answer", options.response_schema)
        return body

    async def _take_guided_step(self, tools: Sequence[RunTool]) -> AsyncGenerator[StepPart, None]:
        must_call = bool(tools) and self._find_tool_choice() == "required"
        guide = guided.describe_tools(tools, must_call=must_call)
        body = self._make_body(self._deps.transcript.render(guide=guide))
        schema = self._deps.options.response_schema
        body["response_format"] = guided.make_step_format(tools, schema, must_call=must_call)
        answer, reader = _Answer(), guided.AnswerReader()
        async with aclosing(self._stream(body, answer)) as pieces:
            async for piece in pieces:
                if piece.is_reasoning:
                    yield piece
                elif shown := reader.feed(piece.text):
                    yield await self._show(shown)
        await self._report_usage(answer, body)
        step = guided.read_step(reader.text)
        if isinstance(step, guided.RequestedCall):
            for part in self._finish("", [step]):
                yield part
            return
        if shown := reader.finish(step):
            yield await self._show(shown)
        self._finish(step, [])

    def _find_tool_choice(self) -> Any:
        """Return the `tool_choice` of the first step: the caller's, else the agent's. None: the model chooses."""
        options = self._deps.options
        if self._deps.budget.steps != 1:
            return None
        return options.model_settings.get("tool_choice", "required" if options.tool_choice == "required" else None)

    def _hold_back(self, answer: _Answer, text: str) -> str:
        """Return the part of an answer that may be shown: one that begins like a call is held back until it is
        complete."""
        if answer.held or not answer.content.strip():
            answer.held += text
            if guided.may_become_call(answer.held):
                return ""
            text, answer.held = answer.held, ""
        return text

    async def _show(self, text: str) -> TextPiece:
        # An answer with a schema is shown once it is known to match.
        if self._deps.options.response_schema is None:
            await self._emit_text(RunEventType.CONTENT, text)
        return TextPiece(text)

    def _finish(self, content: str, requested: Sequence[guided.RequestedCall]) -> list[PendingCall]:
        """Record the answer in the transcript, and return its calls with ids."""
        if not requested:
            self._deps.transcript.add_answer(content)
            return []
        calls = [self._make_call(call) for call in requested[:CALLS_PER_STEP_MAX]]
        # Arguments that are no JSON object go back as an empty one: engines refuse a history that they cannot parse.
        self._deps.transcript.begin_calls(
            content,
            [TranscriptCall(call_id=call.call_id, name=call.name, arguments=call.arguments or {}) for call in calls],
        )
        return calls

    def _make_call(self, call: guided.RequestedCall) -> PendingCall:
        """Give a call an id that is unique in its thread, and the same if the run is repeated on another worker."""
        text = json.dumps([self._deps.run_id, call.name, call.arguments, call.raw if call.arguments is None else ""])
        call_id, number = _make_call_id(text, 1), 1
        while call_id in self._call_ids:
            number += 1
            call_id = _make_call_id(text, number)
        self._call_ids.add(call_id)
        return PendingCall(call_id=call_id, name=call.name, arguments=call.arguments, raw=call.raw)

    def _make_body(self, messages: Sequence[Message]) -> dict[str, Any]:
        options = self._deps.options
        body = {key: value for key, value in options.model_settings.items() if key not in _OWN_FIELDS}
        if options.temperature is not None:
            body["temperature"] = options.temperature
        if options.max_tokens is not None:
            body["max_tokens"] = options.max_tokens
        return body | {"messages": list(messages)}

    async def _stream(self, body: Mapping[str, Any], answer: _Answer) -> AsyncGenerator[TextPiece, None]:
        """Yield the text of one call of the model, with reasoning set apart and already reported."""
        splitter = ThinkSplitter() if self._deps.options.strips_thinking else None
        self.is_cut = False
        async with aclosing(self._deps.client.stream(body)) as deltas:
            async for delta in deltas:
                answer.size += len(delta.content) + len(delta.reasoning)
                answer.usage = delta.usage or answer.usage
                answer.add_calls(delta)
                self.is_cut = self.is_cut or delta.is_cut
                if delta.reasoning:
                    await self._emit_text(RunEventType.REASONING, delta.reasoning)
                    yield TextPiece(delta.reasoning, is_reasoning=True)
                pieces = splitter.feed(delta.content) if splitter else iter((TextPiece(delta.content),))
                for piece in pieces:
                    yield await self._report_reasoning(piece)
        for piece in splitter.finish() if splitter else ():
            yield await self._report_reasoning(piece)

    async def _report_reasoning(self, piece: TextPiece) -> TextPiece:
        if piece.is_reasoning:
            await self._emit_text(RunEventType.REASONING, piece.text)
        return piece

    async def _emit_text(self, event_type: RunEventType, text: str) -> None:
        await self._deps.emit(event_type, {"text": text})

    async def _report_usage(self, answer: _Answer, body: Mapping[str, Any]) -> None:
        estimated = estimate_tokens(body["messages"])
        data: dict[str, Any]
        if answer.usage is None:
            data = {"prompt_tokens": estimated, "completion_tokens": -(-answer.size // 4), "is_estimated": True}
        else:
            data = {"prompt_tokens": answer.usage[0], "completion_tokens": answer.usage[1]}
            overhead = len(json.dumps(body.get("tools", []))) // 4
            self._token_ratio = max(1.0, answer.usage[0] / max(1, estimated + overhead))
        self._deps.budget.add_tokens(data["prompt_tokens"], data["completion_tokens"])
        await self._deps.emit(RunEventType.USAGE, data)

    async def _compact(self) -> None:
        """Replace earlier messages by a summary if the conversation has outgrown its limit."""
        transcript, limit_tokens = self._deps.transcript, self._deps.options.compaction_tokens
        plan = plan_compaction(transcript.shown, limit_tokens, self._token_ratio)
        if plan is None:
            return
        tokens_before = estimate_tokens(transcript.shown)
        summary = transcript.summary
        for piece in make_pieces(plan.replaced, limit_tokens):
            summary = await self._summarise(summary, piece)
        transcript.compact(summary, plan.kept)
        data = {
            "messages": len(plan.replaced),
            "tokens_before": tokens_before,
            "tokens_after": estimate_tokens(plan.kept) + -(-len(summary) // 4),
            "summary": summary,
        }
        await self._deps.emit(RunEventType.COMPACTED, data)

    async def _summarise(self, previous: str, piece: str) -> str:
        """Return a summary of the earlier one and the next piece; the earlier one if the model gives none."""
        body = {"messages": make_summary_request(previous, piece), "max_tokens": SUMMARY_TOKENS_MAX}
        answer, splitter = _Answer(), ThinkSplitter()
        pieces: list[TextPiece] = []
        try:
            async with aclosing(self._deps.client.stream(body)) as deltas:
                async for delta in deltas:
                    answer.size += len(delta.content) + len(delta.reasoning)
                    answer.usage = delta.usage or answer.usage
                    pieces += splitter.feed(delta.content)
        except ModelCallError as error:
            if error.response_status is None:
                raise
            # Refused, perhaps because even this piece is too long: go on without it rather than not at all.
            log.warning("summary was refused", run_id=self._deps.run_id, code=error.slug)
            return previous or "(Earlier messages were left out.)"
        pieces += splitter.finish()
        answer.content = "".join(piece.text for piece in pieces if not piece.is_reasoning)
        ratio = self._token_ratio
        await self._report_usage(answer, body)
        self._token_ratio = ratio
        return answer.content.strip() or previous


def _make_call_id(text: str, number: int) -> str:
    return f"call_{hashlib.sha256(f'{number}{text}'.encode()).hexdigest()[:24]}"


def _refuses_tools(error: ModelCallError) -> bool:
    """Return whether a refusal says that the model takes no tools, such as Corral's `tools_not_supported`."""
    return error.response_status == 400 and "tool" in error.slug.lower()


def _find_answer_problem(schema: Mapping[str, Any], content: str) -> str | None:
    try:
        value = json.loads(content)
    except ValueError:
        return "it is not JSON"
    return find_problem(schema, value)
