"""`corral top`: what the models are doing right now, drawn anew each second until Ctrl-C.

Every line fits the terminal, from 80 columns on; what does not fit its height is counted. On a pipe, and with --once,
it is one look. Numbers are those of all frontends that the one that answers hears of; it says how many those are.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.cells import cell_len, set_cell_size

from corral.cli import render
from corral.cli.command import Session, with_session
from corral.domain.errors import Unavailable
from corral.wire.live import LiveModel, LiveOut, LiveReplica, PaceOut

INTERVAL_S = 1.0
WIDTH_LEAST = 80
GAP = "  "
_BOLD, _DIM, _RED, _YELLOW = "1", "2", "31", "33"
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    width: int
    # Narrower terminals do without it.
    least_terminal: int = 0


_COLUMNS = (
    Column("STATE", 9),
    Column("BUSY", 4),
    Column("WAIT", 4),
    Column("REQ/S", 6),
    Column("TOK/S", 6),
    Column("TTFT", 6),
    Column("P95", 6),
    Column("GAP", 6, 96),
    Column("ERR/S", 5, 96),
)


async def _top(
    session: Session,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
) -> None:
    """Watch models, replicas, requests and tokens as they go."""
    if session.as_json:
        await _as_json(session, is_once=once)
    elif once or not sys.stdout.isatty():
        found = await session.client.live()
        render.write(screen(found, width=_terminal()[0], colour=render.has_colour(sys.stdout)))
    else:
        await _live(session)


top = with_session(_top)


async def _as_json(session: Session, *, is_once: bool) -> None:
    """One line for each look."""
    while True:
        found = await session.client.live()
        render.write_json(found.model_dump(mode="json"), one_line=not is_once)
        if is_once:
            return
        await asyncio.sleep(INTERVAL_S)


async def _live(session: Session) -> None:
    # Late: only the live view needs it.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    colour = render.has_colour(console.file)
    # The first look fails as any command does; later ones may come back.
    found, note = await session.client.live(), ""
    with Live(console=console, auto_refresh=False, screen=True) as view:
        while True:
            width, height = _terminal()
            drawn = screen(found, width=width, height=height, colour=colour, note=note)
            view.update(Text.from_ansi(drawn), refresh=True)
            await asyncio.sleep(INTERVAL_S)
            try:
                found, note = await session.client.live(), ""
            except Unavailable as error:
                note = f"{error.message} Trying again; this is how it was."


def _terminal() -> tuple[int, int]:
    size = shutil.get_terminal_size((WIDTH_LEAST, 24))
    return max(WIDTH_LEAST, size.columns), size.lines


def screen(found: LiveOut, *, width: int, height: int | None = None, colour: bool = False, note: str = "") -> str:
    """All lines, none longer than `width`, none too many for `height`."""
    head = [*_summary(found)]
    for sentence in found.degraded:
        head += _wrapped(f"degraded: {sentence}", width, _YELLOW)
    if note:
        head += _wrapped(note, width, _RED)
    head += [_Line(""), _header(width)]
    rows = list(_rows(found, width))
    room = len(rows) if height is None else max(1, height - len(head) - 2)
    if len(rows) > room:
        left_out = len(rows) - room + 1
        rows = [*rows[: room - 1], _Line(f"… {left_out} more lines; --once shows all", _DIM)]
    if not found.models:
        rows.append(_Line("No model is loaded and nobody asks for one. `corral models list` shows what there is."))
    elif found.idle_models:
        rows.append(_Line(f"{found.idle_models} more without replicas or requests", _DIM))
    return "\n".join(line.fitted(width, colour=colour) for line in [*head, *rows])


class _Line:
    """A line, and the colour that it may have."""

    def __init__(self, text: str, code: str = "") -> None:
        self._text = text
        self._code = code

    def fitted(self, width: int, *, colour: bool) -> str:
        text = _cut(render.clean(self._text), width).rstrip()
        return f"\x1b[{self._code}m{text}\x1b[0m" if colour and self._code and text else text


def _wrapped(text: str, width: int, code: str) -> list[_Line]:
    """A sentence is shown whole."""
    lines = textwrap.wrap(render.clean(text), width, subsequent_indent=_INDENT)
    return [_Line(line, code) for line in lines]


def _summary(found: LiveOut) -> Iterator[_Line]:
    pace = found.pace
    yield _Line(
        f"corral top   {found.at:%H:%M:%S} UTC   {_number(pace.requests_per_s)} requests/s   "
        f"{_number(pace.tokens_per_s)} tokens/s",
        _BOLD,
    )
    waiting = sum(model.waiting for model in found.models)
    busy = sum(model.in_flight for model in found.models)
    yield _Line(
        f"{found.requests_open} open, {found.streams_open} of them streams   {busy} busy and {waiting} waiting   "
        f"{'all of one frontend' if found.frontends == 1 else f'{found.frontends} frontends together'}"
    )
    troubles = f"{_number(pace.errors_per_s)} errors/s"
    times = f"TTFT {_seconds(pace.first_byte_s.p50)} (p95 {_seconds(pace.first_byte_s.p95)})"
    queue = f"queue p95 {_seconds(pace.queue_s.p95)}   prompts {_number(pace.prompt_tokens_per_s)} tokens/s"
    yield _Line(f"{troubles}   {times}   {queue}", _RED if pace.errors_per_s else "")


def _header(width: int) -> _Line:
    return _Line(_row("MODEL, REPLICA", [column.title for column in _shown(width)], width), _DIM)


def _rows(found: LiveOut, width: int) -> Iterator[_Line]:
    for model in found.models:
        yield _Line(_row(model.name, _model_cells(model, width), width), _BOLD)
        for replica in model.replicas:
            name = f"{_INDENT}{replica.node} #{replica.index}"
            yield _Line(_row(name, _replica_cells(replica, width), width), _colour_of(replica))


def _model_cells(model: LiveModel, width: int) -> list[str]:
    loaded = sum(replica.state == "loaded" for replica in model.replicas)
    state = f"{loaded}/{len(model.replicas)}" if model.replicas else "absent"
    return [state, str(model.in_flight), str(model.waiting or ""), *_paces(model.pace, width)]


def _replica_cells(replica: LiveReplica, width: int) -> list[str]:
    is_left_out = replica.state == "loaded" and replica.breaker != "closed"
    return [
        "failing" if is_left_out else replica.state,
        str(replica.in_flight or ""),
        "",
        *_paces(replica.pace, width),
    ]


def _colour_of(replica: LiveReplica) -> str:
    if replica.breaker != "closed":
        return _RED
    return "" if replica.state == "loaded" else _YELLOW


def _paces(pace: PaceOut, width: int) -> list[str]:
    cells = [
        _number(pace.requests_per_s) if pace.requests_per_s else "",
        _number(pace.tokens_per_s) if pace.tokens_per_s else "",
        _seconds(pace.first_byte_s.p50, nothing=""),
        _seconds(pace.first_byte_s.p95, nothing=""),
        _seconds(pace.inter_token_s.p50, nothing=""),
        _number(pace.errors_per_s) if pace.errors_per_s else "",
    ]
    return cells[: len(_shown(width)) - 3]


def _shown(width: int) -> list[Column]:
    return [column for column in _COLUMNS if width >= column.least_terminal]


def _row(name: str, cells: Sequence[str], width: int) -> str:
    columns = _shown(width)
    name_width = width - sum(column.width + len(GAP) for column in columns)
    first, *numbers = cells
    words = [set_cell_size(_cut(render.clean(name), name_width), name_width), f"{first:<{columns[0].width}}"]
    words += [f"{cell:>{column.width}}" for cell, column in zip(numbers, columns[1:], strict=True)]
    return GAP.join(words)


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def _number(value: float) -> str:
    """In at most five characters."""
    if value >= 9_999.5:
        return f"{value / 1000:.0f}k" if value < 999_500 else f"{value / 1e6:.1f}M"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def _seconds(value: float | None, *, nothing: str = render.NONE) -> str:
    """In at most six characters."""
    if value is None:
        return nothing
    if value < 0.9995:
        return f"{value * 1000:.0f}ms" if value >= 0.00995 else f"{value * 1000:.1f}ms"
    return f"{value:.1f}s" if value < 99.95 else f"{value:.0f}s"
