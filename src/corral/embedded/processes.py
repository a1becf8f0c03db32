"""Which processes are ours, and how they end.

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

MARKER_HOME = "CORRAL_SUPERVISED_HOME"
# Without our prefix: the children read their settings from variables that begin with it.
MARKER_NAME = "SUPERVISED_AS"
# Birth times are told in hundredths of a second; a process cannot be born twice within this.
BIRTH_TOLERANCE_S = 0.5
_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A pid and its birth in seconds after boot: the wall clock may be set, this does not move."""

    pid: int
    born_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A live process that belongs to a home; `name` is the child that it is or descends from."""

    process: psutil.Process
    name: str


def identify(pid: int) -> ProcessId | None:
    try:
        return ProcessId(pid=pid, born_s=psutil.Process(pid).create_time() - psutil.boot_time())
    except psutil.Error:
        return None


def is_alive(known: ProcessId) -> bool:
    """Whether that very process lives, rather than a later one with its pid."""
    now = identify(known.pid)
    if now is None or abs(now.born_s - known.born_s) > BIRTH_TOLERANCE_S:
        return False
    try:
        return psutil.Process(known.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def find_owned(root: Path, postgres_data: Path) -> list[Owned]:
    """Every live process of the home at `root`, except this one and those that started it."""
    spared = {os.getpid()}
    with contextlib.suppress(psutil.Error):
        spared.update(parent.pid for parent in psutil.Process().parents())
    found = []
    for process in psutil.process_iter():
        if process.pid in spared:
            continue
        name = _owned_name(process, root, postgres_data)
        if name is not None:
            found.append(Owned(process=process, name=name))
    return found


def _owned_name(process: psutil.Process, root: Path, postgres_data: Path) -> str | None:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        environment = process.environ()
        if environment.get(MARKER_HOME) == str(root):
            return environment.get(MARKER_NAME, "")
        if process.name() == "postgres" and process.cwd() == str(postgres_data):
            return "postgres"
    except (psutil.Error, OSError, ValueError):
        # Somebody else's process, or one that ended while we looked.
        return None
    return None


def end_processes(owned: Iterable[Owned], *, first: signal.Signals, limit_s: float) -> list[int]:
    """Send `first`, wait up to the limit, kill what is left; returns the pids that were ended."""
    processes = [one.process for one in owned]
    for process in processes:
        # psutil compares the birth time again before it signals: a pid that was reused is not hit.
        with contextlib.suppress(psutil.Error):
            process.send_signal(first)
    alive = _wait_gone(processes, limit_s)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    _wait_gone(alive, limit_s)
    return [process.pid for process in processes]


def _wait_gone(processes: Iterable[psutil.Process], limit_s: float) -> list[psutil.Process]:
    """Wait until all have ended; returns those that have not."""
    deadline = time.monotonic() + limit_s
    alive = [process for process in processes if not _is_gone(process)]
    while alive and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        alive = [process for process in alive if not _is_gone(process)]
    return alive


def _is_gone(process: psutil.Process) -> bool:
    """A zombie is gone: it holds nothing any more, and when its parent will notice is not for us to wait for."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True
