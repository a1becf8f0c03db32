"""Every character that a command prints is made here: tables, sizes, ages, errors.

Standard output carries data, standard error carries talk. Nothing needs colour to be understood: it is added on a
terminal only, and never when NO_COLOR is set. Text from machines is cleaned of control characters, so that a node's
name cannot move anybody's cursor.
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
_STEPS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"), (1.0, "s"))
_COLOURS = {"healthy": "32", "active": "32", "up": "32", "pending": "33", "draining": "33", "used_up": "33"}
_COLOURS |= {"joining": "33"}
_COLOURS |= dict.fromkeys(("unhealthy", "offline", "expired", "revoked", "down", "lost"), "31")
_COLOURS |= dict.fromkeys(("completed", "success", "installed"), "32") | dict.fromkeys(("failed", "error"), "31")
_COLOURS |= dict.fromkeys(("queued", "waiting", "owed", "paused", "drifts", "unconfirmed", "cancelled"), "33")


def write(text: str) -> None:
    """Data, for eyes or for a pipe."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Talk: what is going on, and what to do next."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def ask(question: str) -> bool:
    """A yes from whoever sits there; anything else, and the end of input, is a no."""
    with end_at_once():
        sys.stderr.write(f"{clean(question)} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in {"y", "yes"}


@contextmanager
def end_at_once() -> Iterator[None]:
    """Let the first Ctrl-C end the program while it waits for a line.

    The event loop only notes the first one, for when its task goes on, and a task that waits for a line does not.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def write_json(value: Any, *, one_line: bool = False) -> None:
    write(json.dumps(value, indent=None if one_line else 2, ensure_ascii=False, default=str))


def show_error(error: CorralError, *, as_json: bool = False) -> None:
    """Say what was refused; as JSON on one line of standard error, if data is JSON, too."""
    if as_json:
        body = {"code": error.slug, "message": error.message, "hint": error.hint, "details": dict(error.details)}
        say(json.dumps({"error": body}, ensure_ascii=False, default=str))
    else:
        show_refusal(error.message, error.hint)


def show_refusal(message: str, hint: str | None) -> None:
    say("error: " + clean(message, keep="\n"))
    if hint:
        say("\nhint: " + clean(hint, keep="\n"))


def has_colour(stream: IO[str]) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


# What an engine has said comes in lines.
_REPLACED = {"\n": " ", "\t": " "}


def clean(text: str, *, keep: str = "") -> str:
    """The text on one line, with everything replaced that a terminal would act upon."""
    return "".join(
        character
        if character.isprintable() or character in keep
        else _REPLACED.get(character, "\N{REPLACEMENT CHARACTER}")
        for character in text
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, colour: bool = False) -> str:
    """Columns without borders, left-aligned, uppercase headers. Colour never changes a column's width."""
    lines = [[name.upper() for name in headers], *([clean(cell) or NONE for cell in row] for row in rows)]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(headers))]
    return "".join(f"{_line(line, widths, colour=colour)}\n" for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int], *, colour: bool) -> str:
    # The last column is not padded: blanks at the end of a line only wrap.
    padded = [
        _paint(cell, colour=colour) + " " * (width - cell_len(cell) if column < len(cells) - 1 else 0)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return GAP.join(padded).rstrip()


def _paint(cell: str, *, colour: bool) -> str:
    code = _COLOURS.get(cell) if colour else None
    return f"\x1b[{code}m{cell}\x1b[0m" if code else cell


def facts(pairs: Mapping[str, str]) -> str:
    """Names and values, one per line."""
    width = max(cell_len(name) for name in pairs) + len(GAP)
    return "".join(f"{name:<{width}}{clean(value) or NONE}\n" for name, value in pairs.items())


def size(size_bytes: int | None) -> str:
    """Bytes as people say them. Unknown is not zero."""
    if size_bytes is None:
        return NONE
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{_short(value)} {unit}"


def free_of(available: int | None, total: int | None) -> str:
    """`20/24 GiB`: what is free of what is there, in the unit of the whole."""
    if total is None:
        return NONE if available is None else f"{size(available)} free"
    whole = size(total)
    if available is None:
        return f"?/{whole}"
    number, _, unit = whole.partition(" ")
    power = ("B", "KiB", "MiB", "GiB", "TiB", "PiB").index(unit)
    return f"{_short(available / 1024**power)}/{number} {unit}"


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < 100 else f"{value:.0f}"


def age(then: datetime | None, now: datetime) -> str:
    """`5m`: the largest unit that fits. Clocks differ between machines, so the future counts as now."""
    if then is None:
        return NONE
    return span(max(0.0, (now - then).total_seconds()))


def span(seconds: float) -> str:
    for step, unit in _STEPS:
        if seconds >= 2 * step or step == 1.0:
            return f"{int(seconds / step)}{unit}"
    return "0s"


def until(end: datetime | None, now: datetime) -> str:
    """How long something still holds; `never` when it does not end."""
    if end is None:
        return "never"
    left_s = (end - now).total_seconds()
    return f"in {span(left_s)}" if left_s > 0 else f"{span(-left_s)} ago"


def moment(value: datetime | None) -> str:
    return NONE if value is None else value.strftime("%Y-%m-%d %H:%M:%S %Z")


def pairs_text(values: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(values.items())) or NONE


def yes_no(value: bool | None) -> str:
    return "unknown" if value is None else "yes" if value else "no"
