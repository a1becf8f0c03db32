"""The messages of one run, in the form of OpenAI's chat API: what the model is shown, and what the run adds.

`new` holds the messages that this run adds to its thread; calls and their results are added together, so that one that
ends in the middle leaves no call without a result. What the model is shown begins as history and messages of the
specification, grows by the new messages, and may be replaced from the front by a summary. Messages of the caller pass
through as they are, with images and all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]

SUMMARY_TITLE = "Summary of the earlier conversation:"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptCall:
    """One tool call of an assistant message in a run's transcript."""

    call_id: str
    name: str
    arguments: Mapping[str, Any]

    def render(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": json.dumps(self.arguments, ensure_ascii=False)}
        return {"id": self.call_id, "type": "function", "function": function}


@dataclass(slots=True)
class _OpenStep:
    """Holds a step whose calls are being executed."""

    content: str
    calls: Sequence[TranscriptCall]
    results: dict[str, str] = field(default_factory=dict)


class Transcript:
    """Collects the messages of one run, in the form of OpenAI's chat API, to send them to the model."""

    def __init__(self, instructions: str, messages: Sequence[Message]) -> None:
        self._instructions = instructions
        self._summary = ""
        self._context = ""
        self._shown: list[Message] = list(messages)
        self._open: _OpenStep | None = None
        self.new: list[Message] = []

    @property
    def shown(self) -> Sequence[Message]:
        """The messages that the model is shown, without the system prompt and the summary."""
        return self._shown

    @property
    def summary(self) -> str:
        return self._summary

    def list_call_ids(self) -> set[str]:
        """Return the ids of the calls that the model is shown."""
        listed = [message.get("tool_calls") for message in self._shown]
        calls = [call for found in listed if isinstance(found, list) for call in found]
        return {str(call.get("id", "")) for call in calls if isinstance(call, Mapping)}

    def set_context(self, text: str) -> None:
        """Show the model a text beside the instructions, such as what a search has found."""
        self._context = text

    def extend_answer(self, text: str) -> None:
        """Put a text behind the last answer of the thread."""
        if self.new and self.new[-1]["role"] == "assistant":
            self.new[-1] = {**self.new[-1], "content": f"{self.new[-1]['content']}{text}"}

    def add_answer(self, content: str) -> None:
        self._add({"role": "assistant", "content": content})

    def add_correction(self, content: str) -> None:
        """Show the model why its answer cannot be used. Neither this nor the answer belongs to the thread."""
        self._shown.append({"role": "user", "content": content})

    def drop_answer(self) -> None:
        """Take the last answer out of the thread; the model is still shown it."""
        if self.new and self.new[-1]["role"] == "assistant":
            self.new.pop()

    def begin_calls(self, content: str, calls: Sequence[TranscriptCall]) -> None:
        self._open = _OpenStep(content, calls)

    def add_result(self, call_id: str, content: str) -> None:
        if self._open is not None:
            self._open.results[call_id] = content

    def end_calls(self) -> None:
        """Add the calls of the open step and their results, in the order of the calls. A call that the caller executes
        has no result. No-op if no step is open."""
        step, self._open = self._open, None
        if step is None:
            return
        self._add({"role": "assistant", "content": step.content, "tool_calls": [call.render() for call in step.calls]})
        for call in step.calls:
            if call.call_id in step.results:
                self._add({"role": "tool", "tool_call_id": call.call_id, "content": step.results[call.call_id]})

    def compact(self, summary: str, kept: Sequence[Message]) -> None:
        """Show the model a summary and these messages from now on."""
        self._summary = summary
        self._shown = list(kept)

    def render(self, *, guide: str | None = None, nudge: str | None = None) -> list[Message]:
        """Return the messages of a request.

        `guide`: explains guided steps; then calls and results are shown as text, because the model has no others.
        `nudge`: a last request of ours, such as to answer without tools.
        """
        body = self._shown if guide is None else _write_calls_as_text(self._shown)
        if nudge is not None and not (body and body[-1]["role"] == "user"):
            body = [*body, {"role": "user", "content": nudge}]
        return _merge_system([self._instructions, *self._list_additions(guide)], body)

    def _list_additions(self, guide: str | None) -> list[str]:
        summary = f"{SUMMARY_TITLE}\n{self._summary}" if self._summary else ""
        return [self._context, summary, guide or ""]

    def _add(self, message: Message) -> None:
        self._shown.append(message)
        self.new.append(message)


def _merge_system(texts: Sequence[str], body: Sequence[Message]) -> list[Message]:
    """Put our texts and the caller's leading system message into one: many chat templates take only one."""
    rest = list(body)
    parts = [text for text in texts if text]
    if parts and rest and rest[0]["role"] == "system" and isinstance(rest[0].get("content"), str):
        parts.insert(1 if texts[0] else 0, rest[0]["content"])
        rest = rest[1:]
    return [{"role": "system", "content": "\n\n".join(parts)}, *rest] if parts else rest


def _write_calls_as_text(messages: Sequence[Message]) -> list[Message]:
    """Return messages without native calls: a call is JSON of the assistant, a result is a message of the user."""
    written: list[Message] = []
    names: dict[str, str] = {}
    for message in messages:
        if message.get("role") == "tool":
            call_id = str(message.get("tool_call_id", ""))
            text = f"Result of {names.get(call_id, 'the tool')}:\n{read_text(message)}"
            _append_user_text(written, text)
        elif calls := message.get("tool_calls"):
            names |= {str(call.get("id", "")): str(call["function"]["name"]) for call in calls if "function" in call}
            texts = [read_text(message), *map(_write_call, calls)]
            written.append({"role": "assistant", "content": "\n".join(text for text in texts if text)})
        elif message.get("role") == "user" and isinstance(message.get("content"), str):
            _append_user_text(written, message["content"])
        else:
            written.append(message)
    return written


def _write_call(call: Mapping[str, Any]) -> str:
    function = call.get("function") or {}
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except ValueError:
        arguments = {}
    return json.dumps({"tool": function.get("name"), "arguments": arguments}, ensure_ascii=False)


def _append_user_text(messages: list[Message], text: str) -> None:
    """Add a text of the user; two in a row become one, because chat templates want turns to alternate."""
    last = messages[-1] if messages else None
    if last is not None and last["role"] == "user" and isinstance(last.get("content"), str):
        messages[-1] = {**last, "content": f"{last['content']}\n\n{text}"}
    else:
        messages.append({"role": "user", "content": text})


def read_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message; other parts, such as images, are named in brackets."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part for part in content if isinstance(part, Mapping)]
    return "\n".join(
        str(part.get("text", "")) if part.get("type") == "text" else f"[{part.get('type', 'part')}]" for part in parts
    )
