"""`corral nodes watch`: a live table on a terminal, a line per event in a pipe. It survives restarts of frontends.

A pipe gets every event exactly once and in order, or a line `reset`: after a reset the state must be read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import assert_never

from corral.cli import render
from corral.cli.command import CommandSession, make_tasks
from corral.cli.node_views import format_event_line, format_node_list
from corral.client import StreamConnectedNotice, StreamInterruptedNotice, StreamItem, StreamResetNotice
from corral.domain.errors import Unavailable
from corral.runtime.attempt import AttemptFailure, attempt
from corral.wire.live import EventOut
from corral.wire.nodes import NodeOut

TOPICS = ("node",)
REFRESH_S = 5.0
# Events that arrive while the table is being read are queued here; the stream itself keeps the rest.
QUEUE_LIMIT = 100
QUIET_NOTE = "Press Ctrl-C to quit."


class OutageNotice:
    """Prints once on the command line that the event stream broke and once that it is back.

    However many attempts lie between.
    """

    def __init__(self) -> None:
        self._is_broken = False

    def report_outage(self, reason: str) -> None:
        if not self._is_broken:
            render.print_notice(f"The event stream broke ({render.clean_text(reason)}); reconnecting.")
        self._is_broken = True

    def report_recovery(self) -> None:
        if self._is_broken:
            render.print_notice("The event stream is back.")
        self._is_broken = False


async def watch_as_lines(session: CommandSession) -> None:
    outage = OutageNotice()
    async with aclosing(session.client.watch_events(topics=TOPICS)) as items:
        async for item in items:
            match item:
                case EventOut():
                    outage.report_recovery()
                    _print_event(session, item)
                case StreamResetNotice():
                    outage.report_recovery()
                    _print_reset(session)
                case StreamConnectedNotice():
                    outage.report_recovery()
                case StreamInterruptedNotice():
                    outage.report_outage(item.reason)
                case _:
                    assert_never(item)


def _print_event(session: CommandSession, event: EventOut) -> None:
    if session.as_json:
        render.print_json(event.model_dump(mode="json"), one_line=True)
    else:
        render.print_data(format_event_line(event))


def _print_reset(session: CommandSession) -> None:
    if session.as_json:
        render.print_json({"kind": "reset"}, one_line=True)
    else:
        render.print_data("reset: events were missed, read the state again")


async def watch_as_table(session: CommandSession) -> None:
    """Show the table of nodes and read it again after each event: the stream says that something changed, not what.

    The table is also read periodically, because heartbeats change the free memory without being events.
    """
    # Imported here because only the live table needs the library.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    changes: asyncio.Queue[StreamItem | AttemptFailure] = asyncio.Queue(maxsize=QUEUE_LIMIT)
    reader = make_tasks("watch")
    with Live(console=console, auto_refresh=False) as live:

        def draw(nodes: list[NodeOut], note: str) -> None:
            text = format_node_list(nodes, session.read_time(), colour=render.has_colour(console.file))
            live.update(Text.from_ansi(f"{text}\n{note}"), refresh=True)

        reader.start(_read_changes(session, changes), name="events")
        try:
            await _redraw_until_end(session, changes, draw)
        finally:
            await reader.close()


async def _read_changes(session: CommandSession, changes: asyncio.Queue[StreamItem | AttemptFailure]) -> None:
    async def forward_items() -> None:
        async with aclosing(session.client.watch_events(topics=TOPICS)) as items:
            async for item in items:
                await changes.put(item)

    outcome = await attempt(forward_items)
    if isinstance(outcome, AttemptFailure):
        await changes.put(outcome)


async def _redraw_until_end(
    session: CommandSession,
    changes: asyncio.Queue[StreamItem | AttemptFailure],
    draw: Callable[[list[NodeOut], str], None],
) -> None:
    nodes, note = await session.client.nodes.list(), QUIET_NOTE
    while True:
        draw(nodes, note)
        change = await _get_next_change(changes)
        match change:
            case AttemptFailure():
                raise change.error
            case StreamInterruptedNotice():
                note = f"The event stream broke ({render.clean_text(change.reason)}); reconnecting."
                continue
            case EventOut():
                note = format_event_line(change)
            case StreamConnectedNotice() | StreamResetNotice():
                note = QUIET_NOTE
            case None:
                pass
            case _:
                assert_never(change)
        try:
            nodes = await session.client.nodes.list()
        except Unavailable as error:
            note = render.clean_text(error.message)


async def _get_next_change(changes: asyncio.Queue[StreamItem | AttemptFailure]) -> StreamItem | AttemptFailure | None:
    """Return the next change of the stream, or None if the table is due to be read."""
    try:
        async with asyncio.timeout(REFRESH_S):
            return await changes.get()
    except TimeoutError:
        return None
