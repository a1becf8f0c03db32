"""Prints what a person reads while `corral up` runs, and starts it in the background for `corral up --detach`.

A reader that has gone away (a closed terminal, a finished `--detach`) never disturbs the cluster.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import TextIO
from urllib.parse import quote

from corral.domain.errors import CorralError
from corral.embedded.child_process import ChildEvent, ChildEventKind, HttpEndpoint, open_log
from corral.embedded.home import HomeLayout
from corral.embedded.supervisor_state import SupervisorPhase, read_snapshot

_LABELS = {"postgres": "PostgreSQL", "nats": "NATS", "frontend": "frontend", "worker": "worker", "agent": "agent"}
INTERRUPTED = 130


class UpTerminal:
    """Prints what a person reads while `corral up` runs; a closed terminal never disturbs the cluster."""

    def __init__(self, *streams: TextIO) -> None:
        self._streams = streams

    def print_line(self, line: str = "") -> None:
        for stream in self._streams:
            # ValueError: the stream has been closed.
            with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
                stream.write(line + "\n")
                stream.flush()

    def print_error(self, error: CorralError) -> None:
        self.print_line(f"error: {error.message}")
        if error.hint:
            self.print_line()
            self.print_line(f"hint: {error.hint}")

    def print_begin(self, home: HomeLayout, ended: int) -> None:
        self.print_line(f"Corral in {home.root}")
        if ended:
            self.print_line(f"  ended {_format_count(ended)} that an earlier run had left behind")

    def print_child_event(self, event: ChildEvent, *, where: str, log: str, elapsed_s: float) -> None:
        label = _LABELS.get(event.name, event.name)
        match event.kind:
            case ChildEventKind.READY if event.is_first:
                self.print_line(f"  {label:<11} {where:<28} {elapsed_s:5.1f} s")
            case ChildEventKind.READY:
                self.print_line(f"{label} is back ({event.took_s:.1f} s).")
            case ChildEventKind.STOPPED:
                self.print_line(f"  {label:<11} stopped ({event.took_s:.1f} s)")
            case ChildEventKind.DIED if _is_worth_a_line(event.deaths):
                reason = event.reason.splitlines()[0].rstrip(".:")
                again = f"Restarting in {event.restart_in_s:.1f} s"
                self.print_line(f"{_capitalise(reason)}. {again} (log: {log}).")
            case ChildEventKind.DIED:
                pass

    def print_ready(
        self, home: HomeLayout, endpoint: HttpEndpoint, *, key: str | None, elapsed_s: float, is_detached: bool
    ) -> None:
        """Print where the cluster is. `key` is None if the frontend refuses the one in the home."""
        self.print_line()
        self.print_line(f"Corral is ready at {endpoint.url} ({elapsed_s:.1f} s)")
        self.print_line()
        self._print_page(endpoint, key)
        self.print_line(f"  admin key   {home.admin_key}{'' if key else '   (refused)'}")
        self.print_line("  try         corral try")
        if endpoint.is_public:
            self.print_line("  join        corral tokens create   (it prints the command for the other machine)")
        else:
            self.print_line("  join        other machines can join after `corral up --host 0.0.0.0`")
        self.print_line("  stop        corral down" if is_detached else "  stop        Ctrl-C")
        if not key:
            self.print_line()
            self.print_line(describe_refused_key(home))

    def _print_page(self, endpoint: HttpEndpoint, key: str | None) -> None:
        """Print the page's address. Only a terminal gets the link with the key: other output may be a log."""
        page = f"{endpoint.url}/app/"
        for stream in self._streams:
            shown = f"{page}   (`corral open` signs you in)"
            if key is None:
                shown = page
            elif _is_terminal(stream):
                shown = f"{page}#key={quote(key, safe='')}"
            UpTerminal(stream).print_line(f"  page        {shown}")

    def print_stopping(self) -> None:
        self.print_line()
        self.print_line("Stopping (once more to hurry).")


def describe_refused_key(home: HomeLayout) -> str:
    """Return what is wrong with the key in the home, and how to replace it."""
    return (
        f"Key refused: the one in {home.admin_key} was rotated or revoked elsewhere, or has expired."
        " Put a key that works into that file, or run `corral keys recover` here to make a new one."
    )


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # The stream has been closed.
        return False


def _is_worth_a_line(deaths: int) -> bool:
    """Return whether a death is printed: the first, second, fourth, eighth …, so that a part that keeps dying does not
    fill the screen."""
    return deaths & (deaths - 1) == 0


def _format_count(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def start_detached(home: HomeLayout, command: Sequence[str], options: str, out: TextIO) -> int:
    """Start `command` with `options` on its standard input; return 0 when it is ready, 1 when it failed.

    The parent prints the output of the background process until that is ready or has failed, then leaves. Later
    output goes to logs/up.log.
    """
    with open_log(home.get_log_path("up")) as log:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd="/",
            start_new_session=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(options)
    process.stdin.close()
    try:
        for line in process.stdout:
            out.write(line)
            out.flush()
    except KeyboardInterrupt:
        out.write("It goes on starting in the background: `corral status` shows it, `corral down` stops it.\n")
        return INTERRUPTED
    finally:
        process.stdout.close()
    if read_snapshot(home.state).phase is SupervisorPhase.READY and process.poll() is None:
        # The background process lives on; no process will read its exit code.
        process.returncode = 0
        return 0
    process.wait()
    return 1


def leave_parent() -> None:
    """Let the parent end, from the background process. Later output goes to the log alone."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
