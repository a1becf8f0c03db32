"""Jobs that were done when their worker was killed, and of which the journal does not say so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from corral.bus import subjects
from corral.bus.messages import BackendCommand
from corral.domain.backend import Build, InstalledBackend
from corral.domain.operation import JobPhase
from corral.worker.jobs.journal import JournalNotWritten
from tests.worker.job_scene import CPU, JobScene, play


def test_rollback_that_was_done_before_a_kill_is_not_undone_by_doing_it_again():
    async def story(scene: JobScene) -> None:
        await scene.install("j1", 1)
        await scene.end_of("j1")
        await scene.upgrade("j2", 2)
        await scene.end_of("j2")
        back = BackendCommand(job_id="j3", generation=3, backend=CPU)
        scene.installer.gates.hold(CPU, JobPhase.COMMITTING)
        await scene.ask(subjects.BACKEND_ROLLBACK, back)
        scene.journal.fault = JournalNotWritten("Killed.")
        scene.installer.gates.open(CPU, JobPhase.COMMITTING)
        last = (await scene.end_of("j3")).seq
        await scene.kill()
        await scene.start()
        await scene.until(lambda: scene.list_events("j3")[-1].seq > last + 1)
        end = await scene.end_of("j3")
        assert (end.state, end.result["version"]) == ("done", "1")
        assert scene.disk.installed[CPU].version == "1"

    play(story)


def test_upgrade_that_was_done_before_a_kill_ends_no_process_and_fetches_nothing_again():
    async def story(scene: JobScene) -> None:
        await scene.install("j1", 1)
        await scene.end_of("j1")
        await scene.upgrade("j2", 2)
        scene.journal.fault = JournalNotWritten("Killed.")
        last = (await scene.end_of("j2")).seq
        await scene.kill()
        await scene.start()
        await scene.until(lambda: scene.list_events("j2")[-1].seq > last + 1)
        end = await scene.end_of("j2")
        assert (end.state, end.result["version"], end.stopped) == ("done", "2", ())
        assert str(JobPhase.DOWNLOADING) not in [event.phase for event in scene.list_events("j2") if event.seq > last]

    play(story)


@pytest.mark.behaviour("FLT-21")
def test_cancellation_that_comes_after_the_swap_does_not_deny_what_is_installed():
    async def story(scene: JobScene) -> None:
        install = scene.installer.install

        async def tidies_for_long(build: Build, **more: Any) -> InstalledBackend:
            await install(build, **more)
            await asyncio.Event().wait()
            raise AssertionError("it was cancelled before")

        scene.installer.install = tidies_for_long  # type: ignore[method-assign]
        await scene.install("j1", 1)
        await scene.until(lambda: CPU in scene.disk.installed)
        await scene.cancel("j1")
        end = await scene.end_of("j1")
        assert (end.state, end.result["version"]) == ("done", "1")

    play(story)
