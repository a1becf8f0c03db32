"""Runs on one worker: a scripted runner process, frontends over real HTTP."""

from __future__ import annotations

import os
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from corral.bus.messages import StartRun
from corral.domain.errors import Unavailable
from corral.domain.run import RunEventType
from corral.wire.run_work import ApprovalDecision, RunOutcome
from corral.wire.runner_protocol import LINE_BYTES_MAX
from corral.worker.runs.executor import ENDED_MAX
from tests.support.ports import find_free_port
from tests.worker.runs.scene import (
    COMMAND,
    DONE,
    HANG,
    TIMEOUTS,
    WAIT,
    PretendFrontend,
    RunScene,
    is_alive,
    open_scene,
    serve,
    until,
)

STATUS, TOOL_CALL, END = RunEventType.STATUS, RunEventType.TOOL_CALL, RunEventType.END


@pytest.mark.behaviour("WRK-22")
async def test_run_is_fetched_executed_and_its_trace_is_stored_in_order(scene: RunScene):
    run = scene.add(
        "r1",
        {"think": "let me see"},
        *({"say": word} for word in ("the", "quick", "brown", "fox")),
        {"event": "tool_call", "tool": "shell", "data": {"call_id": "c1"}},
        {"event": "tool_result", "tool": "shell", "data": {"call_id": "c1"}},
        {"say": "!"},
        {"end": {"state": "completed", "content": "answer", "usage": {"steps": 1}, "messages": [{"role": "x"}]}},
        last_seq=41,
    )
    accepted = scene.accept("r1")
    assert (accepted.boot_id, accepted.job.state, accepted.job.seq) == ("boot-1", "running", 1)
    assert accepted.job.operation_id == "r1"
    assert await scene.end_of("r1") == "done"
    assert [event.seq for event in run.events] == list(range(42, 42 + len(run.events)))
    kinds = [str(event.type) for event in run.events if event.type is not RunEventType.CONTENT]
    assert kinds == ["step", "reasoning", "tool_call", "tool_result", "end"]
    assert run.text == "thequickbrownfox!"
    assert run.events[-1].type is END
    outcome = RunOutcome.model_validate(run.outcome)
    assert (outcome.state, outcome.content, outcome.messages) == ("completed", "answer", [{"role": "x"}])


async def test_runner_gets_the_ticket_and_the_frontends_that_answer_first(tmp_path: Path):
    silent = f"http://127.0.0.1:{find_free_port()}"
    async with open_scene(tmp_path, urls=(silent,)) as scene:
        run = scene.begin("r1", DONE)
        await scene.end_of("r1")
        assert run.spec["base_urls"] == [f"{scene.frontend.url}/v1", f"{silent}/v1"]
        assert (run.spec["ticket"], run.spec["run_id"]) == ("a ticket", "r1")


@pytest.mark.behaviour("WRK-21")
async def test_same_job_sent_twice_is_one_job_also_after_its_end(scene: RunScene):
    run = scene.begin("r1", WAIT)
    assert scene.accept("r1").job.state == "running"
    await scene.wait_entries(run)
    scene.executor.cancel("job of r1")
    assert await scene.end_of("r1") == "done"
    again = scene.accept("r1")
    assert (again.job.state, again.job.seq) == ("done", 2)
    assert len(run.list_data(RunEventType.STEP)) == 1


@pytest.mark.behaviour("WRK-21")
async def test_worker_with_all_places_taken_refuses_and_takes_the_next_when_one_has_ended(tmp_path: Path):
    async with open_scene(tmp_path, max_runs=2) as scene:
        runs = [scene.begin(run_id, WAIT) for run_id in ("r1", "r2")]
        for run in runs:
            await scene.wait_entries(run)
        with pytest.raises(Unavailable) as refused:
            scene.begin("r3", DONE)
        assert refused.value.slug == "worker_busy"
        scene.executor.cancel("job of r1")
        await until(lambda: runs[0].outcome)
        scene.begin("r3", DONE)
        assert await scene.end_of("r3") == "done"
        assert scene.get_state("r2") == "running"


@pytest.mark.behaviour("RUNS-16")
async def test_run_of_a_kind_that_the_worker_does_not_know_is_refused(scene: RunScene):
    with pytest.raises(Unavailable) as refused:
        scene.executor.accept(StartRun(job_id="j1", run_id="r1", kind="of_a_later_version"), "a node")
    assert refused.value.slug == "run_kind_unknown"
    assert scene.executor.find_job("j1") is None


