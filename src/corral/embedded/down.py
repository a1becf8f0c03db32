"""`corral down`: asks the supervisor of a home to stop and waits for it, or ends what a killed one left behind.

The lock says which process is the supervisor: a process that does not hold it is never signalled as one.
"""

from __future__ import annotations

import contextlib
import signal
import time

import psutil

from corral.embedded.home import HomeBusy, HomeLayout, find_lock_holder, hold_lock
from corral.embedded.owned_processes import end_leftovers
from corral.runtime.processes import ProcessBirth, is_alive

# The sum of all stop limits of the children, with a margin.
STOP_LIMIT_S = 120.0
_POLL_S = 0.05


def stop_home(home: HomeLayout, *, limit_s: float = STOP_LIMIT_S) -> str:
    """Stop what runs on `home`; return a sentence about what was done."""
    if find_lock_holder(home) is not None:
        _stop_supervisor(home, limit_s)
        return "Corral has stopped."
    if not home.run.is_dir():
        # There is no lock to hold: a supervisor whose home was deleted starts nothing any more, so nobody else acts on
        # it.
        ended = end_leftovers(home)
        if ended:
            return f"Ended {len(ended)} processes of a cluster whose folder {home.root} was deleted."
        return f"Nothing runs: there is no cluster in {home.root}."
    with hold_lock(home):
        ended = end_leftovers(home)
    if ended:
        return f"Ended {len(ended)} processes that a killed `corral up` had left behind."
    return "Nothing runs."


def _stop_supervisor(home: HomeLayout, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
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
        time.sleep(_POLL_S)
    raise HomeBusy(
        f"Corral on {home.root} still runs {limit_s:.0f} s after the request to stop.",
        hint=f"Look into {home.get_log_path('up')}; `corral status` shows what has not ended.",
    )
