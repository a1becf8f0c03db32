"""What a killed `corral up` left running is found and ended, and nothing else is.

The order is the one of an ordinary stop: first what uses the database and the bus, then these. PostgreSQL gets its
fast shutdown, so every committed transaction is kept. Call it only while holding the home's lock, or if there is none.
"""

from __future__ import annotations

import signal

import psutil

from corral.embedded.home import Home
from corral.embedded.processes import Owned, end_processes, find_owned

# A worker stops its engines within this; whatever is slower is killed.
USER_LIMIT_S = 10.0
POSTGRES_LIMIT_S = 20.0
_SERVERS = ("postgres", "nats")


def find_leftovers(home: Home) -> list[Owned]:
    return find_owned(home.root, home.postgres_data)


def end_leftovers(home: Home) -> list[int]:
    """End every process of this home; returns their pids. Blocks: run it in a thread."""
    ended: list[int] = []
    owned = find_leftovers(home)
    if not owned:
        return ended
    users = [one for one in owned if one.name not in _SERVERS]
    ended += end_processes(users, first=signal.SIGTERM, limit_s=USER_LIMIT_S)
    buses = [one for one in owned if one.name == "nats"]
    ended += end_processes(buses, first=signal.SIGTERM, limit_s=USER_LIMIT_S)
    ended += end_orphans(home)
    # Something may have been started while we ended its parent.
    ended += end_processes(find_leftovers(home), first=signal.SIGKILL, limit_s=USER_LIMIT_S)
    return ended


def end_orphans(home: Home) -> list[int]:
    """End every PostgreSQL process that works in this home's data.

    The postmaster ends its own children; those that have lost theirs are ended after it.
    """
    found = [one for one in find_leftovers(home) if one.name == "postgres"]
    known = {one.process.pid for one in found}
    masters = [one for one in found if _parent_of(one) not in known]
    ended = end_processes(masters, first=signal.SIGINT, limit_s=POSTGRES_LIMIT_S)
    rest = [one for one in find_leftovers(home) if one.name == "postgres"]
    return ended + end_processes(rest, first=signal.SIGQUIT, limit_s=POSTGRES_LIMIT_S)


def _parent_of(one: Owned) -> int | None:
    try:
        return one.process.ppid()
    except psutil.Error:
        return None
