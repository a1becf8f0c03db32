"""The runner process: warm, apart from the worker, replaced when it dies or is worn out, and gone when it has to be."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from corral.domain.run import RunEventType
from corral.runtime.processes import RestartBackoff
from corral.wire.runner_protocol import LINE_BYTES_MAX
from corral.worker.runs.runner_supervisor import (
    PINGS_UNANSWERED_MAX,
    _RunnerChild,
    _RunnerStreams,
    clean_runner_environment,
)
from tests.support.children import start_child
from tests.support.reused_pids import start_with_pid
from tests.worker.runs.scene import COMMAND, DONE, HANG, WAIT, RunScene, is_alive, open_scene, until

QUICK = RestartBackoff(first_s=0.02, ceiling_s=0.1, reset_after_s=60.0)


async def test_runner_is_started_with_the_node_before_any_run(scene: RunScene):
    pid = await scene.ready_pid()
    assert os.getpgid(pid) == pid != os.getpgid(0)
    run = scene.begin("r1", DONE)
    assert await scene.end_of("r1") == "done"
    assert (scene.process.pid, run.outcome is not None) == (pid, True)


def test_environment_of_the_runner_has_no_setting_and_no_secret_of_the_worker():
    given = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "https_proxy": "http://proxy",
        "SSL_CERT_FILE": "/ca.pem",
        "CORRAL_TOKEN": "cj_x",
        "CORRAL_REGISTRY_CREDENTIALS": "{}",
        "AWS_SECRET_ACCESS_KEY": "x",
        "HF_TOKEN": "x",
        "SUPERVISED_AS": "agent",
    }
    kept = clean_runner_environment(given)
    assert set(kept) == {"PATH", "LC_ALL", "https_proxy", "SSL_CERT_FILE", "SUPERVISED_AS", "PYTHONUNBUFFERED"}


async def test_runner_works_in_a_private_folder_of_its_own(scene: RunScene, tmp_path: Path):
    run = scene.begin("r1", DONE)
    await scene.end_of("r1")
    environment = run.list_data(RunEventType.STEP)[0]["environment"]
    assert not [name for name in environment if name.startswith("CORRAL_")]
    assert stat.S_IMODE((tmp_path / "runner").stat().st_mode) == 0o700


async def test_runner_that_has_died_is_started_again_after_growing_pauses(tmp_path: Path):
    with structlog.testing.capture_logs() as logged:
        async with open_scene(tmp_path, command=(*COMMAND, "fail"), backoff=QUICK):

            def list_pauses() -> list[float]:
                return [line["restart_in_s"] for line in logged if line["event"] == "the runner process is gone"]

            await until(lambda: len(list_pauses()) >= 4)
            assert list_pauses()[:4] == [0.02, 0.04, 0.08, 0.1]
    assert "the runner is unwell" in {line.get("line") for line in logged}


async def test_runner_that_never_becomes_ready_is_killed_and_started_again(tmp_path: Path):
    with structlog.testing.capture_logs() as logged:
        async with open_scene(tmp_path, command=(*COMMAND, "mute"), ready_s=0.2, backoff=QUICK):

            def list_killed() -> list[int]:
                return [line["pid"] for line in logged if "not ready in time" in line["event"]]

            await until(lambda: len(list_killed()) >= 2)
            assert not is_alive(list_killed()[0])


async def test_program_that_does_not_exist_leaves_the_worker_running(tmp_path: Path):
    async with open_scene(tmp_path, command=("/nonexistent/runner",), ready_s=0.1, backoff=QUICK) as scene:
        run = scene.begin("r1", DONE)
        assert await scene.end_of("r1") == "done"
        assert (await run.wait_outcome())["error_code"] == "runner_lost"


async def test_what_the_runner_logs_is_in_the_log_of_the_worker(tmp_path: Path):
    with structlog.testing.capture_logs() as logged:
        async with open_scene(tmp_path):
            await until(lambda: [line for line in logged if line.get("line") == "the runner has something to say"])
            [entry] = await until(lambda: [line for line in logged if line["event"] == "run status"])
    assert entry == {"event": "run status", "log_level": "warning", "process": "runner", "run_id": "r1"}


async def test_runner_is_replaced_after_so_many_runs_once_it_is_idle(tmp_path: Path):
    async with open_scene(tmp_path, runs_max=2) as scene:
        first = await scene.ready_pid()
        waiting = scene.begin("r0", WAIT)
        await scene.wait_entries(waiting)
        for run_id in ("r1", "r2", "r3"):
            scene.begin(run_id, DONE)
            await scene.end_of(run_id)
        await scene.process.upkeep.run_once()
        assert scene.process.pid == first, "a run is in it"
        scene.executor.cancel("job of r0")
        second = await until(lambda: scene.process.pid not in (None, first) and scene.process.pid)
        assert not is_alive(first)
        scene.begin("r4", DONE)
        await scene.end_of("r4")
        assert scene.process.pid == second


async def test_runner_with_too_much_memory_is_replaced_once_it_is_idle(tmp_path: Path):
    async with open_scene(tmp_path, memory_bytes_max=1) as scene:
        waiting = scene.begin("r1", WAIT)
        await scene.wait_entries(waiting)
        first = await scene.ready_pid()
        await scene.process.upkeep.run_once()
        assert scene.process.pid == first
        scene.executor.cancel("job of r1")
        await until(lambda: not is_alive(first))


async def test_run_that_arrives_while_the_runner_is_replaced_gets_the_next_one(tmp_path: Path):
    async with open_scene(tmp_path, runs_max=1) as scene:
        for number in range(5):
            run = scene.begin(f"r{number}", DONE)
            assert (await run.wait_outcome())["state"] == "completed"


async def test_lines_that_are_no_messages_are_ignored(scene: RunScene):
    run = scene.begin(
        "r1",
        {"raw": "a library prints something"},
        {"raw": "[1, 2]"},
        {"raw": '{"type": "event", "run_id": "r1", "event_type": "no such kind"}'},
        {"raw": '{"type": "of a newer version"}'},
        {"raw": '{"type": "event", "run_id": "another", "event_type": "status"}'},
        {"raw": '{"type": "end", "run_id": "another", "outcome": {"state": "completed"}}'},
        {"raw": "x", "times": LINE_BYTES_MAX + 1},
        {"say": "fine"},
        DONE,
    )
    assert await scene.end_of("r1") == "done"
    assert (run.text, run.list_data(RunEventType.STATUS)) == ("fine", [])


async def test_call_that_cannot_be_read_is_answered_with_an_error(scene: RunScene):
    call = '{"type": "call", "id": "call of r1", "run_id": "r1", "method": "fly"}'
    run = scene.begin("r1", {"raw": call}, {"wait": "reply"}, DONE)
    assert await scene.end_of("r1") == "done"
    assert [data["error"]["code"] for data in run.list_data(RunEventType.STATUS)] == ["invalid_request"]


@pytest.mark.behaviour("WRK-24")
async def test_children_of_a_killed_runner_end_with_it(scene: RunScene):
    run = scene.begin("r1", {"start_child": True}, WAIT)
    (status,) = await scene.wait_entries(run, RunEventType.STATUS)
    assert is_alive(status["child"])
    os.kill(await scene.ready_pid(), signal.SIGKILL)
    await until(lambda: not is_alive(status["child"]))
    assert await scene.end_of("r1") == "done"


@pytest.mark.behaviour("WRK-24")
async def test_stop_ends_the_runner_and_its_children_although_a_run_hangs(tmp_path: Path):
    async with open_scene(tmp_path, stop_s=0.2) as scene:
        run = scene.begin("r1", {"start_child": True}, HANG)
        (status,) = await scene.wait_entries(run, RunEventType.STATUS)
        pid = await scene.ready_pid()
        await scene.executor.stop()
        await scene.process.stop()
        assert not is_alive(pid)
        await until(lambda: not is_alive(status["child"]))


async def test_runner_that_does_not_read_is_killed_and_its_runs_are_lost(tmp_path: Path):
    async with open_scene(tmp_path, write_s=0.2) as scene:
        os.kill(await scene.ready_pid(), signal.SIGSTOP)
        # More than a pipe holds.
        run = scene.begin("r1", {"say": "x" * 1_000_000}, DONE)
        assert await scene.end_of("r1") == "done"
        assert (await run.wait_outcome())["error_code"] == "runner_lost"


@pytest.mark.behaviour("RUNNER-21")
async def test_runner_that_stands_still_is_killed_and_its_runs_are_lost_with_the_reason(scene: RunScene):
    run = scene.begin("r1", WAIT)
    await scene.wait_entries(run)
    pid = await scene.ready_pid()
    os.kill(pid, signal.SIGSTOP)
    for _ in range(PINGS_UNANSWERED_MAX + 1):
        await scene.process.pings.run_once()
    outcome = await run.wait_outcome()
    assert (outcome["error_code"], outcome["error_text"]) == (
        "runner_lost",
        "The runner process has not answered for 60 s and was killed.",
    )
    assert not is_alive(pid)


async def test_process_that_has_got_the_pid_of_an_ended_runner_is_left_alone():
    loop, pipe = asyncio.get_running_loop(), subprocess.PIPE
    transport, streams = await loop.subprocess_exec(
        _RunnerStreams, sys.executable, "-c", "", stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )
    child = _RunnerChild(transport, streams)
    await child.exited.wait()
    child.kill()
    with start_with_pid(child.pid) as other:
        child.kill()
        other.terminate()
        assert other.wait() == -signal.SIGTERM
    await child.close()


async def test_runner_that_answers_late_is_kept(scene: RunScene):
    pid = await scene.ready_pid()
    for run_id in ("r1", "r2"):
        os.kill(pid, signal.SIGSTOP)
        for _ in range(PINGS_UNANSWERED_MAX - 1):
            await scene.process.pings.run_once()
        os.kill(pid, signal.SIGCONT)
        # It reads in order: once the run has ended, the pings before it were answered.
        scene.begin(run_id, DONE)
        await scene.end_of(run_id)
    assert scene.process.pid == pid


@pytest.mark.behaviour("WRK-24")
def test_runner_of_a_killed_worker_ends_by_itself(tmp_path: Path):
    program = Path(__file__).parent / "programs" / "supervisor.py"
    command = [sys.executable, str(program), str(tmp_path / "runner")]
    with start_child(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        pid = int(next(line for line in worker.stdout if line.strip().isdigit()))
        worker.kill()
    asyncio.run(until(lambda: not is_alive(pid)))
