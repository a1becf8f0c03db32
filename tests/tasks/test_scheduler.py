"""Cron patterns of tasks: once for each time with several frontends, across changes of clocks, after outages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from corral.domain.access import Owner
from corral.domain.errors import LeaseLost
from corral.domain.run import RunState, RunTrigger
from corral.domain.task import MediaKind, MediaSource, TaskCatchUp, TaskOverlap, TaskSpec
from corral.tasks.scheduler import FETCHING_OF_OWNER_MAX, PAGE, PASS_MAX, FireOutcome
from tests.operations.fake_bus import Hub
from tests.operations.scene import sql
from tests.runs.scene import RunWorker, put_key, put_owner, put_workers
from tests.support.polling import eventually
from tests.tasks.scene import TaskFrontend, make_principal, serve_picture, serving, set_time, slow_source

STARTED, SKIPPED, DEFERRED = {FireOutcome.STARTED: 1}, {FireOutcome.SKIPPED: 1}, {FireOutcome.DEFERRED: 1}

MULTIPLY_TASKS = """
INSERT INTO tasks (id, owner, user_id, name, config, next_run_at, created_by)
SELECT gen_random_uuid(), owner, user_id, name || number, config, next_run_at, created_by
  FROM tasks, generate_series(1, :number) AS number
