"""Finds the processes that belong to a home, and ends them: for `corral down`, and those that a killed `corral up`
left.

A pid alone proves nothing: it is used again. A process is ours if it carries our marker in its environment, or if it
is a PostgreSQL process that works inside our data folder (those overwrite their environment with their title).
Only processes that pass this test are ever signalled.

`corral down` asks the supervisor of a home to stop and waits for it. The lock says which process is the supervisor: a
process that does not hold it is never signalled as one.
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

from corral.embedded.home import HomeBusy, HomeLayout, find_lock_holder, hold_lock
from corral.runtime.processes import ProcessBirth, is_alive, iterate_live_processes, signal_processes

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
    """A live process that `corral up` started on its home folder; `name` is the child that it is or descends from."""

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
        # Another user's process, or one that ended during the scan.
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
    """Return whether a process is gone. A zombie is: it holds nothing any more, and only its parent can reap it."""
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


# The sum of all stop limits of the children, with a margin.
STOP_LIMIT_S = 120.0
_STOP_POLL_S = 0.05


def stop_home(home: HomeLayout) -> str:
    """Stop what runs on `home`; return a sentence about what was done."""
    if find_lock_holder(home) is not None:
        _stop_supervisor(home)
        return "Corral has stopped."
    if not home.run.is_dir():
        # There is no lock to hold: a supervisor whose home was deleted starts nothing any more, so no other process
        # acts on it.
        ended = end_leftovers(home)
        if ended:
            return f"Ended {len(ended)} processes of a cluster whose folder {home.root} was deleted."
        return f"Nothing runs: there is no cluster in {home.root}."
    with hold_lock(home):
        ended = end_leftovers(home)
    if ended:
        return f"Ended {len(ended)} processes that a killed `corral up` had left behind."
    return "Nothing runs."


def _stop_supervisor(home: HomeLayout) -> None:
    deadline = time.monotonic() + STOP_LIMIT_S
    signalled: ProcessBirth | None = None
    while time.monotonic() < deadline:
        holder = find_lock_holder(home)
        if holder is None:
            return
        # Signal once only: a second signal would make it hurry. A lock that was just taken may still name an earlier
        # holder.
        if holder != signalled and is_alive(holder):
            with contextlib.suppress(psutil.Error):
                psutil.Process(holder.pid).send_signal(signal.SIGTERM)
            signalled = holder
        time.sleep(_STOP_POLL_S)
    raise HomeBusy(
        f"Corral on {home.root} still runs {STOP_LIMIT_S:.0f} s after the request to stop.",
        hint=f"Look into {home.get_log_path('up')}; `corral status` shows what has not ended.",
    )
