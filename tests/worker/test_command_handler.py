"""Commands other than jobs: what is installed, what runs, logs, stops, and the files of models."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.app.settings import WorkerSettings
from corral.app.worker import compose_worker
from corral.bus import subjects
from corral.bus.messages import (
    CollectBackends,
    DeleteModel,
    ListBackends,
    ListRunning,
    ReadLog,
    StopBackend,
    StopModel,
)
from corral.domain.errors import CorralError, InvalidRequest, NotAllowed, NotFound
from corral.domain.node import NodeType
from corral.domain.operation import JobPhase
from corral.domain.run import RunKind
from corral.worker.command_handler import BackendCommandHandler, RunCommandHandler
from corral.worker.files.model_folders import delete_model
from corral.worker.jobs.garbage_collector import DailyGarbageCollector
from tests.simulation.chance import chance
from tests.worker.job_scene import CPU, CUDA, JobScene, play
from tests.worker.pretend_work import MIB
from tests.worker.scene import Scene
from tests.worker.scene import play as play_membership


def test_list_command_returns_installed_and_removed_backends():
    async def story(scene: JobScene) -> None:
        for job_id, generation, name in (("j1", 4, CPU), ("j2", 9, CUDA)):
            await scene.delete(job_id, generation, name)
            await scene.end_of(job_id)
        scene.installer.put(CPU, "3", alias="llama-cpp", generation=4, size_bytes=5, previous_version="2")
        del scene.disk.removed[CPU]
        listed = await scene.ask(subjects.BACKEND_LIST, ListBackends())
        (item,) = listed.backends
        assert (item.name, item.version, item.alias, item.generation) == (CPU, "3", "llama-cpp", 4)
        assert (item.digest, item.size_bytes, item.previous_version) == ("sha256:3", 5, "2")
        assert (listed.boot_id, listed.removed) == ("boot-1", {CUDA: 9})

    play(story)


def test_running_query_lists_running_processes_and_omits_stopping_ones():
    async def story(scene: JobScene) -> None:
        running = scene.processes.run("qwen#1", CPU)
        scene.processes.run("old#0", CPU, state="stopping")
        answer = await scene.ask(subjects.MODELS_RUNNING, ListRunning())
        assert (answer.boot_id, answer.processes) == ("boot-1", (running,))

    play(story)


def test_list_running_measures_processes_on_request():
    async def story(scene: JobScene) -> None:
        scene.processes.run("qwen#1", CPU)
        (plain,) = (await scene.ask(subjects.MODELS_RUNNING, ListRunning())).processes
        (measured,) = (await scene.ask(subjects.MODELS_RUNNING, ListRunning(measures=True))).processes
        assert (plain.cpu_percent, measured.cpu_percent, measured.ram_bytes) == (None, 50.0, 7)

    play(story)


def test_stop_names_a_backend_or_says_all_and_otherwise_ends_nothing():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU, meta="llama-cpp")
        scene.processes.run("qwen#0", CPU)
        scene.processes.run("mistral#0", CUDA)
        for message in (StopBackend(), StopBackend(force=True), StopBackend(backend=CPU, all=True)):
            with pytest.raises(InvalidRequest) as refused:
                await scene.ask(subjects.BACKEND_STOP, message)
            assert refused.value.slug == "stop_of_what"
        assert len(scene.processes.table) == 2
        # By the meta under which it was installed.
        stopped = await scene.ask(subjects.BACKEND_STOP, StopBackend(backend="llama-cpp"))
        assert (stopped.stopped, stopped.survivors) == (("qwen#0",), ())
        scene.processes.run("wedged#0", CPU)
        scene.processes.immortal.add("wedged#0")
        stopped = await scene.ask(subjects.BACKEND_STOP, StopBackend(all=True))
        assert (stopped.stopped, stopped.survivors) == (("mistral#0",), ("wedged#0",))

    play(story)


def test_slow_stop_and_log_reader_do_not_block_other_commands():
    async def story(scene: JobScene) -> None:
        scene.processes._stop_s = 20.0
        scene.processes.run("slow#0", CPU)
        scene.processes.lines["slow#0"] = []
        asking = [
            scene.loop.create_task(scene.ask(subjects.MODEL_STOP, StopModel(process_key="slow#0"))),
            scene.loop.create_task(scene.ask(subjects.BACKEND_LOGS, ReadLog(key="slow#0", wait_s=5))),
        ]
        await scene.clock.sleep(1)
        began = scene.clock.monotonic()
        assert (await scene.ask(subjects.MODEL_STOP, StopModel(process_key="other#0"))).terminated
        assert (await scene.ask(subjects.BACKEND_LOGS, ReadLog())).keys == ("slow#0",)
        assert scene.clock.monotonic() - began < 2
        for task in asking:
            await task

    play(story)


def test_unused_files_are_listed_in_a_dry_run_and_then_deleted():
    async def story(scene: JobScene) -> None:
        scene.installer.garbage = {f"downloads/{number}.partial": number for number in range(1000)}
        collected = await scene.ask(subjects.BACKEND_COLLECT, CollectBackends(dry_run=True))
        assert len(scene.installer.garbage) == 1000
        assert (collected.count, collected.freed_bytes, len(collected.items)) == (1000, sum(range(1000)), 200)
        assert (collected.items[0].name, collected.items[0].size_bytes) == ("downloads/999.partial", 999)
        assert await scene.ask(subjects.BACKEND_COLLECT, CollectBackends()) == collected
        assert scene.installer.garbage == {}
        assert (await scene.ask(subjects.BACKEND_COLLECT, CollectBackends())).count == 0

    play(story)


def test_worker_throws_away_by_itself_once_a_day_and_goes_on_after_a_failure():
    async def story(scene: JobScene) -> None:
        collection = DailyGarbageCollector(
            (scene.installer, scene.files), scene.clock, chance(scene.loop.seed, "collection")
        )
        scene.installer.garbage = {"downloads/a.partial": 1}
        await collection.start()
        try:
            await scene.until(lambda: scene.installer.collections == 1)
            assert scene.installer.garbage == {}
            await scene.clock.sleep(20 * 3600)
            assert scene.installer.collections == 1
            scene.installer.collect_fault = OSError("the disk is in trouble")
            await scene.clock.sleep(7 * 3600)
            assert (collection.loop.counts.failures, scene.installer.collections) == (1, 1)
            scene.installer.collect_fault = None
            await scene.clock.sleep(27 * 3600)
            assert scene.installer.collections == 2
        finally:
            await collection.stop()

    play(story)


def test_exactly_one_process_is_stopped_and_another_address_is_left_alone():
    async def story(scene: JobScene) -> None:
        running = scene.processes.run("qwen#0", CPU)
        scene.processes.run("qwen#1", CPU)
        stopped = await scene.ask(subjects.MODEL_STOP, StopModel(process_key="qwen#0", expected_address="1.2.3.4:5"))
        assert (stopped.matched, stopped.terminated) == (True, False)
        assert running.address in stopped.problem
        stopped = await scene.ask(
            subjects.MODEL_STOP, StopModel(process_key="qwen#0", expected_address=running.address)
        )
        assert (stopped.matched, stopped.terminated, stopped.address) == (True, True, running.address)
        stopped = await scene.ask(subjects.MODEL_STOP, StopModel(process_key="qwen#0"))
        assert (stopped.matched, stopped.terminated) == (False, True)
        assert list(scene.processes.table) == ["qwen#1"]

    play(story)


def test_lines_of_a_log_are_read_within_bounds():
    async def story(scene: JobScene) -> None:
        scene.processes.lines["qwen#0"] = [f"line {number}" for number in range(1, 5001)]
        page = await scene.ask(subjects.BACKEND_LOGS, ReadLog(key="qwen#0", after=-5, limit=10**9))
        assert (len(page.lines), page.lines[0].number, page.next) == (2000, 1, 2000)
        page = await scene.ask(subjects.BACKEND_LOGS, ReadLog(key="qwen#0", after=4999, limit=0))
        assert [line.text for line in page.lines] == ["line 5000"]
        began = scene.clock.monotonic()
        assert (await scene.ask(subjects.BACKEND_LOGS, ReadLog(key="qwen#0", after=5000, wait_s=1e9))).lines == ()
        assert 5 <= scene.clock.monotonic() - began < 7
        with pytest.raises(NotFound):
            await scene.ask(subjects.BACKEND_LOGS, ReadLog(key="nobody#0"))

    play(story)


@pytest.mark.behaviour("OPS-84")
@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../secret",
        "a/../../secret",
        "/etc",
        "a\x00b",
        "out",
        "out/secret.gguf",
        "out/secret",
        "chain",
        "loop",
        "a/out2/secret.gguf",
        "x" * 5000,
    ],
)
def test_name_that_leads_out_of_the_models_folder_is_refused_and_touches_nothing(tmp_path: Path, name: str):
    models, outside = tmp_path / "models", tmp_path / "outside"
    (models / "a").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.gguf").write_text("keep")
    (tmp_path / "secret").write_text("keep")
    (models / "kept.gguf").write_text("keep")
    (models / "out").symlink_to(outside)
    (models / "a" / "out2").symlink_to(outside)
    (models / "chain").symlink_to(models / "out")
    (models / "loop").symlink_to(models / "loop")
    with pytest.raises(CorralError) as refused:
        delete_model(models, name)
    assert isinstance(refused.value, NotAllowed | InvalidRequest)
    assert (outside / "secret.gguf").read_text() == "keep"
    assert (tmp_path / "secret").read_text() == "keep"
    assert sorted(each.name for each in models.iterdir()) == ["a", "chain", "kept.gguf", "loop", "out"]


@pytest.mark.behaviour("OPS-84")
def test_links_inside_a_model_go_and_what_they_point_to_stays(tmp_path: Path):
    models, outside = tmp_path / "models", tmp_path / "outside"
    (models / "qwen").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.gguf").write_text("keep")
    (models / "qwen" / "weights.gguf").write_text("12345")
    (models / "qwen" / "folder").symlink_to(outside)
    (models / "qwen" / "file").symlink_to(outside / "secret.gguf")
    deleted = delete_model(models, "qwen")
    assert deleted.files == 2
    assert deleted.freed_bytes >= 5
    assert list(models.iterdir()) == []
    assert (outside / "secret.gguf").read_text() == "keep"


def test_model_is_a_folder_or_a_file_with_what_is_called_like_it(tmp_path: Path):
    for name in (
        "qwen.gguf",
        "qwen.yaml",
        "qwen",
        "qwen2.gguf",
        "org/deep/model.gguf",
        "qwen-mmproj.gguf",
        "x[1].gguf",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("12345678")
    (tmp_path / "qwen.cache").mkdir()
    deleted = delete_model(tmp_path, "qwen")
    assert (deleted.model, deleted.files, deleted.freed_bytes) == ("qwen", 3, 24)
    # The second call finds nothing to do.
    assert delete_model(tmp_path, "qwen").files == 0
    assert delete_model(tmp_path, "x[1].gguf").files == 1
    assert delete_model(tmp_path, "org/deep/model.gguf").files == 1
    assert delete_model(tmp_path, "org").files == 0
    left = sorted(each.name for each in tmp_path.iterdir())
    assert left == ["qwen-mmproj.gguf", "qwen.cache", "qwen2.gguf"]


def test_model_is_deleted_over_the_bus_and_that_is_reported():
    async def story(scene: JobScene) -> None:
        scene.installer.put(CPU)
        await scene.load("j1")
        await scene.end_of("j1")
        await scene.load("j2", model="other")
        await scene.end_of("j2")
        woken: list[str] = []
        scene.files.on_change = lambda: woken.append("files")
        deleted = await scene.ask(subjects.MODEL_DELETE, DeleteModel(model="qwen"))
        assert (deleted.model, deleted.files, deleted.freed_bytes) == ("qwen", 1, 0), (
            "another model has the same content"
        )
        assert woken == ["files"]
        deleted = await scene.ask(subjects.MODEL_DELETE, DeleteModel(model="other"))
        assert (deleted.files, deleted.freed_bytes) == (1, 8 * MIB)
        assert (await scene.ask(subjects.MODEL_DELETE, DeleteModel(model="other"))).files == 0

    play(story)


@pytest.mark.parametrize("node_type", list(NodeType))
async def test_agent_node_does_not_subscribe_to_backend_commands(tmp_path: Path, node_type: NodeType):
    settings = WorkerSettings(join="http://127.0.0.1:1", worker_home=tmp_path, node_type=node_type)
    worker = compose_worker(settings)
    await worker.health.stop()
    is_backend = node_type is NodeType.BACKEND
    assert (worker.runner is not None) == is_backend
    kind = BackendCommandHandler if is_backend else RunCommandHandler
    assert isinstance(worker.membership._deps.command_handler, kind)


@pytest.mark.parametrize(
    ("node_type", "max_runs"), [(NodeType.BACKEND, 2), (NodeType.BACKEND, 0), (NodeType.AGENT, 2), (NodeType.AGENT, 0)]
)
async def test_worker_executes_runs_only_if_it_may_have_some(tmp_path: Path, node_type: NodeType, max_runs: int):
    settings = WorkerSettings(join="http://127.0.0.1:1", worker_home=tmp_path, node_type=node_type, max_runs=max_runs)
    worker = compose_worker(settings)
    await worker.health.stop()
    is_backend = node_type is NodeType.BACKEND
    kinds = set(worker.membership._profile.run_kinds)
    # A backend node runs programs, whether it takes other runs or not.
    assert (worker.run_services is not None) == (is_backend or max_runs > 0)
    assert (RunKind.AGENT_TURN in kinds, RunKind.QUANTIZE in kinds) == (max_runs > 0, is_backend)
    if worker.run_services is not None:
        assert worker.run_services.max_runs == max_runs
        assert (worker.run_services.executor.open_program is not None) == is_backend
    takes_commands = node_type is NodeType.BACKEND or max_runs > 0
    assert (worker.membership._deps.command_handler is not None) == takes_commands


class NotedDuties:
    """Duties that note what the worker's membership tells them."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def subscribe(self, bus: object, node_id: str) -> None:
        self.calls.append(f"subscribe {node_id}")

    def on_connect(self) -> None:
        self.calls.append("on bus")

    def on_registered(self) -> None:
        self.calls.append("registered")

    async def on_removed(self) -> None:
        self.calls.append("removed")


