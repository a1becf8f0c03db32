"""A toy queue with leases on real PostgreSQL: small enough to see at a glance whether the simulator finds its bug.

Workers claim a row for ten seconds and sometimes stall for longer. Without a fence the late worker finishes a row
that another has taken over. As a program it prints one trace digest per seed.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from sqlalchemy import text

from corral.domain.errors import StoreUnavailable
from corral.store.database import Database
from tests.simulation.chance import chance
from tests.simulation.clock import SimClock
from tests.simulation.gate import SimGate, StoreFaults, Turnstile
from tests.simulation.run import simulate
from tests.simulation.settle import settle
from tests.simulation.trace import Trace
from tests.simulation.virtual_loop import VirtualLoop

WORKERS = 4
JOBS = 6
LEASE_S = 10.0
STALL = 0.15
STALL_S = 25.0
PATIENCE_S = 1.5
FAULTS = StoreFaults(refuse=0.05, break_off=0.05, lose_reply=0.05, slow=0.05, delay=0.1, delay_s=2.0)

SCHEMA = f"""
    DROP TABLE IF EXISTS jobs;
    CREATE OR REPLACE FUNCTION corral_now() RETURNS timestamptz LANGUAGE sql STABLE
        AS $$ SELECT current_setting('corral.virtual_now')::timestamptz $$;
    CREATE TABLE jobs (id integer PRIMARY KEY, fence integer NOT NULL DEFAULT 0, leased_until timestamptz,
                       finished_at timestamptz, finishes integer NOT NULL DEFAULT 0);
    INSERT INTO jobs (id) SELECT generate_series(1, {JOBS})
"""
CLAIM = text("""
    UPDATE jobs SET fence = fence + 1, leased_until = corral_now() + make_interval(secs => :lease_s)
     WHERE id = (SELECT id FROM jobs
                  WHERE finished_at IS NULL AND (leased_until IS NULL OR leased_until < corral_now())
                  ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, fence
""")
FINISH = text(
    "UPDATE jobs SET finishes = finishes + 1, finished_at = corral_now() WHERE id = :id AND CAST(:fence AS integer) > 0"
)
FINISH_FENCED = text(
    "UPDATE jobs SET finishes = finishes + 1, finished_at = corral_now()"
    " WHERE id = :id AND fence = :fence AND finished_at IS NULL"
)
STATE = text(
    "SELECT count(*) FILTER (WHERE finished_at IS NULL) AS left_over, max(finishes) AS most_finishes FROM jobs"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    most_finishes: int
    digest: str
    virtual_s: float


def run_queue(address: str, seed: int, *, fenced: bool) -> Outcome:
    async def scenario(loop: VirtualLoop) -> Outcome:
        queue = Queue(loop, f"postgresql://postgres@{address}/postgres", fenced=fenced)
        return await queue.run()

    return simulate(seed, scenario)


class Queue:
    def __init__(self, loop: VirtualLoop, url: str, *, fenced: bool) -> None:
        self._loop = loop
        self._url = url
        self._finish = FINISH_FENCED if fenced else FINISH
        self._trace = Trace(loop)
        self._turnstile = Turnstile(loop, chance(loop.seed, "turns"), settle=settle(url))

    async def run(self) -> Outcome:
        database = self._database("setup", StoreFaults())
        async with database.transaction() as tx:
            for statement in SCHEMA.split(";"):
                await tx.execute(text(statement))
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._worker(f"worker-{number}"))
        async with database.transaction() as tx:
            state = (await tx.execute(STATE)).one()
            assert state.left_over == 0, f"{state.left_over} jobs were never finished"
        await self._close(database)
        return Outcome(most_finishes=state.most_finishes, digest=self._trace.digest(), virtual_s=self._loop.time())

    async def _worker(self, name: str) -> None:
        database = self._database(name, FAULTS)
        rng, clock = chance(self._loop.seed, name), SimClock(self._loop)
        left = JOBS
        while left:
            await clock.sleep(rng.uniform(0, 2))
            try:
                claimed, left = await self._claim(database)
                if claimed is None:
                    continue
                self._trace.add(f"{name} has {claimed}")
                await clock.sleep(STALL_S if rng.random() < STALL else rng.uniform(1, 5))
                await self._finish_job(database, claimed)
            except (StoreUnavailable, TimeoutError) as error:
                self._trace.add(f"{name} {type(error).__name__}")
        await self._close(database)

    async def _claim(self, database: Database) -> tuple[tuple[int, int] | None, int]:
        async with asyncio.timeout(PATIENCE_S), database.transaction() as tx:
            row = (await tx.execute(CLAIM, {"lease_s": LEASE_S})).one_or_none()
            left = (await tx.execute(STATE)).one().left_over
            return (None if row is None else (row.id, row.fence)), left

    async def _finish_job(self, database: Database, claimed: tuple[int, int]) -> None:
        job, fence = claimed
        async with asyncio.timeout(PATIENCE_S), database.transaction() as tx:
            await tx.execute(self._finish, {"id": job, "fence": fence})

    def _database(self, name: str, faults: StoreFaults) -> Database:
        rng = chance(self._loop.seed, f"{name} to the database")
        gate = SimGate(name, self._turnstile, loop=self._loop, rng=rng, faults=faults, trace=self._trace)
        return Database(self._url, gate=gate, pool_size=1)

    async def _close(self, database: Database) -> None:
        async with self._turnstile.turn():
            await database.close()


if __name__ == "__main__":
    for seed in sys.argv[2:]:
        print(run_queue(sys.argv[1], int(seed), fenced=True).digest)
