"""Jobs from the command to the last word: accepted, in turn, cancelled, replaced, taken up again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.bus import subjects
from corral.bus.messages import BackendCommand, GetJobs, StartBackend
from corral.domain.errors import Conflict, InvalidRequest, Unavailable, Unprocessable
from corral.domain.operation import JobPhase, JobState
from corral.worker.jobs.job import MAX_ENDED
from corral.worker.jobs.journal import JobKind, JournalNotWritten
from corral.worker.jobs.runner import MAX_LIVES
from tests.worker.job_scene import CPU, CUDA, NODE, JobScene, play
from tests.worker.pretend_work import MIB, wire_build

GIB = 1024 * MIB
SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_command_is_in_the_journal_when_it_is_accepted_and_the_work_comes_later(seed: int):
    async def story(scene: JobScene) -> None:
        began_at = scene.clock.monotonic()
        accepted = await scene.install("j1", 1, size_bytes=GIB)
        # Only the way over the network.
        assert scene.clock.monotonic() - began_at < 1
        assert accepted.boot_id == "boot-1"
        assert (accepted.job.state, accepted.job.backend, accepted.job.generation) == ("queued", CPU, 1)
        assert scene.disk.jobs["j1"].event.operation_id == "operation of j1"
        assert scene.disk.installed == {}
        end = await scene.end_of("j1")
        assert (end.state, end.percent, end.result["version"]) == ("done", 100.0, "1")
        assert scene.disk.installed[CPU].generation == 1

    play(story, seed)


def test_command_that_cannot_be_written_down_is_not_accepted():
    async def story(scene: JobScene) -> None:
        scene.journal.fault = JournalNotWritten("The disk is full.")
        with pytest.raises(Unavailable, match="disk is full"):
            await scene.install("j1", 1)
        scene.journal.fault = None
        assert await scene.get() == {}
        await scene.install("j1", 1)
        assert (await scene.end_of("j1")).state == "done"

    play(story)


@pytest.mark.behaviour("JOB-2")
@pytest.mark.parametrize("seed", SEEDS)
def test_repeated_command_is_the_same_job_also_after_its_end_and_after_a_restart(seed: int):
    async def story(scene: JobScene) -> None:
        await scene.install("j1", 1)
        await scene.install("j1", 1)
        end = await scene.end_of("j1")
        assert (await scene.install("j1", 1)).job == end
        await scene.kill()
        await scene.start()
        assert (await scene.install("j1", 1)).job == end
        assert scene.installer.gates.reached == []

    play(story, seed)


def test_older_generation_is_refused_also_after_a_restart_and_when_no_job_of_it_is_left():
    async def story(scene: JobScene) -> None:
        await scene.install("j5", 5)
        await scene.end_of("j5")
        with pytest.raises(Conflict) as refused:
            await scene.delete("j4", 4)
        assert refused.value.slug == "stale_generation"
        # Another backend has a history of its own.
        await scene.install("other", 2, CUDA)
        await scene.end_of("other")
        await scene.kill()
        scene.disk.jobs.clear()
        await scene.start()
        with pytest.raises(Conflict):
            await scene.install("j3", 3)
        # The same generation once more is another attempt at the same thing.
        assert (await scene.install("j5-again", 5)).job.state == "queued"
        assert (await scene.end_of("j5-again")).state == "done"

    play(story)


@pytest.mark.parametrize("seed", SEEDS)
def test_newer_command_takes_the_place_of_the_one_that_runs_and_of_the_one_that_waits(seed: int):
    async def story(scene: JobScene) -> None:
        await scene.install("running", 1, size_bytes=100 * GIB)
        await scene.until(lambda: CPU in "".join(scene.disk.partial))
        await scene.install("waiting", 1, size_bytes=100 * GIB)
        await scene.delete("newer", 2)
        for job_id in ("running", "waiting"):
            end = await scene.end_of(job_id, limit_s=10)
            assert (end.state, end.error_code) == ("cancelled", "replaced")
            assert "newer command" in end.error_text
        assert (await scene.end_of("newer", limit_s=10)).state == "done"
        assert scene.disk.partial == {}
        assert (scene.disk.installed, scene.disk.removed) == ({}, {CPU: 2})

    play(story, seed)


def test_newer_command_goes_on_with_what_the_older_one_has_fetched_of_the_same():
    async def story(scene: JobScene) -> None:
        await scene.install("older", 1, size_bytes=GIB)
        await scene.until(lambda: any(scene.disk.partial.values()))
        await scene.install("newer", 2, size_bytes=GIB)
        await scene.end_of("older")
        assert any(scene.disk.partial.values())
        assert (await scene.end_of("newer")).state == "done"
        assert scene.installer.discarded == []

    play(story)


def test_kill_between_accepting_the_newer_and_stopping_the_older_changes_nothing():
    async def story(scene: JobScene) -> None:
        scene.installer.gates.hold(CPU, JobPhase.DOWNLOADING)
        await scene.install("older", 1)
        await scene.upgrade("newer", 2)
        await scene.kill()
        # As if only the newer job had got to the disk.
        scene.disk.jobs["older"] = replace(scene.disk.jobs["older"], stop=None)
        await scene.start()
        assert (await scene.end_of("older")).error_code == "replaced"
        assert (await scene.end_of("newer")).result["version"] == "2"

    play(story)


@pytest.mark.behaviour("OPS-80")
@pytest.mark.parametrize("seed", SEEDS)
def test_changes_of_one_backend_come_one_after_the_other_under_all_of_its_names(seed: int):
    async def story(scene: JobScene) -> None:
        names = {"meta": "llama-cpp", "alias": "llama"}
        scene.installer.gates.hold(CPU, JobPhase.CHECKING)
        await scene.install("j1", 1, **names)
        await scene.until(lambda: scene.installer.gates.has_reached(CPU, JobPhase.CHECKING))
        # Not installed yet: the name leads to what is being installed.
        by_meta = await scene.ask(
            subjects.BACKEND_ROLLBACK, BackendCommand(job_id="j2", generation=1, backend="llama-cpp")
        )
        by_alias = await scene.delete("j3", 1, "llama")
        assert (by_meta.job.backend, by_alias.job.backend) == (CPU, CPU)
        await scene.clock.sleep(5)
        assert {job_id: event.state for job_id, event in (await scene.get()).items()} == {
            "j1": "running",
            "j2": "queued",
            "j3": "queued",
        }
        scene.installer.gates.open(CPU, JobPhase.CHECKING)
        assert (await scene.end_of("j1")).state == "done"
        assert (await scene.end_of("j2")).error_code in ("nothing_to_roll_back",)
        assert (await scene.end_of("j3")).state == "done"
        assert scene.installer.most_on_one == 1

    play(story, seed)


@pytest.mark.behaviour("OPS-80")
@pytest.mark.parametrize("seed", SEEDS)
def test_different_backends_are_changed_in_parallel_up_to_the_limit(seed: int):
    async def story(scene: JobScene) -> None:
        names = [f"engine-{number}" for number in range(7)]
        for number, name in enumerate(names):
            scene.installer.gates.hold(name, JobPhase.RESOLVING)
            await scene.install(f"j{number}", 1, name)
        # One that waits for its turn takes nobody's slot.
        await scene.install("again", 1, names[0])
        await scene.clock.sleep(5)
        assert scene.installer.most_at_all == scene.max_parallel
        for name in names:
            scene.installer.gates.open(name, JobPhase.RESOLVING)
        for number in range(7):
            assert (await scene.end_of(f"j{number}")).state == "done"
        assert (await scene.end_of("again")).state == "done"
        assert scene.installer.most_at_all == scene.max_parallel
        assert scene.installer.most_on_one == 1
        assert len(scene.runner._locks) == 0

    play(story, seed)


@pytest.mark.behaviour("OPS-82")
@pytest.mark.parametrize("is_wrong", [False, True], ids=["well", "with-an-error"])
def test_upgrade_tells_which_processes_it_ended_and_ends_no_others(is_wrong: bool):
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU, alias="llama-cpp")
        scene.installer.put(CUDA, alias="llama-cpp")
        scene.processes.run("qwen#0", CPU)
        scene.processes.run("qwen#1", CPU)
        scene.processes.run("mistral#0", CUDA)
        scene.installer.gates.hold(CPU, JobPhase.CHECKING)
        if is_wrong:
            scene.installer.gates.fail(CPU, JobPhase.COMMITTING, OSError(28, "No space left on device"))
        await scene.upgrade("j1", 1)
        await scene.until(lambda: scene.installer.gates.has_reached(CPU, JobPhase.CHECKING))
        # Nothing is ended before the new one is ready to take its place.
        assert sorted(scene.processes.table) == ["mistral#0", "qwen#0", "qwen#1"]
        scene.installer.gates.open(CPU, JobPhase.CHECKING)
        end = await scene.end_of("j1")
        assert sorted(end.stopped) == ["qwen#0", "qwen#1"]
        assert (end.state, end.error_code) == (("failed", "disk_full") if is_wrong else ("done", ""))
        assert sorted(scene.processes.table) == ["mistral#0"]
        assert scene.disk.installed[CPU].version == ("1" if is_wrong else "2")

    play(story)


@pytest.mark.behaviour("OPS-82")
@pytest.mark.parametrize("seed", SEEDS)
def test_delete_is_given_up_when_a_process_survives_and_still_tells_which_ended(seed: int):
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        scene.processes.run("qwen#0", CPU)
        scene.processes.run("wedged#0", CPU)
        scene.processes.immortal.add("wedged#0")
        await scene.delete("j1", 1)
        end = await scene.end_of("j1")
        assert (end.state, end.error_code, end.stopped) == ("failed", "stop_failed", ("qwen#0",))
        assert "wedged#0" in end.error_text
        assert CPU in scene.disk.installed
        scene.processes.immortal.clear()
        await scene.delete("j2", 1)
        end = await scene.end_of("j2")
        assert (end.state, end.stopped) == ("done", ("wedged#0",))
        assert scene.disk.installed == {}

    play(story, seed)


@pytest.mark.behaviour("OPS-82")
@pytest.mark.parametrize("seed", SEEDS)
def test_cancellation_during_the_stop_still_tells_which_processes_ended(seed: int):
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        scene.processes.run("qwen#0", CPU)
        scene.processes._stop_s = 3.0
        await scene.upgrade("j1", 1)
        await scene.until(lambda: any(event.phase == JobPhase.STOPPING for event in scene.list_events("j1")))
        await scene.cancel("j1")
        end = await scene.end_of("j1", limit_s=5)
        assert (end.state, end.stopped) == ("cancelled", ("qwen#0",))
        assert scene.disk.installed[CPU].version == "1"

    play(story, seed)


def test_backend_of_the_machine_keeps_its_processes_when_its_removal_is_refused():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU, is_system=True)
        scene.processes.run("qwen#0", CPU)
        await scene.delete("j1", 1)
        end = await scene.end_of("j1")
        assert (end.state, end.error_code, end.stopped) == ("failed", "system_backend", ())
        assert list(scene.processes.table) == ["qwen#0"]

    play(story)


@pytest.mark.behaviour("JOB-5")
@pytest.mark.parametrize("seed", SEEDS)
def test_job_goes_on_after_a_kill_from_the_bytes_that_are_there_and_its_numbers_grow(seed: int):
    async def story(scene: JobScene) -> None:
        await scene.install("j1", 1, size_bytes=2 * GIB)
        await scene.until(lambda: sum(scene.disk.partial.values()) >= GIB)
        await scene.kill()
        there, reserved = sum(scene.disk.partial.values()), scene.disk.jobs["j1"].reserved_seq
        await scene.start()
        assert (await scene.get("j1"))["j1"].seq >= reserved
        end = await scene.end_of("j1")
        assert end.state == "done"
        numbers = [event.seq for event in scene.list_events("j1")]
        assert numbers == sorted(set(numbers))
        assert numbers[0] < reserved < numbers[-1]
        after = (event for event in scene.list_events("j1") if event.seq > reserved)
        first = next(event for event in after if event.current_bytes is not None)
        assert first.current_bytes is not None
        assert first.current_bytes > there
        assert scene.installer.tidied == 1

    play(story, seed)


@pytest.mark.behaviour("JOB-6")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("keeps_partial", [False, True], ids=["cancel", "pause"])
def test_job_that_runs_is_stopped_within_seconds(seed: int, keeps_partial: bool):
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        await scene.install("j1", 1, version="2", force=True, size_bytes=100 * GIB)
        await scene.until(lambda: sum(scene.disk.partial.values()) > 100 * MIB)
        await scene.cancel("j1", keeps_partial=keeps_partial)
        end = await scene.end_of("j1", limit_s=5)
        assert (end.state, end.error_code) == ("paused" if keeps_partial else "cancelled", "")
        assert bool(scene.disk.partial) is keeps_partial
        # What was there stays there.
        assert scene.disk.installed[CPU].version == "1"
        cancelled = await scene.cancel("j1", keeps_partial=keeps_partial)
        assert cancelled.job == end

    play(story, seed)


@pytest.mark.behaviour("JOB-6")
@pytest.mark.parametrize("seed", SEEDS)
def test_job_that_waits_for_its_turn_is_stopped_and_leaves_what_the_other_one_fetches(seed: int):
    async def story(scene: JobScene) -> None:
        await scene.install("first", 1, size_bytes=10 * GIB)
        await scene.until(lambda: bool(scene.disk.partial))
        await scene.install("second", 1, size_bytes=10 * GIB)
        await scene.cancel("second")
        assert (await scene.end_of("second", limit_s=5)).state == "cancelled"
        assert (await scene.end_of("first")).state == "done"
        assert scene.installer.gates.reached.count((CPU, JobPhase.DOWNLOADING)) == 1

    play(story, seed)


@pytest.mark.behaviour("JOB-6")
def test_paused_or_failed_job_that_is_given_up_leaves_no_partial_files():
    async def story(scene: JobScene) -> None:
        await scene.install("paused", 1, size_bytes=10 * GIB)
        await scene.until(lambda: bool(scene.disk.partial))
        await scene.cancel("paused", keeps_partial=True)
        await scene.end_of("paused")
        assert scene.disk.partial
        assert (await scene.cancel("paused")).job is not None
        await scene.until(lambda: not scene.disk.partial)
        assert (await scene.get("paused"))["paused"].state == "cancelled"
        scene.installer.gates.fail(CPU, JobPhase.VERIFYING, Unavailable("It broke.", code="source_unavailable"))
        await scene.install("failed", 1)
        assert (await scene.end_of("failed")).error_code == "source_unavailable"
        assert scene.disk.partial
        await scene.cancel("failed")
        await scene.until(lambda: not scene.disk.partial)
        assert (await scene.get("failed"))["failed"].state == "failed"

    play(story)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["same-life", "next-life"])
def test_command_that_was_overtaken_by_its_cancellation_is_not_begun(is_restarted: bool):
    async def story(scene: JobScene) -> None:
        assert (await scene.cancel("j1")).job is None
        if is_restarted:
            await scene.kill()
            await scene.start()
        accepted = await scene.install("j1", 1)
        assert accepted.job.state == "cancelled"
        await scene.clock.sleep(60)
        assert scene.installer.gates.reached == []
        assert (await scene.get("j1"))["j1"].state == "cancelled"
        # Another job of the same backend is welcome.
        await scene.install("j2", 1)
        assert (await scene.end_of("j2")).state == "done"

    play(story)


def test_worker_answers_for_what_runs_and_for_the_last_fifty_that_ended():
    async def story(scene: JobScene) -> None:
        for number in range(MAX_ENDED + 5):
            await scene.install(f"j{number:02}", number + 1)
            await scene.end_of(f"j{number:02}")
        scene.installer.gates.hold(CUDA, JobPhase.DOWNLOADING)
        await scene.install("running", 1, CUDA)
        await scene.until(lambda: scene.installer.gates.has_reached(CUDA, JobPhase.DOWNLOADING))
        for _ in range(2):
            known = await scene.get()
            assert list(known) == [f"j{number:02}" for number in range(5, MAX_ENDED + 5)] + ["running"]
            assert not JobState(known["running"].state).is_final
            assert set(scene.disk.jobs) == set(known)
            assert await scene.get("j00", "j05", "nobody") == {"j05": known["j05"]}
            await scene.kill()
            await scene.start()
            scene.installer.gates.hold(CUDA, JobPhase.DOWNLOADING)

    play(story)


@pytest.mark.parametrize("seed", SEEDS)
def test_work_goes_on_without_the_bus_and_the_newest_word_is_sent_when_it_is_back(seed: int):
    async def story(scene: JobScene) -> None:
        scene.installer.bytes_per_s = 10 * MIB
        await scene.install("done", 1, size_bytes=100 * MIB)
        await scene.install("running", 1, CUDA, size_bytes=10 * GIB)
        await scene.until(lambda: len(scene.list_events("running")) > 3)
        assert scene.worker_bus is not None
        await scene.worker_bus.stop()
        await scene.clock.sleep(1)
        events_before = len(scene.events)
        await scene.until(lambda: CPU in scene.disk.installed)
        await scene.clock.sleep(10)
        assert len(scene.events) == events_before
        await scene.join()
        assert (await scene.end_of("done", limit_s=5)).state == "done"
        late = scene.events[events_before:]
        assert len([event for event in late if event.job_id == "done"]) == 1
        numbers = [event.seq for event in scene.list_events("running")]
        assert numbers == sorted(numbers)

    play(story, seed)


def test_failure_has_a_code_and_a_sentence_and_ends_that_job_only():
    async def story(scene: JobScene) -> None:
        gates = scene.installer.gates
        gates.fail(CPU, JobPhase.VERIFYING, Unprocessable("The digest is another.", code="digest_mismatch"))
        await scene.install("ours", 1)
        end = await scene.end_of("ours")
        assert (end.error_code, end.error_text) == ("digest_mismatch", "The digest is another.")
        gates.fail(CPU, JobPhase.VERIFYING, ZeroDivisionError("oops"))
        await scene.install("bug", 1)
        end = await scene.end_of("bug")
        assert (end.error_code, end.error_text) == ("internal", "ZeroDivisionError: oops")
        await scene.install("well", 1)
        assert (await scene.end_of("well")).state == "done"
        for command in (
            BackendCommand(job_id="none", generation=2, backend=CPU),
            BackendCommand(job_id="half", generation=2, backend=CPU, build={"name": CPU}),
        ):
            with pytest.raises(Unprocessable) as refused:
                await scene.ask(subjects.BACKEND_INSTALL, command)
            assert refused.value.slug == "bad_manifest"
        for name in ("", "x" * 300):
            with pytest.raises(InvalidRequest):
                await scene.delete("nameless", 2, name)

    play(story)


def test_full_disk_under_the_journal_keeps_no_job_from_its_end():
    async def story(scene: JobScene) -> None:
        await scene.install("j1", 1)
        scene.journal.fault = JournalNotWritten("The disk is full.")
        assert (await scene.end_of("j1")).state == "done"
        # Not on the disk as ended: done once more after a restart, under the same id and with larger numbers.
        last = scene.list_events("j1")[-1].seq
        await scene.kill()
        await scene.start()
        await scene.until(lambda: scene.list_events("j1")[-1].seq > last + 1)
        assert (await scene.end_of("j1")).state == "done"

    play(story)


@pytest.mark.parametrize("keeps_partial", [False, True], ids=["cancel", "pause"])
def test_cancellation_that_a_kill_interrupted_is_honoured_after_the_restart(keeps_partial: bool):
    async def story(scene: JobScene) -> None:
        scene.processes._stop_s = 60
        scene.installer.put(CPU)
        scene.processes.run("qwen#0", CPU)
        await scene.upgrade("j1", 1)
        await scene.until(lambda: any(event.phase == JobPhase.STOPPING for event in scene.list_events("j1")))
        scene.disk.partial["https://files.example/cpu-llama-cpp-2"] = 5
        await scene.cancel("j1", keeps_partial=keeps_partial)
        await scene.kill()
        await scene.start()
        assert (await scene.end_of("j1")).state == ("paused" if keeps_partial else "cancelled")
        await scene.clock.sleep(5)
        assert bool(scene.disk.partial) is keeps_partial
        assert scene.disk.installed[CPU].version == "1"

    play(story)


def test_job_that_takes_the_worker_down_every_time_fails_in_the_end():
    async def story(scene: JobScene) -> None:
        await scene.install("j1", 1, size_bytes=1000 * GIB)
        for _ in range(MAX_LIVES):
            assert not JobState((await scene.get("j1"))["j1"].state).is_final
            await scene.kill()
            await scene.start()
        end = await scene.end_of("j1")
        assert (end.state, end.error_code) == ("failed", "worker_restarted")

    play(story)


def test_engine_is_started_while_another_version_is_fetched_but_not_while_it_is_swapped_in():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        gates = scene.installer.gates
        gates.hold(CPU, JobPhase.DOWNLOADING)
        gates.hold(CPU, JobPhase.COMMITTING)
        await scene.upgrade("upgrade", 1)
        await scene.until(lambda: gates.has_reached(CPU, JobPhase.DOWNLOADING))

        async def start(job_id: str) -> None:
            await scene.ask(subjects.BACKEND_START, StartBackend(job_id=job_id, backend=CPU, model=job_id))

        await start("early")
        end = await scene.end_of("early", limit_s=10)
        assert (end.state, end.result["key"]) == ("done", "early#0")
        gates.open(CPU, JobPhase.DOWNLOADING)
        await scene.until(lambda: gates.has_reached(CPU, JobPhase.COMMITTING))
        await start("late")
        await scene.clock.sleep(20)
        assert (await scene.get("late"))["late"].state == "queued"
        gates.open(CPU, JobPhase.COMMITTING)
        assert (await scene.end_of("late", limit_s=10)).state == "done"
        assert (await scene.end_of("upgrade")).stopped == ("early#0",)

    play(story)


def test_start_waits_for_the_installation_that_it_needs():
    async def story(scene: JobScene) -> None:
        await scene.install("install", 1, size_bytes=10 * GIB)
        await scene.ask(subjects.BACKEND_START, StartBackend(job_id="start", backend=CPU, model="qwen"))
        end = await scene.end_of("start")
        assert (end.state, scene.disk.installed[CPU].version) == ("done", "1")

    play(story)


@pytest.mark.behaviour("OPS-85")
def test_worker_that_stops_takes_no_more_and_keeps_what_runs_for_the_next_start():
    async def story(scene: JobScene) -> None:
        await scene.install("j1", 1, size_bytes=10 * GIB)
        await scene.until(lambda: bool(scene.disk.partial))
        await scene.runner.stop()
        command = BackendCommand(job_id="j2", generation=1, backend=CUDA, build=wire_build(CUDA))
        with pytest.raises(Unavailable) as refused:
            await scene.runner.accept(JobKind.INSTALL, command)
        assert refused.value.slug == "worker_stopping"
        assert not JobState(scene.disk.jobs["j1"].event.state).is_final
        assert scene.disk.partial
        await scene.start()
        assert (await scene.end_of("j1")).state == "done"

    play(story)


def test_worker_that_has_not_read_its_journal_says_so():
    async def story(scene: JobScene) -> None:
        scene.runner._loaded.clear()
        with pytest.raises(Unavailable) as refused:
            await scene.runner.list_jobs(GetJobs())
        assert refused.value.slug == "worker_starting"

    play(story)


def test_machine_that_becomes_another_node_starts_over():
    """Another cluster counts its generations from one; what the last one said must not stand in its way."""

    async def story(scene: JobScene) -> None:
        await scene.install("j1", 70)
        await scene.end_of("j1")
        await scene.delete("gone", 71, CUDA)
        await scene.end_of("gone")
        await scene.cancel("never-came")
        await scene.install("unwanted", 72, "third", size_bytes=100 * GIB)
        held = await scene.runner.get_inventory(NODE)
        assert ([each.generation for each in held.installed], held.removed) == ([70], {CUDA: 71})
        await scene.kill()
        await scene.start(on_bus=False, is_registered=False)
        held = await scene.runner.get_inventory("another-node")
        assert ([each.generation for each in held.installed], held.removed) == ([0], {})
        await scene.until(lambda: JobState(scene.disk.jobs["unwanted"].event.state).is_final)
        assert scene.disk.jobs["unwanted"].event.state == "cancelled"
        command = BackendCommand(job_id="never-came", generation=2, backend=CPU, build=wire_build(version="2"))
        await scene.runner.accept(JobKind.UPGRADE, command)
        await scene.until(lambda: scene.disk.installed[CPU].version == "2")
        await scene.kill()
        await scene.start(on_bus=False, is_registered=False)
        held = await scene.runner.get_inventory("another-node")
        assert [each.generation for each in held.installed] == [2]

    play(story)
