"""`corral top`: live view of models, replicas and requests, refreshed each second until Ctrl-C.

Every line fits the terminal, from 80 columns on; what does not fit its height is counted. On a pipe, and with --once,
the view is printed once. The numbers cover all frontends that the answering one knows of, and the view says how many.
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
from corral.cli.command import CommandSession, add_session
from corral.domain.errors import Unavailable
from corral.domain.state_words import EXCLUDED, REPLICA_WORDS, find_word
from corral.wire.live import LiveModelOut, LiveOut, LiveReplicaOut, RequestPaceOut

INTERVAL_S = 1.0
WIDTH_MIN = 80
GAP = "  "
_BOLD, _DIM, _RED, _YELLOW = "1", "2", "31", "33"
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class TopColumn:
    """Describes one column of `corral top`: its title, width, and the terminal width from which it is shown."""

    title: str
    width: int
    # The column is left out on narrower terminals.
    min_terminal_width: int = 0


_COLUMNS = (
    TopColumn("STATE", 9),
    TopColumn("BUSY", 4),
    TopColumn("WAIT", 4),
    TopColumn("REQ/S", 6),
    TopColumn("TOK/S", 6),
    TopColumn("TTFT", 6),
    TopColumn("P95", 6),
    TopColumn("GAP", 6, 96),
    TopColumn("ERR/S", 5, 96),
)


async def _top(
    session: CommandSession,
    once: Annotated[bool, typer.Option("--once", help="Print the view once and exit.")] = False,
) -> None:
    """Watch models, replicas, requests and tokens live."""
    if session.as_json:
        await _print_json(session, is_once=once)
    elif once or not sys.stdout.isatty():
        found = await session.client.cluster.get_live()
        render.print_data(render_screen(found, width=_get_terminal_size()[0], colour=render.has_colour(sys.stdout)))
    else:
        await _draw_live(session)


top = add_session(_top)


async def _print_json(session: CommandSession, *, is_once: bool) -> None:
    """Print each snapshot as one line of JSON."""
    while True:
        found = await session.client.cluster.get_live()
        render.print_json(found.model_dump(mode="json"), one_line=not is_once)
        if is_once:
            return
        await asyncio.sleep(INTERVAL_S)


async def _draw_live(session: CommandSession) -> None:
    # Imported here because only the live view needs the library.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    colour = render.has_colour(console.file)
    # An error of the first read ends the command; later errors are shown and retried.
    found, note = await session.client.cluster.get_live(), ""
    with Live(console=console, auto_refresh=False, screen=True) as view:
        while True:
            width, height = _get_terminal_size()
            drawn = render_screen(found, width=width, height=height, colour=colour, note=note)
            view.update(Text.from_ansi(drawn), refresh=True)
            await asyncio.sleep(INTERVAL_S)
            try:
                found, note = await session.client.cluster.get_live(), ""
            except Unavailable as error:
                note = f"{error.message} Retrying; these are the last known numbers."


def _get_terminal_size() -> tuple[int, int]:
    size = shutil.get_terminal_size((WIDTH_MIN, 24))
    return max(WIDTH_MIN, size.columns), size.lines


def render_screen(
    found: LiveOut, *, width: int, height: int | None = None, colour: bool = False, note: str = ""
) -> str:
    """Return the lines of the screen, cut to `width` columns and `height` lines."""
    head = [*_iter_summary(found)]
    for sentence in found.degraded:
        head += _wrap(f"degraded: {sentence}", width, _YELLOW)
    if note:
        head += _wrap(note, width, _RED)
    head += [_ColouredLine(""), _make_header(width)]
    rows = list(_iter_rows(found, width))
    room = len(rows) if height is None else max(1, height - len(head) - 2)
    if len(rows) > room:
        left_out = len(rows) - room + 1
        rows = [*rows[: room - 1], _ColouredLine(f"… {left_out} more lines; --once shows all", _DIM)]
    if not found.models:
        rows.append(
            _ColouredLine("No models are loaded and no requests are in flight. `corral models list` shows all models.")
        )
    elif found.idle_models:
        rows.append(_ColouredLine(f"{found.idle_models} more without replicas or requests", _DIM))
    return "\n".join(line.format_fitted(width, colour=colour) for line in [*head, *rows])


class _ColouredLine:
    """A line of `corral top` with the colour that it may have."""

    def __init__(self, text: str, code: str = "") -> None:
        self._text = text
        self._code = code

    def format_fitted(self, width: int, *, colour: bool) -> str:
        text = _cut(render.clean_text(self._text), width).rstrip()
        return f"\x1b[{self._code}m{text}\x1b[0m" if colour and self._code and text else text


def _wrap(text: str, width: int, code: str) -> list[_ColouredLine]:
    """Wrap a sentence into lines, so that all of it is shown."""
    lines = textwrap.wrap(render.clean_text(text), width, subsequent_indent=_INDENT)
    return [_ColouredLine(line, code) for line in lines]


def _iter_summary(found: LiveOut) -> Iterator[_ColouredLine]:
    pace = found.pace
    yield _ColouredLine(
        f"corral top   {found.at:%H:%M:%S} UTC   {_format_number(pace.requests_per_s)} requests/s   "
        f"{_format_number(pace.tokens_per_s)} tokens/s",
        _BOLD,
    )
    waiting = sum(model.waiting for model in found.models)
    busy = sum(model.in_flight for model in found.models)
    yield _ColouredLine(
        f"{found.requests_open} open, {found.streams_open} of them streams   {busy} busy and {waiting} waiting   "
        f"{'all of one frontend' if found.frontends == 1 else f'{found.frontends} frontends together'}"
    )
    troubles = f"{_format_number(pace.errors_per_s)} errors/s"
    times = f"TTFT {_format_seconds(pace.first_byte_s.p50)} (p95 {_format_seconds(pace.first_byte_s.p95)})"
    queue = (
        f"queue p95 {_format_seconds(pace.queue_s.p95)}   prompts {_format_number(pace.prompt_tokens_per_s)} tokens/s"
    )
    yield _ColouredLine(f"{troubles}   {times}   {queue}", _RED if pace.errors_per_s else "")


def _make_header(width: int) -> _ColouredLine:
    return _ColouredLine(
        _format_row("MODEL, REPLICA", [column.title for column in _list_shown_columns(width)], width), _DIM
    )


def _iter_rows(found: LiveOut, width: int) -> Iterator[_ColouredLine]:
    for model in found.models:
        yield _ColouredLine(_format_row(model.name, _make_model_cells(model, width), width), _BOLD)
        for replica in model.replicas:
            name = f"{_INDENT}{replica.node} #{replica.index}"
            yield _ColouredLine(_format_row(name, _make_replica_cells(replica, width), width), _pick_colour(replica))


def _make_model_cells(model: LiveModelOut, width: int) -> list[str]:
    loaded = sum(replica.state == "loaded" for replica in model.replicas)
    state = f"{loaded}/{len(model.replicas)}" if model.replicas else "absent"
    return [state, str(model.in_flight), str(model.waiting or ""), *_make_pace_cells(model.pace, width)]


def _make_replica_cells(replica: LiveReplicaOut, width: int) -> list[str]:
    is_left_out = replica.state == "loaded" and replica.breaker != "closed"
    return [
        EXCLUDED if is_left_out else find_word(REPLICA_WORDS, replica.state),
        str(replica.in_flight or ""),
        "",
        *_make_pace_cells(replica.pace, width),
    ]


def _pick_colour(replica: LiveReplicaOut) -> str:
    if replica.breaker != "closed":
        return _RED
    return "" if replica.state == "loaded" else _YELLOW


def _make_pace_cells(pace: RequestPaceOut, width: int) -> list[str]:
    cells = [
        _format_number(pace.requests_per_s) if pace.requests_per_s else "",
        _format_number(pace.tokens_per_s) if pace.tokens_per_s else "",
        _format_seconds(pace.first_byte_s.p50, nothing=""),
        _format_seconds(pace.first_byte_s.p95, nothing=""),
        _format_seconds(pace.inter_token_s.p50, nothing=""),
        _format_number(pace.errors_per_s) if pace.errors_per_s else "",
    ]
    return cells[: len(_list_shown_columns(width)) - 3]


def _list_shown_columns(width: int) -> list[TopColumn]:
    return [column for column in _COLUMNS if width >= column.min_terminal_width]


def _format_row(name: str, cells: Sequence[str], width: int) -> str:
    columns = _list_shown_columns(width)
    name_width = width - sum(column.width + len(GAP) for column in columns)
    first, *numbers = cells
    words = [set_cell_size(_cut(render.clean_text(name), name_width), name_width), f"{first:<{columns[0].width}}"]
    words += [f"{cell:>{column.width}}" for cell, column in zip(numbers, columns[1:], strict=True)]
    return GAP.join(words)


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def _format_number(value: float) -> str:
    """Return a number in at most five characters."""
    if value >= 9_999.5:
        return f"{value / 1000:.0f}k" if value < 999_500 else f"{value / 1e6:.1f}M"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def _format_seconds(value: float | None, *, nothing: str = render.NONE) -> str:
    """Return a duration in at most six characters."""
    if value is None:
        return nothing
    if value < 0.9995:
        return f"{value * 1000:.0f}ms" if value >= 0.00995 else f"{value * 1000:.1f}ms"
    return f"{value:.1f}s" if value < 99.95 else f"{value:.0f}s"