async def test_run_whose_end_cannot_be_delivered_takes_no_place(tmp_path: Path):
    async with open_scene(tmp_path, max_runs=1) as scene:
        run = scene.begin("r1", WAIT)
        await scene.wait_entries(run)
        scene.frontend.is_away = True
        scene.executor.cancel("job of r1")
        scene.add("r2", DONE)

        def is_accepted() -> bool:
            try:
                return scene.accept("r2").job.state == "running"
            except Unavailable:
                return False

        await until(is_accepted)
        assert scene.get_state("r1") == "running", "its end is not stored yet"
        scene.frontend.is_away = False
        assert [await scene.end_of(run_id) for run_id in ("r1", "r2")] == ["done", "done"]
        assert run.outcome is not None


@pytest.mark.parametrize("is_known", [True, False])
async def test_run_that_is_not_ours_any_more_is_dropped_before_it_begins(scene: RunScene, is_known: bool):
    if is_known:
        scene.add("r1", DONE)
        scene.frontend.runs["r1"].must_stop = True
    scene.accept("r1")
    assert await scene.end_of("r1") == "done"
    await scene.ready_pid()
    assert scene.frontend.deliveries == 0


@pytest.mark.behaviour("WRK-22")
async def test_frontends_that_come_back_get_everything_that_happened_meanwhile(scene: RunScene):
    run = scene.begin("r1", {"say": "first "}, {"wait": "decide"}, {"say": "second "}, {"say": "third"}, DONE)
    await run.wait_text()
    scene.frontend.is_away = True
    scene.process.decide_call("r1", "c1", ApprovalDecision(approved=True))
    await until(lambda: scene.frontend.refused >= 2)
    assert (run.text, scene.get_state("r1")) == ("first ", "running")
    scene.frontend.is_away = False
    assert await scene.end_of("r1") == "done"
    assert run.text == "first second third"
    assert [event.seq for event in run.events] == list(range(1, len(run.events) + 1))


async def test_work_is_fetched_and_its_end_delivered_after_all_frontends_were_gone(tmp_path: Path):
    port = find_free_port()
    second = PretendFrontend()
    async with open_scene(tmp_path, urls=(f"http://127.0.0.1:{port}",)) as scene, AsyncExitStack() as stack:
        scene.frontend.is_away = True
        scene.accept("r1")
        await scene.ready_pid()
        # Another frontend, with the same registry.
        second.runs = scene.frontend.runs
        run = scene.add("r1", {"say": "hello"}, DONE)
        await stack.enter_async_context(serve(second, port))
        assert await scene.end_of("r1") == "done"
        assert (run.text, run.outcome is not None) == ("hello", True)
        assert run.spec["base_urls"][0] == f"http://127.0.0.1:{port}/v1"


async def test_answer_to_stop_cancels_the_run_in_the_runner_and_drops_it(scene: RunScene):
    run = scene.begin("r1", {"say": "a"}, WAIT)
    other = scene.begin("r2", WAIT)
    await scene.wait_entries(run)
    await scene.wait_entries(other)
    entries = len(run.events)
    run.must_stop = True
    scene.executor.wake_run("r1")
    assert await scene.end_of("r1") == "done"
    assert (len(run.events), run.outcome) == (entries, None)
    assert scene.get_state("r2") == "running"
    # The runner has ended it: the next run with this id may begin there.
    run.must_stop = False
    run.script = [DONE]
    scene.accept("r1", "another job")
    await until(lambda: run.outcome)


@pytest.mark.behaviour("WRK-23")
async def test_cancelled_run_ends_as_cancelled(scene: RunScene):
    run = scene.begin("r1", {"say": "a"}, WAIT)
    await scene.wait_entries(run)
    event = scene.executor.cancel("job of r1")
    assert event is not None
    assert event.state == "running"
    assert await scene.end_of("r1") == "done"
    assert (await run.wait_outcome())["state"] == "cancelled"


