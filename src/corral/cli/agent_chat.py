"""Carries out `corral agents chat`: sends messages to an agent and prints its turns as they are carried out.

The answer is data; reasoning, tool calls, their results and everything else about a turn are messages. A tool call that
a person has to approve is a question on the terminal; without one the command prints how to decide, and waits. Ctrl-C
cancels the turn, and leaves if the turn does not end or is interrupted again.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_tasks
from corral.domain.errors import CorralError, InvalidRequest
from corral.domain.state_words import say_run_state
from corral.runtime.attempt import AttemptFailure, attempt

if TYPE_CHECKING:
    from corral.wire.runs import RunEventOut, RunOut

INTERRUPTED = 130
NEW = "/new"
STDIN = "-"
GREETING = f"Talk to {{name}}. Ctrl-C cancels a turn, {NEW} starts a new thread, Ctrl-D quits."
# After so long without a sign of a turn the command says what the turn waits for, and looks again as often.
QUEUE_LOOK_S = 2.0
_SHOWN_MAX = 500


@dataclass(slots=True)
class AgentConversation:
    """State that all turns of one `corral agents chat` (a conversation with an LLM agent) share."""

    session: CommandSession
    name: str
    thread_id: str | None
    # Approve calls without asking.
    approves_all: bool
    # Whether a person at a terminal can answer questions about calls.
    can_ask: bool
    # Whether there may be more turns than one: then each is one line of JSON.
    has_turns: bool
    interrupts: InterruptCounter


@dataclass(slots=True)
class InterruptCounter:
    """Counts how often Ctrl-C was pressed during an LLM agent's turn on the command line."""

    count: int = 0
    # Whether the event loop calls `add` for a signal.
    is_fed: bool = False
    happened: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self) -> None:
        self.count += 1
        self.happened.set()

    def reset(self) -> None:
        self.count = 0
        self.happened.clear()


async def chat_with_agent(
    session: CommandSession, name: str, words: Sequence[str], thread_id: str | None, *, approves_all: bool
) -> None:
    """Send one message, or hold a conversation if there is none. One message exits with 1 unless it was answered."""
    with _catch_interrupts() as interrupts:
        conversation = AgentConversation(
            session=session,
            name=name,
            thread_id=thread_id,
            approves_all=approves_all,
            can_ask=sys.stdin.isatty() and STDIN not in words,
            has_turns=not words,
            interrupts=interrupts,
        )
        if words:
            run = await _take_turn(conversation, _join_message(words))
            if run.state != "completed":
                raise typer.Exit(INTERRUPTED if interrupts.count else 1)
        else:
            await _hold_conversation(conversation)
    if conversation.thread_id is not None and not session.as_json:
        render.print_notice(render.clean_text(f"Continue: corral agents chat {name} --thread {conversation.thread_id}"))


def _join_message(words: Sequence[str]) -> str:
    parts = [sys.stdin.read().strip() if word == STDIN else word for word in words]
    text = ("\n\n" if STDIN in words else " ").join(part for part in parts if part)
    if not text.strip():
        raise InvalidRequest("The message is empty.", hint='corral agents chat NAME "Hello"')
    return text


async def _hold_conversation(conversation: AgentConversation) -> None:
    is_terminal = sys.stdin.isatty()
    # Look at the agent first, so that an unknown name is reported before a message is typed.
    await conversation.session.client.agents.get(conversation.name)
    if is_terminal:
        render.print_notice(render.clean_text(GREETING.format(name=conversation.name)))
    while (line := _read_line(is_terminal=is_terminal)) is not None:
        conversation.interrupts.reset()
        if line == NEW:
            conversation.thread_id = None
        elif line:
            await _take_guarded_turn(conversation, line)
    if is_terminal:
        render.print_notice("")


