"""`corral try`: from nothing to an answer: an engine, a small model, one question. Repeated, only the question."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import Session, with_session
from corral.cli.run import ask, seen_through
from corral.domain.errors import Conflict, CorralError

if TYPE_CHECKING:
    from corral.wire.models import ModelPlanOut
    from corral.wire.nodes import NodeOut

MODEL = "smollm2-135m"
QUESTION = "Why is the sky blue?"


async def _try(
    session: Session,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What to ask.")] = QUESTION,
    *,
    model: Annotated[str, typer.Option("--model", metavar="ENTRY", help="Which model of the galleries.")] = MODEL,
) -> None:
    """Have a small model answer a question: the shortest way to see it work. Installs what is missing."""
    from corral.wire.models import InstallModelIn

    node = await _node(session)
    wish = InstallModelIn()
    plan = await session.client.models.plan_install(model, wish)
    await _have_engine(session, node, plan)
    if not plan.exists:
        size = f" ({render.size(plan.size_bytes)})" if plan.size_bytes else ""
        render.say(render.clean(f"Fetching the model {plan.name}{size}"))
        asked = await session.client.models.install(model, wish)
        await _done(session, asked.id, f"Model {plan.name} could not be fetched.")
    render.say(render.clean(f"Asking {plan.name}: {question}") + "\n")
    await ask(session, plan.name, [{"role": "user", "content": question}], {})
    if not session.as_json:
        _say_what_next(session, plan.name)


try_it = with_session(_try)


async def _node(session: Session) -> NodeOut:
    """A node that takes work; the one of this machine before any other."""
    nodes = await session.client.nodes.list()
    able = [node for node in nodes if node.schedulable and node.node_type == "backend"]
    if not able:
        waiting = next((node for node in nodes if node.status == "pending"), None)
        hint = (
            f"corral nodes approve {waiting.name}"
            if waiting
            else "`corral nodes list` tells why; `corral up` starts one."
        )
        raise Conflict("No node takes work now.", hint=hint, code="no_eligible_nodes")
    here = socket.gethostname().partition(".")[0]
    return min(able, key=lambda node: (node.name.partition(".")[0] != here, node.name))


async def _have_engine(session: Session, node: NodeOut, plan: ModelPlanOut) -> None:
    from corral.wire.backends import InstallIn

    wanted = plan.backend.rpartition("@")[2]
    for installed in await session.client.backends.on_node(node.id):
        if wanted in (installed.name, installed.meta, installed.alias):
            return
    render.say(render.clean(f"Installing the engine {wanted} on {node.name}"))
    admitted = await session.client.backends.ask("install", plan.backend, InstallIn(nodes=[node.id]))
    await _done(session, admitted.id, f"{wanted} could not be installed on {node.name}.")


async def _done(session: Session, operation_id: str, otherwise: str) -> None:
    if not await seen_through(session, operation_id):
        raise _failed(otherwise, operation_id)


def _failed(sentence: str, operation_id: str) -> CorralError:
    return Conflict(sentence, hint=f"corral operations show {operation_id}", code="operation_failed")


def _say_what_next(session: Session, model: str) -> None:
    body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}]}}'
    lines = [
        "",
        "It works. Next:",
        f"  corral chat {model}              talk with it",
        "  corral models search                   more models",
        f"  curl {session.client.url}/v1/chat/completions -H 'Authorization: Bearer ck_…' \\",
        f"    -H 'Content-Type: application/json' -d '{body}'",
        f"  Programs that speak OpenAI's API: base_url {session.client.url}/v1 and a key of `corral keys create NAME`,",
        "  which may ask models and nothing else",
    ]
    render.say(render.clean("\n".join(lines), keep="\n"))