@pytest.mark.behaviour("WRK-23")
async def test_cancelled_run_that_does_not_end_is_ended_with_its_runner(scene: RunScene):
    run = scene.begin("r1", HANG)
    await scene.wait_entries(run)
    pid = await scene.ready_pid()
    scene.executor.cancel("job of r1")
    assert await scene.end_of("r1") == "done"
    assert (await run.wait_outcome())["state"] == "cancelled"
    await until(lambda: not is_alive(pid))
    # Another runner takes the next run at once.
    again = scene.begin("r2", DONE)
    assert await scene.end_of("r2") == "done"
    assert again.outcome is not None


@pytest.mark.behaviour("WRK-23")
async def test_cancelled_run_that_does_not_end_is_left_alone_beside_others(scene: RunScene):
    stuck, other = scene.begin("r1", HANG), scene.begin("r2", {"wait": "decide"}, {"say": "fine"}, DONE)
    await scene.wait_entries(stuck)
    await scene.wait_entries(other)
    pid = await scene.ready_pid()
    scene.executor.cancel("job of r1")
    assert await scene.end_of("r1") == "done"
    assert (scene.process.pid, scene.get_state("r2")) == (pid, "running")
    other.decisions = {"c1": ApprovalDecision(approved=True)}
    scene.executor.wake_run("r2")
    assert await scene.end_of("r2") == "done"
    assert other.text == "fine"
    # Idle with a stuck run in it, it is replaced.
    await until(lambda: scene.process.pid not in (None, pid))
    assert not is_alive(pid)


async def test_cancellation_of_an_unknown_job_finds_nothing(scene: RunScene):
    assert scene.executor.cancel("nobody's") is None


@pytest.mark.parametrize("code", ["secret_unreadable", "no_secrets_key"])
async def test_run_whose_secret_no_frontend_opens_fails_with_that_reason(tmp_path: Path, code: str):
    silent = f"http://127.0.0.1:{find_free_port()}"
    async with open_scene(tmp_path, urls=(silent,), timeouts=replace(TIMEOUTS, secrets_wait_s=0.0)) as scene:
        scene.frontend.withholds = code
        run = scene.begin("r1", DONE, last_seq=3)
        assert await scene.end_of("r1") == "done"
        assert [(event.seq, event.type) for event in run.events] == [(4, END)]
        assert run.outcome is not None
        assert (run.outcome["state"], run.outcome["error_code"], run.outcome["error_text"]) == ("failed", code, "No.")


async def test_run_begins_once_a_frontend_opens_its_secret(scene: RunScene):
    scene.frontend.withholds = "secret_unreadable"
    run = scene.begin("r1", {"say": "hi"}, DONE)
    await until(lambda: scene.frontend.refused >= 2)
    scene.frontend.withholds = ""
    assert (await run.wait_outcome())["state"] == "completed"


async def test_run_that_is_cancelled_before_it_was_fetched_does_not_begin(scene: RunScene):
    scene.frontend.is_away = True
    run = scene.begin("r1", {"say": "never"}, DONE)
    scene.executor.cancel("job of r1")
    scene.frontend.is_away = False
    assert await scene.end_of("r1") == "done"
    assert [(event.seq, event.data["state"]) for event in run.events] == [(1, "cancelled")]


@pytest.mark.behaviour("WRK-24")
async def test_death_of_the_runner_ends_all_its_runs_as_lost_and_another_one_takes_the_next(scene: RunScene):
    runs = [scene.begin(run_id, {"say": "a"}, WAIT) for run_id in ("r1", "r2")]
    for run in runs:
        await run.wait_text()
    pid = await scene.ready_pid()
    os.kill(pid, signal.SIGKILL)
    for run_id, run in zip(("r1", "r2"), runs, strict=True):
        assert await scene.end_of(run_id) == "done"
        outcome = await run.wait_outcome()
        assert (outcome["state"], outcome["error_code"]) == ("failed", "runner_lost")
        assert "SIGKILL" in outcome["error_text"]
        assert run.text == "a"
    again = scene.begin("r3", DONE)
    assert await scene.end_of("r3") == "done"
    assert again.outcome is not None
    assert scene.process.pid != pid


async def test_entries_of_a_runner_that_dies_are_delivered_before_the_loss(scene: RunScene):
    run = scene.begin("r1", *({"say": f"{number} "} for number in range(200)), {"die": 9})
    assert await scene.end_of("r1") == "done"
    assert run.text == "".join(f"{number} " for number in range(200))
    assert (await run.wait_outcome())["error_code"] == "runner_lost"


