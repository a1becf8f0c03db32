"""`corral backends pending`, `galleries` and `clean`: keeping a fleet of backends in order.

The commands are functions here and get their names in `cli/backends.py`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import CommandSession
from corral.cli.completion import complete_backend_names, complete_node_names
from corral.cli.operations import DetachOption
from corral.domain.errors import CorralError

if TYPE_CHECKING:
    from corral.wire.backends import BackendGarbageOut
    from corral.wire.nodes import NodeOut

CONCURRENCY_MAX = 16

NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="Name or id.", autocompletion=complete_node_names)]
PendingArgument = Annotated[
    str,
    typer.Argument(
        metavar="BACKEND", help="Name as `corral backends pending` shows it.", autocompletion=complete_backend_names
    ),
]
NodesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node", metavar="NODE", help="Only this node; can be given several times.", autocompletion=complete_node_names
    ),
]


async def list_pending(session: CommandSession, *, node: NodesOption = None) -> None:
    """List pending changes: those that nodes have not made yet, when each is retried, and those that have failed."""
    from corral.cli.backend_views import format_pending_list

    assignments = await session.client.assignments.list()
    if node:
        assignments = [one for one in assignments if one.node_name in node or one.node_id in node]
    if session.as_json:
        render.print_json([one.model_dump(mode="json", exclude_none=True) for one in assignments])
    elif assignments:
        render.print_data(format_pending_list(assignments, session.read_time(), colour=render.has_colour(sys.stdout)))
        if any(one.state == "dead" for one in assignments):
            render.print_notice(
                "\nFailed changes are not retried. `corral backends pending retry NODE BACKEND` tries "
                "again, `corral backends pending discard NODE BACKEND` discards the change."
            )
    else:
        render.print_notice("There are no pending changes.")


async def discard_pending(session: CommandSession, node: NodeArgument, backend: PendingArgument) -> None:
    """Discard the pending change of a backend on a node. A change that has begun is stopped."""
    await session.client.assignments.discard(node, backend)
    if session.as_json:
        render.print_json({"node": node, "backend": backend})
    else:
        render.print_notice(render.clean_text(f"Discarded the pending change of {backend} on {node}."))


async def retry_pending(
    session: CommandSession, node: NodeArgument, backend: PendingArgument, *, detach: DetachOption = False
) -> None:
    """Retry a pending change now, with its failures reset to zero, and follow it."""
    from corral.cli.progress import follow_operation

    answer = await session.client.assignments.retry(node, backend)
    if detach and session.as_json:
        render.print_json(answer.model_dump(mode="json", by_alias=True, exclude_none=True))
    elif detach:
        render.print_data(answer.id)
    else:
        await follow_operation(session, answer.id)


async def list_galleries(
    session: CommandSession,
    *,
    refresh: Annotated[bool, typer.Option("--refresh", help="Fetch the indexes again, in the background.")] = False,
) -> None:
    """List the galleries with their address, number of entries, last fetch and problem."""
    from corral.cli.backend_views import format_gallery_list

    calls = session.client.backends
    if refresh:
        answer = await calls.refresh_galleries()
        found, message = answer.galleries, answer.message
    else:
        found, message = await calls.list_galleries(), ""
    if session.as_json:
        render.print_json([one.model_dump(mode="json") for one in found])
    else:
        render.print_data(format_gallery_list(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    if message:
        render.print_notice(f"\n{render.clean_text(message)} `corral backends galleries` shows the result.")


async def clean_nodes(
    session: CommandSession,
    *,
    node: NodesOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
) -> None:
    """Delete files that no backend uses, on every healthy node or on some. Workers do so once a day."""
    from corral.cli.backend_views import describe_garbage, format_garbage_list

    names = node or [one.name for one in await session.client.nodes.list() if _has_backends(one)]
    done, failed = await _collect_all(session, names, dry_run=dry_run)
    if session.as_json:
        render.print_json(
            {
                "dry_run": dry_run,
                "freed_bytes": sum(one.freed_bytes for one in done.values()),
                "nodes": {name: one.model_dump(mode="json") for name, one in done.items()},
                "failed": {name: error.message for name, error in failed.items()},
            }
        )
    elif done:
        render.print_data(format_garbage_list(done, colour=render.has_colour(sys.stdout)))
    for name, error in failed.items():
        render.print_notice(render.clean_text(f"{name}: {error.message}"))
    if not names:
        render.print_notice("No node is healthy, so nothing was cleaned. `corral nodes list` shows why.")
    elif not session.as_json:
        render.print_notice(describe_garbage(list(done.values()), dry_run=dry_run))
    if failed:
        raise typer.Exit(1)


def _has_backends(node: NodeOut) -> bool:
    return node.status == "healthy" and node.node_type == "backend"


async def _collect_all(
    session: CommandSession, names: list[str], *, dry_run: bool
) -> tuple[dict[str, BackendGarbageOut], dict[str, CorralError]]:
    """Collect garbage on all named nodes concurrently; return the results and the errors, sorted by node name."""
    import asyncio

    slots = asyncio.Semaphore(CONCURRENCY_MAX)
    done: dict[str, BackendGarbageOut] = {}
    failed: dict[str, CorralError] = {}

    async def one(name: str) -> None:
        async with slots:
            try:
                done[name] = await session.client.backends.collect_garbage(name, dry_run=dry_run)
            except CorralError as error:
                failed[name] = error

    async with asyncio.TaskGroup() as group:
        for name in dict.fromkeys(names):
            group.create_task(one(name))
    return {name: done[name] for name in sorted(done)}, {name: failed[name] for name in sorted(failed)}