async def _take_guarded_turn(conversation: AgentConversation, text: str) -> None:
    """Take a turn; at a terminal an error is shown, and the conversation goes on."""
    if not conversation.can_ask:
        run = await _take_turn(conversation, text)
        if run.state != "completed":
            raise typer.Exit(1)
        return
    try:
        await _take_turn(conversation, text)
    except CorralError as error:
        render.show_error(error)


def _read_line(*, is_terminal: bool) -> str | None:
    """Read and return the next message; None at the end of the input, and after Ctrl-C."""
    if is_terminal:
        import readline  # noqa: F401 - gives the prompt its line editing and history

    try:
        # Nothing else runs while a person types, so the program may wait here.
        with render.allow_interrupt():
            return input("> " if is_terminal else "").strip()
    except (EOFError, KeyboardInterrupt):
        return None


async def _take_turn(conversation: AgentConversation, text: str) -> RunOut:
    """Send a message, show its turn to the end, and return the run."""
    client = conversation.session.client
    sent = await client.agents.send_message(conversation.name, text, conversation.thread_id)
    conversation.thread_id = sent.thread_id
    printer = TurnPrinter(conversation, sent.run_id)
    work = make_tasks("agent-chat")
    showing = work.start(attempt(printer.follow), name="turn")
    waiting = work.start(printer.report_queue(), name="queue")
    try:
        await _wait_for_end(conversation, sent.run_id, showing)
        if showing.done() and isinstance(outcome := showing.result(), AttemptFailure):
            raise outcome.error
    finally:
        waiting.cancel()
        await work.close()
    return _conclude(conversation, await client.runs.get(sent.run_id))