async def test_run_without_a_runner_is_reported_as_lost(tmp_path: Path):
    async with open_scene(tmp_path, command=(*COMMAND, "fail"), ready_s=0.3) as scene:
        run = scene.begin("r1", DONE)
        assert await scene.end_of("r1") == "done"
        outcome = await run.wait_outcome()
        assert (outcome["state"], outcome["error_code"]) == ("failed", "runner_lost")


async def test_run_that_does_not_fit_into_a_line_fails_and_says_so(scene: RunScene):
    run = scene.begin("r1", {"say": "x" * LINE_BYTES_MAX}, DONE)
    assert await scene.end_of("r1") == "done"
    outcome = await run.wait_outcome()
    assert (outcome["state"], outcome["error_code"]) == ("failed", "body_too_large")


@pytest.mark.behaviour("WRK-25")
async def test_decision_reaches_the_runner_once(scene: RunScene):
    run = scene.begin("r1", {"wait": "decide"}, {"wait": "decide"}, DONE)
    await scene.wait_entries(run)
    run.decisions = {"c1": ApprovalDecision(approved=False, reason="too risky")}
    scene.executor.wake_run("r1")
    await scene.wait_entries(run, STATUS)
    deliveries = run.deliveries
    scene.executor.wake_run("r1")
    await until(lambda: run.deliveries > deliveries)
    run.decisions["c2"] = ApprovalDecision(approved=True)
    scene.executor.wake_run("r1")
    assert await scene.end_of("r1") == "done"
    decided = [(data["call_id"], data["approved"], data["reason"]) for data in run.list_data(STATUS)]
    assert decided == [("c1", False, "too risky"), ("c2", True, "")]


async def test_answer_of_another_agent_is_polled_until_it_is_final(scene: RunScene):
    ask = {"name": "wise one/x", "message": "what?", "call_id": "c1"}
    scene.frontend.agent_answers = [
        (200, {"run_id": "r9", "state": "queued"}),
        (503, {"error": {"code": "store_unavailable", "message": "Away."}}),
        (200, {"run_id": "r9", "state": "running"}),
        (200, {"run_id": "r9", "state": "completed", "content": "42"}),
    ]
    run = scene.begin("r1", {"ask": ask}, DONE)
    assert await scene.end_of("r1") == "done"
    (reply,) = run.list_data(STATUS)
    assert (reply["result"]["state"], reply["result"]["content"], reply["error"]) == ("completed", "42", None)
    assert {name for name, _ in scene.frontend.agent_calls} == {"wise one/x"}
    assert len(scene.frontend.agent_calls) == 4
    assert {(body.job_id, body.call_id, body.message, body.boot_id) for _, body in scene.frontend.agent_calls} == {
        ("job of r1", "c1", "what?", "boot-1")
    }


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        ({"name": "nobody", "message": "what?", "call_id": "c1"}, "agent_not_found"),
        ({"message": "what?", "call_id": "c1"}, "invalid_request"),
        ({"name": "x", "message": "what?"}, "invalid_request"),
    ],
)
async def test_refused_call_of_an_agent_is_an_error_for_the_runner(scene: RunScene, ask: dict[str, str], code: str):
    scene.frontend.agent_answers = [(404, {"error": {"code": "agent_not_found", "message": "There is no such agent."}})]
    run = scene.begin("r1", {"ask": ask}, DONE)
    assert await scene.end_of("r1") == "done"
    (reply,) = run.list_data(STATUS)
    assert (reply["result"], reply["error"]["code"]) == (None, code)


async def test_file_is_stored_after_a_frontend_could_not_change_its_registry_for_a_moment(scene: RunScene):
    scene.frontend.store_conflicts = 2
    run = scene.begin("r1", {"store": {"name": "plot.png"}}, DONE)
    assert await scene.end_of("r1") == "done"
    assert [data["result"] for data in run.list_data(STATUS)] == [{"id": "f1", "path": "kept/plot.png"}]


async def test_run_that_waits_for_another_agent_can_be_cancelled(scene: RunScene):
    scene.frontend.agent_answers = [(200, {"run_id": "r9", "state": "running"})]
    run = scene.begin("r1", {"ask": {"name": "a", "message": "m", "call_id": "c"}}, DONE)
    await until(lambda: len(scene.frontend.agent_calls) > 1)
    scene.executor.cancel("job of r1")
    assert await scene.end_of("r1") == "done"
    assert (await run.wait_outcome())["state"] == "cancelled"


