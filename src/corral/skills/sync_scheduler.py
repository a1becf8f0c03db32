"""Starts the syncs of git repositories that are kept in step by themselves. Runs on the leader.

Guarantees: at most one sync for each time, with any number of frontends: the row is locked, and its time moved on, in
the transaction that starts the run, which is fenced by the leader's term. Times that were missed are made up for by one
sync. A repository that cannot be synced now is tried again at growing intervals and holds up no other; one that is
disabled, or whose owner cannot sign in, waits.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

import structlog

from corral.domain.errors import LeaseLost, StoreUnavailable
from corral.domain.skill import SkillRepoId
from corral.policy.deferrals import compute_next_look
from corral.reconcile.leader import LeaderElector
from corral.runtime.attempt import AttemptFailure, attempt
from corral.skills.repos import SkillRepoService
from corral.store import skills as store
from corral.store.database import Database, read_now

log = structlog.get_logger(__name__)
INTERVAL_S = 15.0
PAGE = 50
# Repositories of one pass; the next one goes on behind them.
PASS_MAX = 500


class SkillSyncScheduler:
    """Starts the syncs of git repositories with skills that are due, on the leading frontend."""

    def __init__(self, database: Database, leader: LeaderElector, repos: SkillRepoService) -> None:
        self._database = database
        self._leader = leader
        self._repos = repos
        # Where the last pass has ended; None: with the last repository that was due.
        self._after: tuple[datetime, str] | None = None

    async def tick(self) -> int:
        """Start the syncs that are due, and return how many were started."""
        started = 0
        for _ in range(PASS_MAX // PAGE):
            async with self._database.transaction() as tx:
                await self._leader.fence(tx)
                due = await store.list_due_repos(tx, PAGE, self._after)
            for due_at, repo_id in due:
                started += await self._start_guarded(repo_id, due_at)
            self._after = due[-1] if len(due) == PAGE else None
            if self._after is None:
                break
        return started

    async def _start_guarded(self, repo_id: SkillRepoId, due_at: datetime) -> bool:
        """Start the sync of one repository; whatever keeps it from starting concerns this repository only."""
        outcome = await attempt(partial(self._start, repo_id))
        if not isinstance(outcome, AttemptFailure):
            return outcome.value
        if isinstance(outcome.error, StoreUnavailable | LeaseLost):
            raise outcome.error
        log.info("a sync could not be started", repo=repo_id, problem=outcome.sentence)
        async with self._database.transaction() as tx:
            await self._leader.fence(tx)
            now = await read_now(tx)
            await store.defer_sync(tx, repo_id, due_at, compute_next_look(due_at, now))
        return False

    async def _start(self, repo_id: SkillRepoId) -> bool:
        async with self._database.transaction() as tx:
            await self._leader.fence(tx)
            return await self._repos.sync_due_in(tx, repo_id)
