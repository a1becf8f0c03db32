"""`corral nodes watch`: live on a terminal, a line per event in a pipe. Goes on over restarts of frontends.

A pipe gets every event exactly once and in order, or a line `reset`: after that one the state must be read anew.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import assert_never

from corral.cli import render
from corral.cli.command import Session
from corral.cli.node_views import event_line, node_list
from corral.client import Connected, Interrupted, Reset
from corral.wire.events import EventOut
from corral.wire.nodes import NodeOut

TOPICS = ("node",)


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
    """The table is read anew after each event: the stream says *that* something changed, the list says what is."""
    # Late: only the live table needs it.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, auto_refresh=False, transient=False) as live:

        def show(nodes: list[NodeOut], note: str) -> None:
            # Rich adds its own colours or none; the text itself is ours.
            text = node_list(nodes, session.now(), colour=render.has_colour(console.file))
            live.update(Text.from_ansi(f"{text}\n{note}"), refresh=True)

        nodes = await session.client.nodes.list()
        show(nodes, "Ctrl-C ends it.")
        async with aclosing(session.client.watch_events(topics=TOPICS)) as items:
            async for item in items:
                if isinstance(item, Interrupted):
                    show(nodes, f"The stream broke ({render.clean(item.reason)}); trying again.")
                    continue
                nodes = await session.client.nodes.list()
                note = event_line(item) if isinstance(item, EventOut) else "Ctrl-C ends it."
                show(nodes, note)
