"""Running engines and stored files are reported until the control plane has accepted the report."""

from __future__ import annotations

import pytest
from aiohttp import web

from corral.bus import subjects
from corral.bus.messages import DeleteModel, StageModel
from corral.domain.errors import NotFound
from corral.wire.holdings import BLOBS_MAX, FILES_MAX, HoldingsIn
from corral.worker.control_reporter import HOLDINGS_EVERY_S
from corral.worker.job_ports import HeldModel
from tests.worker.job_scene import CPU, JobScene, load_of, play
from tests.worker.pretend_work import MIB
from tests.worker.standin import PretendNode
from tests.worker.test_http_control_plane import control_of, refusal, served

NODE_ID = "node-1"


async def _member(scene: JobScene) -> None:
    node = PretendNode(id=NODE_ID, name="gpu-a", credential="c", boot_id="b", is_approved=True)
    scene.frontend.nodes["gpu-a"] = node
    scene.holdings.get_node_id = lambda: NODE_ID
    await scene.holdings.start()
    await scene.until(lambda: bool(scene.frontend.holdings))


def test_every_change_of_processes_and_files_is_reported_at_once_and_everything_again():
    async def story(scene: JobScene) -> None:
        await _member(scene)
        assert scene.frontend.holdings[-1] == HoldingsIn(boot_id="boot-1")
        scene.installer.put(CPU)
        await scene.load("j1", threads=2)
        await scene.end_of("j1")
        await scene.until(lambda: bool(scene.frontend.holdings[-1].models), limit_s=1)
        report = scene.frontend.holdings[-1]
        (process,), (model,), (blob,) = report.processes, report.models, report.blobs
        running = scene.processes.table["qwen#0"]
        assert (process.key, process.address, process.state) == ("qwen#0", running.address, "ready")
        assert (process.revision, process.engine_key, process.threads) == ("r1", "key of qwen#0", 2)
        assert (process.operation_id, process.ram_bytes, process.vram_bytes) == ("operation of j1", MIB, None)
        assert (model.name, model.revision, model.files[0].path) == ("qwen", "r1", "qwen.gguf")
        assert (blob.sha256, blob.size_bytes, blob.is_whole) == ("a" * 64, 8 * MIB, True)
        assert report.are_files_complete
        await scene.processes.stop_process("qwen#0")
        await scene.until(lambda: not scene.frontend.holdings[-1].processes, limit_s=1)
        before = len(scene.frontend.holdings)
        await scene.clock.sleep(10 * HOLDINGS_EVERY_S)
        assert 8 <= len(scene.frontend.holdings) - before <= 13

    play(story)


def test_files_that_come_and_go_without_a_process_are_reported_at_once():
    async def story(scene: JobScene) -> None:
        await _member(scene)
        stage = StageModel(job_id="s1", model="qwen", revision="r1", files=load_of("x").files)
        await scene.ask(subjects.MODEL_STAGE, stage)
        await scene.until(lambda: bool(scene.frontend.holdings[-1].models), limit_s=2)
        await scene.ask(subjects.MODEL_DELETE, DeleteModel(model="qwen"))
        await scene.until(lambda: not scene.frontend.holdings[-1].models, limit_s=1)
        assert scene.frontend.holdings[-1].blobs == []

    play(story)


def test_report_is_repeated_until_it_is_taken_and_an_old_frontend_is_no_error():
    async def story(scene: JobScene) -> None:
        await _member(scene)
        scene.frontend.is_away = True
        scene.processes.run("qwen#0", CPU)
        await scene.clock.sleep(600)
        assert not scene.frontend.holdings[-1].processes
        scene.frontend.is_away = False
        await scene.until(lambda: bool(scene.frontend.holdings[-1].processes), limit_s=2 * HOLDINGS_EVERY_S)
        scene.frontend.refusals["holdings"] = [NotFound("There is no such route.")]
        before = len(scene.frontend.times("holdings"))
        scene.holdings.wake()
        await scene.clock.sleep(HOLDINGS_EVERY_S / 2)
        assert len(scene.frontend.times("holdings")) == before + 1
        # A new place is told at once.
        scene.commands.on_registered()
        await scene.until(lambda: len(scene.frontend.times("holdings")) == before + 2, limit_s=1)

    play(story)


def test_processes_are_reported_also_when_the_files_cannot_be_read():
    async def story(scene: JobScene) -> None:
        await _member(scene)
        scene.files.holdings_fault = OSError("the disk is gone")
        scene.processes.run("qwen#0", CPU)
        await scene.until(lambda: bool(scene.frontend.holdings[-1].processes), limit_s=1)
        report = scene.frontend.holdings[-1]
        assert (report.models, report.blobs, report.are_files_complete) == ([], [], False)

    play(story)


def test_holdings_above_the_report_limit_are_sent_in_part_and_marked_incomplete():
    async def story(scene: JobScene) -> None:
        files = load_of("x").files * 500
        for number in range(FILES_MAX // 500 + 1):
            scene.disk.models[f"m{number}"] = HeldModel(name=f"m{number}", revision="r", files=files)
        for number in range(BLOBS_MAX + 1):
            scene.disk.blobs[f"{number:064x}"] = (2, 1)
        await _member(scene)
        report = scene.frontend.holdings[-1]
        assert not report.are_files_complete
        assert len(report.blobs) == BLOBS_MAX
        assert not report.blobs[0].is_whole
        assert {len(model.files) for model in report.models} == {500}
        assert len(report.model_dump_json()) < 1024 * 1024

    play(story)


async def test_over_http_the_report_goes_to_the_nodes_own_route_with_its_own_credential():
    bodies: list[dict[str, object]] = []

    async def take(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        return web.Response(status=204)

    report = HoldingsIn(boot_id="b1")
    async with served(take) as site, control_of(site.url) as control:
        await control.report_holdings("n/1", report)
    ((path, key),) = site.seen
    assert path == "/api/node/n/1/holdings"
    assert key is not None
    assert key.startswith("Bearer cn_")
    assert bodies[0]["boot_id"] == "b1"
    async with served(refusal(404, "not_found")) as old, control_of(old.url) as control:
        with pytest.raises(NotFound):
            await control.report_holdings("n1", report)
