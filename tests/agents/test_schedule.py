"""Agents that run by themselves: when, how often, and with what."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from corral.domain.errors import LeaseLost
from corral.policy.agents import compute_next_run
from tests.agents.hand_worker import HandWorker, create, join_worker
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.polling import eventually

HOUR: dict[str, Any] = {"standalone_job": True, "permanent_goal": "peace", "periodic_runs": "1h"}


@pytest.fixture
async def worker(frontend: RunningFrontend) -> HandWorker:
    await eventually(lambda: _is_leader(frontend))
    return await join_worker(frontend)


async def _is_leader(frontend: RunningFrontend) -> bool:
    return frontend.core.leader.is_leader()


async def set_due(frontend: RunningFrontend, ago_s: float, name: str = "helper") -> datetime:
    """Let an agent have been due this long ago, and return that time."""
    async with frontend.database.transaction() as tx:
        found = await tx.execute(
            text("""
                UPDATE agents SET next_run_at = corral_now() - make_interval(secs => :ago_s)
                 WHERE name = :name RETURNING next_run_at"""),
            {"ago_s": ago_s, "name": name},
        )
        moment: datetime = found.scalar_one()
    return moment


async def tick(*frontends: RunningFrontend) -> None:
    """Let every frontend look at once, leader or not."""
    outcomes = await asyncio.gather(
        *(frontend.core.agents.scheduler.tick() for frontend in frontends), return_exceptions=True
    )
    for outcome in outcomes:
        assert isinstance(outcome, int | LeaseLost), outcome


async def list_runs(frontend: RunningFrontend) -> list[dict[str, Any]]:
    _, found = await frontend.call("GET", "/api/runs")
    return list(reversed(found["runs"]))


async def show(frontend: RunningFrontend, name: str = "helper") -> dict[str, Any]:
    return dict((await frontend.call("GET", f"/api/agents/{name}"))[1])


async def end_pauses(frontend: RunningFrontend) -> None:
    """Let the pauses be over after which agents that could not run are tried again."""
    async with frontend.database.transaction() as tx:
        await tx.execute(text("UPDATE agents SET next_look_at = corral_now() WHERE next_look_at IS NOT NULL"))


async def change_config(frontend: RunningFrontend, name: str, config: str) -> None:
    async with frontend.database.transaction() as tx:
        statement = text("UPDATE agents SET config = config || CAST(:config AS jsonb) WHERE name = :name")
        await tx.execute(statement, {"config": config, "name": name})


@pytest.mark.behaviour("AGENT-24")
async def test_agent_runs_once_for_each_scheduled_time_with_three_frontends(
    frontend: RunningFrontend, worker: HandWorker, database_url: str
) -> None:
    await create(frontend, **HOUR, inner_monologue_template="Work towards {{.Goal}}, {{ name }}.")
    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(running_frontend(database_url)) for _ in range(2)]
        due = await set_due(frontend, 90.0)
        await tick(frontend, *others, frontend)
        [run] = await list_runs(frontend)
        assert (run["trigger"], run["subject"], run["thread_id"]) == ("schedule", "helper", None)
        shown = await show(frontend)
        # From the time that it was scheduled for, not from the time at which it ran.
        assert datetime.fromisoformat(shown["next_run_at"]) == due + timedelta(hours=1)
        assert shown["last_run_at"] is not None
        spec = await worker.answer(run["id"])
        assert spec["messages"] == [{"role": "user", "content": "Work towards peace, helper."}]
        await tick(frontend, *others)
        assert len(await list_runs(frontend)) == 1


@pytest.mark.behaviour("AGENT-24")
async def test_times_that_were_missed_are_made_up_for_by_one_run(frontend: RunningFrontend, worker: HandWorker) -> None:
    del worker
    await create(frontend, **HOUR)
    due = await set_due(frontend, 3.5 * 3600)
    await tick(frontend)
    assert len(await list_runs(frontend)) == 1
    assert datetime.fromisoformat((await show(frontend))["next_run_at"]) == due + timedelta(hours=4)


@pytest.mark.behaviour("AGENT-24")
async def test_agent_does_not_run_while_its_last_scheduled_run_is_open(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    await create(frontend, **HOUR)
    await set_due(frontend, 1)
    await tick(frontend)
    [first] = await list_runs(frontend)
    due = await set_due(frontend, 1)
    await tick(frontend)
    assert len(await list_runs(frontend)) == 1
    assert datetime.fromisoformat((await show(frontend))["next_run_at"]) == due + timedelta(hours=1)
    await worker.answer(first["id"])
    await set_due(frontend, 1)
    await tick(frontend)
    assert len(await list_runs(frontend)) == 2


@pytest.mark.behaviour("AGENT-5")
async def test_paused_agent_and_agent_of_a_disabled_user_do_not_run(
    frontend: RunningFrontend, worker: HandWorker
) -> None:
    del worker
    await create(frontend, **HOUR)
    await frontend.call("PUT", "/api/agents/helper/pause")
    await set_due(frontend, 1)
    await create(frontend, "other", **HOUR)
    await set_due(frontend, 1, "other")
    async with frontend.database.transaction() as tx:
        await tx.execute(text("UPDATE api_keys SET revoked_at = corral_now()"))
    await tick(frontend)
    async with frontend.database.transaction() as tx:
        assert (await tx.execute(text("SELECT count(*) FROM runs"))).scalar_one() == 0


@pytest.mark.behaviour("AGENT-51")
async def test_agent_that_finds_no_worker_runs_when_there_is_one(frontend: RunningFrontend) -> None:
    await eventually(lambda: _is_leader(frontend))
    await create(frontend, **HOUR)
    due = await set_due(frontend, 1)
    await tick(frontend)
    assert await list_runs(frontend) == []
    assert datetime.fromisoformat((await show(frontend))["next_run_at"]) == due
    await join_worker(frontend)
    # It is tried again a moment later, and not at every look.
    await tick(frontend)
    assert await list_runs(frontend) == []
    await end_pauses(frontend)
    await tick(frontend)
    assert len(await list_runs(frontend)) == 1


@pytest.mark.behaviour("AGENT-51")
async def test_agents_that_cannot_run_hold_up_no_others(frontend: RunningFrontend, worker: HandWorker) -> None:
    del worker
    for name in ("nowhere", "broken", "good"):
        await create(frontend, name, **HOUR)
    await change_config(frontend, "nowhere", '{"labels": {"zone": "nowhere"}}')
    # A configuration that this version would refuse, and one that it cannot read.
    await change_config(frontend, "broken", '{"mcp_servers": [{"name": "m", "url": "https://x.example/?token=1"}]}')
    for name, ago_s in (("nowhere", 30), ("broken", 20), ("good", 10)):
        await set_due(frontend, ago_s, name)
    await tick(frontend)
    [run] = await list_runs(frontend)
    assert run["subject"] == "good"
    await change_config(frontend, "broken", '{"mcp_servers": [{}]}')
    await end_pauses(frontend)
    await set_due(frontend, 5, "good")
    await frontend.call("POST", f"/api/runs/{run['id']}/cancel")
    await tick(frontend)
    assert len(await list_runs(frontend)) == 2


async def test_edit_that_leaves_the_interval_leaves_the_time(frontend: RunningFrontend, worker: HandWorker) -> None:
    del worker
    made = await create(frontend, **HOUR)
    body = {"name": "helper", "model": "other", **HOUR}
    _, edited = await frontend.call("PUT", "/api/agents/helper", body)
    assert edited["next_run_at"] == made["next_run_at"]
    _, edited = await frontend.call("PUT", "/api/agents/helper", body | {"periodic_runs": "2h"})
    assert edited["next_run_at"] > made["next_run_at"]
    _, edited = await frontend.call("PUT", "/api/agents/helper", body | {"standalone_job": False})
    assert edited["next_run_at"] is None


@pytest.mark.parametrize(("late_s", "steps"), [(0, 1), (59, 1), (60, 2), (61, 2), (600, 11)])
def test_next_run_is_a_whole_number_of_periods_after_the_last(late_s: int, steps: int) -> None:
    previous = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
    now = previous + timedelta(seconds=late_s)
    assert compute_next_run(previous, 60.0, now) == previous + timedelta(seconds=60 * steps)
