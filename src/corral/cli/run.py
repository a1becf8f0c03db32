"""`corral run`: one question, one answer. A model that is not loaded is loaded first, with a bar."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import Session, with_session
from corral.domain.errors import InvalidRequest, Unavailable

if TYPE_CHECKING:
    from corral.client.inference import Piece

# As long as nothing is said, the connection is only held: then the load is shown instead.
PATIENCE_S = 2
STDIN = "-"

Model = Annotated[str, typer.Argument(metavar="MODEL", help="Name of a model, or an alias.")]
System = Annotated[str, typer.Option("--system", metavar="TEXT", help="What the model is told before everything else.")]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens", metavar="NUMBER", min=1, help="The answer ends after so many at the latest."),
]
Temperature = Annotated[
    float | None, typer.Option("--temperature", metavar="NUMBER", min=0.0, help="0 is the same answer every time.")
]


async def _run(
    session: Session,
    model: Model,
    prompt: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT", help="What to ask; - stands for standard input, as does leaving it out."),
    ] = None,
    *,
    system: System = "",
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
) -> None:
    """Ask a model one thing. The answer goes to standard output while it is made."""
    question = _question(prompt or [])
    messages = [*system_messages(system), {"role": "user", "content": question}]
    await ask(session, model, messages, chosen(max_tokens, temperature))


run = with_session(_run)


async def ask(session: Session, model: str, messages: Sequence[Mapping[str, str]], options: Mapping[str, Any]) -> None:
    """Ask, and print the answer: as it comes, or whole as JSON."""
    pieces: list[Piece] = []
    async with aclosing(answer(session, model, messages, options)) as answered:
        async for piece in answered:
            pieces.append(piece)
            if not session.as_json:
                write_piece(piece.text)
    if session.as_json:
        render.write_json(_in_full(model, pieces))
    else:
        render.write("")


def _question(words: Sequence[str]) -> str:
    if not words:
        if sys.stdin.isatty():
            raise InvalidRequest(
                "There is nothing to ask.", hint='corral run MODEL "Why is the sky blue?", or: corral chat MODEL'
            )
        words = [STDIN]
    parts = [sys.stdin.read().strip() if word == STDIN else word for word in words]
    question = ("\n\n" if STDIN in words else " ").join(part for part in parts if part)
    if not question.strip():
        raise InvalidRequest("The question is empty.", hint='corral run MODEL "Why is the sky blue?"')
    return question


def chosen(max_tokens: int | None, temperature: float | None) -> dict[str, Any]:
    options: dict[str, Any] = {"max_tokens": max_tokens, "temperature": temperature}
    return {name: value for name, value in options.items() if value is not None}


def system_messages(system: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": system}] if system else []


def write_piece(text: str) -> None:
    """At once, without what a terminal would act upon; the lines of an answer stay lines."""
    sys.stdout.write(render.clean(text, keep="\n\t"))
    sys.stdout.flush()


async def answer(
    session: Session, model: str, messages: Sequence[Mapping[str, str]], options: Mapping[str, Any]
) -> AsyncGenerator[Piece, None]:
    """The answer, after the model was loaded if it was not."""
    while True:
        pieces = session.client.inference.chat(model, messages, wait_s=PATIENCE_S, options=options)
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
        except Unavailable as error:
            if error.slug != "model_loading":
                raise
            await _see_load(session, error)
        else:
            return


async def _see_load(session: Session, error: Unavailable) -> None:
    """Follow the load to its end. Its failure is told by the next call, with the cause."""
    loading = error.details.get("loading")
    operation_id = loading.get("operation_id") if isinstance(loading, dict) else None
    if not isinstance(operation_id, str):
        render.say(error.message)
        await asyncio.sleep(1.0)
        return
    await seen_through(session, operation_id)


async def seen_through(session: Session, operation_id: str) -> bool:
    """Follow an operation to its end; whether it ended well. Its lines are talk, never data."""
    from corral.cli.progress import INTERRUPTED, follow

    try:
        await follow(Session(client=session.client, as_json=False), operation_id)
    except typer.Exit as end:
        if end.exit_code == INTERRUPTED:
            raise
        return end.exit_code == 0
    return True


def _in_full(model: str, pieces: Sequence[Piece]) -> dict[str, Any]:
    usage = next((piece.usage for piece in reversed(pieces) if piece.usage), None)
    finish = next((piece.finish_reason for piece in reversed(pieces) if piece.finish_reason), None)
    return {
        "model": model,
        "node": pieces[0].node if pieces else None,
        "content": "".join(piece.text for piece in pieces),
        "finish_reason": finish,
        "usage": usage,
    }
