"""`corral backends owed`, `owed-drop`, `owed-revive`, `galleries` and `clean`: keeping a fleet of backends in order.

The commands are functions here and get their names in `cli/backends.py`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import Session
from corral.cli.complete import backend_names, node_names
from corral.cli.operations import DetachOption
from corral.domain.errors import CorralError

if TYPE_CHECKING:
    from corral.wire.backends import CollectedOut
    from corral.wire.nodes import NodeOut

AT_ONCE = 16

NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="Name or id.", autocompletion=node_names)]
OwedArgument = Annotated[
    str, typer.Argument(metavar="BACKEND", help="As `owed` shows it.", autocompletion=backend_names)
]
NodesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node", metavar="NODE", help="Only this node; may be given several times.", autocompletion=node_names
    ),
]


async def list_owed(session: Session, *, node: NodesOption = None) -> None:
    """List what nodes still owe: what is tried again and when, and what was given up."""
    from corral.cli.backend_views import owed_list

    owed = await session.client.intents.list()
    if node:
        owed = [one for one in owed if one.node_name in node or one.node_id in node]
    if session.as_json:
        render.write_json([one.model_dump(mode="json", exclude_none=True) for one in owed])
    elif owed:
        render.write(owed_list(owed, session.now(), colour=render.has_colour(sys.stdout)))
        if any(one.state == "dead" for one in owed):
            render.say("\nGiven up: `corral backends owed-revive NODE BACKEND` tries again, `owed-drop` forgets it.")
    else:
        render.say("No node owes anything.")


async def drop_owed(session: Session, node: NodeArgument, backend: OwedArgument) -> None:
    """Take back what a node owes. What it has begun is stopped."""
    await session.client.intents.drop(node, backend)
    if session.as_json:
        render.write_json({"node": node, "backend": backend})
    else:
        render.say(render.clean(f"{node} does not owe {backend} any more."))


async def revive_owed(
    session: Session, node: NodeArgument, backend: OwedArgument, *, detach: DetachOption = False
) -> None:
    """Ask a node for the same again, with its failures forgotten, and follow it."""
    from corral.cli.progress import follow

    answer = await session.client.intents.revive(node, backend)
    if detach and session.as_json:
        render.write_json(answer.model_dump(mode="json", by_alias=True, exclude_none=True))
    elif detach:
        render.write(answer.id)
    else:
        await follow(session, answer.id)


async def list_galleries(
    session: Session,
    *,
    refresh: Annotated[bool, typer.Option("--refresh", help="Have them fetched anew, in the background.")] = False,
) -> None:
    """List the galleries: where each is, what it has, when it was fetched, and what is wrong with it."""
    from corral.cli.backend_views import gallery_list

    calls = session.client.backends
    if refresh:
        answer = await calls.refresh_galleries()
        found, message = answer.galleries, answer.message
    else:
        found, message = await calls.galleries(), ""
    if session.as_json:
        render.write_json([one.model_dump(mode="json") for one in found])
    else:
        render.write(gallery_list(found, session.now(), colour=render.has_colour(sys.stdout)))
    if message:
        render.say(f"\n{render.clean(message)} `corral backends galleries` shows what came of it.")


async def clean_nodes(
    session: Session,
    *,
    node: NodesOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be thrown away.")] = False,
) -> None:
    """Throw away what takes room and no backend uses, on every healthy node or on some. Workers do so once a day."""
    from corral.cli.backend_views import collected_list, collected_sentence

    names = node or [one.name for one in await session.client.nodes.list() if _has_backends(one)]
    done, failed = await _collect_all(session, names, dry_run=dry_run)
    if session.as_json:
        render.write_json(
            {
                "dry_run": dry_run,
                "freed_bytes": sum(one.freed_bytes for one in done.values()),
                "nodes": {name: one.model_dump(mode="json") for name, one in done.items()},
                "failed": {name: error.message for name, error in failed.items()},
            }
        )
    elif done:
        render.write(collected_list(done, colour=render.has_colour(sys.stdout)))
    for name, error in failed.items():
        render.say(render.clean(f"{name}: {error.message}"))
    if not names:
        render.say("No node is healthy.")
    elif not session.as_json:
        render.say(collected_sentence(list(done.values()), dry_run=dry_run))
    if failed:
        raise typer.Exit(1)


def _has_backends(node: NodeOut) -> bool:
    return node.status == "healthy" and node.node_type == "backend"


async def _collect_all(
    session: Session, names: list[str], *, dry_run: bool
) -> tuple[dict[str, CollectedOut], dict[str, CorralError]]:
    """Beside one another, in the order of their names. A node that cannot is no reason to leave the others."""
    import asyncio

    slots = asyncio.Semaphore(AT_ONCE)
    done: dict[str, CollectedOut] = {}
    failed: dict[str, CorralError] = {}

    async def one(name: str) -> None:
        async with slots:
            try:
                done[name] = await session.client.backends.collect(name, dry_run=dry_run)
            except CorralError as error:
                failed[name] = error

    async with asyncio.TaskGroup() as group:
        for name in dict.fromkeys(names):
            group.create_task(one(name))
    return {name: done[name] for name in sorted(done)}, {name: failed[name] for name in sorted(failed)}
