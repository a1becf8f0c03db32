"""`corral chat`: a conversation. Ctrl-C interrupts an answer, Ctrl-D leaves."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager

from corral.cli import render
from corral.cli.command import Session, with_session
from corral.cli.run import MaxTokens, Model, System, Temperature, answer, chosen, system_messages, write_piece
from corral.cli.working import own_tasks
from corral.runtime.guard import Failed, attempt

NEW = "/new"
GREETING = f"Talk to {{model}}. Ctrl-C interrupts an answer, {NEW} begins anew, Ctrl-D leaves."


async def _chat(
    session: Session,
    model: Model,
    *,
    system: System = "",
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
) -> None:
    """Talk with a model. Without a terminal every line of standard input is a turn."""
    options = chosen(max_tokens, temperature)
    is_terminal = sys.stdin.isatty()
    # A wrong name is told before somebody has typed a question, and also if nobody types one.
    await session.client.inference.model(model)
    if is_terminal:
        render.say(render.clean(GREETING.format(model=model)))
    messages = system_messages(system)
    with _interruptible() as interrupted:
        while (line := await _line(is_terminal=is_terminal)) is not None:
            interrupted.clear()
            if not line:
                continue
            if line == NEW:
                messages = system_messages(system)
                continue
            messages.append({"role": "user", "content": line})
            said = await _answered(session, model, messages, options, interrupted)
            messages.append({"role": "assistant", "content": said})
    if is_terminal:
        render.say("")


chat = with_session(_chat)


async def _line(*, is_terminal: bool) -> str | None:
    """The next turn; None at the end."""
    if is_terminal:
        import readline  # noqa: F401 - gives the prompt its line editing and history

    try:
        # In a thread: the loop goes on, and a signal is not lost between two keys.
        return (await asyncio.to_thread(input, "> " if is_terminal else "")).strip()
    except EOFError:
        return None


async def _answered(
    session: Session,
    model: str,
    messages: list[dict[str, str]],
    options: dict[str, object],
    interrupted: asyncio.Event,
) -> str:
    """What was said, also if it was interrupted."""
    said: list[str] = []

    async def speak() -> None:
        async with aclosing(answer(session, model, messages, options)) as pieces:
            async for piece in pieces:
                said.append(piece.text)
                write_piece(piece.text)

    work = own_tasks("chat")
    speaking = work.start(attempt(speak), name="answer")
    stopping = work.start(interrupted.wait(), name="interrupt")
    try:
        await asyncio.wait({speaking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if speaking.done() and isinstance(outcome := speaking.result(), Failed):
            raise outcome.error
    finally:
        await work.close()
        render.write("")
    return "".join(said)


@contextmanager
def _interruptible() -> Iterator[asyncio.Event]:
    """Ctrl-C sets the event instead of ending the program, where that is possible."""
    interrupted, loop = asyncio.Event(), asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, interrupted.set)
    except (NotImplementedError, RuntimeError, ValueError):
        yield interrupted  # Windows, or not the main thread: Ctrl-C ends the program as everywhere.
        return
    try:
        yield interrupted
    finally:
        loop.remove_signal_handler(signal.SIGINT)