async def test_newer_attempt_of_a_run_replaces_the_older_one(scene: RunScene):
    run = scene.begin("r1", {"say": "old"}, WAIT)
    await scene.wait_entries(run)
    run.script = [{"say": "new"}, DONE]
    scene.accept("r1", "newer job")
    await until(lambda: run.outcome)
    assert await scene.end_of("r1") == "done"
    assert run.text == "oldnew"


@pytest.mark.behaviour("WRK-24")
async def test_stopped_worker_reports_its_runs_as_stopped_and_takes_no_more(scene: RunScene):
    runs = [scene.begin("r1", {"say": "a"}, WAIT), scene.begin("r2", {"say": "a"}, HANG)]
    for run in runs:
        await run.wait_text()
    pid = await scene.ready_pid()
    await scene.executor.stop()
    for run in runs:
        outcome = await run.wait_outcome()
        assert (outcome["state"], outcome["error_code"]) == ("failed", "worker_stopping")
    with pytest.raises(Unavailable) as refused:
        scene.begin("r3", DONE)
    assert refused.value.slug == "worker_stopping"
    await scene.process.stop()
    assert not is_alive(pid)


async def test_worker_stops_although_no_frontend_takes_its_traces(scene: RunScene):
    run = scene.begin("r1", {"say": "a"}, WAIT)
    await scene.wait_entries(run)
    scene.frontend.is_away = True
    await scene.executor.stop()
    assert run.outcome is None


async def test_removal_of_the_node_ends_all_runs_and_delivers_nothing_more(scene: RunScene):
    runs = [scene.begin(run_id, {"say": "a"}, WAIT) for run_id in ("r1", "r2")]
    for run in runs:
        await run.wait_text()
    await scene.executor.abandon_runs()
    assert [scene.get_state(run_id) for run_id in ("r1", "r2")] == ["done", "done"]
    assert [run.outcome for run in runs] == [None, None]


async def test_ended_jobs_are_remembered_within_a_bound(scene: RunScene):
    for number in range(ENDED_MAX + 5):
        scene.accept(f"r{number}")
        await scene.executor.run_ended.wait()
    jobs = scene.executor.list_jobs()
    assert (len(jobs), jobs[-1].operation_id) == (ENDED_MAX, f"r{ENDED_MAX + 4}")
    assert {job.state for job in jobs} == {"done"}


@pytest.mark.behaviour("RUNS-14")
async def test_runner_learns_that_its_trace_is_stored_only_after_it_is(scene: RunScene):
    call = {"event": "tool_call", "tool": "write", "data": {"call_id": "c1", "is_repeatable": False}}
    run = scene.add("r1", {"wait": "decide"}, call, {"flush": True}, DONE)
    scene.accept("r1")
    await scene.wait_entries(run)
    scene.frontend.is_away = True
    run.decisions = {"c0": ApprovalDecision(approved=True)}
    scene.process.decide_call("r1", "c0", ApprovalDecision(approved=True))
    refused = scene.frontend.refused
    await until(lambda: scene.frontend.refused > refused + 1)
    assert scene.get_state("r1") == "running"
    scene.frontend.is_away = False
    await run.wait_outcome()
    replies = [index for index, event in enumerate(run.events) if event.data.get("type") == "reply"]
    calls = [index for index, event in enumerate(run.events) if event.type is TOOL_CALL]
    assert (len(replies), len(calls)) == (1, 1)
    assert run.events[replies[0]].at >= run.events[calls[0]].at


async def test_run_goes_on_after_a_frontend_could_not_change_its_registry_for_a_moment(scene: RunScene):
    run = scene.add("r1", {"say": "hi"}, DONE)
    scene.frontend.conflicts = 2
    scene.accept("r1")
    assert (await run.wait_outcome())["state"] == "completed"
    assert scene.frontend.conflicts == 0


async def test_runner_of_a_run_that_was_given_away_never_learns_that_its_trace_is_stored(scene: RunScene):
    run = scene.begin(
        "r1", {"wait": "decide"}, {"event": "tool_call", "data": {"call_id": "c1"}}, {"flush": True}, DONE
    )
    await scene.wait_entries(run)
    run.must_stop = True
    scene.process.decide_call("r1", "c0", ApprovalDecision(approved=True))
    assert await scene.end_of("r1") == "done"
    assert run.outcome is None
