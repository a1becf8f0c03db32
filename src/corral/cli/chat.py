"""`corral chat`: a conversation with a model. Ctrl-C interrupts an answer, Ctrl-D quits."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager

from corral.cli import render
from corral.cli.command import CommandSession, add_session, make_tasks
from corral.cli.run import (
    MaxTokensOption,
    ModelArgument,
    SystemOption,
    TemperatureOption,
    collect_options,
    make_system_messages,
    print_piece,
    stream_answer,
)
from corral.runtime.attempt import AttemptFailure, attempt

NEW = "/new"
GREETING = f"Talk to {{model}}. Ctrl-C interrupts an answer, {NEW} starts a new conversation, Ctrl-D quits."


async def _chat(
    session: CommandSession,
    model: ModelArgument,
    *,
    system: SystemOption = "",
    max_tokens: MaxTokensOption = None,
    temperature: TemperatureOption = None,
) -> None:
    """Chat with a model. Without a terminal, each line of standard input is one turn."""
    options = collect_options(max_tokens, temperature)
    is_terminal = sys.stdin.isatty()
    # Check the name first, so that an unknown model is reported before a question is typed.
    await session.client.inference.get_model(model)
    if is_terminal:
        render.print_notice(render.clean_text(GREETING.format(model=model)))
    messages = make_system_messages(system)
    with _catch_interrupt() as interrupted:
        while (line := await _read_turn(is_terminal=is_terminal)) is not None:
            interrupted.clear()
            if not line:
                continue
            if line == NEW:
                messages = make_system_messages(system)
                continue
            messages.append({"role": "user", "content": line})
            reply = await _print_answer(session, model, messages, options, interrupted)
            messages.append({"role": "assistant", "content": reply})
    if is_terminal:
        render.print_notice("")


chat = add_session(_chat)


async def _read_turn(*, is_terminal: bool) -> str | None:
    """Read and return the next turn; None at the end of the input."""
    if is_terminal:
        import readline  # noqa: F401 - gives the prompt its line editing and history

    try:
        # Read in a thread, so that the event loop keeps running and no signal is lost between two keys.
        return (await asyncio.to_thread(input, "> " if is_terminal else "")).strip()
    except EOFError:
        return None


async def _print_answer(
    session: CommandSession,
    model: str,
    messages: list[dict[str, str]],
    options: dict[str, object],
    interrupted: asyncio.Event,
) -> str:
    """Print the answer and return its text, also if it was interrupted."""
    texts: list[str] = []

    async def print_pieces() -> None:
        async with aclosing(stream_answer(session, model, messages, options)) as pieces:
            async for piece in pieces:
                texts.append(piece.text)
                print_piece(piece.text)

    work = make_tasks("chat")
    printing = work.start(attempt(print_pieces), name="answer")
    stopping = work.start(interrupted.wait(), name="interrupt")
    try:
        await asyncio.wait({printing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if printing.done() and isinstance(outcome := printing.result(), AttemptFailure):
            raise outcome.error
    finally:
        await work.close()
        render.print_data("")
    return "".join(texts)


@contextmanager
def _catch_interrupt() -> Iterator[asyncio.Event]:
    """Have Ctrl-C set the event instead of ending the program, where signal handlers are supported."""
    interrupted, loop = asyncio.Event(), asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, interrupted.set)
    except (NotImplementedError, RuntimeError, ValueError):
        yield interrupted  # On Windows, or outside the main thread, Ctrl-C ends the program.
        return
    try:
        yield interrupted
    finally:
        loop.remove_signal_handler(signal.SIGINT)