@pytest.mark.behaviour("WRK-20")
def test_worker_whose_node_was_removed_ends_its_work_once_and_before_it_registers_again():
    duties = NotedDuties()

    async def story(scene: Scene) -> None:
        scene.duties = duties
        await scene.member()
        tokens, scene.frontend.tokens = scene.frontend.tokens, set()
        scene.frontend.remove(scene.frontend.only_node())
        await scene.clock.sleep(600)
        assert duties.calls.count("removed") == 1
        scene.frontend.tokens = tokens
        await scene.until(lambda: duties.calls.count("registered") == 2)
        assert duties.calls.count("removed") == 1

    play_membership(story)


@pytest.mark.behaviour("WRK-20")
def test_worker_that_was_away_when_its_node_was_removed_ends_its_work_when_it_is_started():
    duties = NotedDuties()

    async def story(scene: Scene) -> None:
        scene.duties = duties
        first = await scene.member()
        await first.stop()
        scene.frontend.tokens.clear()
        scene.frontend.remove(scene.frontend.only_node())
        assert "removed" not in duties.calls
        await scene.started(token=None)
        await scene.until(lambda: "removed" in duties.calls, 60)

    play_membership(story)


@pytest.mark.behaviour("WRK-20")
def test_worker_whose_node_is_merely_not_known_goes_on_with_its_work():
    duties = NotedDuties()

    async def story(scene: Scene) -> None:
        scene.duties = duties
        await scene.member()
        scene.frontend.tokens.clear()
        scene.frontend.lose(scene.frontend.only_node())
        await scene.clock.sleep(600)
        scene.frontend.is_away = True
        await scene.clock.sleep(600)
        assert "removed" not in duties.calls

    play_membership(story)


@pytest.mark.behaviour("WRK-20")
def test_removal_of_the_node_ends_engines_and_throws_away_jobs_under_way():
    async def story(scene: JobScene) -> None:
        scene.processes.run("qwen#0", CPU)
        scene.installer.gates.hold(CPU, JobPhase.CHECKING)
        await scene.install("j1", 1)
        await scene.until(lambda: scene.installer.gates.has_reached(CPU, JobPhase.CHECKING))
        await scene.commands.on_removed()
        ended = await scene.end_of("j1")
        assert (ended.state, scene.processes.table) == ("cancelled", {})

    play(story)


def test_command_handler_starts_before_the_bus_and_is_notified_of_every_registration():
    duties = NotedDuties()

    async def story(scene: Scene) -> None:
        scene.duties = duties
        await scene.member()
        assert duties.calls[0] == "registered"
        assert duties.calls.index("subscribe node-1") < duties.calls.index("on bus")
        scene.frontend.remove(scene.frontend.only_node())
        await scene.until(lambda: duties.calls.count("registered") == 2)
        await scene.until(lambda: duties.calls.count("on bus") == 2)

    play_membership(story)
