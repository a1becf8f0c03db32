"""What a person reads while `corral up` runs: one line for each thing that happens, on standard error.

A reader that has gone away (a closed terminal, a finished `--detach`) never disturbs the cluster.
"""

from __future__ import annotations

import contextlib
import io
from typing import TextIO
from urllib.parse import quote

from corral.domain.errors import CorralError
from corral.embedded.child import ChildEvent, Happening
from corral.embedded.environment import Place
from corral.embedded.home import Home

_LABELS = {"postgres": "PostgreSQL", "nats": "NATS", "frontend": "frontend", "worker": "worker"}


class Talk:
    def __init__(self, *streams: TextIO) -> None:
        self._streams = streams

    def say(self, line: str = "") -> None:
        for stream in self._streams:
            # ValueError: the stream has been closed.
            with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
                stream.write(line + "\n")
                stream.flush()

    def error(self, error: CorralError) -> None:
        self.say(f"error: {error.message}")
        if error.hint:
            self.say()
            self.say(f"hint: {error.hint}")

    def begin(self, home: Home, ended: int) -> None:
        self.say(f"Corral in {home.root}")
        if ended:
            self.say(f"  ended {_counted(ended)} that an earlier run had left behind")

    def child(self, event: ChildEvent, *, where: str, log: str, elapsed_s: float) -> None:
        label = _LABELS.get(event.name, event.name)
        match event.what:
            case Happening.READY if event.is_first:
                self.say(f"  {label:<11} {where:<28} {elapsed_s:5.1f} s")
            case Happening.READY:
                self.say(f"{label} is back ({event.took_s:.1f} s).")
            case Happening.STOPPED:
                self.say(f"  {label:<11} stopped ({event.took_s:.1f} s)")
            case Happening.DIED if _is_worth_a_line(event.deaths):
                reason = event.reason.splitlines()[0].rstrip(".:")
                again = f"It is started again in {event.restart_in_s:.1f} s"
                self.say(f"{_capital(reason)}. {again} (log: {log}).")
            case Happening.DIED:
                pass

    def ready(self, home: Home, place: Place, *, key: str | None, elapsed_s: float, is_detached: bool) -> None:
        """Say where the cluster is. `key` is None if the frontend refuses the one in the home."""
        self.say()
        self.say(f"Corral is ready at {place.url} ({elapsed_s:.1f} s)")
        self.say()
        self._say_page(place, key)
        self.say(f"  admin key   {home.admin_key}{'' if key else '   (refused)'}")
        self.say("  try         corral try")
        if place.is_open:
            self.say("  join        corral tokens create   (it prints the command for the other machine)")
        else:
            self.say("  join        other machines can join after `corral up --host 0.0.0.0`")
        self.say("  stop        corral down" if is_detached else "  stop        Ctrl-C")
        if not key:
            self.say()
            self.say(describe_refused_key(home))

    def _say_page(self, place: Place, key: str | None) -> None:
        """The link comes in by itself, so only a terminal is shown it: what is not one may be a log."""
        page = f"{place.url}/app/"
        for stream in self._streams:
            shown = f"{page}   (`corral open` comes in)"
            if key is None:
                shown = page
            elif _is_terminal(stream):
                shown = f"{page}#key={quote(key, safe='')}"
            Talk(stream).say(f"  page        {shown}")

    def stopping(self) -> None:
        self.say()
        self.say("Stopping (once more to hurry).")


def describe_refused_key(home: Home) -> str:
    """Return what is wrong with the key in the home, and the way back."""
    return (
        f"Key refused: the one in {home.admin_key} was rotated or revoked elsewhere, or has expired."
        " Put a key that works into that file, or run `corral keys recover` here to make a new one."
    )


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # It has been closed.
        return False


def _is_worth_a_line(deaths: int) -> bool:
    """The first, second, fourth, eighth …: a part that never comes back must not fill the screen."""
    return deaths & (deaths - 1) == 0


def _counted(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
