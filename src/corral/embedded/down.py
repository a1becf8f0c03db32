"""`corral down`: ask the supervisor of a home to stop and wait for it, or end what a killed one left behind.

Who the supervisor is, is told by the lock it holds: a process that does not hold it is never signalled as one.
"""

from __future__ import annotations

import contextlib
import signal
import time

import psutil

from corral.embedded.errors import HomeBusy
from corral.embedded.home import Home, find_holder, hold_lock
from corral.embedded.leftovers import end_leftovers
from corral.embedded.processes import ProcessId, is_alive

# All stop limits of the children together, and some air.
STOP_LIMIT_S = 120.0
_POLL_S = 0.05


def stop_home(home: Home, *, limit_s: float = STOP_LIMIT_S) -> str:
    """Stop what runs on `home`; returns a sentence about what was done."""
    if find_holder(home) is not None:
        _stop_supervisor(home, limit_s)
        return "Corral has stopped."
    if not home.run.is_dir():
        # No lock to hold: a supervisor whose home was deleted starts nothing any more, so nobody else acts on it.
        ended = end_leftovers(home)
        if ended:
            return f"Ended {len(ended)} processes of a cluster whose folder {home.root} was deleted."
        return f"Nothing runs: there is no cluster in {home.root}."
    with hold_lock(home):
        ended = end_leftovers(home)
    if ended:
        return f"Ended {len(ended)} processes that a killed `corral up` had left behind."
    return "Nothing runs."


def _stop_supervisor(home: Home, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    asked: ProcessId | None = None
    while time.monotonic() < deadline:
        holder = find_holder(home)
        if holder is None:
            return
        # Once only: a second signal would make it hurry. The name in a lock that was just taken may be an old one.
        if holder != asked and is_alive(holder):
            with contextlib.suppress(psutil.Error):
                psutil.Process(holder.pid).send_signal(signal.SIGTERM)
            asked = holder
        time.sleep(_POLL_S)
    raise HomeBusy(
        f"Corral on {home.root} was told to stop and still runs after {limit_s:.0f} s.",
        hint=f"Look into {home.log_of('up')}; `corral status` shows what has not ended.",
    )
