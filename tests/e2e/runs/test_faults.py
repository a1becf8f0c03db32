"""Runs with real processes: workers, runners, frontends, PostgreSQL and NATS go away in the middle of answers."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.e2e.runs.scene import LONG_S, Runs, are_gone, list_children, runs_of
from tests.support.polling import eventually

pytestmark = pytest.mark.timeout(420)


def find_runner(runs: Runs, node: str) -> psutil.Process:
    """Return the runner process of a worker."""
    found = [one for one in list_children(runs.cluster.workers[node]) if "corral.runner" in " ".join(one.cmdline())]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.behaviour("RUNS-4")
async def test_run_whose_worker_is_killed_is_begun_again_elsewhere_and_nothing_of_the_worker_stays(
    tmp_path: Path,
) -> None:
    async with runs_of(tmp_path, "agent-1", "agent-2") as runs:
        run = await runs.begin_to_answer(await runs.execute())
        left = list_children(runs.worker_of(run))
        assert left
        await runs.worker_of(run).kill()
        done = await runs.become(run["id"], "completed", "failed", "lost", via=1)
        assert (done["state"], done["attempt"]) == ("completed", 2), done
        assert done["node"] != run["node"]
        trace = await runs.trace(run["id"], via=1)
        assert [event["type"] for event in trace].count("retried") == 1
        assert [event["type"] for event in trace].count("end") == 1
        assert [event["seq"] for event in trace] == list(range(1, len(trace) + 1))
        await eventually(lambda: are_gone(left), within_s=30)


async def test_run_whose_runner_process_is_killed_is_begun_again(tmp_path: Path) -> None:
    async with runs_of(tmp_path, "agent-1") as runs:
        run = await runs.begin_to_answer(await runs.execute())
        os.kill(find_runner(runs, "agent-1").pid, signal.SIGKILL)
        done = await runs.become(run["id"], "completed", "failed", "lost")
        assert (done["state"], done["attempt"]) == ("completed", 2), done


@pytest.mark.behaviour("RUNS-7")
async def test_run_is_cancelled_at_another_frontend_and_stops_at_its_worker(tmp_path: Path) -> None:
    async with runs_of(tmp_path, "agent-1", tokens_per_s=1.0) as runs:
        run = await runs.begin_to_answer(await runs.execute())
        status, cancelled = await runs.cluster.frontends[1].call("POST", f"/api/runs/{run['id']}/cancel")
        assert (status, cancelled["state"]) == (200, "cancelled")
        trace = await runs.trace(run["id"])
        # The engine would go on for seconds; another run begins, so the worker is free and well.
        await runs.become(await runs.execute("Bob"), "completed")
        assert await runs.trace(run["id"]) == trace


async def test_runs_end_well_while_postgresql_and_nats_are_away_in_turn(tmp_path: Path) -> None:
    async with runs_of(tmp_path, "agent-1", "agent-2") as runs:
        ids = [await runs.execute(f"person {number}", via=number % 2) for number in range(8)]
        await runs.begin_to_answer(ids[0])
        await runs.cluster.postgres.stop()
        later = asyncio.get_running_loop().time() + 15
        await eventually(lambda: _is_later(later), within_s=30)
        await runs.cluster.postgres.start()
        await runs.cluster.nats.kill()
        later = asyncio.get_running_loop().time() + 15
        await eventually(lambda: _is_later(later), within_s=30)
        await runs.cluster.nats.start()
        ended = [await runs.become(run_id, "completed", "failed", "lost") for run_id in ids]
        assert {run["state"] for run in ended} == {"completed"}, ended
        for run_id in ids:
            trace = await runs.trace(run_id)
            assert [event["seq"] for event in trace] == list(range(1, len(trace) + 1))
            assert trace[-1]["type"] == "end"


async def _is_later(moment: float) -> bool:
    return asyncio.get_running_loop().time() >= moment


async def test_run_completes_when_a_frontend_is_killed(tmp_path: Path) -> None:
    """If the model's answer went through that frontend, the run begins again; otherwise its worker notices nothing."""
    async with runs_of(tmp_path, "agent-1") as runs:
        run = await runs.begin_to_answer(await runs.execute())
        await runs.cluster.frontends[0].program.kill()
        done = await runs.become(run["id"], "completed", "failed", "lost", via=1)
        assert done["state"] == "completed", done


async def test_stopped_agent_worker_leaves_nothing_behind(tmp_path: Path) -> None:
    async with runs_of(tmp_path, "agent-1") as runs:
        children = list_children(runs.cluster.workers["agent-1"])
        assert children
        assert await runs.cluster.workers["agent-1"].end() == 0
        await eventually(lambda: are_gone(children), within_s=LONG_S)
