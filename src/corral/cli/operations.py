"""`corral operations …`: commands for operations. An id can be shortened to its beginning or end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_group, register_command
from corral.cli.completion import complete_node_names, complete_operation_ids

if TYPE_CHECKING:
    from corral.wire.operations import EndedOperationOut

app = make_group("Operations: list, watch, cancel and retry them, and show their history.")

OperationArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Id of the operation, or its beginning or end.", autocompletion=complete_operation_ids
    ),
]
DetachOption = Annotated[
    bool, typer.Option("--detach", "-d", help="Print the id of the operation and do not wait for it.")
]


async def find_operation_id(session: CommandSession, text: str) -> str:
    """Return the full id for a short one, from the live list or the newest records."""
    from corral.cli.operation_views import FULL_ID_LENGTH, resolve_id

    if len(text) >= FULL_ID_LENGTH:
        return text
    ids = [operation.id for operation in await session.client.operations.list()]
    ids += [record.id for record in (await session.client.operations.list_history(limit=200)).operations]
    return resolve_id(ids, text)


@register_command(app, "list")
async def list_operations(session: CommandSession) -> None:
    """List operations that are running, pending, paused, or failed and not dismissed."""
    from corral.cli.operation_views import format_operation_list

    operations = await session.client.operations.list()
    if session.as_json:
        render.print_json([one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in operations])
    elif operations:
        render.print_data(format_operation_list(operations, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("No operations are running. `corral operations history` shows those that have ended.")


@register_command(app, "show")
async def show_operation(session: CommandSession, operation: OperationArgument) -> None:
    """Show an operation with its nodes and its log, and what to do next."""
    from corral.cli.operation_views import format_operation

    operation_id = await find_operation_id(session, operation)
    found = await session.client.operations.get(operation_id)
    notes = await session.client.operations.list_notes(operation_id)
    if session.as_json:
        whole = found.model_dump(mode="json", by_alias=True, exclude_none=True)
        render.print_json(whole | {"log": [note.model_dump(mode="json") for note in notes]})
    else:
        render.print_data(format_operation(found, notes, session.read_time(), colour=render.has_colour(sys.stdout)))


@register_command(app, "watch")
async def watch_operations(
    session: CommandSession,
    operation: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="Id of an operation; without it, all are watched.", autocompletion=complete_operation_ids
        ),
    ] = None,
) -> None:
    """Follow one operation to its end, or all of them until Ctrl-C."""
    from corral.cli.progress import follow_operation, watch_all

    if operation is None:
        await watch_all(session)
    else:
        await follow_operation(session, await find_operation_id(session, operation), prints_data=True)


@register_command(app, "cancel")
async def cancel_operation(session: CommandSession, operation: OperationArgument) -> None:
    """Cancel an operation. Partial downloads are deleted."""
    await _run_action(session, operation, "cancel")


@register_command(app, "pause")
async def pause_operation(session: CommandSession, operation: OperationArgument) -> None:
    """Pause an operation. Partial downloads are kept."""
    await _run_action(session, operation, "pause")


@register_command(app, "resume")
async def resume_operation(session: CommandSession, operation: OperationArgument) -> None:
    """Resume a paused operation."""
    await _run_action(session, operation, "resume")


@register_command(app, "dismiss")
async def dismiss_operation(session: CommandSession, operation: OperationArgument) -> None:
    """Dismiss a failed operation: it leaves the list and stays in the history."""
    await _run_action(session, operation, "dismiss")


@register_command(app, "undismiss")
async def undismiss_operation(session: CommandSession, operation: OperationArgument) -> None:
    """Undo a dismissal: the failed operation is listed again."""
    await _run_action(session, operation, "undismiss")


async def _run_action(session: CommandSession, text: str, verb: str) -> None:
    from corral.cli.operation_views import VERBS, shorten_id

    operation_id = await find_operation_id(session, text)
    answer = await getattr(session.client.operations, verb)(operation_id)
    if session.as_json:
        render.print_json(answer.model_dump(mode="json", by_alias=True, exclude_none=True))
        return
    operation = answer.operation
    title = f"{VERBS.get(operation.kind, operation.kind)} {operation.name} ({shorten_id(operation.id)})"
    render.print_notice(render.clean_text(f"{title}: {answer.message}"))


@register_command(app, "retry")
async def retry_operation(
    session: CommandSession, operation: OperationArgument, *, detach: DetachOption = False
) -> None:
    """Retry an operation with the same parameters, and follow it."""
    from corral.cli.progress import follow_operation

    answer = await session.client.operations.retry(await find_operation_id(session, operation))
    if detach and session.as_json:
        render.print_json(answer.model_dump(mode="json", by_alias=True, exclude_none=True))
    elif detach:
        render.print_data(answer.id)
    else:
        await follow_operation(session, answer.id)


@register_command(app, "history")
async def show_history(
    session: CommandSession,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Maximum number of records.")] = 50,
    node: Annotated[
        str | None,
        typer.Option(
            "--node", metavar="NODE", help="Only operations on this node.", autocompletion=complete_node_names
        ),
    ] = None,
    outcome: Annotated[
        str | None,
        typer.Option("--outcome", metavar="HOW", help="Only this outcome: completed, failed, cancelled or superseded."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", metavar="KIND", help="Only this kind: backends, models, loads, or one such as model_load."
        ),
    ] = None,
    search: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", help="Part of a name, node, error, id or user.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Start: 7d, 24h, or a day such as 2026-11-01 (UTC).")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="End, in the same form; not included.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Delete all records of ended operations.")] = False,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Show operations that have ended, newest first; or delete their records with --clear."""
    from corral.cli.operation_views import format_history_list
    from corral.cli.usage import parse_moment

    times = {"since": since, "until": until}
    given = {"node": node, "outcome": outcome, "kind": kind, "search": search} | {
        name: parse_moment(text, session.read_time()).isoformat() for name, text in times.items() if text
    }
    filters = {name: value for name, value in given.items() if value}
    if clear and filters:
        raise typer.BadParameter("--clear deletes all records and cannot be combined with a filter")
    if clear:
        await _clear_history(session, is_sure=is_sure)
        return
    records: list[EndedOperationOut] = []
    before: str | None = None
    stale: str | None = None
    while len(records) < limit:
        page = await session.client.operations.list_history(
            limit=min(200, limit - len(records)), cursor=before, filters=filters
        )
        records += page.operations
        before, stale = page.next, page.stale or stale
        if before is None:
            break
    if session.as_json:
        render.print_json([one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in records])
    elif records:
        render.print_data(format_history_list(records, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("No operations match this filter." if filters else "No operations have ended yet.")
    if stale:
        render.print_notice(render.clean_text(stale))


async def _clear_history(session: CommandSession, *, is_sure: bool) -> None:
    if (
        not is_sure
        and sys.stdin.isatty()
        and not render.confirm("Delete the records of all ended operations, for everybody?")
    ):
        raise typer.Exit(1)
    removed = await session.client.operations.clear_history()
    if session.as_json:
        render.print_json({"removed": removed})
    else:
        render.print_notice(f"Deleted {removed} records.")