async def _wait_for_end(conversation: AgentConversation, run_id: str, showing: asyncio.Task[Any]) -> None:
    """Wait until the turn was shown to its end. The first Ctrl-C cancels it, the second leaves."""
    while not showing.done():
        conversation.interrupts.happened.clear()
        if conversation.interrupts.count > 1:
            raise typer.Exit(INTERRUPTED)
        if conversation.interrupts.count == 1:
            render.print_notice("\nCancelling the turn. Press Ctrl-C again to leave without waiting.")
            await attempt(lambda: conversation.session.client.runs.cancel(run_id))
        pressing = asyncio.ensure_future(conversation.interrupts.happened.wait())
        try:
            await asyncio.wait({showing, pressing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pressing.cancel()


def _conclude(conversation: AgentConversation, run: RunOut) -> RunOut:
    if conversation.session.as_json:
        render.print_json(run.model_dump(mode="json"), one_line=conversation.has_turns)
    elif run.state == "cancelled":
        render.print_notice("The turn was cancelled.")
    elif run.state != "completed":
        reason = run.error_text or run.message
        render.show_refusal(f"{say_run_state('The turn', run.state)}. {reason}", f"corral runs show {run.id}")
    return run


class TurnPrinter:
    """Prints an LLM agent's turn on the command line as it arrives, and asks about tool calls."""

    def __init__(self, conversation: AgentConversation, run_id: str) -> None:
        self._conversation = conversation
        self._run_id = run_id
        self._has_begun = False
        # Whether the last thing that was printed on either stream has no line end yet.
        self._is_answering = False
        self._is_reasoning = False
        self._dims = render.has_colour(sys.stderr)

    async def follow(self) -> None:
        """Show the turn to its end."""
        events: AsyncGenerator[RunEventOut, None] = self._conversation.session.client.runs.follow(self._run_id)
        async with aclosing(events):
            async for event in events:
                self._has_begun = True
                await self._show(event)
        self._end_lines()

    async def report_queue(self) -> None:
        """Say what the turn waits for while it has not begun."""
        from corral.adapters.system import SystemClock

        shown = ""
        while not self._conversation.session.as_json:
            await SystemClock().sleep(QUEUE_LOOK_S)
            if self._has_begun:
                return
            found = await attempt(lambda: self._conversation.session.client.runs.get(self._run_id))
            if isinstance(found, AttemptFailure) or found.value.state not in ("queued", "leased"):
                continue
            if found.value.message != shown:
                shown = found.value.message
                render.print_notice(render.clean_text(shown))

    async def _show(self, event: RunEventOut) -> None:
        data = event.data
        if event.type == "approval_requested":
            await self._decide(str(data.get("call_id", "")), event.tool, data.get("arguments"))
        elif self._conversation.session.as_json:
            return
        elif event.type == "content":
            self._print_answer(str(data.get("text", "")))
        elif event.type == "reasoning":
            self._print_reasoning(str(data.get("text", "")))
        elif notice := describe_event(event):
            self._print_notice(notice)

    async def _decide(self, call_id: str, tool: str, arguments: object) -> None:
        self._end_lines()
        client, shown = self._conversation.session.client, render.clean_text(f"{tool} {_format_arguments(arguments)}")
        if self._conversation.approves_all:
            approved = True
        elif self._conversation.can_ask:
            try:
                approved = render.confirm(f"Allow {shown}?")
            except KeyboardInterrupt:
                if not self._conversation.interrupts.is_fed:
                    raise
                return  # The event loop got the signal as well, and counts it.
        else:
            render.print_notice(f"{shown} waits for approval: corral runs approve {self._run_id} {call_id}")
            return
        # Another client may have decided in the meantime, or the run has ended: the trace goes on either way.
        decided = await attempt(lambda: client.runs.decide(self._run_id, call_id, approved=approved))
        if isinstance(decided, AttemptFailure):
            if not isinstance(decided.error, CorralError):
                raise decided.error
            render.print_notice(render.clean_text(decided.error.message))

    def _print_answer(self, text: str) -> None:
        if self._is_reasoning:
            self._end_lines()
        if not text:
            return
        sys.stdout.write(render.clean_text(text, keep="\n\t"))
        sys.stdout.flush()
        self._is_answering = not text.endswith("\n")

    def _print_reasoning(self, text: str) -> None:
        if self._is_answering:
            self._end_lines()
        shown = render.clean_text(text, keep="\n\t")
        sys.stderr.write(f"{render.DIM}{shown}{render.PLAIN}" if self._dims else shown)
        sys.stderr.flush()
        self._is_reasoning = self._is_reasoning if not text else not text.endswith("\n")

    def _print_notice(self, text: str) -> None:
        self._end_lines()
        render.print_notice(text, is_dim=self._dims)

    def _end_lines(self) -> None:
        if self._is_answering:
            render.print_data("")
        if self._is_reasoning:
            render.print_notice("")
        self._is_answering = self._is_reasoning = False


def describe_event(event: RunEventOut) -> str:
    """Return a line about an entry of a trace other than text; empty for entries that people need not see."""
    data = event.data
    match event.type:
        case "tool_call":
            line = f"-> {event.tool} {_format_arguments(data.get('arguments'))}"
        case "tool_result":
            mark = "failed: " if data.get("is_error") is True else ""
            line = f"<- {event.tool} {mark}{_shorten(str(data.get('content', '')))}"
        case "status":
            line = str(data.get("message") or data.get("note") or "")
        case "retried":
            line = str(data.get("text") or "The turn begins again on another worker.")
        case "compacted":
            line = f"Summarised {data.get('messages', 'earlier')} messages."
        case _:
            return ""
    return render.clean_text(line)


def _format_arguments(arguments: object) -> str:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return _shorten(text)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_MAX else f"{line[:_SHOWN_MAX]}…"


@contextmanager
def _catch_interrupts() -> Iterator[InterruptCounter]:
    """Have Ctrl-C counted instead of ending the program, where signal handlers are supported."""
    counter, loop = InterruptCounter(), asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, counter.add)
    except (NotImplementedError, RuntimeError, ValueError):
        yield counter  # On Windows, or outside the main thread, Ctrl-C ends the program.
        return
    counter.is_fed = True
    try:
        yield counter
    finally:
        loop.remove_signal_handler(signal.SIGINT)
