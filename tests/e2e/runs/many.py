"""Many runs, and outages while runs go on: as many and as long as somebody wants, more of both in `make chaos`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.e2e.runs.scene import LONG_S, TASK, Runs, runs_of
from tests.support.polling import eventually

AGENTS = ("agent-1", "agent-2")
# So many jobs an agent worker of these tests takes at a time.
PLACES = 4
# What one job may take on a machine that has much other work.
JOB_LIMIT_S = 3.0
OUTAGE_RUNS = 10


async def many_runs_end_once(folder: Path, count: int) -> None:
    """Check that so many runs that are requested at once are all accepted by one frontend, and that each is begun once
    and ends once on two agent workers."""
    async with runs_of(folder, *AGENTS, tokens_per_s=10_000.0) as runs:
        accepted = await asyncio.gather(*(runs.execute(f"person {number}") for number in range(count)))
        assert len(set(accepted)) == count

        async def are_ended() -> bool:
            return not await list_runs(runs, "&state=open")

        await eventually(are_ended, within_s=LONG_S + count * JOB_LIMIT_S)
        found = {run["id"]: run for run in await list_runs(runs)}
        assert {(found[run_id]["state"], found[run_id]["attempt"]) for run_id in accepted} == {("completed", 1)}
        # The first run of the scene is the one that loads the model.
        assert len(found) == count + 1
        for run_id in accepted:
            await assert_ended_once(runs, run_id)


async def list_runs(runs: Runs, matching: str = "") -> list[Any]:
    """Return all runs, page after page."""
    found: list[Any] = []
    following = ""
    while True:
        page = await runs.cluster.frontends[0].get(
            f"/api/runs?limit=200&before={following.replace('+', '%2B')}{matching}"
        )
        found += page["runs"]
        following = page["next"] or ""
        if not following:
            return found


async def assert_ended_once(runs: Runs, run_id: str) -> None:
    """Check that the trace of a run has no gaps, and one last entry."""
    trace = await runs.trace(run_id)
    assert [event["seq"] for event in trace] == list(range(1, len(trace) + 1))
    assert [event["type"] for event in trace].count("end") == 1
    assert trace[-1]["type"] == "end"


async def runs_go_on_without_postgres(folder: Path, away_s: float) -> None:
    """Check that an outage of PostgreSQL in the middle of answers loses and doubles no run."""
    async with runs_of(folder, *AGENTS, tokens_per_s=_make_speed(away_s)) as runs:
        ids = await _begin(runs, 2 * PLACES)
        # These wait for a place.
        ids += [await runs.execute(f"later person {number}") for number in range(OUTAGE_RUNS - len(ids))]
        await runs.cluster.postgres.kill()
        await _wait(away_s)
        await runs.cluster.postgres.start()
        await _assert_all_completed(runs, ids, away_s)


async def runs_go_on_without_nats(folder: Path, away_s: float) -> None:
    """Check that an outage of NATS loses and doubles no run, neither begun ones nor those requested meanwhile."""
    async with runs_of(folder, *AGENTS, tokens_per_s=_make_speed(away_s)) as runs:
        ids = await _begin(runs, PLACES)
        await runs.cluster.nats.kill()
        ids += [await runs.execute(f"later person {number}") for number in range(OUTAGE_RUNS - len(ids))]
        await _wait(away_s)
        await runs.cluster.nats.start()
        await _assert_all_completed(runs, ids, away_s)


def _make_speed(away_s: float) -> float:
    """Return how many tokens of 32 a second let an answer last about as long as the outage."""
    return 32 / (away_s * 1.2)


async def _begin(runs: Runs, count: int) -> list[str]:
    ids = [await runs.execute(f"person {number}", via=number % 2) for number in range(count)]
    for run_id in ids:
        await runs.begin_to_answer(run_id)
    return ids


async def _wait(seconds: float) -> None:
    later = asyncio.get_running_loop().time() + seconds

    async def is_later() -> bool:
        return asyncio.get_running_loop().time() >= later

    await eventually(is_later, within_s=seconds + 30)


async def _assert_all_completed(runs: Runs, ids: list[str], away_s: float) -> None:
    states: dict[str, Any] = {}

    async def are_ended() -> bool:
        for run_id in ids:
            states[run_id] = await runs.read(run_id, via=1)
        return all(run["finished_at"] for run in states.values())

    await eventually(are_ended, within_s=LONG_S + 5 * away_s)
    assert {(run["state"], run["attempt"]) for run in states.values()} == {("completed", 1)}, states
    for run_id in ids:
        await assert_ended_once(runs, run_id)
    # None was begun a second time under another id.
    made = [run for run in await list_runs(runs) if run["subject"] == TASK]
    assert len(made) == len(ids) + 1
