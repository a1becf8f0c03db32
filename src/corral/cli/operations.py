"""`corral operations …`: what is under way, what has ended, and acting on it. An id may be shortened to its end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import Session, a_group, client_command
from corral.cli.complete import node_names, operation_ids

if TYPE_CHECKING:
    from corral.wire.operations import RecordOut

app = a_group("What is under way, and what has ended.")

Id = Annotated[
    str,
    typer.Argument(metavar="ID", help="Id of an operation, or its beginning or end.", autocompletion=operation_ids),
]
DetachOption = Annotated[bool, typer.Option("--detach", "-d", help="Print the id and do not wait.")]


async def meant(session: Session, said: str) -> str:
    """The whole id behind a short one: of the live list, or of the newest records."""
    from corral.cli.operation_views import WHOLE, pick

    if len(said) >= WHOLE:
        return said
    ids = [operation.id for operation in await session.client.operations.list()]
    ids += [record.id for record in (await session.client.operations.history(limit=200)).operations]
    return pick(ids, said)


@client_command(app, "list")
async def list_operations(session: Session) -> None:
    """List what is under way, owed, paused, or has failed and was not dismissed."""
    from corral.cli.operation_views import operation_list

    operations = await session.client.operations.list()
    if session.as_json:
        render.write_json([one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in operations])
    elif operations:
        render.write(operation_list(operations, session.now(), colour=render.has_colour(sys.stdout)))
    else:
        render.say("Nothing is under way. `corral operations history` shows what has ended.")


@client_command(app, "show")
async def show_operation(session: Session, operation: Id) -> None:
    """Show an operation with its nodes and its log, and what to do next."""
    from corral.cli.operation_views import operation_in_full

    operation_id = await meant(session, operation)
    found = await session.client.operations.get(operation_id)
    notes = await session.client.operations.notes(operation_id)
    if session.as_json:
        whole = found.model_dump(mode="json", by_alias=True, exclude_none=True)
        render.write_json(whole | {"log": [note.model_dump(mode="json") for note in notes]})
    else:
        render.write(operation_in_full(found, notes, session.now(), colour=render.has_colour(sys.stdout)))


@client_command(app, "watch")
async def watch_operations(
    session: Session,
    operation: Annotated[
        str | None, typer.Argument(metavar="ID", help="One of them; without it, all.", autocompletion=operation_ids)
    ] = None,
) -> None:
    """Follow one operation to its end, or all of them until Ctrl-C."""
    from corral.cli.progress import follow, watch_all

    if operation is None:
        await watch_all(session)
    else:
        await follow(session, await meant(session, operation), is_data=True)


@client_command(app, "cancel")
async def cancel_operation(session: Session, operation: Id) -> None:
    """Take an operation back. Partial downloads are thrown away."""
    await _act(session, operation, "cancel")


@client_command(app, "pause")
async def pause_operation(session: Session, operation: Id) -> None:
    """Stop an operation for now. Partial downloads are kept."""
    await _act(session, operation, "pause")


@client_command(app, "resume")
async def resume_operation(session: Session, operation: Id) -> None:
    """Go on with a paused operation."""
    await _act(session, operation, "resume")


@client_command(app, "dismiss")
async def dismiss_operation(session: Session, operation: Id) -> None:
    """Acknowledge a failure: it leaves the list and stays in the history."""
    await _act(session, operation, "dismiss")


@client_command(app, "undismiss")
async def undismiss_operation(session: Session, operation: Id) -> None:
    """Take back a dismissal: the failure is in the list again."""
    await _act(session, operation, "undismiss")


async def _act(session: Session, said: str, verb: str) -> None:
    from corral.cli.operation_views import VERBS, short

    operation_id = await meant(session, said)
    answer = await getattr(session.client.operations, verb)(operation_id)
    if session.as_json:
        render.write_json(answer.model_dump(mode="json", by_alias=True, exclude_none=True))
        return
    operation = answer.operation
    what = f"{VERBS.get(operation.kind, operation.kind)} {operation.name} ({short(operation.id)})"
    render.say(render.clean(f"{what}: {answer.message}"))


@client_command(app, "retry")
async def retry_operation(session: Session, operation: Id, *, detach: DetachOption = False) -> None:
    """Ask for exactly the same again, and follow it."""
    from corral.cli.progress import follow

    answer = await session.client.operations.retry(await meant(session, operation))
    if detach and session.as_json:
        render.write_json(answer.model_dump(mode="json", by_alias=True, exclude_none=True))
    elif detach:
        render.write(answer.id)
    else:
        await follow(session, answer.id)


@client_command(app, "history")
async def show_history(
    session: Session,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many, the newest first.")] = 50,
    node: Annotated[
        str | None,
        typer.Option("--node", metavar="NODE", help="Only what was done on this node.", autocompletion=node_names),
    ] = None,
    outcome: Annotated[
        str | None, typer.Option("--outcome", metavar="HOW", help="completed, failed, cancelled or superseded.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", metavar="KIND", help="backends, models, loads, or one kind such as model_load."),
    ] = None,
    search: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", help="Part of a name, node, error, id or user.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="7d, 24h, or a day such as 2026-11-01 (UTC).")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="The same; not included.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Forget what has ended.")] = False,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Show what has ended, the newest first; or forget it."""
    from corral.cli.operation_views import history_list
    from corral.cli.usage import parse_moment

    times = {"since": since, "until": until}
    given = {"node": node, "outcome": outcome, "kind": kind, "search": search} | {
        name: parse_moment(text, session.now()).isoformat() for name, text in times.items() if text
    }
    filters = {name: value for name, value in given.items() if value}
    if clear and filters:
        raise typer.BadParameter("--clear forgets everything that has ended, not only what matches a filter")
    if clear:
        await _clear(session, is_sure=is_sure)
        return
    records: list[RecordOut] = []
    before: str | None = None
    stale: str | None = None
    while len(records) < limit:
        page = await session.client.operations.history(
            limit=min(200, limit - len(records)), before=before, filters=filters
        )
        records += page.operations
        before, stale = page.next, page.stale or stale
        if before is None:
            break
    if session.as_json:
        render.write_json([one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in records])
    elif records:
        render.write(history_list(records, session.now(), colour=render.has_colour(sys.stdout)))
    else:
        render.say("No operations on record match this filter." if filters else "Nothing has ended yet.")
    if stale:
        render.say(render.clean(stale))


async def _clear(session: Session, *, is_sure: bool) -> None:
    if not is_sure and sys.stdin.isatty() and not render.ask("Forget every operation that has ended, for everybody?"):
        raise typer.Exit(1)
    removed = await session.client.operations.clear_history()
    if session.as_json:
        render.write_json({"removed": removed})
    else:
        render.say(f"{removed} records are gone.")
