"""Keeps the curves of the last hour in PostgreSQL, so that a restart of a frontend does not end them.

The leader writes one moment a minute; every frontend reads what there is once, when PostgreSQL first answers.
Guarantee: what is kept is bounded by an hour of minutes. Limits: curves from before a restart have a value a minute
instead of one every five seconds, and the last minute before it may be missing. Without PostgreSQL nothing is kept;
the frontend's own memory goes on.
"""

from __future__ import annotations

from corral.insight.history import KEPT_S, History
from corral.ports.runtime import Clock
from corral.store import history as store
from corral.store.database import Database

INTERVAL_S = 60.0
# Rows are a minute apart, less a little: more than this would be none of ours.
_ROWS_MAX = 120


class HistoryKeeper:
    """`tick` is for the leader, `restore` for every frontend. Writing twice is harmless: one row a minute is taken."""

    def __init__(self, database: Database, clock: Clock, history: History) -> None:
        self._database = database
        self._clock = clock
        self._history = history
        self._is_restored = False

    async def tick(self) -> bool:
        """Write what was known in the last minute. Return whether there was something, and nobody else had done it."""
        moment = self._history.summary(self._clock.wall().timestamp() - INTERVAL_S)
        if moment is None:
            return False
        async with self._database.transaction() as tx:
            return await store.add_moment(tx, moment, kept_s=KEPT_S)

    async def restore(self) -> None:
        """Read what was kept before this frontend started. Once: afterwards its own memory knows more."""
        if self._is_restored:
            return
        async with self._database.transaction() as tx:
            moments = await store.list_moments(tx, kept_s=KEPT_S, most=_ROWS_MAX)
        self._history.restore(moments)
        self._is_restored = True
