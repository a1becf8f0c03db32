"""`corral batches …`: commands for batches. An id can be shortened to its beginning or end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_group, register_command
from corral.cli.new_file import open_new_file
from corral.domain.errors import Conflict
from corral.domain.state_words import say_run_state

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from corral.wire.batches import BatchOut

app = make_group("Batches, files of requests that are answered in the background: create, cancel and download them.")
BatchArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the batch, or its beginning or end.")]
_FULL_ID_LENGTH = len("batch_") + 32
_LISTED_MAX = 100
_ERRORS_SHOWN = 10


async def find_batch_id(session: CommandSession, text: str) -> str:
    """Return the full id for a short one, among the newest batches."""
    from corral.cli.operation_views import resolve_id

    if len(text) >= _FULL_ID_LENGTH:
        return text
    listed = await session.client.batches.list(limit=_LISTED_MAX)
    return resolve_id([batch.id for batch in listed.data], text)


@register_command(app, "create")
async def create_batch(
    session: CommandSession,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The requests, one JSON object a line.")],
    *,
    endpoint: Annotated[
        str, typer.Option(help="Where the requests go: /v1/completions, /v1/embeddings, /v1/responses, or chats.")
    ] = "/v1/chat/completions",
) -> None:
    """Upload a file of requests and start a batch of it."""
    from corral.wire.batches import BatchIn

    uploaded = await session.client.batches.upload_input(file)
    made = await session.client.batches.create(BatchIn(input_file_id=uploaded.id, endpoint=endpoint))
    if session.as_json:
        render.print_json(made.model_dump(mode="json"))
    else:
        render.print_data(made.id)
        render.print_notice(f"Started the batch. Follow it: corral batches show {made.id}")


@register_command(app, "list")
async def list_batches(
    session: CommandSession,
    *,
    limit: Annotated[int, typer.Option(min=1, max=_LISTED_MAX, help="How many to list at most.")] = 20,
) -> None:
    """List your batches, newest first."""
    found = (await session.client.batches.list(limit=limit)).data
    if session.as_json:
        render.print_json([batch.model_dump(mode="json") for batch in found])
    elif found:
        render.print_data(_format_list(found, session.read_time(), colour=render.has_colour(sys.stdout)))
    else:
        render.print_notice("You have no batches. Start one: corral batches create FILE")


@register_command(app, "show")
async def show_batch(session: CommandSession, batch: BatchArgument) -> None:
    """Show a batch: its status, counts, errors and files."""
    found = await session.client.batches.get(await find_batch_id(session, batch))
    if session.as_json:
        render.print_json(found.model_dump(mode="json"))
        return
    render.print_data(_format_batch(found))
    for error in found.errors.data[:_ERRORS_SHOWN] if found.errors else ():
        place = "" if error.line is None else f"line {error.line}: "
        render.print_data(render.clean_text(f"{place}{error.message} ({error.code})"))
    if found.output_file_id or found.error_file_id:
        render.print_notice(f"Download the answers: corral batches download {found.id} FILE")


@register_command(app, "cancel")
async def cancel_batch(session: CommandSession, batch: BatchArgument) -> None:
    """Cancel a batch. Its files keep the answers so far."""
    cancelled = await session.client.batches.cancel(await find_batch_id(session, batch))
    if session.as_json:
        render.print_json(cancelled.model_dump(mode="json"))
    else:
        render.print_notice("Cancelled the batch. Its files keep the answers so far.")


@register_command(app, "download")
async def download_batch(
    session: CommandSession,
    batch: BatchArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, which must not exist.")],
    *,
    errors: Annotated[
        bool, typer.Option("--errors", help="Download the failed requests instead of the answers.")
    ] = False,
) -> None:
    """Download the answers of a batch. With --errors, download the requests that failed."""
    found = await session.client.batches.get(await find_batch_id(session, batch))
    file_id = found.error_file_id if errors else found.output_file_id
    if file_id is None:
        what = "no failed requests" if errors else "no answers"
        raise Conflict(f"{say_run_state('The batch', found.status)} and has {what} to download.", code="no_batch_file")
    with open_new_file(file) as target:
        size_bytes = await session.client.batches.download(file_id, target)
    if session.as_json:
        render.print_json({"file_id": file_id, "path": str(file), "size_bytes": size_bytes})
    else:
        render.print_notice(f"Wrote {size_bytes} bytes to {file}.")


def _format_list(found: Sequence[BatchOut], now: datetime, *, colour: bool) -> str:
    from datetime import UTC, datetime

    from corral.domain.state_words import BATCH_WORDS, find_word

    rows = [
        [
            batch.id,
            batch.endpoint,
            find_word(BATCH_WORDS, batch.status),
            _format_counts(batch),
            render.format_age(datetime.fromtimestamp(batch.created_at, UTC), now),
        ]
        for batch in found
    ]
    return render.format_table(("ID", "ENDPOINT", "STATUS", "ANSWERED", "AGE"), rows, colour=colour)


def _format_counts(batch: BatchOut) -> str:
    counts = batch.request_counts
    failed = f", {counts.failed} failed" if counts.failed else ""
    return f"{counts.completed + counts.failed}/{counts.total}{failed}"


def _format_batch(batch: BatchOut) -> str:
    from corral.domain.state_words import BATCH_WORDS, find_word

    facts = {
        "Batch": batch.id,
        "Status": find_word(BATCH_WORDS, batch.status),
        "Answered": _format_counts(batch),
        "Endpoint": batch.endpoint,
        "Input": batch.input_file_id,
        "Answers": batch.output_file_id or render.NONE,
        "Failed requests": batch.error_file_id or render.NONE,
        "Run": batch.run_id,
    }
    return render.format_facts(facts)