"""


async def count_runs(frontend: TaskFrontend) -> int:
    return len(await sql(frontend.database, "SELECT id FROM runs"))


async def read_next(frontend: TaskFrontend, task: Any) -> str:
    return f"{(await frontend.reload(task)).next_run_at:%Y-%m-%d %H:%M}"


@pytest.mark.behaviour("TASK-9")
async def test_task_with_a_pattern_runs_first_at_its_next_time_and_not_at_its_creation(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 07:30:00")
    task = await frontend.create(
        owner, prompt="{{ x }}", cron="0 9 * * *", time_zone="Europe/Rome", cron_parameters={"x": "from cron"}
    )
    assert await frontend.fire() == {}
    await set_time(frontend.database, "2026-01-05 08:00:01")
    assert await frontend.fire() == STARTED
    assert await frontend.fire() == {}
    [run] = await frontend.list_runs(task)
    assert (run.trigger, run.owner, run.key_id) == (RunTrigger.CRON, str(owner), task.key_id)
    assert await read_next(frontend, task) == "2026-01-06 08:00"
    assert f"{(await frontend.reload(task)).last_run_at:%d %H:%M}" == "05 08:00"
    await frontend.run()
    assert (await frontend.build(worker.run_id))["messages"][0]["content"] == "from cron"


@pytest.mark.behaviour("TASK-9")
@pytest.mark.parametrize(
    ("cron", "before", "times", "following"),
    [
        # In the night to the 29th of March Rome goes from 02:00 to 03:00, to the 25th of October from 03:00 to 02:00.
        ("0 9 * * *", "2026-03-28 09:00:00", ["2026-03-29 07:00:05"], "2026-03-30 07:00"),
        ("30 2 * * *", "2026-03-28 09:00:00", ["2026-03-29 01:30:05"], "2026-03-30 00:30"),
        ("0 9 * * *", "2026-10-24 09:00:00", ["2026-10-25 08:00:05"], "2026-10-26 08:00"),
        ("30 2 * * *", "2026-10-24 09:00:00", ["2026-10-25 00:30:05", "2026-10-25 01:30:05"], "2026-10-26 01:30"),
    ],
)
async def test_local_time_of_a_pattern_starts_one_run_on_days_when_clocks_change(
    frontend: TaskFrontend,
    owner: Owner,
    worker: RunWorker,
    cron: str,
    before: str,
    times: list[str],
    following: str,
) -> None:
    await set_time(frontend.database, before)
    task = await frontend.create(owner, cron=cron, time_zone="Europe/Rome")
    for moment in times:
        await set_time(frontend.database, moment)
        await frontend.fire()
    assert len(await frontend.list_runs(task)) == 1
    assert await read_next(frontend, task) == following
    assert worker.starts == []


@pytest.mark.behaviour("TASK-9")
async def test_each_time_starts_one_run_however_many_frontends_look(
    frontend: TaskFrontend, owner: Owner, hub: Hub, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:00")
    tasks = [await frontend.create(owner, name=f"t{number}", cron="0 9 * * *") for number in range(10)]
    await set_time(frontend.database, "2026-01-05 09:00:01")
    await frontend.leader.tick()
    others = [TaskFrontend(frontend.database, hub, f"frontend-{number}") for number in (2, 3)]
    # Without the gate of the loop, as if each of them had been the leader a moment ago: rows and fence decide.
    for other in others:
        other.scheduler._deps = frontend.scheduler._deps
    found = await asyncio.gather(*(one.scheduler.tick() for one in (frontend, *others, frontend)))
    assert sum(counts.get(FireOutcome.STARTED, 0) for counts in found) == 10
    assert [len(await frontend.list_runs(task)) for task in tasks] == [1] * 10
    assert worker.starts == []


@pytest.mark.behaviour("TASK-9")
async def test_frontend_that_lost_the_lead_starts_nothing(
    frontend: TaskFrontend, owner: Owner, hub: Hub, worker: RunWorker
) -> None:
    task = await frontend.create(owner, cron="* * * * *")
    await frontend.leader.tick()
    await sql(frontend.database, "UPDATE leases SET expires_at = corral_now() - interval '1 second'")
    other = TaskFrontend(frontend.database, hub, "frontend-2")
    await other.leader.tick()
    await sql(frontend.database, "UPDATE tasks SET next_run_at = corral_now()")
    with pytest.raises(LeaseLost):
        await frontend.scheduler._fire(await frontend.reload(task), (await frontend.reload(task)).next_run_at)  # type: ignore[arg-type]
    assert await frontend.scheduler.tick() == {}
    assert await count_runs(frontend) == 0
    assert await other.scheduler.tick() == STARTED
    assert worker.starts == []


@pytest.mark.behaviour("TASK-10")
async def test_time_is_skipped_while_an_earlier_cron_job_is_open_and_says_so(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    task = await frontend.create(owner, cron="* * * * *")
    # A job that was started on request is no reason to skip.
    await frontend.execute(owner)
    await set_time(frontend.database, "2026-01-05 09:00:00")
    assert await frontend.fire() == STARTED
    await set_time(frontend.database, "2026-01-05 09:01:00")
    assert await frontend.fire() == SKIPPED
    [_, open_run] = await frontend.list_runs(task)
    assert open_run.id in (await frontend.reload(task)).cron_note
    await frontend.runs.cancel(open_run.id, None, "ann")
    await set_time(frontend.database, "2026-01-05 09:02:00")
    assert await frontend.fire() == STARTED
    assert (await frontend.reload(task)).cron_note == ""
    assert worker.starts == []


@pytest.mark.behaviour("TASK-10")
async def test_time_queues_behind_an_earlier_cron_job_if_the_task_says_so(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    task = await frontend.create(owner, cron="* * * * *", overlap=TaskOverlap.QUEUE)
    for minute in (0, 1):
        await set_time(frontend.database, f"2026-01-05 09:0{minute}:00")
        assert await frontend.fire() == STARTED
    await frontend.run()
    first, second = await frontend.list_runs(task)
    assert (first.state, second.state) == (RunState.RUNNING, RunState.QUEUED)
    # A job that is started on request runs beside them.
    await frontend.execute(owner)
    await frontend.run()
    assert len(worker.starts) == 2
    await frontend.runs.cancel(first.id, None, "ann")
    await frontend.run()
    assert (await frontend.get(second.id)).state is RunState.RUNNING


@pytest.mark.behaviour("TASK-10")
async def test_time_replaces_an_earlier_cron_job_if_the_task_says_so(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    task = await frontend.create(owner, cron="* * * * *", overlap=TaskOverlap.REPLACE)
    await set_time(frontend.database, "2026-01-05 09:00:00")
    await frontend.fire()
    await frontend.run()
    first_job = worker.job
    await set_time(frontend.database, "2026-01-05 09:01:00")
    assert await frontend.fire() == STARTED
    await frontend.run()
    first, second = await frontend.list_runs(task)
    assert (first.state, second.state) == (RunState.CANCELLED, RunState.RUNNING)
    assert [command.job_id for command in worker.cancelled] == [first_job]


@pytest.mark.behaviour("TASK-10")
async def test_earlier_cron_job_goes_on_if_the_one_that_would_replace_it_cannot_start(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    task = await frontend.create(owner, cron="* * * * *", overlap=TaskOverlap.REPLACE)
    await set_time(frontend.database, "2026-01-05 09:00:00")
    await frontend.fire()
    await frontend.run()
    await sql(frontend.database, "UPDATE nodes SET max_runs = 0")
    await set_time(frontend.database, "2026-01-05 09:01:00")
    assert await frontend.fire() == DEFERRED
    await frontend.run()
    [run] = await frontend.list_runs(task)
    assert (run.state, worker.cancelled) == (RunState.RUNNING, [])


@pytest.mark.behaviour("TASK-10")
@pytest.mark.parametrize(("catch_up", "number"), [(TaskCatchUp.NONE, 0), (TaskCatchUp.ONCE, 1)])
async def test_times_that_passed_while_no_frontend_ran_start_one_run_or_none(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, catch_up: TaskCatchUp, number: int
) -> None:
    await set_time(frontend.database, "2026-01-05 08:30:00")
    task = await frontend.create(owner, cron="0 9 * * *", catch_up=catch_up)
    await set_time(frontend.database, "2026-01-08 12:00:00")
    await frontend.fire()
    assert await frontend.fire() == {}
    runs = await frontend.list_runs(task)
    assert len(runs) == number
    reloaded = await frontend.reload(task)
    assert await read_next(frontend, task) == "2026-01-09 09:00"
    if number:
        assert f"{reloaded.last_run_at:%d %H:%M}" == "08 09:00"
    else:
        assert "2026-01-08 09:00 was missed" in reloaded.cron_note
    assert worker.starts == []


@pytest.mark.behaviour("TASK-10")
async def test_time_that_comes_right_after_an_outage_is_not_missed(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 08:30:00")
    task = await frontend.create(owner, cron="0 * * * *")
    await set_time(frontend.database, "2026-01-05 12:01:00")
    assert await frontend.fire() == STARTED
    assert f"{(await frontend.reload(task)).last_run_at:%H:%M}" == "12:00"
    assert worker.starts == []


async def test_disabled_task_does_not_run_and_starts_at_its_next_time_after_it_was_enabled(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    task = await frontend.create(owner, cron="0 9 * * *")
    await frontend.tasks.set_enabled(task.id, None, make_principal(owner), is_enabled=False)
    await set_time(frontend.database, "2026-01-05 09:00:00")
    assert await frontend.fire() == {}
    await frontend.tasks.set_enabled(task.id, None, make_principal(owner), is_enabled=True)
    assert await frontend.fire() == {}
    assert await read_next(frontend, task) == "2026-01-06 09:00"
    assert worker.starts == []


@pytest.mark.behaviour("TASK-20")
async def test_tasks_of_a_disabled_user_or_an_ended_key_do_not_run_by_themselves(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    keys = [Owner(key_id=await put_key(frontend.database, name)) for name in ("revoked", "expired")]
    tasks = [await frontend.create(one, cron="* * * * *") for one in (owner, *keys)]
    await sql(frontend.database, "UPDATE api_keys SET revoked_at = corral_now() WHERE name = 'revoked'")
    await sql(frontend.database, "UPDATE api_keys SET expires_at = corral_now() WHERE name = 'expired'")
    await sql(frontend.database, "UPDATE users SET disabled_at = corral_now()")
    await set_time(frontend.database, "2026-01-05 09:00:00")
    await frontend.leader.tick()
    for task in tasks:
        assert task.next_run_at is not None
        assert await frontend.scheduler._fire(task, task.next_run_at) is FireOutcome.TAKEN
    assert await frontend.fire() == {}
    assert await count_runs(frontend) == 0
    await sql(frontend.database, "UPDATE users SET disabled_at = NULL")
    await set_time(frontend.database, "2026-01-05 09:01:00")
    assert await frontend.fire() == STARTED
    assert worker.starts == []


async def test_task_that_is_edited_while_it_is_being_started_is_left_to_its_new_pattern(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    seen = await frontend.create(owner, cron="0 9 * * *")
    await set_time(frontend.database, "2026-01-05 09:00:00")
    await frontend.leader.tick()
    spec = TaskSpec(name="greet", model="chat", prompt="new", cron="30 9 * * *")
    await frontend.tasks.edit(seen.id, None, make_principal(owner), spec)
    assert seen.next_run_at is not None
    assert await frontend.scheduler._fire(seen, seen.next_run_at) is FireOutcome.TAKEN
    assert await count_runs(frontend) == 0
    assert worker.starts == []


async def test_time_without_an_agent_worker_waits_until_it_is_missed_and_then_says_why(
    frontend: TaskFrontend, owner: Owner
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    task = await frontend.create(owner, cron="0 9 * * *", catch_up=TaskCatchUp.ONCE)
    await set_time(frontend.database, "2026-01-05 09:00:00")
    assert await frontend.fire() == {FireOutcome.DEFERRED: 1}
    assert await read_next(frontend, task) == "2026-01-05 09:00"
    await set_time(frontend.database, "2026-01-05 09:03:00")
    assert await frontend.fire() == SKIPPED
    assert "No agent worker" in (await frontend.reload(task)).cron_note
    assert await read_next(frontend, task) == "2026-01-06 09:00"


@pytest.mark.behaviour("TASK-21")
async def test_tasks_of_one_owner_that_cannot_start_hold_up_no_others(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    for number in range(PAGE + 1):
        await frontend.create(owner, name=f"t{number}", cron="* * * * *", labels={"zone": "nowhere"})
    other = await put_owner(frontend.database, "bob")
    good = await frontend.create(other, cron="1 9 * * *")
    await set_time(frontend.database, "2026-01-05 09:00:00")
    assert await frontend.fire() == {FireOutcome.DEFERRED: PAGE + 1}
    await set_time(frontend.database, "2026-01-05 09:01:00")
    assert await frontend.fire() == {FireOutcome.DEFERRED: PAGE + 1} | STARTED
    assert len(await frontend.list_runs(good)) == 1
    assert worker.starts == []


@pytest.mark.behaviour("TASK-21")
async def test_pass_goes_on_behind_the_tasks_of_the_one_before(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 08:58:30")
    await frontend.create(owner, cron="59 8 * * *")
    # More tasks than a pass takes, that can never start: this machine does not know their time zone.
    await sql(frontend.database, MULTIPLY_TASKS, number=PASS_MAX - 1)
    await sql(frontend.database, """UPDATE tasks SET config = config || '{"time_zone": "No/Where"}'""")
    other = await put_owner(frontend.database, "bob")
    good = await frontend.create(other, cron="0 9 * * *")
    await set_time(frontend.database, "2026-01-05 09:00:00")
    assert await frontend.fire() == {FireOutcome.DEFERRED: PASS_MAX}
    # As if they were so many that the first of them are due again by now.
    await sql(frontend.database, "UPDATE tasks SET next_look_at = next_run_at")
    assert await frontend.fire() == STARTED
    assert len(await frontend.list_runs(good)) == 1
    assert worker.starts == []


@pytest.mark.behaviour("TASK-21")
async def test_time_of_every_minute_that_cannot_start_is_deferred_and_skipped_when_it_is_late(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    task = await frontend.create(owner, cron="* * * * *", labels={"zone": "nowhere"})
    await set_time(frontend.database, "2026-01-05 09:00:00")
    assert await frontend.fire() == DEFERRED
    assert "zone=nowhere" in (await frontend.reload(task)).cron_note
    assert await frontend.fire() == {}
    await set_time(frontend.database, "2026-01-05 09:01:30")
    assert await frontend.fire() == DEFERRED
    assert await read_next(frontend, task) == "2026-01-05 09:00"
    await set_time(frontend.database, "2026-01-05 09:02:30")
    assert await frontend.fire() == SKIPPED
    assert await read_next(frontend, task) == "2026-01-05 09:03"
    assert "zone=nowhere" in (await frontend.reload(task)).cron_note
    assert worker.starts == []


@pytest.mark.behaviour("TASK-21")
async def test_deferred_time_starts_when_its_reason_is_gone_and_keeps_the_reason_if_it_is_missed(
    frontend: TaskFrontend, owner: Owner, hub: Hub
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    tasks = [await frontend.create(owner, name=name, cron="0 9 * * *") for name in ("one", "two")]
    await set_time(frontend.database, "2026-01-05 09:00:00")
    assert await frontend.fire() == {FireOutcome.DEFERRED: 2}
    await frontend.tasks.set_enabled("two", str(owner), make_principal(owner), is_enabled=False)
    await put_workers(frontend.database, hub, "agent-1")
    await set_time(frontend.database, "2026-01-05 09:00:20")
    assert await frontend.fire() == STARTED
    assert (await frontend.reload(tasks[0])).cron_note == ""


@pytest.mark.behaviour("TASK-21")
async def test_deferred_time_that_is_missed_keeps_the_reason_and_not_that_of_an_outage(
    frontend: TaskFrontend, owner: Owner
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    task = await frontend.create(owner, cron="0 9 * * *")
    await set_time(frontend.database, "2026-01-05 09:00:00")
    assert await frontend.fire() == DEFERRED
    await set_time(frontend.database, "2026-01-05 09:03:00")
    assert await frontend.fire() == SKIPPED
    assert (await frontend.reload(task)).cron_note == "Not started: No agent worker has joined."
    # A frontend of the version before leaves the time of the last look in the row.
    await sql(frontend.database, "UPDATE tasks SET next_look_at = '2026-01-05 09:00:05Z', cron_note = 'old'")
    await set_time(frontend.database, "2026-01-06 09:03:00")
    assert await frontend.fire() == SKIPPED
    assert "2026-01-06 09:00 was missed" in (await frontend.reload(task)).cron_note


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": "{{ missing }}"},
        {"media_sources": (MediaSource(kind=MediaKind.IMAGE, url="http://127.0.0.1:1/x.png"),)},
    ],
)
async def test_task_that_cannot_be_started_holds_up_no_other(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker, fields: dict[str, Any]
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    bad = await frontend.create(owner, name="bad", cron="0 9 * * *", **fields)
    good = await frontend.create(owner, name="good", cron="0 9 * * *")
    await set_time(frontend.database, "2026-01-05 09:00:00")
    found = await frontend.fire()
    assert found[FireOutcome.STARTED] == 1
    assert len(await frontend.list_runs(good)) == 1
    assert await frontend.list_runs(bad) == []
    await set_time(frontend.database, "2026-01-05 09:05:00")
    await frontend.fire()
    assert (await frontend.reload(bad)).cron_note
    assert worker.starts == []


@pytest.mark.behaviour("TASK-19")
async def test_source_that_does_not_answer_delays_its_own_task_only(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    other = await put_owner(frontend.database, "bob")
    async with slow_source() as source:
        await set_time(frontend.database, "2026-01-05 08:59:30")
        slow = await frontend.create(owner, name="slow", cron="0 9 * * *", media_sources=(source.media,))
        plain = await frontend.create(owner, name="plain", cron="0 9 * * *")
        await frontend.create(other, cron="0 9 * * *")
        await set_time(frontend.database, "2026-01-05 09:00:00")
        assert await frontend.begin_firing() == {FireOutcome.STARTED: 2}
        await source.requested.wait()
        # A task under way is not begun once more.
        assert await frontend.begin_firing() == {}
        assert len(await frontend.list_runs(plain)) == 1
        assert await frontend.list_runs(slow) == []
        # It is late by the time at which its source answers, and was not missed.
        await set_time(frontend.database, "2026-01-05 09:30:00")
        source.released.set()
        await frontend.scheduler.join()
    [run] = await frontend.list_runs(slow)
    assert [one["type"] for one in run.request["media"]] == ["image/png"]
    assert (await frontend.reload(slow)).cron_note == ""
    assert source.calls == 1
    assert worker.starts == []


@pytest.mark.behaviour("TASK-19")
async def test_tasks_of_one_owner_with_slow_sources_leave_room_for_those_of_others(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    other = await put_owner(frontend.database, "bob")
    async with slow_source() as source, serving("/x.png", serve_picture) as url:
        await set_time(frontend.database, "2026-01-05 08:59:30")
        for number in range(FETCHING_OF_OWNER_MAX + 1):
            await frontend.create(owner, name=f"t{number}", cron="0 9 * * *", media_sources=(source.media,))
        quick = MediaSource(kind=MediaKind.IMAGE, url=f"{url}/x.png")
        good = await frontend.create(other, cron="0 9 * * *", media_sources=(quick,))
        await set_time(frontend.database, "2026-01-05 09:00:00")
        assert await frontend.begin_firing() == DEFERRED
        await source.requested.wait()
        await eventually(lambda: frontend.list_runs(good))
        notes = await sql(frontend.database, "SELECT cron_note FROM tasks WHERE next_look_at IS NOT NULL")
        assert ["too many other tasks" in row.cron_note for row in notes] == [True]
        source.released.set()
        await frontend.scheduler.join()
    assert await count_runs(frontend) == FETCHING_OF_OWNER_MAX + 1
    assert worker.starts == []


@pytest.mark.behaviour("TASK-8")
async def test_pattern_fires_again_after_the_worker_of_its_job_was_lost(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    task = await frontend.create(owner, cron="* * * * *")
    await set_time(frontend.database, "2026-01-05 09:00:00")
    await frontend.fire()
    await frontend.run()
    worker.jobs.clear()
    [first] = await frontend.list_runs(task)
    for _ in range(2):
        await frontend.wait_out(first.id, 60)
        worker.jobs.clear()
    assert (await frontend.get(first.id)).state is RunState.LOST
    await set_time(frontend.database, "2026-01-05 09:05:00")
    assert await frontend.fire() == STARTED


async def test_runs_of_a_pattern_that_wait_for_one_another_are_bounded(
    frontend: TaskFrontend, owner: Owner, worker: RunWorker
) -> None:
    await set_time(frontend.database, "2026-01-05 08:59:30")
    task = await frontend.create(owner, cron="* * * * *", overlap=TaskOverlap.QUEUE)
    outcomes = []
    for minute in range(22):
        await set_time(frontend.database, f"2026-01-05 09:{minute:02}:00")
        outcomes.append(await frontend.fire())
    assert outcomes[:20] == [STARTED] * 20
    assert outcomes[20:] == [SKIPPED] * 2
    assert "the same thread or task already wait" in (await frontend.reload(task)).cron_note
    assert worker.starts == []
