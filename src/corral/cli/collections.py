"""`corral collections …`: commands for collections of documents, their entries and their sources."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_group, register_command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from corral.wire.collections import CollectionEntryOut, CollectionOut, CollectionSourceOut

app = make_group("Collections of documents: create, fill and search them.")
CollectionArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the collection.")]
EntryArgument = Annotated[str, typer.Argument(metavar="ENTRY", help="Name of the entry.")]
UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="Address of a page or a file.")]
SureOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
_TEXT_SHOWN = 300


@register_command(app, "list")
async def list_collections(session: CommandSession) -> None:
    """List your collections."""
    found = (await session.client.collections.list()).items
    if session.as_json:
        render.print_json([one.model_dump(mode="json") for one in found])
    elif found:
        render.print_data(_format_collections(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("You have no collections. Create one: corral collections create NAME")


@register_command(app, "create")
async def create_collection(
    session: CommandSession,
    name: CollectionArgument,
    *,
    embedding_model: Annotated[
        str, typer.Option(help="Model that embeds its documents. Empty: the cluster's default.")
    ] = "",
    chunk_size: Annotated[int, typer.Option(help="Characters of one chunk.")] = 400,
    chunk_overlap: Annotated[int, typer.Option(help="Characters that a chunk repeats of the one before.")] = 0,
    language: Annotated[
        str, typer.Option(help="By which words are found: auto, simple, or one such as english or german.")
    ] = "auto",
) -> None:
    """Create a collection."""
    from corral.wire.collections import CollectionIn

    body = CollectionIn(
        name=name,
        embedding_model=embedding_model,
        chunk_size=chunk_size,
        chunk_overlap=chunk_overlap,
        language=language,
    )
    made = await session.client.collections.create(body)
    if session.as_json:
        render.print_json(made.model_dump(mode="json"))
    else:
        render.print_notice(f"Created the collection. Fill it: corral collections upload {name} FILE")


@register_command(app, "upload")
async def upload_documents(
    session: CommandSession,
    name: CollectionArgument,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Documents to upload.")],
    *,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Do not wait until they are read.")] = False,
) -> None:
    """Upload documents: text, Markdown, HTML, PDF, DOCX, PPTX or XLSX. Agent workers read them."""
    entries = []
    for file in files:
        uploaded = await session.client.collections.upload(name, file)
        entries.append(uploaded.entry)
        if not session.as_json:
            render.print_notice(f"Uploaded {render.clean_text(uploaded.filename)}.")
    if not detach:
        entries = [await _follow_entry(session, name, entry) for entry in entries]
    if session.as_json:
        render.print_json([entry.model_dump(mode="json") for entry in entries])
    elif detach:
        render.print_notice(f"Workers read them now. Look at it: corral collections entries {name}")
    if any(entry.state == "failed" for entry in entries):
        raise typer.Exit(1)


async def _follow_entry(session: CommandSession, name: str, entry: CollectionEntryOut) -> CollectionEntryOut:
    """Wait until a worker has read an entry, and return it as it is then. Ctrl-C leaves it going."""
    if entry.run_id is not None:
        async for _ in session.client.runs.follow(entry.run_id):
            pass
    ended = (await session.client.collections.read_entry(name, entry.name)).entry
    if not session.as_json:
        chunks = f"{ended.chunks} chunk" + ("s" if ended.chunks != 1 else "")
        outcome = f"is ready, {chunks}." if ended.state == "ready" else f"failed: {ended.message}"
        render.print_notice(render.clean_text(f"{ended.name} {outcome}"))
    return ended


@register_command(app, "entries")
async def list_entries(session: CommandSession, name: CollectionArgument) -> None:
    """List the entries of a collection, with how far each has been read."""
    found: list[CollectionEntryOut] = []
    has_more = True
    while has_more:
        page = await session.client.collections.list_entries(name, after=found[-1].name if found else "")
        found += page.items
        has_more = page.has_more and bool(page.items)
    if session.as_json:
        render.print_json([one.model_dump(mode="json") for one in found])
    elif found:
        render.print_data(_format_entries(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice(f"The collection is empty. Fill it: corral collections upload {name} FILE")


@register_command(app, "show")
async def show_entry(session: CommandSession, name: CollectionArgument, entry: EntryArgument) -> None:
    """Show the text of an entry, at most 1,000 chunks."""
    found = await session.client.collections.read_entry(name, entry)
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
        return
    for chunk in found.chunks:
        render.print_data(f"{render.clean_text(chunk)}\n")
    if found.entry.message:
        render.print_notice(render.clean_text(found.entry.message))


@register_command(app, "search")
async def search_collection(
    session: CommandSession,
    name: CollectionArgument,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to search for.")],
    *,
    results: Annotated[int, typer.Option(min=1, max=50, help="How many results at most.")] = 5,
) -> None:
    """Search a collection by meaning and by words."""
    found = await session.client.collections.search(name, query, max_results=results)
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
        return
    if not found.results:
        render.print_notice("Nothing was found.")
    for number, one in enumerate(found.results, start=1):
        head = f"{number}. {one.metadata.get('file_name', '')} (similarity {one.similarity:.2f})"
        render.print_data(render.clean_text(head))
        render.print_data(f"   {render.clean_text(' '.join(one.content.split())[:_TEXT_SHOWN])}\n")


@register_command(app, "delete-entry")
async def delete_entry(session: CommandSession, name: CollectionArgument, entry: EntryArgument) -> None:
    """Delete an entry with its file."""
    left = await session.client.collections.delete_entry(name, entry)
    if session.as_json:
        render.print_json(left.model_dump(mode="json"))
    else:
        render.print_notice("Deleted the entry.")


@register_command(app, "sources")
async def list_sources(session: CommandSession, name: CollectionArgument) -> None:
    """List the addresses that a collection is kept up to date with."""
    found = (await session.client.collections.list_sources(name)).sources
    if session.as_json:
        render.print_json([one.model_dump(mode="json") for one in found])
    elif found:
        render.print_data(_format_sources(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice(f"The collection has no sources. Add one: corral collections add-source {name} URL")


@register_command(app, "add-source")
async def add_source(
    session: CommandSession,
    name: CollectionArgument,
    url: UrlArgument,
    *,
    every: Annotated[str, typer.Option(help="How often it is read again, such as 30m or 1d.")] = "1h",
) -> None:
    """Add an address that is read now and again at its interval."""
    from corral.wire.collections import CollectionSourceIn

    found = await session.client.collections.add_source(name, CollectionSourceIn(url=url, update_interval=every))
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
    else:
        render.print_notice(f"Added the source. It is read now: corral collections sources {name}")


@register_command(app, "delete-source")
async def delete_source(session: CommandSession, name: CollectionArgument, url: UrlArgument) -> None:
    """Delete a source with the entry that was made of it."""
    found = await session.client.collections.delete_source(name, url)
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
    else:
        render.print_notice("Deleted the source.")


@register_command(app, "reset")
async def reset_collection(session: CommandSession, name: CollectionArgument, *, is_sure: SureOption = False) -> None:
    """Delete all entries and sources of a collection, and keep the collection."""
    _confirm(session, f"Delete all entries and sources of {name}?", is_sure=is_sure)
    reset = await session.client.collections.reset(name)
    if session.as_json:
        render.print_json(reset.model_dump(mode="json"))
    else:
        render.print_notice("Deleted all entries and sources.")


@register_command(app, "delete")
async def delete_collection(session: CommandSession, name: CollectionArgument, *, is_sure: SureOption = False) -> None:
    """Delete a collection with everything in it."""
    _confirm(session, f"Delete {name} with all of its documents?", is_sure=is_sure)
    await session.client.collections.delete(name)
    if session.as_json:
        render.print_json({"name": name, "deleted": True})
    else:
        render.print_notice("Deleted the collection.")


def _confirm(session: CommandSession, question: str, *, is_sure: bool) -> None:
    if not is_sure and not session.as_json and sys.stdin.isatty() and not render.confirm(question):
        raise typer.Exit(1)


def _format_collections(found: Sequence[CollectionOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            one.name,
            one.embedding_model,
            str(one.entries),
            str(one.chunks),
            render.format_age(one.created_at, now),
        ]
        for one in found
    ]
    return render.format_table(("NAME", "MODEL", "ENTRIES", "CHUNKS", "AGE"), rows, colour=colour)


def _format_entries(found: Sequence[CollectionEntryOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            render.clean_text(one.name),
            one.state,
            str(one.chunks),
            render.format_age(one.updated_at, now),
            render.clean_text(one.message) or render.NONE,
        ]
        for one in found
    ]
    return render.format_table(("NAME", "STATE", "CHUNKS", "CHANGED", "MESSAGE"), rows, colour=colour)


def _format_sources(found: Sequence[CollectionSourceOut], now: datetime, *, colour: bool) -> str:
    rows = [
        [
            render.clean_text(one.url),
            f"{one.update_interval:g} min",
            render.format_age(one.last_update, now) if one.last_update else render.NONE,
            render.clean_text(one.problem) or render.NONE,
        ]
        for one in found
    ]
    return render.format_table(("ADDRESS", "EVERY", "READ", "PROBLEM"), rows, colour=colour)
