"""`corral nodes watch`: live on a terminal, a line per event in a pipe. Goes on over restarts of frontends.

A pipe gets every event exactly once and in order, or a line `reset`: after that one the state must be read anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import assert_never

from corral.cli import render
from corral.cli.command import Session
from corral.cli.node_views import event_line, node_list
from corral.cli.working import own_tasks
from corral.client import Connected, Interrupted, Reset, StreamItem
from corral.domain.errors import Unavailable
from corral.runtime.guard import Failed, attempt
from corral.wire.events import EventOut
from corral.wire.nodes import NodeOut

TOPICS = ("node",)
REFRESH_S = 5.0
# A burst of events waits here while the table is being read; the stream itself keeps the rest.
QUEUE_LIMIT = 100
QUIET_NOTE = "Ctrl-C ends it."


class Trouble:
    """Says once that the stream broke and once that it is back, however many attempts lie between."""

    def __init__(self) -> None:
        self._is_broken = False

    def begin(self, reason: str) -> None:
        if not self._is_broken:
            render.say(f"The stream broke ({render.clean(reason)}); trying again until it is back.")
        self._is_broken = True

    def end(self) -> None:
        if self._is_broken:
            render.say("The stream is back.")
        self._is_broken = False


async def follow_as_lines(session: Session) -> None:
    trouble = Trouble()
    async with aclosing(session.client.watch_events(topics=TOPICS)) as items:
        async for item in items:
            match item:
                case EventOut():
                    trouble.end()
                    _write_event(session, item)
                case Reset():
                    trouble.end()
                    _write_reset(session)
                case Connected():
                    trouble.end()
                case Interrupted():
                    trouble.begin(item.reason)
                case _:
                    assert_never(item)


def _write_event(session: Session, event: EventOut) -> None:
    if session.as_json:
        render.write_json(event.model_dump(mode="json"), one_line=True)
    else:
        render.write(event_line(event))


def _write_reset(session: Session) -> None:
    if session.as_json:
        render.write_json({"kind": "reset"}, one_line=True)
    else:
        render.write("reset: events were missed, read the state anew")


async def follow_as_table(session: Session) -> None:
    """The table is read anew after each event: the stream says *that* something changed, the list says what is.

    It is also read anew now and then, because heartbeats change the free memory without being events.
    """
    # Late: only the live table needs it.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    changes: asyncio.Queue[StreamItem | Failed] = asyncio.Queue(maxsize=QUEUE_LIMIT)
    reader = own_tasks("watch")
    with Live(console=console, auto_refresh=False) as live:

        def draw(nodes: list[NodeOut], note: str) -> None:
            text = node_list(nodes, session.now(), colour=render.has_colour(console.file))
            live.update(Text.from_ansi(f"{text}\n{note}"), refresh=True)

        reader.start(_read(session, changes), name="events")
        try:
            await _keep_drawn(session, changes, draw)
        finally:
            await reader.close()


async def _read(session: Session, changes: asyncio.Queue[StreamItem | Failed]) -> None:
    async def pass_on() -> None:
        async with aclosing(session.client.watch_events(topics=TOPICS)) as items:
            async for item in items:
                await changes.put(item)

    outcome = await attempt(pass_on)
    if isinstance(outcome, Failed):
        await changes.put(outcome)


async def _keep_drawn(
    session: Session, changes: asyncio.Queue[StreamItem | Failed], draw: Callable[[list[NodeOut], str], None]
) -> None:
    nodes, note = await session.client.nodes.list(), QUIET_NOTE
    while True:
        draw(nodes, note)
        change = await _next(changes)
        match change:
            case Failed():
                raise change.error
            case Interrupted():
                note = f"The stream broke ({render.clean(change.reason)}); trying again."
                continue
            case EventOut():
                note = event_line(change)
            case Connected() | Reset():
                note = QUIET_NOTE
            case None:
                pass
            case _:
                assert_never(change)
        try:
            nodes = await session.client.nodes.list()
        except Unavailable as error:
            note = render.clean(error.message)


async def _next(changes: asyncio.Queue[StreamItem | Failed]) -> StreamItem | Failed | None:
    """What comes next, or None when the table is due anyway."""
    try:
        async with asyncio.timeout(REFRESH_S):
            return await changes.get()
    except TimeoutError:
        return None
