"""Finds the processes that belong to a home, and ends what a killed `corral up` left running.

A pid alone proves nothing: it is used again. A process is ours if it carries our marker in its environment, or if it
is a PostgreSQL process that works inside our data folder (those overwrite their environment with their title).
Only processes that pass this test are ever signalled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from corral.embedded.home import HomeLayout
from corral.runtime.processes import iterate_live_processes, signal_processes

MARKER_HOME = "CORRAL_SUPERVISED_HOME"
# Without our prefix: the children read their settings from variables that begin with it.
MARKER_NAME = "SUPERVISED_AS"
_POLL_S = 0.02
# A worker stops its engines within this time; a slower one is killed.
USER_LIMIT_S = 10.0
POSTGRES_LIMIT_S = 20.0
_SERVER_NAMES = ("postgres", "nats")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedProcess:
    """A live process that belongs to a home; `name` is the child that it is or descends from."""

    process: psutil.Process
    name: str


def find_owned_processes(root: Path, postgres_data: Path) -> list[OwnedProcess]:
    """Return every live process of the home at `root`, except this one and those that started it."""
    excluded_pids = {os.getpid()}
    with contextlib.suppress(psutil.Error):
        excluded_pids.update(parent.pid for parent in psutil.Process().parents())
    found = []
    for process in iterate_live_processes():
        if process.pid in excluded_pids:
            continue
        name = _find_child_name(process, root, postgres_data)
        if name is not None:
            found.append(OwnedProcess(process=process, name=name))
    return found


def _find_child_name(process: psutil.Process, root: Path, postgres_data: Path) -> str | None:
    try:
        environment = process.environ()
        if environment.get(MARKER_HOME) == str(root):
            return environment.get(MARKER_NAME, "")
        if process.name() == "postgres" and process.cwd() == str(postgres_data):
            return "postgres"
    except (psutil.Error, OSError, ValueError):
        # Somebody else's process, or one that ended during the look.
        return None
    return None


def end_processes(owned: Iterable[OwnedProcess], *, first: signal.Signals, limit_s: float) -> list[int]:
    """Send `first`, wait up to the limit, kill what is left; return the pids that were ended."""
    processes = [one.process for one in owned]
    signal_processes(processes, first)
    alive = _wait_gone(processes, limit_s)
    signal_processes(alive, signal.SIGKILL)
    _wait_gone(alive, limit_s)
    return [process.pid for process in processes]


def _wait_gone(processes: Iterable[psutil.Process], limit_s: float) -> list[psutil.Process]:
    """Wait until all have ended; return those that have not."""
    deadline = time.monotonic() + limit_s
    alive = [process for process in processes if not _is_gone(process)]
    while alive and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        alive = [process for process in alive if not _is_gone(process)]
    return alive


def _is_gone(process: psutil.Process) -> bool:
    """Whether a process is gone. A zombie is: it holds nothing any more, and only its parent can reap it."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def find_leftovers(home: HomeLayout) -> list[OwnedProcess]:
    return find_owned_processes(home.root, home.postgres_data)


def end_leftovers(home: HomeLayout) -> list[int]:
    """End every process of this home; return their pids. Blocks: run it in a thread.

    The order is the one of an ordinary stop: first what uses the database and the bus, then these. PostgreSQL gets
    its fast shutdown, so every committed transaction is kept. Call it only while holding the home's lock, or if
    there is none.
    """
    ended: list[int] = []
    owned = find_leftovers(home)
    if not owned:
        return ended
    users = [one for one in owned if one.name not in _SERVER_NAMES]
    ended += end_processes(users, first=signal.SIGTERM, limit_s=USER_LIMIT_S)
    buses = [one for one in owned if one.name == "nats"]
    ended += end_processes(buses, first=signal.SIGTERM, limit_s=USER_LIMIT_S)
    ended += end_orphans(home)
    # A process may have started another one while its parent was ended.
    ended += end_processes(find_leftovers(home), first=signal.SIGKILL, limit_s=USER_LIMIT_S)
    return ended


def end_orphans(home: HomeLayout) -> list[int]:
    """End every PostgreSQL process that works in this home's data.

    The postmaster ends its own children; those that have lost theirs are ended after it.
    """
    found = [one for one in find_leftovers(home) if one.name == "postgres"]
    known = {one.process.pid for one in found}
    masters = [one for one in found if _find_parent(one) not in known]
    ended = end_processes(masters, first=signal.SIGINT, limit_s=POSTGRES_LIMIT_S)
    rest = [one for one in find_leftovers(home) if one.name == "postgres"]
    return ended + end_processes(rest, first=signal.SIGQUIT, limit_s=POSTGRES_LIMIT_S)


def _find_parent(one: OwnedProcess) -> int | None:
    try:
        return one.process.ppid()
    except psutil.Error:
        return None
