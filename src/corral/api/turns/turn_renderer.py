"""Renders the trace of a run as the events of a chat completion, and as a whole one. Pure: entries in, chunks out.

Guarantees: the text of a whole answer is that of the stream. Only a run that has completed ends an answer; any other
end is an error with a status, never text. Text of several steps is separated by an empty line. Limit: an attempt whose
worker was lost after text was sent cannot be taken back, so its stream ends with an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.api.dialects.request_values import Json
from corral.api.turns.run_errors import RunInterrupted, make_outcome_error
from corral.domain.run import RunEvent, RunEventType, is_run_end

# Between the texts of two steps.
STEP_BREAK = "\n\n"
# The extra field of a chat's event, and the name of the event in other dialects.
TOOL_RESULT = "mcp_tool_result"
# The extra field that names the run and says why it ended.
RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerHead:
    """Fields that every event of a run's answer to a chat request repeats: the run, the model's name and the time."""

    run_id: str
    model: str
    created: int

    def render(self, kind: str = "chat.completion.chunk") -> Json:
        answer_id = f"chatcmpl-{self.run_id.replace('-', '')}"
        return {"id": answer_id, "object": kind, "created": self.created, "model": self.model}


class TurnRenderer:
    """Renders the trace of one run as the answer to a chat request.

    `keeps_text`: the answer is collected and nothing was sent yet, so an attempt can begin again.
    """

    def __init__(self, head: AnswerHead, *, keeps_text: bool = False) -> None:
        self._head = head
        self._keeps_text = keeps_text
        self._text: list[str] = []
        self._reasoning: list[str] = []
        # The text of the current step alone.
        self._step_text = ""
        self._needs_break = False
        self._has_gap = False
        self._has_begun = False
        self._calls: list[Json] = []
        self._finish = ""
        self._reason = ""
        self._usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}

    @property
    def is_done(self) -> bool:
        """Return whether the run has completed."""
        return bool(self._finish)

    def render_event(self, event: RunEvent) -> list[Json]:
        """Return the chunks of one entry. Raises `CorralError` if the run has failed."""
        return list(self._iter_chunks(event))

    def build_completion(self) -> Json:
        """Return the whole answer of a run that has completed."""
        message: Json = {"role": "assistant", "content": "".join(self._text) or ("" if not self._calls else None)}
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if self._calls:
            message["tool_calls"] = [
                {name: value for name, value in call.items() if name != "index"} for call in self._calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._finish, "logprobs": None}
        return self._head.render("chat.completion") | {"choices": [choice], "usage": self._usage} | self.render_run()

    def render_usage(self) -> Json:
        """Return the event with which a stream counts the tokens of all calls of the model."""
        return self._head.render() | {"choices": [], "usage": self._usage}

    def render_run(self) -> Json:
        """Return the extra field that names the run and says why its loop ended: `answer`, a budget, `loop`, …"""
        return {RUN: {"id": self._head.run_id, "ended_by": self._reason}}

    def _iter_chunks(self, event: RunEvent) -> Iterator[Json]:
        match event.type:
            case RunEventType.STEP:
                self._needs_break = bool(self._text)
                self._step_text = ""
            case RunEventType.REASONING:
                yield from self._add_reasoning(_read_text(event.data))
            case RunEventType.CONTENT:
                self._has_gap = self._has_gap or "text" not in event.data
                yield from self._add_text(_read_text(event.data))
            case RunEventType.TOOL_RESULT:
                yield self._make_chunk({}) | {TOOL_RESULT: _pick_result(event.data)}
            case RunEventType.RETRIED:
                self._restart()
            case RunEventType.END if is_run_end(event.type, event.data):
                yield from self._end(event.data)
            case _:
                pass

    def _add_reasoning(self, text: str) -> Iterator[Json]:
        if text:
            self._reasoning.append(text)
            yield self._make_chunk({"reasoning_content": text})

    def _add_text(self, text: str) -> Iterator[Json]:
        if not text:
            return
        self._step_text += text
        if self._needs_break:
            self._needs_break, text = False, STEP_BREAK + text
        self._text.append(text)
        yield self._make_chunk({"content": text})

    def _restart(self) -> None:
        if not self._keeps_text and (self._text or self._reasoning):
            raise RunInterrupted
        self._text, self._reasoning, self._step_text = [], [], ""
        self._needs_break = self._has_gap = False

    def _end(self, outcome: Mapping[str, Any]) -> Iterator[Json]:
        if outcome.get("state") != "completed":
            raise make_outcome_error(outcome)
        content = str(outcome.get("content") or "")
        # Entries of text are left out where too many of them wait; the outcome has the last step's text as a whole.
        if content.startswith(self._step_text):
            yield from self._add_text(content[len(self._step_text) :])
        elif self._has_gap:
            raise RunInterrupted("A part of the answer was lost on its way.", code="answer_incomplete")
        self._reason = str(outcome.get("reason") or "answer")
        self._count(outcome.get("usage"))
        result = outcome.get("result")
        is_cut = self._reason == "tokens" or (isinstance(result, Mapping) and result.get("is_cut") is True)
        if self._reason == "client_tool":
            self._calls = _list_client_calls(outcome.get("messages"))
            yield self._make_chunk({"tool_calls": self._calls})
            self._finish = "tool_calls"
        else:
            self._finish = "length" if is_cut else "stop"
        yield self._make_chunk({}, self._finish) | self.render_run()

    def _count(self, usage: object) -> None:
        found = usage if isinstance(usage, Mapping) else {}
        prompt, completion = (_read_count(found.get(name)) for name in ("prompt_tokens", "completion_tokens"))
        self._usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def _make_chunk(self, delta: Json, finish: str | None = None) -> Json:
        if not self._has_begun:
            self._has_begun = True
            delta = {"role": "assistant"} | delta
        return self._head.render() | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _read_text(data: Mapping[str, Any]) -> str:
    text = data.get("text")
    return text if isinstance(text, str) else ""


def _read_count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _pick_result(data: Mapping[str, Any]) -> Json:
    """Return the part of a tool's result that the caller is shown."""
    return {name: data.get(name) for name in ("call_id", "name", "content", "is_error")}


def _list_client_calls(messages: object) -> list[Json]:
    """Return the calls of the last message of the model that its caller has to execute: those without a result."""
    found: Sequence[Any] = messages if isinstance(messages, list) else ()
    known = [message for message in found if isinstance(message, Mapping)]
    answered = {message.get("tool_call_id") for message in known if message.get("role") == "tool"}
    last = next((message for message in reversed(known) if message.get("tool_calls")), None)
    calls = [call for call in (last or {}).get("tool_calls", ()) if call.get("id") not in answered]
    if not calls:
        # The worker leaves messages out that are too large to be sent.
        raise RunInterrupted("The tool calls of the answer are too large.", code="answer_incomplete")
    return [{"index": index, **call} for index, call in enumerate(calls)]
