"""Loads as jobs: the backend if it is missing, the files, the process; in virtual time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from corral.bus import subjects
from corral.bus.messages import GetJobs, ModelFileItem, RunningProcess, StageModel, StartBackend
from corral.domain.errors import CorralError, InvalidRequest, Unprocessable
from corral.domain.operation import JobPhase, JobState
from corral.worker.jobs.job import compute_load_windows
from corral.worker.jobs.journal import JobStopReason
from tests.worker.job_scene import CPU, CUDA, NODE, JobScene, load_of, play
from tests.worker.pretend_work import MIB, wire_build

KEY = "qwen#0"
HELD = {JobPhase.DOWNLOADING: "installer", JobPhase.STAGING: "files", JobPhase.LOADING: "processes"}
NAMES = {JobPhase.DOWNLOADING: CPU, JobPhase.STAGING: "qwen", JobPhase.LOADING: KEY}


def hold(scene: JobScene, phase: JobPhase) -> None:
    getattr(scene, HELD[phase]).gates.hold(NAMES[phase], phase)


def let(scene: JobScene, phase: JobPhase) -> None:
    getattr(scene, HELD[phase]).gates.open(NAMES[phase], phase)


async def reach(scene: JobScene, phase: JobPhase) -> None:
    gates = getattr(scene, HELD[phase]).gates
    await scene.until(lambda: gates.has_reached(NAMES[phase], phase), limit_s=30)


def process_of(scene: JobScene, key: str = KEY) -> RunningProcess:
    return scene.processes.table[key]


@pytest.mark.behaviour("JOB-22")
def test_load_installs_what_is_missing_has_the_files_and_runs_the_process():
    async def story(scene: JobScene) -> None:
        accepted = await scene.load("j1", threads=3, options={"context": "4096"}, ready_s=77.0)
        assert (accepted.job.state, accepted.job.backend) == ("queued", CPU)
        assert accepted.job.operation_id == "operation of j1"
        end = await scene.end_of("j1")
        assert (end.state, end.percent, end.stopped) == ("done", 100.0, ())
        assert end.result == {
            "key": KEY,
            "address": process_of(scene).address,
            "backend": CPU,
            "version": "1",
            "engine_key": "key of qwen#0",
            "threads": "3",
            "ram_bytes": str(MIB),
        }
        (command,) = scene.processes.commands
        assert command == StartBackend(
            job_id="j1",
            backend=CPU,
            model="qwen",
            model_path="/nowhere/models/qwen/qwen.gguf",
            threads=3,
            options={"context": "4096"},
            revision="r1",
            operation_id="operation of j1",
            ready_s=77.0,
        )
        phases = list(dict.fromkeys(event.phase for event in scene.list_events("j1")))
        expected = [JobPhase.DOWNLOADING, JobPhase.STAGING, JobPhase.STARTING, JobPhase.LOADING]
        assert [phase for phase in phases if phase in expected] == expected
        assert [each.name for each in scene.installer.list_installed()] == [CPU]

    play(story)


@pytest.mark.behaviour("JOB-22")
def test_default_counts_where_the_engine_knows_it_and_no_value_is_given():
    async def story(scene: JobScene) -> None:
        defaults = {"context_size": "8192", "unheard_of": "1"}
        await scene.load("j1", defaults=defaults)
        await scene.end_of("j1")
        await scene.load("j2", model="other", defaults=defaults, options={"context_size": "64"})
        await scene.end_of("j2")
        assert [dict(command.options) for command in scene.processes.commands] == [
            {"context_size": "8192"},
            {"context_size": "64"},
        ]

    play(story)


@pytest.mark.behaviour("JOB-22")
def test_engine_and_files_that_are_there_are_not_fetched_again():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        await scene.load("j1", build=None)
        await scene.end_of("j1")
        await scene.load("j2", replica=1)
        assert (await scene.end_of("j2")).state == "done"
        assert scene.files.fetched == 8 * MIB
        assert not scene.installer.gates.has_reached(CPU, JobPhase.RESOLVING)
        assert sorted(scene.processes.table) == ["qwen#0", "qwen#1"]

    play(story)


def test_model_without_files_is_given_no_path():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        await scene.load("j1", files=(), entry="")
        assert (await scene.end_of("j1")).state == "done"
        assert scene.processes.commands[0].model_path == ""
        assert scene.disk.models == {}

    play(story)


def test_engine_is_given_the_folder_of_a_model_without_an_entry():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        await scene.load("j1", entry="")
        await scene.end_of("j1")
        assert Path(scene.processes.commands[0].model_path) == Path("/nowhere/models/qwen")

    play(story)


def test_backend_that_is_being_installed_is_waited_for_and_installed_once():
    async def story(scene: JobScene) -> None:
        scene.installer.gates.hold(CPU, JobPhase.DOWNLOADING)
        await scene.install("j1", 5)
        await scene.load("j2")
        await scene.load("j3", model="other", build=None)
        await scene.clock.sleep(5)
        assert scene.installer.most_on_one == 1
        assert scene.processes.table == {}
        scene.installer.gates.open(CPU, JobPhase.DOWNLOADING)
        assert (await scene.end_of("j2")).state == "done"
        assert (await scene.end_of("j3")).state == "done"
        assert scene.installer.gates.reached.count((CPU, JobPhase.DOWNLOADING)) == 1
        # The load has not taken the generation of the assignment away.
        assert [(each.name, each.generation) for each in scene.installer.list_installed()] == [(CPU, 5)]

    play(story)


def test_load_fails_when_its_backend_is_missing_and_cannot_be_installed():
    async def story(scene: JobScene) -> None:
        await scene.load("j1", build=None)
        end = await scene.end_of("j1")
        assert (end.state, end.error_code) == ("failed", "not_installed")
        assert scene.files.fetched == 0

    play(story)


def test_load_of_what_runs_already_is_done_at_once_and_touches_nothing():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        await scene.load("j1")
        first = await scene.end_of("j1")
        pid = process_of(scene).pid
        hold(scene, JobPhase.STAGING)
        await scene.load("j2")
        again = await scene.end_of("j2", limit_s=0.5)
        assert (again.state, again.result, again.stopped) == ("done", first.result, ())
        assert process_of(scene).pid == pid
        assert len(scene.processes.commands) == 1

    play(story)


def test_load_of_another_revision_or_backend_ends_the_old_process_last_and_names_it():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        scene.installer.put(CUDA)
        await scene.load("j1")
        await scene.end_of("j1")
        old = process_of(scene)
        hold(scene, JobPhase.STAGING)
        await scene.load("j2", revision="r2")
        await scene.clock.sleep(5)
        assert process_of(scene) == old, "until the files are there it goes on"
        let(scene, JobPhase.STAGING)
        end = await scene.end_of("j2")
        assert (end.state, end.stopped) == ("done", (KEY,))
        assert process_of(scene).revision == "r2"
        assert process_of(scene).pid != old.pid
        await scene.load("j3", revision="r2", backend=CUDA, build=wire_build(CUDA))
        assert (await scene.end_of("j3")).stopped == (KEY,)
        assert process_of(scene).backend == CUDA

    play(story)


def test_process_that_cannot_be_ended_keeps_its_place_and_the_load_fails():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        old = scene.processes.run(KEY, CPU)
        scene.processes.immortal.add(KEY)
        await scene.load("j1")
        end = await scene.end_of("j1")
        assert (end.state, end.error_code, end.stopped) == ("failed", "stop_failed", ())
        assert process_of(scene) == old

    play(story)


def test_two_loads_of_one_key_take_turns_and_those_of_others_do_not_wait():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        hold(scene, JobPhase.LOADING)
        await scene.load("j1")
        await reach(scene, JobPhase.LOADING)
        await scene.load("j2", revision="r2")
        await scene.load("j3", model="other", files=(ModelFileItem(path="o", sha256="b" * 64, size_bytes=MIB),))
        assert (await scene.end_of("j3", limit_s=5)).state == "done"
        assert (await scene.get("j2"))["j2"].state == "queued"
        let(scene, JobPhase.LOADING)
        assert (await scene.end_of("j1")).state == "done"
        end = await scene.end_of("j2")
        assert (end.state, end.stopped) == ("done", (KEY,))
        assert process_of(scene).revision == "r2"

    play(story)


def test_files_of_one_model_are_fetched_by_one_job_at_a_time():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        for index in range(3):
            await scene.load(f"j{index}", replica=index)
        stage = StageModel(job_id="s1", model="qwen", revision="r1", files=load_of("x").files, operation_id="o")
        accepted = await scene.ask(subjects.MODEL_STAGE, stage)
        assert (accepted.job.backend, accepted.job.operation_id) == ("", "o")
        for job_id in ("j0", "j1", "j2", "s1"):
            assert (await scene.end_of(job_id)).state == "done"
        assert scene.files.fetched == 8 * MIB
        assert scene.files.most_on_one == 1

    play(story)


@pytest.mark.parametrize("phase", list(HELD))
@pytest.mark.parametrize("keeps_partial", [True, False])
def test_load_that_is_cancelled_in_any_phase_leaves_no_process_and_keeps_what_is_verified(
    phase: JobPhase, *, keeps_partial: bool
):
    async def story(scene: JobScene) -> None:
        hold(scene, phase)
        await scene.load("j1")
        await reach(scene, phase)
        await scene.cancel("j1", keeps_partial=keeps_partial)
        end = await scene.end_of("j1", limit_s=20)
        assert end.state == ("paused" if keeps_partial else "cancelled")
        assert scene.processes.table == {}
        assert (scene.files.fetched == 8 * MIB) == (phase is JobPhase.LOADING)
        # The next one goes on from there.
        scene.processes.gates = scene.files.gates = type(scene.files.gates)()
        if phase is JobPhase.DOWNLOADING:
            let(scene, phase)
        await scene.load("j2")
        assert (await scene.end_of("j2")).state == "done"
        assert scene.files.fetched == 8 * MIB

    play(story)


def test_load_that_is_cancelled_while_it_waits_leaves_the_other_process_alone():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        hold(scene, JobPhase.LOADING)
        await scene.load("j1")
        await scene.load("j2")
        await reach(scene, JobPhase.LOADING)
        await scene.cancel("j2")
        assert (await scene.end_of("j2", limit_s=20)).state == "cancelled"
        let(scene, JobPhase.LOADING)
        assert (await scene.end_of("j1")).state == "done"
        assert process_of(scene).job_id == "j1"
        # After the end there is nothing to cancel.
        await scene.cancel("j1")
        assert process_of(scene).job_id == "j1"

    play(story)


def test_cancellation_that_a_kill_interrupted_ends_the_process_that_the_next_worker_has_adopted():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        hold(scene, JobPhase.LOADING)
        await scene.load("j1")
        await reach(scene, JobPhase.LOADING)
        record = scene.disk.jobs["j1"]
        await scene.kill()
        scene.disk.jobs["j1"] = replace(record, stop=JobStopReason.CANCEL)
        await scene.start(on_bus=False)
        made = scene.processes.run(KEY, CPU, state="starting")
        scene.processes.table[KEY] = replace(made, revision="r1", job_id="j1")
        other = scene.processes.run("qwen#1", CPU)
        await scene.join()
        await scene.until(lambda: JobState(scene.disk.jobs["j1"].event.state).is_final)
        assert scene.disk.jobs["j1"].event.state == "cancelled"
        assert list(scene.processes.table.values()) == [other]

    play(story)


@pytest.mark.parametrize("phase", list(HELD))
def test_worker_that_is_killed_in_any_phase_goes_on_with_the_load(phase: JobPhase):
    async def story(scene: JobScene) -> None:
        hold(scene, phase)
        await scene.load("j1")
        await reach(scene, phase)
        await scene.until(lambda: scene.list_events("j1")[-1:] != [])
        last_before = scene.list_events("j1")[-1]
        await scene.kill()
        await scene.start()
        end = await scene.end_of("j1")
        assert (end.state, end.percent) == ("done", 100.0)
        assert end.seq > last_before.seq
        assert process_of(scene).job_id == "j1"
        job_events = scene.list_events("j1")
        assert [event.percent for event in job_events] == sorted(event.percent for event in job_events)
        # Sent once more it is the same job.
        assert (await scene.load("j1")).job == end
        assert len(scene.processes.commands) == 1

    play(story)


def test_load_whose_process_was_adopted_is_done_at_once():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        hold(scene, JobPhase.LOADING)
        await scene.load("j1")
        await reach(scene, JobPhase.LOADING)
        await scene.kill()
        await scene.start(on_bus=False)
        # As the supervisor does, which starts before the jobs.
        made = scene.processes.run(KEY, CPU)
        scene.processes.table[KEY] = replace(made, revision="r1", job_id="j1")
        await scene.join()
        assert (await scene.end_of("j1")).result["address"] == made.address
        assert scene.processes.commands == []

    play(story)


def test_failure_in_any_phase_is_reported_with_its_code_and_ends_that_job_only():
    async def story(scene: JobScene) -> None:
        running = scene.processes.run("other#0", CUDA)
        for phase, part in HELD.items():
            name = f"j {phase}"
            error = Unprocessable(f"trouble while {phase}", code="engine_failed")
            getattr(scene, part).gates.fail(NAMES[phase], phase, error)
            await scene.load(name)
            end = await scene.end_of(name)
            reported = (end.state, end.error_code, end.error_text)
            assert reported == ("failed", "engine_failed", f"trouble while {phase}")
        assert list(scene.processes.table.values()) == [running]
        await scene.load("at last")
        assert (await scene.end_of("at last")).state == "done"

    play(story)


def test_load_that_takes_too_long_names_the_budget_the_size_and_the_setting():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        words = "qwen#0 was not ready after 340 s.\n    loading tensors"
        scene.processes.gates.fail(KEY, JobPhase.LOADING, Unprocessable(words, code="load_timeout"))
        await scene.load("j1", files=(ModelFileItem(path="m", sha256="c" * 64, size_bytes=2048 * MIB),))
        end = await scene.end_of("j1")
        assert (end.state, end.error_code) == ("failed", "load_timeout")
        assert end.error_text == (
            "qwen#0 was not ready after 340 s. That is what it was given for 2,048 MiB of files; "
            "load_timeout of the model gives it longer.\n    loading tensors"
        )

    play(story)


def test_bar_of_a_load_moves_with_the_bytes_of_the_engine_and_of_the_files():
    async def story(scene: JobScene) -> None:
        scene.files.bytes_per_s = scene.installer.bytes_per_s = MIB
        big = (ModelFileItem(path="m", sha256="d" * 64, size_bytes=24 * MIB),)
        await scene.load("j1", files=big, build=wire_build(CPU, size_bytes=8 * MIB))
        await scene.end_of("j1")
        job_events = scene.list_events("j1")
        percents = [event.percent for event in job_events]
        assert percents == sorted(percents)
        fetched = max(event.percent for event in job_events if event.phase == JobPhase.DOWNLOADING)
        staged = max(event.percent for event in job_events if event.phase == JobPhase.STAGING)
        # A quarter of ninety, then the rest of it.
        assert 18 <= fetched <= 22.5
        assert 85 <= staged <= 90
        half = [
            event.percent for event in job_events if event.current_bytes == 12 * MIB and event.phase == JobPhase.STAGING
        ]
        assert half
        assert 50 <= half[0] <= 60

    play(story)


def test_load_that_fetches_nothing_has_the_whole_bar_for_the_start():
    assert compute_load_windows(0, 0).starting == (0.0, 100.0)
    windows = compute_load_windows(0, 10)
    assert (windows.installing, windows.staging, windows.starting) == ((0.0, 0.0), (0.0, 90.0), (90.0, 100.0))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"model": ""}, "invalid_process_key"),
        ({"replica": -1}, "invalid_process_key"),
        ({"revision": ""}, "invalid_request"),
        ({"backend": ""}, "invalid_request"),
        ({"entry": "../x"}, "bad_entry"),
        ({"entry": "/etc/passwd"}, "bad_entry"),
        ({"build": {"name": "x"}}, "bad_gallery"),
    ],
)
def test_load_that_makes_no_sense_is_refused(changes: dict[str, object], code: str):
    async def story(scene: JobScene) -> None:
        with pytest.raises(CorralError) as refused:
            await scene.load("j1", **changes)
        assert refused.value.slug in (code, "bad_manifest")
        assert isinstance(refused.value, InvalidRequest | Unprocessable)
        assert (await scene.ask(subjects.JOBS_GET, GetJobs())).jobs == ()

    play(story)


def test_build_that_is_only_there_for_a_load_is_found_under_its_other_names():
    async def story(scene: JobScene) -> None:
        made = wire_build(CPU, alias="llama-cpp")
        hold(scene, JobPhase.DOWNLOADING)
        await scene.load("j1", build=made)
        await reach(scene, JobPhase.DOWNLOADING)
        start = StartBackend(job_id="s1", backend="llama-cpp", model="by hand")
        await scene.ask(subjects.BACKEND_START, start)
        let(scene, JobPhase.DOWNLOADING)
        assert (await scene.end_of("s1")).result["backend"] == CPU

    play(story)


def test_newer_change_of_the_backend_does_not_take_the_place_of_a_load():
    async def story(scene: JobScene) -> None:
        hold(scene, JobPhase.STAGING)
        await scene.load("j1")
        await reach(scene, JobPhase.STAGING)
        await scene.upgrade("j2", 9)
        assert (await scene.end_of("j2")).state == "done"
        let(scene, JobPhase.STAGING)
        end = await scene.end_of("j1")
        assert (end.state, end.result["backend"]) == ("done", CPU)

    play(story)


def test_load_of_an_earlier_process_goes_on_only_after_the_node_is_registered():
    async def story(scene: JobScene) -> None:
        hold(scene, JobPhase.STAGING)
        await scene.load("j1")
        await reach(scene, JobPhase.STAGING)
        await scene.kill()
        await scene.start(is_registered=False)
        await scene.clock.sleep(60.0)
        assert scene.files.gates.reached == []
        await scene.runner.serve_node(NODE)
        assert (await scene.end_of("j1")).state == "done"

    play(story)
