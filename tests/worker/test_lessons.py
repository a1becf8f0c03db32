"""What workers of the systems before this one did wrongly; `docs/explanation/lessons.md` has the whole list."""

from __future__ import annotations

import pytest

from corral.bus import subjects
from corral.bus.messages import ListRunning
from tests.worker.job_scene import CPU, JobScene, play


@pytest.mark.behaviour("OPS-82")
def test_installing_and_upgrading_start_no_process():
    async def story(scene: JobScene) -> None:
        await scene.install("j1", 1)
        assert (await scene.end_of("j1")).state == "done"
        await scene.upgrade("j2", 2)
        assert (await scene.end_of("j2")).state == "done"
        assert scene.disk.installed[CPU].version == "2"
        assert scene.processes.table == {}
        assert (await scene.ask(subjects.MODELS_RUNNING, ListRunning())).processes == ()

    play(story)
