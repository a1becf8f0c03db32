"""Formats everything that commands print: tables, sizes, ages, errors.

Standard output carries data, standard error carries messages. Colour is only used on a terminal, never when NO_COLOR is
set, and is never needed to understand the output. Control characters are removed from text of other machines, so that a
node's name cannot move the cursor.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import IO, Any

from rich.cells import cell_len

from corral.domain.errors import CorralError

NONE = "-"
GAP = "   "
DIM, PLAIN = "\x1b[2m", "\x1b[0m"
_STEPS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"), (1.0, "s"))
_COLOURS = {"healthy": "32", "active": "32", "up": "32", "pending": "33", "draining": "33", "used up": "33"}
_COLOURS |= dict.fromkeys(("joining", "pending approval", "changes pending", "waiting for nodes", "retrying"), "33")
_COLOURS |= dict.fromkeys(("unhealthy", "offline", "expired", "revoked", "down", "lost"), "31")
_COLOURS |= dict.fromkeys(("completed", "installed"), "32") | dict.fromkeys(("failed", "unreachable"), "31")
_COLOURS |= dict.fromkeys(("queued", "paused", "drifts", "cancelled"), "33")


def print_data(text: str) -> None:
    """Print data on standard output."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    sys.stdout.flush()


def print_notice(text: str, *, is_dim: bool = False) -> None:
    """Print a message on standard error, without characters that a terminal would interpret: much of it comes from
    other people, engines and tools."""
    shown = clean_text(text, keep="\n\t")
    _write_message(f"{DIM}{shown}{PLAIN}" if is_dim else shown)


def _write_message(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def print_warnings(warnings: Iterable[str]) -> None:
    """Print the warnings of a response on standard error."""
    for warning in warnings:
        print_notice(clean_text(f"warning: {warning}"))


def confirm(question: str) -> bool:
    """Return whether the user answers yes. Anything else, and the end of input, is a no."""
    with allow_interrupt():
        sys.stderr.write(f"{clean_text(question)} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in {"y", "yes"}


@contextmanager
def allow_interrupt() -> Iterator[None]:
    """Let the first Ctrl-C end the program while it waits for a line of input.

    asyncio only records the first Ctrl-C and raises it when the task continues, which a task that waits for input does
    not.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def print_json(value: Any, *, one_line: bool = False) -> None:
    print_data(json.dumps(value, indent=None if one_line else 2, ensure_ascii=False, default=str))


def show_error(error: CorralError, *, as_json: bool = False) -> None:
    """Print an error on standard error, with `as_json` as one line of JSON."""
    if as_json:
        body = {"code": error.slug, "message": error.message, "hint": error.hint, "details": dict(error.details)}
        # JSON escapes control characters itself.
        _write_message(json.dumps({"error": body}, ensure_ascii=False, default=str))
    else:
        show_refusal(error.message, error.hint)


def show_refusal(message: str, hint: str | None) -> None:
    print_notice(f"error: {message}")
    if hint:
        print_notice(f"\nhint: {hint}")


def has_colour(stream: IO[str]) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


# Output of engines contains line breaks.
_REPLACED = {"\n": " ", "\t": " "}


def clean_text(text: str, *, keep: str = "") -> str:
    """Return the text on one line, with all characters replaced that a terminal would interpret."""
    return "".join(
        character
        if character.isprintable() or character in keep
        else _REPLACED.get(character, "\N{REPLACEMENT CHARACTER}")
        for character in text
    )


def format_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, colour: bool = False) -> str:
    """Return a table without borders: left-aligned columns, uppercase headers. Colour never changes a column's
    width."""
    lines = [[name.upper() for name in headers], *([clean_text(cell) or NONE for cell in row] for row in rows)]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(headers))]
    return "".join(f"{_format_line(line, widths, colour=colour)}\n" for line in lines)


def _format_line(cells: Sequence[str], widths: Sequence[int], *, colour: bool) -> str:
    # The last column is not padded, because trailing blanks would wrap.
    padded = [
        _colour_cell(cell, colour=colour) + " " * (width - cell_len(cell) if column < len(cells) - 1 else 0)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return GAP.join(padded).rstrip()


def _colour_cell(cell: str, *, colour: bool) -> str:
    code = _COLOURS.get(cell) if colour else None
    return f"\x1b[{code}m{cell}\x1b[0m" if code else cell


def format_facts(pairs: Mapping[str, str]) -> str:
    """Names and values, one per line."""
    width = max(cell_len(name) for name in pairs) + len(GAP)
    return "".join(f"{name:<{width}}{clean_text(value) or NONE}\n" for name, value in pairs.items())


def format_size(size_bytes: int | None) -> str:
    """Return bytes in a readable unit; `-` if unknown."""
    if size_bytes is None:
        return NONE
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{_format_short(value)} {unit}"


def format_free(available: int | None, total: int | None) -> str:
    """Return free and total memory in the unit of the total: `20/24 GiB`."""
    if total is None:
        return NONE if available is None else f"{format_size(available)} free"
    whole = format_size(total)
    if available is None:
        return f"?/{whole}"
    number, _, unit = whole.partition(" ")
    power = ("B", "KiB", "MiB", "GiB", "TiB", "PiB").index(unit)
    return f"{_format_short(available / 1024**power)}/{number} {unit}"


def _format_short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < 100 else f"{value:.0f}"


def format_age(then: datetime | None, now: datetime) -> str:
    """Return an age in the largest unit that fits: `5m`. A time in the future counts as now, because clocks differ
    between machines."""
    if then is None:
        return NONE
    return format_span(max(0.0, (now - then).total_seconds()))


def format_span(seconds: float) -> str:
    for step, unit in _STEPS:
        if seconds >= 2 * step or step == 1.0:
            return f"{int(seconds / step)}{unit}"
    return "0s"


def format_until(end: datetime | None, now: datetime) -> str:
    """Return the time until `end`; `never` if there is none."""
    if end is None:
        return "never"
    left_s = (end - now).total_seconds()
    return f"in {format_span(left_s)}" if left_s > 0 else f"{format_span(-left_s)} ago"


def format_time(value: datetime | None) -> str:
    return NONE if value is None else value.strftime("%Y-%m-%d %H:%M:%S %Z")


def format_pairs(values: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(values.items())) or NONE


def format_yes_no(value: bool | None) -> str:
    return "unknown" if value is None else "yes" if value else "no"
