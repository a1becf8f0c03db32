"""`corral run` sends one prompt to a model; `corral chat` is a conversation with one; `corral try` installs a backend
and a small model first if they are missing.

A model that is not loaded is loaded first, with a progress bar. In a conversation Ctrl-C interrupts an answer and
Ctrl-D quits.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import CommandSession, add_session, make_tasks
from corral.domain.errors import Conflict, CorralError, InvalidRequest, Unavailable
from corral.runtime.attempt import AttemptFailure, attempt

if TYPE_CHECKING:
    from corral.client.inference import ChatPiece
    from corral.wire.models import ModelPlanOut
    from corral.wire.nodes import NodeOut

# While the answer has not begun, the progress of the load is shown.
LOAD_WAIT_S = 2
STDIN = "-"
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="Name of a model, or an alias.")]
SystemOption = Annotated[str, typer.Option("--system", metavar="TEXT", help="System prompt.")]
MaxTokensOption = Annotated[
    int | None,
    typer.Option("--max-tokens", metavar="NUMBER", min=1, help="Maximum number of tokens in the answer."),
]
TemperatureOption = Annotated[
    float | None,
    typer.Option(
        "--temperature", metavar="NUMBER", min=0.0, help="Sampling temperature; 0 gives the same answer every time."
    ),
]
TRY_MODEL = "smollm2-135m"
TRY_QUESTION = "Why is the sky blue?"


async def _run(
    session: CommandSession,
    model: ModelArgument,
    prompt: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT", help="Prompt; without it or with -, standard input is read."),
    ] = None,
    *,
    system: SystemOption = "",
    max_tokens: MaxTokensOption = None,
    temperature: TemperatureOption = None,
) -> None:
    """Send one prompt to a model. The answer is printed to standard output as it arrives."""
    question = _read_question(prompt or [])
    messages = [*make_system_messages(system), {"role": "user", "content": question}]
    await print_answer(session, model, messages, collect_options(max_tokens, temperature))


run = add_session(_run)


async def print_answer(
    session: CommandSession, model: str, messages: Sequence[Mapping[str, str]], options: Mapping[str, Any]
) -> None:
    """Send the prompt and print the answer: as it arrives, or whole as JSON."""
    pieces: list[ChatPiece] = []
    async with aclosing(stream_answer(session, model, messages, options)) as answered:
        async for piece in answered:
            pieces.append(piece)
            if not session.as_json:
                print_piece(piece.text)
    if session.as_json:
        render.print_json(_make_answer_json(model, pieces))
    else:
        render.print_data("")


def _read_question(words: Sequence[str]) -> str:
    if not words:
        if sys.stdin.isatty():
            raise InvalidRequest(
                "The prompt is missing.", hint='corral run MODEL "Why is the sky blue?", or: corral chat MODEL'
            )
        words = [STDIN]
    parts = [sys.stdin.read().strip() if word == STDIN else word for word in words]
    question = ("\n\n" if STDIN in words else " ").join(part for part in parts if part)
    if not question.strip():
        raise InvalidRequest("The prompt is empty.", hint='corral run MODEL "Why is the sky blue?"')
    return question


def collect_options(max_tokens: int | None, temperature: float | None) -> dict[str, Any]:
    options: dict[str, Any] = {"max_tokens": max_tokens, "temperature": temperature}
    return {name: value for name, value in options.items() if value is not None}


def make_system_messages(system: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": system}] if system else []


def print_piece(text: str) -> None:
    """Print a piece of an answer at once, without control characters other than line ends."""
    sys.stdout.write(render.clean_text(text, keep="\n\t"))
    sys.stdout.flush()


async def stream_answer(
    session: CommandSession, model: str, messages: Sequence[Mapping[str, str]], options: Mapping[str, Any]
) -> AsyncGenerator[ChatPiece, None]:
    """Yield the pieces of the answer, after the model was loaded if necessary."""
    while True:
        pieces = session.client.inference.chat(model, messages, wait_s=LOAD_WAIT_S, options=options)
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
        except Unavailable as error:
            if error.slug != "model_loading":
                raise
            await _follow_load(session, error)
        else:
            return


async def _follow_load(session: CommandSession, error: Unavailable) -> None:
    """Follow the load of the model to its end. If it fails, the next call raises the error with its cause."""
    loading = error.details.get("loading")
    operation_id = loading.get("operation_id") if isinstance(loading, dict) else None
    if not isinstance(operation_id, str):
        render.print_notice(error.message)
        await asyncio.sleep(1.0)
        return
    await follow_to_end(session, operation_id)


async def follow_to_end(session: CommandSession, operation_id: str) -> bool:
    """Follow an operation to its end and return whether it completed. Progress goes to standard error."""
    from corral.cli.progress import INTERRUPTED, follow_operation

    try:
        await follow_operation(CommandSession(client=session.client, as_json=False), operation_id)
    except typer.Exit as end:
        if end.exit_code == INTERRUPTED:
            raise
        return end.exit_code == 0
    return True


def _make_answer_json(model: str, pieces: Sequence[ChatPiece]) -> dict[str, Any]:
    usage = next((piece.usage for piece in reversed(pieces) if piece.usage), None)
    finish = next((piece.finish_reason for piece in reversed(pieces) if piece.finish_reason), None)
    return {
        "model": model,
        "node": pieces[0].node if pieces else None,
        "content": "".join(piece.text for piece in pieces),
        "finish_reason": finish,
        "usage": usage,
    }


async def _try(
    session: CommandSession,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Prompt.")] = TRY_QUESTION,
    *,
    model: Annotated[str, typer.Option("--model", metavar="ENTRY", help="Model from the galleries.")] = TRY_MODEL,
) -> None:
    """Send a prompt to a small model, the quickest way to see Corral work. Installs what is missing."""
    from corral.wire.models import InstallModelIn

    node = await _pick_node(session)
    body = InstallModelIn()
    plan = await session.client.models.plan_install(model, body)
    await _ensure_engine(session, node, plan)
    if not plan.exists:
        size = f" ({render.format_size(plan.size_bytes)})" if plan.size_bytes else ""
        render.print_notice(render.clean_text(f"Downloading the model {plan.name}{size}"))
        operation = await session.client.models.install(model, body)
        await _require_success(session, operation.id, f"Model {plan.name} could not be downloaded.")
    render.print_notice(render.clean_text(f"Asking {plan.name}: {question}") + "\n")
    await print_answer(session, plan.name, [{"role": "user", "content": question}], {})
    if not session.as_json:
        _print_next_steps(session, plan.name)


try_it = add_session(_try)


async def _pick_node(session: CommandSession) -> NodeOut:
    """Return a node that takes work, preferably the one of this machine."""
    nodes = await session.client.nodes.list()
    able = [node for node in nodes if node.schedulable and node.node_type == "backend"]
    if not able:
        waiting = next((node for node in nodes if node.status == "pending"), None)
        hint = (
            f"corral nodes approve {waiting.name}"
            if waiting
            else "`corral nodes list` shows why; `corral up` starts a node on this machine."
        )
        raise Conflict("No node takes work at present.", hint=hint, code="no_eligible_nodes")
    hostname = socket.gethostname().partition(".")[0]
    return min(able, key=lambda node: (node.name.partition(".")[0] != hostname, node.name))


async def _ensure_engine(session: CommandSession, node: NodeOut, plan: ModelPlanOut) -> None:
    from corral.wire.backends import InstallBackendIn

    backend = plan.backend.rpartition("@")[2]
    for installed in await session.client.backends.list_on_node(node.id):
        if backend in (installed.name, installed.meta, installed.alias):
            return
    render.print_notice(render.clean_text(f"Installing the backend {backend} on {node.name}"))
    admitted = await session.client.backends.request_change("install", plan.backend, InstallBackendIn(nodes=[node.id]))
    await _require_success(session, admitted.id, f"{backend} could not be installed on {node.name}.")


async def _require_success(session: CommandSession, operation_id: str, failure_sentence: str) -> None:
    if not await follow_to_end(session, operation_id):
        raise _make_failed_error(failure_sentence, operation_id)


def _make_failed_error(sentence: str, operation_id: str) -> CorralError:
    return Conflict(sentence, hint=f"corral operations show {operation_id}", code="operation_failed")


def _print_next_steps(session: CommandSession, model: str) -> None:
    body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}]}}'
    lines = [
        "",
        "It works. Next:",
        f"  corral chat {model}              chat with the model",
        "  corral models search                   more models",
        f"  curl {session.client.url}/v1/chat/completions -H 'Authorization: Bearer ck_…' \\",
        f"    -H 'Content-Type: application/json' -d '{body}'",
        f"  Programs that speak OpenAI's API: base_url {session.client.url}/v1 and a key of `corral keys create NAME`,",
        "  which is limited to inference",
    ]
    render.print_notice(render.clean_text("\n".join(lines), keep="\n"))


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
