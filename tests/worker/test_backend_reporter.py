"""Installed backends are reported until the control plane has accepted the report."""

from __future__ import annotations

import pytest
from aiohttp import web

from corral.domain.errors import NotFound, Unavailable
from corral.wire.backends import BackendsReportIn
from corral.worker.control_reporter import BACKENDS_EVERY_S
from tests.worker.job_scene import CPU, CUDA, JobScene, play
from tests.worker.standin import PretendNode
from tests.worker.test_http_control_plane import control_of, refusal, served

NODE_ID = "node-1"


async def _member(scene: JobScene) -> None:
    node = PretendNode(id=NODE_ID, name="gpu-a", credential="c", boot_id="b", is_approved=True)
    scene.frontend.nodes["gpu-a"] = node
    scene.reports.get_node_id = lambda: NODE_ID
    await scene.reports.start()
    await scene.until(lambda: bool(scene.frontend.reports))


def test_every_change_is_reported_at_once_and_everything_every_minute():
    async def story(scene: JobScene) -> None:
        await _member(scene)
        assert scene.frontend.reports[-1].backends == []
        await scene.install("j1", 3)
        await scene.end_of("j1")
        await scene.until(lambda: bool(scene.frontend.reports[-1].backends), limit_s=1)
        (reported,) = scene.frontend.reports[-1].backends
        assert (reported.name, reported.version, reported.generation) == (CPU, "1", 3)
        await scene.delete("j2", 4)
        await scene.end_of("j2")
        await scene.until(lambda: scene.frontend.reports[-1].removed == {CPU: 4}, limit_s=1)
        assert scene.frontend.reports[-1].backends == []
        assert scene.frontend.reports[-1].boot_id == "boot-1"
        before = len(scene.frontend.reports)
        await scene.clock.sleep(10 * BACKENDS_EVERY_S)
        assert 8 <= len(scene.frontend.reports) - before <= 13

    play(story)


def test_report_is_repeated_until_it_is_taken_and_not_too_often():
    async def story(scene: JobScene) -> None:
        await _member(scene)
        scene.frontend.is_away = True
        before = len(scene.frontend.times("backends"))
        await scene.install("j1", 1)
        await scene.end_of("j1")
        await scene.clock.sleep(3600)
        tries = len(scene.frontend.times("backends")) - before
        assert 50 <= tries <= 90
        scene.frontend.is_away = False
        await scene.until(lambda: bool(scene.frontend.reports[-1].backends), limit_s=2 * BACKENDS_EVERY_S)
        # An answer that is lost costs one more report.
        scene.frontend.answers_to_lose = 1
        taken = len(scene.frontend.reports)
        scene.reports.wake()
        await scene.until(lambda: len(scene.frontend.reports) == taken + 2, limit_s=5)

    play(story)


def test_every_registration_is_followed_by_a_report_and_none_comes_before():
    async def story(scene: JobScene) -> None:
        await scene.reports.start()
        await scene.clock.sleep(300)
        assert scene.frontend.times("backends") == []
        scene.frontend.nodes["gpu-a"] = PretendNode(id=NODE_ID, name="gpu-a", credential="c", boot_id="b")
        scene.reports.get_node_id = lambda: NODE_ID
        scene.commands.on_registered()
        await scene.until(lambda: len(scene.frontend.reports) == 1, limit_s=1)
        scene.commands.on_registered()
        await scene.until(lambda: len(scene.frontend.reports) == 2, limit_s=1)

    play(story)


def test_backend_report_ignores_a_missing_route_and_is_repeated_for_an_unknown_node():
    async def story(scene: JobScene) -> None:
        await _member(scene)
        trouble = scene.reports._failure_log
        scene.frontend.refusals["backends"] = [NotFound("There is nothing at /api/node/node-1/backends.")]
        scene.reports.wake()
        await scene.until(lambda: not scene.frontend.refusals["backends"])
        assert trouble.latest is None
        before = len(scene.frontend.times("backends"))
        await scene.clock.sleep(BACKENDS_EVERY_S / 2)
        assert len(scene.frontend.times("backends")) == before
        scene.frontend.refusals["backends"] = [NotFound("Who?", code="node_not_found"), Unavailable("Later.")]
        scene.reports.wake()
        await scene.until(lambda: len(scene.frontend.times("backends")) == before + 3, limit_s=10)
        await scene.until(lambda: trouble.latest is None)

    play(story)


async def test_over_http_the_report_goes_to_the_nodes_own_route_with_its_own_credential():
    bodies: list[object] = []

    async def take(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        return web.Response(status=204)

    report = BackendsReportIn(boot_id="b1", backends=[], removed={CUDA: 7})
    async with served(take) as site, control_of(site.url) as control:
        await control.report_backends("n/1", report)
    ((path, key),) = site.seen
    assert path == "/api/node/n/1/backends"
    assert key is not None
    assert key.startswith("Bearer cn_")
    assert bodies == [{"boot_id": "b1", "backends": [], "removed": {CUDA: 7}}]
    async with served(refusal(404, "not_found")) as old, control_of(old.url) as control:
        with pytest.raises(NotFound):
            await control.report_backends("n1", report)
